"""Search of settings with Optuna: each trial is chosen from the validation results of the trials before it.

A search is a sweep over a space instead of a grid. Its study is stored in the result folder, in Optuna's journal format.
The sampler is seeded by the seed of the configuration and the number of the trial, so an interrupted search continues
with the trials that it would have made.
"""

import contextlib
import json
import math
import pathlib
from dataclasses import asdict, dataclass

from gib_nb.experiments.sweep import (
    _check_settings,
    _choices,
    _edge_fields,
    _sweep_data,
    grid,
    read_trial,
    to_dataframe,
    train_trial,
    trial_key,
)
from gib_nb.train.callbacks import Callback
from gib_nb.train.config import configure, options
from gib_nb.train.metrics import cost

JOURNAL = "search.log"  # Optuna's study, in the folder of a search
ONE_VALUE = (
    "seed",
    "fold",
    "metric",
    "device",
)  # a search over one of these would select lucky trials, or compare what is not comparable
IN_LOSS = ("alpha", "beta", "information", "prior_prob", "mask_on")  # settings that change the loss itself
MOST_CHECKED = 4096  # combinations of ends and choices that are checked before anything is trained


@dataclass(frozen=True)
class Range:
    "The numbers between two ends, both included."

    low: float
    high: float
    log: bool = False  # whether their logarithms are sampled uniformly
    integer: bool = False

    @property
    def values(self) -> list:
        "The values that a check of the space tries: both ends."
        return [self.low, self.high]

    def suggest(self, trial, name: str):
        "A number; a float has three significant digits, so that it is easy to write down."
        if self.integer:
            return trial.suggest_int(name, self.low, self.high, log=self.log)
        value = float(f"{trial.suggest_float(name, self.low, self.high, log=self.log):.3g}")
        return min(max(value, self.low), self.high)


@dataclass(frozen=True)
class Choices:
    "A few values without an order."

    values: list

    def suggest(self, trial, name: str):
        "One of the values."
        return trial.suggest_categorical(name, self.values)


def parse_space(
    space: dict,  # setting → a value, or a list: two numbers are the ends of a range, anything else choices
) -> tuple[dict, dict[str, Range | Choices]]:  # settings that are fixed, and those that are searched
    """The fixed and the searched settings. A range is logarithmic if both ends are > 0 and their ratio is ≥ 10.
    ValueError for a setting without values, for several seeds, folds, metrics, or devices, and if nothing is left to search."""
    fixed, axes, known = {}, {}, options()
    for name, given in space.items():
        values = _choices(given)
        values = [value for place, value in enumerate(values) if value not in values[:place]]
        if not values:
            raise ValueError(f"expected at least one value of {name} (got none)")
        if len(values) == 1:
            fixed[name] = values[0]
        elif name in ONE_VALUE:
            raise ValueError(f"expected one {name} for all trials of a search (got {', '.join(map(str, values))})")
        elif len(values) == 2 and all(type(value) in (int, float) for value in values):
            axes[name] = _range(*sorted(values), known[name].type is int if name in known else False)
        else:
            axes[name] = Choices(values)
    if not axes:
        raise ValueError("expected several values of a setting, which are the space of the search (got one of each)")
    return fixed, axes


def _range(low, high, integer: bool) -> Range:
    if integer and not all(float(end).is_integer() for end in (low, high)):
        raise ValueError(f"expected integers as the ends of a range of integers (got {low} and {high})")
    kind = int if integer else float
    return Range(kind(low), kind(high), bool(low > 0 and high / low >= 10), integer)


def objective_name(
    axes,  # names of the settings that are searched
    metric: str,  # of the configuration
) -> str:  # the measure of the validation graphs by which trials are compared
    """The metric of the configuration. If a searched setting changes the terms α L_con and β L_MI of the loss, losses cannot be
    compared, and L_cls alone is used. ValueError if class weights are searched by the loss, since they change L_cls too."""
    if metric != "loss":
        return metric
    if "class_weight" in axes:
        raise ValueError("expected a metric, such as metric='roc_auc', to compare class weights by (got the loss)")
    return "classification" if any(name in axes for name in IN_LOSS) else "loss"


def objective_cost(name: str, value: float) -> float:
    "A number that is lower if the objective is better."
    return value if name == "classification" else cost(name, value)


