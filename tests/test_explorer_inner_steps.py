"The explorer of T: exact values against other ways to them, the shipped sweep, what its texts claim, panels, state, and the live loop."

import html
import math
import re
import statistics
import time

import numpy as np
import pytest

from gib_nb.explorers import inner_steps
from gib_nb.explorers import inner_steps_sweep as sweep
from gib_nb.explorers.inner_steps import KEPT, SAYS, InnerStepsExplorer, verdict
from gib_nb.explorers.inner_steps_sweep import BANK, BATCH, NAMES, SOURCES, STEPS, Channel
from gib_nb.utils.files import asset_path

MEMORIES = ("batch", "bank")


@pytest.fixture
def explorer():
    made = InnerStepsExplorer()
    yield made
    made.close()


def shown(explorer, name):
    return explorer.view.panels[name]


def ends(explorer, source, memory):
    "In-sample and held-out value after T steps, for each T."
    curves = explorer.data["sources"][source]["curves"]
    return {T: (curves[f"{memory} {T}"]["in_sample"][0][-1], curves[f"{memory} {T}"]["held_out"][0][-1]) for T in STEPS}


# ---- sources and cells


def pairs(name, N=20_000, noise=None, seed=0):
    import torch

    source = SOURCES[name]
    return source.pairs(source.draw(N, torch.Generator().manual_seed(seed)), source.start if noise is None else noise)


@pytest.mark.parametrize("name", [name for name in SOURCES if isinstance(SOURCES[name], Channel)])
def test_exact_information_and_slope_of_channels(name):
    from gib_nb.information.exact import gaussian_mutual_information, sign_channel_plug_in

    source = SOURCES[name]
    x, y = pairs(name)
    if source.signs:
        assert set(x.unique().tolist()) == {-1.0, 1.0}
        assert sign_channel_plug_in(x[:, 0], y[:, 0], source.start) == pytest.approx(
            source.exact(source.start), abs=0.02
        )
    else:
        eye = np.eye(source.d)
        covariance = np.block([[eye, eye], [eye, (1 + source.start) * eye]])
        assert gaussian_mutual_information(covariance, source.d) == pytest.approx(source.exact(source.start))
        assert float((y - x).var()) == pytest.approx(source.start, rel=0.05)
    for noise in (source.start, source.end):
        difference = (source.exact(noise * 1.001) - source.exact(noise * 0.999)) / (0.002 * noise)
        assert source.slope(noise) == pytest.approx(difference, rel=1e-4)


def test_masked_graphs_have_the_law_of_the_enumerated_task():
    "The edges that are kept are those between kept nodes, and the counts of subgraphs follow enumerable_graph_channel."
    import torch

    from gib_nb.information.enumerate import enumerable_graph_channel

    edges, kept = pairs("graphs", noise=0.2)
    mask, (row, col) = kept[:, 6:], torch.triu_indices(4, 4, 1)
    assert (kept[:, :6] == edges * mask[:, row] * mask[:, col]).all()
    task = enumerable_graph_channel(4, (0.8, 0.2))
    assert SOURCES["graphs"].exact(0.2) == task.mutual_information()
    _, other = task.sample(20_000, torch.Generator().manual_seed(1))
    assert (kept.mean(0) - other.mean(0)).abs().max() < 0.02
    full = edges.sum(1) == 6  # all nodes on triangles
    assert float(mask[full].mean()) == pytest.approx(0.8, abs=0.03) and float(
        mask[edges.sum(1) == 0].mean()
    ) == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize("name", SOURCES)
def test_a_small_step_of_the_noise_moves_the_pairs_little(name):
    source = SOURCES[name]
    (x, y), (again, moved) = pairs(name), pairs(name, noise=1.01 * source.start)
    assert (x == again).all() and 0 < float((y != moved).float().mean())
    assert float((y - moved).square().mean() / y.var()) < 0.01


