"""Room 06: the bi-level minimization of mutual information over the noise of the sign channel."""

import dataclasses
import json
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gib_nb.information.bounds import dv_value
from gib_nb.information.case_study import (
    CaseStudy,
    ascent_loop,
    case_study,
    population_value,
    sample_channel,
    slices,
    value_and_slope,
)
from gib_nb.information.critic import InnerLoop, StatisticsNetwork
from gib_nb.information.exact import sign_channel_gradient, sign_channel_mutual_information, sign_channel_plug_in

FIELDS = ("variance", "L_MI", "plug_in", "exact", "critic_gap", "gradient", "exact_gradient")
QUICK = dict(epochs=3, samples=500, inner_steps=5, batch_size=100)


@pytest.fixture(scope="module")
def study():
    return case_study(epochs=8, learning_rate=0.2, inner_steps=100)


@pytest.fixture
def critic():
    return StatisticsNetwork(1, 1, 6, torch.Generator().manual_seed(0))


def signs(index):
    return 2.0 * index[:, None] - 1


# ---- the record


def test_one_value_per_epoch_in_every_field(study):
    assert len(study) == 8
    assert all(getattr(study, name).shape == (8,) and np.isfinite(getattr(study, name)).all() for name in FIELDS)
    assert (
        study.settings["first_steps"] == 400
        and study.settings["variance"] == 0.2
        and study.variance[0] == pytest.approx(0.2)
    )
    json.dumps(study.settings)


def test_the_record_is_frozen(study):
    with pytest.raises(dataclasses.FrozenInstanceError):
        study.variance = None


def test_information_falls_and_the_estimate_follows(study):
    assert (np.diff(study.variance) > 0).all() and (np.diff(study.exact) < 0).all()
    assert study.L_MI[-1] < study.L_MI[0] - 0.2
    assert np.abs(study.L_MI - study.plug_in).max() < 0.01
    assert 0 < study.critic_gap.min() and study.critic_gap.max() < 0.01


def test_the_slope_has_the_sign_and_size_of_the_exact_one(study):
    assert (study.gradient < 0).all()
    assert np.median(np.abs(study.gradient / study.exact_gradient - 1)) < 0.05


def test_exact_columns_are_those_of_the_channel(study):
    assert np.allclose(study.exact, sign_channel_mutual_information(study.variance))
    assert np.allclose(study.exact_gradient, sign_channel_gradient(study.variance))


def test_plug_in_is_taken_on_the_samples_of_the_epoch():
    # the weights of the critic are drawn first, then the samples of epoch 0
    generator = torch.Generator().manual_seed(5)
    StatisticsNetwork(1, 1, 20, generator)
    index, _, y = sample_channel(500, 0.3, generator)
    study = case_study(**{**QUICK, "epochs": 1}, variance=0.3, seed=5)
    assert study.plug_in[0] == pytest.approx(sign_channel_plug_in(signs(index), y, 0.3), abs=1e-6)


def test_figure_shows_every_epoch(study):
    figure = study.figure()
    assert [trace.name for trace in figure.data] == ["exact", "plug-in", "L<sub>MI</sub>", "σ²"]
    assert all(len(trace.y) == 8 for trace in figure.data) and figure.layout.width <= 640


# ---- the scheme


@pytest.mark.parametrize("options", [{}, {"reset": True}, {"negatives": "permute"}, {"negatives": "shift:3"}])
def test_two_runs_with_one_seed_are_equal_bit_for_bit(options):
    first, second, other = (case_study(**QUICK, **options, seed=seed) for seed in (1, 1, 2))
    assert all((getattr(first, name) == getattr(second, name)).all() for name in FIELDS)
    assert (first.L_MI != other.L_MI).all()


def test_the_global_random_state_is_left_alone():
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    case_study(**QUICK, negatives="permute", reset=True)
    assert torch.equal(before[0], torch.get_rng_state()) and (before[1] == np.random.get_state()[1]).all()


def test_one_step_per_epoch_is_not_enough_and_more_are():
    gap = {T: case_study(epochs=3, inner_steps=T, first_steps=T, learning_rate=0.1).critic_gap[-1] for T in (1, 100)}
    assert gap[1] > 0.4 and gap[100] < 0.03


def test_a_warm_critic_remembers_and_a_reset_one_does_not():
    steps = dict(epochs=6, samples=4000, inner_steps=20, first_steps=20, batch_size=500, learning_rate=0.01)
    warm, reset = case_study(**steps), case_study(**steps, reset=True)
    assert warm.critic_gap[-1] < 0.1 * warm.critic_gap[0]
    assert reset.critic_gap[-1] > 0.3 * reset.critic_gap[0]


@pytest.mark.slow
@pytest.mark.parametrize("negatives", ["permute", "shift:8"])
def test_other_negatives_reach_the_same_information(negatives):
    study = case_study(epochs=2, inner_steps=150, negatives=negatives)
    assert np.abs(study.L_MI - study.plug_in).max() < 0.03 and study.critic_gap.max() < 0.01


