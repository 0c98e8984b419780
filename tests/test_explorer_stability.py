"The stability explorer: the shipped sweep, its five outcomes, panels, state, and live training."

import math
import re
import time
from xml.etree import ElementTree

import numpy as np
import pytest

from gib_nb.explorers import stability, stability_sweep
from gib_nb.explorers.stability import CURVES, OUTCOMES, StabilityExplorer, outcome
from gib_nb.explorers.stability_sweep import ALPHAS, PRETRAIN_EPOCHS, RAMPUP_EPOCHS, SEEDS
from gib_nb.train.config import GIBConfig, flat_settings
from gib_nb.train.recipes import TITLES
from gib_nb.utils.files import asset_path


@pytest.fixture
def explorer():
    made = StabilityExplorer()
    yield made
    made.close()


def shown(explorer, name):
    return explorer.view.panels[name]


def test_the_sweep_is_complete_and_small(explorer):
    data = explorer.data
    keys = [tuple(row[name] for name in ("pretrain_epochs", "rampup_epochs", "alpha", "seed")) for row in data["rows"]]
    assert len(set(keys)) == len(keys) == len(PRETRAIN_EPOCHS) * len(RAMPUP_EPOCHS) * len(ALPHAS) * len(SEEDS)
    assert asset_path("stability").stat().st_size < 150_000
    assert data["config"]["max_restarts"] == 0 and data["config"]["beta"] == stability_sweep.BETA
    assert {"versions", "machine"} <= data["environment"].keys()


def test_every_row_fits_its_settings(explorer):
    for row in explorer.data["rows"]:
        length = (row["pretrain_epochs"] + row["rampup_epochs"] + stability_sweep.FULL) // 2
        assert all(len(row["curves"][name]) == length for name in CURVES)
        assert [len(p) for p in row["p"]] == [25, 25]
        assert (
            row["pretrain_epochs"] + row["rampup_epochs"]
            <= row["best_epoch"]
            < row["pretrain_epochs"] + row["rampup_epochs"] + stability_sweep.FULL
        )  # chosen under the full loss
        assert outcome(row) in OUTCOMES
        for value in (
            row["accuracy"],
            row["auc"],
            row["selected_fraction"],
            *row["empty_fraction"],
            *row["p"][0],
            *row["curves"]["auc"],
        ):
            assert 0 <= value <= 1


def test_the_same_seed_has_the_same_pretraining(explorer):
    "Until the first schedule ends, alpha and the rest of the schedule change nothing."
    for seed in SEEDS:
        rows = [row for row in explorer.data["rows"] if row["seed"] == seed and row["pretrain_epochs"] == 30]
        assert len({tuple(row["curves"]["mean_node_mask"][:15]) for row in rows}) == 1


@pytest.mark.slow
def test_the_small_sweep_has_the_shape_of_the_shipped_one(explorer):
    small = StabilityExplorer.build(small=True, progress=False)
    assert small.keys() == explorer.data.keys() - {"environment"}
    later = (
        small["config"].keys() - explorer.data["config"].keys()
    )  # settings that came after the shipped sweep are at their defaults
    assert explorer.data["config"].keys() <= small["config"].keys() and all(
        small["config"][name] == flat_settings(GIBConfig())[name] for name in later
    )
    assert small["graphs"] == explorer.data["graphs"]
    assert [row.keys() for row in small["rows"]] == [(explorer.data["rows"][0]).keys()]
    assert small["methods"]["gsat"].keys() == explorer.data["methods"]["gsat"].keys()
    assert small["methods"]["gsat"]["rows"][0].keys() == explorer.data["methods"]["gsat"]["rows"][0].keys()
    assert small == StabilityExplorer.build(small=True, progress=False)