def test_the_measured_loop_is_the_inner_loop_of_the_package():
    "Step by step, the critic is the one that InnerLoop.run would have made of the same minibatches."
    import torch

    from gib_nb.information.critic import InnerLoop, MemoryBank, StatisticsNetwork
    from gib_nb.information.critic_estimate import held_out_value

    source, generator = SOURCES["gauss5"], torch.Generator().manual_seed(4)
    x, y = source.pairs(source.draw(BANK, generator), source.start)
    bank = MemoryBank.of(x, y)
    new = bank.standardize(*source.pairs(source.draw(sweep.NEW, generator), source.start))
    critic = StatisticsNetwork(5, 5, sweep.HIDDEN, generator)
    InnerLoop(critic, 30, batch_size=BATCH, generator=generator).run(bank)
    *_, (step, measure) = sweep.inner_loop("gauss5", "bank", 30, 4)
    assert step == 30
    assert measure() == pytest.approx(
        (held_out_value(critic, *bank.standardize(x, y))[0], held_out_value(critic, *new, shifts=16)[0]), abs=1e-4
    )


@pytest.mark.parametrize("T", STEPS)
def test_measured_steps(T):
    steps = sweep.measured_steps(T)
    assert steps == sorted(set(steps)) and steps[0] == 1 and steps[-1] == T and len(steps) <= 20


def test_a_reset_forgets_and_a_warm_start_does_not():
    values = {reset: sweep.drift_trial("gauss5", "bank", reset, 5, 0, steps=10)["held_out"] for reset in (True, False)}
    assert max(values[True]) < 0.1 < 0.2 < min(values[False][5:])


def test_the_exact_descent_ends_at_the_exact_optimum():
    for name in ("sign", "gauss5", "gauss16"):
        path = sweep.descent(name, None, 150)
        assert path[-1] == pytest.approx(SOURCES[name].end, rel=0.02)


def test_cells_leave_threads_and_random_state_alone():
    import torch

    torch.manual_seed(5)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    first = sweep.descent_trial("sign", "batch", True, 2, 0, steps=3)
    assert (
        first
        == sweep.descent_trial("sign", "batch", True, 2, 0, steps=3)
        != sweep.descent_trial("sign", "batch", True, 2, 1, steps=3)
    )
    assert (torch.get_rng_state() == before).all() and torch.get_num_threads() == threads


# ---- the shipped sweep


def test_the_sweep_is_complete_and_small(explorer):
    data = explorer.data
    assert asset_path("inner_steps").stat().st_size < 120_000
    assert (
        data["config"]["steps"] == list(STEPS)
        and len(data["config"]["seeds"]) >= 3
        and {"versions", "machine"} <= data["environment"].keys()
    )
    assert data["sources"].keys() == SOURCES.keys() == NAMES.keys() == SAYS.keys()
    for name, found in data["sources"].items():
        assert found["exact"] == pytest.approx(SOURCES[name].exact(SOURCES[name].start), rel=1e-3)
        assert found["exact_drift"] == sorted(found["exact_drift"], reverse=True) and len(found["exact_drift"]) == 30
        for memory in MEMORIES:
            for T in STEPS:
                curve = found["curves"][f"{memory} {T}"]
                assert curve["step"] == sweep.measured_steps(T)
                assert all(
                    len(line) == len(curve["step"]) for part in ("in_sample", "held_out") for line in curve[part]
                )
                for reset in (True, False):
                    assert all(
                        len(line) == 30 for part in found["drifts"][f"{memory} {T} {reset}"].values() for line in part
                    )
                    assert all(
                        len(values) == len(data["config"]["seeds"])
                        for values in found["outcomes"][f"{memory} {T} {reset}"].values()
                    )
    assert data["times"]["inner"] == sorted(data["times"]["inner"])


@pytest.mark.slow
def test_a_rebuilt_part_equals_the_shipped_one(explorer):
    for source, memory in (("gauss5", "batch"), ("graphs", "bank")):
        rows = [sweep.curve_trial(source, memory, 10, seed) for seed in explorer.data["config"]["curve_seeds"]]
        shipped, again = explorer.data["sources"][source]["curves"][f"{memory} 10"], sweep.means(rows)
        for part in ("in_sample", "held_out"):
            assert np.array(again[part]) == pytest.approx(np.array(shipped[part]), abs=0.003)
    noise = [
        sweep.descent_trial("gauss16", "bank", True, 2, seed)["noise"] for seed in explorer.data["config"]["seeds"]
    ]
    assert noise == pytest.approx(explorer.data["sources"]["gauss16"]["outcomes"]["bank 2 True"]["noise"], rel=0.03)


