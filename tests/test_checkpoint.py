"Interrupted at any moment and resumed to the same bits; files of others are refused."

import io
import os
import pickle
import warnings

import numpy as np
import pytest
import torch

from gib_nb.train.callbacks import Callback
from gib_nb.train.checkpoint import fingerprint, weights_hash
from gib_nb.train.config import GIBConfig, configure, flat_settings
from gib_nb.train.loop import train_epoch
from gib_nb.train.trainer import GIBTrainer
from gib_nb.utils.files import load_safetensors, save_safetensors, write_atomically
from tests.training import TWO_STAGE, fitted, make_graphs, quick_state, same, same_state


@pytest.fixture(scope="module")
def trained():
    return fitted()


class Interrupt(Exception):
    pass


def after(steps):
    "A callback that cuts a training off after so many steps, counted from its start."
    seen = []

    def callback(record):
        seen.append(1)
        if len(seen) == steps:
            raise Interrupt

    return callback


def interrupted(at, checkpoint, fit=fitted, **settings):
    "A fit that is cut off after each of the given numbers of steps, and then runs to the end."
    for stop in at:
        with pytest.raises(Interrupt):
            fit(checkpoint=checkpoint, callbacks=after(stop), **settings)
    return fit(checkpoint=checkpoint, **settings)


# --- the same bits

SCHEMES = {
    "bank": dict(threshold=0.0, max_restarts=1),
    "published": dict(
        threshold=0.0, max_restarts=1, dropout=0.3, negatives="permute", reinit_critic=True, memory_bank=False
    ),
    "fine-tuned": dict(threshold=0.0, max_restarts=1, dropout=0.3, finetune_epochs=1),
}


@pytest.fixture(scope="module")
def undisturbed():
    "Two attempts of 4 epochs with 3 steps each, since the first collapses."
    return {name: fitted(**settings) for name, settings in SCHEMES.items()}


@pytest.mark.parametrize(
    "scheme, at",
    [("bank", [13]), ("bank", [5, 2, 8, 9]), ("published", [17]), ("fine-tuned", [11])]
    + [pytest.param("bank", at, marks=pytest.mark.slow) for at in ([1], [4], [12], [17], [24])]
    + [pytest.param("published", at, marks=pytest.mark.slow) for at in ([4], [5, 2, 8, 9])],
    ids=str,
)
def test_a_run_resumes_to_the_same_bits(scheme, at, undisturbed, tmp_path):
    "Cut off in the first step, in an epoch, in the last step of an attempt, in its restart, and several times."
    whole, pieces = undisturbed[scheme], interrupted(at, tmp_path / "run", **SCHEMES[scheme])
    assert len(whole.history["attempts"]) == 2
    assert (
        same(pieces.history, whole.history)
        and same_state(pieces.model, whole.model)
        and pieces.collapse == whole.collapse
    )
    assert np.array_equal(pieces.predict_proba(make_graphs()), whole.predict_proba(make_graphs()))


def two_stage(**more):
    "Three epochs of three steps in each of three phases, where `patience` does not end one of them."
    settings = TWO_STAGE | {name: value for name, value in more.items() if name not in ("checkpoint", "callbacks")}
    graphs = make_graphs()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GIBTrainer(configure(**settings)).fit(
            graphs[:18],
            valid=graphs[18:],
            progress=False,
            **{name: more[name] for name in ("checkpoint", "callbacks") if name in more},
        )


@pytest.fixture(scope="module")
def undisturbed_stages():
    return {patience: two_stage(patience=patience, epochs=9 if patience == 50 else 30) for patience in (50, 1)}


