"""A predictor that reads fragments as molecules of their own, and the table of what it chooses."""

import warnings

import numpy as np
import pytest

from gib_nb.chem.smiles import molecule_to_data, read_molecule
from gib_nb.experiments.cut_fragments import (
    COLUMNS,
    METHODS,
    atoms_needed,
    choice_among_draws,
    count_features,
    cut_fragments_trial,
    fragment_predictor,
    gap_closed,
    random_halves,
    report,
    training_fragments,
)

SMILES = ["CCN(CC)CC(=O)Nc1c(C)cccc1C", "CC(=O)Oc1ccccc1C(=O)O", "Cn1cnc2c1c(=O)n(C)c(=O)n2C"]


class Oracle:
    "The number of heavy atoms."

    label = "atoms"

    def __call__(self, molecules):
        return np.array([read_molecule(molecule).GetNumAtoms() for molecule in molecules], float)


class Knows:
    "Predicts what a function says, as a scikit-learn regressor does."

    def __init__(self, f):
        self.predict = f


def test_counts_do_not_depend_on_the_order_of_atoms_and_keep_families_apart():
    a, b = count_features(["OCC", "CCO"]).toarray()
    assert (a == b).all() and a.shape == (sum(COLUMNS),)
    benzene = np.expm1(count_features(["c1ccccc1"]).toarray()[0])
    assert benzene[3072:].sum().round() == 15  # pairs of six atoms


def test_training_fragments_are_distinct_and_reproducible():
    graphs = [molecule_to_data(smiles) for smiles in SMILES]
    first, again, other = (training_fragments(graphs, 30, seed) for seed in (0, 0, 1))
    assert first == again != other and len(set(first)) == 30
    assert training_fragments(graphs, 0) == [] and len(training_fragments([molecule_to_data("CC")], 5)) <= 5


def test_a_predictor_that_knows_the_property_closes_the_gap():
    graphs = [molecule_to_data(smiles) for smiles in SMILES]
    rings = lambda smiles: np.array([sum(c in "123" for c in text) for text in smiles], float)
    oracle = lambda smiles: rings(smiles) + 0.0
    found = choice_among_draws(graphs, oracle(SMILES), oracle, Knows(rings), 40, 0)
    assert (
        found["closed"] == found["closed_known"] == 1
        and found["bias"] == found["best"] < found["random"]
        and found["r2"] == 1
    )
    blind = lambda smiles: np.where(np.isin(smiles, SMILES), 0, rings(smiles))  # whole molecules seem to have no ring
    worse = choice_among_draws(graphs, oracle(SMILES), oracle, Knows(blind), 40, 0)
    assert worse["closed"] < worse["closed_known"] == 1 and worse["random"] == found["random"]


def test_halves_are_halves():
    graph = molecule_to_data(SMILES[0])
    assert {read_molecule(s).GetNumAtoms() for s in random_halves(graph, 20, np.random.default_rng(0))} == {9}


def test_the_predictor_learns_a_property_of_fragments():
    graphs = [molecule_to_data(smiles) for smiles in SMILES]
    smiles = training_fragments(graphs, 200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predictor = fragment_predictor(30).fit(smiles[:150], Oracle()(smiles[:150]))
    truth, said = Oracle()(smiles[150:]), predictor.predict(smiles[150:])
    assert 1 - ((truth - said) ** 2).sum() / ((truth - truth.mean()) ** 2).sum() > 0.8


def test_atoms_that_a_probability_needs():
    share = lambda smiles: np.array([min(read_molecule(s).GetNumAtoms() / 20, 1) for s in smiles])
    found = atoms_needed("CCN(CC)CC(=O)Nc1c(C)cccc1C", share, share)
    assert found == {"0.5": 10, "0.7": 14, "success": True}
    assert atoms_needed("CCO", share, share) == {"0.5": None, "0.7": None, "success": False}


@pytest.mark.parametrize("method", list(METHODS)[:2])
def test_one_trial_and_its_table(method):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        row = cut_fragments_trial("molecules", method, max_graphs=60, max_explained=4, draws=16, epochs=3)
    assert row["best"] <= row["bias"] and row["calls"] == METHODS[method]
    assert row["closed"] == pytest.approx(gap_closed(row["random"], row["best"], row["bias"]))
    text = report([row | {"dataset": "molecules", "method": method, "seed": seed} for seed in (0, 1)])
    assert method in text and f"{row['bias']:.3f} ± 0.000" in text
