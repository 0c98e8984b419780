"The loop and what accompanies it: when an epoch is chosen, when a phase or a training ends, and that it does what a loop written by hand does."

import math
import warnings

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

from gib_nb.nn.masks import masked_forward, random_masks
from gib_nb.train.callbacks import Callback, EarlyStopping, History, StopWhen, as_callbacks
from gib_nb.train.classifier_trainer import ClassifierTrainer
from gib_nb.train.config import configure
from gib_nb.train.loop import DivergenceError, train, train_epoch
from gib_nb.train.phases import TrainState, prior_kl
from gib_nb.train.trainer import GIBTrainer
from tests.training import NONE, TWO_STAGE, fitted, make_graphs, quick, quick_state, same, same_state


@pytest.fixture(scope="module")
def trained():
    return fitted()


def state_of(trainer, graphs, config=None):
    "A state that validates a trained model on some graphs."
    prepared = trainer.spec.prepare(graphs)
    state = TrainState(config or trainer.config, prepared, prepared)
    state.model = trainer.model
    return state


def losses_are(monkeypatch, losses):
    "From now on the validation losses are these, whatever is trained; a function of the state, or numbers."
    losses = losses if callable(losses) else (lambda state, numbers=iter(losses): next(numbers))
    monkeypatch.setattr(
        TrainState, "validate", lambda self: {"loss": losses(self), "score": 0.0, "mean_node_mask": 0.0}
    )


# --- which epoch


def test_history():
    "Every step leaves its losses, the estimate and the mean of the mask; every epoch its validation."
    history = fitted().history
    assert len(history["steps"]) == 4 * 3 and [epoch["epoch"] for epoch in history["epochs"]] == [0, 1, 2, 3]
    assert set(history["steps"][0]) == {
        "loss",
        "classification",
        "connectivity",
        "mutual_information",
        "mean_node_mask",
        "epoch",
        "loss_weight",
    }
    assert set(history["epochs"][0]) == {
        "loss",
        "classification",
        "connectivity",
        "score",
        "mean_node_mask",
        "selected_fraction",
        "epoch",
    }
    assert [step["loss_weight"] for step in history["steps"][::3]] == [0, 0.5, 1, 1]


def test_only_epochs_after_the_rampup_are_chosen():
    "And of those the one with the least validation loss, whose weights come back."
    trainer = fitted(epochs=8, lr=0.05)
    losses = [epoch["loss"] for epoch in trainer.history["epochs"]]
    best = trainer.history["best_epoch"]
    assert best >= 2 and losses[best] == min(losses[2:])
    again = state_of(trainer, make_graphs()[18:]).validate()
    assert same(again, {k: v for k, v in trainer.history["epochs"][best].items() if k != "epoch"})


def test_patience(monkeypatch):
    "With no better loss for so many epochs training stops; losses before the end of the ramp-up, of another kind, do not count."
    losses_are(monkeypatch, [0.1, 0.2, 1.0, 0.5, 0.6, 0.7, 0.4, 0.8, 0.9, 1.0, 1.0])
    history = fitted(epochs=11, patience=3).history
    assert history["best_epoch"] == 6 and len(history["epochs"]) == 10
    losses_are(monkeypatch, [0.1, 0.2, 7.0, 0.5, 0.6, 0.7, 0.4])
    assert len(fitted(epochs=11, patience=2).history["epochs"]) == 6


def two_stage(**settings):
    config = configure(
        classifier="reencode",
        two_stage=True,
        pretrain_epochs=2,
        rampup_epochs=0,
        finetune_epochs=10,
        patience=5,
        epochs=100,
        hidden_channels=4,
        max_restarts=0,
        batch_size=8,
        prior_prob=0.5,
    )
    graphs, seen = make_graphs(), []
    note = Note(lambda state: seen.append(type(state.phase).__name__))
    trainer = GIBTrainer(config, **settings).fit(graphs[:18], valid=graphs[18:], progress=False, callbacks=note)
    return trainer, {name: seen.count(name) for name in ("Pretrain", "Bottleneck", "Finetune")}


