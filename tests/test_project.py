"""The two halves of the project agree: settings, notebooks and package."""

import ast
import base64
import configparser
import filecmp
import importlib
import importlib.metadata
import importlib.util
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
from packaging.specifiers import SpecifierSet
from PIL import Image

from gib_nb.report import figures as plots

ROOT = pathlib.Path(__file__).parents[1]
NOTEBOOKS = sorted(path for path in (ROOT / "nbs").rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)
ROOM = r"\d\d_"
# a module imports only packages above its own in this list, and rooms of its own package with lower numbers
PACKAGES = (
    "utils",
    "information",
    "chem",
    "data",
    "nn",
    "train",
    "methods",
    "explain",
    "report",
    "experiments",
    "explorers",
    "exercises",
    "course",
    "cli",
)


def run(code, **kwargs):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, **kwargs
    ).stdout.strip()


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


def test_pinned_versions_run_on_the_lowest_python():
    "Else pip, on an older patch of that Python, looks for other versions of everything."
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
    lowest = settings()["min_python"] + ".0"
    found = {
        dist.metadata["Name"].lower().replace("_", "-"): dist
        for dist in importlib.metadata.distributions()
        if "Requires-Python" in dist.metadata
    }
    pinned = [name for name, version in pins.items() if name in found and found[name].version == version]
    assert len(pinned) > len(pins) / 2
    assert not [name for name in pinned if not SpecifierSet(found[name].metadata["Requires-Python"]).contains(lowest)]


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    "The project's sources in a folder of their own, exported and cleaned anew."
    folder = tmp_path_factory.mktemp("project")
    for name in ("nbs", "gib_nb"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
    for name in ("settings.ini", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder / name)
    for command in ("nbdev_export", "nbdev_clean"):
        subprocess.run(
            [str(pathlib.Path(sys.executable).with_name(command))], cwd=folder, check=True, capture_output=True
        )
    return folder


def test_package_equals_notebooks(copied):
    "Exporting again changes nothing."
    modules, ours = (
        sorted(path.relative_to(root / "gib_nb") for path in (root / "gib_nb").rglob("*.py")) for root in (copied, ROOT)
    )
    assert modules == ours
    different = [
        name for name in modules if not filecmp.cmp(copied / "gib_nb" / name, ROOT / "gib_nb" / name, shallow=False)
    ]
    assert not different, f"exported modules differ from the notebooks: {different}; run make export"


def test_notebooks_are_clean(copied):
    "Cleaning again changes nothing."
    different = [
        str(path.relative_to(ROOT))
        for path in NOTEBOOKS
        if not filecmp.cmp(copied / path.relative_to(ROOT), path, shallow=False)
    ]
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
                yield {
                    kind: "".join(content) if isinstance(content, list) else content
                    for kind, content in output["data"].items()
                }


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_pictures_are_shown_before_anything_runs(path):
    "JupyterLab removes <svg> from the HTML of a notebook that it does not trust, and shows no image/svg+xml of it; a PNG it shows."
    for data in outputs(path):
        assert "<svg" not in data.get("text/html", "")
        if "image/svg+xml" in data or "application/vnd.plotly.v1+json" in data:
            assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
        if "image/svg+xml" in data:
            assert ElementTree.fromstring(data["image/svg+xml"]).tag == "{http://www.w3.org/2000/svg}svg"


def house_colors(png):
    "Which of the house colors a PNG has exactly."
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(np.uint32) @ np.array(
        [1 << 16, 1 << 8, 1], np.uint32
    )
    return {
        name
        for name in ("BLUE", "ORANGE", "GREEN", "RED", "PURPLE")
        if (pixels == int(getattr(plots, name)[1:], 16)).any()
    }


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in NOTEBOOKS
        if path.parent.name == "explorers"
        and not path.stem.endswith("_sweep")
        and path.stem not in ("app", "case_study_numpy", "molecule_models")
    ],
    ids=lambda path: path.stem,
)
def test_photographs_have_the_colors_of_the_legend(path):
    "A text that speaks of an orange curve must not stand beside a brown one."
    pictures = [
        base64.b64decode(data["image/png"])
        for data in outputs(path)
        if "image/png" in data and "run the cell" in data.get("text/plain", "")
    ]
    assert pictures and all(house_colors(png) for png in pictures)
    assert house_colors((ROOT / "docs" / "explorer.png").read_bytes()) >= {"BLUE", "ORANGE"}


