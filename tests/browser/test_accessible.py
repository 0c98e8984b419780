"""On a phone, in the dark, by keyboard and by ear: axe-core finds no violation of WCAG 2.2 AA, nothing scrolls sideways, and every control and picture has words."""

import functools
import importlib.resources
import os

import pytest

from gib_nb.explorers.registry import CLASSES, EXPLORERS, TITLES
from gib_nb.report.html import page as report_page
from gib_nb.report.html import paragraph, plots, table, warning

from .acting import PATIENCE_MS, drawn, nameless, sliders
from .serving import build_site, file_server

WIDTHS, SCHEMES = (390, 768, 1280), ("light", "dark")
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
RUN = """(tags) => axe.run(document, {runOnly: tags, rules: {"target-size": {enabled: true}}, resultTypes: ["violations"]}).then(({violations}) =>
  violations.flatMap(({id, nodes}) => nodes.map(({target, html}) => `${id}: ${target.flat().join(" ")} ${html.slice(0, 120)}`)))"""
# elements that reach over the right edge of the page, other than what is in a box that scrolls or in a closed side bar
OVER = """() => [...document.querySelectorAll("body *")].filter((e) => {
  if (!e.offsetParent || e.closest("aside") || e.getBoundingClientRect().right <= innerWidth + 1) return false;
  for (let up = e; up; up = up.parentElement) if (up.tabIndex === 0 || up.closest("svg")) return false;
  return true;
}).map((e) => e.outerHTML.slice(0, 120))"""


@functools.cache
def axe_js():
    "The source of axe-core, as it ships with a package for Python."
    try:
        return (importlib.resources.files("axe_playwright_python") / "axe.min.js").read_text()
    except ModuleNotFoundError:
        missing = "no axe-core found: pip install axe-playwright-python"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)


def violations(page):
    "What axe-core finds on a page and in its frames."
    for frame in page.frames:
        if not frame.evaluate("() => typeof axe !== 'undefined'"):
            frame.evaluate(axe_js())
    return page.evaluate(RUN, TAGS)


def look(page, width, scheme):
    "A page at a width, in a scheme, after everything has taken its place."
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def fits(page):
    over = page.evaluate(OVER)
    assert over == [] and page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), over
    return True


def check_everywhere(page):
    for scheme in SCHEMES:
        for width in WIDTHS:
            look(page, width, scheme)
            assert violations(page) == [], (width, scheme)
            assert fits(page), (width, scheme)


@pytest.fixture
def phone(browser):
    "A page of a phone: narrow, and moved by fingers."
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    yield page
    context.close()


def choose(page, title):
    "Open an explorer with the menu that stands for the tabs on a narrow page."
    page.get_by_label("Explorer").select_option(title)
    drawn(page, next(name for name, explorer in CLASSES.items() if TITLES[explorer] == title))


TITLES_HERE = [title for name, title in TITLES.items() if name != "molecule"]  # its model takes a while


@pytest.mark.parametrize(
    "titles",
    [("β", "A mask that cheats"), pytest.param(tuple(TITLES_HERE), marks=pytest.mark.slow)],
    ids=["two", "all"],
)
def test_the_page_of_explorers(page, voila, titles):
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto(voila, wait_until="domcontentloaded")
    page.get_by_label("Explorer").wait_for()
    check_everywhere(page)
    for title in titles:
        look(page, 390, "light")
        choose(page, title)
        more = page.locator(".jupyter-widget-Collapse-header:visible")
        if more.count():
            more.press("Enter")  # what folds is opened by keyboard
            assert more.get_attribute("aria-expanded") == "true"
            page.wait_for_function(
                "() => [...document.querySelectorAll('.gib-explorer .gib-plot')].every((e) => !e.offsetParent || e.dataset.rev)"
            )
        check_everywhere(page)
        look(page, 390, "light")
        tops = page.locator(".gib-panels:visible").first.evaluate(
            "(row) => [...row.children].map((e) => [e.offsetTop, e.offsetHeight])"
        )
        assert all(above[0] + above[1] <= below[0] for above, below in zip(tops, tops[1:]))  # one under the other
        assert nameless(page) == []
    assert page.problems == []


