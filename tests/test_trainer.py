"What a trained model says: predictions, explanations, files."

import json
import math
import os
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from gib_nb.data.spec import DataSpec
from gib_nb.data.synthetic import motif_dataset
from gib_nb.explain.audit import audit
from gib_nb.information.critic import EstimateWarning
from gib_nb.train.collapse import CollapseWarning, find_constant
from gib_nb.train.config import GIBConfig, configure, flat_settings
from gib_nb.train.parts import Bottleneck, Optim, Pretrain, Prior
from gib_nb.train.recipes import RECIPES, recipe
from gib_nb.train.trainer import GIBTrainer
from gib_nb.utils.files import load_safetensors, save_safetensors
from tests.training import (
    NONE,
    Features,
    caught,
    constructed,
    fitted,
    make_graphs,
    marked_graphs,
    real,
    ring,
    same,
    same_state,
    seeded,
)


@pytest.fixture(scope="module")
def trained():
    return fitted()


@pytest.fixture(scope="module")
def featureless():
    return fitted(make_graphs(d=0))


@pytest.fixture(scope="module")
def regressor():
    return fitted(make_graphs(48, y=real), epochs=40, hidden_channels=16, lr=1e-2, alpha=0.0, beta=0.0)


# --- predictions and explanations

ODD = {
    "ring and one node": [make_graphs(1)[0], Data(x=torch.ones(1, 3), edge_index=NONE)],
    "ring and empty": [make_graphs(1)[0], Data(x=torch.ones(0, 3), edge_index=NONE)],
    "empty and ring": [Data(x=torch.ones(0, 3), edge_index=NONE), make_graphs(2)[1]],
    "isolated last node": [Data(x=torch.ones(5, 3), edge_index=ring(4)), *make_graphs(2)],
    "no edges at all": [Data(x=torch.ones(n, 3), edge_index=NONE) for n in (2, 1, 3)],
    "only empty": [Data(x=torch.ones(0, 3), edge_index=NONE)] * 2,
    "one graph": make_graphs(1),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_graphs_are_predicted_and_explained(case, trained):
    "One answer per graph, as if it were alone: single nodes, isolated nodes, no edges, no nodes."
    graphs = ODD[case]
    together, masks = trained.predict_proba(graphs), caught(trained.explain, graphs)[0]
    assert together.shape == (len(graphs), 2) and np.isfinite(together).all() and len(masks) == len(graphs)
    for graph, row, explanation in zip(graphs, together, masks):
        np.testing.assert_allclose(row, trained.predict_proba(graph)[0], atol=1e-6)
        alone = caught(trained.explain, graph)[0]
        assert explanation.node_mask.shape == (graph.num_nodes, 1) and explanation.edge_mask.shape == (graph.num_edges,)
        torch.testing.assert_close(explanation.node_mask, alone.node_mask, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(explanation.edge_mask, alone.edge_mask, rtol=1e-4, atol=1e-6)
        assert torch.equal(explanation.edge_index, graph.edge_index) and alone.components == explanation.components


def test_odd_graphs_are_trained_on():
    "A graph without edges, a single node and a graph without nodes among the others, with features and without."
    for d in (3, 0):
        x = lambda n: torch.ones(n, 3) if d else None
        odd = [Data(x=x(n), edge_index=NONE, num_nodes=n, y=torch.tensor([n % 2])) for n in (0, 1, 2, 0)]
        trainer, _ = caught(fitted, odd[:3] + make_graphs(d=d)[:15], make_graphs(d=d)[18:] + odd[3:])
        assert np.isfinite(trainer.predict_proba(odd)).all() and len(caught(trainer.explain, odd)[0]) == 4


def test_a_batch_equals_its_graphs(trained):
    "Predictions and masks of many graphs, over several batches, equal those of one graph after the other."
    graphs = make_graphs(21)
    together, masks = trained.predict_proba(graphs), caught(trained.explain, graphs)[0]
    for graph, row, explanation in zip(graphs, together, masks):
        alone = caught(trained.explain, graph)[0]
        np.testing.assert_allclose(row, trained.predict_proba(graph)[0], atol=1e-6)
        torch.testing.assert_close(explanation.node_mask, alone.node_mask, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(explanation.prediction, alone.prediction, rtol=1e-5, atol=1e-5)


def test_order_of_nodes_and_edges_does_not_matter(trained):
    graph = make_graphs(12)[11]
    n, generator = graph.num_nodes, seeded(1)
    shuffle, columns = torch.randperm(n, generator=generator), torch.randperm(graph.num_edges, generator=generator)
    moved = Data(x=graph.x[shuffle], edge_index=shuffle.argsort()[graph.edge_index][:, columns])
    before, after = (caught(trained.explain, g)[0] for g in (graph, moved))
    np.testing.assert_allclose(trained.predict_proba(moved), trained.predict_proba(graph), atol=1e-6)
    torch.testing.assert_close(after.node_mask, before.node_mask[shuffle], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(after.edge_mask, before.edge_mask[columns], rtol=1e-5, atol=1e-6)


def test_the_mask_of_an_edge_has_no_direction(trained):
    "(u, v) and (v, u) have one mask, the product of the two ends'."
    for graph, explanation in zip(make_graphs(), caught(trained.explain, make_graphs())[0]):
        mask = {(u, v): m for (u, v), m in zip(graph.edge_index.T.tolist(), explanation.edge_mask.tolist())}
        p = explanation.node_mask[:, 0].tolist()
        assert all(m == mask[v, u] and m == pytest.approx(p[u] * p[v], rel=1e-6) for (u, v), m in mask.items())


def cut_at(explanation):
    "The threshold in the record, read as a field; `threshold` itself is a method of PyG's explanations."
    (name,) = (key for key in explanation.keys() if "threshold" in key)
    return getattr(explanation, name)


def test_a_cut_stands_beside_the_soft_mask():
    "Soft masks cut nothing: the selected nodes, their pieces and the threshold are in the record."
    trainer = constructed("softly")
    explanation, found = caught(trainer.explain, marked_graphs(1)[0])
    assert explanation.node_mask[:, 0].tolist() == pytest.approx([0.8, 0.8, 0.8, 0.2, 0.2, 0.2])
    assert explanation.selected_nodes.tolist() == [True] * 3 + [False] * 3 and explanation.components == 1 and not found
    assert cut_at(explanation) == 0.5
    strict, _ = caught(constructed("softly", threshold=0.9).explain, marked_graphs(1)[0])
    assert not strict.selected_nodes.any() and cut_at(strict) == 0.9 and strict.components == 0


def test_explanations_are_those_of_pyg(trained):
    graph = make_graphs(1)[0]
    explanation, _ = caught(trained.explain, graph)
    assert explanation.validate() and torch.equal(explanation.x, graph.x)
    assert explanation.get_explanation_subgraph().num_nodes == graph.num_nodes
    assert explanation.threshold("hard", 0.5).node_mask[:, 0].bool().tolist() == explanation.selected_nodes.tolist()
    assert explanation.prediction.shape == (1, 2) and not explanation.node_mask.requires_grad


def test_one_graph_or_many(trained, featureless):
    graphs = make_graphs(3)
    assert trained.predict(graphs[0]).shape == (1,) and trained.predict(graphs).shape == (3,)
    assert isinstance(caught(trained.explain, graphs[:1])[0], list) and trained.predict(iter(graphs)).shape == (3,)
    assert caught(featureless.explain, make_graphs(1, d=0)[0])[0].edge_mask.shape == (8,)


@pytest.mark.parametrize("selects", ["undecided", "none", "all", "by label"])
def test_an_undecided_assignment_is_said(selects):
    "At the cut: all nodes of every graph are in, or none, so that the threshold decides nothing within a graph."
    trainer = constructed(selects)
    for graphs in (marked_graphs(1)[0], marked_graphs(6)):
        with pytest.warns(CollapseWarning, match="threshold 0.5 .*all.*none"):
            trainer.explain(graphs)


def test_a_decided_assignment_is_quiet():
    _, found = caught(constructed("motif").explain, marked_graphs(6))
    assert not found


def test_probabilities_and_classes(trained):
    p = trained.predict_proba(make_graphs())
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-6)
    assert (trained.predict(make_graphs()) == p.argmax(1)).all()
    assert trained.score(make_graphs()) == np.mean(p.argmax(1) == np.arange(24) % 2)
    assert trained.score(make_graphs()[::2]) == np.mean(p[::2].argmax(1) == 0)


@pytest.mark.parametrize("y", [None, torch.tensor([1, 2, 3]), 3], ids=str)
def test_labels_do_not_matter_to_predictions(y, trained):
    "Graphs without a label, with one of another shape, and labeled ones beside them."
    graphs = make_graphs(4)
    expected = trained.predict_proba(graphs)
    for graph in graphs[2:]:
        graph.y = y
    assert np.array_equal(trained.predict_proba(graphs), expected)
    assert np.array_equal(trained.predict_proba(graphs[::-1]), expected[::-1])
    assert len(caught(trained.explain, graphs)[0]) == 4


def test_a_score_needs_labels(trained):
    graphs = make_graphs(4)
    graphs[2].y = None
    with pytest.raises(ValueError, match="graph 2: expected .*y"):
        trained.score(graphs)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "explain", "apply", "score", "mutual_information"])
def test_an_untrained_explainer_refuses(method):
    with pytest.raises(NotFittedError, match="call fit or load"):
        getattr(GIBTrainer(), method)(make_graphs(2))


def test_an_untrained_model_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        GIBTrainer().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_information_of_the_subgraphs(trained):
    "An estimate with its record; identical subgraphs, as when no node is selected, are named."
    estimate, _ = caught(trained.mutual_information, make_graphs(60), hidden=8, steps=20)
    assert estimate.log_num_pairs == pytest.approx(math.log(12)) and math.isfinite(estimate.value)
    with pytest.warns(EstimateWarning, match="y is identical in all 20 pairs"):
        empty = constructed("none").mutual_information(marked_graphs(20), hidden=8, steps=20)
    assert empty.value <= 1e-6


# --- regression


def test_regression_is_in_the_units_of_y(regressor):
    graphs = make_graphs(48, y=real)
    y, predicted = np.array([float(g.y) for g in graphs]), regressor.predict(graphs)
    assert regressor.spec.task == "regression" and regressor.spec.y_mean == pytest.approx(105, abs=0.5)
    assert predicted.dtype == np.float64 and abs(predicted.mean() - y.mean()) < 3
    assert (
        regressor.score(graphs) == pytest.approx(1 - ((y - predicted) ** 2).sum() / ((y - y.mean()) ** 2).sum())
        and regressor.score(graphs) > 0.5
    )
    assert regressor.history["epochs"][-1]["score"] < 1


def test_regression_has_no_classes(regressor):
    with pytest.raises(ValueError, match="classification .*regression"):
        regressor.predict_proba(make_graphs(2))
    assert len(caught(regressor.explain, make_graphs(2))[0]) == 2


def test_a_target_far_from_zero():
    "Seconds since 1970 in double precision: nothing is rounded away on the way to the loss."
    spec = DataSpec("regression", 1, 3, None, 1e9, 2.0)
    y = torch.tensor([1e9 + 2, 1e9 - 4], dtype=torch.double)
    assert spec.loss(torch.tensor([[1.0], [-2.0]]), y) == 0 and spec.score(torch.tensor([[1.0], [-2.0]]), y) == 1


def test_a_target_that_never_varies_is_refused():
    with pytest.raises(ValueError, match="expected a y that varies, for regression .got 0.1 in all"):
        fitted(make_graphs(y=lambda v: torch.tensor([0.1])))


# --- as in scikit-learn


def test_parameters_by_name():
    trainer = GIBTrainer(configure(beta=0.5), encoder="gcn", epochs=40)
    parameters = trainer.get_params()
    given_in_python = {"model", "loss", "optimizer", "scheduler"}
    assert set(parameters) == set(flat_settings(GIBConfig())) | given_in_python
    assert {parameters[name] for name in given_in_python} == {None}
    assert (parameters["beta"], parameters["encoder"], parameters["epochs"]) == (0.5, "gcn", 40)
    assert GIBTrainer(**parameters).config == trainer.config
    for config in (
        configure(prior_prob=0.2, mask_on="edges"),
        configure(classifier="reencode", two_stage=True, finetune_epochs=3),
        GIBConfig(phases=(Pretrain(2), Pretrain(3), Bottleneck(4))),
    ):
        assert GIBTrainer(**GIBTrainer(config).get_params()).config == config == clone(GIBTrainer(config)).config


def test_settings_can_be_changed(trained):
    trainer = fitted()
    assert trainer.set_params(beta=0.7, encoder="gat") is trainer
    assert trainer.config == configure(trained.config, beta=0.7, encoder="gat")
    with pytest.raises(NotFittedError):
        trainer.predict(make_graphs())
    for wrong in (
        dict(beta=-1),
        dict(gamma=1),
        dict(alpha=0.9, gamma=1),
        dict(alpha=0.9, classifier="frozen"),
        dict(alpha=0.9, num_classifiers=2),
    ):
        with pytest.raises(ValueError, match="expected"):
            trainer.set_params(**wrong)
    assert trainer.config.beta == 0.7 and trainer.config.alpha == 0.3
    assert (
        trainer.set_params(prior_prob=0.2).config.information == Prior(0.2)
        and trainer.set_params(optim=Optim(lr=0.5)).config.optim.lr == 0.5
        and trainer.set_params() is trainer
    )


@pytest.mark.parametrize("backbone", ["gcn", Features])
def test_clone(backbone):
    trainer = GIBTrainer(beta=0.3, encoder=backbone)
    trainer.model = nn.Identity()
    copy = clone(trainer)
    assert (
        copy is not trainer
        and copy.model is None
        and copy.get_params() == trainer.get_params()
        and copy.config == trainer.config
    )


def test_a_trainer_can_be_printed(trained):
    assert "not fitted" in repr(GIBTrainer()) and "beta=0.1" in repr(GIBTrainer()) and "classification" in repr(trained)


def test_unknown_settings():
    with pytest.raises(ValueError, match="gamma"):
        GIBTrainer(gamma=1)


# --- networks of one's own


class Convolution(nn.Module):
    out_channels = 6

    def __init__(self, channels):
        super().__init__()
        self.conv = GCNConv(channels, 6)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index).tanh()


