import itertools
import math
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import nn
from torch_geometric.data import Batch, Data

from gib_nb.information import critic_estimate as estimate_module
from gib_nb.information.bounds import (
    BOUNDS,
    OBJECTIVES,
    check_critic_inputs,
    dv_bound,
    dv_value,
    infonce_bound,
    jensen_shannon_bound,
    linearized_nwj_bound,
    negative_pairs,
    nwj_bound,
    smile_estimate,
)
from gib_nb.information.critic import (
    EstimateWarning,
    InnerLoop,
    MemoryBank,
    SeparableCritic,
    StatisticsNetwork,
    all_gradients,
    cosine,
    dedup_gradients,
    frozen_dv,
    standardize,
    value_and_gradient,
)
from gib_nb.information.critic_estimate import (
    OverfittingWarning,
    as_samples,
    critic_estimate,
    estimate_value,
    heavy_tailed,
    held_out_value,
    rank_gaussianize,
)
from gib_nb.information.enumerate import enumerable_graph_channel, isomorphism_classes, labeled_graphs
from gib_nb.information.exact import sign_channel_mutual_information

PAIRINGS = ["shift:1", "shift:3", "shift:8", "all", "permute"]
QUICK = dict(hidden=16, steps=300, batch_size=128)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=seeded(seed))


def exact(*shape, seed=0):
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.double)


def network(d=3, e=2, hidden=5, seed=0, size=1.0):
    "A critic in double precision whose biases are not 0."
    critic = StatisticsNetwork(d, e, hidden, seeded(seed)).double()
    with torch.no_grad():
        critic.flat_weights.add_(exact(len(critic.flat_weights), seed=seed + 1) * 0.3).mul_(size)
    return critic


def quietly(function, *arguments, **options):
    "The result, and the texts of the warnings by class."
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(*arguments, **options)
    return result, [(w.category, str(w.message)) for w in caught]


# --- the obvious way


def slow_log_mean_exp(values):
    top = max(values)
    return top + math.log(math.fsum(math.exp(value - top) for value in values) / len(values))


def slow_off(table):
    return [table[i][j] for i in range(len(table)) for j in range(len(table)) if i != j]


def slow_bounds(table, clip=5.0):
    N, diagonal, off = len(table), [row[i] for i, row in enumerate(table)], slow_off(table)
    mean = math.fsum(diagonal) / N
    return {
        "dv": mean - slow_log_mean_exp(off),
        "nwj": mean - math.fsum(math.exp(f - 1) for f in off) / len(off),
        "infonce": math.fsum(table[i][i] - slow_log_mean_exp(table[i]) for i in range(N)) / N,
        "smile": mean - slow_log_mean_exp([min(max(f, -clip), clip) for f in off]),
    }


def slow_score(critic, x, y):
    "One score from the definition: a layer on the concatenation [x; y], ReLU, a linear output."
    W_x, W_y, b, w, c = critic.weights()
    return torch.relu(torch.cat([x, y]) @ torch.cat([W_x, W_y]) + b) @ w + c


def slow_dv(critic, x, y, pairs):
    "The bound as a double loop that autograd can follow."
    joint = sum(slow_score(critic, x[i], y[i]) for i in range(len(x))) / len(x)
    negative = torch.cat([slow_score(critic, x[i], y[j]) for i, j in pairs])
    return joint - (negative.logsumexp(0) - math.log(len(pairs)))


def slow_pairs(N, negatives, order=None):
    if negatives == "all":
        return [(i, j) for i in range(N) for j in range(N) if i != j]
    if negatives == "permute":
        return list(enumerate(order))
    K = min(int(negatives.split(":")[1]), N - 1)
    return [(i, (i + k) % N) for k in range(1, K + 1) for i in range(N)]


def finite_differences(function, values, step=1e-6):
    "Central differences of a scalar function by every entry of a tensor, changed in place."
    flat, out = values.detach().view(-1), []
    for k in range(len(flat)):
        before = flat[k].item()
        flat[k] = before + step
        above = function().item()
        flat[k] = before - step
        out.append((above - function().item()) / (2 * step))
        flat[k] = before
    return torch.tensor(out, dtype=torch.double).view_as(values)


tables = st.integers(2, 6).flatmap(
    lambda N: st.lists(st.lists(st.floats(-30, 30), min_size=N, max_size=N), min_size=N, max_size=N)
)


# --- the bound of a table of scores


def test_masked_negatives_by_hand():
    "The second term is the log-mean-exp of the six off-diagonal entries, and nothing of the diagonal leaks into it."
    off = [0.5, -1.0, 2.0, 0.0, 1.5, -0.25]
    table = torch.tensor([[1.0, off[0], off[1]], [off[2], 2.0, off[3]], [off[4], off[5], 3.0]])
    second = math.log(sum(math.exp(value) for value in off) / 6)
    assert dv_bound(table).item() == pytest.approx(2 - second, abs=1e-6)
    table[1, 1] = 1e4
    assert dv_bound(table).item() == pytest.approx((1 + 1e4 + 3) / 3 - second, rel=1e-6)
    table[1, 1] = -1e4
    assert dv_bound(table).item() == pytest.approx((1 - 1e4 + 3) / 3 - second, rel=1e-6)


@settings(max_examples=80)
@given(tables)
def test_bounds_equal_the_double_loop(table):
    scores = torch.tensor(table, dtype=torch.double)
    for name, expected in slow_bounds(table).items():
        assert BOUNDS[name](scores).item() == pytest.approx(expected, rel=1e-9, abs=1e-9), name


@pytest.mark.parametrize("bound", BOUNDS)
def test_gradient_of_a_table(bound):
    scores = (exact(4, 4) * 3).requires_grad_()
    assert torch.autograd.gradcheck(BOUNDS[bound], scores)


def test_gradient_by_hand():
    "1/N on the diagonal; minus the softmax over the off-diagonal entries beside it."
    scores = exact(5, 5).requires_grad_()
    (gradient,) = torch.autograd.grad(dv_bound(scores), scores)
    weight = torch.exp(scores.detach()) * (1 - torch.eye(5))
    torch.testing.assert_close(gradient, torch.eye(5).double() / 5 - weight / weight.sum())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "scores",
    [
        [[200.0, -200.0, 200.0], [-200.0, 200.0, -200.0], [-200.0, -200.0, 200.0]],
        [[-200.0, 200.0, -200.0], [200.0, -200.0, -200.0], [200.0, 200.0, -200.0]],
        [[1e4, -1e4], [-1e4, 1e4]],
        [[-1e4, 1e4], [1e4, -1e4]],
        [[1e4, 1e4], [1e4, 1e4]],
        [[-1e4, -1e4], [-1e4, -1e4]],
        [[0.0, 1e4, -1e4], [200.0, -200.0, 1e4], [3.0, 1e4, 0.0]],
    ],
)
def test_extreme_critics(scores, dtype):
    "Scores of ±200, ±1e4 and all equal: value and gradient are finite and right, where exp alone is inf from 89 on."
    table = torch.tensor(scores, dtype=dtype, requires_grad=True)
    value = dv_bound(table)
    (gradient,) = torch.autograd.grad(value, table)
    expected = sum(row[i] for i, row in enumerate(scores)) / len(scores) - slow_log_mean_exp(slow_off(scores))
    assert value.item() == pytest.approx(expected, rel=1e-6, abs=1e-6) and gradient.isfinite().all()
    assert gradient.sum().item() == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("N", [2, 3, 64, 777])
@pytest.mark.parametrize("constant", [0.0, 1.0, -0.1, 88.7, 200.0, -200.0, 1e4, -1e4])
def test_a_constant_critic_gives_exactly_zero(N, constant):
    "With the divisor N(N−1); the printed divisor N would give −log(N−1)."
    scores = torch.full((N, N), constant, requires_grad=True)
    value = dv_bound(scores)
    assert value.item() == 0 and torch.autograd.grad(value, scores)[0].isfinite().all()


@settings(max_examples=80)
@given(tables, st.floats(-1e3, 1e3), st.randoms(use_true_random=False))
def test_what_leaves_the_bound_unchanged(table, constant, random):
    "A constant added to all scores; another order of the pairs."
    scores = torch.tensor(table, dtype=torch.double)
    order = torch.tensor(random.sample(range(len(table)), len(table)))
    value = dv_bound(scores).item()
    assert dv_bound(scores + constant).item() == pytest.approx(value, abs=1e-9)
    assert dv_bound(scores[order][:, order]).item() == pytest.approx(value, abs=1e-9)
    for bound in (infonce_bound, smile_estimate, nwj_bound):
        assert bound(scores[order][:, order]).item() == pytest.approx(bound(scores).item(), rel=1e-9, abs=1e-9)


@settings(max_examples=80)
@given(tables)
def test_what_bounds_the_bound(table):
    "Jensen on the second term; NWJ is a tangent below Donsker–Varadhan; InfoNCE never passes log N."
    scores, N = torch.tensor(table, dtype=torch.double), len(table)
    dv, off = dv_bound(scores).item(), slow_off(table)
    mean = sum(table[i][i] for i in range(N)) / N
    assert mean - max(off) - 1e-9 <= dv <= mean - sum(off) / len(off) + 1e-9
    assert nwj_bound(scores).item() <= dv + 1e-9
    assert infonce_bound(scores).item() <= math.log(N) + 1e-9
    assert smile_estimate(scores, clip=100.0).item() == pytest.approx(dv, abs=1e-9)


@settings(max_examples=60)
@given(st.lists(st.floats(-50, 50), min_size=2, max_size=8))
def test_a_side_that_never_varies_gives_nothing(row):
    "The same x in all pairs: joint and shuffled pairs are one set, so no critic gets above 0 (Jensen)."
    scores = torch.tensor([row] * len(row), dtype=torch.double)
    assert dv_bound(scores).item() <= 1e-12 and dv_bound(scores.T).item() <= 1e-12


