"Explorer of β: methods beside a GIB, in a small sweep, and without them as it always was"

import gzip
import json

import pytest

from gib_nb.explorers import BetaExplorer, beta, explorer
from gib_nb.explorers.app import build_assets
from gib_nb.explorers.beta_sweep import CONFIG, METHODS, add_methods, beta_config, beta_trial, build_sweep
from gib_nb.explorers.page import static_states
from gib_nb.train.config import configure, options
from gib_nb.utils.files import read_asset

FEW = dict(epochs=2, pretrain_epochs=1, rampup_epochs=0)


@pytest.fixture(scope="module")
def added():
    "The shipped result at one β, for two seeds, without and with two methods on motif graphs."
    shipped = dict(read_asset("beta"))
    shipped.pop("methods", None)
    at, shipped = shipped["betas"].index(0.1), shipped | {"betas": [0.1], "seeds": [0, 1]}

    def only(task):
        tables = {name: [task[name][at][:2]] for name in ("p", "predictions")}
        return task | tables | {"measures": {name: [rows[at][:2]] for name, rows in task["measures"].items()}}

    tasks = {name: only(task) for name, task in shipped["tasks"].items()}
    quick = {name: tasks[name] for name in ("motif", "molecules")}  # MUTAG would have to be there
    methods = add_methods(shipped | {"tasks": quick}, ("gsat", "vgib"), progress=False, **FEW)["methods"]
    return shipped | {"tasks": tasks}, shipped | {"tasks": tasks, "methods": methods}


@pytest.fixture
def two(added, monkeypatch):
    monkeypatch.setattr(explorer, "shipped_result", lambda name: added[1])
    shown = BetaExplorer()
    yield shown
    shown.close()


def test_a_gib_has_the_schedule_of_the_sweep_and_a_method_its_own():
    assert beta_config("gib", 0.3, 2) == configure(beta=0.3, seed=2, **CONFIG)
    for method in METHODS:
        config = beta_config(method, 0.3, 2)
        assert (config.beta, config.seed, config.max_restarts) == (0.3, 2, 0), method
    assert beta_config("gsat", 0.3, 2).epochs != CONFIG["epochs"]


def test_methods_are_added_and_nothing_else_changes(added):
    before, after = added
    assert {name: value for name, value in after.items() if name != "methods"} == before
    assert list(after["methods"]) == ["gsat", "vgib"] and "methods" not in before
    for found in after["methods"].values():
        assert set(found["tasks"]) == {"motif"}  # no method is trained on molecules
        assert {"beta", "seed", "max_restarts"} <= found["config"].keys() <= {*options()}
        motif = found["tasks"]["motif"]
        assert set(motif["measures"]) == set(before["tasks"]["motif"]["measures"])
        assert [len(seeds) for seeds in motif["p"]] == [2]
        assert [len(p) for p in motif["p"][0][0]] == [20] * 6
    json.dumps(after, allow_nan=False)
    assert add_methods(after, ("gsat",), progress=False) is after


def test_tables_hold_what_a_trial_gives(added):
    row = beta_trial("motif", 0.1, 1, method="vgib", **FEW)
    found = added[1]["methods"]["vgib"]["tasks"]["motif"]
    assert found["p"][0][1] == row["p"] and found["predictions"][0][1] == row["predictions"]
    assert found["measures"]["score"][0][1] == pytest.approx(row["score"], rel=1e-3)


def test_every_panel_shows_the_chosen_method(two, added):
    assert two.state["method"] == "gib" and two.control("method").options == ("gib", "gsat", "vgib")
    assert two.counterexample.startswith(BetaExplorer.counterexample) and "With VGIB" in two.counterexample
    gib = two.panels()
    two.method = "vgib"
    found = added[1]["methods"]["vgib"]["tasks"]["motif"]
    assert all(str(panel) != str(gib[name]) for name, panel in two.panels().items())
    mean = sum(graphs[0] for graphs in found["predictions"][0]) / 2
    assert f"P(ring) = {mean:.2f}" in two.panel("graph")
    score = sum(found["measures"]["score"][0]) / 2
    assert list(two.panel("measures").data[1].y) == [pytest.approx(score, rel=1e-3)]
    plane = two.panel("plane")
    assert list(plane.data[0].y) == [pytest.approx(sum(found["measures"]["label_mi_bound"][0]) / 2, rel=1e-3)]
    assert plane.layout.annotations[0].text == "H(Y)"  # of the same labels
    assert BetaExplorer().restore(json.loads(json.dumps(two.state))).state == two.state