def test_a_backbone_of_ones_own(tmp_path):
    "Trained, saved and loaded with the function that makes it."
    trainer = fitted(encoder=Convolution)
    assert (
        trainer.config.encoder.name is Convolution is trainer.get_params()["encoder"]
        and trainer.record_of()["config"]["encoder"]["name"] == "custom"
        and trainer.model.channels == 6
    )
    trainer.save(tmp_path)
    loaded = GIBTrainer.load(tmp_path, encoder=Convolution)
    assert np.array_equal(loaded.predict_proba(make_graphs()), trainer.predict_proba(make_graphs()))
    with pytest.raises(ValueError, match="custom"):
        GIBTrainer.load(tmp_path)
    with pytest.raises(ValueError):
        GIBTrainer.load(tmp_path, encoder=Features)
    with pytest.raises(TypeError, match=r"function in_channels → module.*got the module GCNConv itself"):
        GIBTrainer(encoder=GCNConv(3, 6))
    trainer.set_params(beta=0.2)
    assert trainer.config.encoder.name is Convolution and trainer.set_params(encoder="gin").config.encoder.name == "gin"


@pytest.mark.parametrize(
    "settings",
    [dict(encoder=name) for name in ("gcn", "graphsage", "gin", "gat")]
    + [
        dict(norm="layer_norm"),
        dict(norm=None, readout="sum", num_layers=1),
        dict(negatives="all"),
        dict(memory_bank=False),
        dict(prior_prob=0.3),
        dict(lr_schedule="cosine"),
        dict(weight_decay=0.1),
    ],
    ids=str,
)
def test_every_setting_trains(settings):
    trainer = fitted(**settings)
    assert np.isfinite(trainer.predict_proba(make_graphs())).all()
    assert all(math.isfinite(step["mutual_information"]) for step in trainer.history["steps"] if step["loss_weight"])