@pytest.mark.slow
def test_a_rebuilt_training_begins_as_the_shipped_one(explorer):
    "Only its beginning: where the seed decides, so do the rounding errors of another processor."
    again = stability_sweep.stability_trial(0, 0, 0.3, 0, full=2)["curves"]
    shipped = next(
        row
        for row in explorer.data["rows"]
        if (row["pretrain_epochs"], row["rampup_epochs"], row["alpha"], row["seed"]) == (0, 0, 0.3, 0)
    )["curves"]
    assert again["mean_node_mask"][0] == pytest.approx(shipped["mean_node_mask"][0], abs=0.05)
    assert again["connectivity"][0] == pytest.approx(shipped["connectivity"][0], abs=0.05)


def test_a_watched_training_is_that_of_fit():
    from gib_nb.data.synthetic import motif_dataset
    from gib_nb.train.trainer import GIBTrainer

    config = stability_sweep.stability_config(1, 2, 0.3, seed=3, full=3)
    watched, curves = stability_sweep.watched_training(config, graphs=60)
    data = motif_dataset(60, seed=3)
    plain = GIBTrainer(config).fit(data.train, valid=data.valid, progress=False)
    assert (plain.predict_proba(data.test) == watched.predict_proba(data.test)).all()
    assert plain.history["best_epoch"] == watched.history["best_epoch"] and plain.collapse == watched.collapse
    assert curves["mean_node_mask"] == [epoch["mean_node_mask"] for epoch in plain.history["epochs"][1::2]]


def test_a_training_leaves_threads_and_random_state_alone():
    import torch

    torch.manual_seed(5)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    stability_sweep.stability_trial(0, 0, 0.3, 0, full=2, graphs=40)
    assert (torch.get_rng_state() == before).all() and torch.get_num_threads() == threads


GOOD = {"accuracy": 1.0, "auc": 0.99, "selected_fraction": 0.22, "empty_fraction": [0.0, 0.0]}


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, "finds the motif"),
        ({"auc": 0.9, "accuracy": 0.9}, "finds the motif"),
        ({"auc": 0.89}, "blurred"),
        ({"accuracy": 0.6}, "blurred"),
        ({"auc": 0.49}, "wrong nodes"),
        ({"auc": 0.02, "accuracy": 0.5, "empty_fraction": [0.6, 0.7]}, "wrong nodes"),
        ({"empty_fraction": [0.96, 0.0]}, "one class empty"),
        ({"empty_fraction": [0.0, 0.6], "auc": 0.45}, "one class empty"),
        ({"empty_fraction": [0.5, 0.0]}, "finds the motif"),
        ({"selected_fraction": 1.0}, "all or nothing"),
        ({"selected_fraction": 0.0, "empty_fraction": [1.0, 1.0]}, "all or nothing"),
    ],
)
def test_outcomes(changes, expected):
    assert outcome(GOOD | changes) == expected


def test_what_the_text_says_holds(explorer):
    rows = explorer.data["rows"]
    count = lambda word, **values: sum(
        outcome(row) == word and all(row[name] == value for name, value in values.items()) for row in rows
    )
    for alpha in ALPHAS:
        for ramp in RAMPUP_EPOCHS:
            assert count("wrong nodes", pretrain_epochs=0, alpha=alpha, rampup_epochs=ramp) > 0
    assert max(row["accuracy"] for row in rows if row["pretrain_epochs"] == 0 and outcome(row) == "wrong nodes") < 0.75
    assert count("wrong nodes", pretrain_epochs=5) == 0
    silence = [count("one class empty", alpha=alpha) for alpha in ALPHAS]
    assert silence[0] > 2 * silence[1] > silence[2] == 0
    assert count("finds the motif", pretrain_epochs=30) <= count("finds the motif", pretrain_epochs=5)
    assert count("wrong nodes", pretrain_epochs=15, rampup_epochs=5, alpha=1.0) == 1


