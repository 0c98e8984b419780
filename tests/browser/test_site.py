"""The site: every notebook a page, formulae without scripts, explorers alive, nothing from the network; in a browser at the width of a desk and of a phone."""

import json
import re

import pytest

from .acting import PATIENCE_MS
from .serving import ROOT, build_site

NOTEBOOKS = sorted(
    path.relative_to(ROOT) for path in (ROOT / "nbs").rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts
)
PAGES = [
    "index",
    "equations",
    "nbs/0_start_here",
    "nbs/lessons/02_bottleneck",
    "nbs/lessons/06_one_piece",
    "nbs/lessons/teaching",
    "nbs/explorers/molecule",
    "nbs/experiments/classification",
    "nbs/04_critic_estimate",
    "api/train.trainer",
]
WIDTHS = {"desk": 1400, "phone": 390}
pytest.importorskip("myst_nb", reason="the site needs the extra docs")
playwright = pytest.importorskip("playwright.sync_api")
playwright.expect.set_options(timeout=PATIENCE_MS)


def test_a_lesson_and_a_module_are_prepared_for_the_site(tmp_path, monkeypatch):
    "What Sphinx is given: an explorer in a frame with its file, figures without pictures, no directives, and every public name of a module."
    monkeypatch.syspath_prepend(ROOT / "docs")
    import build
    import mathml

    import gib_nb.information.exact

    path = ROOT / "nbs" / "lessons" / "04_smaller.ipynb"
    build.notebook(path, tmp_path / path.name, tmp_path, 6)
    text = (tmp_path / path.name).read_text()
    frames = re.findall(r'<iframe class=\\"gib-frame\\"[^>]*src=\\"[./]*/explorers/([^"\\]+)', text)
    assert (
        len(frames) == 1
        and (tmp_path / frames[0]).is_file()
        and "_static/plotly.min.js" in (tmp_path / frames[0]).read_text()
    )
    assert text.count("gibFigure(") >= 2 and not re.search(r'"#\s*\|', text)
    page = build.reference("information.exact", "nbs/00_information.ipynb")
    assert all(
        f"## {name}\n" in page
        for name in gib_nb.information.exact.__all__
        if callable(getattr(gib_nb.information.exact, name))
    )
    page = build.reference("train.trainer", "nbs/43_trainer.ipynb")
    assert "### GIBTrainer.load\n" in page and "### GIBTrainer.from_file\n" in page and "object at 0x" not in page
    assert "## GIBEnsemble\n" in build.reference("train.ensemble", None) and ":obj:" not in page
    assert "<munder>" in mathml.mathml(r"\underbrace{L}_{\text{loss}}", True)
    assert "<msub>" not in mathml.mathml(r"\underbrace{L}_{\text{loss}}", True)
    assert mathml.translate(r"\tfrac12 · \Bigl(x\Bigr)").split() == [r"\frac{1}{2}", r"\cdot", "(x)"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    "The site with explorers of few states; every warning of Sphinx is an error."
    pytest.importorskip("jupyterlite_pyodide_kernel", reason="the site needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    return build_site(folder)


@pytest.mark.slow
def test_every_notebook_is_a_page_and_stands_in_the_contents(site):
    front = (site / "index.html").read_text()
    for path in NOTEBOOKS:
        page = path.with_suffix(".html")
        assert (site / page).exists() and f'href="{page}"' in front, page


@pytest.mark.slow
def test_pages_load_nothing_from_the_network(site):
    for page in site.rglob("*.html"):
        loads = re.findall(r'<(?:script|img|iframe|link)\b[^>]*?(?:src|href)="(https?://[^"]*)"', page.read_text())
        assert not loads, (page, loads[:3])


@pytest.mark.slow
def test_formulae_are_mathml_and_none_is_left_as_text(site):
    assert (site / "nbs/lessons/03_samples.html").read_text().count("<math") > 10
    for page in site.rglob("*.html"):
        prose = re.sub(r"<(pre|code|script|style|title|svg)\b.*?</\1>", "", page.read_text(), flags=re.S)
        assert not re.search(r"\$|\\[a-z]{3,}", prose), (page, re.search(r".{40}(\$|\\[a-z]{3,}).{40}", prose, re.S))


@pytest.mark.slow
def test_explorers_are_files_that_the_pages_show(site):
    for path in NOTEBOOKS:
        without = ("teaching", "app", "anatomy", "case_study_numpy", "molecule_models")  # an explorer that ships
        if path.parent.name not in ("lessons", "explorers") or path.stem in without or path.stem.endswith("_sweep"):
            continue
        frames = re.findall(
            r'<iframe class="gib-frame"[^>]*src="([^"]*)"', (site / path.with_suffix(".html")).read_text()
        )
        assert frames, path
        for frame in frames:
            assert ((site / path).parent / frame).resolve().is_file(), frame


@pytest.mark.slow
def test_figures_are_drawn_and_bookkeeping_is_gone(site):
    page = (site / "nbs/lessons/04_smaller.html").read_text()
    assert page.count("gibFigure(") >= 2 and "_static/plotly.min.js" in page
    room = (site / "nbs/27_connectivity.html").read_text()
    assert "nbdev_export" not in room and "default_exp" not in room and "#| export" not in room


@pytest.mark.slow
def test_reference_has_every_public_function_with_its_parameters(site):
    from gib_nb.information import bounds

    page = (site / "api/information.bounds.html").read_text()
    assert all(
        f'id="{name.lower().replace("_", "-")}"' in page.lower() or f">{name}<" in page
        for name in bounds.__all__
        if callable(getattr(bounds, name))
    )
    assert "the diagonal holds the joint pairs" in page and "Explained in" in page
    assert (site / "api/exercises.lesson_1.html").exists() and not re.search(r"/(home|root|tmp|work|Users)/\w", page)


@pytest.mark.slow
def test_equations_lead_to_pages(site):
    page = (site / "equations.html").read_text()
    assert all(
        f"nbs/lessons/{json.loads((ROOT / path).read_text()) and path.stem}.html" in page
        for path in NOTEBOOKS
        if path.parent.name == "lessons" and path.stem[:2] in ("02", "03", "04", "05", "06", "07")
    )


@pytest.mark.slow
@pytest.mark.parametrize("name, width", [(name, width) for name in PAGES for width in WIDTHS])
def test_a_page_fits_and_needs_no_network(page, site, name, width):
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.set_viewport_size({"width": WIDTHS[width], "height": 900})
    page.goto((site / f"{name}.html").as_uri())
    page.wait_for_function(
        "() => !document.querySelector('.gib-figure') || document.querySelector('.gib-figure .main-svg')"
    )
    assert page.evaluate("() => document.documentElement.scrollWidth") <= WIDTHS[width] + 2
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == [] and page.problems == []


@pytest.mark.slow
def test_an_explorer_in_a_lesson_moves(page, site):
    page.goto((site / "nbs/lessons/02_bottleneck.html").as_uri())
    page.locator("iframe.gib-frame").scroll_into_view_if_needed()
    frame = page.frame_locator("iframe.gib-frame")
    slider = frame.locator("input[type=range]")
    slider.wait_for()
    before = frame.locator("output").inner_text()
    slider.press("ArrowRight")
    playwright.expect(frame.locator("output")).not_to_have_text(before)
    page.wait_for_function("() => document.querySelector('iframe.gib-frame').style.height")
    high = page.locator("iframe.gib-frame").evaluate("(e) => [e.clientHeight, e.style.height]")
    assert (
        high[1] and abs(high[0] - float(high[1][:-2])) < 5 and page.problems == []
    )  # the frame has taken the height of what is in it


@pytest.mark.slow
def test_a_question_opens_without_a_kernel(page, site):
    page.goto((site / "nbs/lessons/06_one_piece.html").as_uri())
    answer = page.locator("details", has_text="in no direction, since the loss is 0 there")
    answer.locator("summary").click()
    answer.locator("[role=status]").wait_for()
    assert "far from 0" in answer.inner_text()


@pytest.mark.slow
def test_every_lesson_and_explorer_has_a_button_that_runs_it(site):
    for path in NOTEBOOKS:
        page = (site / path.with_suffix(".html")).read_text()
        links = re.findall(r'<a class="gib-run" href="([^"?]*)\?([^"]*)"', page)
        assert all(((site / path).parent / file).resolve().is_file() for file, _ in links), path
        assert page.count("</iframe>") == sum("/repl/" in file for file, _ in links), path
        opened = [query for file, query in links if "/notebooks/" in file]
        if path.parent.name == "lessons" and path.stem != "teaching":
            assert (
                opened == [f"path=lessons/{path.name}"] and (site / "lite" / "files" / "lessons" / path.name).is_file()
            )
        else:
            assert opened == [], path
