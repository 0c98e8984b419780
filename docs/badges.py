"""Badges that open a notebook on Colab or Binder, and a first cell that installs the package there.

`python docs/badges.py` writes them into the lessons and the README. The address of the repository is that of settings.ini.
"""

import configparser
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
TAG = "elsewhere"  # of the cells that only other places need
BEGIN, END = "<!-- written by docs/badges.py -->", "<!-- end of the badges -->"
INSTALL = """import importlib.util

if importlib.util.find_spec("gib_nb") is None:  # on Colab: %pip install gib-nb
    get_ipython().run_line_magic("pip", "install -q gib-nb")"""


def address(page=""):
    "The public address of the repository, or of a page in it."
    settings = configparser.ConfigParser()
    settings.read(ROOT / "settings.ini")
    found = settings["DEFAULT"]
    return found["git_url"] + (f"/blob/{found['branch']}/{page}" if page else "")


def links(page):  # path in the repository
    "Where a notebook opens on Colab, and where on Binder."
    host, _, rest = address(page).partition("//")[2].partition("/")
    name, _, place = rest.partition("/blob/")
    branch = place.partition("/")[0]
    assert host == "github.com", f"expected a repository on github.com (got {host})"
    return (
        f"https://colab.research.google.com/github/{rest}",
        f"https://mybinder.org/v2/gh/{name}/{branch}?urlpath=lab/tree/{page}",
    )


def badges(page):
    "Both badges of a notebook as a line of Markdown."
    colab, binder = links(page)
    return (
        f"[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({colab}) "
        f"[![Open in Binder](https://mybinder.org/badge_logo.svg)]({binder})"
    )


def lesson(path):
    "The text of a lesson with its badges and its first cell, after the title."
    content = json.loads(path.read_text())
    lines = lambda text: text.splitlines(keepends=True)
    ours = [
        {
            "cell_type": "markdown",
            "id": "badges",
            "metadata": {"tags": [TAG]},
            "source": lines(badges(path.relative_to(ROOT))),
        },
        {
            "cell_type": "code",
            "execution_count": None,
            "id": "install",
            "metadata": {"tags": [TAG]},
            "outputs": [],
            "source": lines(INSTALL),
        },
    ]
    title, *others = [cell for cell in content["cells"] if TAG not in cell["metadata"].get("tags", ())]
    return json.dumps(content | {"cells": [title, *ours, *others]}, indent=1, ensure_ascii=False) + "\n"


def readme():
    "The README with the badges of the first notebook."
    text = (ROOT / "README.md").read_text()
    line = f"{BEGIN}\n{badges('nbs/0_start_here.ipynb')}\n{END}"
    return re.sub(f"{BEGIN}.*?{END}", lambda _: line, text, flags=re.S)


def written():
    "Path → text of all that has badges."
    lessons = sorted(path for path in (ROOT / "nbs" / "lessons").glob("*.ipynb") if path.stem != "teaching")
    return {path: lesson(path) for path in [*lessons, ROOT / "nbs" / "0_start_here.ipynb"]} | {
        ROOT / "README.md": readme()
    }


if __name__ == "__main__":
    for path, text in written().items():
        path.write_text(text)
