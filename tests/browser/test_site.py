"""The site in a browser, at the width of a desk and of a phone."""
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = ["index", "equations", "nbs/start_here", "nbs/lessons/02_bottleneck", "nbs/lessons/06_one_piece", "nbs/lessons/teaching", "nbs/explorers/molecule", "nbs/experiments/classification", "nbs/01_mi", "api/trainer"]
WIDTHS = {"desk": 1400, "phone": 390}


@pytest.fixture(scope="module")
def site(browser, tmp_path_factory):
    pytest.importorskip("myst_nb", reason="the site needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, str(ROOT / "docs" / "build.py"), "--most", "60", "--to", str(folder)], check=True, capture_output=True)
    return folder / "html"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_and_needs_no_network(page, site, name, width):
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.set_viewport_size({"width": WIDTHS[width], "height": 900})
    page.goto((site / f"{name}.html").as_uri())
    page.wait_for_function("() => !document.querySelector('.gib-figure') || document.querySelector('.gib-figure .main-svg')")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= WIDTHS[width] + 2
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == [] and page.problems == []


def test_an_explorer_in_a_lesson_moves(page, site):
    page.goto((site / "nbs/lessons/02_bottleneck.html").as_uri())
    page.locator("iframe.gib-frame").scroll_into_view_if_needed()
    frame = page.frame_locator("iframe.gib-frame")
    slider = frame.locator("input[type=range]")
    slider.wait_for()
    before = frame.locator("output").inner_text()
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(300)
    assert frame.locator("output").inner_text() != before
    high = page.locator("iframe.gib-frame").evaluate("(e) => [e.clientHeight, e.style.height]")
    assert high[1] and abs(high[0] - float(high[1][:-2])) < 5 and page.problems == []  # the frame has taken the height of what is in it


def test_a_question_opens_without_a_kernel(page, site):
    page.goto((site / "nbs/lessons/06_one_piece.html").as_uri())
    answer = page.locator("details", has_text="nowhere, since the loss is 0 there")
    answer.locator("summary").click()
    assert answer.locator("[role=status]").is_visible() and "far from 0" in answer.inner_text()