class Note(Callback):
    def __init__(self, function):
        self.function = function

    def on_epoch_end(self, state, logs):
        self.function(state)


@pytest.mark.filterwarnings("ignore::gib_nb.train.collapse.CollapseWarning")
def test_a_phase_that_stops_early_is_followed_by_the_next(monkeypatch):
    "The bottleneck finds nothing better for `patience` epochs, and all epochs of fine-tuning follow; formerly training stopped after 12 epochs and never reached it."
    losses_are(
        monkeypatch,
        lambda state: {"Pretrain": 3.0, "Bottleneck": 2.0, "Finetune": 1.0 - 0.01 * state.phase_epoch}[
            type(state.phase).__name__
        ],
    )
    trainer, epochs = two_stage()
    assert (
        epochs == {"Pretrain": 2, "Bottleneck": 6, "Finetune": 10}
        and len(trainer.history["epochs"]) == 18
        and trainer.history["best_epoch"] == 17
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gib_nb.train.collapse.CollapseWarning")
def test_each_phase_has_a_patience_of_its_own(monkeypatch):
    "What one has waited does not count in the next, and pretraining does not wait at all."
    losses_are(monkeypatch, lambda state: 1.0 + state.epoch)
    trainer, epochs = two_stage()
    assert epochs == {"Pretrain": 2, "Bottleneck": 6, "Finetune": 5} and trainer.history["best_epoch"] == 2
    trainer, epochs = two_stage(patience=100, epochs=20)
    assert epochs == {"Pretrain": 2, "Bottleneck": 8, "Finetune": 10}


def test_validation_does_not_depend_on_the_batches(trained):
    "Also where some graphs have no edge, and no L_con."
    graphs, found = (
        make_graphs(7) + [Data(x=torch.ones(2, 3), edge_index=NONE, y=torch.tensor([i % 2])) for i in range(5)],
        [],
    )
    for size in (2, 5, 12):
        found.append(state_of(trained, graphs, configure(trained.config, batch_size=size)).validate())
    for name in found[0]:
        assert found[0][name] == pytest.approx(found[2][name], abs=1e-5) and found[1][name] == pytest.approx(
            found[2][name], abs=1e-5
        ), name


# --- callbacks


class Recorder(Callback):
    def __init__(self):
        self.calls = []

    def __getattribute__(self, name):
        if name.startswith("on_"):
            return lambda state, *more: self.calls.append(
                (name, state.epoch, type(state.phase).__name__ if not state.finished else None, *more)
            )
        return super().__getattribute__(name)


def test_hooks_are_called_in_order():
    "Each with the state where its docstring says."
    recorder = Recorder()
    fitted(callbacks=recorder, epochs=3)
    steps = lambda: ["on_train_batch_end"] * 3
    epoch = ["on_epoch_begin", *steps(), "on_epoch_end", "on_save_checkpoint"]
    assert [call[0] for call in recorder.calls] == ["on_train_begin", *3 * epoch, "on_train_end"]
    assert [call[1] for call in recorder.calls if call[0] == "on_epoch_end"] == [0, 1, 2] and [
        call[1] for call in recorder.calls if call[0] == "on_save_checkpoint"
    ] == [1, 2, 3]  # counted in between
    assert [call[2] for call in recorder.calls if call[0] == "on_epoch_begin"] == [
        "Pretrain",
        "Bottleneck",
        "Bottleneck",
    ]
    losses, logs = (
        next(call[3] for call in recorder.calls if call[0] == name) for name in ("on_train_batch_end", "on_epoch_end")
    )
    assert all(isinstance(value, torch.Tensor) and value.dim() == 0 for value in losses.values()) and all(
        isinstance(value, float) for value in logs.values()
    )


def test_hooks_of_every_attempt():
    "A collapsed attempt ends, and the next one begins anew."
    recorder = Recorder()
    trainer = fitted(callbacks=recorder, threshold=0.0, max_restarts=1)
    assert [call[:2] for call in recorder.calls if call[0] in ("on_train_begin", "on_train_end")] == [
        ("on_train_begin", 0),
        ("on_train_end", 4),
    ] * 2 and len(trainer.history["attempts"]) == 2


def test_a_callback_changes_nothing(trained):
    assert same(fitted(callbacks=[Recorder(), lambda record: None]).history, trained.history)


@pytest.mark.parametrize("hook", ["on_epoch_begin", "on_train_batch_end", "on_epoch_end"])
def test_a_callback_may_end_a_phase(hook):
    "The epoch is finished, and the next one belongs to the next phase."

    class Ends(Callback):
        pass

    phases = []
    setattr(
        Ends,
        hook,
        lambda self, state, *more: setattr(
            state, "stop_phase", state.stop_phase or (state.phase_index == 0 and state.epoch == 1)
        ),
    )
    history = fitted(
        callbacks=[Ends(), Note(lambda state: phases.append((state.phase_index, state.phase_epoch)))],
        epochs=8,
        pretrain_epochs=4,
    ).history
    assert phases == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (1, 3)] and len(history["steps"]) == 6 * 3


