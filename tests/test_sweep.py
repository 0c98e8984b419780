"""Sweeps: nothing is computed twice, one bad cell costs no other, and what is written can be read again."""

import json
import math
import warnings

import numpy as np
import pytest

from gib_nb.data.spec import DataSpec
from gib_nb.data.synthetic import motif_dataset
from gib_nb.experiments.sweep import (
    code_version,
    grid,
    read_trial,
    require_success,
    round_json,
    run_trials,
    sweep,
    to_dataframe,
    train_trial,
    trial_key,
)
from gib_nb.report.tables import mean_std
from gib_nb.utils.files import environment, write_asset


def noted(x, log):
    "A cell that leaves a line wherever it ran."
    with open(log, "a") as lines:
        lines.write(f"{x}\n")
    if x == 13:
        raise ValueError("13 is unlucky")
    return {"y": 2 * x, "history": [x, x]}


def calls(log):
    return log.read_text().split() if log.exists() else []


def test_grid_is_every_combination_in_order():
    assert grid(a=[1, 2], b=("x", "y"), c=3) == [{"a": a, "b": b, "c": 3} for a in (1, 2) for b in ("x", "y")]
    assert grid() == [{}]
    with pytest.raises(ValueError, match="at least one value of seed"):
        grid(seed=[])


def test_a_second_call_computes_only_what_is_missing(tmp_path):
    log, folder = tmp_path / "log", tmp_path / "trials"
    first = run_trials(noted, grid(x=[1, 2], log=str(log)), folder, progress=False)
    second = run_trials(noted, grid(x=[2, 3, 1], log=str(log)), folder, progress=False)
    assert calls(log) == ["1", "2", "3"]
    assert [row["y"] for row in second] == [4, 6, 2] and second[2] == first[0]


def test_without_a_folder_nothing_is_kept(tmp_path):
    log = tmp_path / "log"
    for _ in range(2):
        run_trials(noted, grid(x=[1], log=str(log)), progress=False)
    assert calls(log) == ["1", "1"]


@pytest.mark.slow
def test_two_processes_give_the_same_rows(tmp_path):
    trials = grid(x=range(5), log=str(tmp_path / "log"))
    assert run_trials(noted, trials, tmp_path / "trials", jobs=2, progress=False) == [
        trial | {"y": 2 * trial["x"], "history": [trial["x"]] * 2} for trial in trials
    ]
    assert sorted(calls(tmp_path / "log")) == list("01234")


def test_a_failed_cell_has_its_reason_and_is_tried_again(tmp_path):
    log = tmp_path / "log"
    for turn in range(2):
        with pytest.warns(UserWarning, match="1 of 3 trials failed, the first with ValueError: 13 is unlucky"):
            rows = run_trials(noted, grid(x=[1, 13, 2], log=str(log)), tmp_path / "trials", progress=False)
        assert rows[1]["error"] == "ValueError: 13 is unlucky" and [rows[0]["y"], rows[2]["y"]] == [2, 4]
    assert calls(log) == ["1", "13", "2", "13"]


def test_completed_names_the_first_failure():
    assert require_success([{"x": 1}]) == [{"x": 1}]
    with pytest.raises(RuntimeError, match="expected all trials to succeed .got ValueError: no at {'x': 2"):
        require_success([{"x": 1}, {"x": 2, "error": "ValueError: no"}, {"x": 3, "error": "other"}])


@pytest.mark.parametrize("content", [b"", b'{"y": 1', b"\xff\xfe", b"[1]"])
def test_a_broken_file_counts_as_missing(tmp_path, content):
    log, folder = tmp_path / "log", tmp_path / "trials"
    run_trials(noted, grid(x=[1], log=str(log)), folder, progress=False)
    (file,) = folder.iterdir()
    file.write_bytes(content)
    assert read_trial(file) is None
    assert run_trials(noted, grid(x=[1], log=str(log)), folder, progress=False)[0]["y"] == 2
    assert calls(log) == ["1", "1"]


def test_the_key_sees_function_settings_and_nothing_else():
    def other(x, log):
        return {}

    settings = {"x": 1, "log": "a"}
    assert trial_key(noted, settings) == trial_key(noted, dict(reversed(settings.items())))
    assert len({trial_key(noted, settings), trial_key(noted, settings | {"x": 2}), trial_key(other, settings)}) == 3
    with pytest.raises(ValueError, match="plain numbers and texts"):
        trial_key(noted, {"x": np.zeros(2)})


def test_frame_leaves_histories_out(tmp_path):
    table = to_dataframe(run_trials(noted, grid(x=[1, 2], log=str(tmp_path / "log")), progress=False))
    assert list(table.columns) == ["x", "log", "y"] and table.y.tolist() == [2, 4]


def test_spread():
    assert mean_std([2.0])[0] == 2.0 and math.isnan(mean_std([2.0])[1])  # one number has no spread
    assert mean_std([1.0, float("nan"), 3.0, None]) == (2.0, math.sqrt(2))
    assert all(math.isnan(value) for value in mean_std([None]))


