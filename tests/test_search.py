"""Searches: what a space means, what chooses, what is kept, and what the command says."""

import csv
import dataclasses
import shlex
import sys

import pytest

from gib_nb.cli import main
from gib_nb.cli.main import build_parser
from gib_nb.cli.options import given_settings
from gib_nb.data.synthetic import motif_dataset
from gib_nb.experiments import search as module
from gib_nb.experiments import sweep as sweeps
from gib_nb.experiments.search import (
    Choices,
    PruneTrial,
    Range,
    best_trial,
    objective_cost,
    objective_name,
    parse_space,
    reached,
    search,
)
from gib_nb.experiments.sweep import sweep, to_dataframe
from gib_nb.train.trainer import GIBTrainer

optuna = pytest.importorskip("optuna")
QUICK = dict(epochs=3, pretrain_epochs=1, rampup_epochs=1, num_steps=2, max_restarts=0, batch_size=24)
SPACE = QUICK | dict(beta=[0.01, 1.0], lr=[1e-4, 1e-2], hidden_channels=8)
WORDS = "--epochs 3 --pretrain-epochs 1 --rampup-epochs 1 --num-steps 2 --max-restarts 0 --hidden-channels 8".split()


@pytest.fixture(scope="module")
def few():
    return motif_dataset(40)


@pytest.fixture
def no_measures(monkeypatch):
    "Test scores are not what is tested here."
    monkeypatch.setattr(sweeps, "measure_run", lambda trainer, data: {"score": 0.5, "collapse": None})


@pytest.fixture
def fits(monkeypatch):
    "A line for each training."
    real, calls = GIBTrainer.fit, []

    def noted(self, *args, **settings):
        calls.append((self.config.beta, self.config.optim.lr))
        return real(self, *args, **settings)

    monkeypatch.setattr(GIBTrainer, "fit", noted)
    return calls


@pytest.mark.parametrize(
    "given, axis",
    [
        ([0.01, 1.0], Range(0.01, 1.0, log=True)),
        ([1, 0.1], Range(0.1, 1.0, log=True)),
        ([0.2, 1.0], Range(0.2, 1.0)),
        ([0, 1], Range(0.0, 1.0)),
        ([0.0, 0.1, 1.0], Choices([0.0, 0.1, 1.0])),
    ],
)
def test_two_numbers_are_a_range_and_more_are_choices(given, axis):
    assert parse_space({"beta": given, "epochs": 5}) == ({"epochs": 5}, {"beta": axis})
    assert all(type(end) is float for end in axis.values)


def test_integers_stay_integers_and_words_are_choices():
    space = dict(num_steps=[1, 50], batch_size=[16, 64], readout=["mean", "sum"], memory_bank=[True, False])
    space |= dict(patience=[None, 5], encoder=["gin"], lr=[0.1, 0.1])
    fixed, axes = parse_space(space)
    assert fixed == {"encoder": "gin", "lr": 0.1}
    assert axes["num_steps"] == Range(1, 50, True, True) and axes["batch_size"] == Range(16, 64, False, True)
    assert axes["readout"] == Choices(["mean", "sum"]) and axes["memory_bank"] == Choices([True, False])
    assert axes["patience"] == Choices([None, 5])
    trial = optuna.trial.FixedTrial({"num_steps": 7, "beta": 0.0123456})
    assert axes["num_steps"].suggest(trial, "num_steps") == 7 and Range(0.01, 1.0).suggest(trial, "beta") == 0.0123
    assert Range(0.012345, 1.0).suggest(trial, "beta") == 0.012345  # rounding does not leave the range


@pytest.mark.parametrize(
    "space, words",
    [
        ({"beta": 1.0}, "expected several values of a setting"),
        ({"beta": []}, "at least one value of beta"),
        ({"beta": [0, 1], "seed": [0, 1]}, "expected one seed for all trials of a search .got 0, 1"),
        ({"beta": [0, 1], "fold": [0, 1, 2]}, "one fold"),
        ({"beta": [0, 1], "metric": ["loss", "roc_auc"]}, "one metric"),
        ({"num_steps": [1.5, 3]}, "integers as the ends"),
        ({"beta": [-1.0, 1.0]}, "beta as a number"),
        ({"betas": [0, 1]}, "settings among"),
        ({"class_weight": [None, "balanced"]}, "to compare class weights by"),
    ],
)
def test_a_space_that_cannot_work_is_refused_before_anything_is_trained(few, fits, tmp_path, space, words):
    with pytest.raises(ValueError, match=words):
        search(QUICK | space, few, tmp_path, 2, progress=False)
    assert not fits and not list(tmp_path.iterdir())


