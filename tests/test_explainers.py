"Methods side by side: masks, scores, and one cell of each table."

import copy
import types

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import SimpleConv

from gib_nb.data.synthetic import motif_dataset
from gib_nb.experiments import explainers as room
from gib_nb.experiments.explainers import (
    ABLATIONS,
    METHODS,
    ablation_trial,
    classifiers_first,
    explainers,
    explanation_trial,
    fit_classifier,
    symmetrize,
    with_ground_truth,
)
from gib_nb.explain.metrics import mask_scores


@pytest.fixture(scope="module")
def trees():
    return motif_dataset(60, base_nodes=6)


def test_both_ways_by_hand():
    edge_index = torch.tensor([[0, 1, 1, 2, 3], [1, 0, 2, 1, 3]])
    assert symmetrize(torch.tensor([1.0, 3, 0, 1, 5]), edge_index).tolist() == [2, 2, 0.5, 0.5, 5]
    assert symmetrize(torch.zeros(0), torch.zeros(2, 0, dtype=torch.long)).tolist() == []


class CountsEdges(nn.Module):
    "Class 1 when the messages along the edges sum to more than 3."

    def __init__(self):
        super().__init__()
        self.layer = SimpleConv(aggr="sum")

    def forward(self, x, edge_index, batch=None):
        total = self.layer(x, edge_index).sum().reshape(1, 1)
        return torch.cat([3 - total, total - 3], 1)


def test_mask_scores_by_hand():
    path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    graphs = [
        Data(x=torch.ones(4, 1), edge_index=path, edge_mask=torch.tensor([1.0, 1, 1, 1, 0, 0])),
        Data(x=torch.ones(4, 1), edge_index=path, edge_mask=torch.tensor([1.0, 1, 0, 0, 1, 1])),
    ]
    right, wrong = [graph.edge_mask for graph in graphs], [1 - graph.edge_mask for graph in graphs]
    assert mask_scores(CountsEdges(), graphs, right) == pytest.approx(
        {
            "auc": 1.0,
            "precision": 1.0,
            "fidelity_plus": 1.0,
            "fidelity_minus": 0.0,
            "sparsity": 1 / 3,
            "components": 1.5,
        }
    )
    found = mask_scores(CountsEdges(), graphs, wrong)
    assert (
        found["auc"] == 0 and found["fidelity_plus"] == 1 and found["fidelity_minus"] == 0
    )  # ties of the last place count as kept
    assert found["precision"] == pytest.approx(4 / 6) and found["sparsity"] == pytest.approx(2 / 3)
    mixed = mask_scores(CountsEdges(), graphs, [torch.tensor([0.9, 0.9, 0.1, 0.1, 0.8, 0.8])] * 2)
    pairs = [(a > b) + 0.5 * (a == b) for a in (0.9, 0.9, 0.1, 0.1, 0.9, 0.9, 0.8, 0.8) for b in (0.8, 0.8, 0.1, 0.1)]
    assert (
        mixed["auc"] == pytest.approx(np.mean(pairs))
        and mixed["precision"] == pytest.approx((0.5 + 1) / 2)
        and mixed["components"] == 2
    )


@pytest.mark.slow
def test_every_method_gives_a_symmetric_mask(trees):
    pytest.importorskip("captum")
    for gnn, names in (("gin", set()), ("gat", {"attention"})):
        model = fit_classifier(trees.train, trees.valid, gnn, epochs=2)
        before = copy.deepcopy(model.state_dict())
        methods = explainers(model, trees.train[:4], steps=3, epochs=2)
        assert set(methods) == {"random edges", "GNNExplainer", "PGExplainer", "integrated gradients"} | names
        for explain in methods.values():
            for graph in trees.test[:2]:
                mask = explain(graph)
                of = dict(zip(map(tuple, graph.edge_index.T.tolist()), mask.tolist()))
                assert (
                    mask.shape == (graph.num_edges,)
                    and torch.isfinite(mask).all()
                    and all(value == pytest.approx(of[v, u]) for (u, v), value in of.items())
                )
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
        assert not any(module._edge_mask is not None for module in model.modules() if hasattr(module, "_edge_mask"))


