"Sets in which an information term should matter, and what its weight changes."

import networkx
import numpy as np
import pytest
import torch

from gib_nb.data.synthetic import colored_motif_dataset, motif_dataset, spurious_motif_dataset
from gib_nb.experiments.information_term import (
    METHODS,
    SCORES,
    effects,
    effects_figure,
    graphs_of,
    information_term_trial,
    report,
)
from gib_nb.train.recipes import recipe
from gib_nb.utils.migrate import migrate


def on_ladders(graphs):
    "Whether the background is a ladder of 20 nodes: 28 edges, where a tree has 19."
    motif = [int(graph.edge_mask.sum()) for graph in graphs]
    return np.array([graph.num_edges - count - 2 == 2 * 28 for graph, count in zip(graphs, motif)])


def labels(graphs):
    return np.array([int(graph.y) for graph in graphs])


def test_the_background_goes_with_the_label_until_the_test():
    data = spurious_motif_dataset(1000)
    follows = {
        part: on_ladders(getattr(data, part)) == labels(getattr(data, part)) for part in ("train", "valid", "test")
    }
    assert {part: len(values) for part, values in follows.items()} == {"train": 600, "valid": 200, "test": 200}
    assert follows["train"].mean() == pytest.approx(0.9, abs=0.03)
    assert follows["valid"].mean() == pytest.approx(0.9, abs=0.05)
    assert follows["test"].mean() == pytest.approx(0.5, abs=0.08)
    assert all(labels(getattr(data, part)).mean() == 0.5 for part in follows)
    assert all(networkx.is_connected(networkx.Graph(graph.edge_index.T.tolist())) for graph in data.graphs[::100])


@pytest.mark.parametrize("follow", [0.0, 1.0])
def test_a_background_that_always_or_never_goes_with_the_label(follow):
    data = spurious_motif_dataset(100, follow, follow)
    assert ((on_ladders(data.graphs) == labels(data.graphs)) == bool(follow)).all()


@pytest.mark.parametrize("wrong", [{"follow": 1.2}, {"test_follow": -0.1}, {"base_nodes": 21}])
def test_wrong_fractions_and_odd_ladders(wrong):
    with pytest.raises(ValueError, match="expected fractions between 0 and 1 and an even number"):
        spurious_motif_dataset(10, **wrong)


def test_colors_say_nothing_about_the_label():
    "All nodes of the motif have the first color, those of the tree any; the graphs are those of `motif_dataset`."
    data, plain = colored_motif_dataset(400, colors=4), motif_dataset(400)
    for graph, other in zip(data.graphs, plain.graphs):
        assert torch.equal(graph.edge_index, other.edge_index) and torch.equal(graph.x[:, :10], other.x)
        assert (graph.x[graph.node_mask > 0.5, 10] == 1).all() and (graph.x[:, 10:].sum(1) == 1).all()
    each = np.array([graph.x[graph.node_mask < 0.5, 10:].mean(0).numpy() for graph in data.graphs])
    for label in (0, 1):
        assert each[labels(data.graphs) == label].mean(0) == pytest.approx(np.full(4, 0.25), abs=0.03)
    with pytest.raises(ValueError, match="expected at least two colors"):
        colored_motif_dataset(10, colors=1)


def test_second_tests_are_drawn_in_another_way():
    motif, spurious = graphs_of("motif", 0, 60), graphs_of("spurious motif", 0, 500)
    assert {graph.num_nodes for graph in motif.train} == {25} and {graph.num_nodes for graph in motif.shifted} == {45}
    alike, shifted = (on_ladders(part) == labels(part) for part in (spurious.test, spurious.shifted))
    assert alike.mean() == pytest.approx(0.9, abs=0.06) and shifted.mean() == pytest.approx(0.5, abs=0.1)


def row(weight, seed, value):
    scores = dict.fromkeys(SCORES, value)
    return {"dataset": "motif", "method": "gib", "weight": weight, "beta": weight, "seed": seed, "scores": scores}


def test_effects_are_paired_over_seeds():
    "Two seeds, differences .2 and .3; a seed without its pair is left out."
    rows = [row(0.0, 0, 0.5), row(0.0, 1, 0.6), row(1.0, 0, 0.7), row(1.0, 1, 0.9), row(1.0, 2, 0.1)]
    found = effects(rows)
    assert list(found) == [1.0]
    assert found[1.0]["auc"]["difference"] == pytest.approx(0.25) and found[1.0]["auc"]["seeds"] == 2
    assert found[1.0]["auc"]["low"] == pytest.approx(0.25 - 12.706 * 0.05, abs=1e-3)
    assert report(rows).splitlines()[2].split()[:3] == ["motif,", "gib", "1"]
    assert "motif, gib" in report(rows).splitlines()[-1] and "+0.250 (-0.385 to +0.885)" in report(rows)


def test_the_figure_shows_differences_with_their_intervals():
    rows = [row(0.0, 0, 0.5), row(0.0, 1, 0.6), row(1.0, 0, 0.7), row(1.0, 1, 0.9)]
    bars = effects_figure(rows).data
    assert len(bars) == len(SCORES) and {bar.name for bar in bars} == {"GIB"}
    assert bars[0].y == pytest.approx([0.25]) and bars[0].error_y.array == pytest.approx([12.706 * 0.05], abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_the_weight_multiplies_the_beta_of_the_recipe(method):
    small = dict(size=60, epochs=12, hidden_channels=8)
    found = information_term_trial("colored motif", method, 10.0, **small)
    assert found["beta"] == pytest.approx(10 * recipe(method).beta) and found["scores"].keys() == SCORES.keys()
    assert 0 <= found["scores"]["mean_mask"] <= 1 and migrate(found) == found