@pytest.mark.parametrize("alpha", ALPHAS)
def test_panels_show_the_present_trials(explorer, alpha):
    explorer.alpha = alpha
    explorer.view.controls["pretrain_epochs"].value = PRETRAIN_EPOCHS.index(15)
    assert explorer.pretrain_epochs == 15
    rows = [
        row
        for row in explorer.data["rows"]
        if (row["alpha"], row["pretrain_epochs"], row["rampup_epochs"]) == (alpha, 15, 0)
    ]
    assert explorer.setting.rows == rows and [row["seed"] for row in rows] == list(SEEDS)
    assert re.findall(r"edge ROC-AUC ([\d.]+)", shown(explorer, "seeds").value) == [f"{row['auc']:.2f}" for row in rows]
    assert re.findall(r"</span> ([a-z ]+)</b>", shown(explorer, "seeds").value) == [outcome(row) for row in rows]
    assert [list(line.y) for line in shown(explorer, "curves").figure.data[: len(rows)]] == [
        row["curves"]["auc"] for row in rows
    ]
    assert (
        f"{np.mean([row['auc'] for row in rows]):.2f} ± {np.std([row['auc'] for row in rows], ddof=1):.2f}"
        in shown(explorer, "table").value
    )
    assert sum(explorer.outcomes().values()) == len(rows)
    for name, count in explorer.outcomes().items():
        assert f"{name}</td><td>{count} of 8" in shown(explorer, "table").value


def test_the_map_counts_and_marks(explorer):
    explorer.restore({"pretrain_epochs": 30, "rampup_epochs": 5, "alpha": 0.1})
    lines = [line.findall("td") for line in list(ElementTree.fromstring(shown(explorer, "map").value))[1:-2]]
    assert [len(line) for line in lines] == [len(PRETRAIN_EPOCHS)] * len(RAMPUP_EPOCHS)
    for i, pretraining in enumerate(PRETRAIN_EPOCHS):
        for j, rampup in enumerate(reversed(RAMPUP_EPOCHS)):
            assert ("outline" in lines[j][i].get("style")) == ((pretraining, rampup) == (30, 5))
            explorer.restore({"pretrain_epochs": pretraining, "rampup_epochs": rampup})
            assert lines[j][i][0].text == f"{explorer.outcomes().get('finds the motif', 0)} of 8"
            words = "".join(lines[j][i].itertext())
            worst = [min(row[score] for row in explorer.setting.rows) for score in ("auc", "accuracy")]
            assert all(0 <= value - float(said) < 0.01 for value, said in zip(worst, re.findall(r"≥ ([\d.]+)", words)))


