"""Trials that are chosen one after the other by Optuna, from what the trials before them reached on validation graphs.

A search is a sweep whose settings are not a grid but a space. Its study lies in the result folder, in Optuna's journal;
the seed of the sampler is that of the configuration and the number of the trial, so an interrupted search, continued,
tries what it would have tried.
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
)  # a search that chose one of these would choose luck, or compare unlike
IN_LOSS = ("alpha", "beta", "information", "prior_prob", "mask_on")  # what else than the model the loss depends on
MOST_CHECKED = 4096  # combinations of ends and choices that are tried before anything is trained


@dataclass(frozen=True)
class Range:
    "Numbers from one end to the other, both included."

    low: float
    high: float
    log: bool = False  # whether their logarithms are spread evenly
    integer: bool = False

    @property
    def values(self) -> list:
        "What a check of the space tries: the ends."
        return [self.low, self.high]

    def suggest(self, trial, name: str):
        "A number; one with a point has three digits, so that it can be written down."
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
    """What is fixed and what is searched. A range is logarithmic where both ends are > 0 and their ratio is ≥ 10.
    ValueError for a setting without values, for several seeds, folds, metrics or devices, and where nothing is left to search."""
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
) -> str:  # the measurement of the validation graphs that trials are compared by
    """The metric of the configuration. The loss contains α L_con and β L_MI, which cannot be compared between trials
    where those differ: then it is L_cls alone. ValueError for class weights, which change L_cls too."""
    if metric != "loss":
        return metric
    if "class_weight" in axes:
        raise ValueError("expected a metric, such as metric='roc_auc', to compare class weights by (got the loss)")
    return "classification" if any(name in axes for name in IN_LOSS) else "loss"


def objective_cost(name: str, value: float) -> float:
    "A number that is lower where the objective is better."
    return value if name == "classification" else cost(name, value)


class PruneTrial(Callback):
    """Tells Optuna what the validation graphs say after each epoch with the full loss, and ends a trial that falls behind.
    Only of the first attempt: after a restart the epochs would be counted anew."""

    def __init__(self, trial, objective: str):
        self.trial, self.objective, self.step = trial, objective, 0

    def on_epoch_end(self, state, logs):
        "TrialPruned where Optuna's pruner says so."
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
    "The objective in the epoch that was chosen; ValueError where no epoch was good enough to be chosen."
    found = [row[objective] for row in history["epochs"] if row["epoch"] == history["best_epoch"]]
    if not found or found[0] is None:
        raise ValueError(f"expected an epoch with a finite {objective} of the validation graphs (got none)")
    return found[0]


@contextlib.contextmanager
def _optuna():
    "Optuna, quiet as long as we use it; OSError without it."
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
        "The settings at all ends of the space; ValueError for some that cannot work."
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
        "The study of this space, these data and this code, as it is in the folder."
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
        "Ask for settings, train, tell what was found."
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
        except Exception as error:  # one failed trial must not cost the others
            row |= {"state": "failed", "error": f"{type(error).__name__}: {error}"}
        except BaseException:
            self.study.tell(trial, state=state)  # without a row: the next call tries it again
            raise
        trial.set_user_attr("row", row)
        self.study.tell(trial, value, state=state)
        return row

    def train(self, settings: dict, trial) -> dict:
        "A row with its history: that of a sweep or an earlier trial with the same settings, or a new one, which is kept."
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
    trials: int = 20,  # in all, with those in the folder
    *,
    settings_of=dict,  # chosen settings → settings of the training, such as those of a recipe
    progress: bool = True,  # show a bar with the time left
    compute: bool = True,  # False: only what is in the folder
    pruner=None,  # of Optuna; None: `MedianPruner()`
    root=None,  # folder with published data
):  # pandas DataFrame: a row for each trial as from `sweep`, with its "trial", "state" and "objective"; attrs["objective"] names that
    """Search a space of settings by what trials reach on validation graphs; test graphs are measured and choose nothing.
    The state of a trial is complete, pruned or failed; only the last is tried again by the next call. Stopped at any
    time, it goes on with the same call. OSError without Optuna; ValueError for a space that cannot work, before anything is trained."""
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
):  # its row, as a Series; None where no trial was completed
    "The trial with the best objective on validation graphs among those that did not collapse, or among all that were completed."
    complete = table[table["state"] == "complete"] if len(table) else table
    if not len(complete):
        return None
    costs = [objective_cost(table.attrs["objective"], value) for value in complete["objective"]]
    collapsed = complete["collapse"].notna() if "collapse" in complete else [False] * len(complete)
    return complete.iloc[min(range(len(costs)), key=lambda place: (bool(list(collapsed)[place]), costs[place]))]
