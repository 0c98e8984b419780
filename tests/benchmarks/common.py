"""What every benchmark shares: where results go, who ran them, and fair timing."""

import json
import pathlib
import platform
import statistics
import subprocess
import sys
import time

import torch

RESULTS = pathlib.Path(__file__).with_name("results")


def versions() -> dict:
    import rdkit
    import torch_geometric

    import gib_nb

    return {
        "gib_nb": gib_nb.__version__,
        "torch": torch.__version__,
        "torch_geometric": torch_geometric.__version__,
        "rdkit": rdkit.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
    }


def write(name: str, result: dict):
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result | {"versions": versions()}, indent=1, default=float) + "\n")


def mean_std(values) -> dict:
    "Mean and standard deviation of a sample (None for one value), and the values."
    values = [float(value) for value in values]
    return {
        "mean": statistics.fmean(values),
        "std": statistics.stdev(values) if len(values) > 1 else None,
        "values": values,
    }


def milliseconds(functions: dict, rounds: int = 30, warm: int = 3) -> dict:
    "Median milliseconds of each function, interleaved so that a busy moment hits all of them alike."
    times = {name: [] for name in functions}
    for turn in range(warm + rounds):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if turn >= warm:
                times[name].append(1000 * (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in times.items()}


def in_subprocess(code: str) -> dict:
    "Run code in a fresh interpreter; its last line of output is JSON."
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@torch.no_grad()
def forward(model, batches):
    "The forward pass of a graph classifier on batches, which is what explaining them is compared with."
    for batch in batches:
        model(batch.x, batch.edge_index, batch.batch, batch.num_graphs)


@torch.no_grad()
def explain(trainer, batches):
    "Masks and both predictions of batches, as tensors."
    from gib_nb.nn.backbones import edges_of, evaluation_mode

    with evaluation_mode(trainer.model):
        for batch in batches:
            trainer.model.explain(batch.x, batch.edge_index, batch.batch, batch.num_graphs, **edges_of(batch))
