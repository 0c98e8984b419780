"""The course on Colab, on Binder, and in a development container: badges, the first cell of a notebook, and what these places run to set up."""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
LESSONS = sorted(path for path in (ROOT / "nbs" / "lessons").glob("*.ipynb") if path.stem != "teaching")


@pytest.fixture
def badges(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    import badges

    return badges


def test_badges_are_those_of_the_settings(badges):
    for path, text in badges.written().items():
        assert path.read_text() == text, "run: python docs/badges.py"
    colab, binder = badges.links("nbs/lessons/01_bits.ipynb")
    assert colab == "https://colab.research.google.com/github/gib-nb/gib-nb/blob/main/nbs/lessons/01_bits.ipynb"
    assert binder == "https://mybinder.org/v2/gh/gib-nb/gib-nb/main?urlpath=lab/tree/nbs/lessons/01_bits.ipynb"
    assert colab in (ROOT / "nbs" / "lessons" / "01_bits.ipynb").read_text() and len(LESSONS) == 11


def test_the_first_cell_installs_only_where_the_package_is_missing(badges, monkeypatch):
    ran = []
    shell = type("Shell", (), {"run_line_magic": lambda self, *words: ran.append(words)})()
    for path in LESSONS:
        code = next(cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code")
        exec("".join(code["source"]), {"get_ipython": lambda: shell})
    assert ran == []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    exec("".join(code["source"]), {"get_ipython": lambda: shell})
    assert ran == [("pip", "install -q gib-nb")]


def test_the_address_in_messages_is_that_of_the_settings(badges):
    from gib_nb.utils.missing import INSTALL

    assert INSTALL == f"{badges.address()}#install" and "\n## Install\n" in (ROOT / "README.md").read_text()


def copy_of_the_project(folder):
    "The files of the project, as a fresh clone would have them."
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    for name in names.stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


def test_both_places_call_make_setup(tmp_path):
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert container["postCreateCommand"] == "make setup"
    copy_of_the_project(tmp_path)
    environment = os.environ | {"NB_PYTHON_PREFIX": str(tmp_path / "served"), "MAKEFLAGS": "-n"}
    for command in (["bash", "binder/postBuild"], ["bash", "-c", container["postCreateCommand"]]):
        planned = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        ).stdout
        prefix = str(tmp_path / "served") if "binder" in command[1] else ".venv"
        assert f"{prefix}/bin/python -m pip install" in planned and "-e '.[dev]'" in planned
        assert f"ipykernel install --prefix {prefix}" in planned


@pytest.mark.slow
@pytest.mark.parametrize("place", ["binder", "container"])
def test_a_fresh_environment_runs_the_course(place, tmp_path):
    "What Binder and the container do, in a new environment: install everything, then run a lesson."
    copy_of_the_project(tmp_path)
    own = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "JUPYTER_PATH")
    }
    prefix = tmp_path / ("served" if place == "binder" else ".venv")
    if place == "binder":  # which has an environment already
        subprocess.run([sys.executable, "-m", "venv", prefix], check=True)
        command = ["bash", "binder/postBuild"]
    else:
        command = [
            "bash",
            "-c",
            json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())["postCreateCommand"],
        ]
    subprocess.run(command, cwd=tmp_path, env=own | {"NB_PYTHON_PREFIX": str(prefix)}, check=True, timeout=1500)
    run = [prefix / "bin" / "python", "tests/run_notebooks.py", "nbs/lessons/01_bits.ipynb"]
    subprocess.run(run, cwd=tmp_path, env=own, check=True, timeout=300)
    kernel = json.loads((prefix / "share" / "jupyter" / "kernels" / "python3" / "kernel.json").read_text())
    assert pathlib.Path(kernel["argv"][0]).parent == prefix / "bin"