@pytest.mark.parametrize("hook, steps", [("on_epoch_begin", 4), ("on_train_batch_end", 4), ("on_epoch_end", 6)])
def test_a_callback_may_end_training(hook, steps):
    "At once after a step, else when the epoch is over; what was trained until then is the model."

    class Ends(Callback):
        pass

    setattr(
        Ends, hook, lambda self, state, *more: setattr(state, "stop_training", state.stop_training or state.epoch == 1)
    )
    trainer = fitted(callbacks=Ends(), max_restarts=2, threshold=0.0)
    assert (
        len(trainer.history["steps"]) == steps
        and len(trainer.history["epochs"]) == 2
        and len(trainer.history["attempts"]) == 1
    )
    assert trainer.predict(make_graphs()).shape == (24,)


def test_a_function_sees_each_step_and_may_stop():
    seen = []
    trainer = fitted(callbacks=lambda record: seen.append(record) or len(seen) == 8)
    assert len(seen) == 8 and len(trainer.history["steps"]) == 8
    assert all(isinstance(value, float) for name, value in seen[0].items() if name != "epoch") and [
        r["epoch"] for r in seen[::3]
    ] == [0, 1, 2]


def test_one_of_several_functions_may_stop():
    for callbacks in (
        [lambda record: record["epoch"] == 1, lambda record: False],
        [lambda record: False, lambda record: record["epoch"] == 1],
    ):
        assert len(fitted(callbacks=callbacks).history["steps"]) == 4


def test_a_stop_is_not_followed_by_a_restart():
    "Also when what was trained so far has collapsed."
    seen = []
    trainer = fitted(threshold=0.0, max_restarts=2, callbacks=lambda record: seen.append(1) or len(seen) == 11)
    assert len(trainer.history["attempts"]) == 1 and len(seen) == 11


def test_what_is_no_callback_is_refused():
    recorder, function = Recorder(), lambda record: None
    assert (
        as_callbacks(None) == []
        and as_callbacks(recorder) == as_callbacks([recorder]) == as_callbacks((recorder,)) == [recorder]
        and isinstance(as_callbacks(function)[0], StopWhen)
    )
    for wrong in (3, "stop", [recorder, 3]):
        with pytest.raises(TypeError, match="expected callbacks: a Callback, a function of the losses"):
            fitted(callbacks=wrong)


def test_an_error_in_a_callback_is_not_swallowed():
    def broken(record):
        raise ZeroDivisionError("in the callback")

    for callbacks in (broken, Note(broken)):
        with pytest.raises(ZeroDivisionError, match="in the callback"):
            fitted(callbacks=callbacks)