# --- what a critic is trained on


@settings(max_examples=80)
@given(tables)
def test_jensen_shannon_equals_the_double_loop(table):
    "Log-probabilities of a classifier that tells pairs from negatives; at most 2 log 2, and 0 for a critic that knows nothing."
    N, scores = len(table), torch.tensor(table, dtype=torch.double)
    log_sigmoid = lambda f: -math.log1p(math.exp(-f))
    slow = (
        math.log(4)
        + math.fsum(log_sigmoid(table[i][i]) for i in range(N)) / N
        + math.fsum(log_sigmoid(-f) for f in slow_off(table)) / (N * (N - 1))
    )
    assert jensen_shannon_bound(scores).item() == pytest.approx(slow, rel=1e-9, abs=1e-9) and slow <= math.log(4)
    assert jensen_shannon_bound(0 * scores).item() == pytest.approx(0, abs=1e-12)


@settings(max_examples=80)
@given(tables)
def test_linearized_nwj_is_nwj_near_the_best_critic(table):
    "Equal while the mean exponential is at most e²; above that the tangent lies below the exponential."
    scores = torch.tensor(table, dtype=torch.double)
    exponent = slow_log_mean_exp(slow_off(table)) - 1
    nwj, linearized = nwj_bound(scores).item(), linearized_nwj_bound(scores).item()
    expected = nwj if exponent <= 1 else scores.diagonal().mean().item() - math.e * exponent
    assert linearized == pytest.approx(expected, rel=1e-9, abs=1e-9) and linearized >= nwj - 1e-9 * (1 + abs(nwj))


@pytest.mark.parametrize("bound", OBJECTIVES)
def test_gradient_of_an_objective(bound):
    scores = (exact(4, 4) * 3).requires_grad_()
    assert torch.autograd.gradcheck(OBJECTIVES[bound], scores)


@pytest.mark.parametrize("size", [10.0, 200.0, 1e4])
@pytest.mark.parametrize("bound", OBJECTIVES)
def test_no_objective_clips_or_explodes(bound, size):
    "A larger score of a negative always lowers the objective, whatever its size, and value and gradient stay finite."
    table = size * torch.ones(3, 3)
    scores = table.clone().requires_grad_()
    value = OBJECTIVES[bound](scores)
    (gradient,) = torch.autograd.grad(value, scores)
    assert value.isfinite() and gradient.isfinite().all() and gradient.abs().max() < 10
    assert (gradient[~torch.eye(3, dtype=torch.bool)] < -0.01).all()


def test_smile_is_trained_on_a_bound():
    "Where the clipped value is climbed there is no end: 682.6 for a Gaussian of .511 nats."
    x = exact(4000, 1)
    estimate = critic_estimate(
        x, 0.8 * x + 0.6 * exact(4000, 1, seed=1), "smile", hidden=16, steps=400, batch_size=64, learning_rate=0.05
    )
    assert abs(estimate.value + 0.5 * math.log(1 - 0.8**2)) < 3 * estimate.standard_error + 0.02
    assert estimate.in_sample < 0.7 and all(
        -2 < value <= math.log(4) for _, *values in estimate.history for value in values
    )


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_large_learning_rate_leaves_no_nan(bound):
    "One batch with a large score used to turn all weights of the critic of NWJ into NaN."
    x = exact(600, 2)
    estimate, _ = quietly(
        critic_estimate, x, x + exact(600, 2, seed=1), bound, hidden=8, steps=40, batch_size=32, learning_rate=3.0
    )
    assert all(map(math.isfinite, (estimate.value, estimate.in_sample, estimate.held_out, estimate.standard_error)))


def test_a_training_that_diverged_is_no_estimate(monkeypatch):
    monkeypatch.setitem(OBJECTIVES, "nwj", lambda scores: scores.sum() * float("nan"))
    with pytest.raises(ValueError, match="diverged; use a learning_rate below 0.01"):
        critic_estimate(randn(50), randn(50, seed=1), "nwj", hidden=4, steps=5, batch_size=16)


@pytest.mark.parametrize("bound", [*BOUNDS, *OBJECTIVES])
def test_integer_scores_are_refused(bound):
    for function in (BOUNDS[bound], OBJECTIVES[bound]):
        with pytest.raises(TypeError, match="floating point numbers in the table of scores .*int64"):
            function(torch.eye(3, dtype=torch.long))


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("shape, text", [((0, 0), "N=0"), ((1, 1), "N=1"), ((2, 3), r"\(2, 3\)"), ((4,), r"\(4,\)")])
def test_wrong_tables(bound, shape, text):
    with pytest.raises(ValueError, match=f"expected .*got.*{text}"):
        BOUNDS[bound](torch.zeros(shape))


# --- critics


@pytest.mark.parametrize("kind", [StatisticsNetwork, SeparableCritic])
def test_table_holds_the_score_of_each_pair(kind):
    critic = kind(3, 2, 6, generator=seeded())
    x, y = randn(4, 3), randn(5, 2, seed=1)
    table = critic.table(x, y)
    assert table.shape == (4, 5)
    for i, j in itertools.product(range(4), range(5)):
        torch.testing.assert_close(table[i, j], critic(x[i : i + 1], y[j : j + 1])[0], rtol=1e-5, atol=1e-6)


def test_the_split_layer_is_a_layer_on_the_concatenation():
    critic, x, y = network(), exact(4, 3), exact(4, 2, seed=1)
    for i in range(4):
        torch.testing.assert_close(critic(x, y)[i], slow_score(critic, x[i], y[i])[0])


@pytest.mark.parametrize("kind", [StatisticsNetwork, SeparableCritic])
def test_the_output_is_linear(kind):
    "A ReLU at the end would let the critic die at f = 0: scores of both signs occur."
    critic = kind(3, 2, 16, generator=seeded())
    scores = critic(randn(200, 3), randn(200, 2, seed=1))
    assert (scores < 0).any() and (scores > 0).any()


@pytest.mark.parametrize("kind", [StatisticsNetwork, SeparableCritic])
def test_weights_come_from_the_generator_alone(kind):
    "Two critics of one generator seed are equal, and the global random state is left as it was."
    before = torch.get_rng_state()
    first, second, other = (kind(3, 2, 8, generator=seeded(s)) for s in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    both = list(zip(first.parameters(), second.parameters()))
    assert all(torch.equal(a, b) for a, b in both)
    assert any(not torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters()))


def test_the_parts_are_views():
    critic = StatisticsNetwork(3, 2, 4, seeded())
    assert len(critic.flat_weights) == (3 + 2 + 2) * 4 + 1 and len(list(critic.parameters())) == 1
    with torch.no_grad():
        critic.weights()[4].fill_(7.0)
    assert critic.flat_weights[-1] == 7 and [tuple(p.shape) for p in critic.weights()] == [
        (3, 4),
        (2, 4),
        (4,),
        (4,),
        (1,),
    ]


def test_moving_the_critic_moves_all_of_it():
    "`.to` moves every part of the critic, for there is only one tensor."
    critic = StatisticsNetwork(3, 2, 4, seeded()).to("meta")
    assert all(part.device.type == "meta" for part in (critic.flat_weights, *critic.weights()))
    assert StatisticsNetwork(3, 2, 4, seeded()).to(torch.double)(exact(2, 3), exact(2, 2)).dtype == torch.double


# --- which pairs stand for independence


@pytest.mark.parametrize("negatives", ["shift:1", "shift:3", "shift:99", "all"])
@pytest.mark.parametrize("N", [2, 3, 7])
def test_no_pair_meets_itself(negatives, N):
    i, j = negative_pairs(N, negatives)
    assert (i != j).all() and sorted(zip(i.tolist(), j.tolist())) == sorted(slow_pairs(N, negatives))


def test_a_permutation_is_one():
    i, j = negative_pairs(9, "permute", seeded())
    assert i.tolist() == list(range(9)) and sorted(j.tolist()) == list(range(9))
    assert torch.equal(j, negative_pairs(9, "permute", seeded())[1])


@pytest.mark.parametrize(
    "negatives", ["shift", "shift:0", "shift:00", "shift:-1", "shift:x", "all:3", "permute:2", "every", "", None, 8]
)
def test_wrong_choices_of_negatives(negatives):
    with pytest.raises(ValueError, match='expected negatives "shift:K"'):
        negative_pairs(5, negatives)


@pytest.mark.parametrize("negatives", ["shift:8", "all", "permute"])
@pytest.mark.parametrize("N", [0, 1])
def test_fewer_than_two_pairs(negatives, N):
    "A batch of one graph has no negatives: said, not answered by 0 or by nan."
    critic, x, y = network(), exact(N, 3), exact(N, 2)
    for call in (
        lambda: dv_value(critic, x, y, negatives),
        lambda: value_and_gradient(critic, x, y, negatives),
        lambda: frozen_dv(critic, x, y, negatives),
        lambda: negative_pairs(N, negatives),
    ):
        with pytest.raises(ValueError, match=f"at least 2 pairs.*N={N}"):
            call()


@pytest.mark.parametrize(
    "function, x, y",
    [
        (function, x, y)
        for function in (dv_value, value_and_gradient, frozen_dv)
        for x, y in (((5, 3), (3, 2)), ((3, 3), (5, 2)), ((5, 3), (1, 2)), ((5, 4), (5, 2)), ((5, 3), (5, 3)))
        if function is not dv_value or x[0] != y[0]
    ],
)
def test_sides_that_do_not_fit(function, x, y):
    "Another number of rows, or another width than that of the critic: both shapes are named, and no number comes back."
    for negatives in ("shift:2", "all", "permute"):
        with pytest.raises(ValueError, match=re.escape(str(x)) + ".*" + re.escape(str(y))):
            quietly(function, network(), exact(*x), exact(*y), negatives, seeded())


