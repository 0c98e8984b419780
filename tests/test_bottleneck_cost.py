"A GIB from at most half of the nodes, against the same network without a bottleneck."

import pytest
import torch

from gib_nb import motif_dataset
from gib_nb.experiments import bottleneck_cost as room
from gib_nb.experiments.bottleneck_cost import (
    FRACTIONS,
    METHODS,
    RANKINGS,
    SCORES,
    bottleneck_cost_trial,
    cost,
    curve,
    curves_figure,
    report,
)
from gib_nb.nn.pooling import random_subgraph, top_subgraph
from gib_nb.utils.migrate import migrate


@pytest.fixture
def folds(monkeypatch):
    "Three folds of small graphs."
    found = motif_dataset(60, seed=0).folds(3)
    monkeypatch.setattr(room, "folds_of", lambda dataset, root: found)
    return found


def row(fold, seed=0, method="GIN", dataset="d", **scores):
    scores = dict.fromkeys(SCORES, 0.8) | scores
    return {"dataset": dataset, "method": method, "fold": fold, "seed": seed, "scores": scores, "curve": {}}


def test_the_interval_is_that_of_the_means_of_the_folds():
    rows = [
        row(fold, seed, GIB=gib)
        for fold, pair in enumerate([(0.8, 0.8), (0.8, 0.9), (0.9, 0.9)])
        for seed, gib in enumerate(pair)
    ]
    found = cost(rows, "GIB")
    assert found["difference"] == pytest.approx(0.05) and found["seeds"] == 3
    half = 4.302653 * 0.05 / 3**0.5  # quantile of t with two degrees of freedom, of folds with 0, 0.05, and 0.1
    assert (found["low"], found["high"]) == pytest.approx((0.05 - half, 0.05 + half), abs=1e-5)


def test_a_fold_without_one_of_the_trials_is_refused():
    rows = [row(0, 0), row(0, 1), row(1, 0)]
    with pytest.raises(ValueError, match=r"in all folds \(got \{0: 2, 1: 1\}\)"):
        cost(rows, "GIB")


def test_the_first_backbone_measures_all_curves(folds):
    found = bottleneck_cost_trial("d", "GIN", 1, 0, epochs=2)
    assert list(found["scores"]) == list(SCORES) and list(found["curve"]) == list(RANKINGS)
    assert found["scores"]["GIB, half of the graph"] == found["curve"]["GIB"]["0.5"]
    assert found["scores"]["random half of the graph"] == found["curve"]["random"]["0.5"]
    assert all(0 <= value <= 1 for value in found["scores"].values()) and migrate(found) == found
    made = [row(fold) | found | {"fold": fold} for fold in (0, 1)]
    assert curve(made)["degree"][1.0] == [found["scores"]["network"]] * 2
    (*_, line) = curves_figure(made).data
    assert line.name == "random" and list(line.x) == [*FRACTIONS, 1.0] and line.y[-1] == found["scores"]["network"]
    assert "d, fraction of the nodes" in report(made) and "d, random half of the graph" in report(made)


def test_other_backbones_and_seeds_measure_half_only(folds):
    found = bottleneck_cost_trial("d", METHODS[0], 0, 0, epochs=2)
    assert {name: list(each) for name, each in found["curve"].items()} == {"GIB": ["0.5"], "random": ["0.5"]}


def test_the_network_of_half_never_sees_the_other_half(folds, monkeypatch):
    "Every network but the two that see the whole graph is given at most half of the nodes of each graph."
    seen = []
    network = room._network
    monkeypatch.setattr(room, "_network", lambda parts, *rest: seen.append(parts) or network(parts, *rest))
    bottleneck_cost_trial("d", METHODS[0], 0, 0, epochs=1)
    whole, *cut = [[graph.num_nodes for part in parts for graph in part] for parts in seen]
    assert len(cut) == 2
    assert all(mine == [n // 2 for n in whole] for mine in cut)


def test_degrees_are_those_of_the_remaining_graph():
    star = folds_of_stars()
    (cut,) = top_subgraph(star.graphs[:1], [torch.tensor([1.0, 1, 0, 0, 0])], 0.5, star.degree_features, at_most=True)
    assert cut.num_nodes == 2 and cut.x.argmax(1).tolist() == [1, 1]  # the center has one neighbor left


def folds_of_stars():
    from torch_geometric.data import Data

    from gib_nb.data.graph_dataset import make_dataset

    edges = torch.tensor([[0, 0, 0, 0, 1, 2, 3, 4], [1, 2, 3, 4, 0, 0, 0, 0]])
    graphs = [Data(edge_index=edges, num_nodes=5, y=torch.tensor([i % 2])) for i in range(20)]
    return make_dataset("stars", graphs)


def test_ties_in_degree_are_broken_at_random():
    "The order of the nodes of a ring says nothing, so it chooses nothing."
    from torch_geometric.data import Data

    ring = Data(x=torch.eye(6), edge_index=torch.stack([torch.arange(6), torch.arange(1, 7) % 6]))
    chosen = [top_subgraph([ring], [torch.ones(6)], 0.5, seed=seed)[0].x.sum(0) for seed in range(200)]
    assert (torch.stack(chosen).mean(0) - 0.5).abs().max() < 0.15


def test_random_halves_round_down_on_request():
    graph = folds_of_stars().graphs[0]
    assert [random_subgraph([graph], at_most=each)[0].num_nodes for each in (False, True)] == [3, 2]