class PruneTrial(Callback):
    """Reports the objective on the validation graphs to Optuna after each epoch with the full loss, and ends a trial that falls behind.
    This applies only to the first attempt, since the count of epochs begins again after a restart."""

    def __init__(self, trial, objective: str):
        self.trial, self.objective, self.step = trial, objective, 0

    def on_epoch_end(self, state, logs):
        "Report the objective; raises TrialPruned if Optuna's pruner decides so."
        import optuna

        if state.loss_weight < 1 or state.seed != state.config.seed:
            return
        self.trial.report(objective_cost(self.objective, logs[self.objective]), self.step)
        self.step += 1
        if self.trial.should_prune():
            raise optuna.TrialPruned


def reached(
    history: dict,  # as `GIBTrainer.history`
    objective: str,
) -> float:  # on the validation graphs
    "The objective in the best epoch; ValueError if there is none with a finite objective."
    found = [row[objective] for row in history["epochs"] if row["epoch"] == history["best_epoch"]]
    if not found or found[0] is None:
        raise ValueError(f"expected an epoch with a finite {objective} of the validation graphs (got none)")
    return found[0]


@contextlib.contextmanager
def _optuna():
    "A context with Optuna, whose messages are turned off; OSError if it is not installed."
    try:
        import optuna
    except ImportError:
        raise OSError("expected Optuna for a search; install it with: pip install 'gib-nb[search]'") from None
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield optuna
    finally:
        optuna.logging.set_verbosity(before)


class _Search:
    "A space with its data, its study, and the rows that the study holds."

    def __init__(self, optuna, space, data, folder, settings_of, pruner, root):
        self.optuna, self.folder, self.settings_of = (
            optuna,
            None if folder is None else pathlib.Path(folder),
            settings_of,
        )
        self.fixed, self.axes = parse_space(space)
        names, data_of, more = _sweep_data(data, root)
        if len(names) != 1:
            raise ValueError(f"expected one data set for a search (got {', '.join(names)})")
        self.name, self.more = names[0], more | {"root": root}
        corners = self.corners()
        seed = corners[0].get("seed", 0)
        data = data_of(self.name, seed)
        self.config = configure(
            **{name: value for name, value in corners[0].items() if name not in ("dataset", "fold")}
        )
        self.objective = objective_name(self.axes, self.config.metric)
        self.graphs, self.content, self.trials = data.graphs, data.fingerprint(), corners
        self.study = self.make_study(pruner)

    def corners(self) -> list[dict]:
        "The settings at all ends of the space; ValueError if some of them are invalid."
        sizes = {name: axis.values for name, axis in self.axes.items()}
        while math.prod(map(len, sizes.values())) > MOST_CHECKED:
            longest = max(sizes, key=lambda name: len(sizes[name]))
            sizes[longest] = sizes[longest][:1]
        trials = [self.complete(chosen) for chosen in grid(**sizes)]
        _check_settings(trials)
        return trials

    def complete(self, chosen: dict) -> dict:
        "All settings of a trial."
        return {"dataset": self.name} | self.settings_of(self.fixed | chosen)

    def make_study(self, pruner):
        "The study of this space, data, and code, continued from the folder if it is there."
        optuna, storage = self.optuna, None
        if self.folder is not None:
            from optuna.storages.journal import JournalFileBackend

            self.folder.mkdir(parents=True, exist_ok=True)
            storage = optuna.storages.JournalStorage(JournalFileBackend(str(self.folder / JOURNAL)))
        what = {"fixed": self.fixed, "axes": {name: asdict(axis) for name, axis in self.axes.items()}}
        key = trial_key(search, what | {"first": self.trials[0]}, self.content)
        pruner = optuna.pruners.MedianPruner() if pruner is None else pruner
        return optuna.create_study(storage=storage, study_name=key, load_if_exists=True, pruner=pruner)

    def rows(self) -> dict[int, dict]:
        "Number → row of the trials that have ended."
        ended = [trial for trial in self.study.get_trials(deepcopy=False) if trial.state.is_finished()]
        return {row["trial"]: row for trial in ended if (row := trial.user_attrs.get("row"))}

    def run(self, number: int) -> dict:
        "Ask the study for settings, train, and tell it the result."
        import numpy as np

        optuna, states = self.optuna, self.optuna.trial.TrialState
        seed = int(np.random.SeedSequence([self.config.seed, number]).generate_state(1)[0])
        self.study.sampler = optuna.samplers.TPESampler(seed=seed)
        trial = self.study.ask()
        settings = self.complete({name: axis.suggest(trial, name) for name, axis in self.axes.items()})
        row, value, state = settings | {"trial": number}, None, states.FAIL
        try:
            found = self.train(settings, trial)
            value = reached(found["history"], self.objective)
            row |= {name: each for name, each in found.items() if name != "history"}
            row |= {"state": "complete", "objective": value}
            value, state = objective_cost(self.objective, value), states.COMPLETE
        except optuna.TrialPruned:
            row, state = row | {"state": "pruned"}, states.PRUNED
        except Exception as error:  # one failed trial must not stop the others
            row |= {"state": "failed", "error": f"{type(error).__name__}: {error}"}
        except BaseException:
            self.study.tell(trial, state=state)  # without a row: the next call tries it again
            raise
        trial.set_user_attr("row", row)
        self.study.tell(trial, value, state=state)
        return row

    def train(self, settings: dict, trial) -> dict:
        "A row with its history: a stored one from a sweep or an earlier trial with the same settings, or a new one, which is stored."
        from gib_nb.utils.files import write_atomically

        path = None
        if self.folder is not None:
            path = self.folder / "trials" / f"{trial_key(train_trial, settings, self.content)}.json"
            if stored := read_trial(path):
                return stored
        found = settings | train_trial(**settings, callbacks=PruneTrial(trial, self.objective), **self.more)
        if path is not None:
            write_atomically(path, json.dumps(found).encode())
        return found


