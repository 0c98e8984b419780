import dataclasses
import io
import json
import math
import os
import pathlib
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch import nn
from torch_geometric.data import Batch, Data, InMemoryDataset
from torch_geometric.nn import GCNConv

from gib_nb import trainer as room
from gib_nb.data import motif_dataset
from gib_nb.mi import EstimateWarning
from gib_nb.trainer import (
    CollapseWarning,
    GIBConfig,
    GIBTrainer,
    InputFormat,
    Run,
    build_model,
    evaluate,
    find_collapse,
    history_figure,
    pack,
    ramp_factor,
    train_epoch,
    unpack,
    write_atomically,
)

NONE = torch.zeros(2, 0, dtype=torch.long)
QUICK = dict(epochs=4, warmup=1, ramp=1, inner_steps=3, hidden_channels=8, critic_hidden=8, critic_batch_size=8, restarts=0,
             batch_size=8, learning_rate=3e-3)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def ring(n, chord=False):
    i = torch.arange(n)
    ends = torch.stack([torch.cat([i, torch.tensor([0])]), torch.cat([(i + 1) % n, torch.tensor([2])])])[:, :n + chord]
    return torch.cat([ends, ends.flip(0)], 1)


def make_graphs(N=24, d=3, y=lambda label: torch.tensor([label])):
    "Rings, half of them with a chord; with d columns of features, or with none."
    graphs = []
    for i in range(N):
        n, label = 4 + i % 3, i % 2
        x = None
        if d:
            x = torch.randn(n, d, generator=seeded(i))
            x[:, 0] += 2 * label
        graphs.append(Data(x=x, edge_index=ring(n, label), y=y(label), num_nodes=n))
    return graphs


def real(label):
    return torch.tensor([100. + 10 * label])


def fitted(graphs=None, valid=None, checkpoint=None, callback=None, backbone=None, **settings):
    "A quick fit, without its remark on collapse."
    graphs = make_graphs() if graphs is None else graphs
    if valid is None:
        graphs, valid = graphs[:18], graphs[18:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)
        return GIBTrainer(backbone=backbone, **(QUICK | settings)).fit(graphs, valid=valid, checkpoint=checkpoint, progress=False, callback=callback)


def quick_run(graphs=None, seed=0, **settings):
    graphs, config = make_graphs() if graphs is None else graphs, GIBConfig(**(QUICK | settings))
    form = InputFormat.of(graphs)
    with torch.random.fork_rng(devices=[]):
        return Run(config, form, form.prepare(graphs[:18]), form.prepare(graphs[18:]), seed=seed)


def caught(function, *arguments, **options):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = function(*arguments, **options)
    return result, found


def same_state(first, second):
    first, second = first.state_dict(), second.state_dict()
    return list(first) == list(second) and all(torch.equal(value, second[name]) for name, value in first.items())


def same(first, second):
    "Equal to the last bit, with nan equal to nan."
    return json.dumps(first) == json.dumps(second)


@pytest.fixture(scope="module")
def trained():
    return fitted()


@pytest.fixture(scope="module")
def featureless():
    return fitted(make_graphs(d=0))


@pytest.fixture(scope="module")
def regressor():
    return fitted(make_graphs(48, y=real), epochs=40, hidden_channels=16, learning_rate=1e-2, alpha=0., beta=0.)


# --- models of known behaviour

class Features(nn.Module):
    "A backbone that hands the node features on."
    def __init__(self, channels):
        super().__init__()
        self.out_channels = channels

    def forward(self, x, edge_index):
        return x


class Selects(nn.Module):
    "A generator that keeps each node with the probability that a function of its features says."
    def __init__(self, probability):
        super().__init__()
        self.probability = probability

    def forward(self, x):
        return self.probability(x)


KEEPS = {"motif": lambda x: x[:, 0], "all": lambda x: torch.ones(len(x)), "none": lambda x: torch.zeros(len(x)),
         "complement": lambda x: 1 - x[:, 0], "softly": lambda x: .2 + .6 * x[:, 0], "undecided": lambda x: .5 + 1e-3 * x[:, 1].abs(),
         "by label": lambda x: (x[:, 2] > 0).float()}


