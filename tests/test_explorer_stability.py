"The stability explorer: the shipped sweep, its five outcomes, panels, state, and live training."
import math
import re
import time
from xml.etree import ElementTree

import numpy as np
import pytest

from gib_nb.explorers import stability
from gib_nb.explorers.stability import ALPHAS, CURVES, OUTCOMES, RAMPS, SEEDS, WARMUPS, StabilityExplorer, outcome
from gib_nb.sweep import asset_path
from gib_nb.trainer import GIBConfig


@pytest.fixture
def explorer():
    made = StabilityExplorer()
    yield made
    made.close()


def shown(explorer, name):
    return explorer.view.panels[name]


def test_the_sweep_is_complete_and_small(explorer):
    data = explorer.data
    keys = [tuple(row[name] for name in ("warmup", "ramp", "alpha", "seed")) for row in data["rows"]]
    assert len(set(keys)) == len(keys) == len(WARMUPS) * len(RAMPS) * len(ALPHAS) * len(SEEDS)
    assert asset_path("stability").stat().st_size < 150_000
    assert data["config"]["restarts"] == 0 and data["config"]["beta"] == stability.BETA
    assert {"versions", "machine"} <= data["surroundings"].keys()


def test_every_row_fits_its_settings(explorer):
    for row in explorer.data["rows"]:
        length = (row["warmup"] + row["ramp"] + stability.FULL) // 2
        assert all(len(row["curves"][name]) == length for name in CURVES)
        assert [len(p) for p in row["p"]] == [25, 25]
        assert row["warmup"] + row["ramp"] <= row["best_epoch"] < row["warmup"] + row["ramp"] + stability.FULL  # chosen under the full loss
        assert outcome(row) in OUTCOMES
        for value in (row["accuracy"], row["auc"], row["kept"], *row["empty"], *row["p"][0], *row["curves"]["auc"]):
            assert 0 <= value <= 1


def test_the_same_seed_has_the_same_warmup(explorer):
    "Until the first schedule ends, alpha and the rest of the schedule change nothing."
    for seed in SEEDS:
        rows = [row for row in explorer.data["rows"] if row["seed"] == seed and row["warmup"] == 30]
        assert len({tuple(row["curves"]["kept"][:15]) for row in rows}) == 1


def test_the_small_sweep_has_the_shape_of_the_shipped_one(explorer):
    small = StabilityExplorer.build(small=True, progress=False)
    assert small.keys() == explorer.data.keys() - {"surroundings"}
    later = small["config"].keys() - explorer.data["config"].keys()  # settings that came after the shipped sweep are at their defaults
    assert explorer.data["config"].keys() <= small["config"].keys() and all(small["config"][name] == getattr(GIBConfig(), name) for name in later)
    assert small["graphs"] == explorer.data["graphs"]
    assert [row.keys() for row in small["rows"]] == [(explorer.data["rows"][0]).keys()]
    assert small == StabilityExplorer.build(small=True, progress=False)


def test_a_rebuilt_training_begins_as_the_shipped_one(explorer):
    "Only its beginning: where the seed decides, so do the rounding errors of another processor."
    again = stability.stability_cell(0, 0, .3, 0, full=2)["curves"]
    shipped = next(row for row in explorer.data["rows"] if (row["warmup"], row["ramp"], row["alpha"], row["seed"]) == (0, 0, .3, 0))["curves"]
    assert again["kept"][0] == pytest.approx(shipped["kept"][0], abs=.05)
    assert again["connectivity"][0] == pytest.approx(shipped["connectivity"][0], abs=.05)


def test_a_watched_training_is_that_of_fit():
    from gib_nb.data import motif_dataset
    from gib_nb.trainer import GIBTrainer

    config = stability.stability_config(1, 2, .3, seed=3, full=3)
    watched, curves = stability.watched_training(config, graphs=60)
    data = motif_dataset(60, seed=3)
    plain = GIBTrainer(config).fit(data.train, valid=data.valid, progress=False)
    assert (plain.predict_proba(data.test) == watched.predict_proba(data.test)).all()
    assert plain.history["best_epoch"] == watched.history["best_epoch"] and plain.collapse == watched.collapse
    assert curves["kept"] == [epoch["kept"] for epoch in plain.history["epochs"][1::2]]


