"""The one-file export: it needs neither kernel nor network."""

import pytest

from gib_nb.explorers.page import static_page
from gib_nb.explorers.registry import EXPLORERS

from .acting import PATIENCE_MS, unreadable

SHOWN = "() => [...document.querySelectorAll('.gib-panel')].map((e) => e.data ? JSON.stringify([e.data, e.layout.shapes]) : e.innerHTML).join()"
OVER = {
    "beta": ("beta", "seed"),
    "case_study": ("inner_steps", "epoch"),
    "connectivity": ("node_3", "node_4", "softness"),
    "bits": ("wrong_zero", "wrong_one"),
    "edges": ("method", "ratio"),
    "model_selection": ("graphs", "number"),
}  # of explorers with too many combinations
START = {"cheating": {"cheat": "position"}}  # where the last slider changes something


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "connectivity" else [pytest.mark.slow])
        for name in EXPLORERS
        if name != "molecule"
    ],
)
def test_the_file_answers_offline(page, tmp_path, name):
    file = tmp_path / "explorer.html"
    EXPLORERS[name](**START.get(name, {})).to_html(file, over=OVER.get(name))
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
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("inner_steps", marks=pytest.mark.slow),
        "information_bottleneck",
        pytest.param("stability", marks=pytest.mark.slow),
    ],
)
def test_words_are_readable_in_both_themes(browser, tmp_path, name, scheme):
    (tmp_path / "explorer.html").write_text(static_page(EXPLORERS[name](), now=True))
    context = browser.new_context(viewport={"width": 1366, "height": 768}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto((tmp_path / "explorer.html").as_uri())
    page.wait_for_function("() => document.body.dataset.height")
    ink = "() => getComputedStyle(document.querySelector('.gib-explorer')).color"
    assert (
        unreadable(page) == []
        and page.evaluate(ink) == {"light": "rgb(34, 34, 34)", "dark": "rgb(230, 230, 230)"}[scheme]
    )
    page.evaluate(
        "() => { document.body.dataset.jpThemeLight = 'false'; }"
    )  # the theme of JupyterLab comes before that of the system
    assert page.evaluate(ink) == "rgb(230, 230, 230)"
    context.close()
