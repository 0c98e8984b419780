"""A sweep of 32 trainings in two processes against one: the wall time of each, in turns, with the processes already started."""
import statistics
import time

from gib_nb.data import motif_dataset
from gib_nb.sweep import grid, run_cells, train_cell

CELLS = grid(beta=[0., .03, .1, .3], seed=range(8), epochs=12, warmup=2, ramp=2, restarts=0)


def seconds(jobs: int, data) -> float:
    start = time.perf_counter()
    run_cells(train_cell, CELLS, jobs=jobs, progress=False, data=data)
    return time.perf_counter() - start


def run(rounds: int = 3) -> dict:
    data = motif_dataset(200)
    run_cells(train_cell, CELLS[:2], jobs=2, progress=False, data=data)
    times = [(seconds(1, data), seconds(2, data)) for _ in range(rounds)]
    ratio = statistics.median(one / two for one, two in times)
    return {"cells": len(CELLS), "seconds_in_one_and_two_processes": times, "speedup": ratio, "bar": 1.8, "met": ratio >= 1.8}