@pytest.mark.slow
def test_the_small_sweep_has_the_shape_of_the_shipped_one(explorer, monkeypatch):
    monkeypatch.setattr(sweep, "BANK", 300)
    monkeypatch.setattr(sweep, "NEW", 300)
    small = InnerStepsExplorer.build(small=True, progress=False)
    assert (
        small.keys() == explorer.data.keys() - {"environment"}
        and small["config"].keys() == explorer.data["config"].keys()
    )
    for name, found in small["sources"].items():
        shipped = explorer.data["sources"][name]
        assert found.keys() == shipped.keys()
        for part in ("curves", "drifts", "outcomes"):
            assert found[part].keys() < shipped[part].keys()
            assert all(row.keys() == shipped[part][key].keys() for key, row in found[part].items())
    again = sweep.build_sweep((1, 5), (0,), (0,), ("sign",), progress=False, outer=10, drifting=3)
    assert again["sources"]["sign"] == small["sources"]["sign"]  # by seed


@pytest.mark.slow
def test_a_failed_cell_stops_the_build(monkeypatch):
    def broken(path):
        raise FloatingPointError("no longer finite")

    monkeypatch.setattr(sweep, "settled", broken)
    with (
        pytest.warns(UserWarning, match="trials failed"),
        pytest.raises(RuntimeError, match="expected all trials to succeed .got FloatingPointError: no longer finite"),
    ):
        sweep.build_sweep((1,), (0,), (0,), ("sign",), progress=False, drifting=2)


# ---- what the texts say


def test_too_few_steps_underestimate(explorer):
    for source, found in explorer.data["sources"].items():
        for memory in MEMORIES:
            values = ends(explorer, source, memory)
            for T in (1, 2, 5, 10):
                assert max(values[T]) < 0.4 * found["exact"] and verdict(*values[T], found["exact"]) == "too few steps"


def test_too_many_on_one_batch_memorize_and_a_bank_cures_it(explorer):
    for source in ("gauss5", "graphs"):
        exact, batch, bank = (
            explorer.data["sources"][source]["exact"],
            ends(explorer, source, "batch"),
            ends(explorer, source, "bank"),
        )
        assert batch[500][0] > 1.3 * exact and batch[500][1] < 0.3 * exact
        assert verdict(*batch[500], exact) == verdict(*batch[200], exact) == "memorized"
        assert verdict(*bank[500], exact) == verdict(*bank[200], exact) == "near the exact value"
        assert abs(bank[500][0] - bank[500][1]) < 0.1 * exact
        assert max(batch.values(), key=lambda pair: pair[1]) != batch[500]  # held-out falls again


def test_the_notes_of_the_sources(explorer):
    sources = explorer.data["sources"]
    for T in STEPS:  # one number: nothing to learn by heart
        (seen, new), (_, other) = ends(explorer, "sign", "batch")[T], ends(explorer, "sign", "bank")[T]
        assert seen - new < 0.05 * sources["sign"]["exact"] and abs(new - other) < 0.02
    assert all(new < 2 / 3 * sources["gauss16"]["exact"] for _, new in ends(explorer, "gauss16", "bank").values())
    graphs = sources["graphs"]
    mean = lambda key, field: np.mean(graphs["outcomes"][key][field])
    assert (
        np.mean(graphs["without"]["auc"]) > 0.98
        and abs(mean("batch 1 True", "auc") - np.mean(graphs["without"]["auc"])) < 0.01
    )
    assert (
        mean("bank 200 False", "auc") < 0.9 < 0.98 < mean("bank 200 True", "auc")
        and min(graphs["outcomes"]["bank 50 False"]["auc"]) > 0.98
    )
    assert mean("batch 500 False", "L_MI") > math.log(240)  # more than any set of 240 graphs can have


