"""What GIB costs: an epoch against one of the same GIN on four data sets, the inner loop, memory against size, and the import."""

import cProfile
import math
import pstats
import resource
import statistics
import subprocess
import sys

import torch
from torch import nn

from gib_nb.data.datasets import load_dataset
from gib_nb.data.spec import DataSpec
from gib_nb.information.critic import InnerLoop, MemoryBank, StatisticsNetwork
from gib_nb.nn.backbones import readout
from gib_nb.train.config import configure
from gib_nb.train.phases import TrainState, build_model

from .common import in_subprocess, milliseconds


class PlainGIN(nn.Module):
    "The backbone and the classifier of a GIB, with a mean readout between them."

    def __init__(self, config, spec):
        super().__init__()
        gib = build_model(config, spec)
        self.backbone, self.classifier = gib.backbone, gib.classifier

    def forward(self, batch):
        return self.classifier(readout(self.backbone(batch.x, batch.edge_index), batch.batch, batch.num_graphs))


SIZES = {"MUTAG": (32, 40), "PROTEINS": (32, 15), "DD": (32, 3), "QED": (64, 5)}  # data set → width, rounds


def epoch(name: str) -> dict:
    "One training epoch, batch 128, GIN of two layers: GIB with T=50 against mean readout, its floor, interleaved, one thread; and where its time goes."
    width, rounds = SIZES[name]
    config = configure(
        encoder="gin",
        hidden_channels=width,
        num_layers=2,
        num_steps=50,
        pretrain_epochs=0,
        rampup_epochs=0,
        batch_size=128,
    )
    data = load_dataset(name)
    graphs = data.graphs[:5000]
    spec = DataSpec.of(graphs)
    graphs = spec.prepare(graphs)
    full, without = (TrainState(configure(config, pretrain_epochs=epochs), graphs, graphs[:10]) for epochs in (0, 1))
    model = PlainGIN(config, spec)
    optimizer = torch.optim.Adam(model.parameters(), config.optim.lr, fused=True)

    def gib(state):
        for rows, batch in state.batches():
            state.step(state.losses(rows, batch)["loss"])

    def plain():
        for _, batch in full.batches():
            loss = spec.loss(model(batch), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    times = milliseconds(
        {"plain": plain, "GIB T=50": lambda: gib(full), "GIB without L_MI": lambda: gib(without)}, rounds, 1
    )
    return {
        "graphs": len(graphs),
        "milliseconds": times,
        "ratio": times["GIB T=50"] / times["plain"],
        "ratio_without_L_MI": times["GIB without L_MI"] / times["plain"],
        "profile": shares(lambda: gib(full)),
    }


PARTS = {
    "batches": ("data/collate.py", "collate"),
    "backbone": ("basic_gnn.py", "forward"),
    "assignment, readouts, classifier and L_con": ("nn/gib.py", "forward"),
    "inner loop, T=50": ("information/critic.py", "run"),
    "gradients": ("~", "<method 'run_backward' of 'torch._C._EngineBase' objects>"),
}  # file and function


def shares(work) -> dict:
    "Share of the time of one call in each of its parts."
    profile = cProfile.Profile()
    profile.runcall(work)
    found = pstats.Stats(profile)
    total = {
        name: max(
            [
                entry[3]
                for (file, _, function), entry in found.stats.items()
                if file.endswith(place) and function == wanted
            ],
            default=0.0,
        )
        for name, (place, wanted) in PARTS.items()
    }
    total["assignment, readouts, classifier and L_con"] -= total["backbone"]
    result = {name: value / found.total_tt for name, value in total.items()}
    return result | {"the rest: optimizer, L_MI of the batch, records": 1 - sum(result.values())}


def inner_loop(rounds=30) -> dict:
    "T = 50 steps of the critic on a bank of 1,000 graphs, against its floor: the same matrix products alone, forward and backward, one thread."
    generator, width, hidden, pairs, shifts = torch.Generator().manual_seed(0), 32, 32, 128, 8
    bank = MemoryBank.of(torch.randn(1000, width, generator=generator), torch.randn(1000, width, generator=generator))
    loop = InnerLoop(
        StatisticsNetwork(width, width, hidden, generator),
        50,
        negatives=f"shift:{shifts}",
        batch_size=pairs,
        generator=generator,
    )
    x, y, W, g = (
        torch.randn(pairs, width),
        torch.randn(pairs + shifts, width),
        torch.randn(width, hidden),
        torch.randn(pairs + shifts, hidden),
    )

    def products():
        for _ in range(50):
            torch.mm(x, W), torch.mm(y, W), torch.mm(x.T, g[:pairs]), torch.mm(y.T, g)

    def hidden_units():
        for _ in range(50):
            for _ in range(shifts + 1):
                torch.relu(g[:pairs] + g[:pairs]) @ W[0]

    times = milliseconds(
        {
            "inner loop": lambda: loop.run(bank, record=False),
            "matrix products alone": products,
            "scores of all pairs, forward alone": hidden_units,
        },
        rounds,
    )
    return {
        "milliseconds": times,
        "ratio_to_products": times["inner loop"] / times["matrix products alone"],
        "ratio_to_products_and_scores": times["inner loop"]
        / (times["matrix products alone"] + times["scores of all pairs, forward alone"]),
    }


def memory() -> dict:
    "Peak memory of one forward and backward pass of GIB over one batch, at four sizes."

    def peak(nodes, edges):
        return in_subprocess(f"""
import json, time, torch
from gib_nb.nn.gib import GIB
torch.manual_seed(0)
model = GIB(16, 2, "gin", 64, 2)
graph = torch.arange({nodes}) % 1000
order = graph.argsort(stable=True)
graph = graph[order]
ends = torch.randint({nodes} // 1000, (2, {edges} // 2)) + torch.randint(1000, ({edges} // 2,)) * ({nodes} // 1000)
edge_index = torch.cat([ends, ends.flip(0)], 1)
x = torch.randn({nodes}, 16)
model(x[:100], edge_index[:, :0], graph[:100], 1000).prediction.sum().backward()
peak = lambda: int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]) / 1024
before = peak()
start = time.perf_counter()
output = model(x, edge_index, graph, 1000)
(output.prediction.sum() + output.connectivity_loss).backward()
print(json.dumps({{"MiB": peak() - before, "seconds": time.perf_counter() - start}}))""")

    sizes = (1, 2, 4, 8)
    found = {k: peak(k * 40_000, k * 100_000) for k in sizes}
    slope = statistics.linear_regression([math.log(k) for k in sizes], [math.log(found[k]["MiB"]) for k in sizes]).slope
    return {f"{40 * k}k nodes, {100 * k}k edges": found[k] for k in sizes} | {
        "slope of log memory against log size": slope,
        "met": found[1]["MiB"] < 1024 and slope < 1.15,
    }


def imports(rounds=7) -> dict:
    "CPU seconds of `import gib_nb` in a fresh interpreter, less those of an empty one, and what it loads."

    def seconds(code):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    cost = statistics.median(seconds("import gib_nb") for _ in range(rounds)) - statistics.median(
        seconds("") for _ in range(rounds)
    )
    heavy = in_subprocess(
        "import gib_nb, sys, json; print(json.dumps([m for m in ('torch', 'rdkit', 'plotly', 'sklearn') if m in sys.modules]))"
    )
    return {"cpu_seconds": cost, "loads": heavy, "met": cost < 0.3 and not heavy}


def run() -> dict:
    torch.set_num_threads(1)
    epochs = {name: epoch(name) for name in SIZES}
    return {
        "epoch": epochs,
        "bar": 2.0,
        "met": epochs["PROTEINS"]["ratio"] <= 2.0,
        "inner_loop": inner_loop(),
        "memory": memory(),
        "import": imports(),
    }