# --- models on disk


@pytest.fixture
def folder(trained, tmp_path):
    trained.save(tmp_path / "model")
    return tmp_path / "model"


def test_saved_and_loaded(folder, trained, featureless, regressor, tmp_path):
    "The same answers to the last bit, the config and the history; without a touch to the global random state."
    state = torch.get_rng_state()
    loaded = GIBTrainer.load(str(folder))
    assert torch.equal(torch.get_rng_state(), state)
    assert (
        loaded.config == trained.config
        and same(loaded.history, trained.history)
        and loaded.collapse == trained.collapse
    )
    assert same_state(loaded.model, trained.model) and not loaded.model.training
    for trainer, graphs in ((featureless, make_graphs(d=0)), (regressor, make_graphs(y=real))):
        trainer.save(tmp_path / "other")
        again = GIBTrainer.load(tmp_path / "other")
        assert again.spec == trainer.spec and np.array_equal(again.predict(graphs), trainer.predict(graphs))
        assert again.score(graphs) == trainer.score(graphs)


@pytest.mark.slow
def test_the_same_subgraph_in_another_process(folder, trained):
    "Saved here, loaded in a process with another hash seed: every number of the subgraph is the same."
    graph = make_graphs()[5]
    torch.save({"x": graph.x, "edge_index": graph.edge_index}, folder.parent / "graph.pt")
    program = f"""
import json, torch, warnings
from torch_geometric.data import Data
from gib_nb.train.trainer import GIBTrainer
torch.set_num_threads({torch.get_num_threads()})
warnings.simplefilter("ignore")
e = GIBTrainer.load({str(folder)!r}).explain(Data(**torch.load({str(folder.parent / "graph.pt")!r})))
print(json.dumps([e.node_mask.tolist(), e.edge_mask.tolist(), e.prediction.tolist(), e.selected_nodes.tolist()]))
"""
    seed = "7" if os.environ.get("PYTHONHASHSEED") != "7" else "8"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONHASHSEED": seed},
        cwd=pathlib.Path(__file__).parents[1],
    )
    assert done.returncode == 0, done.stderr
    e, _ = caught(trained.explain, graph)
    assert json.loads(done.stdout.splitlines()[-1]) == [
        e.node_mask.tolist(),
        e.edge_mask.tolist(),
        e.prediction.tolist(),
        e.selected_nodes.tolist(),
    ]