@pytest.mark.parametrize("function", [dv_value, value_and_gradient, frozen_dv])
def test_integers_are_not_embeddings(function):
    with pytest.raises(TypeError, match="int64"):
        function(StatisticsNetwork(3, 2, 4, seeded()), torch.ones(5, 3, dtype=torch.long), torch.ones(5, 2), "all")


@pytest.mark.parametrize("function", [dv_value, value_and_gradient, frozen_dv])
def test_lists_are_not_embeddings(function):
    with pytest.raises(TypeError, match="expected x as a torch tensor .*list"):
        function(StatisticsNetwork(1, 2, 4, seeded()), [[1.0], [2.0]], torch.ones(2, 2), "all")


@pytest.mark.parametrize("function", [dv_value, value_and_gradient, frozen_dv])
def test_embeddings_move_to_the_critic(function):
    "Another precision, or a sparse layout, gives the value and not an error from inside a matrix product."
    critic, x, y = StatisticsNetwork(3, 2, 5, seeded()), randn(6, 3), randn(6, 2, seed=1)
    first = lambda result: result[0] if isinstance(result, tuple) else result
    expected = first(function(critic, x, y, "all")).item()
    for sides in ((x.double(), y), (x, y.double()), (x.to_sparse(), y), (x, y.to_sparse_csr())):
        result, _ = quietly(function, critic, *sides, "all")
        assert first(result).item() == expected
    assert {side.device.type for side in check_critic_inputs(critic.to("meta"), x, y)} == {"meta"}
    assert first(function(critic.to_empty(device="cpu").double(), x, y, "all")).dtype == torch.double


# --- gradients written out


@pytest.mark.parametrize("N", [2, 3, 6])
@pytest.mark.parametrize("negatives", PAIRINGS)
def test_value_and_gradient_equal_the_double_loop(negatives, N):
    critic, x, y = network(), exact(N, 3), exact(N, 2, seed=1)
    expected = slow_dv(critic, x, y, slow_pairs(N, negatives, torch.randperm(N, generator=seeded(4)).tolist()))
    (by_autograd,) = torch.autograd.grad(expected, critic.flat_weights)
    value, gradient = value_and_gradient(critic, x, y, negatives, seeded(4))
    torch.testing.assert_close(value, expected.detach()[0])
    torch.testing.assert_close(gradient, by_autograd)
    torch.testing.assert_close(dv_value(critic, x, y, negatives, seeded(4)).detach(), value)
    differences = finite_differences(lambda: dv_value(critic, x, y, negatives, seeded(4)), critic.flat_weights)
    torch.testing.assert_close(gradient, differences, rtol=1e-6, atol=1e-7)
    assert critic.flat_weights.grad is None


@pytest.mark.parametrize("N", [2, 6])
@pytest.mark.parametrize("negatives", PAIRINGS)
def test_frozen_gradients_by_the_embeddings(negatives, N):
    "The outer step's gradients, times what comes from above; the critic gets none."
    critic, x, y = network(), exact(N, 3).requires_grad_(), exact(N, 2, seed=1).requires_grad_()
    value = frozen_dv(critic, x, y, negatives, seeded(4))
    got = torch.autograd.grad(-3 * value, (x, y))
    by_autograd = torch.autograd.grad(-3 * dv_value(critic, x, y, negatives, seeded(4)), (x, y))
    for mine, theirs, side in zip(got, by_autograd, (x, y)):
        torch.testing.assert_close(mine, theirs)
        differences = finite_differences(lambda: -3 * dv_value(critic, x, y, negatives, seeded(4)), side)
        torch.testing.assert_close(mine, differences, rtol=1e-6, atol=1e-6)
    frozen_dv(critic, x, y, negatives, seeded(4)).backward()
    assert critic.flat_weights.grad is None and x.grad is not None


@settings(max_examples=40)
@given(st.integers(2, 9), st.integers(1, 6), st.sampled_from(PAIRINGS), st.integers(0, 10**6))
def test_any_size_agrees_with_the_definition(N, hidden, negatives, seed):
    critic, x, y = network(2, 3, hidden, seed), exact(N, 2, seed=seed + 2), exact(N, 3, seed=seed + 3)
    definition = dv_value(critic, x, y, negatives, seeded(seed))
    value, gradient = value_and_gradient(critic, x, y, negatives, seeded(seed))
    torch.testing.assert_close(value, definition.detach())
    torch.testing.assert_close(gradient, torch.autograd.grad(definition, critic.flat_weights)[0])


@pytest.mark.parametrize("block", [1, 40, 91, 10**6])
def test_streaming_in_blocks(block):
    "One row at a time, several, or all at once: the same value and gradients, also when the largest score comes late."
    N, h = 7, 5
    a, b, w = exact(N, h), exact(N, h, seed=1), exact(h, seed=2)
    a[-1] += 3
    whole = (a[:, None] + b).relu() @ w
    assert whole[-1].max() > whole[:-1].max() or whole[-1].min() < whole[:-1].min()
    for sign in (1, -1):
        leaves = [t.clone().requires_grad_() for t in (a, b, sign * w)]
        expected = dv_bound((leaves[0][:, None] + leaves[1]).relu() @ leaves[2])
        value, *grads = all_gradients(a, b, sign * w, block)
        torch.testing.assert_close(value, expected.detach())
        for mine, theirs in zip(grads, torch.autograd.grad(expected, leaves)):
            torch.testing.assert_close(mine, theirs)


