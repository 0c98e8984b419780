"What each phase trains, on which losses; the critic beside it; and every combination of parts."

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GIN, global_mean_pool

from gib_nb.experiments.explainers import symmetrize
from gib_nb.information.critic import InnerLoop
from gib_nb.train import phases as room
from gib_nb.train.callbacks import History
from gib_nb.train.config import GIBConfig
from gib_nb.train.loop import train_epoch
from gib_nb.train.parts import (
    Bottleneck,
    Critic,
    EdgeMask,
    Encoder,
    Finetune,
    Frozen,
    NodeMask,
    Optim,
    Pooled,
    Pretrain,
    Prior,
    Reencode,
)
from gib_nb.train.phases import information_term, make_model, objective
from gib_nb.train.trainer import GIBTrainer
from gib_nb.utils.reproducible import LocalRandomness
from tests.training import (
    NONE,
    QUICK,
    TWO_STAGE,
    caught,
    fitted,
    in_bottleneck,
    make_graphs,
    outer_step,
    quick_state,
    same,
    same_state,
)

pytestmark = pytest.mark.filterwarnings("ignore::gib_nb.train.collapse.CollapseWarning")


def test_an_inner_step_changes_only_the_critic():
    state = in_bottleneck(quick_state())
    rows, batch = next(state.batches())
    outer_step(state, rows, batch)
    term = state.information
    model, critic = (
        {k: v.clone() for k, v in state.model.state_dict().items()},
        term.critic.flat_weights.detach().clone(),
    )
    pairs, moments = term.bank.pairs.clone(), json.dumps(str(state.optimizer.state_dict()))
    gradients = [p.grad.clone() for p in state.model.parameters()]
    term.inner.run(term.bank)
    assert not torch.equal(term.critic.flat_weights, critic)
    assert all(torch.equal(v, model[k]) for k, v in state.model.state_dict().items()) and torch.equal(
        term.bank.pairs, pairs
    )
    assert all(torch.equal(a, p.grad) for a, p in zip(gradients, state.model.parameters()))
    assert json.dumps(str(state.optimizer.state_dict())) == moments


@pytest.mark.parametrize("negatives", ["shift:8", "all", "permute"])
@pytest.mark.parametrize("memory_bank", [True, False])
def test_an_outer_step_leaves_the_critic_alone(negatives, memory_bank):
    "With no inner steps the critic keeps its parameters and has no gradient; everything else moves."
    state = in_bottleneck(quick_state(num_steps=0, negatives=negatives, memory_bank=memory_bank, beta=1.0))
    critic, model = (
        state.information.critic.flat_weights.detach().clone(),
        {k: v.clone() for k, v in state.model.named_parameters()},
    )
    losses = outer_step(state, *next(state.batches()))
    assert (
        torch.equal(state.information.critic.flat_weights, critic)
        and state.information.critic.flat_weights.grad is None
        and losses["mutual_information"].isfinite()
    )
    for part in ("backbone", "generator", "classifier"):
        assert any(
            not torch.equal(value, model[name])
            for name, value in state.model.named_parameters()
            if name.startswith(part)
        )


@pytest.mark.parametrize("phase_index", [0, 1], ids=["pretraining", "bottleneck"])
def test_the_bank_holds_each_graph_in_its_row(phase_index):
    "Whatever the order of the epoch; the next batch leaves it there. It is filled before an estimate is asked for."
    state = quick_state()
    state.phase_index = phase_index
    state.model.train()
    order = list(state.batches())
    with torch.no_grad():
        output = state.model(order[0][1].x, order[0][1].edge_index, order[0][1].batch, order[0][1].num_graphs)
    for rows, batch in order[:2]:
        outer_step(state, rows, batch)
    bank = state.information.bank
    assert order[0][0].tolist() != sorted(order[0][0].tolist())
    torch.testing.assert_close(
        bank.pairs[order[0][0]], torch.cat([output.graph_embedding, output.subgraph_embedding], 1)
    )
    assert bank.filled.nonzero()[:, 0].tolist() == sorted(torch.cat([order[0][0], order[1][0]]).tolist())


def test_the_loss_is_the_sum_of_its_parts():
    state = quick_state(alpha=0.7, beta=0.4, rampup_epochs=3, epochs=8)
    for epoch, weight in ((3, 1), (0, 0.25)):
        part = outer_step(in_bottleneck(state, epoch), *next(state.batches()))
        expected = part["classification"] + weight * (0.7 * part["connectivity"] + 0.4 * part["mutual_information"])
        assert state.loss_weight == weight and part["loss"].item() == pytest.approx(expected.item(), rel=1e-6)


