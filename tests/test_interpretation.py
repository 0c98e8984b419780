"Fragments that keep a property: measures, frontier, chance, scaffold, and the bound, each against a plain way."
import itertools
import json

import numpy as np
import pytest
import torch

from gib_nb.interpretation import DATASETS, METHODS, PAPER, PAPER_PIECES, SHARES, fragment_scores, frontier, interpretation_cell, random_growth, report, scaffold_atoms, search_fragments
from gib_nb.molecules import components, cut_fragment, molecule_to_data, property_oracle

QED = property_oracle("QED")
ASPIRIN = molecule_to_data("CC(=O)Oc1ccccc1C(=O)O")


def test_a_fragment_is_measured_by_its_largest_piece():
    graphs, values = [ASPIRIN, molecule_to_data("CCO")], [QED("CC(=O)Oc1ccccc1C(=O)O"), QED("CCO")]
    found = fragment_scores(graphs, [[0, 4, 5, 6, 7, 8, 9], [0, 2]], values, QED)
    bias = [abs(QED("c1ccccc1") - values[0]), abs(QED("C") - values[1])]
    assert found["bias"] == pytest.approx(np.mean(bias)) and found["bias_std"] == pytest.approx(np.std(bias, ddof=1))
    assert found["pieces"] == 2 and found["kept"] == pytest.approx((6 / 13 + 1 / 3) / 2) and found["invalid"] == 0


def test_what_is_no_molecule_counts_as_invalid_and_has_no_bias():
    found = fragment_scores([ASPIRIN, ASPIRIN], [[], range(13)], [.5, QED(ASPIRIN.smiles)], QED)
    assert found["invalid"] == .5 and found["kept"] == 1 and found["bias"] == pytest.approx(0, abs=1e-9) and found["bias_std"] is None and found["pieces"] == .5
    nothing = fragment_scores([ASPIRIN], [[]], [.5], QED)
    assert nothing["bias"] is None and nothing["invalid"] == 1 and json.dumps(nothing)
    with pytest.raises(ValueError, match="at least one molecule"):
        fragment_scores([], [], [], QED)


def test_the_frontier_takes_the_largest_weights():
    weight = np.zeros(13)
    weight[4:10] = 1  # the ring
    rows = frontier([ASPIRIN], [weight], [.55], QED, shares=(.3, 6 / 13, 1.))
    assert [row["share"] for row in rows] == [.3, 6 / 13, 1.] and rows[1]["kept"] == 6 / 13 and rows[2]["kept"] == 1
    assert rows[1]["bias"] == pytest.approx(abs(QED("c1ccccc1") - .55))
    kept = [row["kept"] for row in frontier([ASPIRIN], [torch.rand(13)], [.55], QED)]
    assert len(kept) == len(SHARES) and kept[-1] > kept[0]


def test_chance_grows_connected_pieces_and_covers_all():
    salt = molecule_to_data("CCO.CCN")
    for seed in range(20):
        for graph in (ASPIRIN, salt):
            weight = random_growth(graph, np.random.default_rng(seed))
            assert sorted(weight) == list(range(1, graph.num_nodes + 1))
            sizes = [len(components(graph.edge_index, np.argsort(-weight)[:k].tolist())) for k in range(1, graph.num_nodes + 1)]
            assert sizes == sorted(sizes) and sizes[-1] == (2 if graph is salt else 1) and (graph is ASPIRIN or sizes[2] == 1)
    starts = {int(np.argmax(random_growth(ASPIRIN, np.random.default_rng(seed)))) for seed in range(60)}
    assert len(starts) > 8  # from anywhere


@pytest.mark.parametrize("smiles, atoms", [("CCO", []), ("c1ccccc1CC", [0, 1, 2, 3, 4, 5]), ("O=C1CCCCC1C", [0, 1, 2, 3, 4, 5, 6]), ("C1CC1CC1CC1", list(range(7))), ("[NH4+]", [])])
def test_scaffolds(smiles, atoms):
    assert scaffold_atoms(smiles) == atoms


