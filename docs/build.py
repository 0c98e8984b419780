"""Build the site: `python docs/build.py`. Notebooks are copied, their figures and explorers made alive, the reference written from docstrings, then Sphinx runs.

`--most N`: at most N combinations of controls of each explorer, `--to DIR`: where to, `--pyodide DIR`: a folder with Pyodide, for a site that needs no network,
`--only NAME …`: only the front page and these notebooks, such as 02_bottleneck, in seconds; links to other pages lead nowhere.
"""

import argparse
import dataclasses
import functools
import hashlib
import html
import importlib
import inspect
import json
import pathlib
import re
import shutil
import subprocess
import sys

import badges
import lite
from fastcore.docments import docments
from stored import PLOTLY, explorer_of
from tables import GROUPS as TABLES

from gib_nb.explorers.view import plotly_js
from gib_nb.report.html import figure_js

ROOT = pathlib.Path(__file__).resolve().parents[1]
WIDGET = "application/vnd.jupyter.widget-view+json"
DIRECTIVE = re.compile(r"#\s*\|.*\n?")
GROUPS = TABLES | {"exercises": "Answers to the exercises"}
PLAIN = ("data.from_file", "train.ensemble", "train.functions", "train.loggers", "report.folder")  # without a notebook
STARTS = "Python starts on the page itself, within a minute the first time. Nothing is installed. Cells that need PyTorch run on [Colab]({}) and [Binder]({})."
PAGES = ("using", "install", "homework", "sweeps", "explorers", "results", "notebooks")


def write_frames(folder):
    "The script of a page: how figures are drawn, and what it does with them and with frames."
    (folder / "frames.js").write_text(figure_js() + (ROOT / "docs" / "frames.js").read_text())


def moving(explorer, most):
    "Names of the controls that move on the page: as many as give at most so many combinations."
    names, count, there = [], 1, {control.name: control for control in explorer.controls}
    for control in [there[name] for name in explorer.on_site or there if name in there]:
        if control.kind != "text" and count * len(control.options) <= most:
            names, count = [*names, control.name], count * len(control.options)
    return names


def explorer_page(text, source, place, most):
    'The file of an explorer from how it prints, such as "BetaExplorer(beta=0.1): run the cell …"; made once for each state.'
    only = re.search(r"\.(select\([^)]*\))", source)
    name = f"{text.split('(')[0]}-{hashlib.sha1(f'{text}{only and only[1]}'.encode()).hexdigest()[:8]}.html"
    if not (place / name).exists():
        explorer = explorer_of(text, source)
        page = explorer.to_html(over=moving(explorer, most)).replace(
            f"<script>{plotly_js().decode()}</script>", '<script src="../_static/plotly.min.js"></script>'
        )
        tell = "<script>new ResizeObserver(() => parent.postMessage({gib: location.pathname, height: document.getElementById('gib-root').scrollHeight + 8}, '*')).observe(document.getElementById('gib-root'))</script>"
        (place / name).write_text(page.replace("</body>", f"{tell}</body>"), encoding="utf-8")
        print("explorer", name, f"{(place / name).stat().st_size // 1000} kB", flush=True)
    return name


def alive(output, source, up, place, most, key):
    "An output as a page can show it: figures drawn by plotly.js, explorers in a frame."
    data = output.get("data", {})
    data.pop(WIDGET, None)
    text = "".join(data.get("text/plain", ""))
    if re.match(r"\w+Explorer\(.*\): run the cell", text, re.S) and explorer_of(text, source) is not None:
        name = explorer_page(text, source, place, most)
        title = html.escape(text.split("(")[0])
        output["data"] = {
            "text/html": f'<iframe class="gib-frame" title="{title}" src="{up}explorers/{name}" loading="lazy"></iframe>'
            + lite.button(lite.explorer_link(text, source), up)
        }
    elif figure := data.pop(PLOTLY, None):
        drawn = json.dumps(
            {"data": figure["data"], "layout": figure["layout"], "frames": figure.get("frames", [])}
        ).replace("</", "<\\/")
        high = figure["layout"].get("height", 450)
        output["data"] = {
            "text/html": f'<div id="{key}" class="gib-figure" style="min-height:{high}px"></div><script>addEventListener("load", () => gibFigure("{key}", {drawn}))</script>'
        }
    return output