def constructed(keeps, task="classification", **settings):
    "A trainer whose model keeps a known part of each graph: x[:, 0] marks the motif."
    trainer = GIBTrainer(backbone=Features, **settings)
    trainer.form = InputFormat(task, 2 if task == "classification" else 1, 3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        trainer.model = build_model(trainer.config, trainer.form, Features).eval()
    trainer.model.generator = Selects(KEEPS[keeps])
    return trainer


def marked_graphs(N=24, task="classification"):
    "Rings of six: nodes 0 to 2 are the motif and carry the label in column 1; column 2 knows the label everywhere, faintly."
    graphs = []
    for i in range(N):
        x = torch.randn(6, 3, generator=seeded(i)) * .3
        label = i % 2 if task == "classification" else float(i % 5)
        x[:, 0] = torch.tensor([1., 1, 1, 0, 0, 0])
        x[:3, 1] += 2 * label
        x[3:, 1] = x[3:, 1] * 3
        x[:, 2] = 1 if i % 2 else -1
        graphs.append(Data(x=x, edge_index=ring(6), y=torch.tensor([label])))
    return graphs


# --- the configuration

@pytest.mark.parametrize("field, values", {
    "backbone": ("gni", None, "GIN", GCNConv), "hidden_channels": (0, -1, 8., "8", True), "num_layers": (0, 1.5), "dropout": (-.1, 1., "0"),
    "norm": ("graph_norm", False), "readout": ("max", None), "alpha": (-.1, math.nan, math.inf, "1", None),
    "beta": (-1, math.nan, math.inf, None), "inner_steps": (-1, 2.5, None), "memory": ("disk", None), "reset_critic": ("yes", None, 2),
    "negatives": ("shift", "shift:0", "shift:-3", "dedup", "most", "", None, 8), "critic_hidden": (0, 4.), "critic_batch_size": (1, 0, 16.),
    "critic_learning_rate": (-1, math.nan), "epochs": (0, 30., -3), "warmup": (-1, .5), "ramp": (-1, 2.), "patience": (0, -1),
    "batch_size": (1, 0, 32.), "learning_rate": (-1e-3, math.nan, math.inf), "weight_decay": (-1,), "restarts": (-1, 1.),
    "threshold": (-.1, 1., math.nan), "device": ("gpu", "", None, 3.5), "seed": (-1, 1.5, "a", None, True),
}.items())
def test_each_field_is_checked(field, values):
    "When the config is made, and by name."
    for value in values:
        with pytest.raises(ValueError, match=f"expected .*{field}.*got"):
            GIBConfig(**{field: value})


def test_numbers_of_numpy_are_taken_or_refused():
    "Never kept until `save` cannot write them."
    for field, value in (("seed", np.int64(3)), ("epochs", np.int64(40)), ("beta", np.float64(.1)), ("beta", np.float32(.1))):
        try:
            config = GIBConfig(**{field: value})
        except ValueError as error:
            assert field in str(error)
        else:
            assert GIBConfig(**json.loads(json.dumps(dataclasses.asdict(config)))) == config


def test_the_full_loss_must_be_trained():
    with pytest.raises(ValueError, match="epochs > warmup .* ramp = 30.*got 30"):
        GIBConfig(epochs=30)
    assert GIBConfig(epochs=31).epochs == 31


def test_a_config_is_frozen_printable_and_saved():
    config = GIBConfig(beta=.05, norm=None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.beta = 1.
    assert "beta=0.05" in repr(config) and GIBConfig(**json.loads(json.dumps(dataclasses.asdict(config)))) == config


def test_ramp():
    "Nothing in the warm-up, then equal steps, full weight from epoch warmup + ramp on."
    config = GIBConfig(warmup=2, ramp=3, epochs=10)
    assert [ramp_factor(epoch, config) for epoch in range(8)] == [0, 0, .25, .5, .75, 1, 1, 1]
    assert ramp_factor(0, GIBConfig(warmup=0, ramp=0)) == 1


# --- graphs at the door

LABELS = {"[1]": lambda v: torch.tensor([v]), "scalar": lambda v: torch.tensor(v), "[1, 1]": lambda v: torch.tensor([[v]]),
          "uint8": lambda v: torch.tensor([v], dtype=torch.uint8), "int32": lambda v: torch.tensor([v], dtype=torch.int32),
          "bool": lambda v: torch.tensor([v == 1])}


@pytest.mark.parametrize("kind", LABELS)
def test_one_label_in_any_shape(kind, trained):
    "A label of one element: as a vector, a scalar or a matrix, and of any type of whole number."
    other = fitted(make_graphs(y=LABELS[kind]))
    assert same(other.history, trained.history)
    assert other.score(make_graphs(y=LABELS[kind])) == trained.score(make_graphs())


@pytest.mark.parametrize("kind", ["[1]", "scalar", "[1, 1]"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_one_target_in_any_shape(kind, dtype):
    trainer = fitted(make_graphs(y=lambda v: LABELS[kind](v).to(dtype)))
    assert trainer.form.task == "regression" and trainer.predict(make_graphs()[:3]).shape == (3,)


@pytest.mark.parametrize("y", [None, 1, torch.tensor([0, 1]), torch.tensor([]), torch.tensor([-1]), torch.tensor([math.nan])], ids=str)
@pytest.mark.parametrize("split", [True, False])
def test_labels_that_are_none(y, split):
    "The graph at fault is named, whether or not the trainer has to split."
    graphs = make_graphs()
    graphs[3].y = y
    with pytest.raises(ValueError, match="graph 3: expected .*y"):
        GIBTrainer(**QUICK).fit(graphs[:18] if split else graphs, valid=graphs[18:] if split else None, progress=False)


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="at least two classes .*class 1"):
        GIBTrainer(**QUICK).fit(make_graphs()[1::2], progress=False)


def test_one_class_in_training_is_refused():
    "Also when only the validation graphs hold a second one."
    with pytest.raises(ValueError, match="two classes"):
        GIBTrainer(**QUICK).fit(make_graphs()[1::2], valid=make_graphs()[:4], progress=False)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_features_that_are_not_finite_are_named(value, trained):
    "By graph, column and row; in training and at prediction."
    graphs = make_graphs()
    graphs[5].x[2, 1] = value
    with pytest.raises(ValueError, match="graph 5: .*finite.*column 1, row 2"):
        GIBTrainer(**QUICK).fit(graphs, progress=False)
    for method in (trained.predict, trained.predict_proba, trained.subgraph):
        with pytest.raises(ValueError, match="graph 1: .*finite.*column 1, row 2"):
            method(graphs[4:6])


@pytest.mark.parametrize("change, text", [
    (dict(x=torch.ones(5, 5)), "3 columns, as in training .*5 columns"), (dict(x=None), "3 columns, as in training .*no x"),
    (dict(x=torch.ones(5, 3, dtype=torch.long)), "floating"), (dict(edge_index=torch.tensor([[0], [5]])), "edge_index between 0 and 4"),
    (dict(edge_index=ring(4).int()), "int64"), (dict(edge_index=None), r"\[2, E\]"),
])
def test_graphs_that_do_not_fit_are_named(change, text, trained):
    graphs = make_graphs(2)
    for name, value in change.items():
        graphs[1][name] = value
    for method in (trained.predict, trained.subgraph):
        with pytest.raises(ValueError, match=f"graph [01]: expected .*{text}"):
            method(graphs[1])


@pytest.mark.parametrize("train, valid", [([], None), ([], []), (make_graphs(4), []), (make_graphs(1), make_graphs(2))])
def test_too_few_graphs(train, valid):
    with pytest.raises(ValueError, match="expected"):
        GIBTrainer(**QUICK).fit(train, valid=valid, progress=False)


def test_predictions_of_nothing(trained):
    for method in (trained.predict, trained.predict_proba, trained.subgraph):
        with pytest.raises(ValueError, match="at least one graph"):
            method([])


def test_degree_features_have_one_width():
    "Fixed from all graphs that training may see, also those of the validation set; the graphs themselves are not changed."
    graphs = make_graphs(d=0)
    hub = Data(edge_index=torch.tensor([[0] * 7, list(range(1, 8))]), y=torch.tensor([1]), num_nodes=8)
    trainer = fitted(graphs[:18], [*graphs[18:], hub])
    assert trainer.form.in_channels == 8 and trainer.form.max_degree == 7
    assert all(graph.x is None for graph in (*graphs, hub))
    assert trainer.form.prepare([graphs[0]])[0].x.tolist() == [[0, 0, 1, 0, 0, 0, 0, 0]] * 4


def test_unseen_degrees_share_the_last_column(featureless):
    star = lambda n: Data(edge_index=torch.tensor([[0] * n, list(range(1, n + 1))]), num_nodes=n + 1)
    top = featureless.form.max_degree
    prepared = featureless.form.prepare([star(top), star(40)])
    assert torch.equal(prepared[0].x[0], prepared[1].x[0]) and prepared[1].x[0, -1] == 1
    assert {graph.x.shape[1] for graph in prepared} == {featureless.form.in_channels}
    assert featureless.predict([star(40)]).shape == (1,)


def test_graphs_without_an_edge():
    "All of them, without features: one column, degree 0."
    graphs = [Data(edge_index=NONE, num_nodes=1 + i % 2, y=torch.tensor([i % 2])) for i in range(12)]
    trainer, _ = caught(fitted, graphs[:9], graphs[9:])
    assert trainer.form.in_channels == 1 and np.isfinite(trainer.predict_proba(graphs)).all()


def test_labels_are_read_graph_by_graph():
    "From a slice of a data set in one block: never from its unsliced store."
    graphs = make_graphs(40, y=lambda v: torch.tensor([float(v)]))
    for i, graph in enumerate(graphs):
        graph.y += 10 * i
    dataset = InMemoryDataset()
    dataset.data, dataset.slices = dataset.collate(graphs)
    part = dataset[[30, 3, 12, 7]]
    expected = [float(graphs[i].y) for i in (30, 3, 12, 7)]
    form = InputFormat.of(list(part))
    assert form.mean == pytest.approx(np.mean(expected)) and form.spread == pytest.approx(np.std(expected))
    assert [float(graph.y) for graph in form.prepare(list(part))] == expected


def test_the_graphs_are_left_alone():
    graphs = make_graphs()
    before = [graph.clone() for graph in graphs]
    trainer = fitted(graphs)
    caught(trainer.subgraph, graphs)
    for graph, old in zip(graphs, before):
        assert sorted(graph.keys()) == sorted(old.keys()) and all(torch.equal(graph[k], old[k]) for k in ("x", "edge_index", "y"))


# --- bi-level hygiene

def test_an_inner_step_changes_only_the_critic():
    run = quick_run()
    rows, batch = next(run.batches())
    run.outer_step(rows, batch, 1.)
    model, critic = {k: v.clone() for k, v in run.model.state_dict().items()}, run.critic.flat.detach().clone()
    pairs, moments = run.bank.pairs.clone(), json.dumps(str(run.optimiser.state_dict()))
    gradients = [p.grad.clone() for p in run.model.parameters()]
    run.inner.run(run.bank)
    assert not torch.equal(run.critic.flat, critic)
    assert all(torch.equal(v, model[k]) for k, v in run.model.state_dict().items()) and torch.equal(run.bank.pairs, pairs)
    assert all(torch.equal(a, p.grad) for a, p in zip(gradients, run.model.parameters()))
    assert json.dumps(str(run.optimiser.state_dict())) == moments


@pytest.mark.parametrize("negatives", ["shift:8", "all", "perm"])
@pytest.mark.parametrize("memory", ["bank", "batch"])
def test_an_outer_step_leaves_the_critic_alone(negatives, memory):
    "With no inner steps the critic keeps its parameters and has no gradient; everything else moves."
    run = quick_run(inner_steps=0, negatives=negatives, memory=memory, beta=1.)
    critic, model = run.critic.flat.detach().clone(), {k: v.clone() for k, v in run.model.named_parameters()}
    losses = run.outer_step(*next(run.batches()), 1.)
    assert torch.equal(run.critic.flat, critic) and run.critic.flat.grad is None and losses["mutual_information"].isfinite()
    for part in ("backbone", "generator", "classifier"):
        assert any(not torch.equal(value, model[name]) for name, value in run.model.named_parameters() if name.startswith(part))


def test_the_bank_holds_each_graph_in_its_row():
    "Whatever the order of the epoch; the next batch leaves it there."
    run = quick_run()
    run.model.train()
    order = list(run.batches())
    with torch.no_grad():
        output = run.model(order[0][1].x, order[0][1].edge_index, order[0][1].batch, order[0][1].num_graphs)
    for rows, batch in order[:2]:
        run.outer_step(rows, batch, 1.)
    assert order[0][0].tolist() != sorted(order[0][0].tolist())
    torch.testing.assert_close(run.bank.pairs[order[0][0]], torch.cat([output.graph_embedding, output.subgraph_embedding], 1))
    assert run.bank.filled.nonzero()[:, 0].tolist() == sorted(torch.cat([order[0][0], order[1][0]]).tolist())


def test_the_loss_is_the_sum_of_its_parts():
    run = quick_run(alpha=.7, beta=.4)
    for factor in (1., .25):
        part = run.outer_step(*next(run.batches()), factor)
        expected = part["classification"] + factor * (.7 * part["connectivity"] + .4 * part["mutual_information"])
        assert part["loss"].item() == pytest.approx(expected.item(), rel=1e-6)


def test_the_estimate_reaches_the_encoder():
    "β changes the outer gradient, for a critic that is the same."
    moved = {}
    for beta in (0., 5.):
        run = quick_run(inner_steps=0, beta=beta)
        run.outer_step(*next(run.batches()), 1.)
        moved[beta] = [p.grad.clone() for p in run.model.generator.parameters()]
    assert any(not torch.equal(a, b) for a, b in zip(moved[0.], moved[5.]))


@pytest.mark.parametrize("settings", [{}, dict(dropout=.3, negatives="perm", reset_critic=True, memory="batch")], ids=["bank", "published"])
def test_two_runs_with_one_seed_are_equal(settings):
    "To the last bit on a CPU, and with the global random states left as they were."
    state, of_numpy = torch.get_rng_state(), np.random.get_state()[1].copy()
    first = fitted(**settings)
    assert torch.equal(torch.get_rng_state(), state) and (np.random.get_state()[1] == of_numpy).all()
    torch.rand(3)
    second, other = fitted(**settings), fitted(seed=1, **settings)
    assert same(first.history, second.history) and same_state(first.model, second.model)
    assert not same_state(first.model, other.model)


def test_beta_zero_is_a_run_without_the_estimator(monkeypatch):
    "Equal, to the last bit, to a loop in which neither critic nor bank exists; the estimator is never called."
    monkeypatch.setattr(room, "frozen_dv", None)
    monkeypatch.setattr(room.InnerLoop, "run", None)
    with_zero, plain = quick_run(beta=0.), quick_run(beta=0.)
    plain.critic = plain.inner = plain.bank = None
    for epoch in range(3):
        train_epoch(with_zero)
        plain.model.train()
        for rows, batch in plain.batches():
            output = plain.model(batch.x, batch.edge_index, batch.batch, batch.num_graphs)
            loss = nn.functional.cross_entropy(output.prediction, batch.y) + ramp_factor(epoch, plain.config) * .3 * output.connectivity_loss
            plain.optimiser.zero_grad()
            loss.backward()
            plain.optimiser.step()
    assert same_state(with_zero.model, plain.model)
    assert all(math.isnan(step["mutual_information"]) for step in with_zero.steps)


def test_no_estimate_in_the_warm_up():
    steps = fitted(warmup=2, ramp=0, epochs=4).history["steps"]
    assert [math.isnan(step["mutual_information"]) for step in steps] == [step["epoch"] < 2 for step in steps]


def test_a_last_batch_of_one_graph():
    "Trains through batch norm; its L_MI, which has no negatives, is skipped and said once."
    graphs = make_graphs(d=0)
    trainer, found = caught(GIBTrainer(**(QUICK | dict(epochs=6))).fit, graphs[:17], valid=graphs[17:], progress=False)
    said = [str(w.message) for w in found if w.category is UserWarning and "single graph" in str(w.message)]
    assert len(said) == 1 and "L_MI is skipped" in said[0]
    last = [step for step in trainer.history["steps"] if step["factor"]][2::3]
    assert all(math.isnan(step["mutual_information"]) and math.isfinite(step["loss"]) for step in last)


def test_a_last_batch_of_one_node():
    graphs, single = make_graphs(16, d=0), [Data(edge_index=NONE, num_nodes=1, y=torch.tensor([i % 2])) for i in range(17)]
    for train in (single, [*graphs, single[0]]):
        trainer, _ = caught(fitted, train, graphs[:4])
        assert np.isfinite(trainer.predict_proba(single)).all()


def test_not_finite_leaves_the_critic_untouched():
    run = quick_run()
    rows, batch = next(run.batches())
    run.outer_step(rows, batch, 1.)
    critic, first = run.critic.flat.detach().clone(), run.inner.first.clone()
    batch.x[1, 1] = math.nan
    with pytest.raises((ValueError, FloatingPointError)):
        run.outer_step(rows, batch, 1.)
    assert torch.equal(run.critic.flat, critic) and torch.equal(run.inner.first, first) and run.bank.pairs.isfinite().all()


@pytest.mark.parametrize("settings", [{}, dict(norm=None), dict(beta=0.), dict(alpha=0., beta=0.)], ids=str)
def test_a_loss_that_explodes_is_named(settings):
    "With what to do about it; never a trained model of NaN."
    with pytest.raises(FloatingPointError, match="epoch .*learning_rate"):
        fitted(**({"learning_rate": 1e30} | settings))


def test_identical_embeddings_are_noticed_in_training():
    "A backbone that gives every graph the same embedding makes L_MI 0 by construction; published code trained so, silently."
    class Blind(nn.Module):
        out_channels = 4

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.arange(4.))

        def forward(self, x, edge_index):
            return self.weight.expand(len(x), 4)

    _, found = caught(fitted, backbone=lambda channels: Blind())
    assert any("identical" in str(w.message) for w in found)
    _, found = caught(fitted)
    assert not found


def test_two_equal_graphs_in_a_last_batch_are_no_alarm():
    "The rest of the training set still tells graph and subgraph apart."
    graphs = [graph for graph in make_graphs(40) if graph.num_nodes > 4]
    run = quick_run(graphs, beta=1.)
    run.outer_step(*next(run.batches()), 1.)
    pair = Batch.from_data_list([run.train[0], run.train[0]])
    _, found = caught(run.outer_step, torch.tensor([0, 1]), pair, 1.)
    assert not [w for w in found if "identical" in str(w.message)]


def test_shrinking_the_subgraph_is_no_way_out():
    "L_MI does not depend on the scale of the embeddings of a batch, and has no gradient along it."
    run = quick_run(make_graphs(40), batch_size=18, inner_steps=10, beta=1.)
    rows, batch = next(run.batches())
    run.outer_step(rows, batch, 1.)
    output, values = run.model(batch.x, batch.edge_index, batch.batch, batch.num_graphs), []
    run.inner.steps = 0
    for scale in (1., 1e-2, 1e-4, 1e3):
        s = (output.subgraph_embedding.detach() * scale).requires_grad_()
        value = run.estimate(dataclasses.replace(output, subgraph_embedding=s))
        values.append(value.item())
        along = (torch.autograd.grad(value, s)[0] * s.detach()).sum()
        assert abs(along) < 1e-3
    assert values == pytest.approx([values[0]] * 4, abs=1e-2) and abs(values[0]) > 1e-3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_critic_moves_too(tmp_path):
    "Model, critic, moments and bank are all on the device; what comes back is on the CPU."
    run = quick_run(device="cuda")
    run.outer_step(*next(run.batches()), 1.)
    assert {t.device.type for t in (run.critic.flat, run.inner.first, run.bank.pairs, *run.model.parameters())} == {"cuda"}
    trainer = fitted(device="cuda", checkpoint=tmp_path / "run")
    trainer.save(tmp_path / "model")
    explanation = trainer.subgraph(make_graphs()[0])
    assert {t.device.type for t in (explanation.x, explanation.node_mask, explanation.edge_mask, explanation.edge_index)} == {"cpu"}
    loaded = GIBTrainer.load(tmp_path / "model", device="cpu")
    np.testing.assert_allclose(loaded.predict_proba(make_graphs()), trainer.predict_proba(make_graphs()), atol=1e-4)


# --- which epoch, and when to stop

def test_history():
    "Every step leaves its losses, the estimate and the share kept; every epoch its validation."
    history = fitted().history
    assert len(history["steps"]) == 4 * 3 and [epoch["epoch"] for epoch in history["epochs"]] == [0, 1, 2, 3]
    assert set(history["steps"][0]) == {"loss", "classification", "connectivity", "mutual_information", "kept", "epoch", "factor"}
    assert [step["factor"] for step in history["steps"][::3]] == [0, .5, 1, 1]


def test_only_epochs_after_the_ramp_are_chosen():
    "And of those the one with the least validation loss, whose weights come back."
    trainer = fitted(epochs=8, learning_rate=.05)
    losses = [epoch["loss"] for epoch in trainer.history["epochs"]]
    best = trainer.history["best_epoch"]
    assert best >= 2 and losses[best] == min(losses[2:])
    graphs = make_graphs()[18:]
    again = evaluate(trainer.model, trainer.form, trainer.form.prepare(graphs), trainer.config)
    assert same(again, {k: v for k, v in trainer.history["epochs"][best].items() if k != "epoch"})


def test_patience(monkeypatch):
    "With no better loss for so many epochs training stops; losses before the end of the ramp, of another kind, do not count."
    losses = iter([.1, .2, 1., .5, .6, .7, .4, .8, .9, 1., 1.])
    monkeypatch.setattr(room, "evaluate", lambda *arguments: {"loss": next(losses), "score": 0., "kept": 0.})
    history = fitted(epochs=11, patience=3).history
    assert history["best_epoch"] == 6 and len(history["epochs"]) == 10
    losses = iter([.1, .2, 7., .5, .6, .7, .4])
    monkeypatch.setattr(room, "evaluate", lambda *arguments: {"loss": next(losses), "score": 0., "kept": 0.})
    assert len(fitted(epochs=11, patience=2).history["epochs"]) == 6


def test_a_callback_sees_each_step_and_may_stop():
    seen = []
    trainer = fitted(callback=lambda record: seen.append(record) or len(seen) == 8)
    assert len(seen) == 8 and len(trainer.history["steps"]) == 8
    assert all(isinstance(value, float) for name, value in seen[0].items() if name != "epoch") and [r["epoch"] for r in seen[::3]] == [0, 1, 2]


def test_a_stop_is_not_followed_by_a_restart():
    "Also when what was trained so far has collapsed."
    seen = []
    trainer = fitted(threshold=0., restarts=2, callback=lambda record: seen.append(1) or len(seen) == 11)
    assert len(trainer.history["attempts"]) == 1 and len(seen) == 11


def test_evaluation_does_not_depend_on_the_batches(trained):
    "Also where some graphs have no edge, and no L_con."
    graphs = make_graphs(7) + [Data(x=torch.ones(2, 3), edge_index=NONE, y=torch.tensor([i % 2])) for i in range(5)]
    prepared, found = trained.form.prepare(graphs), []
    for size in (2, 5, 12):
        found.append(evaluate(trained.model, trained.form, prepared, dataclasses.replace(trained.config, batch_size=size)))
    for name in found[0]:
        assert found[0][name] == pytest.approx(found[2][name], abs=1e-5) and found[1][name] == pytest.approx(found[2][name], abs=1e-5), name


# --- collapse

@pytest.mark.parametrize("keeps, text", [("motif", None), ("softly", None), ("all", "all nodes kept"), ("none", "no node kept"),
                                         ("complement", "complement kept")])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_collapse_is_found(keeps, text, task):
    "All in, none in, or the complement chosen, on models that are built to do so."
    trainer, graphs = constructed(keeps, task), marked_graphs(40, task)
    for graph in graphs:
        graph.x[:, 2] = 0
    found = find_collapse(trainer.model, trainer.form, trainer.form.prepare(graphs), trainer.config)
    assert found is None if text is None else text in found


def test_a_label_in_both_sides_together_is_no_collapse():
    "Neither the subgraph nor what is left out knows the label alone: the complement is not to blame."
    trainer, graphs = constructed("motif"), marked_graphs(40)
    for i, graph in enumerate(graphs):
        secret = 20 * torch.randn(1, generator=seeded(i + 100))
        graph.x[:, 1:] = 0
        graph.x[:3, 1], graph.x[3:, 1] = secret + float(graph.y), -secret
    assert find_collapse(trainer.model, trainer.form, trainer.form.prepare(graphs), trainer.config) is None


def test_few_graphs_have_no_probe():
    trainer = constructed("complement")
    assert find_collapse(trainer.model, trainer.form, trainer.form.prepare(marked_graphs(4)), trainer.config) is None
    trainer = constructed("all")
    assert "all nodes" in find_collapse(trainer.model, trainer.form, trainer.form.prepare(marked_graphs(4)), trainer.config)


def test_a_collapse_is_never_returned_in_silence():
    "After all restarts: a warning, an attribute, and a record of every attempt."
    with pytest.warns(CollapseWarning, match="all nodes kept .*best of 3 attempts"):
        trainer = GIBTrainer(**(QUICK | dict(threshold=0., restarts=2))).fit(make_graphs(), progress=False)
    attempts = trainer.history["attempts"]
    assert "all nodes kept" in trainer.collapse and len(attempts) == 3 and len({a["seed"] for a in attempts}) == 3
    assert all("all nodes kept" in a["collapse"] for a in attempts)
    best = min(attempts, key=lambda a: a["loss"])
    assert min(e["loss"] for e in trainer.history["epochs"][2:]) == best["loss"]


def test_no_node_kept_is_a_collapse():
    assert "no node kept" in fitted(threshold=.999).collapse


def test_restarts_are_used_until_one_does_not_collapse(monkeypatch):
    "The attempt that did not collapse is taken, though another had a smaller loss."
    answers, losses = iter(["broken", None]), iter([1.] * 4 + [2.] * 4)
    monkeypatch.setattr(room, "find_collapse", lambda *arguments: next(answers))
    monkeypatch.setattr(room, "evaluate", lambda *arguments: {"loss": next(losses), "score": 0., "kept": 0.})
    trainer, found = caught(GIBTrainer(**(QUICK | dict(restarts=2))).fit, make_graphs()[:18], valid=make_graphs()[18:], progress=False)
    assert [(a["collapse"], a["loss"]) for a in trainer.history["attempts"]] == [("broken", 1.), (None, 2.)] and trainer.collapse is None
    assert not [w for w in found if w.category is CollapseWarning]
    assert trainer.history["epochs"][0]["loss"] == 2.


def test_restarts_can_be_switched_off():
    assert len(fitted(threshold=0., restarts=0).history["attempts"]) == 1


def test_without_its_two_terms_nothing_is_judged():
    assert fitted(alpha=0., beta=0., threshold=0., restarts=2).collapse is None


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
    together, masks = trained.predict_proba(graphs), caught(trained.subgraph, graphs)[0]
    assert together.shape == (len(graphs), 2) and np.isfinite(together).all() and len(masks) == len(graphs)
    for graph, row, explanation in zip(graphs, together, masks):
        np.testing.assert_allclose(row, trained.predict_proba(graph)[0], atol=1e-6)
        alone = caught(trained.subgraph, graph)[0]
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
        assert np.isfinite(trainer.predict_proba(odd)).all() and len(caught(trainer.subgraph, odd)[0]) == 4


def test_a_batch_equals_its_graphs(trained):
    "Predictions and masks of many graphs, over several batches, equal those of one graph after the other."
    graphs = make_graphs(21)
    together, masks = trained.predict_proba(graphs), caught(trained.subgraph, graphs)[0]
    for graph, row, explanation in zip(graphs, together, masks):
        alone = caught(trained.subgraph, graph)[0]
        np.testing.assert_allclose(row, trained.predict_proba(graph)[0], atol=1e-6)
        torch.testing.assert_close(explanation.node_mask, alone.node_mask, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(explanation.prediction, alone.prediction, rtol=1e-5, atol=1e-5)


def test_order_of_nodes_and_edges_does_not_matter(trained):
    graph = make_graphs(12)[11]
    n, generator = graph.num_nodes, seeded(1)
    shuffle, columns = torch.randperm(n, generator=generator), torch.randperm(graph.num_edges, generator=generator)
    moved = Data(x=graph.x[shuffle], edge_index=shuffle.argsort()[graph.edge_index][:, columns])
    before, after = (caught(trained.subgraph, g)[0] for g in (graph, moved))
    np.testing.assert_allclose(trained.predict_proba(moved), trained.predict_proba(graph), atol=1e-6)
    torch.testing.assert_close(after.node_mask, before.node_mask[shuffle], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(after.edge_mask, before.edge_mask[columns], rtol=1e-5, atol=1e-6)


def test_the_mask_of_an_edge_has_no_direction(trained):
    "(u, v) and (v, u) have one mask, the product of the two ends'."
    for graph, explanation in zip(make_graphs(), caught(trained.subgraph, make_graphs())[0]):
        mask = {(u, v): m for (u, v), m in zip(graph.edge_index.T.tolist(), explanation.edge_mask.tolist())}
        p = explanation.node_mask[:, 0].tolist()
        assert all(m == mask[v, u] and m == pytest.approx(p[u] * p[v], rel=1e-6) for (u, v), m in mask.items())


def cut_at(explanation):
    "The threshold in the record, read as a field; `threshold` itself is a method of PyG's explanations."
    name, = (key for key in explanation.keys() if "threshold" in key)
    return getattr(explanation, name)


def test_a_cut_stands_beside_the_soft_mask():
    "Soft masks cut nothing: the selected nodes, their pieces and the threshold are in the record."
    trainer = constructed("softly")
    explanation, found = caught(trainer.subgraph, marked_graphs(1)[0])
    assert explanation.node_mask[:, 0].tolist() == pytest.approx([.8, .8, .8, .2, .2, .2])
    assert explanation.selected.tolist() == [True] * 3 + [False] * 3 and explanation.components == 1 and not found
    assert cut_at(explanation) == .5
    strict, _ = caught(constructed("softly", threshold=.9).subgraph, marked_graphs(1)[0])
    assert not strict.selected.any() and cut_at(strict) == .9 and strict.components == 0


def test_explanations_are_those_of_pyg(trained):
    graph = make_graphs(1)[0]
    explanation, _ = caught(trained.subgraph, graph)
    assert explanation.validate() and torch.equal(explanation.x, graph.x)
    assert explanation.get_explanation_subgraph().num_nodes == graph.num_nodes
    assert explanation.threshold("hard", .5).node_mask[:, 0].bool().tolist() == explanation.selected.tolist()
    assert explanation.prediction.shape == (1, 2) and not explanation.node_mask.requires_grad


def test_one_graph_or_many(trained, featureless):
    graphs = make_graphs(3)
    assert trained.predict(graphs[0]).shape == (1,) and trained.predict(graphs).shape == (3,)
    assert isinstance(caught(trained.subgraph, graphs[:1])[0], list) and trained.predict(iter(graphs)).shape == (3,)
    assert caught(featureless.subgraph, make_graphs(1, d=0)[0])[0].edge_mask.shape == (8,)


@pytest.mark.parametrize("keeps", ["undecided", "none", "all", "by label"])
def test_an_undecided_assignment_is_said(keeps):
    "At the cut: all nodes of every graph are in, or none, so that the threshold decides nothing within a graph."
    trainer = constructed(keeps)
    for graphs in (marked_graphs(1)[0], marked_graphs(6)):
        with pytest.warns(CollapseWarning, match="threshold 0.5 .*all.*none"):
            trainer.subgraph(graphs)


def test_a_decided_assignment_is_quiet():
    _, found = caught(constructed("motif").subgraph, marked_graphs(6))
    assert not found


def test_probabilities_and_classes(trained):
    p = trained.predict_proba(make_graphs())
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-6)
    assert (trained.predict(make_graphs()) == p.argmax(1)).all()
    assert trained.score(make_graphs()) == np.mean(p.argmax(1) == np.arange(24) % 2)
    assert trained.score(make_graphs()[::2]) == np.mean(p[::2].argmax(1) == 0)


@pytest.mark.parametrize("y", [None, torch.tensor([1, 2, 3]), 3], ids=str)
def test_labels_do_not_matter_to_predictions(y, trained):
    "Graphs without a label, with one of another shape, and labelled ones beside them."
    graphs = make_graphs(4)
    expected = trained.predict_proba(graphs)
    for graph in graphs[2:]:
        graph.y = y
    assert np.array_equal(trained.predict_proba(graphs), expected)
    assert np.array_equal(trained.predict_proba(graphs[::-1]), expected[::-1])
    assert len(caught(trained.subgraph, graphs)[0]) == 4


def test_a_score_needs_labels(trained):
    graphs = make_graphs(4)
    graphs[2].y = None
    with pytest.raises(ValueError, match="graph 2: expected .*y"):
        trained.score(graphs)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "subgraph", "score", "mutual_information"])
def test_an_untrained_explainer_refuses(method):
    with pytest.raises(NotFittedError, match="call fit or load"):
        getattr(GIBTrainer(), method)(make_graphs(2))


def test_an_untrained_model_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        GIBTrainer().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_information_of_the_subgraphs(trained):
    "An estimate with its record; identical subgraphs, as when no node is kept, are named."
    estimate, _ = caught(trained.mutual_information, make_graphs(60), hidden=8, steps=20)
    assert estimate.log_n == pytest.approx(math.log(12)) and math.isfinite(estimate.value)
    with pytest.warns(EstimateWarning, match="y is identical in all 20 pairs"):
        empty = constructed("none").mutual_information(marked_graphs(20), hidden=8, steps=20)
    assert empty.value <= 1e-6


# --- regression

def test_regression_is_in_the_units_of_y(regressor):
    graphs = make_graphs(48, y=real)
    y, predicted = np.array([float(g.y) for g in graphs]), regressor.predict(graphs)
    assert regressor.form.task == "regression" and regressor.form.mean == pytest.approx(105, abs=.5)
    assert predicted.dtype == np.float64 and abs(predicted.mean() - y.mean()) < 3
    assert regressor.score(graphs) == pytest.approx(1 - ((y - predicted) ** 2).sum() / ((y - y.mean()) ** 2).sum()) and regressor.score(graphs) > .5
    assert regressor.history["epochs"][-1]["score"] < 1


def test_regression_has_no_classes(regressor):
    with pytest.raises(ValueError, match="classification .*regression"):
        regressor.predict_proba(make_graphs(2))
    assert len(caught(regressor.subgraph, make_graphs(2))[0]) == 2


def test_a_target_far_from_zero():
    "Seconds since 1970 in double precision: nothing is rounded away on the way to the loss."
    form = InputFormat("regression", 1, 3, None, 1e9, 2.)
    y = torch.tensor([1e9 + 2, 1e9 - 4], dtype=torch.double)
    assert form.loss(torch.tensor([[1.], [-2.]]), y) == 0 and form.score(torch.tensor([[1.], [-2.]]), y) == 1


def test_a_target_that_never_varies_is_refused():
    with pytest.raises(ValueError, match="expected a y that varies, for regression .got 0.1 in all"):
        fitted(make_graphs(y=lambda v: torch.tensor([.1])))


# --- as in scikit-learn

def test_parameters_by_name():
    trainer = GIBTrainer(GIBConfig(beta=.5), backbone="gcn", epochs=40)
    parameters = trainer.get_params()
    assert set(parameters) == {field.name for field in dataclasses.fields(GIBConfig)} | {"explained"}
    assert (parameters["beta"], parameters["backbone"], parameters["epochs"]) == (.5, "gcn", 40)
    assert GIBTrainer(**parameters).config == trainer.config


def test_settings_can_be_changed(trained):
    trainer = fitted()
    assert trainer.set_params(beta=.7, backbone="gat") is trainer
    assert trainer.config == dataclasses.replace(trained.config, beta=.7, backbone="gat")
    with pytest.raises(NotFittedError):
        trainer.predict(make_graphs())
    for wrong, error in ((dict(beta=-1), ValueError), (dict(gamma=1), (TypeError, ValueError))):
        with pytest.raises(error):
            trainer.set_params(**wrong)
    assert trainer.config.beta == .7


@pytest.mark.parametrize("backbone", ["gcn", Features])
def test_clone(backbone):
    trainer = GIBTrainer(beta=.3, backbone=backbone)
    trainer.model = nn.Identity()
    copy = clone(trainer)
    assert copy is not trainer and copy.model is None and copy.get_params() == trainer.get_params()


def test_a_trainer_can_be_printed(trained):
    assert "not fitted" in repr(GIBTrainer()) and "beta=0.1" in repr(GIBTrainer()) and "classification" in repr(trained)


def test_unknown_settings():
    with pytest.raises(TypeError, match="gamma"):
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
    trainer = fitted(backbone=Convolution)
    assert trainer.config.backbone == "custom" and trainer.get_params()["backbone"] is Convolution and trainer.model.channels == 6
    trainer.save(tmp_path)
    loaded = GIBTrainer.load(tmp_path, backbone=Convolution)
    assert np.array_equal(loaded.predict_proba(make_graphs()), trainer.predict_proba(make_graphs()))
    with pytest.raises(ValueError, match="custom"):
        GIBTrainer.load(tmp_path)
    with pytest.raises(ValueError):
        GIBTrainer.load(tmp_path, backbone=Features)
    with pytest.raises(ValueError, match="custom"):
        GIBTrainer(GIBConfig(**(QUICK | dict(backbone="custom")))).fit(make_graphs(), progress=False)
    with pytest.raises(TypeError, match=r"function in_channels → module.*got the module GCNConv itself"):
        GIBTrainer(backbone=GCNConv(3, 6))
    trainer.set_params(beta=.2)
    assert trainer.config.backbone == "custom" and trainer.set_params(backbone="gin").config.backbone == "gin"


@pytest.mark.parametrize("settings", [dict(backbone=name) for name in ("gcn", "graphsage", "gin", "gat")]
                         + [dict(norm="layer_norm"), dict(norm=None, readout="sum", num_layers=1), dict(negatives="all"), dict(memory="batch")], ids=str)
def test_every_setting_trains(settings):
    trainer = fitted(**settings)
    assert np.isfinite(trainer.predict_proba(make_graphs())).all()
    assert all(math.isfinite(step["mutual_information"]) for step in trainer.history["steps"] if step["factor"])


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
    assert loaded.config == trained.config and same(loaded.history, trained.history) and loaded.collapse == trained.collapse
    assert same_state(loaded.model, trained.model) and not loaded.model.training
    for trainer, graphs in ((featureless, make_graphs(d=0)), (regressor, make_graphs(y=real))):
        trainer.save(tmp_path / "other")
        again = GIBTrainer.load(tmp_path / "other")
        assert again.form == trainer.form and np.array_equal(again.predict(graphs), trainer.predict(graphs))
        assert again.score(graphs) == trainer.score(graphs)


def test_the_same_subgraph_in_another_process(folder, trained):
    "Saved here, loaded in a process with another hash seed: every number of the subgraph is the same."
    graph = make_graphs()[5]
    torch.save({"x": graph.x, "edge_index": graph.edge_index}, folder.parent / "graph.pt")
    program = f"""
import json, torch, warnings
from torch_geometric.data import Data
from gib_nb.trainer import GIBTrainer
torch.set_num_threads({torch.get_num_threads()})
warnings.simplefilter("ignore")
e = GIBTrainer.load({str(folder)!r}).subgraph(Data(**torch.load({str(folder.parent / "graph.pt")!r})))
print(json.dumps([e.node_mask.tolist(), e.edge_mask.tolist(), e.prediction.tolist(), e.selected.tolist()]))
"""
    seed = "7" if os.environ.get("PYTHONHASHSEED") != "7" else "8"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | {"PYTHONHASHSEED": seed},
                          cwd=pathlib.Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr
    e, _ = caught(trained.subgraph, graph)
    assert json.loads(done.stdout.splitlines()[-1]) == [e.node_mask.tolist(), e.edge_mask.tolist(), e.prediction.tolist(), e.selected.tolist()]


def test_the_history_is_strict_json(tmp_path):
    "What was not measured in the warm-up is null in the file and NaN again when it is read."
    trainer = fitted(warmup=1)
    trainer.save(tmp_path)
    written = json.loads((tmp_path / "history.json").read_text(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert written["steps"][0]["mutual_information"] is None and math.isnan(trainer.history["steps"][0]["mutual_information"])
    np.testing.assert_equal(GIBTrainer.load(tmp_path).history, trainer.history)


def test_tensors_and_text_only(folder, monkeypatch, tmp_path):
    "No pickle in what is written, and none is used to read it."
    checkpoint = tmp_path / "run"
    fitted(checkpoint=checkpoint)
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "history.json", "model.safetensors"]
    for path in (folder / "model.safetensors", checkpoint):
        content = path.read_bytes()
        json.loads(content[8:8 + int.from_bytes(content[:8], "little")])
    for path in (folder / "config.json", folder / "history.json"):
        json.loads(path.read_text())

    def refuse(*arguments, **options):
        raise AssertionError("pickle was used")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)
    GIBTrainer.load(folder)
    fitted(checkpoint=checkpoint)


def foreign_files(good):
    "Contents that are not what they should be, by name."
    stream, tensors, record = io.BytesIO(), *unpack(good)
    torch.save({"weights": torch.ones(3)}, stream)
    content = good.read_bytes()
    return {"empty": b"", "text": b"not a checkpoint", "pickle": pickle.dumps({"config": 1}), "torch": stream.getvalue(),
            "half": content[:len(content) // 2], "header only": content[:200], "all but a byte": content[:-1],
            "a byte more": content + b"0", "no record": __import__("safetensors.torch").torch.save(tensors),
            "a record of another kind": pack(tensors, [1, 2]), "a record without fields": pack(tensors, {"config": {}})}


FOREIGN = ["empty", "text", "pickle", "torch", "half", "header only", "all but a byte", "a byte more", "no record", "a record of another kind",
           "a record without fields"]


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_model_is_refused(kind, folder):
    "A truncated file, another program's, or one of ours that is something else: ValueError with the path."
    (folder / "model.safetensors").write_bytes(foreign_files(folder / "model.safetensors")[kind])
    with pytest.raises(ValueError, match="expected .*model.safetensors"):
        GIBTrainer.load(folder)


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_checkpoint_is_refused(kind, tmp_path):
    "And left where it is."
    good, file = tmp_path / "good", tmp_path / "run"
    fitted(checkpoint=good)
    file.write_bytes(content := foreign_files(good)[kind])
    with pytest.raises(ValueError, match="expected .*checkpoint"):
        fitted(checkpoint=file)
    assert file.read_bytes() == content


def test_a_model_of_another_make_is_refused(folder, tmp_path):
    "A checkpoint of a run in the model's place; a setting that we do not know; weights of another shape, or too few."
    fitted(checkpoint=tmp_path / "run")
    file = folder / "model.safetensors"
    tensors, record = unpack(file)
    wide = dict(record, config=record["config"] | {"hidden_channels": 9})
    for content in ((tmp_path / "run").read_bytes(), pack(tensors, dict(record, config=record["config"] | {"gamma": 1})), pack(tensors, wide),
                    pack(dict(list(tensors.items())[1:]), record), pack(tensors, dict(record, form={"task": "classification"}))):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="expected"):
            GIBTrainer.load(folder)


def test_no_model_in_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="GIBTrainer.save"):
        GIBTrainer.load(tmp_path)