def test_trials_are_compared_by_what_can_be_compared():
    assert objective_name(["lr"], "loss") == "loss"
    assert objective_name(["lr", "beta"], "loss") == objective_name(["prior_prob"], "loss") == "classification"
    assert objective_name(["beta"], "roc_auc") == "roc_auc"
    assert [objective_cost(name, 0.7) for name in ("loss", "classification", "rmse", "roc_auc")] == [
        0.7,
        0.7,
        0.7,
        -0.7,
    ]


def test_what_a_trial_reached_is_that_of_the_chosen_epoch():
    history = {"best_epoch": 1, "epochs": [{"epoch": 0, "loss": 0.1}, {"epoch": 1, "loss": 0.3}]}
    assert reached(history, "loss") == 0.3
    for broken in ({"best_epoch": -1}, {"epochs": [{"epoch": 1, "loss": None}]}):
        with pytest.raises(ValueError, match="expected an epoch with a finite loss"):
            reached(history | broken, "loss")


def test_the_best_trial_is_complete_and_did_not_collapse():
    rows = [
        {"trial": 0, "state": "complete", "objective": 0.1, "collapse": "all masks are equal"},
        {"trial": 1, "state": "complete", "objective": 0.5, "collapse": None},
        {"trial": 2, "state": "complete", "objective": 0.6, "collapse": None},
        {"trial": 3, "state": "pruned"},
    ]

    def best(rows, objective):
        table = to_dataframe(rows)
        table.attrs["objective"] = objective
        return best_trial(table)

    assert best(rows, "loss").trial == 1 and best(rows, "roc_auc").trial == 2
    assert best(rows[:1], "loss").trial == 0 and best(rows[3:], "loss") is None and best([], "loss") is None


@pytest.mark.slow
def test_a_search_is_a_sweep_whose_second_call_computes_what_is_missing(few, no_measures, fits, tmp_path):
    table = search(SPACE, few, tmp_path, 3, progress=False)
    assert table.state.tolist() == ["complete"] * 3 and table.trial.tolist() == [0, 1, 2] and len(fits) == 3
    assert table.beta.between(0.01, 1).all() and table.lr.between(1e-4, 1e-2).all() and table.lr.nunique() == 3
    assert search(SPACE, few, tmp_path, 3, progress=False).equals(table) and len(fits) == 3
    rows = [{name: SPACE[name] for name in QUICK} | {"hidden_channels": 8} for _ in range(3)]
    rows = [row | {"beta": beta, "lr": lr} for row, beta, lr in zip(rows, table.beta, table.lr)]
    swept = sweep(rows, few, tmp_path / "trials", progress=False)  # the same trials, and found again
    assert len(fits) == 3 and swept.score.tolist() == table.score.tolist()
    assert set(table) - set(swept) == {"trial", "state", "objective"}
    for row, history in zip(table.objective, swept.history):
        assert row == reached(history, "classification")
    assert len(search(SPACE, few, tmp_path, 2, progress=False)) == 2 and len(fits) == 3


@pytest.mark.slow
def test_an_interrupted_search_tries_what_it_would_have_tried(few, no_measures, monkeypatch, tmp_path):
    whole = search(SPACE, few, None, 13, progress=False)  # more than the ten random ones of TPE
    real, calls = GIBTrainer.fit, []

    def interrupted(self, *args, **settings):
        calls.append(1)
        if len(calls) in (3, 12):
            raise KeyboardInterrupt
        return real(self, *args, **settings)

    monkeypatch.setattr(GIBTrainer, "fit", interrupted)
    for done in (2, 10):
        with pytest.raises(KeyboardInterrupt):
            search(SPACE, few, tmp_path, 13, progress=False)
        assert len(search(SPACE, few, tmp_path, 13, progress=False, compute=False)) == done
    table = search(SPACE, few, tmp_path, 13, progress=False)
    assert len(calls) == 15 and table[["beta", "lr", "state"]].equals(whole[["beta", "lr", "state"]])
    assert whole.beta.nunique() > 10