@pytest.mark.parametrize(
    "patience, at",
    [(50, [14]), (1, [11, 2, 5])]
    + [
        pytest.param(*case, marks=pytest.mark.slow)
        for case in (
            (50, [2]),
            (50, [5]),
            (50, [9]),
            (50, [10]),
            (50, [18]),
            (50, [19]),
            (50, [23]),
            (50, [27]),
            (50, [4, 8, 7, 5]),
            (1, [5]),
            (1, [14]),
        )
    ],
    ids=str,
)
def test_two_stages_resume_to_the_same_bits(patience, at, undisturbed_stages, tmp_path):
    "Cut off in each of the three phases, at the ends of two of them, and where the bottleneck stopped early."
    whole, pieces = (
        undisturbed_stages[patience],
        interrupted(at, tmp_path / "run", two_stage, patience=patience, epochs=9 if patience == 50 else 30),
    )
    assert patience == 50 and len(whole.history["epochs"]) == 9 or 6 < len(whole.history["epochs"]) < 30
    assert (
        same(pieces.history, whole.history)
        and same_state(pieces.model, whole.model)
        and pieces.collapse == whole.collapse
    )


class Halving(Callback):
    "Halves the weights of the generator every second step; how often it was called is its state."

    def __init__(self):
        self.count, self.sum, self.began = 0, torch.zeros(()), []

    def on_train_begin(self, state):
        self.began.append(state.epoch)

    def on_train_batch_end(self, state, losses):
        self.count, self.sum = self.count + 1, self.sum + losses["loss"].detach()
        if self.count % 5 == 0:
            with torch.no_grad():
                state.model.generator.score[-1].bias.add_(self.sum)

    def tensors(self):
        return {"sum": self.sum}

    def record(self):
        return {"count": self.count}

    def load(self, tensors, record):
        self.count, self.sum = record["count"], tensors["sum"]