def test_extreme_noise_stays_finite():
    for variance in (1e-3, 1e4):
        study = case_study(**QUICK, variance=variance)
        assert all(np.isfinite(getattr(study, name)).all() for name in FIELDS)


def test_two_pairs_are_enough_to_run():
    study = case_study(epochs=4, samples=2, inner_steps=3)
    assert np.isfinite(study.L_MI).all()


# ---- the callback


def test_callback_sees_the_study_grow():
    seen = []
    study = case_study(**QUICK, on_epoch=seen.append)
    assert [len(part) for part in seen] == [1, 2, 3] and all(isinstance(part, CaseStudy) for part in seen)
    assert (seen[-1].L_MI == study.L_MI).all() and (seen[0].L_MI == study.L_MI[:1]).all()


def test_a_true_answer_stops_the_study():
    study = case_study(**QUICK, on_epoch=lambda part: len(part) == 2)
    assert len(study) == 2
    assert (study.L_MI == case_study(**QUICK).L_MI[:2]).all()


def test_an_error_in_the_callback_is_not_swallowed():
    def fail(part):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        case_study(**QUICK, on_epoch=fail)


# ---- bad settings


@pytest.mark.parametrize(
    "option, value, text",
    [
        ("epochs", 0, "epochs >= 1"),
        ("epochs", 2.5, "whole number"),
        ("samples", 1, "samples >= 2"),
        ("inner_steps", 0, "inner_steps >= 1"),
        ("first_steps", 0, "first_steps >= 1"),
        ("hidden", 0, "hidden >= 1"),
        ("batch_size", 1, "batch_size >= 2"),
        ("variance", 0.0, "variance > 0"),
        ("variance", math.nan, "variance > 0"),
        ("variance", math.inf, "variance > 0"),
        ("learning_rate", -1.0, "learning_rate > 0"),
        ("inner_learning_rate", 0, "inner_learning_rate > 0"),
        ("negatives", "all", "unique"),
        ("negatives", "shift", "negatives"),
        ("negatives", "shift:0", "negatives"),
    ],
)
def test_bad_settings_are_refused_by_name(option, value, text):
    with pytest.raises(ValueError, match=text):
        case_study(**{**QUICK, option: value})


# ---- the parts


def test_samples_follow_the_channel():
    index, noise, y = sample_channel(50_000, 0.5, torch.Generator().manual_seed(0))
    assert index.shape == (50_000,) and y.shape == noise.shape == (50_000, 1)
    assert set(index.tolist()) == {0, 1} and abs(index.double().mean() - 0.5) < 0.01
    assert torch.allclose(y - signs(index), 0.5**0.5 * noise, atol=1e-6)
    assert abs((y - signs(index)).var() - 0.5) < 0.01


@given(N=st.integers(2, 60), size=st.integers(1, 80), steps=st.integers(1, 40), seed=st.integers(0, 9))
@settings(max_examples=60)
def test_slices_use_up_the_sample_before_they_repeat(N, size, steps, seed):
    rows = slices(N, size, steps, torch.Generator().manual_seed(seed))
    size = min(size, N)
    assert rows.shape == (steps, size) and 0 <= rows.min() and rows.max() < N
    each = N // size
    assert rows[:each].flatten().tolist() == list(range(size * min(each, steps)))
    for start in range(0, steps, each):
        once = rows[start : start + each].flatten().tolist()
        assert len(set(once)) == len(once)


def test_a_sample_that_is_used_up_is_dealt_in_a_fresh_order():
    rows = slices(100, 10, 30, torch.Generator().manual_seed(0)).view(3, 100)
    assert rows[0].tolist() == list(range(100)) and all(sorted(order.tolist()) == list(range(100)) for order in rows)
    assert (rows[0] != rows[1]).any() and (rows[1] != rows[2]).any()


class LogDensityRatio:
    "log p(y|x)/p(y) of the channel, plus a constant that must not matter."

    def __init__(self, variance, constant=0.0):
        self.variance, self.constant = variance, constant

    def table(self, x, y):
        z = y.T / self.variance
        return x * z - torch.logaddexp(z, -z) + self.constant


@pytest.mark.parametrize("variance", [0.05, 0.2, 1.0, 20.0])
@pytest.mark.parametrize("constant", [0.0, 30.0])
def test_the_best_critic_has_no_gap(variance, constant):
    value = population_value(LogDensityRatio(variance, constant), variance)
    assert value == pytest.approx(sign_channel_mutual_information(variance), abs=1e-5)


