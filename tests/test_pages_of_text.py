"""README, CONTRIBUTING and the pages in docs: their code runs, their numbers are those of the results, their links lead somewhere."""

import json
import pathlib
import re
import runpy
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *(f"docs/{name}.md" for name in ("using", "install", "homework", "sweeps", "explorers", "results", "notebooks")),
]


def blocks(page):
    "The Python blocks of a page, each with the heading above it."
    text, heading = (ROOT / page).read_text(), ""
    for part in re.finditer(r"^## ([^\n]*)$|```python\n(.*?)```", text, re.M | re.S):
        heading = part[1] or heading
        if part[2]:
            yield heading, part[2]


PIECES = [
    pytest.param(code, id=f"{page}-{number}-{heading}", marks=pytest.mark.slow)
    for page in PAGES
    for number, (heading, code) in enumerate(blocks(page))
    if "my_model" not in code
]  # that one is a pattern, with names of the reader's own


@pytest.mark.parametrize("code", PIECES)
def test_code_runs_as_it_stands(code, tmp_path, monkeypatch):
    "Each block alone, in an empty folder; long trainings are cut short, and large data sets."
    monkeypatch.chdir(tmp_path)
    code = code.replace("epochs=60", "epochs=4, pretrain_epochs=1, rampup_epochs=1, max_restarts=0").replace(
        "beta=[0., .1, 1.], seed=range(3)", "beta=[.1], seed=range(1)"
    )
    for large in ('load_dataset("motif")', '"motif", folder'):
        code = code.replace(
            large, large.replace('load_dataset("motif")', "motif_dataset(100)").replace('"motif"', "motif_dataset(100)")
        )
    if 'recipe("robust"' in code:
        code = "data = motif_dataset(60)\n" + code.replace("seed=0)", "seed=0, epochs=12)")
    code = "from gib_nb import motif_dataset\n" + code
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]


def test_the_readme_quotes_what_check_says():
    code = next(code for heading, code in blocks("README.md") if heading == "Learn")
    quoted = re.search(r"# (✗ .*?) …", code)[1]
    namespace = {}
    exec(code.replace('check("donsker_varadhan"', 'said = check("donsker_varadhan"'), namespace)
    assert repr(namespace["said"]).startswith(quoted)


@pytest.mark.parametrize("page", ["results.md", "notebooks.md"])
def test_tables_are_those_of_today(page):
    written = runpy.run_path(str(ROOT / "docs" / "tables.py"))["written"]
    assert written(page) == (ROOT / "docs" / page).read_text(), "run: python docs/tables.py"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text()):
        assert target.startswith("https://") or ((ROOT / page).parent / target).exists(), target


def test_every_notebook_is_listed():
    text = (ROOT / "docs" / "notebooks.md").read_text()
    for path in (ROOT / "nbs").rglob("*.ipynb"):
        name = str(path.relative_to(ROOT))
        if ".ipynb_checkpoints" not in name and "nbs/exercises/" not in name:
            assert name in text, name


def test_numbers_of_notebooks_are_those_of_their_files():
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "nbs").rglob("*.ipynb")]:
        wrong = re.findall(r"\[(\d\d)\]\((?:\.\./|nbs/)*(?!\1_)(\d\d_\w+)", path.read_text())
        assert not wrong, (path.name, wrong)


def test_equations_lead_to_what_they_name():
    "A function is in the module whose page is linked."
    import importlib

    text = (ROOT / "docs" / "equations.md").read_text()
    for number, file in re.findall(r"\[(\d+)\]\((nbs/[^)]*)\)", text):
        assert (ROOT / file).is_file(), file
    named = re.findall(r"\[`([\w.]+)`\]\(api/([\w.]+)\.md\)", text)
    assert len(named) > 10
    for name, module in named:
        found = importlib.import_module(f"gib_nb.{module}")
        for part in name.split("."):
            found = getattr(found, part)
        if "." not in name:
            assert found.__module__ == f"gib_nb.{module}", name


def test_links_to_the_glossary_lead_to_its_terms():
    "The address of a heading as JupyterLab makes it."
    text = "".join(json.loads((ROOT / "nbs" / "glossary.ipynb").read_text())["cells"][0]["source"])
    terms = re.findall(r"^### (.+)$", text, re.M)
    assert terms == sorted(terms, key=lambda term: term.lower().replace("α", "zz"))
    places = {term.replace(" ", "-") for term in terms}
    for path in (ROOT / "nbs").rglob("*.ipynb"):
        if ".ipynb_checkpoints" not in path.parts:
            wrong = set(re.findall(r"glossary\.ipynb#([^)\s\"\\]+)", path.read_text())) - places
            assert not wrong, (path.name, wrong)