def test_fingers_and_keys_move_a_slider_and_the_picture_says_what_it_shows(phone, voila):
    phone.goto(voila, wait_until="domcontentloaded")
    phone.get_by_label("Explorer").wait_for()
    choose(phone, "Classical bottleneck")
    assert phone.get_by_role("tab").locator("visible=true").count() == 0
    handle = sliders(phone).first
    box = handle.bounding_box()
    assert min(box["width"], box["height"]) >= 32 and handle.get_attribute("aria-label") == "β"
    picture = phone.locator(".gib-explorer .gib-plot:visible").first
    before = picture.get_attribute("aria-label")
    assert "relevance I(Y;T), nats against complexity I(X;T), nats; the ring is at 0.661 at 1.06; " in before
    handle.focus()
    assert handle.evaluate("(e) => getComputedStyle(e).outlineStyle") == "solid"  # the focus is seen
    assert phone.locator(".gib-said").get_attribute("aria-live") == "polite"
    handle.press("ArrowRight")
    phone.wait_for_function(
        "(before) => { const label = document.querySelector('.gib-explorer .gib-plot').getAttribute('aria-label'); return label !== before && document.querySelector('.gib-said').textContent === label; }",
        arg=before,
    )


def test_plots_beside_each_other_go_below_each_other(page, tmp_path):
    "The four measures of β: beside each other on a desk, in rows of two on a tablet, each with its title above it on a phone."
    from gib_nb.explorers.page import static_page

    explorer = EXPLORERS["beta"]().select("measures")
    (tmp_path / "measures.html").write_text(static_page(explorer, now=True))
    page.goto((tmp_path / "measures.html").as_uri())
    page.wait_for_function("() => document.body.dataset.height")
    rows = """() => new Set(Object.entries(document.querySelector(".gib-plot").layout).filter(([name]) => /^yaxis/.test(name)).map(([, axis]) => axis.domain?.[0] ?? 0)).size"""
    for width, number in ((1280, 1), (768, 2), (390, 4)):
        look(page, width, "light")
        page.wait_for_function(f"(number) => ({rows})() === number", arg=number)
        assert fits(page)
    assert page.problems == []


def test_a_report(page, tmp_path):
    from plotly.subplots import make_subplots

    beside = make_subplots(1, 3, subplot_titles=["accuracy", "loss", "size"], shared_yaxes=True)
    for column in (1, 2, 3):
        beside.add_scatter(x=[1, 2, 3], y=[column, 2, 3], row=1, col=column, name="model")
    rows = [["no-edges baseline", "0.50 [0.42, 0.58]", "0.50 [0.42, 0.58]"]]
    body = ["<h1>A report</h1>", paragraph("A note."), warning("A warning."), table(rows, ["", "training", "test"])]
    (tmp_path / "report.html").write_text(report_page("A report", "".join([*body, *plots({"training": beside})])))
    page.goto((tmp_path / "report.html").as_uri())
    page.locator(".main-svg").first.wait_for()
    check_everywhere(page)
    dark = page.evaluate("() => getComputedStyle(document.querySelector('.js-plotly-plot')).filter")
    assert dark.startswith("invert") and page.problems == []
    label = page.locator(".js-plotly-plot").get_attribute("aria-label")
    assert label.startswith("training: model, from 1 at 1 to 3 at 3; ") and "accuracy" in label


@pytest.fixture(scope="module")
def small_site(tmp_path_factory):
    "The front page and a lesson, built by Sphinx; links to all other pages lead nowhere."
    pytest.importorskip("myst_nb", reason="the site needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    with file_server(build_site(folder, "--only", "02_bottleneck")) as address:
        yield address


@pytest.mark.parametrize("name", ["index", "nbs/lessons/02_bottleneck"])
def test_the_site(page, small_site, name):
    page.goto(f"{small_site}/{name}.html")
    frame = page.locator("iframe.gib-frame").first
    frame.scroll_into_view_if_needed()
    frame.content_frame.locator(".main-svg").first.wait_for()
    check_everywhere(page)
    assert page.problems == []
