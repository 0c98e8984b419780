"Fragments that keep a property: measures, frontier, chance, scaffold, and the bound, each against a plain way."

import itertools
import json

import numpy as np
import pytest

from gib_nb.chem.fragments import connected_components, cut_fragment
from gib_nb.chem.properties import property_oracle
from gib_nb.chem.smiles import molecule_to_data
from gib_nb.data.datasets import molecule_dataset
from gib_nb.experiments import interpretation
from gib_nb.experiments.interpretation import (
    DATASETS,
    METHODS,
    PAPER,
    PAPER_PIECES,
    SCAFFOLD,
    best_of_k,
    bias_vs_size,
    connected_subsets,
    drop_bonds,
    fragment_scores,
    fragment_training_set,
    interpretation_trial,
    method_config,
    min_bias_by_size,
    peeling_order,
    random_growth_weights,
    report,
    scaffold_atoms,
    topk_atoms,
)
from gib_nb.train.classifier_trainer import ClassifierTrainer

QED = property_oracle("QED")
ASPIRIN = molecule_to_data("CC(=O)Oc1ccccc1C(=O)O")


def test_a_fragment_is_measured_by_its_largest_piece():
    graphs, values = [ASPIRIN, molecule_to_data("CCO")], [QED("CC(=O)Oc1ccccc1C(=O)O"), QED("CCO")]
    found = fragment_scores(graphs, [[0, 4, 5, 6, 7, 8, 9], [0, 2]], values, QED)
    bias = [abs(QED("c1ccccc1") - values[0]), abs(QED("C") - values[1])]
    assert found["bias"] == pytest.approx(np.mean(bias)) and found["bias_std"] == pytest.approx(np.std(bias, ddof=1))
    assert (
        found["components"] == 2
        and found["fragment_fraction"] == pytest.approx((6 / 13 + 1 / 3) / 2)
        and found["invalid"] == 0
    )


def test_what_is_no_molecule_counts_as_invalid_and_has_no_bias():
    found = fragment_scores([ASPIRIN, ASPIRIN], [[], range(13)], [0.5, QED(ASPIRIN.smiles)], QED)
    assert (
        found["invalid"] == 0.5
        and found["fragment_fraction"] == 1
        and found["bias"] == pytest.approx(0, abs=1e-9)
        and found["bias_std"] is None
        and found["components"] == 0.5
    )
    nothing = fragment_scores([ASPIRIN], [[]], [0.5], QED)
    assert nothing["bias"] is None and nothing["invalid"] == 1 and json.dumps(nothing)
    with pytest.raises(ValueError, match="at least one molecule"):
        fragment_scores([], [], [], QED)


def test_the_frontier_takes_the_largest_weights():
    weight = np.zeros(13)
    weight[4:10] = 1  # the ring
    rows = bias_vs_size([ASPIRIN], {share: topk_atoms([weight], share) for share in (0.3, 6 / 13, 1.0)}, [0.55], QED)
    assert (
        [row["ratio"] for row in rows] == [0.3, 6 / 13, 1.0]
        and rows[1]["fragment_fraction"] == 6 / 13
        and rows[2]["fragment_fraction"] == 1
    )
    assert rows[1]["bias"] == pytest.approx(abs(QED("c1ccccc1") - 0.55)) and not any("each" in row for row in rows)
    (half,) = bias_vs_size([ASPIRIN] * 2, {0.5: [[], range(4, 10)]}, [0.55, 0.5], QED)
    assert half["each"] == [None, pytest.approx(abs(QED("c1ccccc1") - 0.5))]


def test_peeling_against_a_plain_way():
    rng = np.random.default_rng(0)
    for smiles in ("CC(=O)Oc1ccccc1C(=O)O", "CCO", "C", "CCO.CCCN", "C1CC1CC1CC1"):
        graph = molecule_to_data(smiles)
        for _ in range(5):
            weight, left, gone = (
                rng.permutation(graph.num_nodes),
                set(connected_components(graph.edge_index, range(graph.num_nodes))[0]),
                [],
            )
            while left:
                whole = lambda atom: len(connected_components(graph.edge_index, sorted(left - {atom}))) <= 1
                gone.append(min(filter(whole, left), key=lambda atom: weight[atom]))
                left.discard(gone[-1])
            order = peeling_order(weight, graph.edge_index)
            assert [int(atom) for atom in np.argsort(order) if order[atom]] == gone and (order > 0).sum() == len(gone)
    grown = random_growth_weights(ASPIRIN, rng)
    assert (
        np.argsort(peeling_order(grown, ASPIRIN.edge_index)) == np.argsort(grown)
    ).all()  # what is in one piece already stays as it is
    assert len({tuple(peeling_order(np.zeros(13), ASPIRIN.edge_index, seed)) for seed in range(5)}) > 3


