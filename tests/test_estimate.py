"Mutual information of any two tables: numbers, categories, and both."

import math
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_selection import mutual_info_regression
from sklearn.metrics import mutual_info_score

from gib_nb.information import estimate
from gib_nb.information.critic import EstimateWarning
from gib_nb.information.estimate import (
    GaussianScore,
    Radial,
    columns_of,
    conditional_mi,
    counted,
    estimate_mi,
    ksg,
    nce_terms,
    ross,
)


def normal_pair(n, d=1, rho=0.8, seed=0):
    random = np.random.default_rng(seed)
    x, noise = random.normal(size=(2, n, d))
    return x, rho * x + math.sqrt(1 - rho**2) * noise


def test_neighbors_are_those_of_scikit_learn():
    x, y = normal_pair(500)
    theirs = mutual_info_regression(x, y[:, 0], n_neighbors=5, random_state=0)[0]
    scale = lambda values: values / values.std()  # as theirs does first
    assert ksg(scale(x), scale(y), 5).mean() == pytest.approx(theirs, abs=0.02)


def test_the_bias_of_neighbors_is_in_the_error():
    "Noise in a narrow strip: three neighbors find more than ten, and both too little."
    random = np.random.default_rng(0)
    x = random.uniform(size=3000)
    found = estimate_mi(x, x + random.uniform(-0.1, 0.1, 3000))
    assert found.method == "neighbors" and 0 < 0.1 - math.log(0.2) - found.value < 3 * found.standard_error


def test_counts_are_those_of_scikit_learn_less_their_bias():
    random = np.random.default_rng(0)
    x, y = random.integers(0, 3, 400), random.integers(0, 4, 400)
    value, terms = counted(torch.tensor(x), torch.tensor(y))
    assert float(terms.mean()) == pytest.approx(mutual_info_score(x, y), abs=1e-6)
    assert value == pytest.approx(mutual_info_score(x, y) - 2 * 3 / 800, abs=1e-6)  # (3 − 1)(4 − 1)/2N


def test_a_number_and_a_category_by_hand():
    "Two categories a long way apart: the category is a function of the number."
    x = np.concatenate([np.linspace(0, 1, 50), np.linspace(10, 11, 50)])[:, None]
    assert ross(x, np.repeat([0, 1], 50)).mean() == pytest.approx(math.log(2), abs=0.02)


@settings(max_examples=20)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 10**6))
def test_the_score_of_a_normal_distribution_is_its_density_ratio(d, e, seed):
    random = np.random.default_rng(seed)
    pairs = torch.tensor(random.normal(size=(200, d + e)) @ random.normal(size=(d + e, d + e)))
    x, y = pairs[:, :d], pairs[:, d:]
    score = GaussianScore.fit(x, y)
    density = lambda values: torch.distributions.MultivariateNormal(
        values.mean(0),
        torch.cov(values.T, correction=0).reshape(values.shape[1], -1) + 1e-6 * torch.eye(values.shape[1]),
    ).log_prob(values)
    wanted = density(pairs) - density(x) - density(y)
    assert torch.allclose(score.table(x, y).diagonal(), wanted, atol=1e-3 * float(1 + wanted.abs().max()))
    assert score.bias == d * e / 400


def test_a_normal_distribution_is_found_without_a_critic():
    x, y = normal_pair(1000, 5, 0.5)
    found = estimate_mi(x, y)
    assert found.method == "gaussian" and found.value == pytest.approx(
        -2.5 * math.log(0.75), abs=4 * found.standard_error
    )
    assert found.interval[0] < found.value < found.interval[1] and not found.warnings and float(found) == found.value


def test_ranks_alone_matter():
    "Increasing functions of the columns change nothing, not even the last digit."
    x, y = normal_pair(100, 4)
    assert estimate_mi(x, y) == estimate_mi(np.exp(3 * x), np.tan(np.arctan(y)))


@pytest.mark.parametrize("d", [1, 2, 6])
def test_independent_columns_have_almost_nothing(d):
    x, y = normal_pair(300, d, 0.0)
    found = estimate_mi(x, y, permutations=99)
    assert 0 <= found.value < 0.08 and abs(found.raw) < 4 * found.standard_error + 0.01 and found.p_value > 0.01


@pytest.mark.slow
def test_p_values_of_independent_columns_are_uniform_and_small_for_dependent_ones():
    values = [estimate_mi(*normal_pair(100, 2, 0.0, seed), permutations=99).p_value for seed in range(20)]
    assert min(values) > 0.005 and 0.25 < np.mean(values) < 0.75
    assert max(estimate_mi(*normal_pair(100, 2, 0.6, seed), permutations=99).p_value for seed in range(5)) == 0.01


@pytest.mark.slow
def test_dependence_without_correlation_needs_the_critic_and_is_said_to_be_low():
    random = np.random.default_rng(0)
    scale = np.exp(random.normal(size=(4000, 1)))
    x, y = scale * random.normal(size=(4000, 3)), scale * random.normal(size=(4000, 3))
    with pytest.warns(EstimateWarning, match="not like that of a normal distribution"):
        found = estimate_mi(x, y)
    assert found.method == "critic" and found.candidates["gaussian"] < 0.02 and found.value > 0.2


def test_a_spiral_is_seen_by_the_radial_columns():
    random = np.random.default_rng(0)
    x, noise = random.normal(size=(2, 4000, 2))
    y = 0.95 * x + 0.3 * noise
    angle = 2 * (x**2).sum(1)
    turned = np.stack(
        [np.cos(angle) * x[:, 0] - np.sin(angle) * x[:, 1], np.sin(angle) * x[:, 0] + np.cos(angle) * x[:, 1]], 1
    )
    plain, bent = GaussianScore.fit(*map(torch.tensor, (turned, y))), torch.tensor(turned)
    assert GaussianScore.fit(Radial(bent)(bent), torch.tensor(y)).constant > plain.constant + 0.1


