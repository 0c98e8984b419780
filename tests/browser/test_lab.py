"""Each explorer's notebook in JupyterLab: its cells run, a slider moves, the figure follows."""
import json

import pytest

from .acting import READY, move, nameless, sliders
from .serving import ROOT

playwright = pytest.importorskip("playwright.sync_api")

NOTEBOOKS = ("beta", "inner_steps", "case_study", "connectivity", "information_bottleneck", "molecule", "stability")

# Cells out of sight are not drawn: scroll round and round, and note every picture and every text of an output, until there are so many pictures
WALK = """(number) => {
  const seen = globalThis.gibSeen ??= {pictures: new Set(), texts: new Set()}, box = document.querySelector(".jp-WindowedPanel-outer");
  for (const e of document.querySelectorAll(".jp-OutputArea-output")) seen.texts.add(e.textContent);
  for (const e of document.querySelectorAll(".jp-OutputArea-output img")) if (e.naturalWidth > 50 && e.clientHeight > 20) seen.pictures.add(e.src);
  const end = box.scrollTop + box.clientHeight >= box.scrollHeight - 2;
  seen.rounds = (seen.rounds ?? 0) + end;
  box.scrollTop = end ? 0 : box.scrollTop + 250;
  return seen.rounds > 0 && (seen.pictures.size >= number || seen.rounds > 5);
}"""


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
    stored = [output.get("data", {}) for cell in json.loads((ROOT / "nbs" / f"{name}.ipynb").read_text())["cells"] for output in cell.get("outputs", ())]
    pictures = {str(data["image/png"]) for data in stored if "image/png" in data and "application/vnd.plotly.v1+json" not in data}
    page.wait_for_function(WALK, arg=len(pictures), polling=120)
    said = "\n".join(page.evaluate("() => [...gibSeen.texts]"))
    assert "node 0 (" not in said and "untrusted SVG" not in said
    assert pictures and page.evaluate("() => gibSeen.pictures.size") >= len(pictures)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_notebook_shows_an_explorer_that_answers(page, lab, name):
    page.goto(f"{lab}/lab/tree/explorers/{name}.ipynb?reset", wait_until="domcontentloaded")
    run_first_cells(page)
    slider = sliders(page).last
    slider.scroll_into_view_if_needed()
    move(page, slider)
    assert nameless(page) == []
    assert page.problems == []
