"A loss, an optimizer and a scheduler of one's own, and clipped gradients: by hand, and through checkpoints."

import functools
import json

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch.nn import functional as F
from torch.optim import lr_scheduler

from gib_nb import ClassifierTrainer, GIBTrainer
from gib_nb.data.spec import prepare_training
from gib_nb.train.callbacks import Callback
from gib_nb.train.checkpoint import fingerprint
from gib_nb.train.classifier_trainer import ClassifierConfig, ClassifierState
from gib_nb.train.config import GIBConfig, config_from_dict, config_to_dict, configure
from gib_nb.train.functions import TrainingFunctions, pack_state, qualified_name, targets_for_loss, unpack_state
from gib_nb.train.parts import Optim
from gib_nb.train.phases import TrainState
from tests.test_checkpoint import Interrupt, after
from tests.training import fitted, make_graphs, quick, real, same, same_state


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.1)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.05)


def halving(optimizer):
    return lr_scheduler.StepLR(optimizer, 1, gamma=0.5)


def milestones(optimizer):
    return lr_scheduler.MultiStepLR(optimizer, [2, 3], gamma=0.1)


def plateau(optimizer):
    return lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)


def warm_then_decay(optimizer):
    parts = [lr_scheduler.LinearLR(optimizer, 0.1, 1.0, 2), lr_scheduler.ExponentialLR(optimizer, 0.9)]
    return lr_scheduler.SequentialLR(optimizer, parts, [2])


def by_epoch(optimizer):
    return lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))


def tempered(prediction, y):
    return F.cross_entropy(prediction / 2, y)


class Rates(Callback):
    "The learning rate of each epoch."

    def __init__(self):
        self.seen = []

    def on_epoch_begin(self, state):
        self.seen.append(state.optimizer.param_groups[0]["lr"])


def network(graphs=None, **settings):
    graphs = make_graphs() if graphs is None else graphs
    settings = dict(hidden_channels=8, epochs=4, batch_size=8) | settings
    return ClassifierTrainer("gin", **settings).fit(graphs[:18], valid=graphs[18:])


def states(graphs=None, max_grad_norm=None, **functions):
    "An attempt of each trainer that has not begun."
    graphs, functions = make_graphs() if graphs is None else graphs, TrainingFunctions(**functions)
    _, train, valid = prepare_training(graphs[:18], valid=graphs[18:])
    config = configure(**quick(max_grad_norm=max_grad_norm))
    yield TrainState(config, train, valid, functions=functions)
    plain = ClassifierConfig("gin", hidden_channels=8, batch_size=8, max_grad_norm=max_grad_norm)
    yield ClassifierState(plain, train, valid, functions)


# --- the loss


def test_a_loss_that_says_the_same_changes_nothing():
    "Cross entropy as a function, and squared error of scaled values, train to the same bits as L_cls."
    for graphs, loss in (
        (make_graphs(), torch.nn.CrossEntropyLoss()),
        (make_graphs(y=real), lambda prediction, y: F.mse_loss(prediction[:, 0], y[:, 0])),
    ):
        first, second = fitted(graphs), fitted(graphs, loss=loss)
        assert same(first.history, second.history) and same_state(first.model, second.model)
        first, second = network(graphs), network(graphs, loss=loss)
        assert first.losses == second.losses and same_state(first.model, second.model)


def test_gradient_of_a_loss_by_hand():
    "The sum of the first outputs has the gradient 1 at each of them, and nothing else reaches the weights."
    for state in states(loss=lambda prediction, y: prediction[:, 0].sum()):
        state.begin_epoch()
        rows, batch = next(iter(state.batches()))
        losses = state.losses(rows, batch)
        losses["loss"].backward()
        last = list(state.model.parameters())[-1] if isinstance(state, ClassifierState) else None
        if last is not None:
            assert last.grad.tolist() == [8.0, 0.0]  # bias of the two outputs; a batch has 8 graphs
        assert any(each.grad is not None and each.grad.abs().sum() > 0 for each in state.model.parameters())