@pytest.mark.slow
def test_packing_keeps_flat_colors():
    "However many shades a picture has, areas and lines keep their color; only blended edges are rounded."
    from tests.run_notebooks import packed

    names = ("BLUE", "ORANGE", "GREEN", "RED", "PURPLE")
    pixels = np.random.default_rng(0).integers(0, 256, (200, 300, 3)).astype(np.uint8)
    for place, name in enumerate(names):
        pixels[20:22, 50 * place : 50 * place + 40] = tuple(bytes.fromhex(getattr(plots, name)[1:]))
    whole = io.BytesIO()
    Image.fromarray(pixels).save(whole, "PNG")
    read = lambda png: np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)
    for most, off in (((10**6,), 0), ((0,), 8), ((0, 0), 17), ((0, 0, 0), 25)):
        small = packed(whole.getvalue(), most)
        assert (
            house_colors(small) == set(names)
            and np.abs(read(small) - pixels).max() <= off
            and len(small) <= len(whole.getvalue()) * (1 if off == 0 else 0.7)
        )


def modules():
    "Name -> path of every module of the package, but for the list of public names and nbdev's index."
    paths = {
        path.relative_to(ROOT).with_suffix(""): path
        for path in sorted((ROOT / "gib_nb").rglob("*.py"))
        if path.name != "_modidx.py"
    }
    return {
        ".".join(parts).removesuffix(".__init__"): path
        for parts, path in ((place.parts, path) for place, path in paths.items())
        if len(parts) > 2 or parts[-1] != "__init__"
    }


def numbers():
    "Module -> number of its room."
    rooms = [path for path in NOTEBOOKS if path.parent.name == "nbs" and re.match(ROOM, path.name)]
    return {"gib_nb." + re.search(r"default_exp ([.\w]+)", path.read_text())[1]: int(path.name[:2]) for path in rooms}


def imports(name, path):
    "(imported module, whether by a string) of a module: anywhere in it, also in functions."
    import gib_nb

    known, within = modules(), name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            source = (
                importlib.util.resolve_name("." * node.level + (node.module or ""), within)
                if node.level
                else node.module
            )
            for alias in node.names:
                if source == "gib_nb" and alias.name in gib_nb._MODULE_OF:
                    yield f"gib_nb.{gib_nb._MODULE_OF[alias.name]}", False
                elif alias.name != "__version__":
                    yield (f"{source}.{alias.name}" if f"{source}.{alias.name}" in known else source), False
        elif isinstance(node, ast.Import):
            yield from ((alias.name, False) for alias in node.names)
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and (found := re.fullmatch(r"(gib_nb(?:\.\w+)+)\.?(?::\w+)?", node.value))
        ):
            yield found[1], True


@pytest.mark.parametrize("name", modules())
def test_imports_go_down(name):
    "Data flows one way, from package to package and within one. What a notebook shows may be drawn by a later room."
    place, number, package = PACKAGES.index, numbers(), name.split(".")[1]
    for imported, by_string in imports(name, modules()[name]):
        if imported.split(".")[0] != "gib_nb":
            continue
        theirs = imported.split(".")[1]
        if by_string and (package, theirs) == ("train", "methods"):
            continue  # a method is looked up by its name
        assert place(theirs) <= place(package), f"{name} imports {imported}"
        if (
            theirs == package
            and not by_string
            and imported != f"gib_nb.{package}"
            and name in number
            and imported in number
        ):
            assert number[imported] < number[name], f"{name} imports {imported}"