@pytest.mark.parametrize("failure", [OSError, KeyboardInterrupt])
def test_a_write_is_whole_or_not_at_all(failure, tmp_path, monkeypatch):
    "A process that dies while it writes leaves the old file, and no other."
    path = tmp_path / "deep" / "file"
    write_atomically(path, b"old")

    def fail(*arguments):
        raise failure

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(failure):
        write_atomically(path, b"new and longer")
    assert path.read_bytes() == b"old" and list(path.parent.iterdir()) == [path]


# --- interrupted and resumed

class Interrupt(Exception):
    pass


def interrupted(at, checkpoint, **settings):
    "A fit that is cut off after each of the given numbers of steps, counted from its start, and then runs to the end."
    for stop in at:
        seen = []

        def callback(record):
            seen.append(1)
            if len(seen) == stop:
                raise Interrupt

        with pytest.raises(Interrupt):
            fitted(checkpoint=checkpoint, callback=callback, **settings)
    return fitted(checkpoint=checkpoint, **settings)


SCHEMES = {"bank": dict(threshold=0., restarts=1), "published": dict(threshold=0., restarts=1, dropout=.3, negatives="perm", reset_critic=True, memory="batch")}


@pytest.fixture(scope="module")
def undisturbed():
    "Two attempts of 4 epochs with 3 steps each, since the first collapses."
    return {name: fitted(**settings) for name, settings in SCHEMES.items()}