def test_the_shown_nodes_carry_the_probabilities(explorer):
    pictures = [ElementTree.fromstring(svg) for svg in re.findall("<svg.*?</svg>", explorer.panel("seeds"))]
    assert len(pictures) == 2 * len(SEEDS)
    for k, picture in enumerate(pictures):
        drawn, p = explorer.data["graphs"][k % 2], explorer.setting.rows[k // 2]["p"][k % 2]
        circles = list(picture.iter("circle"))
        assert [circle[0].text for circle in circles] == [f"node {i}: {value:.2f}" for i, value in enumerate(p)]
        assert [i for i, circle in enumerate(circles) if circle.get("stroke") == "black"] == drawn["motif"] and len(
            drawn["motif"]
        ) == 5


def test_the_curve_menu_and_the_schedule(explorer):
    for i, name in enumerate(CURVES):
        explorer.view.controls["curve"].value = i
        assert list(shown(explorer, "curves").figure.data[0].y) == explorer.setting.rows[0]["curves"][name]
    explorer.restore({"pretrain_epochs": 15, "rampup_epochs": 5})
    pretraining, rampup = explorer.figure("curves").layout.shapes[:2]
    assert (pretraining.x0, pretraining.x1, rampup.x0, rampup.x1) == (0, 15, 15, 20)


@pytest.mark.parametrize("method", stability_sweep.METHODS[1:])
def test_another_method_has_trainings_of_its_own(explorer, method):
    explorer.method = method
    found = explorer.data["methods"][method]
    assert explorer.setting.rows == found["rows"] and [row["seed"] for row in found["rows"]] == list(SEEDS)
    assert explorer.setting.schedule == (found["pretrain_epochs"], 0)
    assert [list(line.y) for line in shown(explorer, "curves").figure.data[:8]] == [
        row["curves"]["auc"] for row in explorer.setting.rows
    ]
    lines = [list(line.itertext()) for line in list(ElementTree.fromstring(explorer.panel("map")))[1:]]
    count = {line[0]: line[1] for line in lines}
    assert list(count)[1:] == [TITLES[name] for name in stability_sweep.METHODS[1:]]
    assert count[TITLES[method]] == f"{explorer.outcomes().get('finds the motif', 0)} of 8"
    assert count["GIB, as set above"] == f"{StabilityExplorer().outcomes()['finds the motif']} of 8"


def test_state_and_errors(explorer):
    state = {"method": "gib", "pretrain_epochs": 5, "rampup_epochs": 15, "alpha": 1.0, "curve": "mean_node_mask"}
    assert StabilityExplorer().restore(state).state == state
    with pytest.raises(ValueError, match="expected pretrain_epochs to be one of 0, 5, 15, 30"):
        explorer.pretrain_epochs = 7
    with pytest.raises(ValueError, match="expected alpha"):
        StabilityExplorer(alpha=0.2)
    assert explorer.pretrain_epochs == 0


@pytest.mark.slow
def test_training_live_streams_and_ends(explorer, monkeypatch):
    monkeypatch.setattr(stability_sweep, "FULL", 4)
    monkeypatch.setattr(stability_sweep.stability_config, "__defaults__", (4,))
    monkeypatch.setattr(explorer.live, "pause", 0.0)
    seen = []
    monkeypatch.setattr(explorer.live, "on_change", lambda run: seen.append((run.fraction, run.figure)))
    explorer.live.start()
    explorer.live.join()
    assert (
        explorer.live.text.startswith("done: seed 100: ")
        and any(word in explorer.live.text for word in OUTCOMES)
        and explorer.live.fraction == 1
    )
    live = explorer.live.figure.data[-1]
    assert len(live.y) == 2 and all(0 <= value <= 1 for value in live.y)
    assert len(seen) >= 4 * 3 and [fraction for fraction, _ in seen] == sorted(fraction for fraction, _ in seen)
    assert explorer.next_seed == 101


@pytest.mark.slow
def test_stop_ends_a_live_training_within_a_batch(explorer):
    explorer.view.live.start.value = True
    while explorer.live.running and "epoch" not in explorer.live.text:
        time.sleep(0.01)
    assert explorer.live.running and not explorer.live.start()  # no second one beside it
    explorer.view.live.stop.value = True
    explorer.live.join(300)
    assert explorer.live.text.startswith("stopped") and explorer.live.fraction < 1


def test_a_failing_training_is_shown_and_raised(explorer, monkeypatch):
    def fail(*arguments, **settings):
        raise FloatingPointError("weights <b>exploded</b>")

    monkeypatch.setattr(stability, "watched_training", fail)
    explorer.view.live.start.value = True
    with pytest.raises(FloatingPointError):
        explorer.live.join()
    assert "weights &lt;b&gt;exploded" in explorer.view.live.words.value and not explorer.view.live.start.disabled


def test_a_failed_trial_is_no_result(monkeypatch):
    def broken(pretrain_epochs, rampup_epochs, alpha, seed, full, graphs):
        raise FloatingPointError("no longer finite")

    monkeypatch.setattr(stability_sweep, "stability_trial", broken)
    with pytest.warns(UserWarning, match="trials failed"), pytest.raises(RuntimeError, match="no longer finite"):
        StabilityExplorer.build(small=True, progress=False)


@pytest.mark.slow
def test_the_page_holds_every_combination(explorer):
    from gib_nb.explorers.page import static_states
    from gib_nb.explorers.view import plotly_js

    plotly_size = len(plotly_js())
    states = static_states(explorer)
    assert len(states["states"]) == math.prod(len(control.options) for control in explorer.controls)
    assert sum(len(str(content)) for content in states["contents"]) < plotly_size  # no more than the library beside it
