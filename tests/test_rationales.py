"""Rationales: every fragment once, the best ones, and the search where there are too many."""

import csv

import numpy as np
import pytest

from gib_nb.chem.fragments import cut_fragment
from gib_nb.chem.rationales import GOALS, FragmentScores, Pieces, beam_search, connected_sets, rationales, tree_search
from gib_nb.chem.smiles import read_molecule
from gib_nb.cli import explain_predictor
from gib_nb.cli.main import main
from gib_nb.report.rationales import RATIONALE_COLUMNS

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
STEROID = "CC(C)CCCC(C)C1CCC2C1(CCC3C2CC=C4C3(CCC(C4)O)C)C"


def heavy_atoms(smiles):
    return [read_molecule(text).GetNumAtoms() for text in smiles]


def nitrogens(smiles):
    return [sum(atom.GetSymbol() == "N" for atom in read_molecule(text).GetAtoms()) for text in smiles]


@pytest.mark.parametrize("smiles", [ASPIRIN, "c1ccc2ccccc2c1", "C1CC2CCC1C2", "CC(=O)[O-].[Na+]", "C"])
@pytest.mark.parametrize("open_rings", [False, True])
def test_every_connected_set_once(smiles, open_rings):
    pieces = Pieces(read_molecule(smiles), open_rings)
    sets = list(connected_sets(pieces.neighbors))
    assert len(sets) == len(set(sets))
    assert set(sets) == {s for s in range(1, 1 << len(pieces.atoms)) if pieces.component(s) == s}
    assert set().union(*(pieces.atoms_of(s) for s in pieces.components())) == set(
        range(read_molecule(smiles).GetNumAtoms())
    )


def test_rings_stay_whole_unless_they_are_opened():
    tetralin = "C1CCc2ccccc2C1"
    assert sorted(map(len, Pieces(read_molecule(tetralin)).atoms)) == [6, 6]
    assert sorted(map(len, Pieces(read_molecule(tetralin), open_rings=True).atoms)) == [1, 1, 1, 1, 6]
    assert "C1=CC=CC=C1" not in [r.fragment.smiles for r in rationales(tetralin, heavy_atoms, max_atoms=5)]


def test_the_best_fragment_is_the_best_of_all():
    "Of all connected fragments with at most half of the atoms, cut out one by one."
    mol = read_molecule("NCCc1ccc(N)cc1")
    found = rationales(mol, nitrogens, goal="high", max_atoms=8)
    pieces = Pieces(mol)
    every = [cut_fragment(mol, pieces.atoms_of(state)) for state in connected_sets(pieces.neighbors)]
    best = max(nitrogens([f.smiles for f in every if len(f.atoms) <= 8]))
    assert found.exact and found[0].value == best == 1 and found.smallest(2).fragment.atoms == tuple(range(10))
    assert found.smallest(1).fragment.smiles == "N" and found.smallest(3) is None


def test_goals():
    same, low = (rationales(ASPIRIN, heavy_atoms, goal=goal, max_atoms=13) for goal in ("same", "low"))
    assert same.value == 13 and same[0].fragment.atoms == tuple(range(13)) and same.smallest(4).value == 9
    assert low[0].value == 1 and low.smallest(1).value == 1 and low.smallest(0.5) is None
    assert same.curve()["value"].tolist() == same.curve()["atoms"].tolist()


def test_a_list_of_distinct_fragments():
    found = rationales(ASPIRIN, heavy_atoms, top=4, max_atoms=9)
    atoms = [set(r.fragment.atoms) for r in found]
    assert all(len(a & b) / len(a | b) <= 0.75 for i, a in enumerate(atoms) for b in atoms[:i])
    assert len({r.fragment.smiles for r in found}) == len(found) == 4
    assert len(rationales(ASPIRIN, heavy_atoms, top=100, overlap=1).best) > 10


