"Exact information theory: identities and bounds on random tables, and oracles that are obvious loops."

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.integrate import quad

from gib_nb.information.exact import (
    BottleneckCurve,
    BottleneckPoint,
    conditional_entropy,
    critical_beta,
    entropy,
    gaussian_mutual_information,
    information_bottleneck,
    kl_divergence,
    mutual_information,
    noisy_xor_table,
    sign_channel_gradient,
    sign_channel_mutual_information,
    sign_channel_plug_in,
)

SLACK = 1e-12


@st.composite
def tables(draw, rows=st.integers(1, 6), columns=st.integers(1, 5)):
    "Tables of probabilities, many of them with zero cells, zero rows and zero columns, and with tiny cells."
    shape = draw(rows), draw(columns)
    cells = st.one_of(st.just(0.0), st.floats(0, 1), st.sampled_from([1e-300, 1e-160, 1e-12]))
    counts = draw(hnp.arrays(float, shape, elements=cells).filter(lambda counts: counts.sum() > 0.1))
    return counts / counts.sum()


def random_table(seed, n=8, m=4):
    generator = np.random.default_rng(seed)
    rows = generator.dirichlet(np.full(m, generator.choice([0.1, 0.5, 2.0])), size=n)
    return generator.dirichlet(np.full(n, 1.5))[:, None] * rows


def noisy_bit(flip):
    return np.array([[1 - flip, flip], [flip, 1 - flip]]) / 2


# entropy, divergence and mutual information of tables


def loop_mutual_information(joint):
    return sum(
        joint[x, y] * (np.log(joint[x, y]) - np.log(joint[x].sum()) - np.log(joint[:, y].sum()))
        for x in range(joint.shape[0])
        for y in range(joint.shape[1])
        if joint[x, y] > 0
    )


@given(tables())
def test_table_identities(joint):
    x, y, both = entropy(joint.sum(1)), entropy(joint.sum(0)), entropy(joint)
    information = mutual_information(joint)
    assert 0 <= information <= min(x, y) + SLACK
    assert information == pytest.approx(mutual_information(joint.T), abs=SLACK)
    assert information == pytest.approx(loop_mutual_information(joint), abs=1e-9)
    assert both == pytest.approx(x + conditional_entropy(joint), abs=SLACK)  # chain rule
    assert information == pytest.approx(y - conditional_entropy(joint), abs=SLACK)
    assert max(x, y) - SLACK <= both <= x + y + SLACK
    assert 0 <= x <= np.log(joint.shape[0]) + SLACK


@given(tables(), st.data())
def test_processing_loses_information(joint, data):
    names = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(joint), max_size=len(joint))))
    summary = np.array([joint[names == name].sum(0) for name in range(3)])
    assert mutual_information(summary) <= mutual_information(joint) + SLACK


@given(
    st.integers(1, 8).flatmap(
        lambda size: st.tuples(tables(st.just(1), st.just(size)), tables(st.just(1), st.just(size)))
    )
)
def test_divergence_is_non_negative_and_infinite_only_where_q_forbids_p(pair):
    p, q = pair
    divergence = kl_divergence(p, q)
    assert divergence >= 0 and kl_divergence(p, p) == 0
    assert np.isinf(divergence) == bool(((q == 0) & (p > 0)).any())
    if np.isfinite(divergence):
        assert divergence == pytest.approx(
            sum(a * (np.log(a) - np.log(b)) for a, b in zip(p.flat, q.flat) if a > 0), abs=1e-9
        )


def test_zero_probabilities_are_finite():
    assert entropy([0, 1, 0]) == 0 and str(entropy([1, 0])) == "0.0"
    assert kl_divergence([0, 0.5, 0.5], [0.5, 0.25, 0.25]) == pytest.approx(np.log(2))
    assert mutual_information([[0.5, 0, 0], [0, 0.5, 0], [0, 0, 0]]) == pytest.approx(np.log(2))
    assert mutual_information([[1e-200, 0], [0, 1]]) == pytest.approx(0, abs=SLACK)  # p(x)p(y) underflows