def test_data_without_models_of_a_method_say_so(two):
    two.view
    two.restore({"method": "gsat", "dataset": "molecules"})
    words = "There are no GSAT models of this data set. Choose motif graphs or MUTAG, or the method GIB."
    assert words in two.view.panels["graph"].value and two.view.message.value == ""
    for name in ("plane", "measures"):
        (note,) = two.panel(name).layout.annotations
        assert note.text == words.replace(". ", ".<br>") and not two.panel(name).data
    two.live.start()
    two.live.join()
    assert words in two.live.text and two.live.figure is None
    two.dataset = "motif"
    assert "P(ring)" in two.view.panels["graph"].value and two.panel("plane").data


def test_a_page_moves_everything_but_the_method(two, monkeypatch):
    few = tuple(control for control in two.controls if control.name not in ("beta", "seed"))
    monkeypatch.setattr(two, "controls", few)
    two.method = "gsat"
    page = two.to_html()
    assert '{"label":"method","text":"GSAT"}' in page and page.count("There are no GSAT models") >= 1
    assert "There are no GSAT models" not in two.to_html(over=[])  # the present data alone
    assert len(static_states(two, ["method", "dataset"])["states"]) == 9


def test_without_methods_no_menu_is_offered(added, monkeypatch):
    monkeypatch.setattr(explorer, "shipped_result", lambda name: added[0])
    shown = BetaExplorer()
    assert list(shown.state) == ["dataset", "graph", "beta", "seed"] and shown.method == "gib"
    assert shown.counterexample == BetaExplorer.counterexample and "With VGIB" not in shown.to_html(over=[])
    with pytest.raises(AttributeError, match="expected one of dataset, graph, beta, seed"):
        BetaExplorer(method="gsat")


def test_live_training_is_of_the_chosen_method(two, monkeypatch):
    given = []
    monkeypatch.setattr(beta, "train_live", lambda *values, **settings: given.append((values[:2], settings)))
    two.restore({"method": "vgib", "beta": 0.3})
    two.live.start()
    two.live.join()
    assert given == [(("motif", 0.3), {"method": "vgib"})]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gib", *METHODS])
def test_live_training_of_every_method_draws_its_losses(method):
    seen = []
    report = lambda fraction, text, figure: seen.append((fraction, text, figure)) and False
    trainer = beta.train_live("motif", 0.1, report, method=method, **FEW)
    assert trainer.config == beta_config(method, 0.1, 100, **FEW)
    assert seen[-1][0] == 1.0 and "at β = 0.1" in seen[-1][1]
    assert [trace.name for trace in seen[-1][2].data][0] == "L<sub>cls</sub>"


def test_a_command_adds_what_a_shipped_result_lacks(tmp_path, monkeypatch, added):
    monkeypatch.setattr("gib_nb.utils.files.read_asset", lambda name: added[0])
    monkeypatch.setattr(beta, "add_methods", lambda content, **settings: content)
    assert build_assets(["beta", "stability"], folder=tmp_path, add=True) == []  # nothing to write
    monkeypatch.setattr(beta, "add_methods", lambda content, **settings: content | {"methods": {"gsat": 1}})
    (path,) = build_assets(["beta"], folder=tmp_path, add=True)
    written = json.loads(gzip.decompress(path.read_bytes()))
    assert written == added[0] | {"methods": {"gsat": 1}}  # and the record of the first computer


def test_a_sweep_has_its_methods():
    small = build_sweep((0.0,), (0,), ("motif",), ("two_stage", "pgib"), progress=False, **FEW)
    assert list(small["methods"]) == ["two_stage", "pgib"] and len(small["tasks"]["motif"]["trivial"]) == 1
    scores = [found["tasks"]["motif"]["measures"]["score"][0][0] for found in small["methods"].values()]
    assert all(0 <= score <= 1 for score in scores)