@pytest.mark.slow
@pytest.mark.parametrize("at", [5, 8, 11])
def test_what_a_callback_keeps_is_in_the_checkpoint(at, tmp_path):
    "So that a training with it resumes to the same bits too; when it begins, the state is where the file leaves off."
    whole, again = fitted(callbacks=Halving()), Halving()
    with pytest.raises(Interrupt):
        fitted(callbacks=[Halving(), after(at)], checkpoint=tmp_path / "run")
    pieces = fitted(callbacks=again, checkpoint=tmp_path / "run")
    assert (
        same(pieces.history, whole.history)
        and same_state(pieces.model, whole.model)
        and again.count == 12
        and again.began == [(at - 1) // 3]
    )
    assert not same(whole.history, fitted().history)


def test_a_finished_run_is_not_trained_again(tmp_path):
    def refuse(record):
        raise AssertionError("trained again")

    first = fitted(checkpoint=tmp_path / "run")
    second = fitted(checkpoint=tmp_path / "run", callbacks=refuse)
    assert same(first.history, second.history) and same_state(first.model, second.model)


def test_a_training_that_was_stopped_is_finished(tmp_path):
    "Also when it has collapsed: no restart follows, now or from its checkpoint."

    def refuse(record):
        raise AssertionError("trained again")

    settings = dict(threshold=0.0, max_restarts=2, checkpoint=tmp_path / "run")
    first = fitted(callbacks=lambda record: record["epoch"] == 2, **settings)
    second = fitted(callbacks=refuse, **settings)
    assert (
        first.collapse
        and len(first.history["attempts"]) == 1
        and same(first.history, second.history)
        and same_state(first.model, second.model)
    )


def test_a_checkpoint_changes_nothing(tmp_path, trained):
    assert same(fitted(checkpoint=tmp_path / "run").history, trained.history)


def test_a_state_goes_back_to_where_it_was(tmp_path):
    "All that `tensors` and `record` hold, through a file; the next epoch is the same to the last bit."
    for settings in ({"dropout": 0.3}, {"prior_prob": 0.3, "sample_mask": True}):
        first, second = quick_state(**settings), quick_state(seed=7, **settings)
        train_epoch(first, [])
        write_atomically(tmp_path / "state", save_safetensors(first.tensors(), first.record()))
        second.load(*load_safetensors(tmp_path / "state"))
        for state in (first, second):
            train_epoch(state, [])
        assert (
            same_state(first.model, second.model)
            and first.record() == second.record()
            and all(torch.equal(value, second.tensors()[name]) for name, value in first.tensors().items())
        )


# --- whose it is


def test_a_checkpoint_belongs_to_its_config_and_graphs(tmp_path):
    "Other settings, another feature, another label, and the same graphs split at another place are refused."
    file, graphs = tmp_path / "run", make_graphs()
    fitted(checkpoint=file)
    feature, label = make_graphs(), make_graphs()
    feature[3].x[0, 0] += 1e-3
    label[3].y = 1 - label[3].y
    for other, settings in (
        (graphs, dict(beta=0.2)),
        (graphs, dict(seed=1)),
        (feature, {}),
        (label, {}),
        (graphs[::-1], {}),
    ):
        with pytest.raises(ValueError, match="this config and these graphs"):
            fitted(other, checkpoint=file, **settings)
    with pytest.raises(ValueError, match="this config and these graphs"):
        fitted(graphs[:17], graphs[17:], checkpoint=file)


def test_every_setting_is_in_the_fingerprint():
    changed = {
        "mask_on": "edges",
        "classifier": "reencode",
        "information": "prior",
        "encoder": "gcn",
        "norm": None,
        "pretrained": "zinc",
        "readout": "sum",
        "lr_schedule": "cosine",
        "negatives": "all",
        "device": "cuda",
        "metric": "accuracy",
        "class_weight": "balanced",
        "generator_num_layers": 1,
        "max_grad_norm": 1.0,
    }
    needs = {
        "finetune_epochs": {"classifier": "reencode"},
        "generator_num_networks": {"classifier": "reencode", "generator_num_layers": 2},
    }
    keys = {fingerprint(GIBConfig(), [], [])}
    for name, value in flat_settings(GIBConfig()).items():
        if name != "two_stage":
            new = (
                changed[name]
                if name in changed
                else not value
                if isinstance(value, bool)
                else value + (1 if isinstance(value, int) else 0.01)
            )
            keys.add(fingerprint(configure(**{name: new}, **needs.get(name, {})), [], []))
    assert len(keys) == len(flat_settings(GIBConfig()))  # one for each, and that of the defaults instead of two_stage
    assert (
        len({weights_hash(fitted(epochs=2, pretrain_epochs=0, rampup_epochs=0, seed=seed).model) for seed in (0, 1)})
        == 2
    )


# --- other files


def foreign_files(good):
    "Contents that are not what they should be, by name."
    stream, tensors, record = io.BytesIO(), *load_safetensors(good)
    torch.save({"weights": torch.ones(3)}, stream)
    content = good.read_bytes()
    return {
        "empty": b"",
        "text": b"not a checkpoint",
        "pickle": pickle.dumps({"config": 1}),
        "torch": stream.getvalue(),
        "half": content[: len(content) // 2],
        "header only": content[:200],
        "all but a byte": content[:-1],
        "a byte more": content + b"0",
        "no record": __import__("safetensors.torch").torch.save(tensors),
        "a record of another kind": save_safetensors(tensors, [1, 2]),
        "a record without fields": save_safetensors(tensors, {"config": {}}),
    }


FOREIGN = [
    "empty",
    "text",
    "pickle",
    "torch",
    "half",
    "header only",
    "all but a byte",
    "a byte more",
    "no record",
    "a record of another kind",
    "a record without fields",
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_checkpoint_is_refused(kind, tmp_path):
    "And left where it is."
    good, file = tmp_path / "good", tmp_path / "run"
    fitted(checkpoint=good)
    file.write_bytes(content := foreign_files(good)[kind])
    with pytest.raises(ValueError, match="expected .*checkpoint"):
        fitted(checkpoint=file)
    assert file.read_bytes() == content


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_model_is_refused(kind, trained, tmp_path):
    "A truncated file, another program's, or one of ours that is something else: ValueError with the path."
    trained.save(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(foreign_files(tmp_path / "model.safetensors")[kind])
    with pytest.raises(ValueError, match="expected .*model.safetensors"):
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
