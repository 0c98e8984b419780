"""The two halves of the project agree: settings, notebooks and package."""
import base64
import configparser
import filecmp
import importlib
import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from PIL import Image

from gib_nb import plots

ROOT = pathlib.Path(__file__).parents[1]
NOTEBOOKS = sorted(path for path in (ROOT / "nbs").rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)
ROOM = r"\d\d[a-z]?_"


def run(code, **kwargs):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, **kwargs).stdout.strip()


def settings():
    parser = configparser.ConfigParser(delimiters=["="], interpolation=None)
    parser.read(ROOT / "settings.ini")
    return parser["DEFAULT"]


def test_settings_agree_with_pyproject():
    import gib_nb
    ours = settings()
    with open(ROOT / "pyproject.toml", "rb") as file:
        theirs = tomllib.load(file)
    assert ours["version"] == gib_nb.__version__
    assert ours["lib_name"] == theirs["project"]["name"]
    assert ">=" + ours["min_python"] == theirs["project"]["requires-python"]
    assert ours["description"] == theirs["project"]["description"]
    for key in ("lib_path", "nbs_path", "doc_path", "readme_nb", "tst_flags", "allowed_cell_metadata_keys"):
        assert ours[key] == theirs["tool"]["nbdev"].get(key, "nbs"), key


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    "The project's sources in a folder of their own, exported and cleaned anew."
    folder = tmp_path_factory.mktemp("project")
    for name in ("nbs", "gib_nb"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
    for name in ("settings.ini", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder / name)
    for command in ("nbdev_export", "nbdev_clean"):
        subprocess.run([str(pathlib.Path(sys.executable).with_name(command))], cwd=folder, check=True, capture_output=True)
    return folder


def test_package_equals_notebooks(copied):
    "Exporting again changes nothing."
    modules, ours = (sorted(path.relative_to(root / "gib_nb") for path in (root / "gib_nb").rglob("*.py")) for root in (copied, ROOT))
    assert modules == ours
    different = [name for name in modules if not filecmp.cmp(copied / "gib_nb" / name, ROOT / "gib_nb" / name, shallow=False)]
    assert not different, f"exported modules differ from the notebooks: {different}; run make export"


def test_notebooks_are_clean(copied):
    "Cleaning again changes nothing."
    different = [str(path.relative_to(ROOT)) for path in NOTEBOOKS
                 if not filecmp.cmp(copied / path.relative_to(ROOT), path, shallow=False)]
    assert not different, f"notebooks are not clean: {different}; run make notebooks"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_fit_to_commit(path):
    "Small, without widget state, without errors, and with no trace of the machine it ran on."
    assert path.stat().st_size < 200_000
    notebook = json.loads(path.read_text())
    assert "widgets" not in notebook["metadata"]
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            assert output["output_type"] != "error", "".join(cell["source"])
            assert "application/vnd.jupyter.widget-view+json" not in output.get("data", {})
    assert not re.search(r"/(home|root|tmp|work|Users)/\w", path.read_text())


def outputs(path):
    "Format -> content of each output of a notebook that has formats."
    for cell in json.loads(path.read_text())["cells"]:
        for output in cell.get("outputs", []):
            if "data" in output:
                yield {kind: "".join(content) if isinstance(content, list) else content for kind, content in output["data"].items()}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_pictures_are_shown_before_anything_runs(path):
    "JupyterLab removes <svg> from the HTML of a notebook that it does not trust, and shows no image/svg+xml of it; a PNG it shows."
    for data in outputs(path):
        assert "<svg" not in data.get("text/html", "")
        if "image/svg+xml" in data or "application/vnd.plotly.v1+json" in data:
            assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
        if "image/svg+xml" in data:
            assert ElementTree.fromstring(data["image/svg+xml"]).tag == "{http://www.w3.org/2000/svg}svg"


def house_colours(png):
    "Which of the house colors a PNG has exactly."
    pixels = {tuple(pixel) for pixel in np.unique(np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).reshape(-1, 3), axis=0).tolist()}
    return {name for name in ("BLUE", "ORANGE", "GREEN", "RED", "PURPLE") if tuple(bytes.fromhex(getattr(plots, name)[1:])) in pixels}