def notebook(path, target, place, most):
    "A notebook for the site: without directives and bookkeeping cells, with live outputs."
    content = json.loads(path.read_text())
    up, cells = "../" * (len(path.relative_to(ROOT).parts) - 1), []
    for number, cell in enumerate(content["cells"]):
        source = "".join(cell["source"])
        if badges.TAG in cell["metadata"].get("tags", ()):
            continue
        if cell["cell_type"] == "code":
            if re.match(r"#\s*\|\s*(hide|default_exp)", source):
                continue
            cell["source"] = DIRECTIVE.sub("", source) if source.startswith("#|") else source
            cell["outputs"] = [
                alive(
                    output,
                    source,
                    up,
                    place,
                    most,
                    f"f{hashlib.sha1(f'{path.name}{number}{i}'.encode()).hexdigest()[:10]}",
                )
                for i, output in enumerate(cell["outputs"])
            ]
        else:  # JupyterLab and GitHub keep the letters of a heading in its address, Sphinx makes them small
            cell["source"] = re.sub(
                r"(glossary\.ipynb#)([^)\s]+)", lambda found: found[1] + re.sub(r"[^\w-]", "", found[2].lower()), source
            )
        cells.append(cell)
    if link := lite.notebook_link(path):
        cells.insert(
            1,
            {
                "cell_type": "markdown",
                "id": "run",
                "metadata": {"tags": [badges.TAG]},
                "source": f"{lite.button(link, up)} {STARTS.format(*badges.links(path.relative_to(ROOT)))}",
            },
        )
    content["cells"] = cells
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(content))


def reference(name, room):
    "The page of a module: every public name with its signature, what its parameters mean, and its docstring."
    module = importlib.import_module(f"gib_nb.{name}")
    lines = [
        f"# gib_nb.{name}",
        "",
        linked(inspect.getdoc(module) or ""),
        "",
        *([f"Explained in [its notebook](../{room}).", ""] if room else []),
    ]
    for public in public_names(module):
        thing = getattr(module, public)
        lines += [f"## {public}", "", *described(public, thing)]
        if inspect.isclass(thing):
            for method, function in vars(thing).items():
                kind = type(function).__name__
                function = function.f if kind == "_clsmethod" else getattr(function, "__func__", function)
                if not method.startswith("_") and inspect.isfunction(function) and function.__doc__:
                    lines += [f"### {public}.{method}", "", *described(method, function, bound=kind != "staticmethod")]
                elif isinstance(function, property) and function.fget.__doc__ and not method.startswith("_"):
                    lines += [f"### {public}.{method}", "", linked(function.fget.__doc__), ""]
    return "\n".join(lines)


def described(name, thing, bound=False):
    "Lines of Markdown: the signature as one would write it, the docstring, and a list of the parameters that say more."
    said = parameters(thing)
    return [
        *("```python", signature(name, thing, bound), "```", "", linked(inspect.getdoc(thing) or ""), ""),
        *(f"- `{parameter}`: {linked(words)}" for parameter, words in said.items()),
        *([""] if said else []),
    ]


def signature(name, thing, bound=False):
    "`class Name(first: int, second=None) -> Result`, wrapped, with annotations as short as in the source."
    try:
        found = inspect.signature(thing)
    except ValueError:  # a class of Python's own making
        return f"class {name}"
    given = list(found.parameters.values())[bound:]
    parts, named = [], any(each.kind is each.VAR_POSITIONAL for each in given)
    for each in given:
        if each.kind is each.KEYWORD_ONLY and not named:
            parts, named = [*parts, "*"], True
        parts.append(short(str(each)))
    result = (
        "" if inspect.isclass(thing) or found.return_annotation is found.empty else short(str(found).rpartition(")")[2])
    )
    line = f"({', '.join(parts)})"
    text = line if len(line + result) <= 90 else "(\n    " + ",\n    ".join(parts) + ",\n)"
    return f"{'class ' if inspect.isclass(thing) else ''}{name}{text}{result}"


def short(text):
    "Annotations without the names of modules."
    text = re.sub(
        r"\b(?:gib_nb|torch|torch_geometric|numpy|pandas|collections|typing|pathlib|os)\.(?:\w+\.)*(?=[A-Z])", "", text
    )
    text = re.sub(r"<function [^>]*>?[^>]* at 0x[0-9a-f]+>", "...", text)
    text = re.sub(r"<(?:[\w.]*\.)?(\w+) object at 0x[0-9a-f]+>", r"\1()", text)
    return re.sub(r"<class '(?:[\w.]*\.)?(\w+)'>", r"\1", text).replace("<factory>", "...")


def parameters(thing):
    "Parameter → what it means, from the help of a setting or the comment beside it."
    if dataclasses.is_dataclass(thing):
        found = {each.name: each.metadata.get("help") for each in dataclasses.fields(thing) if each.init}
        if any(found.values()):
            return {name: words for name, words in found.items() if words}
    try:
        found = docments(thing)
    except (TypeError, OSError, ValueError):
        return {}
    return {name: words for name, words in found.items() if words and name not in ("self", "cls")}