def search(
    space: dict,  # settings of `GIBConfig`, and "fold", as in `parse_space`
    data="motif",  # a name for `load_dataset`, a `GraphDataset`, or a list of graphs
    folder="search",  # where the study and finished trials are stored and found again; None stores nothing
    trials: int = 20,  # in total, with those in the folder
    *,
    settings_of=dict,  # chosen settings → all settings of the training, such as those of a recipe
    progress: bool = True,  # show a bar with the time left
    compute: bool = True,  # False: only what is in the folder
    pruner=None,  # of Optuna; None: `MedianPruner()`
    root=None,  # folder with published data
):  # pandas DataFrame: a row for each trial as from `sweep`, with its "trial", "state", and "objective"; attrs["objective"] is the name of the objective
    """Search a space of settings by the results of trials on validation graphs; test graphs are measured but not used to choose.
    The state of a trial is complete, pruned, or failed; the next call tries only failed ones again. After an interruption, the
    same call continues. OSError without Optuna; ValueError for an invalid space, before anything is trained."""
    from tqdm.auto import tqdm

    from gib_nb.data.validate import warn_of_unused_fields

    if not isinstance(trials, int) or isinstance(trials, bool) or trials < 1:
        raise ValueError(f"expected trials as an integer ≥ 1 (got {trials!r})")
    with _optuna() as optuna:
        it = _Search(optuna, space, data, folder, settings_of, pruner, root)
        rows = {number: row for number, row in it.rows().items() if number < trials}
        if compute:
            warn_of_unused_fields(it.graphs, _edge_fields(it.trials, it.graphs))
            missing = [n for n in range(trials) if n not in rows or rows[n]["state"] == "failed"]
            for number in tqdm(
                missing, total=trials, initial=trials - len(missing), desc="trials", disable=not progress
            ):
                rows[number] = it.run(number)
    table = to_dataframe([rows[number] for number in sorted(rows)])
    table.attrs["objective"] = it.objective
    return table


def best_trial(
    table,  # from `search`
):  # its row, as a Series; None if no trial was completed
    "The completed trial with the best objective on validation graphs, among those that did not collapse or, if all did, among all."
    complete = table[table["state"] == "complete"] if len(table) else table
    if not len(complete):
        return None
    costs = [objective_cost(table.attrs["objective"], value) for value in complete["objective"]]
    collapsed = complete["collapse"].notna() if "collapse" in complete else [False] * len(complete)
    return complete.iloc[min(range(len(costs)), key=lambda place: (bool(list(collapsed)[place]), costs[place]))]