def test_the_estimate_reaches_the_encoder():
    "β changes the outer gradient, for a critic that is the same."
    moved = {}
    for beta in (0.0, 5.0):
        state = in_bottleneck(quick_state(num_steps=0, beta=beta))
        outer_step(state, *next(state.batches()))
        moved[beta] = [p.grad.clone() for p in state.model.generator.parameters()]
    assert any(not torch.equal(a, b) for a, b in zip(moved[0.0], moved[5.0]))


@pytest.mark.parametrize(
    "settings",
    [{}, dict(dropout=0.3, negatives="permute", reinit_critic=True, memory_bank=False)],
    ids=["bank", "published"],
)
def test_two_runs_with_one_seed_are_equal(settings):
    "To the last bit on a CPU, and with the global random states left as they were."
    before, of_numpy = torch.get_rng_state(), np.random.get_state()[1].copy()
    first = fitted(**settings)
    assert torch.equal(torch.get_rng_state(), before) and (np.random.get_state()[1] == of_numpy).all()
    torch.rand(3)
    second, other = fitted(**settings), fitted(seed=1, **settings)
    assert same(first.history, second.history) and same_state(first.model, second.model)
    assert not same_state(first.model, other.model)


def test_beta_zero_is_a_run_without_the_estimator(monkeypatch):
    "Equal, to the last bit, to a loop in which neither critic nor bank exists; the estimator is never called."
    monkeypatch.setattr(room, "frozen_dv", None)
    monkeypatch.setattr(InnerLoop, "run", None)
    with_zero, plain, history = quick_state(beta=0.0), quick_state(beta=0.0), History()
    plain.information = None
    for weight in (0.0, 0.5, 1.0):
        train_epoch(with_zero, [history])
        plain.model.train()
        for rows, batch in plain.batches():
            output = plain.model(batch.x, batch.edge_index, batch.batch, batch.num_graphs)
            loss = nn.functional.cross_entropy(output.prediction, batch.y) + weight * 0.3 * output.connectivity_loss
            plain.optimizer.zero_grad()
            loss.backward()
            plain.optimizer.step()
    assert same_state(with_zero.model, plain.model)
    assert all(math.isnan(step["mutual_information"]) for step in history.steps)


def test_no_estimate_in_pretraining():
    steps = fitted(pretrain_epochs=2, rampup_epochs=0, epochs=4).history["steps"]
    assert [math.isnan(step["mutual_information"]) for step in steps] == [step["epoch"] < 2 for step in steps]


def test_a_last_batch_of_one_graph():
    "Trains through batch norm; its L_MI, which has no negatives, is skipped and said once."
    graphs = make_graphs(d=0)
    trainer, found = caught(GIBTrainer(**(QUICK | dict(epochs=6))).fit, graphs[:17], valid=graphs[17:], progress=False)
    said = [str(w.message) for w in found if w.category is UserWarning and "single graph" in str(w.message)]
    assert len(said) == 1 and "L_MI is skipped" in said[0]
    last = [step for step in trainer.history["steps"] if step["loss_weight"]][2::3]
    assert all(math.isnan(step["mutual_information"]) and math.isfinite(step["loss"]) for step in last)


def test_a_last_batch_of_one_node():
    graphs, single = (
        make_graphs(16, d=0),
        [Data(edge_index=NONE, num_nodes=1, y=torch.tensor([i % 2])) for i in range(17)],
    )
    for train in (single, [*graphs, single[0]]):
        trainer, _ = caught(fitted, train, graphs[:4])
        assert np.isfinite(trainer.predict_proba(single)).all()


def test_not_finite_leaves_the_critic_untouched():
    state = in_bottleneck(quick_state())
    rows, batch = next(state.batches())
    outer_step(state, rows, batch)
    term = state.information
    critic, first = term.critic.flat_weights.detach().clone(), term.inner.exp_avg.clone()
    batch.x[1, 1] = math.nan
    with pytest.raises((ValueError, FloatingPointError)):
        outer_step(state, rows, batch)
    assert (
        torch.equal(term.critic.flat_weights, critic)
        and torch.equal(term.inner.exp_avg, first)
        and term.bank.pairs.isfinite().all()
    )


