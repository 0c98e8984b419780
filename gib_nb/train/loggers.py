"""Callbacks that log every epoch for other programs: in a CSV table or for TensorBoard."""

import csv
import io
import math
import pathlib

from gib_nb.train.callbacks import Callback
from gib_nb.utils.files import write_atomically


class EpochLogger(Callback):
    "Base class of the loggers: collects the measurements of an epoch and passes them to `write`."

    main_only = True

    def on_train_begin(self, state):
        self.losses = []

    def on_epoch_begin(self, state):
        self.losses = []

    def on_train_batch_end(self, state, losses):
        self.losses.append({name: value.detach() for name, value in losses.items()})

    def on_epoch_end(self, state, logs):
        names = list(self.losses[0]) if self.losses else []
        means = {name: float(sum(each[name] for each in self.losses)) / len(self.losses) for name in names}
        numbers = {"lr": float(state.optimizer.param_groups[0]["lr"]), "loss_weight": float(state.loss_weight)}
        numbers |= {f"train_{name}": value for name, value in means.items()}
        self.write(state, numbers | {f"valid_{name}": value for name, value in logs.items()})

    def write(self, state, numbers: dict[str, float]):
        "Write the learning rate, the loss weight of α and β, the mean losses of the steps, and the validation results of an epoch."
        raise NotImplementedError


class CSVLogger(EpochLogger):
    """Writes a row for each epoch: seed of the attempt, epoch, phase, learning rate, the mean losses of its steps as train_…, and its validation results as valid_….

    A row is identified by its seed and epoch. A resumed training continues the file, a repeated one replaces its rows, and attempts and trainings with other seeds add rows.
    """

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def on_train_begin(self, state):
        super().on_train_begin(state)
        if self.path.is_dir():
            raise ValueError(f"expected a file for the log (got the folder {self.path})")
        if not self.path.is_file():
            return
        columns, *rows = self._rows() or [[]]
        if columns and columns[:3] != ["seed", "epoch", "phase"]:
            raise ValueError(
                f"expected a log of CSVLogger, or a new file (got {self.path} with the columns {', '.join(columns)})"
            )
        kept = [row for row in rows if len(row) == len(columns) and not self._is_repeated(row, state)]
        self._replace([columns, *kept] if kept else [])

    def _rows(self) -> list[list[str]]:
        with open(self.path, encoding="utf-8", newline="") as file:
            return list(csv.reader(file))

    def _is_repeated(self, row, state) -> bool:
        return int(row[0]) == state.seed and int(row[1]) >= state.epoch

    def _replace(self, rows):
        stream = io.StringIO(newline="")
        csv.writer(stream, lineterminator="\n").writerows(rows)
        write_atomically(self.path, stream.getvalue().encode())

    def write(self, state, numbers):
        "Append a row; ValueError for a file with other columns."
        place = {"seed": state.seed, "epoch": state.epoch, "phase": type(state.phase).__name__.lower()}
        columns = list(place | numbers)
        known = self._columns()
        if known and known != columns:
            raise ValueError(
                f"expected the columns of {self.path}: {', '.join(known)} (got {', '.join(columns)}); choose another file"
            )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if not known:
                writer.writerow(columns)
            writer.writerow([*place.values(), *numbers.values()])

    def _columns(self) -> list[str]:
        "The columns of the file; none if it is new."
        if not self.path.is_file():
            return []
        with open(self.path, encoding="utf-8", newline="") as file:
            return next(csv.reader(file), [])


class TensorBoardLogger(EpochLogger):
    "Writes every epoch for TensorBoard, with a separate run for each attempt: seed-0 and so on. `tensorboard --logdir FOLDER` shows them. ImportError without tensorboard."

    def __init__(self, folder):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ImportError(
                "expected TensorBoard for TensorBoardLogger (got none); install it with: pip install 'gib-nb[log]'"
            ) from None
        self.folder, self.make_writer, self.writer = pathlib.Path(folder), SummaryWriter, None

    def on_train_begin(self, state):
        super().on_train_begin(state)
        self.writer = self.make_writer(str(self.folder / f"seed-{state.seed}"), purge_step=state.epoch)

    def write(self, state, numbers):
        "Add a point to each curve, such as train/loss and valid/loss; values that were not measured are left out."
        for name, value in numbers.items():
            if not math.isnan(value):
                self.writer.add_scalar(
                    name.replace("_", "/", 1) if name[:5] in ("train", "valid") else name, value, state.epoch
                )
        self.writer.flush()

    def on_train_end(self, state):
        self.writer.close()