def test_all_pairs_in_little_memory():
    "2,048 pairs, whose table of hidden layers would take 512 MiB."
    resource = pytest.importorskip("resource")
    a, b, w = randn(2048, 32), randn(2048, 32, seed=1), randn(32, seed=2)
    all_gradients(a[:64], b[:64], w)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    value, *_ = all_gradients(a, b, w)
    assert value.isfinite() and (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < 32


@pytest.mark.parametrize("index", [[0, 1, 0, 1, 1, 0, 1], [0, 0, 0, 0, 0, 0, 1], [2, 0, 1, 3, 4, 5, 6], [0] * 7])
def test_few_distinct_values_equal_all_pairs(index):
    "Also with a value that occurs once, with all values distinct and with a single one."
    index = torch.tensor(index)
    critic, distinct, y = network(), exact(int(index.max()) + 1, 3), exact(7, 2, seed=1)
    value, gradient = value_and_gradient(critic, distinct, y, "unique", index=index)
    expected = value_and_gradient(critic, distinct[index], y, "all")
    torch.testing.assert_close(value, expected[0])
    torch.testing.assert_close(gradient, expected[1])
    a, b, w = (t.detach().clone().requires_grad_() for t in (*critic.first_layer(distinct, y), critic.weights()[3]))
    by_autograd = torch.autograd.grad(dv_bound((a[index][:, None] + b).relu() @ w), (a, b, w))
    for mine, theirs in zip(dedup_gradients(*(t.detach() for t in (a, b, w)), index)[1:], by_autograd):
        torch.testing.assert_close(mine, theirs)


def test_dedup_needs_its_index():
    with pytest.raises(ValueError, match="index"):
        value_and_gradient(network(), exact(2, 3), exact(7, 2), "unique")


@pytest.mark.parametrize("negatives", PAIRINGS + ["unique"])
@pytest.mark.parametrize("size", [200.0, -200.0, 1e4, -1e4, 0.0])
def test_extreme_critics_in_the_fast_versions(negatives, size):
    "Scores up to ±1e4 in single precision: finite, and equal to double precision; a critic of weight 0 reports 0."
    x, y, index = randn(6, 3), randn(6, 2, seed=1), None
    critic = StatisticsNetwork(3, 2, 5, seeded())
    with torch.no_grad():
        w, scores = critic.weights()[3], critic.table(x, y)
        w.mul_(size / scores.abs().max())
    if negatives == "unique":
        index, x = torch.arange(6), x
    value, gradient = value_and_gradient(critic, x, y, negatives, seeded(3), index)
    expected, exactly = value_and_gradient(critic.double(), x.double(), y.double(), negatives, seeded(3), index)
    assert value.isfinite() and gradient.isfinite().all()
    assert value.item() == pytest.approx(expected.item(), rel=1e-4, abs=1e-5)
    torch.testing.assert_close(gradient.double(), exactly, rtol=1e-2, atol=1e-2 * float(exactly.abs().max()) + 1e-6)
    assert size or abs(value) < 1e-6


# --- a bank, not a batch


def test_a_bank_knows_what_is_filled():
    bank = MemoryBank(6, 2, 1)
    assert len(bank) == 0
    bank.write(torch.tensor([4, 1]), torch.tensor([[4.0, 40.0], [1.0, 10.0]]), torch.tensor([[400.0], [100.0]]))
    assert len(bank) == 2 and bank.filled.tolist() == [False, True, False, False, True, False]
    mean, spread = bank.statistics()
    assert mean.tolist() == [2.5, 25, 250] and spread.tolist() == [1.5, 15, 150]
    assert set(bank.minibatches(20, 2, seeded()).flatten().tolist()) == {-1.0, 1.0}
    bank.write(torch.tensor([0]), torch.tensor([[7.0, 70.0]]), torch.tensor([[700.0]]))
    assert len(bank) == 3 and bank.statistics()[0].tolist() == [4, 40, 400]
    bank.write(torch.tensor([0]), torch.tensor([[-5.0, -50.0]]), torch.tensor([[-500.0]]))
    assert len(bank) == 3 and bank.statistics()[0].tolist() == [0, 0, 0]


def test_a_column_that_never_varies():
    "It is centered and not blown up: no division by 0, nor by the rounding of a mean."
    x = torch.cat([torch.full((9, 1), 0.1), torch.zeros(9, 1), randn(9, 1)], 1)
    bank = MemoryBank.of(x, torch.full((9, 2), 1e6 / 3))
    assert bank.statistics()[1].isfinite().all()
    both = torch.cat(bank.standardize(x, torch.full((9, 2), 1e6 / 3)), 1)
    assert both.isfinite().all() and both[:, [0, 1, 3, 4]].abs().max() < 0.2
    assert bank.minibatches(2, 4, seeded()).isfinite().all()


def test_statistics_carry_no_gradient():
    x, y = exact(20, 3).float().requires_grad_(), randn(20, 2, seed=1).requires_grad_()
    bank = MemoryBank.of(x.detach(), y.detach())
    sides, (mean, spread) = bank.standardize(x, y), bank.statistics()
    assert not (mean.requires_grad or spread.requires_grad or bank.pairs.requires_grad)
    for side, like, width in zip(sides, (x, y), (spread[:3], spread[3:])):
        (gradient,) = torch.autograd.grad(side.sum(), like)
        torch.testing.assert_close(gradient, (1 / width).expand_as(like))
        torch.testing.assert_close(side.std(0, correction=0), torch.ones_like(width))


def test_statistics_of_a_large_bank():
    x = randn(5000, 2) * torch.tensor([3.0, 0.01]) + torch.tensor([7.0, -1.0])
    mean, spread = MemoryBank.of(x, x).statistics()
    assert (mean[:2] - x.mean(0)).abs().div(x.std(0)).max() < 0.2 and (spread[:2] / x.std(0) - 1).abs().max() < 0.15


@pytest.mark.parametrize("size, drawn", [(6, 6), (7, 7), (10, 10), (30, 10)])
def test_small_banks_are_drawn_without_replacement(size, drawn):
    "No graph stands twice in a minibatch, else a joint pair would pass for a negative."
    bank = MemoryBank(15, 1, 1)
    bank.write(torch.arange(0, 10), torch.arange(10.0)[:, None], torch.arange(10.0)[:, None])
    batches = bank.minibatches(25, size, seeded())
    assert batches.shape == (25, drawn, 2)
    assert all(len(set(batch[:, 0].tolist())) == drawn for batch in batches)
    assert torch.equal(batches[..., 0], batches[..., 1])
    assert torch.equal(batches, bank.minibatches(25, size, seeded()))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("side", ["x", "y"])
def test_a_bank_refuses_what_is_not_finite(side, value):
    "The first bad row is named, and the bank stays as it was."
    bank = MemoryBank.of(randn(5, 2), randn(5, 3, seed=1))
    before, sides = bank.pairs.clone(), {"x": torch.ones(4, 2), "y": torch.ones(4, 3)}
    sides[side][2, 1] = value
    with pytest.raises(ValueError, match=f"finite numbers in {side} .*row 2"):
        bank.write(torch.arange(4), **sides)
    assert torch.equal(bank.pairs, before)


@pytest.mark.parametrize(
    "x, y", [((4, 2), (3, 3)), ((3, 2), (4, 3)), ((4, 3), (4, 2)), ((1, 2), (1, 3)), ((4, 3), (4, 3))]
)
def test_a_bank_refuses_what_does_not_fit(x, y):
    "Rows of another number (one row must not stand for all), and sides of another width, even where the sum fits."
    bank = MemoryBank(5, 2, 3)
    with pytest.raises(ValueError, match="expected"):
        bank.write(torch.arange(4), randn(*x), randn(*y))


def test_a_bank_refuses_integers():
    with pytest.raises(TypeError, match="int64"):
        MemoryBank(4, 2, 2).write(torch.arange(4), torch.ones(4, 2, dtype=torch.long), torch.ones(4, 2))


def test_a_bank_takes_double_precision():
    bank = MemoryBank.of(exact(4, 2), exact(4, 3))
    torch.testing.assert_close(bank.pairs[:, :2].double(), exact(4, 2), rtol=1e-6, atol=1e-6)


def test_an_empty_bank_has_no_scale():
    with pytest.raises(ValueError, match="expected"):
        quietly(MemoryBank(4, 2, 2).standardize, randn(3, 2), randn(3, 2))


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e3, 1e20, 1e30])
def test_the_scale_of_the_embeddings_does_not_matter(scale):
    'Values of 1e3 and 1e20 gave −99,770 and 1.7e19 "nats".'
    x, y = randn(40, 3), randn(40, 2, seed=1)
    for mine, expected in zip(
        MemoryBank.of(x * scale, y * scale).standardize(x * scale, y * scale), MemoryBank.of(x, y).standardize(x, y)
    ):
        torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-4)


# --- the scale of a batch, with its gradient


def test_standardized_columns():
    x = exact(9, 3) * torch.tensor([1.0, 5.0, 0.2]) + torch.tensor([0.0, 3.0, -7.0])
    columns = [[(v - np.mean(c)) / np.std(c) for v in c] for c in x.T.tolist()]
    torch.testing.assert_close(standardize(x), torch.tensor(columns, dtype=torch.double).T, rtol=1e-5, atol=1e-5)


def test_no_gradient_along_shift_and_scale():
    "What an encoder could gain by shrinking or moving a column is nothing; the rest of the gradient is exact."
    x, weight = exact(9, 3).requires_grad_(), exact(9, 3, seed=1)
    (gradient,) = torch.autograd.grad((standardize(x) * weight).sum(), x)
    assert (
        gradient.sum(0).abs().max() < 1e-9
        and (gradient * x.detach()).sum(0).abs().max() < 1e-6
        and gradient.abs().max() > 0.1
    )
    assert torch.autograd.gradcheck(standardize, x)


@pytest.mark.parametrize("scale", [1e-20, 1e-6, 1e-4, 1e3, 1e20])
def test_the_scale_of_a_batch_does_not_matter(scale):
    "Embeddings that have shrunk to a ten-thousandth say what they said: else shrinking would be a way out."
    x = randn(40, 3)
    torch.testing.assert_close(standardize(x * scale), standardize(x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6 / 3])
def test_a_batch_column_that_never_varies(value):
    "It becomes 0, not rounding blown up, with a finite gradient."
    x = torch.cat([torch.full((9, 1), value), randn(9, 1)], 1).requires_grad_()
    out = standardize(x)
    (out * randn(9, 2, seed=1)).sum().backward()
    assert out[:, 0].abs().max() < 0.2 and x.grad.isfinite().all() and x.grad.abs().max() < 1e3


# --- the inner loop


def related(n=400, d=3, seed=0):
    x = randn(n, d, seed=seed)
    return x, x[:, :2] + 0.3 * randn(n, 2, seed=seed + 1)


@pytest.mark.parametrize("negatives", ["shift:4", "all", "permute"])
def test_steps_equal_those_of_an_optimizer(negatives):
    "The hand-written loop against autograd and torch's Adam, on the same minibatches."
    bank, T = MemoryBank.of(*related(30)), 12
    fast, slow = (StatisticsNetwork(3, 2, 6, seeded(1)) for _ in range(2))
    loop = InnerLoop(fast, T, 0.02, negatives, 20, generator=seeded(5))
    values = loop.run(bank)
    generator = seeded(5)
    optimizer, expected = torch.optim.Adam(slow.parameters(), 0.02, maximize=True), []
    for t, pairs in enumerate(bank.minibatches(T, 20, generator)):
        for group in optimizer.param_groups:
            group["lr"] = 0.02 * (0.1 + 0.9 * (1 + math.cos(math.pi * t / T)) / 2)
        value = dv_value(slow, pairs[:, :3], pairs[:, 3:], negatives, generator)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        expected.append(value.item())
    assert values == pytest.approx(expected, abs=1e-4)
    torch.testing.assert_close(
        fast.flat_weights.detach()[:-1], slow.flat_weights.detach()[:-1], rtol=1e-3, atol=1e-4
    )  # the constant c has no gradient


def test_step_size_falls_along_a_cosine():
    assert cosine(0, 40) == 1 and cosine(20, 40) == pytest.approx(0.55) and cosine(40, 40) == pytest.approx(0.1)


@pytest.mark.parametrize("reset", [True, False])
def test_no_steps(reset):
    "T = 0 is allowed and trains nothing; a critic that begins anew does so all the same."
    critic = StatisticsNetwork(3, 2, 6, seeded())
    before = critic.flat_weights.detach().clone()
    assert InnerLoop(critic, 0, reset=reset, generator=seeded(1)).run(MemoryBank.of(*related(20))) == []
    assert torch.equal(critic.flat_weights, before) != reset and critic.flat_weights.isfinite().all()


@pytest.mark.parametrize("negatives", ["shift:8", "all", "permute"])
def test_the_value_rises(negatives):
    critic = StatisticsNetwork(3, 2, 16, seeded())
    loop = InnerLoop(critic, 100, negatives=negatives, generator=seeded(1))
    values = loop.run(MemoryBank.of(*related(500)))
    assert len(values) == 100 and abs(values[0]) < 0.3 and sum(values[-10:]) / 10 > 1


def test_warm_goes_on_and_reset_starts_again():
    "Warm: the next loop begins where the last one ended. Reset: with new weights and empty moments, as in Algorithm 1."
    bank = MemoryBank.of(*related(300))
    warm, cold = (
        InnerLoop(StatisticsNetwork(3, 2, 16, seeded()), 60, reset=reset, generator=seeded(1))
        for reset in (False, True)
    )
    warm_values, cold_values = ([loop.run(bank) for _ in range(2)] for loop in (warm, cold))
    assert warm_values[1][0] > warm_values[0][-1] - 0.4 and warm.count == 120
    assert abs(cold_values[1][0]) < 0.3 and cold_values[1][-1] > 0.8 and cold.count == 60


