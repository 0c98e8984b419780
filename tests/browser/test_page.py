"""The page of `gib-nb app` in a browser: every tab answers, trains, stops, and minds what is typed."""

import pytest

from gib_nb.explorers.registry import EXPLORERS, TITLES

from .acting import (
    PATIENCE_MS,
    SHOWN,
    changes,
    cut,
    move,
    nameless,
    open_page,
    open_tab,
    sliders,
    type_smiles,
    unreadable,
    until,
)

TRAINING = [TITLES[name] for name, explorer in EXPLORERS.items() if explorer.train]
QUICK = ("β",)


@pytest.mark.parametrize(
    "title", [pytest.param(title, marks=[] if title in QUICK else [pytest.mark.slow]) for title in TITLES.values()]
)
def test_every_tab_answers_to_its_slider(page, voila, title):
    open_page(page, voila)
    open_tab(page, title)
    slider = sliders(page).last
    move(page, slider)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert page.locator("pre:visible, code:visible").count() == 0  # no code
    assert nameless(page) == [] and cut(page) == [] and unreadable(page) == []
    assert page.problems == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_dark_where_the_system_is(browser, voila, scheme):
    context = browser.new_context(viewport={"width": 1366, "height": 768}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    open_page(page, voila)
    for title in ("β", "Classical bottleneck", "Stability"):
        open_tab(page, title)
        ground = page.evaluate(
            r"() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number).slice(0, 3)"
        )
        assert max(ground) < 60 if scheme == "dark" else min(ground) > 240
        assert unreadable(page) == [] and cut(page) == []
    context.close()


@pytest.mark.slow
def test_the_page_asks_no_other_host(browser, voila):
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page, asked = context.new_page(), []
    page.set_default_timeout(PATIENCE_MS)
    context.on("request", lambda request: asked.append(request.url))
    open_page(page, voila)
    open_tab(page, "Molecules")
    context.close()
    assert len(asked) > 5 and [url for url in asked if not url.startswith((voila, "data:", "blob:"))] == []


@pytest.mark.slow
def test_figures_follow_where_anywidget_has_given_up(page, voila):
    "Its limit of two seconds, passed at once, after which it drops what the kernel sends."
    page.add_init_script(
        "AbortSignal.timeout = () => { const ending = new AbortController(); queueMicrotask(() => ending.abort()); return ending.signal; }"
    )
    open_page(page, voila)
    move(page, sliders(page).last)
    rev = page.evaluate("() => [...document.querySelectorAll('.gib-plot')].find((e) => e.offsetParent).dataset.rev")
    sliders(page).last.press("ArrowLeft")
    page.wait_for_function(
        "(rev) => [...document.querySelectorAll('.gib-plot')].find((e) => e.offsetParent).dataset.rev > rev", arg=rev
    )
    assert page.problems == []


@pytest.mark.slow
def test_a_slider_can_be_dragged(page, voila):
    open_page(page, voila)
    box = sliders(page).first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def drag():
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 80, y, steps=8)
        page.mouse.up()

    changes(page, drag)
    assert page.problems == []


@pytest.mark.slow
@pytest.mark.parametrize("title", TRAINING)
def test_training_starts_streams_and_stops(page, voila, title):
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE_MS)
    open_page(page, voila)
    open_tab(page, title)
    sliders(page).first.press("End")  # at T that is the longest run, which leaves time to stop it
    start = page.get_by_role("button", name="▶ Train live").locator("visible=true")
    stop = page.get_by_role("button", name="■ Stop").locator("visible=true")
    expect(stop).to_be_disabled()
    start.click()
    page.wait_for_function(
        "() => [...document.querySelectorAll('.gib-explorer button')].some((b) => b.offsetParent && b.textContent.includes('Train live') && b.disabled)"
    )
    live = "() => [...document.querySelectorAll('.gib-explorer .gib-plot')].filter((e) => e.offsetParent).at(-1)"
    page.wait_for_function(f"() => (({live})().data ?? []).reduce((n, trace) => n + (trace.y ?? []).length, 0) > 2")
    first = page.evaluate(f"() => JSON.stringify(({live})().data)")
    page.wait_for_function(f"(first) => JSON.stringify(({live})().data) !== first", arg=first)
    stop.click()
    page.get_by_text("stopped").locator("visible=true").wait_for()
    expect(start).to_be_enabled()
    expect(stop).to_be_disabled()
    assert page.problems == []


@pytest.mark.slow
def test_a_wrong_smiles_gets_its_reason(page, voila):
    open_page(page, voila)
    open_tab(page, "Molecules")
    field = type_smiles(page, "c1ccccc")
    alert = page.locator(".gib-problem:visible").filter(has_text="unclosed ring").first
    alert.wait_for()
    below = alert.evaluate(
        "(alert, field) => alert.getBoundingClientRect().top - field.getBoundingClientRect().top",
        field.element_handle(),
    )
    assert -60 < below < 60  # beside or right under the field
    assert page.problems == []


@pytest.mark.slow
def test_what_is_typed_stays_text(page, voila):
    open_page(page, voila)
    open_tab(page, "Molecules")
    type_smiles(page, "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">")
    page.locator(".gib-problem:visible").filter(has_text="<script>document.title").first.wait_for()
    assert page.title() != "taken" and page.locator(".gib-explorer img[src=x]").count() == 0
    assert page.problems == []


@pytest.mark.slow
def test_ten_visitors_each_have_their_own_state(browser, voila):
    visitors = []
    try:
        for _ in range(10):
            visitor = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
            visitor.set_default_timeout(PATIENCE_MS)  # ten kernels start on whatever cores there are
            visitor.goto(voila, wait_until="commit")
            visitors.append(visitor)
        for k, visitor in enumerate(visitors):
            open_tab(visitor, "β")
            slider = sliders(visitor).first
            slider.press("Home")
            for _ in range(k % 9):
                slider.press("ArrowRight")

        def own():  # nine views, and the last visitor sees what the first does
            shown = [visitor.evaluate(SHOWN) for visitor in visitors]
            return len(set(shown)) == 9 and shown[0] == shown[9]

        until(own)
        assert [sliders(visitor).first.get_attribute("aria-valuenow") for visitor in visitors] == [
            f"{k % 9}.0" for k in range(10)
        ]
    finally:
        for visitor in visitors:
            visitor.context.close()