@pytest.mark.parametrize("settings", [{}, dict(norm=None), dict(beta=0.0), dict(alpha=0.0, beta=0.0)], ids=str)
def test_a_loss_that_explodes_is_named(settings):
    "With what to do about it; never a trained model of NaN."
    with pytest.raises(FloatingPointError, match="epoch .*lower lr"):
        fitted(**({"lr": 1e30} | settings))


def test_identical_embeddings_are_noticed_in_training():
    "A backbone that gives every graph the same embedding makes L_MI 0 by construction; published code trained so, silently."

    class Blind(nn.Module):
        out_channels = 4

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.arange(4.0))

        def forward(self, x, edge_index):
            return self.weight.expand(len(x), 4)

    _, found = caught(fitted, encoder=lambda channels: Blind())
    assert any("identical" in str(w.message) for w in found)
    _, found = caught(fitted)
    assert not found


def test_two_equal_graphs_in_a_last_batch_are_no_alarm():
    "The rest of the training set still tells graph and subgraph apart."
    graphs = [graph for graph in make_graphs(40) if graph.num_nodes > 4]
    state = in_bottleneck(quick_state(graphs, beta=1.0))
    outer_step(state, *next(state.batches()))
    outer_step(state, torch.tensor([0, 1]), Batch.from_data_list([state.train[0], state.train[0]]))
    assert not [text for _, text in state.notes if "identical" in text]


def test_shrinking_the_subgraph_is_no_way_out():
    "L_MI does not depend on the scale of the embeddings of a batch, and has no gradient along it."
    state = in_bottleneck(quick_state(make_graphs(40), batch_size=18, num_steps=10, beta=1.0))
    rows, batch = next(state.batches())
    outer_step(state, rows, batch)
    output, values = state.forward(batch), []
    state.information.inner.steps = 0
    for scale in (1.0, 1e-2, 1e-4, 1e3):
        s = (output.subgraph_embedding.detach() * scale).requires_grad_()
        value = state.information(dataclasses.replace(output, subgraph_embedding=s), batch)
        values.append(value.item())
        along = (torch.autograd.grad(value, s)[0] * s.detach()).sum()
        assert abs(along) < 1e-3
    assert values == pytest.approx([values[0]] * 4, abs=1e-2) and abs(values[0]) > 1e-3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_critic_moves_too(tmp_path):
    "Model, critic, moments and bank are all on the device; what comes back is on the CPU."
    state = in_bottleneck(quick_state(device="cuda"))
    outer_step(state, *next(state.batches()))
    term = state.information
    assert {
        t.device.type
        for t in (term.critic.flat_weights, term.inner.exp_avg, term.bank.pairs, *state.model.parameters())
    } == {"cuda"}
    trainer = fitted(device="cuda", checkpoint=tmp_path / "run")
    trainer.save(tmp_path / "model")
    explanation = trainer.explain(make_graphs()[0])
    assert {
        t.device.type for t in (explanation.x, explanation.node_mask, explanation.edge_mask, explanation.edge_index)
    } == {"cpu"}
    loaded = GIBTrainer.load(tmp_path / "model", device="cpu")
    np.testing.assert_allclose(loaded.predict_proba(make_graphs()), trainer.predict_proba(make_graphs()), atol=1e-4)


# --- what is trained when


def test_each_phase_trains_its_half():
    "Classifier on random masks, then the mask, then the classifier on the subgraphs; nothing of the other half moves, statistics of batch norm included."
    state = quick_state(
        **{name: value for name, value in TWO_STAGE.items()}
        | {name: 2 for name in ("pretrain_epochs", "finetune_epochs")}
        | {"epochs": 6}
    )
    moved = []
    while not state.finished:
        before = {name: value.clone() for name, value in state.model.state_dict().items()}
        train_epoch(state, [])
        moved.append(
            {
                name.split(".")[0]
                for name, value in state.model.state_dict().items()
                if not torch.equal(value, before[name])
            }
        )
    assert moved == [{"classifier"}] * 2 + [{"backbone", "generator"}] * 2 + [{"classifier"}] * 2


def test_finetuning_leaves_the_statistics_of_the_classifier():
    "Its batch norms saw random subgraphs of every size; those of one mask would replace them."
    state = quick_state(**TWO_STAGE)
    state.phase_index = 2
    statistics = lambda: [buffer.clone() for buffer in state.model.classifier.buffers()]
    weights, before = [value.clone() for value in state.model.classifier.parameters()], statistics()
    train_epoch(state, [])
    assert all(map(torch.equal, before, statistics())) and not all(
        map(torch.equal, weights, state.model.classifier.parameters())
    )