def test_loops_with_one_seed_are_equal():
    "To the last bit; and the global random state is not touched."
    bank, before = MemoryBank.of(*related(300)), torch.get_rng_state()
    loops = [
        InnerLoop(StatisticsNetwork(3, 2, 8, seeded()), 20, negatives="permute", reset=True, generator=seeded(1))
        for _ in range(2)
    ]
    assert loops[0].run(bank) == loops[1].run(bank)
    assert torch.equal(loops[0].critic.flat_weights, loops[1].critic.flat_weights) and torch.equal(
        torch.get_rng_state(), before
    )


def test_only_the_critic_changes():
    "An inner loop leaves the bank, its statistics and all gradients alone."
    x, y = related(50)
    x.requires_grad_()
    bank, critic = MemoryBank.of(x, y), StatisticsNetwork(3, 2, 8, seeded())
    before, weights = bank.pairs.clone(), critic.flat_weights.detach().clone()
    InnerLoop(critic, 5, generator=seeded()).run(bank)
    assert torch.equal(bank.pairs, before) and x.grad is None and critic.flat_weights.grad is None
    assert not torch.equal(critic.flat_weights, weights) and critic.flat_weights.requires_grad


@pytest.mark.parametrize("filled", [0, 1])
def test_a_loop_needs_two_pairs(filled):
    bank, critic = MemoryBank(9, 3, 2), StatisticsNetwork(3, 2, 8, seeded())
    bank.write(torch.arange(filled), randn(filled, 3), randn(filled, 2))
    before = critic.flat_weights.detach().clone()
    with pytest.raises(ValueError, match="at least 2 pairs"):
        quietly(InnerLoop(critic, 5, generator=seeded()).run, bank)
    assert torch.equal(critic.flat_weights, before)


@pytest.mark.parametrize("filled", [2, 3, 9])
@pytest.mark.parametrize("negatives", ["shift:8", "all", "permute"])
def test_fewer_pairs_than_a_batch(filled, negatives):
    "The actual number of pairs counts, not the batch size that was asked for."
    bank, critic = MemoryBank(50, 3, 2), StatisticsNetwork(3, 2, 8, seeded())
    bank.write(torch.arange(filled), randn(filled, 3), randn(filled, 2, seed=1))
    values = InnerLoop(critic, 5, negatives=negatives, batch_size=20, generator=seeded()).run(bank)
    assert len(values) == 5 and np.isfinite(values).all() and critic.flat_weights.isfinite().all()


def test_a_batch_alone_is_learnt_by_heart():
    "Independent embeddings of width 32: several nats on a batch of 128, next to none in a bank of 1,113."
    seen = {}
    for n in (128, 1113):
        loop = InnerLoop(StatisticsNetwork(32, 32, 32, seeded()), 50, generator=seeded(1))
        seen[n] = loop.run(MemoryBank.of(randn(n, 32, seed=1), randn(n, 32, seed=2)))[-1]
    assert seen[128] > 2 and seen[1113] < 0.7


def test_a_dead_critic_is_noticed():
    "Every hidden unit below 0: f never varies and has no gradient. This is said, and new weights take over; 0 is no estimate."
    critic, bank = StatisticsNetwork(3, 2, 16, seeded()), MemoryBank.of(*related(500))
    with torch.no_grad():
        critic.weights()[2].fill_(-1e3)
    loop = InnerLoop(critic, 100, generator=seeded(1))
    values, caught = quietly(lambda: loop.run(bank) + loop.run(bank))
    assert values[-1] > 0.5 and [
        text for _, text in caught if "every hidden unit of the critic was inactive" in text and "new weights" in text
    ]


def test_embeddings_that_never_vary_are_not_the_fault_of_the_critic():
    "A critic whose hidden units work is not called dead, and not thrown away."
    critic, bank = (
        StatisticsNetwork(2, 2, 8, seeded()),
        MemoryBank.of(torch.full((50, 2), 0.1), torch.full((50, 2), 0.3)),
    )
    with torch.no_grad():
        critic.weights()[2].fill_(0.5)
    before = critic.flat_weights.detach().clone()
    values, caught = quietly(InnerLoop(critic, 20, generator=seeded(1)).run, bank)
    assert not [text for _, text in caught if "hidden unit" in text] and max(values) <= 1e-6
    assert (critic.flat_weights - before).abs().max() < 0.2


def graphs_of_noise(N):
    "N graphs of three to five nodes, with independent features."
    ring = lambda n: torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
    return [Data(x=randn(3 + i % 3, 8, seed=i), edge_index=ring(3 + i % 3)) for i in range(N)]


def test_the_estimator_sees_the_pairing():
    """In a batch of graphs the embeddings differ and equal a readout of each graph alone; identical pairs give more than
    a nat after a few hundred critic steps, shuffled pairs about 0. (With the mean of the whole batch both would be 0.)"""
    from gib_nb.nn.gib import GIB

    graphs = graphs_of_noise(800)
    batch = Batch.from_data_list(graphs)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = GIB(8, 2, hidden_channels=8).eval()
    with torch.no_grad():
        g = model(batch.x, batch.edge_index, batch.batch, len(graphs)).graph_embedding
        for i in range(64):
            alone = model.backbone(graphs[i].x, graphs[i].edge_index)
            torch.testing.assert_close(g[i], sum(alone) / len(alone), rtol=1e-4, atol=1e-5)
    assert torch.pdist(g[:64]).min() > 1e-3
    pairs = {"same": g, "shuffled": g[torch.randperm(len(g), generator=seeded(7))]}
    seen = {}
    for name, partner in pairs.items():
        bank, critic = MemoryBank.of(g, partner), StatisticsNetwork(8, 8, 16, seeded(1))
        InnerLoop(critic, 300, generator=seeded(2)).run(bank)
        seen[name] = value_and_gradient(critic, *bank.standardize(g, partner), "all")[0].item()
    assert seen["same"] > 1 and abs(seen["shuffled"]) < 0.3


# --- held-out values


class Product(nn.Module):
    "A fixed critic, f(x, y) = a·x·y."

    def __init__(self, a=0.6):
        super().__init__()
        self.a = a

    def forward(self, x, y):
        return self.a * x[:, 0] * y[:, 0]


@pytest.mark.parametrize("bound", BOUNDS)
def test_held_out_value_equals_the_loop(bound):
    "With as many shifts as there are, the negatives are all pairs."
    x, y = exact(9, 1), exact(9, 1, seed=1)
    value, _, largest = held_out_value(Product(9.0), x, y, bound)
    table = 9.0 * x @ y.T
    assert value == pytest.approx(slow_bounds(table.tolist())[bound], rel=1e-9) and largest == pytest.approx(
        table.abs().max().item()
    )


@pytest.mark.slow
@pytest.mark.parametrize("bound", BOUNDS)
def test_standard_error_is_the_spread_of_repeated_draws(bound):
    values, errors = [], []
    for draw in range(250):
        x = exact(200, 1, seed=draw)
        value, error, _ = held_out_value(Product(), x, 0.6 * x + 0.8 * exact(200, 1, seed=10_000 + draw), bound)
        values.append(value)
        errors.append(error)
    assert 0.82 < np.std(values) / np.mean(errors) < 1.18


@pytest.mark.parametrize("N", [0, 1])
def test_a_held_out_value_needs_two_pairs(N):
    "One pair has neither negatives nor a spread."
    with pytest.raises(ValueError, match=f"at least 2 pairs.*N={N}"):
        held_out_value(Product(), exact(N, 1), exact(N, 1))


@pytest.mark.parametrize("bound", [*BOUNDS, "js"])
def test_two_pairs_have_a_spread(bound):
    value, error, _ = held_out_value(Product(), exact(2, 1), exact(2, 1, seed=1), bound)
    assert math.isfinite(value) and error > 0


def test_held_out_jensen_shannon_equals_the_table():
    x, y = exact(9, 1), exact(9, 1, seed=1)
    assert held_out_value(Product(2.0), x, y, "js")[0] == pytest.approx(
        jensen_shannon_bound(2.0 * x @ y.T).item(), rel=1e-9
    )


# --- an estimate and its record


def sign_channel(n, variance, seed=0):
    x = randn(n, seed=seed).sign()
    return x, x + variance**0.5 * randn(n, seed=seed + 1000)


@pytest.mark.parametrize(
    "options",
    [
        dict(bound="dv"),
        dict(bound="nwj", batch_size=64),
        dict(bound="infonce", batch_size=64),
        dict(bound="smile", batch_size=64),
        *(
            pytest.param(options, marks=pytest.mark.slow)
            for options in (
                dict(bound="dv", negatives="permute"),
                dict(bound="dv", negatives="all", steps=200),
                dict(critic="separable", hidden=24, steps=200),
                dict(bound="infonce", critic="separable", hidden=24, steps=200),
            )
        ),
    ],
    ids=str,
)
def test_sign_channel(options):
    "Every bound and critic near the exact value by quadrature, within its standard error."
    estimate = critic_estimate(*sign_channel(8000, 0.5), **(QUICK | options))
    truth = float(sign_channel_mutual_information(0.5))
    assert abs(estimate.value - truth) < 3 * estimate.standard_error + 0.01 and 0 < estimate.standard_error < 0.03
    assert estimate.bound == options.get("bound", "dv") and not estimate.warnings


@pytest.mark.slow
@pytest.mark.parametrize("variance", [0.1, 1.0, 10.0])
def test_sign_channel_at_other_noise(variance):
    estimate, truth = (
        critic_estimate(*sign_channel(8000, variance, 5), **QUICK),
        float(sign_channel_mutual_information(variance)),
    )
    assert abs(estimate.value - truth) < 3 * estimate.standard_error + 0.01


