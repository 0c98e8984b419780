"""Slides of each lesson for the lectern: `python docs/slides.py [N …]`, all lessons by default. nbconvert makes reveal.js of them, with live explorers, one idea per slide.

`--most N`: at most N combinations of controls of each explorer, `--to DIR`: where to.
"""

import argparse
import html
import importlib.util
import json
import pathlib
import re
import shutil
import sys

import badges
from build import notebook, write_frames
from mathml import mathml

from gib_nb.explorers.view import plotly_js

ROOT = pathlib.Path(__file__).resolve().parents[1]
LESSONS = sorted((ROOT / "nbs" / "lessons").glob("[0-9]*.ipynb"))
MOST = 430  # characters of text on a slide
LEFT_OUT = re.compile(r"\bprogress\(|^\s*assert ", re.M)


def reveal_js():
    "The folder with reveal.js; OSError if it is not installed."
    found = importlib.util.find_spec("sphinx_revealjs")
    if found is None:
        raise OSError("expected reveal.js (got none); install it with: pip install 'gib-nb[slides]'")
    return pathlib.Path(found.submodule_search_locations[0]) / "_static" / "revealjs"


def blocks(text):
    "The paragraphs, headings, lists, tables, and formulae of a Markdown text; what is folded stays whole."
    parts = re.split(r"(<details>.*?</details>)", text, flags=re.S)
    for part in parts:
        yield from [part] if part.startswith("<details>") else filter(str.strip, re.split(r"\n\s*\n", spaced(part)))


def spaced(text):
    "A text in which headings and formulae stand in paragraphs of their own."
    text = re.sub(r"^(#+ .*)$", r"\n\1\n", text, flags=re.M)
    return re.sub(r"(\$\$.*?\$\$)", r"\n\n\1\n\n", text, flags=re.S)


def with_math(text):
    "Formulae as MathML, whose signs Markdown leaves alone."
    signs = str.maketrans({"*": "&#42;", "_": "&#95;", "|": "&#124;", "\n": " "})
    block = lambda found: mathml(found[1], as_block=True).translate(signs)
    inline = lambda found: mathml(found[1], as_block=False).translate(signs)
    return re.sub(r"\$([^$]+)\$", inline, re.sub(r"\$\$(.+?)\$\$", block, text, flags=re.S))


def with_links(text):
    "Links to lessons lead to their slides; the text of other links within the project stays."
    text = re.sub(r"\]\((\d\d_\w+)\.ipynb[^)]*\)", r"](\1.html)", text)
    return re.sub(r"\[([^\]]*)\]\((?!https:|\d\d_\w+\.html)[^)]*\)", r"\1", text)


class Deck:
    "Slides in the making: sections side by side, and the ideas of a section one below the other."

    def __init__(self):
        self.cells, self.title, self.size, self.on_title = [], "", 0, False

    def begin(self, kind, title):
        "Begin a slide, with its title."
        self.cells.append(markdown(title, slide_type=kind))
        self.size = 0

    def section(self, heading):
        "Begin a section."
        self.title, self.on_title = heading.lstrip("# "), heading.startswith("# ")
        self.begin("slide", heading if self.on_title else f"## {self.title}")

    def idea(self, kept=0):
        "Begin the next slide of a section, unless the present one has only its title, or no more text than may be kept."
        if self.size > kept:
            self.begin("subslide", f"### {self.title}")

    def text(self, block):
        "Add a paragraph to the slide, or to a new one if it is full; formulae, tables, and lists stay with the text before them."
        plain = len(re.sub(r"\]\([^)]*\)|\$", "", block))
        belongs = self.on_title or block.startswith(("$$", "|", "- ", "<details>", ">"))
        if re.match(r"\*\*\d+\.\*\*", block) or (self.size + plain > MOST and not belongs):
            self.idea()
        self.cells.append(markdown(with_links(with_math(block))))
        self.size += plain

    def code(self, cell, alone):
        "Add a cell of code; what is large has a slide of its own, with the line that introduces it."
        if alone:
            self.idea(kept=0 if "gib-frame" in json.dumps(cell["outputs"]) else 120)
        self.cells.append(cell | {"metadata": {"slideshow": {"slide_type": "-"}, "tags": cell["tags"]}})
        self.size += MOST if alone else max(150, 40 * len("".join(cell["source"]).splitlines()))