def test_known_values():
    assert mutual_information([[3 / 8, 1 / 8], [1 / 8, 3 / 8]]) == pytest.approx(
        3 / 4 * np.log(3 / 2) + 1 / 4 * np.log(1 / 2), abs=1e-15
    )
    for flip in (0, 0.1, 0.3, 0.5, 1):
        assert mutual_information(noisy_xor_table(flip)) == pytest.approx(
            np.log(2) - entropy([flip, 1 - flip]), abs=1e-15
        )
        for bit in (noisy_xor_table(flip).reshape(2, 2, 2).sum(axis) for axis in (0, 1)):
            assert mutual_information(bit) == pytest.approx(0, abs=1e-15)


def test_tables_of_float32_are_taken():
    joint = np.random.default_rng(0).dirichlet(np.ones(200)).reshape(20, 10)
    assert mutual_information(joint.astype(np.float32)) == pytest.approx(mutual_information(joint), abs=1e-6)


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: entropy([0.5, 0.6]), r"expected probabilities that sum to 1 \(got a sum of 1.1\)"),
        (lambda: entropy([1.5, -0.5]), r"expected probabilities >= 0 \(got -0.5\)"),
        (lambda: entropy([np.nan, 1]), r"expected probabilities that are finite \(got 1 "),
        (lambda: entropy([]), "got an empty array"),
        (lambda: kl_divergence([0.5, 0.5], [1 / 3] * 3), r"same shape \(got \(2,\) and \(3,\)\)"),
        (lambda: kl_divergence([0.5, 0.5], [1, 1]), "expected q that sum to 1"),
        (lambda: mutual_information([0.5, 0.5]), r"expected a table .*got an array of shape \(2,\)"),
        (lambda: mutual_information([[3, 1], [1, 3]]), "divide a table of counts by its total"),
        (lambda: conditional_entropy(np.full((2, 2, 2), 1 / 8)), "expected a table"),
        (lambda: noisy_xor_table(1.5), "between 0 and 1"),
    ],
)
def test_what_is_no_distribution_is_refused(call, text):
    with pytest.raises(ValueError, match=text):
        call()


# Gaussians


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("rho", [0, 1e-6, -0.5, 0.99])
def test_correlated_pairs(d, rho):
    covariance = np.block([[np.eye(d), rho * np.eye(d)], [rho * np.eye(d), np.eye(d)]])
    assert gaussian_mutual_information(covariance, d) == pytest.approx(
        -d / 2 * np.log1p(-(rho**2)), rel=1e-9, abs=1e-18
    )