def test_other_seeds_data_and_spaces_are_other_studies(few, no_measures, fits, tmp_path):
    spaces = [SPACE, SPACE | {"seed": 1}, SPACE | {"lr": [1e-4, 1e-3]}]
    tables = [search(space, few, tmp_path, 1, progress=False) for space in spaces]
    search(SPACE, motif_dataset(40, seed=1), tmp_path, 1, progress=False)
    assert len(fits) == 4 and tables[0].beta[0] != tables[1].beta[0]


class Behind(optuna.pruners.BasePruner):
    "Prunes every second trial in its second epoch with the full loss."

    def prune(self, study, trial):
        return trial.number % 2 == 1 and trial.last_step >= 1


def test_a_pruned_trial_ends_early_and_is_not_tried_again(few, no_measures, fits, tmp_path):
    space = SPACE | {"epochs": 6}
    table = search(space, few, tmp_path, 4, progress=False, pruner=Behind())
    assert table.state.tolist() == ["complete", "pruned"] * 2 and table.objective.isna().tolist() == [False, True] * 2
    assert table.score.isna().tolist() == [False, True] * 2 and best_trial(table).trial in (0, 2)
    search(space, few, tmp_path, 4, progress=False, pruner=Behind())
    assert len(fits) == 4 and len(list((tmp_path / "trials").iterdir())) == 2


def test_the_pruner_sees_the_epochs_with_the_full_loss_of_the_first_attempt():
    told = []

    class Trial:
        report = staticmethod(lambda value, step: told.append((value, step)))
        should_prune = staticmethod(lambda: len(told) == 2)

    @dataclasses.dataclass
    class State:
        loss_weight: float
        seed: int = 0
        config = type("Config", (), {"seed": 0})

    callback = PruneTrial(Trial, "accuracy")
    for state, value in ((State(0.0), 0.1), (State(0.5), 0.2), (State(1.0, seed=1000), 0.3), (State(1.0), 0.4)):
        callback.on_epoch_end(state, {"accuracy": value, "loss": 9.0})
    with pytest.raises(optuna.TrialPruned):
        callback.on_epoch_end(State(1.0), {"accuracy": 0.5, "loss": 9.0})
    assert told == [(-0.4, 0), (-0.5, 1)]


def test_the_median_prunes_by_itself(few, monkeypatch, tmp_path):
    "Six trials whose course is known: the sixth is the first that can be pruned, and is behind."

    def course(number, callbacks, **settings):
        for epoch in range(3):
            state = type("State", (), {"loss_weight": 1.0, "seed": 0, "config": type("Config", (), {"seed": 0})})
            callbacks.on_epoch_end(state, {"loss": float(number)})
        return {"history": {"best_epoch": 0, "epochs": [{"epoch": 0, "loss": float(number)}]}}

    numbers = iter(range(9))
    monkeypatch.setattr(module, "train_trial", lambda **settings: course(next(numbers), **settings))
    monkeypatch.setattr(module, "trial_key", lambda *what: "key")
    table = search(QUICK | {"lr": [1e-3, 1e-2]}, few, None, 7, progress=False)
    assert table.state.tolist() == ["complete"] * 5 + ["pruned"] * 2 and best_trial(table).objective == 0


def test_a_failed_trial_costs_no_other_and_is_tried_again(few, no_measures, monkeypatch, tmp_path):
    real, calls = GIBTrainer.fit, []

    def fails(self, *args, **settings):
        calls.append(1)
        if len(calls) == 2:
            raise ValueError("no")
        return real(self, *args, **settings)

    monkeypatch.setattr(GIBTrainer, "fit", fails)
    table = search(SPACE, few, tmp_path, 3, progress=False)
    assert table.state.tolist() == ["complete", "failed", "complete"] and table.error[1] == "ValueError: no"
    again = search(SPACE, few, tmp_path, 3, progress=False)
    assert again.state.tolist() == ["complete"] * 3 and len(calls) == 4
    assert again.beta.tolist() == table.beta.tolist()