def markdown(text, slide_type="-"):
    "A cell of text."
    return {"cell_type": "markdown", "metadata": {"slideshow": {"slide_type": slide_type}}, "source": text}


def deck(content):
    "The slides of a lesson, as a notebook."
    made = Deck()
    for cell in content["cells"]:
        source = "".join(cell["source"])
        tags = cell["metadata"].get("tags", [])
        if badges.TAG in tags:
            continue
        if cell["cell_type"] == "markdown":
            for block in blocks(source):
                made.section(block.strip()) if block.lstrip().startswith("#") else made.text(block.strip())
        elif "remove-cell" not in tags and not LEFT_OUT.search(source):
            made.code(*shown(cell, source, tags))
    for number, cell in enumerate(made.cells):
        cell["id"] = f"c{number}"
    return content | {"cells": made.cells}


def shown(cell, source, tags):
    "A cell as it stands on a slide, and whether it needs one alone: figures and questions without code, exercises without output."
    text = json.dumps(cell["outputs"])
    live = "gib-frame" in text or re.search(r"^(?:ask|guess)\(", source, re.M) is not None
    figure = "gib-figure" in text or "image/png" in text or "image/svg" in text
    tags = ["remove_input"] if live or "hide-input" in tags else []
    exercise = re.search(r"^check\(", source, re.M) is not None
    if exercise:
        cell = cell | {
            "outputs": [],
            "source": re.sub(r"^(?:from gib_nb\.exercises.*|check\(.*)\n?", "", source, flags=re.M).strip(),
        }
    return cell | {"tags": tags}, not exercise and (live or figure or len(source.splitlines()) > 8)


def convert(path, target, place, most):
    "Write the slides of a lesson."
    from nbconvert import SlidesExporter
    from nbformat import reads
    from traitlets.config import Config

    prepared = target / f"{path.stem}.json"
    notebook(path, prepared, place, most)
    content = json.loads(prepared.read_text().replace("../../explorers/", "explorers/"))
    prepared.unlink()
    settings = Config()
    settings.TagRemovePreprocessor.enabled = True
    settings.TagRemovePreprocessor.remove_input_tags = {"remove_input"}
    exporter = SlidesExporter(
        config=settings,
        extra_template_basedirs=[str(ROOT / "docs")],
        template_name="lectern",
        reveal_url_prefix="reveal",
        reveal_theme="white",  # with its own fonts
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )
    title = "".join(content["cells"][0]["source"]).partition("\n")[0].lstrip("# ")
    content["metadata"]["title"] = title
    body, _ = exporter.from_notebook_node(reads(json.dumps(deck(content)), 4))
    (target / f"{path.stem}.html").write_text(body, encoding="utf-8")
    return title


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lessons", nargs="*", type=int, metavar="N", help="numbers of lessons (default: all)")
    parser.add_argument("--most", type=int, default=400)
    parser.add_argument("--to", type=pathlib.Path, default=ROOT / "_docs" / "slides")
    options = parser.parse_args()
    place, static = options.to / "explorers", options.to / "_static"
    for folder in (place, static):
        folder.mkdir(parents=True, exist_ok=True)
    for part in ("dist", "plugin/notes"):
        shutil.copytree(reveal_js() / part, options.to / "reveal" / part, dirs_exist_ok=True)
    shutil.copy(reveal_js() / "LICENSE", options.to / "reveal")
    (static / "plotly.min.js").write_bytes(plotly_js())
    write_frames(static)
    shutil.copy(ROOT / "docs" / "lectern" / "slides.css", static)
    chosen = [path for path in LESSONS if not options.lessons or int(path.stem[:2]) in options.lessons]
    if not chosen:
        parser.error(f"expected lessons from 1 to {len(LESSONS)} (got {options.lessons})")
    titles = {path.stem: convert(path, options.to, place, options.most) for path in chosen}
    items = "".join(f'<li><a href="{name}.html">{html.escape(title)}</a></li>' for name, title in titles.items())
    (options.to / "index.html").write_text(
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Slides</title><h1>Slides</h1><ul>{items}</ul></html>',
        encoding="utf-8",
    )
    print(f"the slides are in {options.to}: open {options.to / 'index.html'}; S shows the clock, ?print-pdf prints")


if __name__ == "__main__":
    sys.exit(main())