def test_chance_grows_connected_pieces_and_covers_all():
    salt = molecule_to_data("CCO.CCN")
    for seed in range(20):
        for graph in (ASPIRIN, salt):
            weight = random_growth_weights(graph, np.random.default_rng(seed))
            assert sorted(weight) == list(range(1, graph.num_nodes + 1))
            sizes = [
                len(connected_components(graph.edge_index, np.argsort(-weight)[:k].tolist()))
                for k in range(1, graph.num_nodes + 1)
            ]
            assert (
                sizes == sorted(sizes)
                and sizes[-1] == (2 if graph is salt else 1)
                and (graph is ASPIRIN or sizes[2] == 1)
            )
    starts = {int(np.argmax(random_growth_weights(ASPIRIN, np.random.default_rng(seed)))) for seed in range(60)}
    assert len(starts) > 8  # from anywhere


@pytest.mark.parametrize(
    "smiles, atoms",
    [
        ("CCO", []),
        ("c1ccccc1CC", [0, 1, 2, 3, 4, 5]),
        ("O=C1CCCCC1C", [0, 1, 2, 3, 4, 5, 6]),
        ("C1CC1CC1CC1", list(range(7))),
        ("[NH4+]", []),
    ],
)
def test_scaffolds(smiles, atoms):
    assert scaffold_atoms(smiles) == atoms


@pytest.mark.parametrize("smiles", ["CC(=O)NCCO", "C1CC1CC", "c1ccccc1C", "CCO.CN", "C"])
def test_all_pieces_against_all_sets(smiles):
    graph = molecule_to_data(smiles)
    sets = [
        atoms
        for size in range(1, graph.num_nodes + 1)
        for atoms in itertools.combinations(range(graph.num_nodes), size)
        if len(connected_components(graph.edge_index, list(atoms))) == 1
    ]
    pieces = lambda most, limit=1000: connected_subsets(graph.edge_index, graph.num_nodes, most, limit)
    for most in range(1, graph.num_nodes + 1):
        assert sorted(map(tuple, pieces(most))) == sorted(atoms for atoms in sets if len(atoms) <= most)
    assert pieces(graph.num_nodes, len(sets) - 1) is None and len(pieces(graph.num_nodes, len(sets))) == len(sets)


def test_the_bound_is_that_of_all_fragments():
    graph, value = molecule_to_data("CC(=O)NCCO"), QED("CC(=O)NCCO")
    found = min_bias_by_size(graph, value, QED)
    assert len(found) == 4
    for most in range(1, 5):
        assert found[most - 1] == pytest.approx(
            min(
                abs(QED(cut.mol) - value)
                for size in range(1, most + 1)
                for atoms in itertools.combinations(range(7), size)
                if len(connected_components(graph.edge_index, list(atoms))) == 1
                and (cut := cut_fragment(graph.smiles, atoms)).mol is not None
            )
        )
    assert min_bias_by_size(graph, value, QED, limit=5) is None
    benzene = min_bias_by_size(molecule_to_data("c1ccccc1"), 0.44, QED)
    assert found == sorted(found, reverse=True) and len(benzene) == 3