def test_the_history_is_strict_json(tmp_path):
    "What was not measured in pretraining is null in the file and NaN again when it is read."
    trainer = fitted(pretrain_epochs=1)
    trainer.save(tmp_path)
    written = json.loads(
        (tmp_path / "history.json").read_text(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON")
    )
    assert written["steps"][0]["mutual_information"] is None and math.isnan(
        trainer.history["steps"][0]["mutual_information"]
    )
    np.testing.assert_equal(GIBTrainer.load(tmp_path).history, trainer.history)


def test_tensors_and_text_only(folder, monkeypatch, tmp_path):
    "No pickle in what is written, and none is used to read it."
    checkpoint = tmp_path / "run"
    fitted(checkpoint=checkpoint)
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "history.json", "model.safetensors"]
    for path in (folder / "model.safetensors", checkpoint):
        content = path.read_bytes()
        json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    for path in (folder / "config.json", folder / "history.json"):
        json.loads(path.read_text())

    def refuse(*arguments, **options):
        raise AssertionError("pickle was used")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)
    GIBTrainer.load(folder)
    fitted(checkpoint=checkpoint)


def test_a_model_of_another_make_is_refused(folder, tmp_path):
    "A checkpoint of a run in the model's place; a setting that we do not know; weights of another shape, or too few."
    fitted(checkpoint=tmp_path / "run")
    file = folder / "model.safetensors"
    tensors, record = load_safetensors(file)
    wide = dict(record, config=record["config"] | {"encoder": record["config"]["encoder"] | {"hidden_channels": 9}})
    for content in (
        (tmp_path / "run").read_bytes(),
        save_safetensors(tensors, dict(record, config=record["config"] | {"gamma": 1})),
        save_safetensors(tensors, wide),
        save_safetensors(dict(list(tensors.items())[1:]), record),
        save_safetensors(tensors, dict(record, spec={"task": "classification"})),
    ):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="expected"):
            GIBTrainer.load(folder)