@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 3))
def test_gaussian_equals_determinants_and_ignores_mixing_of_a_side(seed, left, right):
    generator = np.random.default_rng(seed)
    d = left + right
    root = generator.normal(size=(d, d + 2))
    covariance = root @ root.T
    log_det = lambda matrix: np.linalg.slogdet(matrix)[1]
    expected = (log_det(covariance[:left, :left]) + log_det(covariance[left:, left:]) - log_det(covariance)) / 2
    assert gaussian_mutual_information(covariance, left) == pytest.approx(expected, rel=1e-6, abs=1e-9)
    mix = np.eye(d)
    mix[:left, :left] = generator.normal(size=(left, left)) * 1e3 + 5e3 * np.eye(left)
    assert gaussian_mutual_information(mix @ covariance @ mix.T, left) == pytest.approx(expected, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize(
    "covariance, split, text",
    [
        (np.ones((2, 3)), 1, "square"),
        ([[1, 0.5], [0.4, 1]], 1, "symmetric"),
        ([[1, np.nan], [np.nan, 1]], 1, "finite"),
        (np.eye(3), 0, r"split between 1 and 2.*got 0"),
        (np.eye(3), 3, "split between 1 and 2"),
        ([[1, 1, 0], [1, 1, 0], [0, 0, 1]], 2, "positive definite"),
        ([[1, 1], [1, 1]], 1, "infinite"),
        ([[1, 2], [2, 1]], 1, "correlations below 1"),
    ],
)
def test_what_is_no_covariance_is_refused(covariance, split, text):
    with pytest.raises(ValueError, match=text):
        gaussian_mutual_information(covariance, split)


# the sign channel


def quadrature(function, variance):
    "E function(Y), Y ~ N(1, σ²), by adaptive quadrature in standardized noise, split where the log-odds change sign."
    sigma = variance**0.5
    density = lambda e: np.exp(-e * e / 2) / np.sqrt(2 * np.pi)
    points = [p for p in (-1 / sigma, 0) if abs(p) < 12]
    return quad(
        lambda e: density(e) * function(1 + sigma * e), -12, 12, points=points, epsabs=1e-13, epsrel=1e-13, limit=500
    )[0]


VARIANCES = np.geomspace(1e-3, 1e3, 61)


def test_sign_channel_against_adaptive_quadrature():
    expected = [np.log(2) - quadrature(lambda y: np.logaddexp(0, -2 * y / v), v) for v in VARIANCES]
    assert np.abs(sign_channel_mutual_information(VARIANCES) - expected).max() < 1e-12
    slope = [-quadrature(lambda y: 1 - np.tanh(y / v), v) / (2 * v**2) for v in VARIANCES]
    np.testing.assert_allclose(sign_channel_gradient(VARIANCES), slope, rtol=1e-9, atol=1e-9)


def test_sign_channel_known_values():
    np.testing.assert_allclose(
        sign_channel_mutual_information(np.array([0.2, 1, 5])), [0.6587, 0.3368, 0.0911], atol=5e-5
    )
    assert sign_channel_mutual_information(1e-3) == pytest.approx(np.log(2), abs=1e-15)
    assert sign_channel_mutual_information(1e6) == pytest.approx(5e-7, rel=1e-5)  # 1/(2σ²) for much noise
    assert sign_channel_gradient(1e-3) == 0 and sign_channel_gradient(1e6) == pytest.approx(-5e-13, rel=1e-5)


def test_sign_channel_gradient_is_the_slope():
    middle = np.geomspace(0.02, 50, 30)
    high, low = (sign_channel_mutual_information(middle * (1 + h)) for h in (1e-4, -1e-4))
    np.testing.assert_allclose(sign_channel_gradient(middle), (high - low) / (2e-4 * middle), rtol=2e-6, atol=1e-10)


def test_sign_channel_shapes_and_order():
    grid = VARIANCES[:60].reshape(3, 4, 5)
    for function in (sign_channel_mutual_information, sign_channel_gradient):
        assert function(grid).shape == grid.shape and type(function(1)) is float
        assert function(grid)[1, 2, 3] == pytest.approx(function(grid[1, 2, 3]), abs=1e-15)
    information = sign_channel_mutual_information(VARIANCES)
    assert (
        (np.diff(information) <= 1e-15).all()
        and (information >= 0).all()
        and (sign_channel_gradient(VARIANCES) <= 0).all()
    )


@pytest.mark.parametrize("variance", [0.2, 1, 5])
def test_plug_in(variance):
    generator = np.random.default_rng(0)
    x = generator.choice([-1, 1], size=100_000)
    y = x + variance**0.5 * generator.normal(size=x.size)
    density = lambda y, mean: np.exp(-((y - mean) ** 2) / (2 * variance))
    terms = np.log(density(y[:500], x[:500]) / (density(y[:500], 1) + density(y[:500], -1)) * 2)
    assert sign_channel_plug_in(x[:500], y[:500], variance) == pytest.approx(terms.mean(), abs=1e-12)
    error = np.log(2) - np.logaddexp(0, -2 * x * y / variance)
    assert (
        abs(sign_channel_plug_in(x, y, variance) - sign_channel_mutual_information(variance))
        < 4 * error.std() / x.size**0.5
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda: sign_channel_mutual_information(0),
        lambda: sign_channel_mutual_information([1, -1]),
        lambda: sign_channel_gradient(np.inf),
        lambda: sign_channel_gradient(np.nan),
        lambda: sign_channel_plug_in([1, 0], [1, 1], 1),
        lambda: sign_channel_plug_in([1], [1, 1], 1),
        lambda: sign_channel_plug_in([], [], 1),
        lambda: sign_channel_plug_in([1], [1], 0),
    ],
)
def test_sign_channel_refuses(call):
    with pytest.raises(ValueError, match=r"expected .*\(got"):
        call()


# the information bottleneck


