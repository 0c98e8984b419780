"""The part of the site in which Python runs in the browser: what its notebooks, links, and packages contain. tests/browser/test_lite.py runs it."""

import json
import pathlib
import re
import urllib.parse
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parents[1]
LESSONS = sorted(path for path in (ROOT / "nbs" / "lessons").glob("*.ipynb") if path.stem != "teaching")


@pytest.fixture
def lite(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    import lite

    return lite


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_shows_the_stored_results_of_what_it_cannot_run(lite, path):
    cells = {cell["id"]: cell for cell in lite.notebook(path)["cells"]}
    for cell in json.loads(path.read_text())["cells"]:
        if {"elsewhere", "remove-cell"} & {*cell["metadata"].get("tags", ())}:
            assert cell["id"] not in cells
            continue
        made, tagged = cells[cell["id"]], lite.TAG in cell["metadata"].get("tags", ())
        assert made["cell_type"] == ("markdown" if tagged else cell["cell_type"])
        if tagged:
            assert "".join(cell["source"]) in made["source"] and made["source"].startswith("**Not run here.**")
            pictures = sum("image/png" in output.get("data", {}) for output in cell["outputs"])
            assert len(made.get("attachments", {})) == made["source"].count("](attachment:") == pictures
            for output in cell["outputs"]:
                assert "".join(output.get("text", "")).rstrip() in made["source"]


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_links_lead_to_notebooks_that_are_there(lite, path):
    there = set(lite.files())
    text = "\n".join("".join(cell["source"]) for cell in lite.notebook(path)["cells"])
    for target in re.findall(r"\]\(([^)\s]+\.ipynb)", text):
        if target.startswith("http"):
            assert (ROOT / target.split("/blob/main/")[1]).exists()
        else:
            assert (path.parent / target).resolve() in there


def test_packages_have_what_the_browser_needs(lite, tmp_path):
    pytest.importorskip("jupyterlite_pyodide_kernel", reason="the site needs the extra docs")
    found = lite.packages(tmp_path)
    assert {"gib-nb", "plotly", "anywidget", "piplite", "pyodide-kernel", "ipykernel"} <= set(found)
    assert set(found["gib-nb"]["depends"]) == {"anywidget", "fastcore", "ipywidgets", "numpy", "plotly", "tqdm"}
    assert found["plotly"]["imports"] == ["_plotly_utils", "plotly"]
    for wheel in found.values():
        assert set(wheel["depends"]) <= {*found, *lite.OF_PYODIDE}
        names = zipfile.ZipFile(tmp_path / wheel["file_name"]).namelist()
        assert not [name for name in names if name.endswith((".so", ".pyc", ".safetensors"))]
    ours = zipfile.ZipFile(tmp_path / found["gib-nb"]["file_name"]).namelist()
    assert {"gib_nb/explorers/plot.js", "gib_nb/assets/beta.json.gz", "gib_nb/exercises/lesson_1.py"} <= set(ours)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 12e6


def test_every_explorer_has_a_button_with_its_state(lite):
    from gib_nb.explorers.registry import CLASSES

    page = lite.with_buttons((ROOT / "docs" / "explorers.md").read_text())
    codes = [urllib.parse.unquote(code) for code in re.findall(r"&amp;code=([^\"]+)", page)]
    assert sorted(re.findall(r"import (\w+Explorer)", "\n".join(codes))) == sorted(CLASSES)
    text = "BetaExplorer(beta=0.1): run the cell to move its controls"
    link = lite.explorer_link(text, 'BetaExplorer().select("graph")')
    assert urllib.parse.unquote(link).endswith(
        'code=from gib_nb.explorers import BetaExplorer\nBetaExplorer(beta=0.1).select("graph")'
    )


def test_a_page_of_jupyterlite_is_linked_only_for_notebooks_that_are_there(lite):
    assert lite.notebook_link(LESSONS[0]) == "lite/notebooks/index.html?path=lessons/01_bits.ipynb"
    assert lite.notebook_link(ROOT / "nbs" / "41_trainer.ipynb") is None
    assert lite.notebook_link(ROOT / "nbs" / "glossary.ipynb") is None


def test_a_folder_without_the_right_pyodide_is_refused(lite, tmp_path):
    with pytest.raises(ValueError, match=r"expected Pyodide 0\.27 in .* \(got none\)"):
        lite.copy_runtime(tmp_path, tmp_path / "runtime")
    (tmp_path / "pyodide-lock.json").write_text('{"info": {"version": "0.29.1"}, "packages": {}}')
    with pytest.raises(ValueError, match=r"\(got 0\.29\.1\)"):
        lite.copy_runtime(tmp_path, tmp_path / "runtime")
    (tmp_path / "pyodide-lock.json").write_text('{"info": {"version": "0.27.6"}, "packages": {}}')
    lite.copy_runtime(tmp_path, tmp_path / "runtime")
    assert [file.name for file in (tmp_path / "runtime").iterdir()] == ["pyodide-lock.json"]