def test_the_surprise(explorer):
    found = explorer.data["sources"]["gauss5"]
    assert ends(explorer, "gauss5", "batch")[500][0] > 2 * found["exact"]
    for reset in (True, False):
        assert np.mean(found["outcomes"][f"batch 500 {reset}"]["noise"]) == pytest.approx(
            found["by_exact"]["noise"], rel=0.1
        )
    for memory in MEMORIES:
        assert np.mean(found["outcomes"][f"{memory} 5 True"]["noise"]) < 0.05 * found["by_exact"]["noise"]
        assert np.mean(found["outcomes"][f"{memory} 5 False"]["noise"]) > 0.75 * found["by_exact"]["noise"]


def test_a_warm_critic_gathers_steps_and_what_it_learnt_by_heart(explorer):
    drifts = {source: found["drifts"] for source, found in explorer.data["sources"].items()}
    last = lambda source, key: np.mean(drifts[source][key]["held_out"][0][-5:])
    for source, found in explorer.data["sources"].items():
        for memory in MEMORIES:
            assert last(source, f"{memory} 5 False") > 0.3 * np.mean(found["exact_drift"][-5:])
            assert last(source, f"{memory} 5 False") > 3 * last(source, f"{memory} 5 True")
    assert last("gauss16", "bank 200 False") < 0.5 * last("gauss16", "bank 200 True")


@pytest.mark.parametrize(
    "numbers, words",
    [
        ((0.2, 0.1), "too few steps"),
        ((0.79, 0.79), "too few steps"),
        ((0.9, 0.85), "near the exact value"),
        ((1.1, 1.0), "near the exact value"),
        ((0.9, 0.6), "begins to memorize"),
        ((0.5, 0.1), "begins to memorize"),
        ((1.3, 0.9), "memorized"),
        ((9.0, -9.0), "memorized"),
    ],
)
def test_verdict(numbers, words):
    assert verdict(*numbers, exact=1.0) == words == verdict(*(3 * value for value in numbers), exact=3.0)


# ---- panels, state, page


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("T", (1, 100, 500))
def test_the_panels_show_the_present_values(explorer, source, T):
    explorer.view.controls["T"].value = STEPS.index(T)
    explorer.view.controls["source"].value = list(SOURCES).index(source)
    explorer.view.controls["memory"].value = 1
    assert explorer.state == {"T": T, "source": source, "memory": "bank"}
    curves, found = shown(explorer, "curves").figure, explorer.data["sources"][source]
    texts = [note.text for note in curves.layout.annotations]
    for memory in MEMORIES:
        for name, value in zip(("in-sample", "held-out"), ends(explorer, source, memory)[T]):
            assert f"<b>{name} {value:.2f}</b>" in texts
        assert any(f">{verdict(*ends(explorer, source, memory)[T], found['exact'])}</b>" in text for text in texts)
        assert explorer.values()[memory]["held_out"] == ends(explorer, source, memory)[T][1]
    assert texts.count(f"<b>exact {found['exact']:.2f}</b>") == 2
    assert list(curves.data[1].y) == found["curves"][f"batch {T}"]["in_sample"][0]
    low, high = curves.layout.yaxis.range
    heights = sorted((note.xref, note.y) for note in curves.layout.annotations if note.yref != "paper")
    assert all(low < y < high for _, y in heights)
    for (axis, below), (other, above) in zip(heights, heights[1:]):
        assert axis != other or above - below > 0.079 * (high - low)  # none hides another
    drifts = shown(explorer, "drift").figure
    assert (
        list(drifts.data[1].y) == found["drifts"][f"bank {T} True"]["in_sample"][0]
        and list(drifts.data[-1].y) == found["exact_drift"]
    )
    rows = found["outcomes"][f"bank {T} False"]
    field = "auc" if source == "graphs" else "noise"
    digits = 2 if statistics.fmean(rows[field]) < 10 else 1
    assert (
        f"{statistics.fmean(rows[field]):.{digits}f} ± {statistics.stdev(rows[field]):.{digits}f}"
        in shown(explorer, "numbers").value
    )
    dots = shown(explorer, "outcome").figure.data[3].y
    assert np.array(dots) == pytest.approx(
        np.array(
            [
                value if source == "graphs" else math.log10(value)
                for t in STEPS
                for value in found["outcomes"][f"bank {t} False"][field]
            ]
        ),
        rel=1e-3,
    )
    assert SAYS[source] in shown(explorer, "numbers").value
    marked = re.findall(r"font-weight:600>([^<]*)<", shown(explorer, "cost").value)
    assert marked[0] == str(T) and len(marked) == 3


