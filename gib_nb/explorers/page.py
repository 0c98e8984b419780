"""One HTML file that needs no kernel, and a picture of it.

A page without a kernel cannot compute, but it can hold all that would be computed. Every combination of the controls is drawn once, equal panels are kept once,
and a few lines of script show the right ones. plotly.js goes into the file, which is why it has five megabytes. A committed notebook carries a screenshot of
such a page, taken by a Chromium without a window, since GitHub runs nothing.
"""

import copy
import functools
import html
import itertools
import json
import math
import os
import pathlib
import shutil
import subprocess
import tempfile

from ..report.html import figure_js
from .explorer import Explorer
from .view import MORE, STYLE, introduction, plotly_js, source


def static_states(
    explorer: Explorer,
    over=None,  # names of the controls that can be moved on the page; None: all but texts
    most: int = 4000,  # combinations
    now: bool = False,  # only the present combination, for a picture
) -> dict:  # "controls", "rows", "more" (folded rows), "contents" (the different panels), "states" ("1,0,2" -> number of the content of each panel)
    "All that a page needs to show; ValueError when there are too many combinations."
    moving = [control.name for control in explorer.controls if control.kind != "text"] if over is None else list(over)
    for name in moving:
        if explorer.control(name).kind == "text":
            raise ValueError(f"expected controls with options in over (got {name!r}, a text)")
    controls = [explorer.control(name) for name in moving]
    if (count := math.prod(len(control.options) for control in controls)) > most and not now:
        raise ValueError(
            f"expected at most {most} combinations of controls (got {count}); name fewer in over, such as over={moving[:1]!r}"
        )
    twin = copy.copy(explorer)
    twin.__dict__.update(_view=None, live=None)
    contents, states = {}, {}
    present = [control.options.index(getattr(explorer, control.name)) for control in controls]
    for places in [present] if now else itertools.product(*(range(len(control.options)) for control in controls)):
        twin.restore({control.name: control.options[i] for control, i in zip(controls, places)})
        states[",".join(map(str, places))] = [
            contents.setdefault(panel if isinstance(panel, str) else panel.to_json(), len(contents))
            for panel in twin.panels().values()
        ]
    plain = [
        {
            "name": c.name,
            "label": c.label,
            "kind": c.kind,
            "help": c.help,
            "texts": [c.format(option) for option in c.options],
            "at": at,
        }
        for c, at in zip(controls, present)
    ]
    fixed = [
        {"label": c.label, "text": c.format(getattr(explorer, c.name))}
        for c in explorer.controls
        if c.name not in moving
    ]
    figures = [text.startswith("{") for text in contents]
    return {
        "controls": plain,
        "fixed": fixed,
        "rows": [list(row) for row in explorer.layout],
        "more": {"title": MORE, "rows": [list(row) for row in explorer.advanced]},
        "states": states,
        "contents": [json.loads(text) if is_figure else text for text, is_figure in zip(contents, figures)],
    }


def static_page(
    explorer: Explorer,
    over=None,  # names of the controls that can be moved; None: all but texts
    now: bool = False,  # only the present state, for a picture
) -> str:  # a complete HTML document
    "The page of `static_states`, with plotly.js in it."
    style, script = source("page.css"), figure_js() + source("page.js")
    data = json.dumps(static_states(explorer, over, now=now), separators=(",", ":")).replace("<", "\\u003c")
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(explorer.title)}</title><style>{STYLE}{style}</style><script>{plotly_js().decode()}</script></head>"
        f'<body class="gib-page"><div id="gib-root" class="gib-explorer">{introduction(explorer)}</div>'
        f'<script type="application/json" id="gib-data">{data}</script><script>{script}</script></body></html>'
    )


def find_chromium() -> str | None:
    "A Chromium or Chrome on this computer: GIB_NB_CHROMIUM, or by its usual names."
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return os.environ.get("GIB_NB_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


def screenshot(
    page: str,  # HTML
    width: int = 1240,  # pixels
) -> bytes | None:  # PNG of the whole page; None where there is no Chromium
    "Open a page without a window and take its picture."
    browser = find_chromium()
    if browser is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        file, picture = pathlib.Path(folder) / "page.html", pathlib.Path(folder) / "page.png"
        file.write_text(page, encoding="utf-8")
        sandbox = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        command = [
            browser,
            "--headless",
            *sandbox,
            "--disable-gpu",
            "--hide-scrollbars",
            "--virtual-time-budget=4000",
            f"--user-data-dir={folder}/profile",
        ]
        run = functools.partial(subprocess.run, check=True, capture_output=True, text=True, timeout=90)
        dom = run([*command, f"--window-size={width},900", "--dump-dom", file.as_uri()]).stdout
        height = dom.split('data-height="')[1].split('"')[0]
        run([*command, f"--window-size={width},{height}", f"--screenshot={picture}", file.as_uri()])
        return picture.read_bytes()