def check(curve):
    "What every curve must satisfy."
    informations = [
        [mutual_information(encoder.T @ curve.joint), mutual_information(curve.joint.sum(1)[:, None] * encoder)]
        for encoder in curve.encoders
    ]
    np.testing.assert_allclose(informations, np.stack([curve.relevance, curve.complexity], 1), atol=1e-9)
    np.testing.assert_allclose(curve.encoders.sum(2), 1, atol=1e-12)
    used = curve.joint.sum(1) @ curve.encoders > 0
    assert (used.sum(1) == curve.clusters).all() and (np.diff(used.astype(int), axis=1) <= 0).all()
    assert (curve.relevance <= mutual_information(curve.joint) + SLACK).all() and (
        curve.relevance <= curve.complexity + 1e-9
    ).all()
    assert (np.diff(curve.complexity) <= 1e-9).all() and (np.diff(curve.relevance) <= 1e-9).all()
    # concave: from one point to the next, relevance per complexity lies between the two prices
    less, more = -np.diff(curve.relevance), -np.diff(curve.complexity)
    assert (less >= curve.beta[:-1] * more - 1e-9).all() and (less <= curve.beta[1:] * more + 1e-9).all()


@settings(max_examples=25)
@given(tables())
def test_any_table_gives_a_curve(joint):
    curve = information_bottleneck(joint, np.linspace(0, 1.2, 13))
    check(curve)
    assert curve.relevance[0] == pytest.approx(mutual_information(joint), abs=1e-9)
    assert (curve.relevance[curve.beta >= 1] == 0).all() and (curve.clusters[curve.beta >= 1] == 1).all()


@pytest.mark.parametrize("seed", range(6))
def test_random_table_has_a_monotone_concave_curve(seed):
    joint = random_table(seed)
    curve = information_bottleneck(joint)
    check(curve)
    assert curve.at(0).relevance == pytest.approx(mutual_information(joint)) and curve.at(1).relevance == 0
    assert curve.clusters[0] == 8 and curve.clusters[-1] == 1


def loop_blahut_arimoto(joint, beta, encoder, steps):
    "The three equations of Tishby, Pereira and Bialek (1999), one number at a time; the value of the objective."
    n, clusters = encoder.shape
    p = joint.sum(1)
    for _ in range(steps):
        mass = [sum(p[x] * encoder[x, t] for x in range(n)) for t in range(clusters)]
        alive = [t for t in range(clusters) if mass[t] > 1e-12]
        decoder = {t: sum(encoder[x, t] * joint[x] for x in range(n)) / mass[t] for t in alive}
        new = np.zeros_like(encoder)
        for x in range(n):
            for t in alive:
                new[x, t] = mass[t] * np.exp(-kl_divergence(joint[x] / p[x], decoder[t]) / beta)
            new[x] /= new[x].sum()
        encoder = new
    return mutual_information(encoder.T @ joint) - beta * mutual_information(p[:, None] * encoder)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("beta", [0.1, 0.35])
def test_objective_is_at_least_that_of_random_restarts(seed, beta):
    joint = random_table(seed, n=4, m=3)
    generator = np.random.default_rng(seed)
    starts = [np.eye(4)] + [generator.dirichlet(np.full(4, 0.5), size=4) for _ in range(5)]
    oracle = max(0, *(loop_blahut_arimoto(joint, beta, start, 60) for start in starts))
    point = information_bottleneck(joint, [0.1, 0.2, 0.35]).at(beta)
    assert point.relevance - beta * point.complexity > oracle - 1e-6