@pytest.mark.slow
def test_test_graphs_choose_nothing(few, monkeypatch):
    "With the labels of the test graphs turned around, every trial and the choice are the same; only test scores differ."
    graphs = [graph.clone() for graph in few.graphs]
    turned = dataclasses.replace(few, graphs=graphs)
    for graph in turned.test:
        graph.y = 1 - graph.y
    measure = lambda trainer, data: {"score": float(data.test[0].y), "collapse": None}
    monkeypatch.setattr(sweeps, "measure_run", measure)
    one, other = (search(SPACE | {"epochs": 8}, data, None, 3, progress=False) for data in (few, turned))
    assert one.score.tolist() != other.score.tolist()
    same = ["beta", "lr", "state", "objective", "trial"]
    assert one[same].equals(other[same]) and best_trial(one).trial == best_trial(other).trial


def test_without_optuna(few, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(OSError, match=r"pip install 'gib-nb\[search\]'"):
        search(SPACE, few, tmp_path, 1)
    assert main(["sweep", "motif", "--beta", "0", "1", "--search", "2", "--out", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("gib-nb sweep: expected Optuna for a search") and said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_optuna_speaks_again_afterwards(few):
    before = optuna.logging.get_verbosity()
    with pytest.raises(ValueError):
        search({"beta": 1.0}, few, None)
    assert optuna.logging.get_verbosity() == before


@pytest.mark.parametrize(
    "words, code, said",
    [
        (["--jobs", "2"], 2, "expected --search without workers"),
        (["--seed", "0", "1"], 1, "expected one seed"),
        (["--search", "0"], 2, "expected an integer ≥ 1"),
        (["--lr", "-1", "1"], 1, "lr as a number"),
    ],
)
def test_the_command_says_what_is_wrong(few, monkeypatch, tmp_path, capsys, words, code, said):
    monkeypatch.setattr(sweeps, "_loaded", lambda name, root, seed: few)
    command = ["sweep", "motif", "--search", "2", "--beta", "0", "1", "--out", str(tmp_path / "out"), *words]
    assert main(command) == code and said in capsys.readouterr().err
    assert main(["sweep", "motif", "MUTAG", "--search", "2", "--beta", "0", "1"]) == 2


def test_the_command_ends_with_one_that_trains_the_best(few, no_measures, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sweeps, "_loaded", lambda name, root, seed: few)
    words = [
        "--beta",
        "0.01",
        "1",
        "--no-memory-bank",
        "--class-weight",
        "none",
        "--readout",
        "mean",
        "sum",
        "--fold",
        "2",
    ]
    command = ["sweep", "motif", "--no-progress", "--search", "3", "--out", str(tmp_path), *WORDS, *words]
    assert main(command) == 0
    said = capsys.readouterr().out
    rows = list(csv.DictReader(open(tmp_path / "sweep.csv")))
    best = min(rows, key=lambda row: float(row["objective"]))
    assert "3 trials, of which 0 were pruned" in said and {row["fold"] for row in rows} == {"2"}
    assert f"trial {best['trial']}, with the classification loss" in said
    line = next(line for line in said.splitlines() if line.startswith("train it"))
    assert line.startswith("train it on the data's own split with: gib-nb train motif")
    args = build_parser().parse_args(shlex.split(line.partition(": gib-nb ")[2]))
    given = given_settings(args)
    assert args.dataset == "motif" and not given["memory_bank"] and given["class_weight"] is None
    assert given["beta"] == float(best["beta"]) and given["readout"] == best["readout"] and given["epochs"] == 3


def test_a_search_of_a_method(few, no_measures, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sweeps, "_loaded", lambda name, root, seed: few)
    words = "--method two_stage --hidden-channels 8 --epochs 4 6 --max-restarts 0 --metric accuracy --search 2".split()
    assert main(["sweep", "motif", "--no-progress", "--out", str(tmp_path), *words]) == 0
    rows = list(csv.DictReader(open(tmp_path / "sweep.csv")))
    assert [int(row["pretrain_epochs"]) for row in rows] == [int(row["epochs"]) // 2 for row in rows]
    assert "gib-nb train motif --method two_stage" in capsys.readouterr().out