def test_rooms_are_numbered_as_they_import():
    "Numbers follow the list of packages; the rooms of utils, which import nothing of ours, stand where they are first needed."
    number, known = numbers(), modules()
    assert sorted(number.values()) == list(range(len(number)))
    places = [
        PACKAGES.index(name.split(".")[1])
        for name in sorted(number, key=number.get)
        if not name.startswith("gib_nb.utils.")
    ]
    assert places == sorted(places)
    for name in number:
        late = [imported for imported, _ in imports(name, known[name]) if number.get(imported, -1) > number[name]]
        assert not late, f"{name} imports {late}"


def test_packages_import_nothing():
    "What a package holds is loaded when it is asked for; exercises and explorers have names of their own, and the command line its entry point."
    for name, path in modules().items():
        if path.name == "__init__.py" and name not in ("gib_nb.explorers", "gib_nb.exercises", "gib_nb.cli"):
            assert [type(node) for node in ast.parse(path.read_text()).body] == [ast.Expr], name


def test_entry_points_exist():
    with open(ROOT / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    for entry in (*project["scripts"].values(), *project["entry-points"]["nbdev"].values()):
        module, name = entry.split(":")
        assert hasattr(importlib.import_module(module), name)


def test_import_is_light():
    "Importing the package, its command line, its explanations and its pictures loads nothing heavy."
    heavy = run(
        "import gib_nb, gib_nb.cli, gib_nb.explain.metrics, gib_nb.explain.molecule, gib_nb.report.evaluate, gib_nb.report.tables, gib_nb.report.figures, "
        "gib_nb.utils.files, sys; "
        "print([m for m in ('numpy', 'torch', 'torch_geometric', 'rdkit', 'plotly', 'sklearn', 'pandas', 'networkx') if m in sys.modules])"
    )
    assert heavy == "[]"


def test_public_names_resolve():
    import gib_nb

    for name in gib_nb.__all__:
        assert getattr(gib_nb, name) is not None
    assert set(dir(gib_nb)) == set(gib_nb.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        gib_nb.nothing


MODULES = sorted(path for path in (ROOT / "gib_nb").rglob("*.py") if path.name not in ("_modidx.py", "__main__.py"))


def undocumented(tree):
    "Public functions and classes of a parsed module without a docstring in the source; one that Python makes up, as for a dataclass, does not count."
    patched = lambda node: (
        isinstance(node, ast.FunctionDef) and bool(node.args.args) and node.args.args[0].arg in ("self", "cls")
    )  # a method that is added to its class
    public = [
        node
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and not node.name.startswith("_")
        and not patched(node)
    ]
    return [node.name for node in public if not (ast.get_docstring(node) or "").strip()]


def test_a_docstring_that_python_makes_up_does_not_count():
    source = "@dataclass\nclass Point:\n    x: int\n\ndef said():\n    'Yes.'\n\ndef blank():\n    ''\n\ndef _private():\n    pass\n"
    assert undocumented(ast.parse(source)) == ["Point", "blank"]
    assert len(MODULES) > 20


@pytest.mark.parametrize(
    "path", MODULES, ids=lambda path: ".".join(path.relative_to(ROOT / "gib_nb").with_suffix("").parts)
)
def test_public_functions_are_documented(path):
    "Every exported function and class has a docstring that somebody wrote."
    assert undocumented(ast.parse(path.read_text())) == []


def test_nbdev_still_imports():
    "The pinned set of nbdev's own dependencies fits together."
    run("import nbdev.test, nbdev.clean, nbdev.export")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_exported_cells_are_short(path):
    "At most 40 lines; a longer class gets its methods by `@patch`."
    sources = ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    long = [source for source in sources if source.startswith("#| export") and len(source.splitlines()) > 40]
    assert not long, long[0][:200]