def notebooks():
    return sorted(path for path in (ROOT / "nbs").rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)


def public_names(module):
    "The public classes and functions of a module: those of `__all__`, or all that it defines."
    names = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
    own = lambda thing: callable(thing) and getattr(thing, "__module__", None) == module.__name__
    return [name for name in names if own(getattr(module, name))]


@functools.cache
def modules():
    "Module → its notebook, or None for those of `PLAIN`."
    found = dict.fromkeys(PLAIN)
    for path in notebooks():
        if exported := re.search(r"#\| default_exp ([\w.]+)", path.read_text()):
            found[exported[1]] = path.relative_to(ROOT)
    return found


@functools.cache
def places():
    "Public class or function → its module."
    found = {}
    for name in modules():
        found |= dict.fromkeys(public_names(importlib.import_module(f"gib_nb.{name}")), name)
    return found


def linked(text):
    "A text in which names of the package lead to their page."
    link = lambda found: (
        f"[{found[0]}]({places()[found[1]]}.md#{found[1].lower()})" if found[1] in places() else found[0]
    )
    text = re.sub(r":\w+:`~?([^`]*)`", r"`\1`", text)  # roles in docstrings of other packages
    return re.sub(r"`([A-Za-z_]\w*)`", link, text)


def contents(caption, pages):
    "A table of contents for the side bar."
    return "\n".join([":::{toctree}", ":hidden:", f":caption: {caption}", "", *pages, ":::", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=2000)
    parser.add_argument("--to", type=pathlib.Path, default=ROOT / "_docs")
    parser.add_argument("--pyodide", type=pathlib.Path)
    parser.add_argument("--only", nargs="+", metavar="NAME")
    options = parser.parse_args()
    source, site = options.to / "source", options.to / "html"
    shutil.rmtree(options.to, ignore_errors=True)
    place = source / "extra" / "explorers"
    place.mkdir(parents=True)
    (source / "_static").mkdir()
    (source / "_static" / "plotly.min.js").write_bytes(plotly_js())
    shutil.copy(ROOT / "docs" / "gib.css", source / "_static")
    write_frames(source / "_static")
    for name in ("conf.py", "mathml.py"):
        shutil.copy(ROOT / "docs" / name, source)
    paths = [path for path in notebooks() if not options.only or path.stem in options.only]
    described = {} if options.only else modules()
    for path in paths:
        notebook(path, source / path.relative_to(ROOT), place, options.most)
    (source / "api").mkdir()
    for name, room in described.items():
        (source / "api" / f"{name}.md").write_text(reference(name, room))
    tables = [
        contents(
            caption,
            [
                f"nbs/{group + '/' if group else ''}{path.stem}"
                for path in sorted((path for path in paths if path.parent.name == (group or "nbs")), key=order)
                if path.stem not in ("0_start_here", "glossary")
            ],
        )
        for group, caption in GROUPS.items()
    ]
    front = (ROOT / "docs" / "index.md").read_text()
    front = re.sub(
        r"EXPLORER: (.*)",
        lambda found: (
            f'<iframe class="gib-frame" title="explorer" src="explorers/{explorer_page(found[1], found[1], place, options.most)}"></iframe>'
            + lite.button(lite.explorer_link(found[1], found[1]), "")
        ),
        front,
    )
    (source / "index.md").write_text(
        front
        + "\n"
        + contents("Begin", ["nbs/0_start_here", "nbs/glossary", *(f"docs/{page}" for page in PAGES), "equations"])
        + "\n"
        + "\n".join(tables)
        + contents("Reference", [f"api/{name}" for name in described])
    )
    shutil.copy(ROOT / "docs" / "equations.md", source)
    (source / "docs").mkdir()
    for page in PAGES:
        text = (ROOT / "docs" / f"{page}.md").read_text()
        (source / "docs" / f"{page}.md").write_text(lite.with_buttons(text) if page == "explorers" else text)
    command = [
        sys.executable,
        "-m",
        "sphinx",
        *(["-Q"] if options.only else ["-q", "-W", "--keep-going"]),
        "-j",
        "2",
        "-b",
        "html",
        str(source),
        str(site),
    ]
    if code := subprocess.run(command).returncode:
        return code
    if options.only:
        return 0
    lite.build(options.to / "lite", site / "lite", options.pyodide)
    print(f"the site is in {site}: open {site / 'index.html'}")
    print(f"to run Python in the browser, serve it: {sys.executable} -m http.server --directory {site}")


def order(path):
    "Numbers as numbers: lesson_2 before lesson_10."
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.stem)]


if __name__ == "__main__":
    sys.exit(main())