def test_the_classifier_learns_and_leaves_no_trace(trees):
    state = torch.get_rng_state()
    first, second = (fit_classifier(trees.train, trees.valid, epochs=4) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state) and not first.training
    assert all(
        torch.equal(value, second.state_dict()[name]) and value.grad is None
        for name, value in first.state_dict().items()
    )


def test_marked_graphs_of_mutagenicity_are_mutagens():
    class Few:
        name, test = (
            "Mutagenicity",
            [
                Data(edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.tensor([y]), edge_mask=torch.tensor(mask))
                for y, mask in ((0, [1.0, 0.0]), (1, [1.0, 0.0]), (0, [1.0, 1.0]), (0, [0.0, 0.0]))
            ],
        )

    assert with_ground_truth(Few, "test") == Few.test[:1]
    Few.name = "motif"
    assert with_ground_truth(Few, "test") == Few.test[:2]


def small(monkeypatch):
    monkeypatch.setattr(room, "motif_dataset", lambda size, **more: motif_dataset(40, base_nodes=6))


@pytest.mark.slow
def test_a_cell_of_the_comparison_is_plain_and_whole(monkeypatch):
    pytest.importorskip("captum")
    small(monkeypatch)
    room._data_and_network.cache_clear()
    tiny = dict(pretrain_epochs=1, rampup_epochs=0, num_steps=2, hidden_channels=8, max_restarts=0, batch_size=16)
    trials = [
        explanation_trial(method=method, epochs=3, max_explained=3, **tiny) | {"dataset": "motif", "seed": 0}
        for method in METHODS
    ]
    (row,) = room.join_methods(trials)
    methods = [
        "random edges",
        "GNNExplainer",
        "PGExplainer",
        "integrated gradients",
        "attention (GAT)",
        "GIB, post hoc",
        "GIB",
        "GIB, two-stage",
        "GIB, robust",
        "VGIB",
        "GSAT",
        "PGIB",
    ]
    assert [name for name, value in row.items() if isinstance(value, dict)] == methods and row["graphs"] == 3
    for name in methods:
        assert set(row[name]) == {
            "auc",
            "precision",
            "fidelity_plus",
            "fidelity_minus",
            "sparsity",
            "components",
            "accuracy",
            "seconds",
        }
        assert all(isinstance(value, float) and np.isfinite(value) for value in row[name].values())
    assert row["GIB, post hoc"]["accuracy"] == row["random edges"]["accuracy"]  # the same explained model


def test_a_cell_of_the_ablation_holds_every_variant(monkeypatch):
    small(monkeypatch)
    seen, given = [], []
    monkeypatch.setattr(room, "GIBTrainer", lambda config, model=None: seen.append(config) or Trainer())

    class Trainer:
        model = types.SimpleNamespace(classifier=torch.nn.ModuleList(torch.nn.Linear(1, 1) for _ in range(3)))

        def fit(self, train, valid, classifier, progress):
            given.append(classifier and len(classifier))
            return self

        def iter_explain(self, graphs):
            for graph in graphs:
                y = torch.nn.functional.one_hot(graph.y, 2).float()
                yield Data(
                    edge_mask=graph.edge_mask,
                    prediction=y,
                    whole_prediction=1 - y,
                    selected_nodes=torch.tensor([True, False]),
                )

    row = ablation_trial("motif", epochs=3)
    assert list(row) == [*ABLATIONS, "classifier never trained on masks", "plain GIB"]
    assert all(
        scores == {"auc_valid": 1.0, "auc_test": 1.0, "accuracy": 1.0, "accuracy_whole": 0.0, "selected_fraction": 0.5}
        for scores in row.values()
    )
    assert (
        seen[1] == classifiers_first(3, max_restarts=0)
        and len(set(seen)) == len(seen)
        and {(config.max_restarts, config.epochs) for config in seen} == {(0, 6), (0, 4), (0, 3), (0, 1)}
    )
    assert given == [
        None,
        3,
        1,
        *[3] * 5,
        None,
        None,
        None,
    ]  # trained once, and given to all that are trained in two stages