def test_a_wide_search_finds_the_best_fragment_of_every_size():
    graph, value = molecule_to_data("CC(=O)NCCO"), QED("CC(=O)NCCO")
    found = search_fragments(graph, value, QED, width=10_000, least=.2)
    for size in range(2, 8):
        best = min(abs(QED(cut.mol) - value) for atoms in itertools.combinations(range(7), size) if len(components(graph.edge_index, list(atoms))) == 1
                   and (cut := cut_fragment(graph.smiles, atoms)).mol is not None)
        assert found[size][0] == pytest.approx(best)
    narrow = search_fragments(graph, value, QED, width=1, least=.2)
    assert all(narrow[size][0] >= found[size][0] - 1e-12 for size in narrow) and found[7][0] < 1e-12 and found[7][1] == tuple(range(7))
    salt = search_fragments(molecule_to_data("CCO.CCCN"), .4, QED)
    assert max(salt) == 4 and set(salt[4][1]) == {3, 4, 5, 6}


def test_the_papers_numbers_name_our_methods():
    assert set(PAPER) | set(PAPER_PIECES) <= set(METHODS) and all(list(values) == DATASETS for values in PAPER.values()) and all(len(v) == 4 for v in PAPER_PIECES.values())


@pytest.mark.parametrize("method", METHODS)
def test_a_cell_of_every_method(method):
    found = interpretation_cell("molecules", method, seed=1, limit=40, most=3, epochs=1, hidden_channels=8)
    assert json.dumps(found) and found["seconds"] > 0
    assert ("frontier" in found) == (method != "scaffold") and ("bias" in found) == (method not in ("random fragment", "search")) and found["oracle"].startswith("QED (exact)")
    assert "GCN" not in method or found["config"]["hidden_channels"] == 8
    if "frontier" in found:
        assert all(0 <= row["kept"] <= 1 for row in found["frontier"])


def test_whole_molecules_have_no_bias_whatever_the_oracle():
    for name in ("DRD2", "HLM", "MLM"):
        oracle, graphs = property_oracle(name), [molecule_to_data(smiles) for smiles in ("CC(=O)Oc1ccccc1C(=O)O", "CN1CCC[C@H]1c1cccnc1", "CCO")]
        found = fragment_scores(graphs, [range(graph.num_nodes) for graph in graphs], oracle([graph.smiles for graph in graphs]), oracle)
        assert found["bias"] < 1e-9 and found["kept"] == 1


def test_unknown_methods_and_settings_are_refused():
    for words in (dict(method="GCN+Att08"), dict(method="GCN+GIB", heads=3)):
        with pytest.raises(ValueError, match="expected a method among GCN.Att05"):
            interpretation_cell("molecules", **words)


def test_the_report_has_bias_and_share_together():
    point = lambda share, bias, kept: {"share": share, "bias": bias, "kept": kept}
    rows = [{"dataset": "QED", "method": "GCN+GIB", "oracle": "QED (exact)", "bias": .2, "kept": .6, "frontier": [point(.3, .4, .25), point(.5, .3, .4), point(.7, None, 0.)]},
            {"dataset": "QED", "method": "GCN+GIB", "oracle": "QED (exact)", "bias": .4, "kept": .8, "frontier": [point(.3, .2, .35), point(.5, .1, .6), point(.7, .1, .7)]},
            {"dataset": "QED", "method": "scaffold", "oracle": "QED (exact)", "bias": .1, "kept": .5}]
    lines = report(rows).splitlines()
    assert lines[0] == "QED (exact): bias (share of atoms kept)" and lines[2].split()[1:] == ["0.300", "(30%)", "0.200", "(50%)", "0.100", "(70%)", "0.300", "(70%)"]
    assert lines[3].split() == ["scaffold", "0.100", "(50%)"]