@pytest.mark.parametrize("scheme, at", [("bank", at) for at in ([1], [4], [12], [13], [17], [24], [5, 2, 8, 9])]
                         + [("published", at) for at in ([4], [17], [5, 2, 8, 9])], ids=str)
def test_a_run_resumes_to_the_same_bits(scheme, at, undisturbed, tmp_path):
    "Cut off in the first step, in an epoch, in the last step of an attempt, in its restart, and several times."
    whole, pieces = undisturbed[scheme], interrupted(at, tmp_path / "run", **SCHEMES[scheme])
    assert len(whole.history["attempts"]) == 2
    assert same(pieces.history, whole.history) and same_state(pieces.model, whole.model) and pieces.collapse == whole.collapse
    assert np.array_equal(pieces.predict_proba(make_graphs()), whole.predict_proba(make_graphs()))


def test_a_finished_run_is_not_trained_again(tmp_path):
    def refuse(record):
        raise AssertionError("trained again")

    first = fitted(checkpoint=tmp_path / "run")
    second = fitted(checkpoint=tmp_path / "run", callback=refuse)
    assert same(first.history, second.history) and same_state(first.model, second.model)


def test_a_checkpoint_changes_nothing(tmp_path, trained):
    assert same(fitted(checkpoint=tmp_path / "run").history, trained.history)