def test_categories_words_booleans_and_data_frames():
    random = np.random.default_rng(0)
    city = random.choice(["Bonn", "Kiel", "Ulm"], 500)
    capital, height = city == "Kiel", random.normal(size=500) + 3 * (city == "Ulm")
    found = estimate_mi(city, capital)
    entropy = -sum(p * math.log(p) for p in (capital.mean(), 1 - capital.mean()))
    assert found.method == "counts" and found.value == pytest.approx(entropy, abs=0.02)
    assert estimate_mi(height, city).method == "neighbors"
    assert estimate_mi(height, city).value == pytest.approx(estimate_mi(city, height).value)
    frame = pd.DataFrame({"height": height, "city": city})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        both = estimate_mi(frame, pd.DataFrame({"capital": capital, "again": city}))
    assert both.value > 0.8 * math.log(3)
    assert estimate_mi(torch.tensor(capital), list(city)).value == pytest.approx(found.value)


def test_integers_are_categories_and_their_order_does_not_matter():
    random = np.random.default_rng(0)
    x = random.integers(0, 4, 1000)
    assert estimate_mi(x, (x * 7) % 5).value == pytest.approx(estimate_mi(x, x).value, abs=1e-6)
    assert columns_of(x, "x").numbers.shape == (1000, 0) and columns_of(x.astype(float), "x").codes.shape == (1000, 0)


@pytest.mark.slow
def test_tied_numbers_are_not_given_to_neighbors():
    x, y = normal_pair(1000)
    found = estimate_mi(x.round(), y.round())
    assert found.method != "neighbors" and found.value > 0.2


def test_few_pairs_and_strong_dependence():
    assert estimate_mi(*normal_pair(50, 2)).value == pytest.approx(1.02, abs=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        found = estimate_mi(*normal_pair(400, 4, 0.99))
    assert found.value == pytest.approx(-2 * math.log(1 - 0.99**2), rel=0.05)  # above log N


@pytest.mark.slow
def test_many_pairs_are_compared_in_blocks(monkeypatch):
    monkeypatch.setattr(estimate, "BLOCK", 100)
    monkeypatch.setattr(estimate, "MOST_PAIRS", 2000)
    x, y = normal_pair(3000, 3, 0.8)
    with pytest.warns(EstimateWarning, match="the critic used 2,000 of the 3,000 pairs"):
        found = estimate_mi(x, y, permutations=19)
    assert found.value == pytest.approx(-1.5 * math.log(0.36), abs=0.1) and found.p_value == 0.05
    assert [len(part) for part in estimate.blocks(torch.arange(250))] == [84, 84, 82]


def test_the_normalized_value_is_the_correlation_of_a_normal_pair():
    x, y = normal_pair(3000, 1, 0.6)
    found = estimate_mi(x, y, normalized=True)
    assert found.value == pytest.approx(0.6, abs=0.06) and found.raw == estimate_mi(x, y).raw
    assert estimate_mi(x, x, normalized=True).value > 0.99


@pytest.mark.slow
def test_conditional_information():
    random = np.random.default_rng(0)
    z, a, b = random.normal(size=(3, 3000))
    common = conditional_mi(z + a, z + b, z)  # dependent through z alone
    assert abs(common.raw) < 0.06 and set(common.candidates) == {"I(X;(Y,Z))", "I(X;Z)"}
    collider = conditional_mi(a, b, a + b + 0.1 * z)  # independent, until their sum is known
    assert collider.value > 1 and estimate_mi(a, b).value < 0.03


def test_a_constant_condition_changes_nothing():
    x, y = normal_pair(400)
    with pytest.warns(EstimateWarning, match="z is identical in all pairs"):
        found = conditional_mi(x, y, np.ones(400))
    assert found.raw == estimate_mi(x, y).raw and found.candidates["I(X;Z)"] == 0


@pytest.mark.parametrize(
    "x, y, words",
    [
        (np.zeros(5), np.zeros(5), "expected at least 8 pairs"),
        (np.arange(9.0), np.arange(10.0), "expected as many x as y"),
        (np.array([1.0] * 8 + [np.nan]), np.arange(9.0), "expected finite numbers in x"),
        (3.0, np.arange(9.0), "expected at least 8 pairs"),
    ],
)
def test_wrong_samples(x, y, words):
    with pytest.raises(ValueError, match=words):
        estimate_mi(x, y)


def test_a_constant_side_has_no_information():
    with pytest.warns(EstimateWarning, match="x is identical in all pairs"):
        found = estimate_mi(np.ones(20), np.arange(20.0))
    assert found.value == found.raw == 0 and found.method == "constant"


def test_the_global_generators_are_not_used():
    x, y = normal_pair(60, 4)
    torch.manual_seed(0)
    first, state = estimate_mi(x, y), torch.get_rng_state()
    torch.manual_seed(1)
    assert estimate_mi(x, y) == first and not torch.equal(torch.get_rng_state(), state)
    assert estimate_mi(x, y, seed=1) != first


def test_a_constant_critic_has_the_value_0_and_the_ceiling_is_log_n():
    assert nce_terms(torch.full((6, 6), 3.0))[0].abs().max() < 1e-6
    assert float(nce_terms(1e4 * torch.eye(6))[0].mean()) == pytest.approx(math.log(6))