def test_a_training_leaves_threads_and_random_state_alone():
    import torch

    torch.manual_seed(5)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    stability.stability_cell(0, 0, .3, 0, full=2, graphs=40)
    assert (torch.get_rng_state() == before).all() and torch.get_num_threads() == threads


GOOD = {"accuracy": 1., "auc": .99, "kept": .22, "empty": [0., 0.]}

@pytest.mark.parametrize("changes, expected", [
    ({}, "finds the motif"), ({"auc": .9, "accuracy": .9}, "finds the motif"), ({"auc": .89}, "blurred"), ({"accuracy": .6}, "blurred"),
    ({"auc": .49}, "wrong nodes"), ({"auc": .02, "accuracy": .5, "empty": [.6, .7]}, "wrong nodes"),
    ({"empty": [.96, 0.]}, "one class by nothing"), ({"empty": [0., .6], "auc": .45}, "one class by nothing"), ({"empty": [.5, 0.]}, "finds the motif"),
    ({"kept": 1.}, "all or nothing"), ({"kept": 0., "empty": [1., 1.]}, "all or nothing")])
def test_outcomes(changes, expected):
    assert outcome(GOOD | changes) == expected


def test_what_the_text_says_holds(explorer):
    rows = explorer.data["rows"]
    count = lambda word, **values: sum(outcome(row) == word and all(row[name] == value for name, value in values.items()) for row in rows)
    for alpha in ALPHAS:
        for ramp in RAMPS:
            assert count("wrong nodes", warmup=0, alpha=alpha, ramp=ramp) > 0
    assert max(row["accuracy"] for row in rows if row["warmup"] == 0 and outcome(row) == "wrong nodes") < .75
    assert count("wrong nodes", warmup=5) == 0
    silence = [count("one class by nothing", alpha=alpha) for alpha in ALPHAS]
    assert silence[0] > 2 * silence[1] > silence[2] == 0
    assert count("finds the motif", warmup=30) <= count("finds the motif", warmup=5)
    assert count("wrong nodes", warmup=15, ramp=5, alpha=1.) == 1


@pytest.mark.parametrize("alpha", ALPHAS)
def test_panels_show_the_present_cell(explorer, alpha):
    explorer.alpha = alpha
    explorer.view.controls["warmup"].value = WARMUPS.index(15)
    assert explorer.warmup == 15
    rows = [row for row in explorer.data["rows"] if (row["alpha"], row["warmup"], row["ramp"]) == (alpha, 15, 0)]
    assert explorer.rows == rows and [row["seed"] for row in rows] == list(SEEDS)
    assert re.findall(r"edge AUC ([\d.]+)", shown(explorer, "seeds").value) == [f"{row['auc']:.2f}" for row in rows]
    assert re.findall(r"</span> ([a-z ]+)</b>", shown(explorer, "seeds").value) == [outcome(row) for row in rows]
    assert [list(line.y) for line in shown(explorer, "curves").figure.data[:len(rows)]] == [row["curves"]["auc"] for row in rows]
    assert f"{np.mean([row['auc'] for row in rows]):.2f} ± {np.std([row['auc'] for row in rows], ddof=1):.2f}" in shown(explorer, "table").value
    assert sum(explorer.outcomes().values()) == len(rows)
    for name, count in explorer.outcomes().items():
        assert f"{name}</td><td>{count} of 8" in shown(explorer, "table").value


def test_the_map_counts_and_marks(explorer):
    explorer.restore({"warmup": 30, "ramp": 5, "alpha": .1})
    lines = [line.findall("td") for line in list(ElementTree.fromstring(shown(explorer, "map").value))[1:-2]]
    assert [len(line) for line in lines] == [len(WARMUPS)] * len(RAMPS)
    for i, warmup in enumerate(WARMUPS):
        for j, ramp in enumerate(reversed(RAMPS)):
            assert ("outline" in lines[j][i].get("style")) == ((warmup, ramp) == (30, 5))
            explorer.restore({"warmup": warmup, "ramp": ramp})
            assert lines[j][i][0].text == f"{explorer.outcomes().get('finds the motif', 0)} of 8"
            words = "".join(lines[j][i].itertext())
            worst = [min(row[score] for row in explorer.rows) for score in ("auc", "accuracy")]
            assert all(0 <= value - float(said) < .01 for value, said in zip(worst, re.findall(r"≥ ([\d.]+)", words)))


