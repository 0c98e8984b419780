"""What explaining costs: a data set against the plain GIN's forward pass, more graphs, memory of a stream, and PyG's explainers in the same run."""

import time
import warnings

import numpy as np
import torch

from gib_nb.data.datasets import load_dataset
from gib_nb.data.synthetic import motif_dataset
from gib_nb.experiments.explainers import classifiers_first, explainers
from gib_nb.nn.backbones import GraphClassifier
from gib_nb.train.config import configure
from gib_nb.train.trainer import GIBTrainer

from .common import explain, forward, in_subprocess, milliseconds


def fitted(config, graphs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GIBTrainer(config).fit(graphs[:200], valid=graphs[200:260], progress=False)


def cost(graphs, rounds=9) -> dict:
    "1,500 graphs, GIN 2×64, one thread, interleaved: masks, components left out, and both predictions, from ready batches, from graphs, and graph by graph."
    gib = fitted(configure(epochs=3, pretrain_epochs=1, rampup_epochs=1, max_restarts=0), graphs)
    two_stage = fitted(classifiers_first(3, max_restarts=0), graphs)
    graphs = gib.spec.prepare(graphs, labels=False)
    plain = GraphClassifier(graphs[0].num_features, 2).eval()
    ready = list(graphs.batches(128))

    times = milliseconds(
        {
            "plain": lambda: forward(plain, ready),
            "plain, batches assembled": lambda: forward(plain, graphs.batches(128)),
            "GIB": lambda: explain(gib, ready),
            "GIB, batches assembled": lambda: gib.apply(graphs),
            "GIB, one explanation per graph": lambda: sum(1 for _ in gib.iter_explain(graphs)),
            "GIB, two-stage": lambda: explain(two_stage, ready),
        },
        rounds,
        2,
    )
    methods, few = explainers(plain, graphs[:10], epochs=1), graphs[:20]
    per_graph = {}
    for name, method in methods.items():
        start = time.perf_counter()
        for graph in few:
            method(graph)
        per_graph[name] = 1000 * (time.perf_counter() - start) / len(few)
    ratios = {
        name: value / times["plain, batches assembled" if "assembled" in name else "plain"]
        for name, value in times.items()
        if name.startswith("GIB")
    }
    return {
        "milliseconds": times,
        "ratios": ratios,
        "milliseconds_per_graph": {name: value / len(graphs) for name, value in times.items()} | per_graph,
        "bar": 1.3,
        "met": ratios["GIB"] <= 1.3,
    }


def growth(rounds=5) -> dict:
    "Time and peak memory of explaining a stream of 1 to 8 thousand graphs that are made on the way."
    trainer = fitted(configure(epochs=3, pretrain_epochs=1, rampup_epochs=1, max_restarts=0), motif_dataset(260).graphs)
    graphs = motif_dataset(8000).graphs
    times = milliseconds(
        {str(n): lambda n=n: sum(1 for _ in trainer.iter_explain(graphs[:n])) for n in (1000, 2000, 4000, 8000)},
        rounds,
        1,
    )
    peaks = {
        str(n): in_subprocess(f"""
import itertools, json, resource, warnings
from gib_nb.data.synthetic import motif_dataset
from gib_nb.train.trainer import GIBTrainer
warnings.simplefilter("ignore")
graphs = motif_dataset(260).graphs
trainer = GIBTrainer(epochs=3, pretrain_epochs=1, rampup_epochs=1, max_restarts=0).fit(graphs[:200], valid=graphs[200:], progress=False)
count = sum(1 for _ in trainer.iter_explain(itertools.islice(itertools.cycle(graphs), {n})))
print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))""")
        for n in (1000, 8000)
    }
    exponent, _ = np.polyfit(
        np.log([int(n) for n in times]), np.log(list(times.values())), 1
    )  # of the number of graphs; 1 is linear
    return {"milliseconds": times, "exponent": exponent, "peak_MiB": peaks}


def run() -> dict:
    torch.set_num_threads(1)
    return {
        "Mutagenicity": cost(load_dataset("Mutagenicity").graphs[:1500]),
        "motif": cost(motif_dataset(1500).graphs),
        "growth": growth(),
    }
