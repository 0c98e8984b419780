"""The mutual information estimator against its bars: held-out accuracy, speed, memory, and the gradient that the outer step gets."""

import math
import warnings

import numpy as np
import torch
from scipy.stats import norm, t

from gib_nb.information.bounds import BOUNDS
from gib_nb.information.critic import InnerLoop, MemoryBank, StatisticsNetwork, all_gradients, frozen_dv, standardize
from gib_nb.information.critic_estimate import critic_estimate
from gib_nb.information.enumerate import enumerable_graph_channel, isomorphism_classes, labeled_graphs
from gib_nb.information.exact import (
    mutual_information,
    noisy_xor_table,
    sign_channel_mutual_information,
    sign_channel_plug_in,
)

from .common import in_subprocess, mean_std, milliseconds

SEEDS = range(5)


def gaussian(d, information, N, seed):
    generator = torch.Generator().manual_seed(seed)
    rho = math.sqrt(1 - math.exp(-2 * information / d))
    x = torch.randn(N, d, generator=generator)
    return x, rho * x + math.sqrt(1 - rho**2) * torch.randn(N, d, generator=generator)


def sign_channel(variance, N, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(N, generator=generator).sign()
    return x, x + variance**0.5 * torch.randn(N, generator=generator)


def from_table(table, N, seed):
    "One-hot pairs drawn from a joint probability table."
    cells = np.random.default_rng(seed).choice(table.size, N, p=table.ravel())
    row, column = np.unravel_index(cells, table.shape)
    return torch.eye(table.shape[0])[row], torch.eye(table.shape[1])[column]


def random_table(size, seed=0):
    table = np.random.default_rng(seed).gamma(0.5, size=(size, size))
    return table / table.sum()


def held_out() -> dict:
    "Error of the held-out estimate in nats, five samples and seeds each; on the sign channel against the plug-in of the test pairs."
    deep = dict(critic="separable", hidden=128, steps=3000, batch_size=512)
    tasks = {
        f"sign channel {variance}": (lambda s, v=variance: sign_channel(v, 50_000, s), variance, 0.006, {})
        for variance in (0.2, 1.0, 5.0)
    }
    tasks |= {
        "noisy XOR .1": (
            lambda s: from_table(noisy_xor_table(0.1), 50_000, s),
            mutual_information(noisy_xor_table(0.1)),
            0.02,
            {},
        )
    }
    tasks |= {
        f"table {n}x{n}": (
            lambda s, n=n: from_table(random_table(n), 50_000, s),
            mutual_information(random_table(n)),
            0.02,
            {},
        )
        for n in (4, 8)
    }
    tasks |= {
        f"gaussian d={d} MI 1": (lambda s, d=d: gaussian(d, 1.0, 100_000, s), 1.0, bar, kw)
        for d, bar, kw in ((1, 0.01, {}), (2, 0.03, {}), (5, 0.07, {"hidden": 128, "steps": 4000}))
    }
    tasks |= {"independent d=5": (lambda s: gaussian(5, 0.0, 50_000, s), 0.0, 0.02, {})}
    tasks |= {
        f"graphs on {n} nodes": (
            lambda s, n=n: enumerable_graph_channel(n).sample(50_000, torch.Generator().manual_seed(s)),
            enumerable_graph_channel(n).mutual_information(),
            bar,
            kw,
        )
        for n, bar, kw in ((4, 0.02, {}), (5, 0.08, deep))
    }
    rows = {}
    for name, (draw, truth, bar, settings) in tasks.items():
        errors, standard_errors = [], []
        for seed in SEEDS:
            x, y = draw(seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                estimate = critic_estimate(x, y, seed=seed, **settings)
            reference = plug_in_of_test_pairs(x, y, truth, seed) if name.startswith("sign") else truth
            errors.append(estimate.value - reference)
            standard_errors.append(estimate.standard_error)
        rows[name] = {
            "error": mean_std(errors),
            "mean_absolute": float(np.mean(np.abs(errors))),
            "bar": bar,
            "standard_error_of_mean": float(np.mean(standard_errors) / len(errors) ** 0.5),
            "met": bool(abs(np.mean(errors)) <= bar),
        }
        print(name, f"{np.mean(errors):+.4f} ± {np.std(errors, ddof=1):.4f}, bar {bar}", flush=True)
    return rows


def plug_in_of_test_pairs(x, y, variance, seed):
    "The exact-density plug-in on the very pairs that `critic_estimate` holds out."
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[int(0.8 * len(x)) :]
    return sign_channel_plug_in(x[order].numpy(), y[order].numpy(), variance)


SMALL = dict(hidden=32, steps=600, batch_size=64)  # a table of four bounds on one core


def exact_tasks(N) -> dict:
    "Seven kinds of pairs whose mutual information is known: how N of them are drawn with a seed, and the exact value in nats."
    return {
        "sign channel, σ² = 0.2": (
            lambda seed: sign_channel(0.2, N, seed),
            float(sign_channel_mutual_information(0.2)),
        ),
        "noisy XOR, 10 % flipped": (
            lambda seed: from_table(noisy_xor_table(0.1), N, seed),
            mutual_information(noisy_xor_table(0.1)),
        ),
        "random table 8 × 8": (lambda seed: from_table(random_table(8), N, seed), mutual_information(random_table(8))),
        "Gaussian, ρ = 0.8": (
            lambda seed: gaussian(1, -0.5 * math.log(1 - 0.8**2), N, seed),
            -0.5 * math.log(1 - 0.8**2),
        ),
        "Gaussian, d = 5": (lambda seed: gaussian(5, 1.0, N, seed), 1.0),
        "independent, d = 5": (lambda seed: gaussian(5, 0.0, N, seed), 0.0),
        "graphs on 4 nodes": (
            lambda seed: enumerable_graph_channel(4).sample(N, torch.Generator().manual_seed(seed)),
            enumerable_graph_channel(4).mutual_information(),
        ),
    }


def estimates(draw, seeds, **settings) -> dict:
    "Value, standard error and held-out value of each seed, and their mean."
    found = []
    for seed in seeds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(critic_estimate(*draw(seed), seed=seed, **settings))
    return mean_std([e.value for e in found]) | {
        "standard_errors": [e.standard_error for e in found],
        "held_out": [e.held_out for e in found],
        "ranks": list(found[0].ranks),
    }


def bounds(N=6000, seeds=range(3)) -> dict:
    "Every bound on every exact task, with small critics."
    rows = {}
    for name, (draw, truth) in exact_tasks(N).items():
        rows[name] = {"exact": truth} | {bound: estimates(draw, seeds, bound=bound, **SMALL) for bound in BOUNDS}
        print(name, f"{truth:.3f}", {bound: round(rows[name][bound]["mean"], 3) for bound in BOUNDS}, flush=True)
    return {"tasks": rows, "pairs": N, "settings": SMALL}


def stretched(stretch, d, information, N, seed):
    return tuple(stretch(side.double()) for side in gaussian(d, information, N, seed))


def heavy_tails(N=6000, seeds=range(3)) -> dict:
    "A Gaussian whose columns are stretched, which leaves mutual information as it is: by default, and without ranks."
    student = lambda degrees: lambda side: torch.as_tensor(t.ppf(norm.cdf(side.numpy()), degrees))
    tasks = {
        "unstretched": (lambda v: v, 1, 0.511),
        "exp(2x)": (lambda v: (2 * v).exp(), 1, 0.511),
        "exp(3x)": (lambda v: (3 * v).exp(), 1, 0.511),
        "Student t, 2 degrees": (student(2), 1, 0.511),
        "Cauchy": (student(1), 1, 0.511),
        "log-normal, d = 5": (torch.exp, 5, 1.0),
    }
    rows = {}
    for name, (stretch, d, truth) in tasks.items():
        draw = lambda seed: stretched(stretch, d, truth, N, seed)
        rows[name] = {"exact": truth} | {
            key: estimates(draw, seeds, ranks=ranks, **SMALL)
            for key, ranks in (("by default", None), ("without ranks", False))
        }
        print(
            name, truth, {key: round(rows[name][key]["mean"], 3) for key in ("by default", "without ranks")}, flush=True
        )
    return {"tasks": rows, "pairs": N, "settings": SMALL}


def unrelated(N=500, d=20, seeds=range(5)) -> dict:
    "Few pairs of independent vectors, where every critic memorizes: the value, and what the trained critic says on held-out pairs."
    return estimates(lambda seed: gaussian(d, 0.0, N, seed), seeds)


def inner_step(N=128, width=32) -> dict:
    "Milliseconds of an inner step, hand-written against autograd with torch's Adam, both on 8 shifts."
    critic, other = (StatisticsNetwork(width, width, width, torch.Generator().manual_seed(0)) for _ in range(2))
    bank = MemoryBank.of(torch.randn(1113, width), torch.randn(1113, width))
    loop = InnerLoop(critic, 50, batch_size=N, generator=torch.Generator().manual_seed(0))
    optimizer = torch.optim.Adam(other.parameters(), 0.01, maximize=True)

    def autograd():
        for pairs in bank.minibatches(50, N, loop.generator):
            a, b = other.first_layer(pairs[:, :width], pairs[:, width:])
            w = other.weights()[3]
            negative = torch.stack([(a + b.roll(-k, 0)).relu() @ w for k in range(1, 9)])
            optimizer.zero_grad()
            (((a + b).relu() @ w).mean() - negative.flatten().logsumexp(0) + math.log(8 * N)).backward()
            optimizer.step()

    loops = milliseconds({"hand": lambda: loop.run(bank), "autograd": autograd}, rounds=20)
    return {name: value / 50 for name, value in loops.items()} | {
        "ratio": loops["hand"] / loops["autograd"],
        "bar": 0.4,
        "met": loops["hand"] / loops["autograd"] <= 0.4,
    }


def all_pairs(N=2048, width=32) -> dict:
    "All pairs at N=2,048: streamed against the concatenated form, time and extra memory."
    a, b, w = torch.randn(N, width), torch.randn(N, width), torch.randn(width)
    layers = torch.nn.Sequential(torch.nn.Linear(2 * width, width), torch.nn.ReLU(), torch.nn.Linear(width, 1))
    off = ~torch.eye(N, dtype=torch.bool)

    def concatenated():
        pairs = torch.cat([a[:, None].expand(N, N, width), b[None].expand(N, N, width)], 2)
        scores = layers(pairs).squeeze(2)
        (scores.diagonal().mean() - scores[off].logsumexp(0)).backward()

    times = milliseconds({"streamed": lambda: all_gradients(a, b, w), "concatenated": concatenated}, rounds=3, warm=1)
    memory = in_subprocess(f"""
import json, resource, torch
from gib_nb.information.critic import all_gradients
a, b, w = torch.randn({N}, {width}), torch.randn({N}, {width}), torch.randn({width})
all_gradients(a[:64], b[:64], w)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
all_gradients(a, b, w)
print(json.dumps({{"MiB": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024}}))""")
    faster = times["concatenated"] / times["streamed"]
    return {
        "milliseconds": times,
        "times_faster": faster,
        "extra_MiB": memory["MiB"],
        "bars": [5, 32],
        "met": faster >= 5 and memory["MiB"] < 32,
    }


def gradient_fidelity(
    width=32,
    information=2.0,
    moving=False,
    bank_size=1113,
    batch=128,
    outer_steps=40,
    steps=50,
    single=False,
    negatives="shift:8",
    seed=0,
) -> float:
    "Share of the true dI/dα that the outer step sees on s = g + α·ε, averaged over the second half of the outer steps."
    generator = torch.Generator().manual_seed(seed)
    noise = lambda n: torch.randn(n, width, generator=generator)
    alpha = torch.tensor(1 / math.sqrt(math.exp(2 * information / width) - 1), requires_grad=True)
    optimizer = torch.optim.Adam([alpha], 0.02 if moving else 0.0)
    g, epsilon = noise(bank_size), noise(bank_size)
    bank = MemoryBank.of(g, g + alpha.detach() * epsilon)
    loop = InnerLoop(
        StatisticsNetwork(width, width, width, generator),
        steps,
        negatives=negatives,
        batch_size=batch,
        generator=generator,
    )
    shares = []
    for _ in range(outer_steps):
        rows = torch.randperm(bank_size, generator=generator)[:batch]
        s = g[rows] + alpha * epsilon[rows]
        bank.write(rows, g[rows], s.detach())
        source = MemoryBank.of(g[rows], s.detach()) if single else bank
        loop.run(source)
        (gradient,) = torch.autograd.grad(
            frozen_dv(loop.critic, standardize(g[rows]), standardize(s), negatives), alpha
        )
        now = float(alpha.detach())
        shares.append(float(gradient) / (-width / (now * (1 + now**2))))
        alpha.grad = gradient
        optimizer.step()
    return float(np.mean(shares[outer_steps // 2 :]))


def fidelity() -> dict:
    "Gradient fidelity in five seeds: the bank at rest, the bank while α moves and the bank ages, and the published single batch."
    rows = {}
    for width in (16, 32):
        for name, settings in (
            ("bank", {}),
            ("bank, moving", {"moving": True}),
            ("single batch", {"single": True}),
            ("single batch, perm", {"single": True, "negatives": "permute"}),
        ):
            rows[f"{name}, d={width}"] = mean_std([gradient_fidelity(width, seed=seed, **settings) for seed in SEEDS])
            print(name, width, rows[f"{name}, d={width}"]["values"], flush=True)
    kept = [row for name, row in rows.items() if name.startswith("bank")]
    return rows | {"bar": 0.4, "met": all(min(row["values"]) > 0 and row["mean"] >= 0.4 for row in kept)}


def inside_training(seeds=range(3)) -> dict:
    "GIB trained on all 1,024 graphs of 5 nodes, label = has a triangle: L_MI as training saw it against the exact I of the embeddings."
    from torch_geometric.data import Data

    from gib_nb.train.trainer import GIBTrainer

    adjacency = labeled_graphs(5)
    triangle = (adjacency @ adjacency @ adjacency).diagonal(dim1=1, dim2=2).sum(1) > 0
    graphs = [
        Data(edge_index=A.nonzero().T.contiguous(), num_nodes=5, y=y.long().reshape(1))
        for A, y in zip(adjacency, triangle)
    ]
    entropy_of = lambda labels: float(
        torch.special.entr(labels.unique(return_counts=True)[1].double() / len(labels)).sum()
    )
    rows = {"H of the isomorphism class of G": entropy_of(isomorphism_classes(adjacency))}
    for memory in ("bank", "batch"):
        seen, exact, held = [], [], []
        for seed in seeds:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                trainer = GIBTrainer(
                    memory_bank=memory == "bank",
                    epochs=40,
                    pretrain_epochs=10,
                    rampup_epochs=10,
                    hidden_channels=32,
                    lr=3e-3,
                    max_restarts=0,
                    seed=seed,
                )
                trainer.fit(graphs[::2], valid=graphs[1::2], progress=False)
                chosen = trainer.history["best_epoch"]
                seen.append(
                    np.mean([s["mutual_information"] for s in trainer.history["steps"] if s["epoch"] == chosen])
                )
                held.append(trainer.mutual_information(graphs).value)
            s = trainer.apply(graphs, whole=False).subgraph_embedding
            exact.append(entropy_of((s * 1e3).round().unique(dim=0, return_inverse=True)[1]))
        rows[memory] = {
            "L_MI in training": mean_std(seen),
            "held-out": mean_std(held),
            "exact I(g;s) = H(s)": mean_std(exact),
        }
        print(memory, rows[memory], flush=True)
    return rows


def run() -> dict:
    torch.set_num_threads(1)
    return {
        "inner_step": inner_step(),
        "all_pairs": all_pairs(),
        "fidelity": fidelity(),
        "held_out": held_out(),
        "bounds": bounds(),
        "heavy_tails": heavy_tails(),
        "unrelated": unrelated(),
        "inside_training": inside_training(),
    }
