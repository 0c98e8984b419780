"""One thread against all of torch's for the training steps of small and large graphs, in turns, and what the trainer chooses.

Wall time is what a user waits for; CPU time is what the machine spends, some of it in threads that wait for each other.
"""

import os
import statistics
import time

import torch

from gib_nb.data.datasets import load_dataset
from gib_nb.data.spec import DataSpec
from gib_nb.train.config import configure
from gib_nb.train.phases import TrainState
from gib_nb.utils.reproducible import num_threads, threads_for

DATASETS = ("MUTAG", "PROTEINS", "DD")


def steps(run: TrainState, batches: list, rounds: int = 1):
    for _ in range(rounds):
        for rows, batch in batches:
            run.step(run.losses(rows, batch)["loss"])


def measured(run: TrainState, batches: list, count: int) -> tuple[float, float]:
    "Wall and CPU seconds of a pass over some batches."
    with num_threads(count):
        steps(run, batches[:1])
        wall, cpu = time.perf_counter(), time.process_time()
        steps(run, batches)
        return time.perf_counter() - wall, time.process_time() - cpu


def compared(name: str, rounds: int, batches: int = 4) -> dict:
    data, config = load_dataset(name), configure(pretrain_epochs=0, rampup_epochs=0)
    graphs = DataSpec.of(data.graphs).prepare(data.graphs[: batches * config.optim.batch_size], labels=True)
    run = TrainState(config, graphs, graphs[:2])
    rows = torch.arange(len(graphs)).split(config.optim.batch_size)
    made = [(part, graphs.batch(part.tolist())) for part in rows if len(part) > 1]
    everything = max(2, os.cpu_count() or 2)
    times = [(measured(run, made, 1), measured(run, made, everything)) for _ in range(rounds)]
    (one, one_cpu), (more, more_cpu) = ([statistics.median(values) for values in zip(*side)] for side in zip(*times))
    nodes = sum(graph.num_nodes for graph in graphs) / len(graphs) * min(config.optim.batch_size, len(graphs))
    return {
        "nodes_in_a_batch": round(nodes),
        "entries": round(nodes * config.encoder.hidden_channels),
        "chosen": threads_for(nodes, config.encoder.hidden_channels) or "all",
        "threads": everything,
        "seconds_with_one": one,
        "seconds_with_all": more,
        "wall_one_over_all": one / more,
        "cpu_one_over_all": one_cpu / more_cpu,
    }


def run(rounds: int = 7) -> dict:
    return {name: compared(name, rounds) for name in DATASETS}
