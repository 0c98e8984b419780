import html
import json
import math
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from scipy.integrate import quad

from gib_nb.explorers import case_study as room
from gib_nb.explorers.case_study import CONFIG, ESTIMATORS, EVERY, SAMPLES, STEPS, VARIANCES, CaseStudyExplorer, run_key
from gib_nb.utils.files import asset_path, read_asset


@pytest.fixture
def explorer():
    explorer = CaseStudyExplorer()
    yield explorer
    explorer.close()


def slow_information(variance):
    "I(X;Y) by the definition: h(Y) - h(Y|X), with scipy's quadrature."
    p = lambda y: sum(math.exp(-((y - x) ** 2) / (2 * variance)) for x in (-1, 1)) / math.sqrt(8 * math.pi * variance)
    wide = 1 + 12 * math.sqrt(variance)
    entropy = quad(lambda y: -p(y) * math.log(p(y)) if p(y) > 0 else 0.0, -wide, wide, limit=400, points=(-1, 0, 1))[0]
    return entropy - 0.5 * math.log(2 * math.pi * math.e * variance)


# the shipped runs


def test_every_combination_is_shipped_and_the_file_is_small():
    data = read_asset("case_study")
    keys = {run_key(v, t, n, e) for v in VARIANCES for t in STEPS for n in SAMPLES for e in ESTIMATORS}
    assert set(data["runs"]) == keys and len(keys) == 180
    assert data["epochs"] == list(range(0, CONFIG["epochs"], EVERY)) and data["config"] == CONFIG
    assert "torch" in data["environment"]["versions"]
    assert asset_path("case_study").stat().st_size < 60_000
    for key, run in data["runs"].items():
        assert set(run) == set(room.COLUMNS) and all(len(column) == len(data["epochs"]) for column in run.values())
        assert np.isfinite([run[name] for name in run]).all() and run["variance"][0] == float(key.split()[0])


def test_the_exact_values_are_those_of_the_definition(explorer):
    for settings in ({}, {"inner_steps": 1, "samples": 200}, {"variance": 5.0, "estimator": "reset"}):
        run = explorer.restore(settings).run
        assert run["exact"] == pytest.approx([slow_information(variance) for variance in run["variance"]], abs=1e-8)
        step = 1e-4
        slope = [
            (slow_information(v * (1 + step)) - slow_information(v * (1 - step))) / (2 * v * step)
            for v in run["variance"][::5]
        ]
        assert run["exact_gradient"][::5] == pytest.approx(slope, rel=1e-3, abs=1e-6)


def test_what_must_hold_in_every_run():
    "A critic gap is never negative, and the plug-in scatters about the exact value as samples do: one term has a spread below 1."
    data = read_asset("case_study")
    for key in data["runs"]:
        run, samples = room.shipped_run(key), int(key.split()[2])
        assert min(run["critic_gap"]) > -1e-6, key
        assert np.abs(np.subtract(run["plug_in"], run["exact"])).max() < 5 / math.sqrt(samples), key


def test_the_same_samples_whatever_the_critic_does():
    "Seeds are shared, so in epoch 0 the plug-in depends on σ² and the number of samples alone, when the critic is drawn alike."
    runs = read_asset("case_study")["runs"]
    for samples in SAMPLES:
        first = {runs[run_key(0.2, 5, samples, estimator)]["plug_in"][0] for estimator in ESTIMATORS}
        assert len(first) == 1


def test_a_rebuilt_part_agrees_with_the_shipped_one():
    shipped, small = read_asset("case_study"), CaseStudyExplorer.build(small=True, progress=False)
    assert small["config"] == CONFIG | {"epochs": 7} and small["epochs"] == [0, 3, 6] and len(small["runs"]) == 3
    for key, run in small["runs"].items():
        for name in room.COLUMNS:
            assert run[name] == pytest.approx(shipped["runs"][key][name][:3], rel=2e-3, abs=2e-4), (key, name)
    assert json.loads(json.dumps(small)) == small


def test_a_run_of_the_case_study_itself_is_what_is_kept():
    from gib_nb.information.case_study import case_study

    study = case_study(epochs=4, samples=200, inner_steps=5, variance=0.5, reset=True)
    run = room.study_trial(0.5, 5, 200, "reset", epochs=4)["run"]
    for name in room.COLUMNS:
        assert run[name] == pytest.approx(getattr(study, name)[[0, 3]], rel=1e-3)
    assert (
        room.study_settings(0.2, 5, 200, "perm")["negatives"] == "permute"
        and not room.study_settings(0.2, 5, 200, "perm")["reset"]
    )


def test_a_failed_cell_is_said():
    with (
        pytest.warns(UserWarning, match="trials failed"),
        pytest.raises(RuntimeError, match="expected all trials to succeed .*samples"),
    ):
        room.build_runs((0.2,), (1,), (1,), ("warm",), progress=False, epochs=1)