def test_no_model_in_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="GIBTrainer.save"):
        GIBTrainer.load(tmp_path)


def test_a_motif_is_learned():
    "A small motif set: better than chance, and the first half of training is not the end of it."
    motifs = motif_dataset(80, base_nodes=6, seed=0)
    trainer = fitted(
        motifs.train,
        motifs.valid,
        epochs=25,
        pretrain_epochs=10,
        rampup_epochs=5,
        hidden_channels=16,
        lr=1e-2,
        batch_size=32,
    )
    assert trainer.score(motifs.train) > 0.8


def test_another_threshold_needs_no_new_training():
    data = motif_dataset(60)
    trainer = GIBTrainer(epochs=3, hidden_channels=8, max_restarts=0).fit(data.train, progress=False)
    for threshold in (0.0, 1.0):
        with pytest.warns(CollapseWarning, match=f"the threshold {threshold} selects"):
            found = trainer.explain(data.test, threshold=threshold)
        assert all(int(e.selected_nodes.sum()) == (0 if threshold else e.num_nodes) for e in found)
    assert trainer.config.threshold == 0.5


def test_explanations_carry_the_features_of_edges():
    graphs = motif_dataset(60).graphs
    for graph in graphs:
        graph.edge_attr = torch.arange(2 * graph.num_edges).float().reshape(-1, 2) / 100
    trainer = GIBTrainer(encoder="gine", epochs=2, hidden_channels=8, max_restarts=0).fit(graphs, progress=False)
    (found,) = trainer.explain(graphs[:1])
    assert torch.equal(found.edge_attr, graphs[0].edge_attr)
    part = found.get_explanation_subgraph()
    assert len(part.edge_attr) == part.num_edges