def optimality_gap(joint, curve, starts=60, steps=150):
    """An upper bound of what the best encoder of all could gain at each inner β.

    Minus the objective is, up to a constant, −β Σ p(x) log Σ_t p(t) exp(−KL(p(y|x)‖r_t)/β), minimized over measures on the
    decoders r: a convex problem. Its directional derivative towards a new decoder r bounds the distance from the optimum by
    β (max_r Σ p(x) exp(−KL(p(y|x)‖r)/β) / Z(x) − 1). The maximum is sought by mean shift from many r.
    """
    generator = np.random.default_rng(0)
    inner = (curve.beta > 0) & (curve.beta < 1)
    beta, encoder = curve.beta[inner], curve.encoders[inner]
    p, conditional = joint.sum(1), joint / joint.sum(1, keepdims=True)
    self_term = np.array([-entropy(row) for row in conditional])[:, None]

    def kernel(decoder):
        cross = conditional @ np.log(np.maximum(decoder, 1e-300)).swapaxes(1, 2)
        return np.exp(-(self_term - cross) / beta[:, None, None])

    mass = np.maximum(p @ encoder, 1e-300)
    normalizer = (kernel(encoder.swapaxes(1, 2) @ joint / mass[..., None]) * (p @ encoder)[:, None]).sum(2)
    decoder = np.concatenate([conditional, generator.dirichlet(np.full(joint.shape[1], 0.7), size=starts)])
    decoder = np.broadcast_to(decoder, (len(beta), *decoder.shape))
    for _ in range(steps):
        share = p[:, None] * kernel(decoder) / normalizer[..., None]
        decoder = share.swapaxes(1, 2) @ conditional / np.maximum(share.sum(1), 1e-300)[..., None]
    return beta * ((p[:, None] * kernel(decoder) / normalizer[..., None]).sum(1).max(1) - 1)


@pytest.mark.parametrize("seed", [0, 1] + [pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8)])
def test_certificate_of_global_optimality(seed):
    joint = random_table(seed)
    assert optimality_gap(joint, information_bottleneck(joint)).max() < 5e-4


@pytest.mark.parametrize("seed", [9, 23, 46])
def test_annealing_leaves_the_local_optimum_of_a_single_start(seed):
    "From a cluster for every x alone, Blahut-Arimoto stops at a gap of 5e-4 and more in these tables."
    joint = random_table(seed)
    assert optimality_gap(joint, information_bottleneck(joint)).max() < 1e-5


def test_certificate_notices_a_worse_encoder():
    joint = random_table(1)
    curve = information_bottleneck(joint)
    halves = np.where(np.arange(8)[:, None] < 4, [1.0, 0.0], [0.0, 1.0])
    worse = BottleneckCurve(
        curve.joint,
        curve.beta,
        curve.complexity,
        curve.relevance,
        curve.clusters,
        np.broadcast_to(halves, (len(curve.beta), 8, 2)),
    )
    assert optimality_gap(joint, worse).min() > 5e-4


@pytest.mark.parametrize(
    "joint", [[[0.3, 0.1], [0.1, 0.5]], [[0.02, 0.01], [0.27, 0.7]], [[0.4, 0.05, 0.05], [0.1, 0.1, 0.3]]]
)
def test_binary_x_against_the_concave_envelope(joint):
    "With two rows an encoder is a way to split p(x=1) into points q; the best value is a concave envelope, found by trying all pairs."
    joint = np.array(joint)
    p, channel = joint.sum(1), joint / joint.sum(1, keepdims=True)
    ends = np.geomspace(1e-12, 0.01, 300)
    q = np.concatenate([[0], ends, np.linspace(0.01, 0.99, 500), 1 - ends, [1]])
    row_entropy = np.array([entropy([a, 1 - a]) for a in q])
    label_entropy = np.array([entropy((1 - a) * channel[0] + a * channel[1]) for a in q])
    curve = information_bottleneck(joint, np.linspace(0, 1, 21))
    left, right = q[q < p[1]][:, None], q[q >= p[1]][None]
    share = (p[1] - left) / (right - left)
    for beta, value in zip(curve.beta, curve.relevance - curve.beta * curve.complexity):
        f = beta * row_entropy - label_entropy
        envelope = ((1 - share) * f[q < p[1]][:, None] + share * f[q >= p[1]][None]).max()
        best = entropy(joint.sum(0)) - beta * entropy(p) + envelope
        assert value == pytest.approx(max(best, 0), abs=2e-6)


@pytest.mark.parametrize("flip", [0.05, 0.2, 0.4])
def test_symmetric_bit_lies_on_the_curve_of_mrs_gerber_and_splits_at_the_critical_beta(flip):
    critical = (1 - 2 * flip) ** 2
    assert critical_beta(noisy_bit(flip)) == pytest.approx(critical)
    curve = information_bottleneck(noisy_bit(flip))
    assert critical - 0.0201 <= curve.beta[curve.clusters == 2].max() <= critical + 1e-9
    for a in np.linspace(0, 0.5, 26):  # no other flip of the bit does better at any β
        complexity = np.log(2) - entropy([a, 1 - a])
        relevance = np.log(2) - entropy([a * (1 - flip) + (1 - a) * flip, a * flip + (1 - a) * (1 - flip)])
        assert (curve.relevance - curve.beta * curve.complexity >= relevance - curve.beta * complexity - 1e-7).all()
    kept = [entropy(point.encoder[0]) for point in map(curve.at, curve.beta)]
    np.testing.assert_allclose(curve.complexity, np.where(curve.clusters == 2, np.log(2) - kept, 0), atol=1e-9)