@pytest.mark.parametrize("path", [path for path in NOTEBOOKS if path.parent.name == "explorers" and path.stem != "app"], ids=lambda path: path.stem)
def test_photographs_have_the_colours_of_the_legend(path):
    "A text that speaks of an orange curve must not stand beside a brown one."
    pictures = [base64.b64decode(data["image/png"]) for data in outputs(path) if "image/png" in data and "run the cell" in data.get("text/plain", "")]
    assert pictures and all(house_colours(png) for png in pictures)
    assert house_colours((ROOT / "docs" / "explorer.png").read_bytes()) >= {"BLUE", "ORANGE"}


def test_packing_keeps_flat_colours():
    "However many shades a picture has, areas and lines keep their color; only blended edges are rounded."
    from tests.run_notebooks import packed
    names = ("BLUE", "ORANGE", "GREEN", "RED", "PURPLE")
    pixels = np.random.default_rng(0).integers(0, 256, (200, 300, 3)).astype(np.uint8)
    for place, name in enumerate(names):
        pixels[20:22, 50 * place:50 * place + 40] = tuple(bytes.fromhex(getattr(plots, name)[1:]))
    whole = io.BytesIO()
    Image.fromarray(pixels).save(whole, "PNG")
    read = lambda png: np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)
    for most, off in (((10**6,), 0), ((0,), 8), ((0, 0), 17), ((0, 0, 0), 25)):
        small = packed(whole.getvalue(), most)
        assert house_colours(small) == set(names) and np.abs(read(small) - pixels).max() <= off and len(small) <= len(whole.getvalue()) * (1 if off == 0 else .7)


@pytest.mark.parametrize("path", [path for path in NOTEBOOKS if re.match(ROOM, path.name)], ids=lambda path: path.stem)
def test_rooms_import_only_rooms_above(path):
    "Data flows one way: a module imports modules with lower numbers, or letters of one number. What a notebook shows may be drawn by a later room."
    place = {found.stem.split("_", 1)[1]: found.stem.split("_")[0] for found in NOTEBOOKS if re.match(ROOM, found.name)} | {"explorers": "16"}
    source = "\n".join("".join(cell["source"]) for cell in json.loads(path.read_text())["cells"]
                       if cell["cell_type"] == "code" and "#| export" in "".join(cell["source"]))
    for imported in re.findall(r"from gib_nb\.(\w+) import", source):
        assert place[imported] < path.stem.split("_")[0], f"{path.stem} imports {imported}"


def test_import_is_light():
    "Importing the package, its command line, its explanations and its pictures loads nothing heavy."
    heavy = run("import gib_nb, gib_nb.cli, gib_nb.explain, gib_nb.plots, sys; "
                "print([m for m in ('numpy', 'torch', 'torch_geometric', 'rdkit', 'plotly', 'sklearn', 'pandas', 'networkx') if m in sys.modules])")
    assert heavy == "[]"


def test_public_names_resolve():
    import gib_nb
    for name in gib_nb.__all__:
        assert getattr(gib_nb, name) is not None
    assert set(dir(gib_nb)) == set(gib_nb.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        gib_nb.nothing


@pytest.mark.parametrize("room", ["information", "mi", "case_study", "data", "molecules", "backbones", "connectivity", "model", "trainer", "explain", "plots", "cli"])
def test_public_functions_are_documented(room):
    "Every exported function and class has a docstring."
    module = importlib.import_module(f"gib_nb.{room}")
    for name in module.__all__:
        thing = getattr(module, name)
        if callable(thing) and getattr(thing, "__module__", "") == module.__name__:
            assert thing.__doc__, f"{room}.{name}"


def test_nbdev_still_imports():
    "The pinned set of nbdev's own dependencies fits together."
    run("import nbdev.test, nbdev.clean, nbdev.export")
