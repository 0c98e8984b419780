"""The one-file export: it needs neither kernel nor network."""
import pytest

import gib_nb.explorers
from gib_nb.explorers.base import static_page

from .acting import unreadable

SHOWN = "() => [...document.querySelectorAll('.gib-panel')].map((e) => e.data ? JSON.stringify([e.data, e.layout.shapes]) : e.innerHTML).join()"
CASES = {"BetaExplorer": ("beta", "seed"), "InnerStepsExplorer": None, "CaseStudyExplorer": ("inner_steps", "epoch"), "ConnectivityExplorer": ("node_3", "node_4", "softness"),
         "InformationBottleneckExplorer": None, "StabilityExplorer": None, "BitsExplorer": ("wrong_zero", "wrong_one"), "EdgesExplorer": ("method", "share"),
         "LuckExplorer": ("graphs", "number")}


@pytest.mark.parametrize("name", CASES)
def test_the_file_answers_offline(page, tmp_path, name):
    file = tmp_path / "explorer.html"
    getattr(gib_nb.explorers, name)().to_html(file, over=CASES[name])
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.context.set_offline(True)
    page.goto(file.as_uri())
    page.wait_for_function("() => document.body.dataset.height")
    before = page.evaluate(SHOWN)
    slider = page.locator("input[type=range]").last
    slider.press("ArrowLeft" if slider.input_value() == slider.get_attribute("max") else "ArrowRight")
    page.wait_for_function(f"(before) => ({SHOWN})() !== before", arg=before)
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert page.problems == []


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.slow), "dark"])
@pytest.mark.parametrize("name", ["InnerStepsExplorer", "InformationBottleneckExplorer", "StabilityExplorer"])
def test_words_are_readable_in_both_themes(browser, tmp_path, name, scheme):
    (tmp_path / "explorer.html").write_text(static_page(getattr(gib_nb.explorers, name)(), now=True))
    context = browser.new_context(viewport={"width": 1366, "height": 768}, color_scheme=scheme)
    page = context.new_page()
    page.goto((tmp_path / "explorer.html").as_uri())
    page.wait_for_function("() => document.body.dataset.height")
    ink = "() => getComputedStyle(document.querySelector('.gib-explorer')).color"
    assert unreadable(page) == [] and page.evaluate(ink) == {"light": "rgb(34, 34, 34)", "dark": "rgb(230, 230, 230)"}[scheme]
    page.evaluate("() => { document.body.dataset.jpThemeLight = 'false'; }")  # the theme of JupyterLab comes before that of the system
    assert page.evaluate(ink) == "rgb(230, 230, 230)"
    context.close()