def test_a_network_without_a_bottleneck_has_the_same_callbacks():
    recorder, graphs = Recorder(), make_graphs()
    network = ClassifierTrainer("gin", hidden_channels=8, epochs=5, batch_size=8).fit(
        graphs[:18], valid=graphs[18:], callbacks=[recorder, lambda record: record["epoch"] == 2]
    )
    assert [call[0] for call in recorder.calls] == [
        "on_train_begin",
        *2 * ["on_epoch_begin", *3 * ["on_train_batch_end"], "on_epoch_end", "on_save_checkpoint"],
        "on_epoch_begin",
        "on_train_batch_end",
        "on_epoch_end",
        "on_save_checkpoint",
        "on_train_end",
    ] and len(network.losses) == 3
    ended = ClassifierTrainer("gin", hidden_channels=8, epochs=50, batch_size=8, patience=2, lr=0.0).fit(
        graphs[:18], valid=graphs[18:]
    )
    assert ended.best_epoch >= 0 and len(ended.losses) < 50


def test_what_is_no_longer_finite_is_said(monkeypatch):
    state = quick_state(lr=1e30)
    with pytest.raises(DivergenceError, match="epoch 0.; lower lr"):
        for _ in range(4):
            train_epoch(state, [])
    state = quick_state()
    monkeypatch.setattr(type(state), "losses", lambda *arguments: (_ for _ in ()).throw(ValueError("of another kind")))
    with pytest.raises(ValueError, match="of another kind"):
        train_epoch(state, [])


# --- the same by hand


def by_hand(state):
    "The paper's training with pretraining and ramp-up: rows of validation, weights of the best epoch."
    config, rows, best, weights = state.config, [], math.inf, None
    pretrain, bottleneck = config.phases
    for epoch in range(config.epochs):
        weight = 0 if epoch < pretrain.epochs else min(1, (epoch - pretrain.epochs + 1) / (bottleneck.rampup + 1))
        state.model.train()
        for rows_of, batch in state.batches():
            output = state.forward(batch)
            loss = (
                nn.functional.cross_entropy(output.prediction, batch.y)
                + weight * config.alpha * output.connectivity_loss
            )
            state.information.bank.write(rows_of, output.graph_embedding, output.subgraph_embedding)
            if weight:
                loss = loss + weight * config.beta * state.information(output, batch)
            state.optimizer.zero_grad()
            loss.backward()
            state.optimizer.step()
        rows.append(state.validate() | {"epoch": epoch})
        if weight == 1 and rows[-1]["loss"] < best:
            best, weights = rows[-1]["loss"], {name: value.clone() for name, value in state.model.state_dict().items()}
    state.model.load_state_dict(weights)
    return rows


def test_two_phases_by_hand():
    "Pretraining, then the bottleneck: the loop, its callbacks and the trainer add nothing."
    settings = dict(epochs=7, pretrain_epochs=2, rampup_epochs=2, dropout=0.2, lr=0.02)
    state, trainer = quick_state(**settings), fitted(**settings)
    assert same(by_hand(state), trainer.history["epochs"]) and same_state(state.model, trainer.model)


