"""Slides: one idea on each, formulae without scripts, explorers alive, nothing from the network."""

import importlib.util
import json
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
pytest.importorskip("nbconvert", reason="slides need the extra slides")
pytest.importorskip("myst_nb", reason="formulae are made by what the extra docs installs")
needs_reveal = pytest.mark.skipif(
    importlib.util.find_spec("sphinx_revealjs") is None, reason="reveal.js not found: install the extra slides"
)


@pytest.fixture
def slides(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    import slides

    return slides


def code(source, outputs=(), tags=()):
    return {"cell_type": "code", "metadata": {"tags": list(tags)}, "outputs": list(outputs), "source": source}


def pages(slides, *cells):
    "The sources of each slide, with its kind first."
    made = []
    for cell in slides.deck({"cells": list(cells)})["cells"]:
        kind, source = cell["metadata"]["slideshow"]["slide_type"], "".join(cell["source"])
        made[-1].append(source) if kind == "-" else made.append([kind, source])
    return made


def test_an_idea_has_a_slide(slides):
    text = lambda *parts: {"cell_type": "markdown", "metadata": {}, "source": "\n\n".join(parts)}
    long = "word " * 80
    found = pages(
        slides,
        text("# 1 · Title", "> Subtitle", "Promise."),
        code("from gib_nb.exercises import progress\n\nprogress(1)"),
        text("## Section\n" + long, "Short.", long + "as in\n$$x$$", "| a |\n|---|\n| 1 |"),
        code("assert True", tags=["remove-cell"]),
        text("## Exercises\nFirst.", "**1.** Do it."),
        code('from gib_nb.exercises.base import check\n\n\ndef f(p):\n    ...\n\n\ncheck("f", f)', [{"text": "no"}]),
        code('ask("q")'),
    )
    assert [page[:2] for page in found] == [
        ["slide", "# 1 · Title"],
        ["slide", "## Section"],
        ["subslide", "### Section"],
        ["slide", "## Exercises"],
        ["subslide", "### Exercises"],
        ["subslide", "### Exercises"],
    ]
    assert found[0][2:] == ["> Subtitle", "Promise."] and found[1][2:] == [long.strip(), "Short."]
    assert found[2][2].endswith("as in") and "<math" in found[2][3] and found[2][4].startswith("| a |")
    assert found[4][2:] == ["**1.** Do it.", "def f(p):\n    ..."] and found[5][2:] == ['ask("q")']


def test_formulae_survive_markdown_and_links_lead_somewhere(slides):
    made = slides.with_math(r"| $p(y\mid x)$ | $a * b_i * c$ |")
    assert made.count("|") == 3 and "*" not in made and "_" not in made and made.count("<math") == 2
    assert slides.with_links("[2](02_bottleneck.ipynb), [N](../glossary.ipynb#Node), [G](https://a.b)") == (
        "[2](02_bottleneck.html), N, [G](https://a.b)"
    )


@needs_reveal
def test_the_slides_of_a_lesson_need_no_network(tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "slides.py"), "1", "--to", str(tmp_path), "--most", "6"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "01_bits.html").read_text()
    notebook = json.loads((ROOT / "nbs" / "lessons" / "01_bits.ipynb").read_text())
    headings = re.findall(r"^## ", "\n".join("".join(c["source"]) for c in notebook["cells"]), re.M)
    assert page.count('data-markdown="') == 0 and len(re.findall("<section", page)) > 2 * len(headings)
    assert re.findall(r'(?:src|href)="(https?:[^"]*)"', page) == []
    for target in re.findall(r'(?:src|href)="([\w./]+)"', page):
        assert (tmp_path / target).is_file() or target == "02_bottleneck.html", target
    assert page.count("gib-frame") == 1 and "$" not in re.sub(r"<(script|style).*?</\1>", "", page, flags=re.S)