def test_a_checkpoint_belongs_to_its_config_and_graphs(tmp_path):
    "Other settings, another feature, another label, and the same graphs split at another place are refused."
    file, graphs = tmp_path / "run", make_graphs()
    fitted(checkpoint=file)
    feature, label = make_graphs(), make_graphs()
    feature[3].x[0, 0] += 1e-3
    label[3].y = 1 - label[3].y
    for other, settings in ((graphs, dict(beta=.2)), (graphs, dict(seed=1)), (feature, {}), (label, {}), (graphs[::-1], {})):
        with pytest.raises(ValueError, match="this config and these graphs"):
            fitted(other, checkpoint=file, **settings)
    with pytest.raises(ValueError, match="this config and these graphs"):
        fitted(graphs[:17], graphs[17:], checkpoint=file)


# --- reading a run

def test_figure_of_a_history(trained, tmp_path):
    figure = history_figure(trained.history)
    assert len(figure.data) == 6 and all(len(curve.x) == 4 for curve in figure.data)
    assert figure.layout.width <= 640 and figure.layout.height <= 380
    assert figure.data[1].y == tuple(epoch["classification"] for epoch in trained.history["epochs"])
    trained.save(tmp_path)
    assert history_figure(GIBTrainer.load(tmp_path).history).to_json() == figure.to_json()


def test_a_motif_is_learnt():
    "A small motif set: better than chance, and the first half of training is not the end of it."
    motifs = motif_dataset(80, base_nodes=6, seed=0)
    trainer = fitted(motifs.train, motifs.valid, epochs=25, warmup=10, ramp=5, hidden_channels=16, learning_rate=1e-2, batch_size=32)
    assert trainer.score(motifs.train) > .8