def test_shorten_gives_plain_json():
    given = {"a": np.float32(1 / 3), 1: np.array([1.23456789, np.inf]), "b": (True, None, "x", 7)}
    assert round_json(given) == {"a": 0.3333, "1": [1.235, None], "b": [True, None, "x", 7]}
    json.dumps(round_json(given), allow_nan=False)


def test_asset_has_its_surroundings(tmp_path):
    import gzip

    path = write_asset("demo", {"config": {"seed": 0}}, tmp_path / "demo.json.gz")
    record = json.loads(gzip.decompress(path.read_bytes()))
    assert record["config"] == {"seed": 0} and record["environment"] == environment()
    assert set(record["environment"]["versions"]) >= {"python", "gib_nb", "torch", "torch_geometric"}
    with pytest.raises(ValueError):
        write_asset("demo", {"value": float("nan")}, tmp_path / "demo.json.gz")


class Known:
    "A trainer whose predictions are known."

    def __init__(self, task, answers):
        self.spec, self.answers = DataSpec(task, 2, 1), np.array(answers)

    def predict_proba(self, graphs):
        return self.answers

    def score(self, graphs):
        return float(self.answers)


def labeled(*labels):
    return [type("Graph", (), {"y": y}) for y in labels]


QUICK = dict(epochs=3, pretrain_epochs=1, rampup_epochs=1, hidden_channels=8, num_steps=2, max_restarts=0)


@pytest.fixture(scope="module")
def few():
    return motif_dataset(40)


@pytest.mark.slow
def test_a_sweep_is_a_table_with_the_history_behind_each_row(few, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        table = sweep(grid(beta=[0.0, 0.1], seed=[0, 1], **QUICK), few, tmp_path, progress=False)
        row = train_trial(few.name, 1, data=few, beta=0.1, **QUICK)
    assert (
        table.beta.tolist() == [0.0, 0.0, 0.1, 0.1]
        and table.seed.tolist() == [0, 1, 0, 1]
        and set(table.dataset) == {"motif"}
    )
    assert {
        "score",
        "label_mi_bound",
        "graph_mi",
        "selected_fraction",
        "components",
        "connectivity",
        "collapse",
        "edge_auc",
    } <= set(table)
    assert table.score[3] == row["score"] and table.history[3] == row["history"] and len(row["history"]["epochs"]) == 3
    files = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    again = sweep(grid(beta=[0.1, 0.0], seed=[0, 1], **QUICK), few, tmp_path, progress=False)
    assert {
        path: path.stat().st_mtime_ns for path in tmp_path.iterdir()
    } == files and again.score.tolist() == table.score.tolist()[2:] + table.score.tolist()[:2]


@pytest.mark.slow
def test_only_what_is_there(few, tmp_path):
    sweep(grid(beta=[0.0], **QUICK), few, tmp_path, progress=False)
    table = sweep(grid(beta=[0.0, 0.1, 1.0], **QUICK), few, tmp_path, progress=False, compute=False)
    assert table.beta.tolist() == [0.0] and len(table.history[0]["epochs"]) == 3


@pytest.mark.slow
def test_other_data_are_other_cells(few, tmp_path):
    for data in (few, few.with_split(0.5, 0.25), motif_dataset(40, seed=1)):
        sweep(grid(**QUICK), data, tmp_path, progress=False)
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.slow
def test_folds_are_an_axis(few):
    table = sweep(grid(fold=[0, 9], **QUICK), few, None, progress=False)
    assert table.graphs.tolist() == [4, 4] and table.score.notna().all()


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"beta": -1.0}, "beta as a number"),
        ({"betas": 1.0}, "settings among alpha, .*betas"),
        ({"epochs": 3, "pretrain_epochs": 3}, "epochs > pretrain_epochs"),
        ({"fold": 10}, "fold as a number from 0 to 9"),
    ],
)
def test_a_sweep_that_cannot_work_is_refused_before_it_begins(few, tmp_path, settings, words):
    with pytest.raises(ValueError, match=words):
        sweep([QUICK, settings], few, tmp_path, progress=False)
    assert not list(tmp_path.iterdir())


def test_the_code_version_sees_code_and_not_comments(tmp_path, monkeypatch):
    """A room, one that it imports, one that it does not: what changes the hash, and what does not."""
    import importlib.resources

    files = {
        "a": '"Doc."\nfrom .b import f\n',
        "b": "def f():\n    from gib_nb.c import g\n    return g()\n",
        "c": "def g():\n    return 1\n",
        "d": "x = 1\n",
    }
    monkeypatch.setattr(importlib.resources, "files", lambda package: tmp_path)

    def version(module="gib_nb.a", **changed):
        for name, text in (files | changed).items():
            (tmp_path / f"{name}.py").write_text(text)
        return code_version.__wrapped__(module)

    before = version()
    assert before == version(a='"Other."\n# why\nfrom .b import f\n') == version(d="x = 2\n")
    assert before != version(c="def g():\n    return 2\n") and before != version(b="def f():\n    return 1\n")
    assert version("gib_nb") != version("gib_nb", d="x = 2\n")


@pytest.mark.slow
def test_ten_folds(data_root):
    row = train_trial("MUTAG", fold=3, root=str(data_root), **QUICK)
    assert row["graphs"] in (18, 19) and row["edge_auc"] is None
