"""A sweep of 32 trainings in two processes against one: the wall time of each, in turns, with the processes already started."""
import statistics
import time
import warnings

from gib_nb.sweep import grid, one_thread, run_cells

CELLS = grid(beta=[0., .03, .1, .3], seed=range(8), epochs=30, warmup=5, ramp=5, restarts=0)


def short_cell(data, **settings) -> dict:
    "A training and its score."
    from gib_nb.trainer import GIBTrainer

    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {"score": GIBTrainer(**settings).fit(data.train, valid=data.valid, progress=False).score(data.test)}


def seconds(jobs: int, data) -> float:
    start = time.perf_counter()
    run_cells(short_cell, CELLS, jobs=jobs, progress=False, data=data)
    return time.perf_counter() - start


def run(rounds: int = 5) -> dict:
    from gib_nb.data import motif_dataset
    data = motif_dataset(200)
    run_cells(short_cell, CELLS[:4], jobs=2, progress=False, data=data)
    times = [(seconds(1, data), seconds(2, data)) for _ in range(rounds)]
    ratio = statistics.median(one / two for one, two in times)
    return {"cells": len(CELLS), "seconds_in_one_and_two_processes": times, "speedup": ratio, "bar": 1.8, "met": ratio >= 1.8}