def test_pieces_that_are_taught_have_their_own_property():
    graphs = [ASPIRIN, molecule_to_data("CC(=O)NCCO")]
    shown = fragment_training_set(graphs, QED, fragments=6, seed=1)
    assert len(shown) == 14 and all(
        a.equal(b)
        for one, other in zip(shown, fragment_training_set(graphs, QED, 6, 1))
        for a, b in ((one.edge_index, other.edge_index), (one.y, other.y))
    )
    for data in shown:
        graph = graphs[len(data.x) == 7]
        assert data.x.equal(graph.x)
        pieces = connected_components(data.edge_index, range(len(data.x)))
        if len(pieces[0]) > 1:  # of lone atoms it cannot be seen which were chosen
            assert float(data.y) == pytest.approx(QED(cut_fragment(graph.smiles, pieces[0]).mol), abs=1e-6)
    assert [float(data.y) for data in fragment_training_set(graphs, QED, fragments=0)] == pytest.approx(
        [QED(graph.smiles) for graph in graphs]
    )


def test_a_mask_leaves_the_bonds_between_the_atoms():
    data = drop_bonds(molecule_to_data("CCO"), [0, 1])
    assert data.edge_index.tolist() == [[0, 1], [1, 0]] and len(data.x) == 3
    assert drop_bonds(ASPIRIN, range(13)).edge_index.equal(ASPIRIN.edge_index)


@pytest.mark.slow
def test_the_best_draw_is_what_the_reader_says():
    class Oracle:  # a reader that knows the answer
        def predict(self, graphs):
            return np.array(
                [
                    QED(cut_fragment(ASPIRIN.smiles, connected_components(graph.edge_index, range(13))[0]).mol)
                    for graph in graphs
                ]
            )

    value = QED(ASPIRIN.smiles)
    bias = [
        bias_vs_size([ASPIRIN], best_of_k([ASPIRIN], Oracle(), samples, (0.5,), seed), [value], QED)[0]["bias"]
        for samples in (1, 8, 400)
        for seed in range(6)
    ]
    mean = np.reshape(bias, (3, 6)).mean(1)
    assert mean[0] > mean[1] > mean[2] and mean[2] == pytest.approx(
        min(
            abs(QED(cut.mol) - value)
            for atoms in connected_subsets(ASPIRIN.edge_index, 13, 7, 10_000)
            if len(atoms) == 7 and (cut := cut_fragment(ASPIRIN.smiles, atoms)).mol is not None
        ),
        abs=0.01,
    )
    assert best_of_k([ASPIRIN], Oracle(), 5, (0.3, 0.7), 1) == best_of_k([ASPIRIN], Oracle(), 5, (0.3, 0.7), 1)


def test_as_many_atoms_as_the_scaffold_has():
    "And none where there is no ring: that counts as an invalid fragment, as it does for the scaffold."

    class Reader:
        def predict(self, graphs):
            return np.array([float(graph.edge_index.size(1)) for graph in graphs])

    chain = molecule_to_data("CCCCO")
    choices = best_of_k([ASPIRIN, chain], Reader(), 8, (0.5, SCAFFOLD))
    assert [len(atoms) for atoms in choices[SCAFFOLD]] == [len(scaffold_atoms(ASPIRIN.smiles)), 0] and len(
        choices[0.5][0]
    ) == 7
    (row,) = bias_vs_size([ASPIRIN, chain], {SCAFFOLD: choices[SCAFFOLD]}, QED([ASPIRIN.smiles, chain.smiles]), QED)
    assert row["ratio"] == SCAFFOLD and row["invalid"] == 0.5


def test_the_papers_numbers_name_our_methods():
    assert (
        set(PAPER) | set(PAPER_PIECES) <= set(METHODS)
        and all(list(values) == DATASETS for values in PAPER.values())
        and all(len(v) == 4 for v in PAPER_PIECES.values())
    )


@pytest.mark.parametrize(
    "method", [pytest.param(method, marks=[pytest.mark.slow] if "sampled" in method else []) for method in METHODS]
)
def test_a_cell_of_every_method(method):
    found = interpretation_trial(
        "molecules",
        method,
        seed=1,
        max_graphs=40,
        max_explained=3,
        **method_config(method, 5) | ({"hidden_channels": 8} if "GIB" in method or "Att" in method else {}),
    )
    assert json.dumps(found) and found["seconds"] > 0
    assert (
        ("bias_vs_size" in found) == (method != "scaffold")
        and ("bias" in found) == (method not in ("random fragment", "every fragment"))
        and found["oracle"].startswith("QED (exact)")
    )
    assert "GIB" not in method or found["config"].get("encoder", found["config"])["hidden_channels"] == 8
    if "bias_vs_size" in found:
        assert all(0 <= row["fragment_fraction"] <= 1 for row in found["bias_vs_size"])