# the path of exact gradients


def test_exact_path_is_that_of_torch_adam():
    import torch

    from gib_nb.information.exact import sign_channel_gradient

    place = torch.tensor(math.log(0.5), dtype=torch.double)
    adam, path = torch.optim.Adam([place], 0.06), []
    for _ in range(30):
        path.append(place.exp().item())
        place.grad = torch.tensor(path[-1] * sign_channel_gradient(path[-1]), dtype=torch.double)
        adam.step()
    assert room.exact_path(0.5, 30, 0.06) == pytest.approx(path, rel=1e-10)


# the panels


def trace(figure, name):
    return next(trace for trace in figure.data if trace.name == name)


def test_panels_follow_the_controls(explorer):
    views, run = explorer.view, explorer.run
    curve = trace(views.panels["information"].figure, "L<sub>MI</sub>")
    assert list(curve.x) == run["epoch"] and list(curve.y) == pytest.approx(run["L_MI"])
    before = {name: getattr(panel, "spec", None) or panel.value for name, panel in views.panels.items()}
    views.controls["inner_steps"].value = STEPS.index(1)
    assert explorer.inner_steps == 1
    assert list(trace(views.panels["information"].figure, "L<sub>MI</sub>").y) == pytest.approx(explorer.run["L_MI"])
    assert list(trace(views.panels["variance"].figure, "with gradients of L<sub>MI</sub>").y) == pytest.approx(
        explorer.run["variance"]
    )
    assert views.panels["information"].spec != before["information"] and views.panels["table"].value != before["table"]
    assert views.panels["density"].spec == before["density"]  # in epoch 0 σ² is what the control says
    views.controls["epoch"].value = 10
    assert (
        explorer.epoch == 30
        and "epoch 30" in views.panels["table"].value
        and views.panels["density"].figure.layout.annotations[0].text.startswith("epoch 30: σ²")
    )
    assert [shape.x0 for shape in views.panels["variance"].figure.layout.shapes][-1] == 30


def test_both_paths_start_at_the_same_variance(explorer):
    for variance in VARIANCES:
        explorer.variance = variance
        figure = explorer.figure("variance")
        assert [curve.y[0] for curve in figure.data] == pytest.approx([variance] * 2)


@pytest.mark.parametrize("variance", [0.2, 0.9, 1.0, 1.1, 30.0])
def test_the_density_is_a_density_with_two_bumps_below_one(variance):
    y = np.linspace(-60, 60, 24001)
    minus, plus = room.halves(y, variance)
    p, step = minus + plus, y[1] - y[0]
    assert minus.sum() * step == pytest.approx(0.5, abs=1e-6) and p.sum() * step == pytest.approx(1, abs=1e-6)
    assert (p * y**2).sum() * step == pytest.approx(1 + variance, rel=1e-4)
    peaks = int(((p[1:-1] > p[:-2]) & (p[1:-1] > p[2:])).sum())
    assert peaks == (2 if variance < 1 else 1)
    words = [note.text for note in room.density_panel(variance, 0).layout.annotations]
    assert any("two peaks" in word for word in words) == (peaks == 2)


def test_the_table_says_the_errors(explorer):
    explorer.restore({"epoch": 12, "inner_steps": 5, "samples": 200})
    run, text = explorer.run, html.unescape(explorer.figure("table"))
    k = run["epoch"].index(12)
    assert f"{run['L_MI'][k] - run['plug_in'][k]:+.4f}" in text and f"{run['critic_gap'][k]:.4f}" in text
    assert f"{np.mean(np.abs(np.subtract(run['L_MI'], run['plug_in']))):.4f}" in text
    assert f"{run['gradient'][k] / run['exact_gradient'][k] - 1:+.1%}" in text
    rng = np.random.default_rng(0)
    x = rng.choice([-1, 1], 400_000)
    wrong = (np.sign(x + math.sqrt(run["variance"][k]) * rng.standard_normal(len(x))) != x).mean()
    said = float(text.split("wrong for ")[1].split("%")[0])
    assert said == pytest.approx(100 * wrong, abs=0.3)


@pytest.mark.slow
def test_what_falls_out_of_the_axes_is_said(explorer):
    information, variance, density = (explorer.figure(name).layout for name in ("information", "variance", "density"))
    data = read_asset("case_study")
    values = [value for run in data["runs"].values() for name in ("L_MI", "plug_in") for value in run[name]]
    spots = [value for run in data["runs"].values() for value in run["variance"]]
    assert (
        max(values) < information.yaxis.range[1]
        and 10 ** variance.yaxis.range[0] < min(spots)
        and max(spots) < 10 ** variance.yaxis.range[1]
    )
    assert sum(room.halves(np.array([1.0]), min(spots)))[0] < density.yaxis.range[1]
    for key in data["runs"]:
        run = room.shipped_run(key)
        below = [
            value for name in ("L_MI", "plug_in", "exact") for value in run[name] if value < information.yaxis.range[0]
        ]
        said = [
            note.text for note in room.information_panel(run, 60).layout.annotations if "below the axis" in note.text
        ]
        assert said == (
            [f"{len(below)} values of L<sub>MI</sub> below the axis, down to {min(below):.1f}"] if below else []
        ), key