@given(seed=st.integers(0, 1000), variance=st.floats(0.05, 20), scale=st.floats(0.1, 5))
@settings(max_examples=40)
def test_no_critic_beats_the_information_under_the_law(seed, variance, scale):
    critic = StatisticsNetwork(1, 1, 8, torch.Generator().manual_seed(seed))
    critic.flat_weights.data.mul_(scale)
    assert population_value(critic, variance) <= sign_channel_mutual_information(variance) + 1e-6


def test_population_value_is_the_limit_of_many_samples(critic):
    critic.flat_weights.data.mul_(2)
    index, noise, y = sample_channel(400_000, 0.7, torch.Generator().manual_seed(1))
    assert population_value(critic, 0.7) == pytest.approx(value_and_slope(critic, index, noise, 0.7)[0], abs=0.005)


def loop_value(critic, index, noise, variance):
    "All ordered pairs i≠j, one at a time, in float64 with autograd."
    x, y = signs(index).double(), signs(index).double() + variance.sqrt() * noise.double()
    N = len(x)
    score = lambda i, j: critic(x[i : i + 1], y[j : j + 1])[0]
    joint = sum(score(i, i) for i in range(N)) / N
    product = sum(score(i, j).exp() for i in range(N) for j in range(N) if i != j) / (N * (N - 1))
    return joint - product.log()


def test_dedup_is_all_pairs_and_its_slope_the_derivative(critic):
    index, noise, _ = sample_channel(9, 0.4, torch.Generator().manual_seed(2))
    variance = torch.tensor(0.4, dtype=torch.double, requires_grad=True)
    value, slope = value_and_slope(critic, index, noise, 0.4)
    critic.double()
    oracle = loop_value(critic, index, noise, variance)
    oracle.backward()
    assert value == pytest.approx(oracle.item(), abs=1e-5) and slope == pytest.approx(variance.grad.item(), rel=1e-4)


@pytest.mark.parametrize("negatives", ["unique", "permute", "shift:3"])
def test_slope_agrees_with_autograd(critic, negatives):
    index, noise, _ = sample_channel(50, 0.4, torch.Generator().manual_seed(3))
    variance = torch.tensor(0.4, requires_grad=True)
    y = signs(index) + variance.sqrt() * noise
    value = dv_value(
        critic, signs(index), y, "all" if negatives == "unique" else negatives, torch.Generator().manual_seed(4)
    )
    value.backward()
    ours = value_and_slope(critic, index, noise, 0.4, negatives, torch.Generator().manual_seed(4))
    assert ours == pytest.approx((value.item(), variance.grad.item()), rel=1e-3, abs=1e-6)


def test_measuring_leaves_the_critic_as_it_was(critic):
    before = critic.flat_weights.detach().clone()
    index, noise, y = sample_channel(100, 0.4, torch.Generator().manual_seed(3))
    value_and_slope(critic, index, noise, 0.4)
    population_value(critic, 0.4)
    assert torch.equal(before, critic.flat_weights) and critic.flat_weights.grad is None


def test_climbing_improves_the_critic_and_leaves_the_sample(critic):
    index, noise, y = sample_channel(2000, 0.2, torch.Generator().manual_seed(3))
    before, kept = population_value(critic, 0.2), y.clone()
    ascent_loop(InnerLoop(critic, negatives="unique", batch_size=500), index, y, 100)
    assert population_value(critic, 0.2) > before + 0.3 and torch.equal(y, kept)


def test_the_learning_rate_falls_along_a_cosine(critic):
    rates = []
    loop = InnerLoop(critic, learning_rate=0.02, negatives="unique", batch_size=50)
    loop.adam_step = lambda gradient, rate: rates.append(rate)
    index, _, y = sample_channel(100, 0.2, torch.Generator().manual_seed(3))
    ascent_loop(loop, index, y, 10)
    assert rates == pytest.approx([0.02 * (0.1 + 0.45 * (1 + math.cos(math.pi * t / 10))) for t in range(10)])


@pytest.mark.parametrize("reset, counts", [(False, [0, 20, 25]), (True, [0, 0, 0])])
def test_the_moments_of_adam_live_as_long_as_the_critic(monkeypatch, reset, counts):
    seen = []
    monkeypatch.setattr(
        "gib_nb.information.case_study.ascent_loop",
        lambda loop, *rest: (seen.append(loop.count), ascent_loop(loop, *rest)),
    )
    case_study(**QUICK, reset=reset)
    assert seen == counts


@pytest.mark.slow
def test_import_is_light():
    code = "import sys, gib_nb.information.case_study; print([name for name in ('plotly', 'pandas', 'sklearn', 'rdkit') if name in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


@pytest.mark.slow
def test_the_plain_scheme_is_the_same_study():
    from tests.benchmarks.case_study import plain_scheme

    before = torch.get_rng_state()
    (row,) = plain_scheme(epochs=1)
    assert row["L_MI_to_plug_in"] < 0.04 and 0 < row["critic_gap"] < 0.04
    assert torch.equal(before, torch.get_rng_state())
