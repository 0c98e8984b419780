"""Each explorer's notebook in JupyterLab: its cells run, a slider moves, the figure follows."""
import pytest

from .acting import READY, move, nameless, sliders

playwright = pytest.importorskip("playwright.sync_api")

NOTEBOOKS = ("beta", "inner_steps", "case_study", "connectivity", "information_bottleneck", "molecule", "stability")

EVERY_CELL = "const box = document.querySelector('.jp-WindowedPanel-outer'); if (box) box.scrollTop = (box.scrollTop + 300) % box.scrollHeight;"  # cells out of sight are not drawn


def run_first_cells(page, rounds=4):
    "Run title, module, import and explorer. JupyterLab asks for a kernel, or drops what is run, before its kernel has answered: then once more."
    page.get_by_text("| Idle").wait_for()
    first, accept = page.locator(".jp-Notebook .jp-Cell").first, page.locator(".jp-Dialog .jp-mod-accept")
    for left in reversed(range(rounds)):
        if accept.is_visible():
            accept.click()
        first.click()
        page.keyboard.press("Escape")
        page.keyboard.press("Control+Home")
        for _ in range(4):
            page.keyboard.press("Shift+Enter")
        try:
            return page.wait_for_function(READY, timeout=25_000)
        except playwright.TimeoutError:
            if not left:
                raise


@pytest.mark.parametrize("name", ["lessons/06_one_piece", "lessons/08_molecules", "start_here", "15_plots", "explorers/stability"])
def test_pictures_are_there_before_anything_runs(page, lab, name):
    "A notebook of someone else's is not trusted; its pictures are shown all the same."
    page.goto(f"{lab}/lab/tree/{name}.ipynb?reset", wait_until="domcontentloaded")
    page.locator(".jp-Notebook .jp-Cell").first.wait_for()
    page.wait_for_function(f"() => {{ {EVERY_CELL} return [...document.querySelectorAll('.jp-OutputArea img')].some((e) => e.naturalWidth > 50 && e.clientHeight > 20); }}")
    said = page.locator(".jp-Notebook").inner_text()
    assert "node 0 (" not in said and "untrusted" not in said


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_notebook_shows_an_explorer_that_answers(page, lab, name):
    page.goto(f"{lab}/lab/tree/explorers/{name}.ipynb?reset", wait_until="domcontentloaded")
    run_first_cells(page)
    slider = sliders(page).last
    slider.scroll_into_view_if_needed()
    move(page, slider)
    assert nameless(page) == []
    assert page.problems == []
