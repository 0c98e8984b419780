"""Notebooks in JupyterLab: pictures are there before anything runs; then cells run, a slider moves, the figure follows; a kernel that is busy is waited for, one that ended is missed."""

import json

import pytest

from . import serving
from .acting import drawn, move, nameless, sliders
from .serving import ROOT

playwright = pytest.importorskip("playwright.sync_api")

NOTEBOOKS = {
    "beta": "BetaExplorer",
    "inner_steps": "InnerStepsExplorer",
    "case_study": "CaseStudyExplorer",
    "connectivity": "ConnectivityExplorer",
    "information_bottleneck": "InformationBottleneckExplorer",
    "molecule": "MoleculeExplorer",
    "stability": "StabilityExplorer",
}

# A dialog may ask for a kernel, and what is run before the kernel has answered is dropped: so this waits for both
READY = """async () => {
  const panel = jupyterapp.shell.currentWidget, session = panel.sessionContext;
  await panel.context.ready; await session.ready;
  if (!session.session?.kernel) await session.changeKernel({name: "python3"});
  await session.session.kernel.info;
}"""
RUN = """async (cells) => {
  const {content} = jupyterapp.shell.currentWidget;
  content.activeCellIndex = 0;
  for (let i = 0; i < cells; i++) jupyterapp.commands.execute("notebook:run-cell-and-select-next");
}"""

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


def open_notebook(page, lab, path):
    page.goto(f"{lab}/lab/tree/{path}?reset", wait_until="domcontentloaded")
    page.wait_for_function("() => globalThis.jupyterapp?.shell.currentWidget?.content?.widgets?.length > 1")
    page.add_locator_handler(page.locator(".jp-Dialog .jp-mod-accept").first, lambda accept: accept.click())
    page.evaluate(READY)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lessons/06_one_piece", "0_start_here", "explorers/stability"])
def test_pictures_are_there_before_anything_runs(page, lab, name):
    "A notebook of someone else's is not trusted; its pictures are shown all the same."
    page.goto(f"{lab}/lab/tree/{name}.ipynb?reset", wait_until="domcontentloaded")
    page.locator(".jp-Notebook .jp-Cell").first.wait_for()
    stored = [
        output.get("data", {})
        for cell in json.loads((ROOT / "nbs" / f"{name}.ipynb").read_text())["cells"]
        for output in cell.get("outputs", ())
    ]
    pictures = {
        str(data["image/png"])
        for data in stored
        if "image/png" in data and "application/vnd.plotly.v1+json" not in data
    }
    page.wait_for_function(WALK, arg=len(pictures), polling=120)
    said = "\n".join(page.evaluate("() => [...gibSeen.texts]"))
    assert "node 0 (" not in said and "untrusted SVG" not in said
    assert pictures and page.evaluate("() => gibSeen.pictures.size") >= len(pictures)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "beta" else [pytest.mark.slow]) for name in NOTEBOOKS]
)
def test_the_notebook_shows_an_explorer_that_answers(page, lab, name):
    open_notebook(page, lab, f"explorers/{name}.ipynb")
    page.evaluate(RUN, 4)  # title, module, import and explorer
    drawn(page, NOTEBOOKS[name])
    slider = sliders(page).last
    slider.scroll_into_view_if_needed()
    move(page, slider)
    assert nameless(page) == []
    assert page.problems == []


EXPLORER = "from gib_nb.explorers.model_selection import ModelSelectionExplorer\nModelSelectionExplorer()"
LONG = "import pathlib, time\nwhile not pathlib.Path('end').exists():\n    time.sleep(.05)"


@pytest.fixture
def notebook(page, tmp_path):
    "A notebook whose second cell runs until there is a file named end; the page that shows it, and its folder."
    folder = tmp_path / "notebooks"
    folder.mkdir()
    cells = [
        {
            "cell_type": "code",
            "id": f"cell{i}",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": source,
        }
        for i, source in enumerate((EXPLORER, LONG))
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    (folder / "busy.ipynb").write_text(
        json.dumps({"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5})
    )
    with serving.lab_server(tmp_path, folder) as lab:
        open_notebook(page, lab, "busy.ipynb")
        yield page, folder
        (folder / "end").touch()


@pytest.mark.slow
def test_an_explorer_waits_for_a_kernel_that_runs_another_cell(notebook):
    page, folder = notebook
    page.evaluate(RUN, 2)
    waiting = page.get_by_text("waiting for the kernel, which is running another cell …")
    waiting.first.wait_for()
    (folder / "end").touch()
    drawn(page, "ModelSelectionExplorer")
    assert waiting.count() == 0
    move(page, sliders(page).last)
    assert page.locator(".gib-trouble").count() == 0 and page.problems == []


@pytest.mark.slow
def test_an_explorer_says_that_its_kernel_has_ended(notebook):
    "Also while it waits for it; run again, it is as good as new."
    page, folder = notebook
    page.evaluate(RUN, 2)
    page.get_by_text("waiting for the kernel, which is running another cell …").first.wait_for()
    page.evaluate("() => { jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart(); }")
    gone = page.get_by_text("The kernel has ended")
    gone.wait_for()
    (folder / "end").touch()
    page.evaluate(READY)
    page.evaluate(RUN, 1)
    drawn(page, "ModelSelectionExplorer")
    gone.wait_for(state="detached")
    move(page, sliders(page).last)
    assert page.problems == []


def test_the_bar_of_a_lesson_moves_when_an_exercise_is_solved(page, lab):
    open_notebook(page, lab, "lessons/01_bits.ipynb")
    page.evaluate("() => jupyterapp.commands.execute('notebook:insert-cell-below')")
    page.evaluate(
        """() => { const {content} = jupyterapp.shell.currentWidget;
        content.activeCell.model.sharedModel.setSource("from gib_nb.exercises import check, progress\\nprogress(1)"); }"""
    )
    page.evaluate("() => jupyterapp.commands.execute('notebook:run-cell-and-insert-below')")
    bar = page.locator(".jp-Cell [aria-label^='Lesson 1: ']").first
    bar.wait_for()
    page.evaluate(
        """() => jupyterapp.shell.currentWidget.content.activeCell.model.sharedModel.setSource("check('half_of_xor', 0)")"""
    )
    page.evaluate("() => jupyterapp.commands.execute('notebook:run-cell')")
    page.locator(".jp-Cell [aria-label='Lesson 1: 1 of 5 exercises solved']").first.wait_for()