@pytest.mark.parametrize("bound", ["dv", "infonce"])
def test_independent_samples(bound):
    estimate = critic_estimate(
        randn(3000, 2), randn(3000, 2, seed=1), bound, **(QUICK | dict(steps=100, batch_size=64))
    )
    assert abs(estimate.value) < 0.02


def test_the_record():
    estimate = critic_estimate(*sign_channel(1000, 0.5), hidden=8, steps=60, checks=3)
    assert float(estimate) == estimate.value == estimate.held_out
    assert estimate.log_num_pairs == pytest.approx(math.log(200)) and estimate.steps in (20, 40, 60)
    assert [step for step, _, _ in estimate.history] == [20, 40, 60]
    assert estimate.steps == max(estimate.history, key=lambda row: row[2])[0] and estimate.ranks == ()


def test_the_best_step_is_kept():
    "Where the critic memorizes, the held-out value is that of the step which the validation pairs chose, not of the last."
    sides = randn(200, 32), randn(200, 32, seed=1)
    chosen, last = (quietly(critic_estimate, *sides, steps=150, checks=checks)[0] for checks in (10, 1))
    assert chosen.steps == max(chosen.history, key=lambda row: row[2])[0] < last.steps == 150
    assert chosen.held_out > last.held_out + 0.5 and chosen.in_sample < last.in_sample


@pytest.mark.parametrize("options", [dict(checks=0), dict(checks=-1), dict(steps=0)], ids=str)
def test_there_is_a_step_and_a_check_of_it(options):
    with pytest.raises(
        ValueError, match=f"steps and checks of at least 1 .*got .*{next(iter(options))}={next(iter(options.values()))}"
    ):
        critic_estimate(*sign_channel(200, 0.5), hidden=8, **options)


@pytest.mark.parametrize(
    "options", [{}, dict(bound="nwj"), dict(critic="separable", hidden=16), dict(negatives="permute")], ids=str
)
def test_estimates_are_reproducible(options):
    "One seed gives one record, to the last bit; another seed another; the global random states are left as they were."
    state, of_numpy = torch.get_rng_state(), np.random.get_state()[1].copy()
    first, second, other = (
        critic_estimate(*sign_channel(300, 0.5), **(dict(hidden=8, steps=20, batch_size=64) | options), seed=s)
        for s in (0, 0, 1)
    )
    assert first == second and first.held_out != other.held_out
    assert torch.equal(torch.get_rng_state(), state) and (np.random.get_state()[1] == of_numpy).all()


def test_numpy_and_vectors_are_welcome():
    x, y = sign_channel(300, 0.5)
    flat = critic_estimate(x, y, hidden=8, steps=20)
    assert flat == critic_estimate(x.numpy(), y[:, None].numpy(), hidden=8, steps=20)
    assert flat == critic_estimate(x.double().requires_grad_(), y.double(), hidden=8, steps=20)


def test_samples_of_every_kind():
    "Data frames, series, nested lists, sparse matrices, and arrays that torch cannot share: all give the estimate of the tensor."
    x, y = exact(60, 2), exact(60, 1, seed=1)
    plain, _ = quietly(critic_estimate, x, y, hidden=4, steps=5)
    array = x.numpy()
    frozen = array.copy()
    frozen.flags.writeable = False
    for same in (
        pd.DataFrame(array, columns=["a", "b"]),
        array.tolist(),
        list(array),
        x.to_sparse(),
        x.to_sparse_csr(),
        scipy.sparse.csr_matrix(array),
        array[::-1].copy()[::-1],
        frozen,
        array.astype(">f8"),
        array.astype(np.longdouble),
    ):
        assert quietly(critic_estimate, same, pd.Series(y[:, 0].numpy()), hidden=4, steps=5)[0] == plain
    with warnings.catch_warnings():
        warnings.simplefilter("error", category=UserWarning)
        assert (
            torch.equal(as_samples(frozen, "x"), x) and as_samples(array.astype(np.float16), "x").dtype == torch.double
        )


@pytest.mark.parametrize(
    "x, text",
    [
        (pd.DataFrame({"a": [0.5] * 20, "b": [1] * 20}), "column of int64.*one-hot"),
        (pd.DataFrame({"a": [True, False] * 10}), "column of bool"),
        (pd.DataFrame({"a": ["p", "q"] * 10}), "column of (object|str)"),
        (pd.Series([1] * 20), "column of int64"),
        (np.arange(20), "int64.*one-hot"),
        (np.arange(20, dtype=np.uint16), "uint16"),
        ([1] * 20, "int64"),
        ([[1.0], [1.0, 2.0]], "list: "),
        (["a", "b"] * 10, "list: "),
        (None, "NoneType"),
        ({"a": 1.0}, "dict"),
        ([None] * 20, "list: "),
        (np.array([1 + 2j] * 20), "complex128"),
    ],
    ids=lambda value: "" if isinstance(value, str) else type(value).__name__,
)
def test_what_are_no_samples(x, text):
    with pytest.raises(TypeError, match=f"expected .*x.*got.*{text}"):
        critic_estimate(x, randn(20))


@pytest.fixture
def double_precision():
    "torch.set_default_dtype(torch.float64), for one test."
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("options", [dict(bound=bound) for bound in BOUNDS] + [dict(critic="separable")], ids=str)
def test_estimates_in_double_precision(double_precision, options):
    x = exact(400, 1)
    estimate, _ = quietly(
        critic_estimate, x, x + exact(400, 1, seed=1), **(dict(hidden=8, steps=40, batch_size=64) | options)
    )
    torch.set_default_dtype(torch.float32)
    single, _ = quietly(
        critic_estimate, x, x + exact(400, 1, seed=1), **(dict(hidden=8, steps=40, batch_size=64) | options)
    )
    assert math.isfinite(estimate.held_out) and math.isfinite(single.held_out)


