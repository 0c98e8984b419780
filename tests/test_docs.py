"""The site: every notebook a page, formulae without scripts, explorers alive, nothing from the network."""
import json
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
NOTEBOOKS = sorted(path.relative_to(ROOT) for path in (ROOT / "nbs").rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)
pytest.importorskip("myst_nb", reason="the site needs the extra docs")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    "The site with explorers that do not move; every warning of Sphinx is an error."
    folder = tmp_path_factory.mktemp("docs")
    done = subprocess.run([sys.executable, str(ROOT / "docs" / "build.py"), "--most", "1", "--to", str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return folder / "html"


def test_every_notebook_is_a_page_and_stands_in_the_contents(site):
    front = (site / "index.html").read_text()
    for path in NOTEBOOKS:
        page = path.with_suffix(".html")
        assert (site / page).exists() and f'href="{page}"' in front, page


def test_pages_load_nothing_from_the_network(site):
    for page in site.rglob("*.html"):
        loads = re.findall(r'<(?:script|img|iframe|link)\b[^>]*?(?:src|href)="(https?://[^"]*)"', page.read_text())
        assert not loads, (page, loads[:3])


def test_formulae_are_mathml_and_none_is_left_as_text(site):
    lesson = (site / "nbs/lessons/03_samples.html").read_text()
    assert lesson.count("<math") > 10 and "\\mathbb" not in lesson and "$$" not in lesson


def test_explorers_are_files_that_the_pages_show(site):
    for path in NOTEBOOKS:
        if path.parent.name not in ("lessons", "explorers") or path.stem in ("teaching", "app"):
            continue
        frames = re.findall(r'<iframe class="gib-frame"[^>]*src="([^"]*)"', (site / path.with_suffix(".html")).read_text())
        assert frames, path
        for frame in frames:
            assert ((site / path).parent / frame).resolve().is_file(), frame


def test_figures_are_drawn_and_bookkeeping_is_gone(site):
    page = (site / "nbs/lessons/04_smaller.html").read_text()
    assert page.count("gibFigure(") >= 2 and "_static/plotly.min.js" in page
    room = (site / "nbs/06_connectivity.html").read_text()
    assert "nbdev_export" not in room and "default_exp" not in room and "#| export" not in room


def test_reference_has_every_public_function_with_its_parameters(site):
    import gib_nb.mi
    page = (site / "api/mi.html").read_text()
    assert all(f'id="{name.lower().replace("_", "-")}"' in page.lower() or f">{name}<" in page for name in gib_nb.mi.__all__ if callable(getattr(gib_nb.mi, name)))
    assert "the diagonal holds the joint pairs" in page and "Explained in" in page
    assert (site / "api/exercises.lesson_1.html").exists() and not re.search(r"/(home|root|tmp|work|Users)/\w", page)


def test_equations_lead_to_pages(site):
    page = (site / "equations.html").read_text()
    assert all(f"nbs/lessons/{json.loads((ROOT / path).read_text()) and path.stem}.html" in page for path in NOTEBOOKS if path.parent.name == "lessons" and path.stem[:2] in ("02", "03", "04", "05", "06", "07"))