def test_messages_lead_to_what_was_meant(tmp_path):
    with pytest.raises(TypeError, match="for a method by its name use recipe..gsat"):
        GIBTrainer("gsat")
    with pytest.raises(ValueError, match="a method is a recipe"):
        GIBTrainer(method="gsat")
    with pytest.raises(ValueError, match="did you mean beta"):
        GIBTrainer(betta=0.1)

    class Constant(torch.nn.Module):
        def forward(self, x, edge_index, batch):
            return torch.tensor([[1.0, 0.0]]).repeat(int(batch.max()) + 1, 1) + 0 * x.sum()

    with pytest.raises(ValueError, match="expected a model that predicts at least two classes.*class 0 for all"):
        GIBTrainer(model=Constant(), epochs=1).fit(motif_dataset(40).train, progress=False)
    with pytest.raises(TypeError, match="a trained module .got the class Constant"):
        GIBTrainer(model=Constant)
    with pytest.raises(TypeError, match="expected a fitted GIBTrainer, or a PyG Explainer.*got Constant"):
        audit(Constant(), motif_dataset(40).train)
    words = [Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]), y=y) for y in ("a", "b")]
    with pytest.raises(ValueError, match="got str a.; give words as an array"):
        GIBTrainer(epochs=1).fit(words, progress=False)
    words[0].y = 0
    with pytest.raises(ValueError, match="got int 0.; use torch.tensor"):
        GIBTrainer(epochs=1).fit(words, progress=False)
    assert recipe("GSAT") == recipe("gsat")
    with pytest.raises(ValueError, match="threshold between 0 and 1 .got 2"):
        list(GIBTrainer(epochs=2, max_restarts=0).fit(motif_dataset(40).train, progress=False).iter_explain(words, 2))


@pytest.mark.parametrize("name", RECIPES)
def test_a_few_epochs_are_enough_for_every_recipe(name):
    "The phases are shortened, by the recipe and by the trainer."
    for config in (recipe(name, epochs=8), GIBTrainer(recipe(name), epochs=8).config):
        assert config.epochs == 8


def test_a_model_that_has_learned_nothing_is_reported():
    scores = {"subgraph": 0.5, "full": 0.5, "empty": 0.5, "random": 0.5, "constant": 0.5}
    assert "no better than a constant (0.50 against 0.50" in find_constant(scores)
    for better in ("subgraph", "full"):
        assert find_constant(scores | {better: 0.51}) is None
    graphs = motif_dataset(40).graphs
    with pytest.warns(UserWarning, match="no better than a constant"):
        trainer = GIBTrainer(epochs=2, lr=1e-9, alpha=0.0, beta=0.0, hidden_channels=4).fit(graphs, progress=False)
    assert len(set(trainer.predict(graphs))) == 1