@pytest.mark.parametrize("negatives", ["shift:4", "all", "permute"])
def test_loops_in_double_precision(double_precision, negatives):
    "Single precision embeddings beside a critic in double precision, and a critic in single precision beside a bank in double."
    x, y = related(60)
    x, y = x.float(), y.float()
    for critic in (StatisticsNetwork(3, 2, 8, seeded()), StatisticsNetwork(3, 2, 8, seeded()).float()):
        bank = MemoryBank.of(x, y)
        values = InnerLoop(critic, 10, negatives=negatives, generator=seeded(1)).run(bank)
        s = y.clone().requires_grad_()
        frozen_dv(critic, *bank.standardize(x, s), negatives, seeded()).backward()
        assert np.isfinite(values).all() and s.grad.isfinite().all() and critic.flat_weights.isfinite().all()
        assert math.isfinite(held_out_value(critic, x, y)[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    "scale, shift",
    [
        (1e3, 0.0),
        (100.0, 1e9),
        *(
            pytest.param(*units, marks=pytest.mark.slow)
            for units in ((1e20, 0.0), (1e-20, 0.0), (-1.0, 5.0), (1e-3, 1e4))
        ),
    ],
)
def test_units_do_not_matter(scale, shift):
    "Embeddings of size 1e3 and 1e20, seconds since 1970, millimeters in kilometers: the estimate of the plain numbers."
    x, y = exact(1500, 1), exact(1500, 1) + 0.5 * exact(1500, 1, seed=1)
    plain = critic_estimate(x, y, **QUICK).value
    assert plain > 0.5
    assert critic_estimate(scale * x + shift, y, **QUICK).value == pytest.approx(plain, abs=0.03)
    assert critic_estimate(y, scale * x + shift, **QUICK).value == pytest.approx(plain, abs=0.05)


def test_ranks_tame_heavy_tails():
    x = exact(4000, 1)
    y = x + 0.5 * exact(4000, 1, seed=1)
    truth = 0.5 * math.log(5)
    with_ranks = critic_estimate(x**9, y**9, ranks=True, **QUICK).value
    assert abs(with_ranks - truth) < 0.06


STRETCHED = {
    "exp(2x)": lambda v: (2 * v).exp(),
    "exp(3x)": lambda v: (3 * v).exp(),
    "fifth powers": lambda v: v**5,
    "Cauchy": lambda v: torch.as_tensor(stats.cauchy.ppf(stats.norm.cdf(v.numpy()))),
}


@pytest.mark.slow
@pytest.mark.parametrize("stretch", STRETCHED)
def test_heavy_tails_are_gaussianized_by_themselves(stretch):
    "Mutual information does not change when a column is stretched; .303 and .113 used to be said of .511, without a warning."
    x = exact(4000, 1)
    y = 0.8 * x + 0.6 * exact(4000, 1, seed=1)
    of_ranks = critic_estimate(x, y, ranks=True, **QUICK)
    estimate, caught = quietly(critic_estimate, STRETCHED[stretch](x), STRETCHED[stretch](y), **QUICK)
    assert estimate.ranks == ("x", "y") and not caught and estimate.value == pytest.approx(of_ranks.value, abs=1e-6)
    assert abs(estimate.value + 0.5 * math.log(1 - 0.8**2)) < 0.04


def test_only_the_side_with_heavy_tails_is_gaussianized():
    x, y = exact(500, 2), torch.cat([exact(500, 1), (3 * exact(500, 1, seed=1)).exp()], 1)
    estimate, caught = quietly(critic_estimate, x, y, hidden=4, steps=5)
    both, _ = quietly(critic_estimate, x, rank_gaussianize(y), ranks=False, hidden=4, steps=5)
    assert (
        estimate.ranks == ("y",)
        and estimate.held_out == both.held_out
        and quietly(critic_estimate, x, y, ranks=True, hidden=4, steps=5)[0].ranks == ("x", "y")
    )


def test_heavy_tails_without_ranks_are_warned_of():
    y = (3 * exact(500, 1)).exp()
    estimate, caught = quietly(critic_estimate, exact(500, 1, seed=1), y, ranks=False, hidden=4, steps=5)
    assert estimate.ranks == () and any(
        category is EstimateWarning and text.startswith("y has heavy tails") and "leave ranks at None" in text
        for category, text in caught
    )


ORDINARY = {
    "normal": lambda n: exact(n, 5),
    "uniform": lambda n: exact(n, 1).erf(),
    "signs": lambda n: exact(n, 1).sign(),
    "constant": lambda n: torch.ones(n, 2),
    "one-hot": lambda n: torch.eye(7)[torch.randint(7, (n,), generator=seeded())],
    "rare category": lambda n: (exact(n, 1) > 2.5).double(),
    "ReLU": lambda n: randn(n, 16).relu(),
    "ReLU, mostly silent": lambda n: (randn(n, 4) - 2).relu(),
    "logistic": lambda n: (2 * exact(n, 1)).sigmoid(),
    "counts of edges": lambda n: enumerable_graph_channel(5).sample(n, seeded())[0].sum(1),
    "rounding": lambda n: 0.1 + 1e-8 * randn(n, 1) * (randn(n, 1, seed=1) < 1) + (randn(n, 1, seed=1) > 1).float(),
    "seconds since 1970": lambda n: exact(n, 1) + 1e9,
    "huge": lambda n: exact(n, 1) * 1e200,
    "tiny": lambda n: exact(n, 1) * 1e-200,
    "Laplace": lambda n: torch.as_tensor(stats.laplace.rvs(size=n, random_state=0)),
    "t, 5 degrees": lambda n: torch.as_tensor(stats.t.rvs(5, size=n, random_state=0)),
}


@pytest.mark.parametrize("n", [8, 100, 5000])
@pytest.mark.parametrize("kind", ORDINARY)
def test_ordinary_data_have_no_heavy_tails(kind, n):
    assert not heavy_tailed(as_samples(ORDINARY[kind](n), "x").reshape(n, -1))


@pytest.mark.parametrize("kind", ["normal", "one-hot", "ReLU", "signs"])
def test_ordinary_data_stay_as_they_are(kind):
    "The same record, to the last bit, as without any ranks."
    x, y = ORDINARY[kind](300), exact(300, 1, seed=1)
    automatic, never = (quietly(critic_estimate, x, y, ranks=ranks, hidden=8, steps=20)[0] for ranks in (None, False))
    assert automatic == never and automatic.ranks == ()


@pytest.mark.parametrize("scale, shift", [(1.0, 0.0), (-1e20, 0.0), (1e-20, 0.0), (3.0, 50.0)])
def test_heavy_tails_are_seen_in_any_unit(scale, shift):
    assert heavy_tailed(scale * (2 * exact(2000, 1)).exp() + shift) and heavy_tailed(
        torch.cat([exact(2000, 3), scale * exact(2000, 1) ** 5 + shift], 1)
    )


def test_one_outlier_is_a_heavy_tail():
    x = exact(1000, 1)
    x[17] = 1e12
    assert heavy_tailed(x)


def test_equal_values_have_equal_ranks():
    "Else ties are broken by the order of the rows, and sorted data carry information that is not there."
    ranked = rank_gaussianize(
        torch.tensor([[1.0, 5.0], [1.0, 3.0], [2.0, 3.0], [2.0, 1.0], [1.0, 3.0]], dtype=torch.double)
    )
    assert ranked[0, 0] == ranked[1, 0] == ranked[4, 0] < ranked[2, 0] == ranked[3, 0]
    assert ranked[3, 1] < ranked[1, 1] == ranked[2, 1] == ranked[4, 1] < ranked[0, 1]


def test_ranks_invent_nothing():
    "A constant has no information about sorted numbers."
    estimate, _ = quietly(critic_estimate, torch.ones(600), torch.linspace(-1, 1, 600), ranks=True, hidden=8, steps=100)
    assert abs(estimate.value) < 0.02


def test_ranks_are_normal_quantiles():
    ranked = rank_gaussianize(exact(999, 2) ** 3)
    assert ranked.isfinite().all() and ranked.mean(0).abs().max() < 1e-6 and (ranked.std(0) - 1).abs().max() < 0.02


# --- what is wrong with the samples is said


@pytest.mark.parametrize("shape", [(0,), (0, 3), (1,), (1, 3), (2, 2), (3, 1), (7,)])
def test_too_few_samples(shape):
    "Three pairs gave a held-out value of 506.7, of pairs that the critic had been trained on."
    with pytest.raises(ValueError, match=f"at least 8 pairs.*held-out.*N={shape[0]}.*give more"):
        critic_estimate(randn(*shape), randn(*shape, seed=1))


@pytest.mark.parametrize("N", [*range(8, 60), 999, 12_345])
def test_each_part_has_negatives(N, monkeypatch):
    "And nothing that is held out was trained on or chosen by."
    seen, parts = [], []
    monkeypatch.setattr(
        estimate_module, "_fit_critic", lambda network, step, x, y, parts_, *_: parts.extend(parts_) or (1.0, 1, [])
    )
    monkeypatch.setattr(
        estimate_module, "held_out_value", lambda network, x, y, *_: seen.append(len(x)) or (0.0, 1.0, 0.0)
    )
    critic_estimate(exact(N, 1), exact(N, 1, seed=1), hidden=2)
    assert (
        min(map(len, parts)) >= 2
        and sorted(torch.cat(parts).tolist()) == list(range(N))
        and seen == [len(parts[0]), len(parts[2])]
    )


def test_eight_samples_are_enough():
    _, caught = quietly(critic_estimate, randn(8, 2), randn(8, 2, seed=1), hidden=4, steps=1, learning_rate=1e-6)
    assert not [text for _, text in caught if "only" in text]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("side", ["x", "y"])
def test_numbers_that_are_not_finite(side, value):
    "The tensor and its first bad row are named."
    sides = {"x": exact(20, 2), "y": exact(20, 3)}
    sides[side][13, 1] = sides[side][17, 0] = value
    with pytest.raises(ValueError, match=f"finite numbers in {side} .*row 13"):
        critic_estimate(**sides)


def test_not_finite_leaves_the_critic_untouched():
    "One NaN in one batch used to leave all weights of the critic NaN for ever."
    critic, bank = StatisticsNetwork(3, 2, 8, seeded()), MemoryBank.of(*related(40))
    loop = InnerLoop(critic, 5, generator=seeded())
    loop.run(bank)
    before = [t.clone() for t in (critic.flat_weights.detach(), loop.exp_avg, loop.exp_avg_sq)]
    x, y = related(10)
    x[4, 0] = float("nan")
    with pytest.raises(ValueError, match="x .*row 4"):
        bank.write(torch.arange(10), x, y)
    assert all(torch.equal(a, b) for a, b in zip(before, (critic.flat_weights.detach(), loop.exp_avg, loop.exp_avg_sq)))
    loop.run(bank)
    assert critic.flat_weights.isfinite().all()


@pytest.mark.parametrize(
    "x, y, text",
    [
        ((10,), (9,), r"\(10,.*\(9,"),
        ((10, 2), (11, 3), r"\(10, 2\).*\(11, 3\)"),
        ((), (), "shapes"),
        ((), (3,), "shapes"),
    ],
)
def test_as_many_x_as_y(x, y, text):
    with pytest.raises(ValueError, match=text):
        critic_estimate(torch.zeros(x), torch.zeros(y))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64])
def test_whole_numbers_are_refused(dtype):
    with pytest.raises(TypeError, match=f"floating point numbers in y .*{dtype}"):
        critic_estimate(torch.zeros(10), torch.zeros(10).to(dtype))
    with pytest.raises(TypeError, match=f"floating point numbers in x .*{dtype}"):
        critic_estimate(torch.zeros(10).to(dtype), torch.zeros(10))


@pytest.mark.parametrize(
    "options, text",
    [
        (dict(bound="club"), "club"),
        (dict(critic="bilinear"), "bilinear"),
        (dict(negatives="some"), "some"),
        (dict(batch_size=1), "1"),
    ],
)
def test_wrong_options(options, text):
    with pytest.raises(ValueError, match=f"expected .*got.*{text}"):
        critic_estimate(randn(50), randn(50, seed=1), steps=2, **options)


@pytest.mark.parametrize("side", ["x", "y"])
def test_identical_embeddings_are_named(side):
    "All graphs with one embedding: the estimate is 0 whatever the critic does, as in the published classification code."
    sides = {"x": randn(100, 2), "y": randn(100, 2, seed=1)}
    sides[side] = sides[side][:1].expand(100, 2)
    estimate, caught = quietly(critic_estimate, **sides, hidden=8, steps=60)
    assert estimate.value <= 1e-6 and (EstimateWarning, estimate.warnings[0]) in caught
    assert (
        f"{side} is identical in all 100 pairs" in estimate.warnings[0] and "0 by construction" in estimate.warnings[0]
    )


def test_memorization_is_named():
    "In-sample more than a nat above held-out: both numbers are in the record and in the warning."
    estimate, caught = quietly(critic_estimate, randn(200, 32), randn(200, 32, seed=1), steps=150, checks=1)
    assert estimate.in_sample > estimate.held_out + 1
    assert [c for c, text in caught if f"{estimate.in_sample:.2f}" in text and f"{estimate.held_out:.2f}" in text] == [
        OverfittingWarning
    ]


def test_the_ceiling_is_named():
    "No bound from N pairs certifies more than log N."
    x = randn(120, 4)
    estimate, caught = quietly(critic_estimate, x, x, steps=200)
    assert max(estimate.value, estimate.in_sample) > estimate.log_num_pairs
    assert any(
        category is OverfittingWarning and f"log N = {estimate.log_num_pairs:.2f}" in text for category, text in caught
    )


