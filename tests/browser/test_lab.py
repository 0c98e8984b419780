"""Each explorer's notebook in JupyterLab: its cells run, a slider moves, the figure follows."""
import pytest

from .acting import READY, move, nameless, sliders

NOTEBOOKS = ("beta", "inner_steps", "case_study", "connectivity", "information_bottleneck", "molecule", "stability")


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_notebook_shows_an_explorer_that_answers(page, lab, name):
    page.goto(f"{lab}/lab/tree/explorers/{name}.ipynb?reset", wait_until="domcontentloaded")
    cell = page.locator(".jp-Notebook .jp-CodeCell").nth(1)
    cell.wait_for()
    page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status=idle]", state="attached")  # the kernel hears what is pressed
    page.locator(".jp-Notebook .jp-Cell").first.click()
    page.keyboard.press("Escape")
    for _ in range(4):  # title, module, import and explorer
        page.keyboard.press("Shift+Enter")
    page.wait_for_function(READY, timeout=90_000)
    slider = sliders(page).last
    slider.scroll_into_view_if_needed()
    move(page, slider)
    assert nameless(page) == []
    assert page.problems == []
