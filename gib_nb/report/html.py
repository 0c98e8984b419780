"""The layout of all HTML pages that are written into files: tables, pictures, and legends in one complete document.

A page loads nothing from a network. Texts are escaped here, so that user input and the names of data sets cannot
become markup. The style is `gib_nb/assets/report.css`, with the colors of `gib_nb.report.figures.THEME`.
"""

import html
import json

from gib_nb.report.figures import ORANGE, THEME, shade
from gib_nb.utils.drawing import inline_svg
from gib_nb.utils.files import shipped_file

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
DRAW = "const box = document.getElementById('{plot_id}'); gibFigures.draw(Plotly, box, {data: box.data, layout: structuredClone(box.layout)}, TITLE);"


def _asset(name: str) -> str:
    return shipped_file(name).read_text(encoding="utf-8")


def figure_js() -> str:
    "The script that arranges a figure for the width of its place and describes it in a sentence, as `gibFigures`."
    return _asset("figure.js")


def page(
    title: str,  # text
    body: str,  # HTML
) -> str:
    "A complete HTML document."
    style = _asset("report.css")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{THEME}{style}</style></head>\n"
        f"<body class='gib-page'>\n{body}\n</body></html>\n"
    )


def table(
    rows,  # of cells, which are texts or numbers
    head=(),  # names of the columns
    strong=None,  # first cell of the row that is set in bold
) -> str:
    "An HTML table."

    def line(cells, tag):
        mark = ' class="own"' if strong is not None and cells[0] == strong else ""
        return f"<tr{mark}>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    lines = [line(head, "th") if head else "", *(line(cells, "td") for cells in rows)]
    return scrolled(f"<table>{''.join(lines)}</table>")


def scrolled(content: str) -> str:
    "HTML that may be wider than a narrow page, in a box that is scrolled with fingers or, as it takes the focus, with the keyboard."
    return f'<div class="wide" tabindex="0" role="group" aria-label="table">{content}</div>'


def record_table(record: dict) -> str:
    "A table of the entries of a dict; a dict within it is written into one cell."
    text = lambda value: ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
    return table([[name, text(value)] for name, value in record.items()])


def paragraph(text: str, kind: str = "note") -> str:
    "A paragraph of text with a class of `report.css`."
    return f'<p class="{kind}">{html.escape(text)}</p>'


def warning(text: str) -> str:
    "A box with a warning."
    return f'<div class="warning"><strong>Warning:</strong> {html.escape(text)}</div>'


def picture(
    svg: str,  # an <svg> element
    caption: list[str],  # lines of text
) -> str:
    "A picture with its caption, for a gallery."
    lines = "".join(f"<div>{html.escape(line)}</div>" for line in caption)
    return f"<figure>{inline_svg(svg)}<figcaption>{lines}</figcaption></figure>"


def gallery(pictures: list[str]) -> str:
    "Pictures side by side, as many in a row as fit."
    return f'<div class="gallery">{"".join(pictures)}</div>'


def legend(
    molecules: bool,  # atoms and bonds, or nodes and edges
    truth: bool,  # whether the ground truth is outlined
) -> str:
    "The legend, which explains the colors of the pictures."
    node, edge = ("atom", "bond") if molecules else ("node", "edge")
    inside = (
        "inside the fragment, which is the largest connected component of the subgraph"
        if molecules
        else "inside the subgraph; its width shows the edge mask"
    )
    marks = [
        (
            f"background: linear-gradient(90deg, {shade(0)}, {shade(1)})",
            f"{node}: probability of being in the subgraph, from 0 to 1",
        ),
        (f"background: {ORANGE}; height: 8px", f"{edge} {inside}"),
    ]
    if truth:
        marks.append(("background: #fff; border: 3px solid #000; height: 8px", "black outline: ground truth"))
    spans = "".join(f'<span><i style="{css}"></i>{text}</span>' for css, text in marks)
    return f'<div class="legend">{spans}</div>'


def plots(figures: dict) -> list[str]:
    "Plotly figures as HTML, by the id of their element; the first one includes the code of plotly, about 5 MB."
    config = {"displaylogo": False, "displayModeBar": False, "responsive": True}
    drawn = [
        figure.update_layout(width=None, autosize=True).to_html(
            full_html=False,
            include_plotlyjs=i == 0,
            div_id=name,
            default_height=f"{figure.layout.height}px",
            config=config,
            post_script=DRAW.replace("TITLE", json.dumps(name)),
        )
        for i, (name, figure) in enumerate(figures.items())
    ]
    return [f"<script>{figure_js()}</script>{drawn[0]}", *drawn[1:]]