def test_large_scores_are_named():
    x = randn(400, 4)
    estimate, caught = quietly(critic_estimate, x, x, steps=300, learning_rate=0.1)
    assert any(category is EstimateWarning and "score of the critic reached" in text for category, text in caught)


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_critic_below_the_constant_one_is_no_answer(bound):
    "Independent vectors gave −2.80 where a constant critic gives 0: the answer is 0, with a warning, and the record keeps what the critic did."
    estimate, caught = quietly(
        critic_estimate, randn(300, 20), randn(300, 20, seed=1), bound, steps=100, checks=4, hidden=32, batch_size=64
    )
    assert estimate.value == float(estimate) == 0 > estimate.held_out and estimate.standard_error > 0
    assert len(estimate.history) == 4 and max(row[2] for row in estimate.history) <= 0
    nothing = [(category, text) for category, text in caught if "found nothing that holds on unseen pairs" in text]
    assert len(nothing) == 1 and nothing[0][0] is EstimateWarning and nothing[0][1] in estimate.warnings


def test_values_that_noise_puts_below_zero_are_reported_as_they_are():
    "0 only where the validation pairs say so, or where the held-out pairs do so beyond three standard errors."
    assert estimate_value(0.01, -0.02, 0.01) == (-0.02, "") and estimate_value(0.01, 0.02, 0.01) == (0.02, "")
    assert (
        estimate_value(0.0, 0.02, 0.01)[0] == estimate_value(-0.01, 0.02, 0.01)[0] == 0
        and "-0.010 at best on the validation pairs" in estimate_value(-0.01, 0.02, 0.01)[1]
    )
    assert (
        estimate_value(0.01, -0.04, 0.01)[0] == 0
        and "-0.040 ± 0.010 on the held-out pairs" in estimate_value(0.01, -0.04, 0.01)[1]
    )
    assert estimate_value(0.01, -math.inf, math.nan)[0] == estimate_value(0.01, math.nan, math.nan)[0] == 0


@pytest.mark.slow
def test_estimates_of_independent_samples_have_no_bias():
    "The constant critic is chosen on other pairs than those which give the value, so the values that remain scatter around 0."
    values, errors = [], []
    for seed in range(12):
        estimate, _ = quietly(
            critic_estimate,
            randn(400, 1, seed=seed),
            randn(400, 1, seed=100 + seed),
            hidden=8,
            steps=30,
            batch_size=64,
            seed=seed,
        )
        values.append(estimate.value)
        errors.append(estimate.standard_error)
    assert (
        0 < sum(value == 0 for value in values) < 12
        and min(values) < 0
        and abs(np.mean(values)) < 3 * np.mean(errors) / 12**0.5
    )


def test_infonce_near_its_ceiling_is_named():
    "It chooses among 128 candidates, or as many as there are held-out pairs, and cannot exceed the logarithm of that."
    x = randn(400, 4)
    estimate, caught = quietly(critic_estimate, x, x, "infonce", steps=150, batch_size=64, hidden=32)
    assert estimate.log_num_pairs == pytest.approx(math.log(80)) and estimate.held_out > estimate.log_num_pairs - 1
    assert any(category is EstimateWarning and "InfoNCE cannot exceed 4.38" in text for category, text in caught)
    assert quietly(critic_estimate, randn(2000), randn(2000, seed=1), "infonce", hidden=2, steps=1)[
        0
    ].log_num_pairs == pytest.approx(math.log(128))


# --- graphs whose mutual information is known


@pytest.mark.parametrize(
    "n, keep, expected",
    [
        (4, (1.0, 0.0), 1.4333),
        (5, (1.0, 0.0), 3.3649),
        (4, (0.9, 0.1), 1.2488),
        (4, (0.7, 0.3), 0.9645),
        (5, (0.9, 0.1), 2.8264),
        (5, (0.7, 0.3), 2.0120),
        (5, (0.5, 0.5), 1.7329),
        (5, (0.5, 0.5), 5 * 4 / 8 * math.log(2)),
        (4, (0.5, 0.5), 4 * 3 / 8 * math.log(2)),
        (4, (0.0, 0.0), 0.0),
        (4, (1.0, 1.0), 6 * math.log(2)),
    ],
)
def test_known_information(n, keep, expected):
    assert enumerable_graph_channel(n, keep).mutual_information() == pytest.approx(expected, abs=1e-4)


def slow_information(task):
    "I(G;G_sub) from the joint table of graph and labeled subgraph, one mask after the other."
    n, joint = task.num_nodes, {}
    for m, A in enumerate(task.adjacency.tolist()):
        on_triangle = [any(A[i][j] and A[j][k] and A[k][i] for j in range(n) for k in range(n)) for i in range(n)]
        for mask in itertools.product((0, 1), repeat=n):
            p = 1 / len(task.adjacency)
            for i in range(n):
                q = task.keep[0] if on_triangle[i] else task.keep[1]
                p *= q if mask[i] else 1 - q
            edges = tuple((i, j) for i in range(n) for j in range(i) if A[i][j] and mask[i] and mask[j])
            joint[m, (mask, edges)] = joint.get((m, (mask, edges)), 0) + p
    marginal = {}
    for (_, subgraph), p in joint.items():
        marginal[subgraph] = marginal.get(subgraph, 0) + p
    return math.fsum(
        p * math.log(p * len(task.adjacency) / marginal[subgraph]) for (_, subgraph), p in joint.items() if p > 0
    )


@pytest.mark.parametrize("n, keep", [(3, (0.8, 0.1)), (4, (1.0, 0.0)), (4, (0.9, 0.1)), (4, (0.3, 0.6))])
def test_information_equals_the_loop(n, keep):
    assert enumerable_graph_channel(n, keep).mutual_information() == pytest.approx(
        slow_information(enumerable_graph_channel(n, keep)), abs=1e-9
    )


def canonical(A):
    "The smallest edge set over all orders of the nodes, by brute force."
    n = len(A)
    edges = [(i, j) for i in range(n) for j in range(i) if A[i][j]]
    return min(
        tuple(sorted((max(p[i], p[j]), min(p[i], p[j])) for i, j in edges)) for p in itertools.permutations(range(n))
    )


@pytest.mark.parametrize("n, classes", [(2, 2), (3, 4), (4, 11), (5, 34)])
def test_number_of_graphs_up_to_isomorphism(n, classes):
    assert len(labeled_graphs(n)) == 2 ** (n * (n - 1) // 2)
    assert isomorphism_classes(labeled_graphs(n)).unique().numel() == classes


def test_isomorphism_classes_equal_brute_force():
    graphs = labeled_graphs(4)
    classes, slow = isomorphism_classes(graphs).tolist(), [canonical(A) for A in graphs.tolist()]
    assert len(set(zip(classes, slow))) == len(set(classes)) == len(set(slow)) == 11


def test_entropy_of_subgraphs_up_to_isomorphism():
    "Triangles of five nodes: 11 subgraphs up to isomorphism, with entropy 1.6118, counted one graph at a time."
    task = enumerable_graph_channel(5)
    kept = task.adjacency * task.motif[:, :, None] * task.motif[:, None]
    classes = isomorphism_classes(kept)
    p = torch.bincount(classes).double() / len(classes)
    forms, counts = {}, {}
    for A in kept.int().tolist():
        key = tuple(map(tuple, A))
        forms[key] = forms[key] if key in forms else canonical(A)
        counts[forms[key]] = counts.get(forms[key], 0) + 1
    slow = -math.fsum(c / 1024 * math.log(c / 1024) for c in counts.values())
    assert len(counts) == len(p) == 11
    assert float(torch.special.entr(p).sum()) == pytest.approx(slow, abs=1e-9) and slow == pytest.approx(
        1.6118, abs=1e-4
    )


def test_samples_follow_the_enumeration():
    "Kept edges are edges between kept nodes, and every node is kept as often as it should be."
    task = enumerable_graph_channel(4, (0.9, 0.2))
    edges, subgraph = task.sample(20_000, seeded())
    row, col = torch.triu_indices(4, 4, 1)
    kept_edges, mask = subgraph.split([6, 4], 1)
    assert edges.shape == (20_000, 6) and torch.equal(kept_edges, edges * mask[:, row] * mask[:, col])
    code = (edges @ 2.0 ** torch.arange(6)).long()
    position = (task.adjacency[:, row, col] @ 2.0 ** torch.arange(6)).long().argsort()
    motif = task.motif[position[code]]
    assert abs(mask[motif == 1].mean() - 0.9) < 0.01 and abs(mask[motif == 0].mean() - 0.2) < 0.01
    assert torch.bincount(code, minlength=64).float().std() < 40
    assert all(torch.equal(a, b) for a, b in zip((edges, subgraph), task.sample(20_000, seeded())))


def test_a_deterministic_subgraph_is_the_motif():
    edges, subgraph = enumerable_graph_channel(4).sample(500, seeded())
    assert len(torch.cat([edges, subgraph], 1).unique(dim=0)) == len(edges.unique(dim=0))


@pytest.mark.slow
def test_estimate_of_graphs_and_their_subgraphs():
    task = enumerable_graph_channel(4)
    estimate = critic_estimate(*task.sample(6000, seeded()), hidden=32, steps=600)
    assert abs(estimate.value - task.mutual_information()) < 0.08 and estimate.value < math.log(6000 * 0.2)


@pytest.mark.parametrize(
    "n, keep", [(1, (1.0, 0.0)), (6, (1.0, 0.0)), (4, (1.2, 0.0)), (4, (0.5, -0.1)), (4, (float("nan"), 0.0))]
)
def test_wrong_tasks(n, keep):
    with pytest.raises(ValueError, match="expected"):
        enumerable_graph_channel(n, keep)