@pytest.mark.slow
def test_three_phases_by_hand():
    "Two stages: classifiers on whole graphs and random masks, the mask alone, classifiers on whole graphs and their subgraphs."
    state, looped, history = quick_state_of(TWO_STAGE), quick_state_of(TWO_STAGE), History()
    train(looped, [history])
    model, rows = state.model, []

    def step(loss):
        state.optimizer.zero_grad()
        loss.backward()
        state.optimizer.step()

    def taught(batch, masks, p=None):
        graph = batch.x, batch.edge_index, batch.batch, batch.num_graphs
        with state.randomness:
            losses = [
                nn.functional.cross_entropy(masked_forward(mask, each, *graph), batch.y)
                for each in model.classifier
                for mask in (None, masks(graph))
            ]
        return sum(losses) / len(losses)

    for epoch in range(9):
        state.optimizer.param_groups[0]["lr"] = 0.02 * (1 + math.cos(math.pi * (epoch % 3) / 3)) / 2
        model.train()
        model.set_trainable("mask" if 3 <= epoch < 6 else "classifier", training=epoch < 6)
        for _, batch in state.batches():
            if epoch < 3:
                step(taught(batch, lambda graph: random_masks(*graph[1:])))
            elif epoch < 6:
                output = state.forward(batch)
                step(
                    nn.functional.cross_entropy(output.prediction, batch.y)
                    + 0.0 * output.connectivity_loss
                    + prior_kl(output.edge_mask, 0.3)
                )
            else:
                with torch.no_grad():
                    mask = model.mask(batch.x, batch.edge_index)[2]
                step(taught(batch, lambda graph: mask))
        rows.append(state.validate() | {"epoch": epoch})
    assert same(rows, history.epochs) and same_state(model, looped.model)


def quick_state_of(settings):
    from gib_nb.data.spec import prepare_training

    graphs = make_graphs()
    _, train_graphs, valid = prepare_training(graphs[:18], valid=graphs[18:])
    return TrainState(configure(**settings), train_graphs, valid)


def test_early_stopping_keeps_the_best_weights(monkeypatch):
    "Not references to those that are trained on."
    losses_are(monkeypatch, [1.0, 0.5, 0.8])
    state, stopping = quick_state(pretrain_epochs=0, rampup_epochs=0, epochs=3), EarlyStopping()
    kept = []
    train(
        state,
        [
            stopping,
            Note(lambda state: kept.append({name: value.clone() for name, value in state.model.state_dict().items()})),
        ],
    )
    assert (
        stopping.best == 0.5
        and stopping.best_epoch == 1
        and all(torch.equal(value, kept[1][name]) for name, value in state.model.state_dict().items())
        and not state.model.training
    )
    assert any(not torch.equal(value, kept[2][name]) for name, value in kept[1].items())


class Watched(Callback):
    "Weights at the beginning of each epoch, and the validation loss after it."

    def __init__(self):
        self.phases, self.weights, self.losses = [], [], []

    def on_epoch_begin(self, state):
        self.phases.append(type(state.phase).__name__)
        self.weights.append({name: value.clone() for name, value in state.model.state_dict().items()})

    def on_epoch_end(self, state, logs):
        self.losses.append(logs["loss"] if state.loss_weight == 1 else float("inf"))


@pytest.mark.parametrize("more", [{}, {"prior_prob": 0.3, "sample_mask": True, "generator_num_layers": 1, "lr": 0.2}])
def test_the_classifier_of_a_pooled_embedding_is_fine_tuned_alone(more):
    "From the best epoch on; encoder, mask and statistics stay, and the losses are those of the mask itself."
    watched = Watched()
    settings = quick(**{"epochs": 10, "finetune_epochs": 3, "lr": 0.02} | more)
    graphs = make_graphs()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = GIBTrainer(**settings).fit(graphs[:18], valid=graphs[18:], progress=False, callbacks=[watched])
    first = watched.phases.index("Finetune")
    assert watched.phases[first:] == ["Finetune"] * 3
    best = min(range(first), key=lambda epoch: watched.losses[epoch])
    assert best < first - 1, "the best epoch is not the last one here, so that it makes a difference"
    after_best, begun = watched.weights[best + 1], watched.weights[first]
    assert all(torch.equal(begun[name], value) for name, value in after_best.items())
    moved = {
        name.split(".")[0] for name, value in watched.weights[first + 2].items() if not torch.equal(value, begun[name])
    }
    assert moved == {"classifier"}
    assert trainer.history["epochs"][first]["mean_node_mask"] == trainer.history["epochs"][-1]["mean_node_mask"]