def test_validation_has_the_same_loss():
    "Also in the losses of a classifier that is trained alone."
    for state in states(loss=lambda prediction, y: 0 * prediction.sum() + 7):
        logs = state.validate()
        assert logs["classification" if isinstance(state, TrainState) else "loss"] == 7
    trainer = fitted(loss=lambda prediction, y: 0 * prediction.sum() + 7, classifier="reencode", finetune_epochs=1)
    assert [row["classification"] for row in trainer.history["epochs"]] == [7] * 4
    assert {row["classification"] for row in trainer.history["steps"]} == {7}


def test_what_a_loss_compares_with():
    "Classes [N]; values with mean 0 and variance 1, in the shape of the prediction; 0, 1 and NaN of several targets."
    spec, train, _ = prepare_training(make_graphs())
    assert torch.equal(targets_for_loss(spec, torch.zeros(len(train), 2), train.y), train.y)
    spec, train, valid = prepare_training(make_graphs(y=real))
    y = targets_for_loss(spec, torch.zeros(len(train), 1), train.y)
    everything = torch.cat([y, targets_for_loss(spec, torch.zeros(len(valid), 1), valid.y)])
    assert y.shape == (len(train), 1) and y.dtype == torch.float32
    assert float(everything.mean()) == pytest.approx(0, abs=1e-6) and set(everything.ravel().tolist()) == {-1.0, 1.0}
    several = [graph.clone() for graph in make_graphs()]
    for i, graph in enumerate(several):
        graph.y = torch.tensor([[float(i % 2), float("nan") if i % 3 else 1.0 - i % 2]])
    spec, train, _ = prepare_training(several)
    y = targets_for_loss(spec, torch.zeros(len(train), 2), train.y)
    np.testing.assert_array_equal(y.numpy(), train.y.numpy())


def test_huber_loss_learns_values():
    "A loss of torch as it is; predictions come back in the units of y."
    graphs = make_graphs(y=real)
    trainer = network(graphs, loss=torch.nn.HuberLoss(), epochs=60, lr=0.01)
    assert trainer.score(graphs[18:]) > 0.5 and 95 < trainer.predict(graphs).mean() < 115


@pytest.mark.parametrize(
    "loss", [lambda p, y: p, lambda p, y: 3.0, lambda p, y: p.argmax()], ids=["all", "number", "int"]
)
def test_a_loss_is_a_scalar(loss):
    for fit in (fitted, network):
        with pytest.raises(ValueError, match="scalar tensor"):
            fit(loss=loss)


# --- optimizer and scheduler


def test_adam_as_a_function_changes_nothing():
    adam = lambda parameters: torch.optim.Adam(parameters, 3e-3, fused=True)
    assert same(fitted().history, fitted(optimizer=adam).history)
    assert network().losses == network(optimizer=lambda parameters: torch.optim.Adam(parameters, 3e-3)).losses


def test_a_step_of_an_optimizer_by_hand():
    "One of gradient descent moves each weight by 0.05 of its gradient."
    for state in states(optimizer=sgd):
        state.begin_epoch()
        rows, batch = next(iter(state.batches()))
        before = [weight.detach().clone() for weight in state.model.parameters()]
        state.step(state.losses(rows, batch)["loss"])
        moved = 0
        for old, weight in zip(before, state.model.parameters()):
            if weight.grad is not None:
                torch.testing.assert_close(weight.detach(), old - 0.05 * weight.grad)
                moved += 1
        assert moved > 3


def test_learning_rate_of_each_epoch():
    "A scheduler takes a step after each epoch; the phases of a GIB do not begin it anew."
    for scheduler, expected in (
        (None, [0.01] * 4),
        (halving, [0.01, 0.005, 0.0025, 0.00125]),
        (milestones, [0.01, 0.01, 0.001, 0.0001]),
        (by_epoch, [0.01, 0.005, 0.01 / 3, 0.0025]),
    ):
        for fit in (fitted, network):
            rates = Rates()
            graphs = make_graphs()
            if fit is fitted:
                fitted(optimizer=adamw, scheduler=scheduler, callbacks=rates)
            else:
                trainer = ClassifierTrainer(
                    "gin", hidden_channels=8, epochs=4, batch_size=8, optimizer=adamw, scheduler=scheduler
                )
                trainer.fit(graphs[:18], valid=graphs[18:], callbacks=rates)
            assert rates.seen == pytest.approx(expected)
    rates = Rates()
    fitted(scheduler=halving, callbacks=rates)
    assert rates.seen == pytest.approx([0.003, 0.0015, 0.00075, 0.000375])


