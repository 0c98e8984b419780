"The protocol of the paper's table 4: scores by hand, line graphs, guesses, and cells without a look at the truth."
import json
import math

import numpy as np
import pytest
import torch
from sklearn.metrics import precision_score, recall_score, roc_auc_score

from gib_nb import denoising
from gib_nb.data import denoising_dataset
from gib_nb.denoising import METHODS, PAPER, denoising_cell, edge_scores, line_graphs
from gib_nb.trainer import GIBConfig, InputFormat


@pytest.fixture(scope="module")
def noisy():
    return denoising_dataset("motif", seed=3)


@pytest.fixture
def on_motifs(monkeypatch):
    "The cells on 60 shipped trees instead of MUTAG."
    from gib_nb.data import motif_dataset
    monkeypatch.setattr(denoising, "denoising_dataset", lambda name="MUTAG", root=None, seed=0: denoising_dataset(motif_dataset(60, base_nodes=6), seed=seed))


def test_scores_against_scikit_learn():
    rng = np.random.default_rng(0)
    real, kept, value = (torch.from_numpy(rng.random(200)) < .7), torch.from_numpy(rng.random(200)) < .5, torch.from_numpy(rng.random(200).round(1))
    found = edge_scores(real, kept, value)
    assert found["recall"] == pytest.approx(recall_score(real, kept)) and found["precision"] == pytest.approx(precision_score(real, kept))
    assert found["auc"] == pytest.approx(roc_auc_score(real, value)) and found["kept"] == pytest.approx(kept.double().mean().item())
    for level, precision in zip(np.linspace(0, 1, 21), found["curve"]):  # the best precision of any cut with at least that recall
        cuts = [value >= cut for cut in value.unique()]
        assert precision == pytest.approx(max(precision_score(real, cut) for cut in cuts if recall_score(real, cut) >= level - 1e-12), abs=1e-9)


def test_perfect_none_and_all():
    real = torch.tensor([1, 1, 0, 1]).bool()
    assert edge_scores(real, real, real.double()) == {"recall": 1, "precision": 1, "kept": .75, "auc": 1, "curve": [1.] * 21}
    assert edge_scores(real, torch.zeros(4)) == {"recall": 0, "precision": 0, "kept": 0}
    everything = edge_scores(real, torch.ones(4), torch.ones(4))
    assert everything["precision"] == .75 and everything["auc"] == .5 and everything["curve"] == [.75] * 21


def test_line_graphs_keep_split_labels_and_truth(noisy):
    lines = line_graphs(noisy)
    assert lines.split is noisy.split and len(lines) == len(noisy)
    for graph, line in zip(noisy.graphs[:50], lines.graphs):
        assert line.num_nodes * 2 == graph.num_edges and line.y == graph.y and line.node_mask.sum() * 2 == graph.edge_mask.sum()


@pytest.mark.parametrize("method", METHODS)
def test_a_cell_of_every_method(method, on_motifs):
    found = denoising_cell("MUTAG", method, 1, epochs=1, hidden_channels=8)
    assert json.dumps(found) and all(0 <= found[name] <= 1 for name in ("recall", "precision", "auc", "accuracy") if name in found)
    assert ("recall" in found) == (method not in ("GCN", "DiffPool", "GCN, sum, line graph", "majority class"))
    assert ("accuracy" in found) == (method not in ("keep all", "random half", "low degree")) and found.get("config", {"hidden_channels": 8})["hidden_channels"] == 8
    if method == "keep all":
        assert found["recall"] == 1 and found["precision"] == pytest.approx(1 / 1.3, abs=.02) and found["auc"] == .5
    if method == "random half":
        assert abs(found["auc"] - .5) < .15


def test_the_half_of_each_graph_is_kept(on_motifs):
    lines = line_graphs(denoising.denoising_dataset(seed=1))
    for method in ("random half", "low degree"):
        kept, values = denoising._guess(method, lines.test, 1)
        start = 0
        for graph in lines.test:
            mine = slice(start, start := start + graph.num_nodes)
            assert int(kept[mine].sum()) == math.ceil(graph.num_nodes / 2) and values[mine][kept[mine]].min() >= values[mine][~kept[mine]].max()


@pytest.mark.parametrize("method", [*denoising.PLAIN, "GCN+GIB"])
def test_training_sees_neither_the_truth_nor_a_test_graph(method, on_motifs, monkeypatch):
    seen = []

    class Spy:
        def __init__(self, *_, **__):
            pass

        def fit(self, train, valid, **_):
            seen.extend([*train, *valid])
            raise RuntimeError("seen")

    for name in ("GIBTrainer", "NetworkTrainer"):
        monkeypatch.setattr(denoising, name, Spy)
    with pytest.raises(RuntimeError, match="seen"):
        denoising_cell("MUTAG", method, 1)
    bare = InputFormat.of(seen).prepare(seen, labels=True)  # what every trainer trains on
    assert ("node_mask" in seen[0] or "edge_mask" in seen[0]) and not any(name in graph for graph in bare for name in ("node_mask", "edge_mask", "ends"))
    data = denoising.denoising_dataset(seed=1)
    assert len(seen) == len(data.train) + len(data.valid) and [int(graph.y) for graph in seen] == [int(graph.y) for graph in [*data.train, *data.valid]]


def test_the_papers_numbers_and_settings():
    assert set(PAPER) <= set(METHODS) and GIBConfig(**denoising.NETWORK | denoising.BOTTLENECK)
    for words in (dict(method="GCN+Att08"), dict(method="GCN+GIB", heads=3)):
        with pytest.raises(ValueError, match="expected a method among keep all"):
            denoising_cell(**words)