def test_the_shown_nodes_carry_the_probabilities(explorer):
    pictures = [ElementTree.fromstring(svg) for svg in re.findall("<svg.*?</svg>", explorer.panel("seeds"))]
    assert len(pictures) == 2 * len(SEEDS)
    for k, picture in enumerate(pictures):
        drawn, p = explorer.data["graphs"][k % 2], explorer.rows[k // 2]["p"][k % 2]
        circles = list(picture.iter("circle"))
        assert [circle[0].text for circle in circles] == [f"node {i}: {value:.2f}" for i, value in enumerate(p)]
        assert [i for i, circle in enumerate(circles) if circle.get("stroke") == "black"] == drawn["motif"] and len(drawn["motif"]) == 5


def test_the_curve_menu_and_the_schedule(explorer):
    for i, name in enumerate(CURVES):
        explorer.view.controls["curve"].value = i
        assert list(shown(explorer, "curves").figure.data[0].y) == explorer.rows[0]["curves"][name]
    explorer.restore({"warmup": 15, "ramp": 5})
    warmup, ramp = explorer.figure("curves").layout.shapes[:2]
    assert (warmup.x0, warmup.x1, ramp.x0, ramp.x1) == (0, 15, 15, 20)


def test_state_and_errors(explorer):
    state = {"warmup": 5, "ramp": 15, "alpha": 1., "curve": "kept"}
    assert StabilityExplorer().restore(state).state == state
    with pytest.raises(ValueError, match="expected warmup to be one of 0, 5, 15, 30"):
        explorer.warmup = 7
    with pytest.raises(ValueError, match="expected alpha"):
        StabilityExplorer(alpha=.2)
    assert explorer.warmup == 0


def test_training_live_streams_and_ends(explorer, monkeypatch):
    monkeypatch.setattr(stability, "FULL", 4)
    monkeypatch.setattr(stability.stability_config, "__defaults__", (4,))
    monkeypatch.setattr(explorer.live, "pause", 0.)
    seen = []
    monkeypatch.setattr(explorer.live, "on_change", lambda run: seen.append((run.fraction, run.figure)))
    explorer.live.start()
    explorer.live.join()
    assert explorer.live.text.startswith("done: seed 100: ") and any(word in explorer.live.text for word in OUTCOMES) and explorer.live.fraction == 1
    live = explorer.live.figure.data[-1]
    assert len(live.y) == 2 and all(0 <= value <= 1 for value in live.y)
    assert len(seen) >= 4 * 3 and [fraction for fraction, _ in seen] == sorted(fraction for fraction, _ in seen)
    assert explorer.next_seed == 101


def test_stop_ends_a_live_training_within_a_batch(explorer):
    explorer.view.live.start.value = True
    while explorer.live.running and "epoch" not in explorer.live.text:
        time.sleep(.01)
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


def test_a_failed_cell_is_no_result(monkeypatch):
    def broken(warmup, ramp, alpha, seed, full, graphs):
        raise FloatingPointError("no longer finite")
    monkeypatch.setattr(stability, "stability_cell", broken)
    with pytest.warns(UserWarning, match="cells failed"), pytest.raises(RuntimeError, match="no longer finite"):
        StabilityExplorer.build(small=True, progress=False)


def test_the_page_holds_every_combination(explorer):
    from gib_nb.explorers.base import plotly_js, static_states
    plotly_size = len(plotly_js())
    states = static_states(explorer)
    assert len(states["states"]) == math.prod(len(control.options) for control in explorer.controls)
    assert sum(len(str(content)) for content in states["contents"]) < plotly_size  # no more than the library beside it