@pytest.mark.parametrize("method", ["GCN+Att05", "GCN+GIB", "sampled GIB", "sampled GIB, trained on wholes"])
def test_training_sees_no_test_molecule(method, monkeypatch):
    data, seen = molecule_dataset("molecules", limit=40), []

    class Spy:
        def __init__(self, *_, **__):
            pass

        def fit(self, train, valid, **_):
            seen.extend(graph.smiles for graph in [*train, *valid] if "smiles" in graph)
            raise RuntimeError("seen")

    monkeypatch.setattr(
        interpretation,
        "fragment_training_set",
        lambda graphs, oracle, pieces, seed: seen.extend(graph.smiles for graph in graphs) or [],
    )
    for name in ("GIBTrainer", "ClassifierTrainer"):
        monkeypatch.setattr(interpretation, name, Spy)
    with pytest.raises(RuntimeError, match="seen"):
        interpretation_trial("molecules", method, max_graphs=40, **method_config(method, 5))
    assert sorted(seen) == sorted(graph.smiles for graph in [*data.train, *data.valid]) and not set(seen) & {
        graph.smiles for graph in data.test
    }


def test_draws_are_chosen_without_the_oracle(monkeypatch):
    asked = []
    monkeypatch.setattr(interpretation, "cut_fragment", lambda *words: asked.append(words) or cut_fragment(*words))
    reader = ClassifierTrainer("gin_sum", hidden_channels=8, epochs=1).fit(
        teachers := fragment_training_set([ASPIRIN, molecule_to_data("CC(=O)NCCO")], QED, 2), valid=teachers
    )
    before = len(asked)
    best_of_k([ASPIRIN], reader, 4)
    assert len(asked) == before  # no piece is cut, so none can be judged


def test_whole_molecules_have_no_bias_whatever_the_oracle():
    for name in ("DRD2", "HLM", "MLM"):
        oracle, graphs = (
            property_oracle(name),
            [molecule_to_data(smiles) for smiles in ("CC(=O)Oc1ccccc1C(=O)O", "CN1CCC[C@H]1c1cccnc1", "CCO")],
        )
        found = fragment_scores(
            graphs, [range(graph.num_nodes) for graph in graphs], oracle([graph.smiles for graph in graphs]), oracle
        )
        assert found["bias"] < 1e-9 and found["fragment_fraction"] == 1


def test_unknown_methods_and_settings_are_refused():
    with pytest.raises(ValueError, match="expected a method among GCN.Att05"):
        interpretation_trial("molecules", "GCN+Att08")
    with pytest.raises(ValueError, match="heads"):
        interpretation_trial("molecules", "GCN+GIB", heads=3)


def test_the_report_has_bias_and_share_together():
    point = lambda share, bias, kept: {"ratio": share, "bias": bias, "fragment_fraction": kept}
    rows = [
        {
            "dataset": "QED",
            "method": "GCN+GIB",
            "oracle": "QED (exact)",
            "bias": 0.2,
            "fragment_fraction": 0.6,
            "bias_vs_size": [point(0.3, 0.4, 0.25), point(0.5, 0.3, 0.4), point(0.7, None, 0.0)],
        },
        {
            "dataset": "QED",
            "method": "GCN+GIB",
            "oracle": "QED (exact)",
            "bias": 0.4,
            "fragment_fraction": 0.8,
            "bias_vs_size": [point(0.3, 0.2, 0.35), point(0.5, 0.1, 0.6), point(0.7, 0.1, 0.7)],
        },
        {"dataset": "QED", "method": "scaffold", "oracle": "QED (exact)", "bias": 0.1, "fragment_fraction": 0.5},
    ]
    lines = report(rows).splitlines()
    assert lines[0] == "QED (exact): bias (fraction of atoms)" and lines[2].split()[1:] == [
        "0.300",
        "(30%)",
        "0.200",
        "(50%)",
        "0.100",
        "(70%)",
        "0.300",
        "(70%)",
    ]
    assert lines[3].split() == ["scaffold", "0.100", "(50%)"]
