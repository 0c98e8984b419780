"""A browser, the page and JupyterLab. Without Chromium these tests are skipped, and say so; where CI is set they must run."""

import os
import pathlib
import re

import pytest

from gib_nb.explorers.page import find_chromium

from . import serving
from .acting import PATIENCE_MS

LATE = "[anywidget] Failed to initialize model"  # after two seconds, on a busy machine; figures live with that
LITE = (
    "Shared module @jupyterlite/"  # JupyterLab skips the kernel of the site, which is installed in the same environment
)
SCREENSHOTS = pathlib.Path(__file__).parent / "screenshots"


def pytest_collection_modifyitems(items):
    "These tests wait for states, which a busy machine reaches late."
    for item in items:
        if pathlib.Path(__file__).parent in item.path.parents and "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.timeout(2 * PATIENCE_MS / 1000))


@pytest.fixture(scope="session")
def browser():
    missing = "" if find_chromium() else "no Chromium found: apt-get install chromium, or set GIB_NB_CHROMIUM"
    if missing:
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    pytest.importorskip("playwright.sync_api")
    with serving.chromium() as running:
        yield running


@pytest.fixture(scope="module")
def voila(browser, tmp_path_factory):
    with serving.page_server(tmp_path_factory.mktemp("voila")) as address:
        yield address


@pytest.fixture(scope="module")
def lab(browser, tmp_path_factory):
    with serving.lab_server(tmp_path_factory.mktemp("lab")) as address:
        yield address


@pytest.fixture
def page(browser, request):
    "A page whose errors are collected in `problems`; its last state is kept as a picture."
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.problems = []
    page.on(
        "pageerror",
        lambda error: None if any(text in str(error) for text in (LATE, LITE)) else page.problems.append(str(error)),
    )
    page.set_default_timeout(PATIENCE_MS)
    yield page
    SCREENSHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SCREENSHOTS / (re.sub(r"\W+", "-", request.node.name).strip("-") + ".png"), full_page=True)
    context.close()