def test_what_the_explorer_says_is_so():
    "The two sentences at its top."

    def curves(*key):
        return {name: np.array(column) for name, column in room.shipped_run(run_key(*key)).items()}

    for variance in VARIANCES:
        many, few = curves(variance, 150, 20_000, "warm"), curves(variance, 1, 20_000, "warm")
        assert (
            np.abs(many["L_MI"] - many["plug_in"]).max() < 0.004
            and (np.diff(many["L_MI"]) < 0.005).all()
            and (np.diff(many["exact"]) < 0).all()
        )
        assert (
            (few["L_MI"] - few["plug_in"])[:15].max() < 0
            and few["L_MI"][2] > few["L_MI"][0]
            and few["exact"][2] < few["exact"][0]
        )
        middling, long = curves(variance, 20, 200, "warm"), curves(variance, 150, 200, "warm")
        assert (
            np.abs(long["L_MI"] - long["plug_in"]).mean() > 1.4 * np.abs(middling["L_MI"] - middling["plug_in"]).mean()
        )
        assert (long["L_MI"] - long["plug_in"]).mean() > 0.01 and long["critic_gap"].mean() > middling[
            "critic_gap"
        ].mean()


# the state


def test_state_round_trip_and_errors(explorer):
    state = {"variance": 1.0, "inner_steps": 20, "samples": 2_000, "estimator": "perm", "epoch": 60}
    explorer.restore(state)
    assert CaseStudyExplorer(**explorer.state).state == explorer.state == state
    for name, value in (("variance", 0.3), ("inner_steps", 2), ("samples", 1), ("estimator", "cold"), ("epoch", 1)):
        with pytest.raises(ValueError, match=f"expected {name} to be one of"):
            setattr(explorer, name, value)
    assert explorer.state == state


def test_a_page_with_two_handles(explorer, tmp_path):
    text = explorer.to_html(tmp_path / "page.html", over=("epoch", "inner_steps"))
    data = json.loads(text.split('id="gib-data">')[1].split("</script>")[0])
    assert len(data["states"]) == 21 * 5 and "samples" in [entry["label"] for entry in data["fixed"]]
    assert len(text) < 7_000_000


def test_shipped_runs_are_shown_without_torch():
    code = (
        "import sys; from gib_nb.explorers.case_study import CaseStudyExplorer as C; e = C(); e.widget; e.inner_steps = 1; e.epoch = 30; e.panels()\n"
        "print([m for m in ('torch', 'torch_geometric', 'rdkit', 'sklearn', 'pandas') if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


# training live


def test_live_streams_every_epoch_and_is_the_case_study():
    from gib_nb.information.case_study import case_study

    seen = []
    study = room.study_live(
        lambda fraction, text, figure: seen.append((fraction, text, figure())), epochs=4, samples=200, inner_steps=3
    )
    assert [fraction for fraction, _, _ in seen] == [0.25, 0.5, 0.75, 1.0]
    assert [len(trace(figure, "L<sub>MI</sub>").x) for *_, figure in seen] == [1, 2, 3, 4]
    assert "epoch 3 of 3" in seen[-1][1] and f"{study.exact[-1]:.3f}" in seen[-1][1]
    same = case_study(epochs=4, samples=200, inner_steps=3, learning_rate=CONFIG["learning_rate"], seed=1)
    assert np.array_equal(study.L_MI, same.L_MI)


def test_stop_ends_within_an_epoch():
    asked = []
    study = room.study_live(lambda *a: asked.append(a) or len(asked) == 3, samples=200, inner_steps=3)
    assert len(study) == 3 == len(asked)


def test_the_button_starts_streams_and_stops(explorer):
    explorer.restore({"samples": 20_000, "inner_steps": 150})
    live, view = explorer.live, explorer.view.live
    view.start.value = True
    assert live.running and not live.start()
    while live.figure is None and live.running:
        time.sleep(0.02)
    assert live.figure is not None and view.start.disabled
    view.stop.value = True
    live.join(300)
    assert live.fraction < 1 and live.text.startswith("stopped") and not view.start.disabled
    assert not [thread for thread in threading.enumerate() if thread.name == "gib-live"]


def test_an_error_is_shown_and_raised(explorer, monkeypatch):
    def fail(report, **settings):
        raise ValueError("expected <b>patience</b>")

    monkeypatch.setattr(room, "study_live", fail)
    explorer.view
    explorer.live.start()
    with pytest.raises(ValueError, match="patience"):
        explorer.live.join(300)
    assert "&lt;b&gt;patience" in explorer.view.live.words.value