def test_cosine_schedule_of_an_optimizer():
    "Begins at the learning rate of that optimizer in each phase."
    rates = Rates()
    fitted(optimizer=adamw, lr_schedule="cosine", epochs=4, pretrain_epochs=2, rampup_epochs=0, callbacks=rates)
    assert rates.seen == pytest.approx([0.01, 0.005, 0.01, 0.005])


def test_plateau_waits_for_the_validation_loss(monkeypatch):
    "Halved after each epoch that is no better than the best: the third and the fourth."
    losses = iter([3.0, 2.0, 2.5, 2.0, 1.0])
    logs = lambda self: {"loss": next(losses), "score": 0.0, "mean_node_mask": 0.0}
    monkeypatch.setattr(TrainState, "validate", logs)
    rates = Rates()
    fitted(optimizer=adamw, scheduler=plateau, epochs=5, callbacks=rates)
    assert rates.seen == pytest.approx([0.01, 0.01, 0.01, 0.005, 0.0025])


# --- clipping


def test_gradients_are_clipped_to_the_bound():
    "The norm of all gradients together is the bound where it was above, and as it was where it was below."
    norms = {}
    for bound in (None, 1e-3, 1e3):
        for state in states(max_grad_norm=bound):
            state.begin_epoch()
            rows, batch = next(iter(state.batches()))
            state.step(state.losses(rows, batch)["loss"])
            grads = [weight.grad for weight in state.model.parameters() if weight.grad is not None]
            norms[type(state), bound] = float(torch.cat([grad.ravel() for grad in grads]).norm())
    for kind in (TrainState, ClassifierState):
        assert norms[kind, None] == norms[kind, 1e3] > 1e-2
        assert norms[kind, 1e-3] == pytest.approx(1e-3, rel=1e-2)


def test_clipping_is_a_setting():
    assert configure(max_grad_norm=1.0).optim == Optim(max_grad_norm=1.0) and Optim().max_grad_norm is None
    for wrong in (0, -1.0, "1", True, float("nan")):
        with pytest.raises(ValueError, match="expected max_grad_norm as None or a number > 0"):
            GIBTrainer(max_grad_norm=wrong)
        with pytest.raises(ValueError, match="expected max_grad_norm as None or a number > 0"):
            ClassifierTrainer(max_grad_norm=wrong)


def test_records_of_before_have_no_clipping_and_no_pretrained_encoder():
    "Their configuration is that of today without it, and so are the names of their checkpoints."
    record = config_to_dict(GIBConfig())
    assert record["optim"].pop("max_grad_norm") is None and record["encoder"].pop("pretrained") is None
    assert config_from_dict(record) == GIBConfig() and fingerprint(record, [], []) == fingerprint(GIBConfig(), [], [])
    assert fingerprint(configure(max_grad_norm=1.0), [], []) != fingerprint(GIBConfig(), [], [])


# --- checkpoints

