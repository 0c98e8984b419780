"""Python in the browser: lessons and explorers of the site run on a page, without a server of Jupyter and without a network.

They need the runtime of Pyodide in the folder GIB_NB_PYODIDE, and are skipped without it.
"""

import importlib.util
import mimetypes
import os
import pathlib
import re
import sys

import pytest

from . import serving
from .acting import PATIENCE_MS, changes, drawn, run_all, sliders

playwright = pytest.importorskip("playwright.sync_api")
playwright.expect.set_options(timeout=PATIENCE_MS)
RUNTIME = os.environ.get("GIB_NB_PYODIDE")
ERRORS = '.jp-RenderedText:is([data-mime-type$="stderr"], [data-mime-type$="error"])'
pytestmark = [
    pytest.mark.skipif(not RUNTIME, reason="expected Pyodide's runtime in a folder GIB_NB_PYODIDE (got none)"),
    pytest.mark.skipif(
        importlib.util.find_spec("jupyterlite_pyodide_kernel") is None, reason="the site needs the extra docs"
    ),
]


@pytest.fixture(scope="module")
def lite():
    sys.path.insert(0, str(serving.ROOT / "docs"))
    try:
        import lite

        return lite
    finally:
        sys.path.pop(0)


@pytest.fixture(scope="module")
def site(browser, lite, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lite")
    lite.build(folder / "source", folder / "site" / "lite", pathlib.Path(RUNTIME))
    with serving.file_server(folder / "site") as address:
        yield address


@pytest.fixture
def page(page, site):
    "A page that asks nobody but the server of files."
    page.asked = []
    page.on("request", lambda request: page.asked.append(request.url))
    yield page
    elsewhere = [url for url in page.asked if not url.startswith((site, "blob:", "data:", "attachment:"))]
    assert elsewhere == [] and page.problems == []


def open_lesson(page, site, lite, number):
    path = next((serving.ROOT / "nbs" / "lessons").glob(f"{number:02}_*.ipynb"))
    page.goto(f"{site}/{lite.notebook_link(path)}", wait_until="domcontentloaded")
    run_all(page)


def test_lesson_1_runs_and_checks_answers(page, site, lite):
    open_lesson(page, site, lite, 1)
    assert page.locator(ERRORS).all_inner_texts() == []
    page.locator(".jp-Notebook .gib-plot[data-rev]").first.wait_for(state="attached")
    question = page.locator(".jp-OutputArea-output", has_text="How many bits of information about the label").last
    field = question.locator("input")
    field.fill("1")
    field.press("Enter")
    playwright.expect(question).to_contain_text("✗")
    field.fill("0")
    field.press("Enter")
    playwright.expect(question).to_contain_text("✓")


def test_a_slider_of_the_beta_explorer_moves(page, site, lite):
    page.goto(f"{site}/{lite.explorer_link('BetaExplorer(beta=0.1)', '')}", wait_until="domcontentloaded")
    drawn(page)
    assert page.locator(ERRORS).all_inner_texts() == []
    before = sliders(page).first.get_attribute("aria-valuetext")
    changes(page, lambda: sliders(page).first.press("ArrowRight"))
    assert sliders(page).first.get_attribute("aria-valuetext") != before
    page.get_by_role("button", name="Train live").click()
    page.get_by_text(re.compile("needs PyTorch.*install gib_nb on a computer")).wait_for()


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 3, 4, 6, 10])
def test_other_lessons_run(page, site, lite, number):
    open_lesson(page, site, lite, number)
    assert page.locator(ERRORS).all_inner_texts() == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ConnectivityExplorer", "StabilityExplorer", "ModelSelectionExplorer"])
def test_other_explorers_open(page, site, lite, name):
    page.goto(f"{site}/{lite.explorer_link(f'{name}()', '')}", wait_until="domcontentloaded")
    drawn(page, name)
    assert page.locator(ERRORS).all_inner_texts() == []


@pytest.mark.slow
def test_without_a_folder_python_comes_from_its_public_address(browser, lite, tmp_path):
    "The public address is played by the folder."
    lite.build(tmp_path / "source", tmp_path / "site" / "lite")
    context, asked = browser.new_context(), []

    def answer(route):
        asked.append(route.request.url.removeprefix(lite.CDN))
        file, kind = pathlib.Path(RUNTIME) / asked[-1], mimetypes.guess_type(asked[-1])[0]
        headers = {"access-control-allow-origin": "*", "content-type": kind or "application/octet-stream"}
        route.fulfill(path=file, headers=headers)

    context.route(f"{lite.CDN}**", answer)
    with serving.file_server(tmp_path / "site") as address:
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(f"{address}/{lite.explorer_link('BitsExplorer()', '')}", wait_until="domcontentloaded")
        drawn(page, "BitsExplorer")
    context.close()
    assert {"pyodide.js", "pyodide.asm.wasm", "pyodide-lock.json"} <= set(asked)
    assert any(name.startswith("numpy") for name in asked) and not any(name.startswith("gib_nb") for name in asked)