def test_independent_bits_are_priced_one_at_a_time():
    betas = np.linspace(0, 1, 41)
    parts = [information_bottleneck(noisy_bit(flip), betas) for flip in (0.05, 0.2)]
    whole = information_bottleneck(np.kron(noisy_bit(0.05), noisy_bit(0.2)), betas)
    for name in ("complexity", "relevance"):
        np.testing.assert_allclose(getattr(whole, name), sum(getattr(part, name) for part in parts), atol=1e-5)
    assert (whole.clusters == parts[0].clusters * parts[1].clusters).all() and set(whole.clusters) == {1, 2, 4}


@pytest.mark.parametrize("seed", range(4))
def test_something_is_kept_below_the_critical_beta(seed):
    joint = random_table(seed, n=5, m=3)
    critical = critical_beta(joint)
    curve = information_bottleneck(joint, np.linspace(0, 1, 101))
    assert (curve.clusters[curve.beta < critical - 0.01] > 1).all()
    assert (curve.clusters[curve.beta < critical - 0.01] > 1).any()


def test_first_split_of_an_asymmetric_table_is_its_contraction_coefficient():
    joint = np.array([[0.01, 0.0], [0.3, 0.69]])
    q = np.linspace(0, 1, 2001)[:, None] * [1, -1] + [0, 1]
    p, channel = joint.sum(1), joint / joint.sum(1, keepdims=True)
    ratio = [
        kl_divergence(row @ channel, p @ channel) / kl_divergence(row, p) for row in q if abs(row[0] - p[0]) > 1e-9
    ]
    curve = information_bottleneck(joint, np.linspace(0, 1, 201))
    assert max(ratio) - 0.0051 <= curve.beta[curve.clusters > 1].max() <= max(ratio) + 1e-9
    assert max(ratio) > critical_beta(joint) + 0.1


@pytest.mark.parametrize("sizes", [(1, 1), (3, 2), (1, 2, 4), (2, 2, 2, 2)])
def test_block_table_has_as_many_clusters_as_blocks(sizes):
    generator = np.random.default_rng(0)
    rows = np.repeat(np.eye(len(sizes)), sizes, axis=0)[generator.permutation(sum(sizes))]
    joint = generator.dirichlet(np.ones(len(rows)))[:, None] * rows
    curve = information_bottleneck(joint)
    assert (curve.clusters[:-1] == len(sizes)).all() and curve.clusters[-1] == 1
    np.testing.assert_allclose(curve.relevance[:-1], entropy(joint.sum(0)), atol=1e-9)
    np.testing.assert_allclose(curve.complexity[:-1], entropy(joint.sum(0)), atol=1e-9)
    together = rows @ rows.T > 0
    for encoder in curve.encoders[:-1]:
        assert ((encoder @ encoder.T > 0.5) == together).all()


def test_blocks_with_noisy_labels_and_equal_rows_are_joined_at_every_beta():
    rows = np.array([[0.8, 0.2], [0.8, 0.2], [0.1, 0.9], [0.8, 0.2], [0.1, 0.9]])
    curve = information_bottleneck(np.array([0.1, 0.2, 0.3, 0.3, 0.1])[:, None] * rows)
    check(curve)
    assert curve.clusters[0] == 2 and curve.clusters.max() == 2
    assert curve.complexity[0] == pytest.approx(entropy([0.6, 0.4]))
    np.testing.assert_array_equal(curve.encoders[:, 0], curve.encoders[:, 1])