@pytest.mark.parametrize("memory", MEMORIES)
def test_titles_say_what_the_critic_was_trained_on_and_are_short(explorer, memory):
    for source in SOURCES:
        explorer.restore({"source": source, "memory": memory})
        for name in ("drift", "outcome"):
            title = explorer.figure(name).layout.title.text
            assert KEPT[memory] in title and len(title) <= 60


def test_a_bank_of_the_lower_pictures_leaves_the_upper_ones_alone(explorer):
    before = explorer.figure("curves").to_json()
    explorer.memory = "bank"
    assert explorer.figure("curves").to_json() == before


def test_every_combination_draws(explorer):
    from gib_nb.explorers.page import static_states

    found = static_states(explorer)
    assert len(found["states"]) == len(STEPS) * len(SOURCES) * 2 and "nan" not in str(found["contents"]).lower()


def test_state_and_errors(explorer):
    state = {"T": 5, "source": "graphs", "memory": "bank"}
    assert InnerStepsExplorer().restore(state).state == state
    with pytest.raises(ValueError, match="expected T to be one of 1, 2, 5, 10, 20, 50, 100, 200, 500"):
        explorer.T = 7
    with pytest.raises(ValueError, match="expected source"):
        InnerStepsExplorer(source="cauchy")
    assert explorer.T == 100
    for text in (explorer.hint, explorer.counterexample, *SAYS.values()):
        assert html.unescape(text) == text


# ---- live


def test_a_live_loop_streams_its_curve_and_takes_a_new_seed(explorer, monkeypatch):
    explorer.restore({"T": 20, "source": "gauss5", "memory": "batch"})
    monkeypatch.setattr(explorer.live, "pause", 0.0)
    seen = []
    monkeypatch.setattr(explorer.live, "on_change", lambda run: seen.append((run.fraction, run.figure)))
    explorer.live.start()
    explorer.live.join()
    assert [fraction for fraction, _ in seen[:-1]] == pytest.approx([t / 20 for t in range(1, 21)])
    in_sample, held_out = (explorer.live.figure.data[i].y for i in (1, 3))
    assert len(in_sample) == len(held_out) == 20 and in_sample[-1] > in_sample[0]
    with inner_steps.single_thread():
        *_, (_, measure) = sweep.inner_loop("gauss5", "batch", 20, 100)
    assert (in_sample[-1], held_out[-1]) == pytest.approx(measure(), rel=0.01, abs=0.002)
    assert f"in-sample {in_sample[-1]:.2f}" in explorer.live.text and "exact 1.01" in explorer.live.text
    assert explorer.next_seed == 101


def test_stop_ends_a_live_loop_within_a_step(explorer, monkeypatch):
    explorer.restore({"T": 500, "source": "sign"})
    monkeypatch.setattr(explorer.live, "pause", 0.0)
    explorer.view.live.start.value = True
    while explorer.live.fraction == 0 and explorer.live.running:
        time.sleep(0.01)
    explorer.view.live.stop.value = True
    at = explorer.live.fraction
    explorer.live.join()
    assert explorer.live.text.startswith("stopped") and explorer.live.fraction <= at + 3 / 500 < 1


def test_an_exception_in_the_live_loop_is_shown_and_raised(explorer, monkeypatch):
    def broken(*settings):
        raise FloatingPointError("no longer finite")
        yield

    monkeypatch.setattr(inner_steps, "inner_loop", broken)
    explorer.view.live.start.value = True
    with pytest.raises(FloatingPointError, match="no longer finite"):
        explorer.live.join()
    assert "no longer finite" in explorer.view.live.words.value