GIVEN = {
    "adamw, steps": dict(optimizer=adamw, scheduler=milestones, loss=tempered),
    "sgd": dict(optimizer=sgd, max_grad_norm=0.5),
    "plateau": dict(scheduler=plateau),
    "sequence": dict(optimizer=adamw, scheduler=warm_then_decay),
    "function": dict(scheduler=by_epoch),
    "cosine": dict(optimizer=adamw, lr_schedule="cosine"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name, at", [(name, [5, 9]) for name in GIVEN] + [("adamw, steps", [17])], ids=str)
def test_a_training_with_functions_resumes_to_the_same_bits(name, at, tmp_path):
    "Cut off twice in the first attempt, and in the restart after its collapse."
    settings = GIVEN[name] | dict(threshold=0.0, max_restarts=1)
    whole = fitted(**settings)
    for stop in at:
        with pytest.raises(Interrupt):
            fitted(checkpoint=tmp_path / "run", callbacks=after(stop), **settings)
    pieces = fitted(checkpoint=tmp_path / "run", **settings)
    assert len(whole.history["attempts"]) == 2
    assert same(pieces.history, whole.history) and same_state(pieces.model, whole.model)


def test_a_checkpoint_knows_the_names_of_its_functions(tmp_path):
    "One with functions and one without, or with others, are told apart."
    for given, others in (
        ({}, [dict(loss=tempered), dict(optimizer=adamw), dict(scheduler=halving)]),
        (dict(optimizer=adamw), [{}, dict(optimizer=sgd), dict(optimizer=torch.optim.AdamW)]),
    ):
        file = tmp_path / f"run{len(given)}"
        fitted(checkpoint=file, **given)
        for other in others:
            with pytest.raises(ValueError, match="this config and these graphs"):
                fitted(checkpoint=file, **other)


def test_names_of_functions():
    assert qualified_name(adamw) == "tests.test_functions.adamw"
    assert qualified_name(torch.optim.AdamW) == "torch.optim.adamw.AdamW"
    assert qualified_name(torch.nn.HuberLoss()) == "torch.nn.modules.loss.HuberLoss"
    slow, fast = (functools.partial(torch.optim.SGD, lr=lr) for lr in (0.1, 0.2))
    assert qualified_name(slow) == "torch.optim.sgd.SGD['lr', 0.1]" != qualified_name(fast)


@pytest.mark.parametrize("scheduler", [halving, milestones, plateau, warm_then_decay, by_epoch])
def test_states_as_bytes(scheduler):
    "Everything comes back, and nothing that executes is read."
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = adamw([weight])
    made = scheduler(optimizer)
    weight.sum().backward()
    optimizer.step()
    made.step(*([1.0] if scheduler is plateau else []))
    for each in (optimizer, made):
        assert str(unpack_state(pack_state(each.state_dict()))) == str(each.state_dict())
    with pytest.raises(Exception, match="[Ww]eights"):
        unpack_state(pack_state({"function": tempered}))


# --- what is given


@pytest.mark.parametrize("trainer", [GIBTrainer, ClassifierTrainer])
def test_what_is_no_function_is_refused(trainer):
    for name, wrong in (("loss", "mse"), ("optimizer", sgd([torch.nn.Parameter(torch.ones(1))])), ("scheduler", 3)):
        with pytest.raises(TypeError, match=f"expected {name} as a function .* such as .*got {type(wrong).__name__}"):
            trainer(**{name: wrong})
    with pytest.raises(ValueError, match="a loss or class_weight, not both"):
        trainer(loss=tempered, class_weight="balanced")


def test_a_schedule_and_a_scheduler_are_one_too_many():
    with pytest.raises(ValueError, match="expected a scheduler or lr_schedule, not both"):
        GIBTrainer(scheduler=halving, lr_schedule="cosine")


@pytest.mark.parametrize("fit", [fitted, network])
def test_what_makes_no_optimizer_is_refused(fit):
    for name, wrong in (("optimizer", list), ("scheduler", lambda optimizer: optimizer)):
        with pytest.raises(TypeError, match=f"expected {name} as a function .*got one that returns"):
            fit(**{name: wrong})


@pytest.mark.parametrize("trainer", [GIBTrainer, ClassifierTrainer])
def test_functions_are_parameters_of_the_estimator(trainer):
    first = trainer(loss=tempered, optimizer=adamw, scheduler=halving)
    for each in (first, clone(first), trainer().set_params(loss=tempered, optimizer=adamw, scheduler=halving)):
        assert each.functions == TrainingFunctions(tempered, adamw, halving)
        assert [each.get_params()[name] for name in ("loss", "optimizer", "scheduler")] == [tempered, adamw, halving]


def test_a_saved_model_names_its_functions(tmp_path):
    "And predicts the same without them."
    trainer = fitted(loss=tempered, optimizer=adamw)
    trainer.save(tmp_path)
    record = json.loads((tmp_path / "config.json").read_text())
    assert record["functions"] == {"loss": "tests.test_functions.tempered", "optimizer": "tests.test_functions.adamw"}
    assert (GIBTrainer.load(tmp_path).predict(make_graphs()) == trainer.predict(make_graphs())).all()
