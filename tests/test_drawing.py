"""Drawings: SVG that can be opened anywhere, with a PNG beside it."""

import base64
import importlib.util
import io
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter
from PIL import Image

from gib_nb.chem.draw import draw_molecule
from gib_nb.report import figures as plots
from gib_nb.utils.drawing import Drawing, draw_grid, inline_svg

NAMESPACE = "{http://www.w3.org/2000/svg}"
DISK = '<svg width="120" height="60"><title>a &lt;b&gt;</title><circle cx="60" cy="30" r="25" fill="#E69F00"/></svg>'
DRAWN = {
    "graph": plots.draw_graph([(0, 1), (1, 2)], [1, 0.9, 0], letters=["C", "Cl", "&"], true_nodes=[0], title="a <b>"),
    "molecule": draw_molecule("CC(=O)Nc1ccc(O)cc1", [0.5] * 11, fragment=[0, 1, 2]),
    "grid": draw_grid([Drawing(DISK), draw_molecule("CCO")], ["one & <two>", ""], title="both"),
}


def shown(thing):
    "What IPython stores of a value, as JupyterLab and nbclient ask for it."
    formatter = DisplayFormatter()
    formatter.active_types = formatter.format_types
    return formatter.format(thing)[0]


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).reshape(-1, 3)


def has_color(png, color):
    return bool((pixels(png) == [int(color[i : i + 2], 16) for i in (1, 3, 5)]).all(1).any())


@pytest.mark.parametrize("name", DRAWN)
def test_a_drawing_is_shown_as_svg_and_png_and_never_as_html(name):
    bundle = shown(DRAWN[name])
    assert set(bundle) == {"text/plain", "image/svg+xml", "image/png"}
    assert ElementTree.fromstring(bundle["image/svg+xml"]).tag == f"{NAMESPACE}svg"
    picture = Image.open(io.BytesIO(base64.b64decode(bundle["image/png"])))
    assert picture.size == DRAWN[name].size
    assert len(bundle["text/plain"]) < 200 and "<svg" not in bundle["text/plain"]


@pytest.mark.parametrize("name, colors", [("graph", (plots.ORANGE, plots.SKY)), ("grid", (plots.ORANGE,))])
def test_house_colors_are_in_the_png(name, colors):
    assert all(has_color(DRAWN[name].png(), color) for color in colors)


def test_paper_is_white_whatever_the_page():
    "Black outlines and letters need it where a page is dark."
    for drawing in DRAWN.values():
        picture = Image.open(io.BytesIO(drawing.png())).convert("RGBA")
        assert picture.getpixel((picture.width // 2, picture.height - 2)) == (255, 255, 255, 255)


def test_without_the_renderer_there_is_the_svg(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "resvg_py" else real(name, *rest)
    )
    assert set(shown(Drawing(DISK))) == {"text/plain", "image/svg+xml"}


def test_a_drawing_is_its_text():
    drawing = Drawing(DISK)
    assert (
        drawing == DISK
        and f"<p>{drawing}</p>" == f"<p>{DISK}</p>"
        and drawing.title == "a <b>"
        and repr(drawing) == repr(DISK)
    )
    assert drawing.document() == DISK.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"')
    assert DRAWN["molecule"].document() == DRAWN["molecule"]  # has its namespaces
    assert "\x0b" not in shown(plots.draw_graph([], [1], letters=["\x0b\ud800"], title="\x00"))["image/svg+xml"]
    with pytest.raises(ValueError, match="width and height in pixels"):
        Drawing("<svg viewBox='0 0 1 1'></svg>").size


def test_a_grid_has_rows_and_captions():
    drawings = [Drawing(DISK.replace("60", str(height))) for height in (40, 60, 50)]
    grid = draw_grid(
        drawings, ["first", "second\nof two lines", "a third caption that is longer than its drawing"], columns=2
    )
    root = ElementTree.fromstring(grid)
    placed = [(float(part.get("x")), float(part.get("y"))) for part in root.iter("svg") if part.get("x")]
    assert placed == [(0, 0), (130, 0), (0, 60 + 2 * 17 + 10)]
    words = [text.text for text in root.iter("text")]
    assert (
        words[:3] == ["first", "second", "of two lines"]
        and " ".join(words[3:]) == "a third caption that is longer than its drawing"
    )
    assert all(len(line) * 6 < 120 for line in words) and grid.size[0] == 250
    assert grid.size[1] == 60 + 2 * 17 + 10 + 50 + 17 * len(words[3:]) + 10


def test_a_grid_says_what_it_expects():
    with pytest.raises(ValueError, match=r"a caption for each of the 2 drawings, or none at all \(got 1\)"):
        draw_grid([DISK, DISK], ["one"])
    with pytest.raises(ValueError, match="at least one drawing"):
        draw_grid([])


def test_inside_html_no_namespaces_are_needed():
    assert (
        "xmlns" in DRAWN["molecule"] and "xmlns" not in inline_svg(DRAWN["molecule"]) and "xmlns" not in DRAWN["grid"]
    )
    assert inline_svg("<svg xmlns='a' xmlns:b=\"c\" id='d'/>") == "<svg id='d'/>"