def test_rows_and_columns_that_never_happen_change_nothing():
    joint = random_table(3, n=4, m=3)
    padded = np.zeros((6, 5))
    padded[np.ix_([0, 2, 3, 5], [1, 2, 4])] = joint
    plain, wide = information_bottleneck(joint), information_bottleneck(padded)
    check(wide)
    np.testing.assert_allclose(plain.relevance, wide.relevance, atol=1e-12)
    np.testing.assert_array_equal(plain.clusters, wide.clusters)
    np.testing.assert_allclose(plain.encoders, wide.encoders[:, [0, 2, 3, 5]], atol=1e-9)
    assert critical_beta(padded) == pytest.approx(critical_beta(joint))


@pytest.mark.parametrize("joint", [[[1.0]], [[0.2, 0.8]], [[0.5], [0.5]], np.outer([0.3, 0.7], [0.2, 0.5, 0.3])])
def test_nothing_to_know_gives_one_cluster(joint):
    curve = information_bottleneck(joint)
    assert (curve.clusters == 1).all() and curve.complexity.max() < 1e-12 and curve.relevance.max() < 1e-12
    assert critical_beta(joint) == pytest.approx(0, abs=1e-12)


def test_order_of_rows_does_not_matter():
    joint, order = random_table(2, n=6), np.random.default_rng(0).permutation(6)
    one, other = information_bottleneck(joint), information_bottleneck(joint[order])
    for name in ("relevance", "complexity"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=2e-3)
    np.testing.assert_allclose(
        one.relevance - one.beta * one.complexity, other.relevance - other.beta * other.complexity, atol=1e-6
    )


def test_two_runs_are_bit_equal_and_leave_the_global_generator_alone():
    np.random.seed(5)
    state = np.random.get_state()[1].copy()
    one, other = information_bottleneck(random_table(0)), information_bottleneck(random_table(0))
    np.testing.assert_array_equal(one.encoders, other.encoders)
    np.testing.assert_array_equal(np.random.get_state()[1], state)


def test_point_on_the_curve():
    curve = information_bottleneck(random_table(0))
    for index, beta in enumerate(curve.beta):
        point = curve.at(beta)
        assert isinstance(point, BottleneckPoint) and point.encoder.shape == (8, point.clusters)
        assert point.relevance - beta * point.complexity == pytest.approx(
            curve.relevance[index] - beta * curve.complexity[index], abs=1e-11
        )
    between = curve.at(0.205)
    nearby = [curve.at(beta) for beta in (0.2, 0.22)]
    assert (
        between.relevance - 0.205 * between.complexity
        >= max(near.relevance - 0.205 * near.complexity for near in nearby) - 1e-12
    )
    with pytest.raises(ValueError, match=r"between 0 and 1.*got 1.5"):
        curve.at(1.5)
    with pytest.raises(ValueError, match="got nan"):
        curve.at(float("nan"))


def test_betas_outside_and_near_the_ends():
    joint = random_table(0)
    curve = information_bottleneck(joint, [0, 1e-300, 1e-8, 1e-4, 0.999999, 1, 7])
    check(curve)
    assert list(curve.clusters) == [8, 8, 8, 8, 1, 1, 1]
    assert information_bottleneck(joint, [2]).clusters.tolist() == [1]


@pytest.mark.parametrize("betas", [[-0.1, 0.5], [0.5, 0.5], [0.5, 0.1], [], [0, np.nan], [[0.1, 0.2]], 0.5])
def test_betas_that_are_no_path_are_refused(betas):
    with pytest.raises(ValueError, match="expected a list of increasing beta >= 0"):
        information_bottleneck(random_table(0), betas)


def test_figure_shows_the_curve_and_the_clusters():
    curve = information_bottleneck(random_table(0))
    figure = curve.figure()
    by_name = {trace.name: trace for trace in figure.data}
    np.testing.assert_allclose(by_name["best summaries"].y, curve.relevance)
    np.testing.assert_array_equal(by_name["clusters"].y, curve.clusters)
    roof = by_name["no summary lies above"]
    assert (np.interp(curve.complexity, roof.x, roof.y) >= curve.relevance - 1e-9).all()
    assert figure.layout.width <= 640 and figure.layout.height <= 380


def test_import_loads_no_heavy_package():
    code = "import sys, gib_nb.information.exact; print([name for name in ('torch', 'plotly', 'pandas', 'sklearn') if name in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
