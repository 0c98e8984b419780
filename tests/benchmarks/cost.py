"""What GIB costs: an epoch on PROTEINS against the same GIN, memory against size, and the import."""
import resource
import statistics
import subprocess
import sys

import torch
from torch import nn

from gib_nb.backbones import readout
from gib_nb.data import load_dataset
from gib_nb.trainer import GIBConfig, InputFormat, Run, build_model

from .common import in_subprocess, milliseconds


class PlainGIN(nn.Module):
    "The backbone and the classifier of a GIB, with a mean readout between them."
    def __init__(self, config, form):
        super().__init__()
        gib = build_model(config, form)
        self.backbone, self.classifier = gib.backbone, gib.classifier

    def forward(self, batch):
        return self.classifier(readout(self.backbone(batch.x, batch.edge_index), batch.batch, batch.num_graphs))


def epoch(rounds=15) -> dict:
    "One training epoch on PROTEINS, batch 128, GIN 2×32: GIB with T=50 against mean readout, interleaved, one thread."
    config = GIBConfig(backbone="gin", hidden_channels=32, num_layers=2, inner_steps=50, warmup=0, ramp=0, batch_size=128)
    data = load_dataset("PROTEINS")
    form = InputFormat.of(data.graphs)
    graphs = form.prepare(data.graphs)
    run = Run(config, form, graphs, graphs[:10])
    model = PlainGIN(config, form)
    optimiser = torch.optim.Adam(model.parameters(), config.learning_rate, fused=True)
    for rows, batch in run.batches():
        run.outer_step(rows, batch, 0.)

    def gib(factor=1.):
        for rows, batch in run.batches():
            run.outer_step(rows, batch, factor)

    def plain():
        for _, batch in run.batches():
            loss = form.loss(model(batch), batch.y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    times = milliseconds({"plain": plain, "GIB T=50": gib, "GIB without L_MI": lambda: gib(0.)}, rounds)
    ratio = times["GIB T=50"] / times["plain"]
    return {"milliseconds": times, "ratio": ratio, "ratio_without_L_MI": times["GIB without L_MI"] / times["plain"], "bar": 2.,
            "met": ratio <= 2.}


def memory() -> dict:
    "Peak memory of one forward and backward pass of GIB over one batch, and of the batch doubled."
    def peak(nodes, edges):
        return in_subprocess(f"""
import json, resource, time, torch
from gib_nb.model import GIB
torch.manual_seed(0)
model = GIB(16, 2, "gin", 64, 2)
graph = torch.arange({nodes}) % 1000
order = graph.argsort(stable=True)
graph = graph[order]
ends = torch.randint({nodes} // 1000, (2, {edges} // 2)) + torch.randint(1000, ({edges} // 2,)) * ({nodes} // 1000)
edge_index = torch.cat([ends, ends.flip(0)], 1)
x = torch.randn({nodes}, 16)
model(x[:100], edge_index[:, :0], graph[:100], 1000).prediction.sum().backward()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
output = model(x, edge_index, graph, 1000)
(output.prediction.sum() + output.connectivity_loss).backward()
print(json.dumps({{"MiB": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, "seconds": time.perf_counter() - start}}))""")
    once, twice, fourfold = (peak(k * 40_000, k * 100_000) for k in (1, 2, 4))
    growth = (fourfold["MiB"] - twice["MiB"]) / (twice["MiB"] - once["MiB"])  # what linear memory doubles, whatever was there before
    return {"40k nodes, 100k edges": once, "doubled": twice, "doubled again": fourfold, "growth of the increment": growth,
            "met": once["MiB"] < 1024 and growth < 2.3}


def imports(rounds=7) -> dict:
    "CPU seconds of `import gib_nb` in a fresh interpreter, less those of an empty one, and what it loads."
    def seconds(code):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    cost = statistics.median(seconds("import gib_nb") for _ in range(rounds)) - statistics.median(seconds("") for _ in range(rounds))
    heavy = in_subprocess("import gib_nb, sys, json; print(json.dumps([m for m in ('torch', 'rdkit', 'plotly', 'sklearn') if m in sys.modules]))")
    return {"cpu_seconds": cost, "loads": heavy, "met": cost < .3 and not heavy}


def run() -> dict:
    torch.set_num_threads(1)
    return {"epoch": epoch(), "memory": memory(), "import": imports()}