def test_a_new_part_registers_its_own():
    "What is not registered is named."
    state = quick_state()
    for function, arguments in (
        (make_model, (3, state.config, state.spec)),
        (information_term, (3, state)),
        (objective, (3, state, None, None)),
    ):
        with pytest.raises(TypeError, match="expected a .* with a registered .*got 3"):
            function(*arguments)


# --- every mask with every classifier and every bound


class Theirs(nn.Module):
    def __init__(self):
        super().__init__()
        self.gnn = GIN(3, 8, 2, out_channels=2)

    def forward(self, x, edge_index, batch):
        return global_mean_pool(self.gnn(x, edge_index), batch)


def theirs_of(graphs):
    "A model that predicts both classes for these graphs."
    batch = Batch.from_data_list(graphs)
    for seed in range(100):
        with LocalRandomness(seed):
            model = Theirs().eval()
        if len(model(batch.x, batch.edge_index, batch.batch).argmax(1).unique()) == 2:
            return model
    raise AssertionError("no seed gives both classes")


QUICK_MASKS = [(None, False), (1, True)]  # of the masks below; the others are slow tests


@pytest.mark.parametrize("information", [Critic(num_steps=2, batch_size=4), Prior(0.3)], ids=["critic", "prior"])
@pytest.mark.parametrize("classifier", [Pooled(), Reencode(num_models=2), Frozen(mask_features=True)], ids=str)
@pytest.mark.parametrize(
    "num_layers, sample",
    [
        pytest.param(*each, marks=[pytest.mark.slow] * (each not in QUICK_MASKS))
        for each in itertools.product((None, 0, 1), (False, True))
    ],
)
@pytest.mark.parametrize("mask", [NodeMask, EdgeMask])
def test_all_parts_fit_together(mask, num_layers, sample, classifier, information):
    "Two epochs, and an explanation of each graph."
    graphs = make_graphs(16)
    model = theirs_of(graphs[:12]) if isinstance(classifier, Frozen) else None
    config = GIBConfig(
        Encoder("gin", 4, 2),
        mask(num_layers, sample),
        classifier,
        information,
        (Pretrain(1), Bottleneck(1)),
        Optim(batch_size=4),
        max_restarts=0,
    )
    trainer = GIBTrainer(config, model=model).fit(graphs[:12], valid=graphs[12:], progress=False)
    assert [math.isfinite(step["loss"]) for step in trainer.history["steps"]] == [True] * 6 and math.isfinite(
        trainer.history["steps"][-1]["mutual_information"]
    )
    found, _ = caught(trainer.explain, graphs[10:])
    for explanation, graph in zip(found, graphs[10:], strict=True):
        p, edge = explanation.node_mask[:, 0], explanation.edge_mask
        assert (
            explanation.node_mask.shape == (graph.num_nodes, 1)
            and edge.shape == (graph.num_edges,)
            and ((p > 0) & (p < 1)).all()
            and ((edge > 0) & (edge < 1)).all()
        )
        torch.testing.assert_close(edge, symmetrize(edge, graph.edge_index))
        if mask is NodeMask:
            torch.testing.assert_close(edge, p[graph.edge_index[0]] * p[graph.edge_index[1]])
    assert (trainer.model.mask_backbone is not None) == (
        isinstance(classifier, Pooled) and num_layers is not None
    )  # of its own where the encoder serves the classifier too


@pytest.mark.slow
@pytest.mark.parametrize("information", [Critic(num_steps=2, batch_size=4), Prior(0.3)], ids=["critic", "prior"])
@pytest.mark.parametrize("mask", [NodeMask(), EdgeMask(1, True)], ids=str)
def test_two_stages_with_each_mask_and_bound(mask, information):
    graphs = make_graphs(16)
    phases = Pretrain(1, random_masks=True), Bottleneck(1, train_mask_only=True), Finetune(1)
    trainer = GIBTrainer(
        GIBConfig(
            Encoder("gin", 4, 2), mask, Reencode(num_models=2), information, phases, Optim(batch_size=4), max_restarts=0
        )
    ).fit(graphs[:12], valid=graphs[12:], progress=False)
    steps = trainer.history["steps"]
    assert [math.isfinite(step["mutual_information"]) for step in steps] == [False] * 3 + [True] * 3 + [
        False
    ] * 3 and all(math.isfinite(step["loss"]) for step in steps)