@pytest.mark.parametrize("search", ["beam", "tree", "auto"])
def test_the_budget_holds_and_no_fragment_is_predicted_twice(search):
    asked = []

    def f(smiles):
        asked.extend(smiles)
        return [len(text) for text in smiles]

    found = rationales(STEROID, f, goal="high", search=search, budget=40, open_rings=True)
    assert not found.exact and found.calls <= 40 and "not all" in found.certificate
    assert len(asked) == len(set(asked[1:])) + 1  # the first is the molecule


@pytest.mark.parametrize("smiles", [ASPIRIN, "NCCc1ccc(N)cc1", "CN1CCC(O)(c2ccc(Cl)cc2)CC1"])
def test_both_searches_reach_the_bound_with_budget_to_spare(smiles):
    mol = read_molecule(smiles)
    exact = rationales(mol, lambda texts: [1 / (1 + abs(len(t) - 9)) for t in texts], goal="high", max_atoms=99)
    for search in (beam_search, lambda pieces, score: tree_search(pieces, score, rollouts=200, smallest=1)):
        pieces = Pieces(mol)
        score = FragmentScores(mol, pieces, lambda texts: [1 / (1 + abs(len(t) - 9)) for t in texts], "high", 10**6)
        search(pieces, score)
        assert max(score.found().values()) == exact[0].value


def test_values_that_are_not_finite_are_left_out():
    only_rings = lambda smiles: [1.0 if "1" in text else np.nan for text in smiles]
    found = rationales(ASPIRIN, only_rings)
    assert found.best and all("1" in r.fragment.smiles for r in found)
    with pytest.raises(ValueError, match="expected a finite prediction for the molecule CCO"):
        rationales("CCO", only_rings)


def test_errors_say_what_to_do():
    with pytest.raises(
        ValueError, match=r"expected one number for each of 1 SMILES \(got shape \[1, 2\]\).*predict_proba"
    ):
        rationales("CCO", lambda smiles: np.zeros((len(smiles), 2)))
    with pytest.raises(ValueError, match="expected a SMILES"):
        rationales("CCX", heavy_atoms)
    assert "no fragment has at most 3 atoms; allow more with max_atoms" in str(rationales("c1ccccc1", heavy_atoms))


@pytest.fixture
def library(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "amines.py").write_text(
        "def count(smiles):\n    return [text.count('N') for text in smiles]\n\n\nnothing = 3\n"
    )
    (tmp_path / "library.csv").write_text("smiles\nNCCc1ccccc1\nCCX\nc1ccccc1\n")
    return tmp_path


def test_the_command_knows_all_goals():
    assert set(explain_predictor.GOALS) == set(GOALS)


def test_the_command_writes_a_row_per_fragment(library, capsys):
    assert main(["explain", "library.csv", "--predictor", "amines.py:count", "--top", "2", "--goal", "high"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert tuple(rows[0]) == RATIONALE_COLUMNS
    assert [(row["line"], row["rank"], row["fragment"]) for row in rows[:2]] == [("2", "1", "N"), ("2", "2", "CN")]
    assert "syntax error" in rows[2]["reason"] and rows[3]["reason"] == "no fragment has at most 3 atoms"


def test_the_command_writes_a_page(library, capsys):
    command = ["explain", "library.csv", "--predictor", "amines:count", "--goal", "high", "--out", "page.html"]
    assert main(command) == 0
    page = (library / "page.html").read_text(encoding="utf-8")
    assert page.count("<svg") >= 3 and "all 10 connected fragments were scored" in page


@pytest.mark.parametrize(
    "words, expected",
    [
        (["--predictor", "amines"], "MODULE:FUNCTION"),
        (["--predictor", "amines:nothing"], "got int"),
        (["--predictor", "missing:count"], "No module named 'missing'"),
        (["--predictor", "amines:count", "--model", "run"], "expected --model only without --predictor"),
        (["--top", "3"], "expected --top only with --predictor"),
        (["--predictor", "amines:count", "--out", "a.parquet"], "expected --out with the ending .csv or .html"),
    ],
)
def test_options_that_do_not_fit_together(library, capsys, words, expected):
    assert main(["explain", "library.csv", *words]) == 2
    assert expected in capsys.readouterr().err
