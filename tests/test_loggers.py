"Logs of epochs: a table, also where a training is interrupted, and TensorBoard."

import math
import sys
import types

import numpy as np
import pandas
import pytest

from gib_nb import Callback, ClassifierTrainer, CSVLogger, TensorBoardLogger
from tests.test_checkpoint import Interrupt, after
from tests.training import fitted, make_graphs


class Seen(Callback):
    "What a callback gets of the validation graphs."

    def __init__(self):
        self.logs = []

    def on_epoch_end(self, state, logs):
        self.logs.append(dict(logs))


def test_a_callback_sees_the_metric_that_was_chosen():
    for metric in ("roc_auc", "accuracy"):
        seen, graphs = Seen(), make_graphs()
        trainer = fitted(metric=metric, callbacks=seen)
        assert [row[metric] for row in seen.logs] == [row[metric] for row in trainer.history["epochs"]]
        ClassifierTrainer("gin", hidden_channels=8, epochs=2, metric=metric).fit(
            graphs[:18], valid=graphs[18:], callbacks=seen
        )
        assert all({"loss", metric} <= row.keys() for row in seen.logs) and len(seen.logs) == 6


def test_rows_of_a_table(tmp_path):
    "One for each epoch, with the mean of the losses of its steps and all that was measured."
    trainer = fitted(metric="roc_auc", callbacks=CSVLogger(tmp_path / "logs" / "log.csv"))
    table, steps = pandas.read_csv(tmp_path / "logs" / "log.csv"), pandas.DataFrame(trainer.history["steps"])
    assert table.epoch.tolist() == [0, 1, 2, 3] and table.seed.tolist() == [0] * 4
    assert table.phase.tolist() == ["pretrain", *["bottleneck"] * 3]
    assert table.lr.tolist() == [0.003] * 4 and table.loss_weight.tolist() == [0, 0.5, 1, 1]
    for name in ("loss", "classification", "connectivity", "mutual_information", "mean_node_mask"):
        means = steps.groupby("epoch", sort=True)[name].apply(lambda values: values.mean(skipna=False))
        np.testing.assert_allclose(table[f"train_{name}"], means, rtol=1e-6)
    for row, epoch in zip(table.to_dict("records"), trainer.history["epochs"]):
        assert all(row[f"valid_{name}"] == value for name, value in epoch.items() if name != "epoch")


@pytest.mark.parametrize(
    "at", [[7, 2, 8], *(pytest.param(at, marks=pytest.mark.slow) for at in ([1], [5], [6], [17]))], ids=str
)
def test_a_table_goes_on_without_repeated_rows(at, tmp_path):
    "Cut off in the first epoch, within one, at its last step, several times, and in the second attempt."
    settings = dict(threshold=0.0, max_restarts=1)
    fitted(callbacks=CSVLogger(tmp_path / "whole.csv"), **settings)
    for stop in at:
        with pytest.raises(Interrupt):
            fitted(callbacks=[CSVLogger(tmp_path / "log.csv"), after(stop)], checkpoint=tmp_path / "run", **settings)
    fitted(callbacks=CSVLogger(tmp_path / "log.csv"), checkpoint=tmp_path / "run", **settings)
    assert (tmp_path / "log.csv").read_text() == (tmp_path / "whole.csv").read_text()
    assert pandas.read_csv(tmp_path / "log.csv").seed.tolist() == [0] * 4 + [1000] * 4


def test_a_row_that_was_written_before_the_checkpoint_is_not_repeated(tmp_path):
    "A process that is killed between the two."

    class Killed(Callback):
        def on_save_checkpoint(self, state):
            if state.epoch == 2:
                raise Interrupt

    log = tmp_path / "log.csv"
    with pytest.raises(Interrupt):
        fitted(callbacks=[CSVLogger(log), Killed()], checkpoint=tmp_path / "run")
    assert len(pandas.read_csv(log)) == 2
    with open(log, "a") as file:
        file.write("0,2,bottle")  # and a line that was not finished
    fitted(callbacks=[CSVLogger(log), Callback()], checkpoint=tmp_path / "run")
    assert pandas.read_csv(log).epoch.tolist() == [0, 1, 2, 3]


def test_trainings_in_one_table(tmp_path):
    "One that is repeated replaces its rows; another seed adds its own."
    log, graphs = tmp_path / "log.csv", make_graphs()
    for seed in (0, 1, 0):
        network = ClassifierTrainer("gin", hidden_channels=8, epochs=3, batch_size=8, seed=seed)
        network.fit(graphs[:18], valid=graphs[18:], callbacks=CSVLogger(log))
    table = pandas.read_csv(log)
    assert sorted(zip(table.seed, table.epoch)) == [(seed, epoch) for seed in (0, 1) for epoch in range(3)]
    assert table[table.seed == 0].valid_loss.tolist() == network.losses


def test_other_files_are_refused(tmp_path):
    log = tmp_path / "log.csv"
    fitted(callbacks=CSVLogger(log))
    with pytest.raises(ValueError, match="expected the columns of .*; choose another file"):
        fitted(callbacks=CSVLogger(log), metric="roc_auc", seed=1)
    (tmp_path / "other.csv").write_text("smiles,y\nCC,1\n")
    with pytest.raises(ValueError, match="expected a log of CSVLogger, or a new file .*smiles, y"):
        fitted(callbacks=CSVLogger(tmp_path / "other.csv"))
    with pytest.raises(ValueError, match="expected a file for the log"):
        fitted(callbacks=CSVLogger(tmp_path))


# --- TensorBoard


class Writer:
    "What `SummaryWriter` would be told."

    all = []

    def __init__(self, folder, purge_step):
        self.folder, self.purge_step, self.points, self.closed = folder, purge_step, [], False
        Writer.all.append(self)

    def add_scalar(self, name, value, step):
        self.points.append((name, value, step))

    def flush(self):
        pass

    def close(self):
        self.closed = True


def test_curves_of_tensorboard(tmp_path, monkeypatch):
    "A run for each attempt; one that is resumed goes on, and removes what was written after its checkpoint."
    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    monkeypatch.setattr(Writer, "all", [])
    with pytest.raises(Interrupt):
        fitted(callbacks=[TensorBoardLogger(tmp_path / "board"), after(8)], checkpoint=tmp_path / "run")
    trainer = fitted(callbacks=[TensorBoardLogger(tmp_path / "board"), Callback()], checkpoint=tmp_path / "run")
    first, second = Writer.all
    assert first.folder == second.folder == str(tmp_path / "board" / "seed-0")
    assert (first.purge_step, second.purge_step, second.closed) == (0, 2, True)
    points = {(name, step): value for writer in Writer.all for name, value, step in writer.points}
    for epoch in trainer.history["epochs"]:
        assert points["valid/loss", epoch["epoch"]] == epoch["loss"]
        assert points["valid/mean_node_mask", epoch["epoch"]] == epoch["mean_node_mask"]
    assert points["lr", 0] == 0.003 and ("train/loss", 3) in points and ("train/mutual_information", 0) not in points
    assert not any(math.isnan(value) for value in points.values())


def test_without_tensorboard(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ImportError, match=r"install it with: pip install 'gib-nb\[log\]'"):
        TensorBoardLogger(tmp_path)
