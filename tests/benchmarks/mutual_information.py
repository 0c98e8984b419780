"""Mutual information on 18 tasks with known values, drawn as in the public benchmark Beyond Normal (Czyż et al., NeurIPS 2023), against other estimators."""

import math
import time
import warnings

import numpy as np
from scipy.special import digamma, gammaln, ndtr

from gib_nb.information.critic_estimate import critic_estimate
from gib_nb.information.estimate import estimate_mi, ksg

from .common import mean_std

SEEDS, PAIRS = range(5), 5000
CRITICS = {  # name → settings of `critic_estimate`
    "critic, Donsker–Varadhan": {},
    "separable critic, NWJ": {"bound": "nwj", "critic": "separable", "hidden": 128},
    "separable critic, InfoNCE": {"bound": "infonce", "critic": "separable", "hidden": 128},
}


def normal(random, correlations):
    d = len(correlations) // 2
    z = random.multivariate_normal(np.zeros(2 * d), correlations, PAIRS, method="cholesky")
    return z[:, :d], z[:, d:]


def dense(d):
    return 0.5 + 0.5 * np.eye(2 * d)


def sparse(d):
    "Two pairs of columns with ρ = 0.8."
    found = np.eye(2 * d)
    for i in (0, 1):
        found[i, d + i] = found[d + i, i] = 0.8
    return found


def exact_normal(correlations):
    d, size = len(correlations) // 2, lambda part: np.linalg.slogdet(part)[1]
    return 0.5 * (size(correlations[:d, :d]) + size(correlations[d:, d:]) - size(correlations))


def student(random, d, freedom):
    x, y = random.normal(size=(2, PAIRS, d))
    scale = np.sqrt(freedom / random.chisquare(freedom, (PAIRS, 1)))
    return x * scale, y * scale


def exact_student(d, freedom):
    "Of two independent normal vectors with a common scale (Arellano-Valle et al., 2013)."
    entropy = lambda n: (
        gammaln(freedom / 2)
        - gammaln((freedom + n) / 2)
        + n / 2 * math.log(freedom * math.pi)
        + (freedom + n) / 2 * (digamma((freedom + n) / 2) - digamma(freedom / 2))
    )
    return 2 * entropy(d) - entropy(2 * d)


def turned(x, first, second):
    "Two columns, turned by the squared distance from the center over the number of columns."
    angle = (x**2).sum(1) / x.shape[1]
    found, (a, b) = x.copy(), (x[:, first], x[:, second])
    found[:, first] = np.cos(angle) * a - np.sin(angle) * b
    found[:, second] = np.sin(angle) * a + np.cos(angle) * b
    return found


def half_cube(x):
    return x * np.abs(x) ** 0.5


def noisy(random, width):
    x = random.uniform(size=(PAIRS, 1))
    return x, x + random.uniform(-width, width, (PAIRS, 1))


def rolled(random):
    x, y = normal(random, np.array([[1, 0.75], [0.75, 1]]))
    t = 1.5 * math.pi * (1 + 2 * ndtr(x))
    return np.hstack([t * np.cos(t), t * np.sin(t)]) / 21, ndtr(y)


def both(function, pair):
    return tuple(map(function, pair))


def tasks() -> dict:
    "Name → function of a generator that draws pairs, and the exact value in nats."
    one = np.array([[1, 0.75], [0.75, 1]])
    found = {
        "1 × 1, normal": (lambda r: normal(r, one), exact_normal(one)),
        "1 × 1, normal, half-cube": (lambda r: both(half_cube, normal(r, one)), exact_normal(one)),
        "1 × 1, uniform noise 0.1": (lambda r: noisy(r, 0.1), 0.1 - math.log(0.2)),
        "1 × 1, uniform noise 0.75": (lambda r: noisy(r, 0.75), 1 / 3),
        "2 × 1, rolled up": (rolled, exact_normal(one)),
    }
    for d in (5, 25, 50):
        found[f"{d} × {d}, dense"] = (lambda r, d=d: normal(r, dense(d)), exact_normal(dense(d)))
    for d in (3, 25):
        found[f"{d} × {d}, sparse"] = (lambda r, d=d: normal(r, sparse(d)), exact_normal(sparse(d)))
    found["5 × 5, sparse, half-cube"] = (lambda r: both(half_cube, normal(r, sparse(5))), exact_normal(sparse(5)))
    for d, freedom in ((1, 1), (2, 1), (3, 2), (5, 2)):
        drawn = lambda r, d=d, freedom=freedom: student(r, d, freedom)
        found[f"{d} × {d}, Student, {freedom} df"] = (drawn, exact_student(d, freedom))
    for d in (3, 5, 25):

        def spiral(random, d=d):
            x, y = normal(random, sparse(d))
            return turned(x, 0, 1), turned(y, 1, 2)

        found[f"{d} × {d}, spiral"] = (spiral, exact_normal(sparse(d)))
    return found


def answer(estimator, x, y) -> dict:
    "Value, standard error if there is one, whether it came with a warning, and CPU seconds."
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = estimator(x, y)
    return {
        "value": float(found),
        "standard_error": getattr(found, "standard_error", None),
        "warned": bool(caught),
        "seconds": time.process_time() - start,
    }


def scaled(x, y):
    "Neighbors on standardized columns, as in scikit-learn."
    unit = lambda values: (values - values.mean(0)) / values.std(0)
    return ksg(unit(x), unit(y)).mean()


def run() -> dict:
    rows = {}
    others = {"nearest neighbors": scaled} | {
        name: lambda x, y, settings=settings: critic_estimate(x, y, **settings) for name, settings in CRITICS.items()
    }
    for name, (draw, exact) in tasks().items():
        pairs = [draw(np.random.default_rng(seed)) for seed in SEEDS]
        rows[name] = {"exact": exact, "estimate_mi": [answer(estimate_mi, *pair) for pair in pairs]}
        for other, estimator in others.items():  # a critic takes long: two seeds
            rows[name][other] = [answer(estimator, *pair) for pair in (pairs[:2] if "critic" in other else pairs)]
    error = lambda name, row: [abs(each["value"] - row["exact"]) / row["exact"] for each in row[name]]
    silent = [
        f"{task}, seed {seed}"
        for task, row in rows.items()
        for seed, each in enumerate(row["estimate_mi"])
        if abs(each["value"] - row["exact"]) > 3 * each["standard_error"] and not each["warned"]
    ]
    means = {
        name: mean_std([value for row in rows.values() for value in error(name, row)])
        for name in ("estimate_mi", *others)
    }
    longest = max(each["seconds"] for row in rows.values() for each in row["estimate_mi"])
    met = means["estimate_mi"]["mean"] <= 0.15 and not silent and longest <= 10
    return {"tasks": rows, "relative_error": means, "silent": silent, "longest": longest, "bar": 0.15, "met": met}
