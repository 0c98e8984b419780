"""Slides in a browser: every slide fits, or can be scrolled; an explorer on one of them answers."""

import importlib.util
import subprocess
import sys

import pytest

from .serving import ROOT

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("nbconvert")
if importlib.util.find_spec("sphinx_revealjs") is None:
    pytest.skip("reveal.js not found: install the extra slides", allow_module_level=True)


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slides")
    command = [sys.executable, str(ROOT / "docs" / "slides.py"), "1", "--to", str(folder), "--most", "60"]
    subprocess.run(command, check=True, capture_output=True)
    return (folder / "01_bits.html").as_uri()


def test_an_explorer_on_a_slide_answers(page, lesson):
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(lesson)
    page.wait_for_function("() => globalThis.Reveal?.isReady()")
    page.evaluate("""() => {
      const {h, v} = Reveal.getIndices(document.querySelector("iframe.gib-frame").closest("section"));
      Reveal.slide(h, v);
    }""")
    frame = page.frame_locator("iframe.gib-frame")
    slider = frame.locator("input[type=range]").first
    slider.wait_for()
    before = frame.locator("#gib-root").inner_text()
    slider.press("ArrowRight")
    slider.press("ArrowRight")
    playwright.expect(frame.locator("#gib-root")).not_to_have_text(before, use_inner_text=True)
    assert page.problems == [] and not [url for url in requests if url.startswith("http")]
