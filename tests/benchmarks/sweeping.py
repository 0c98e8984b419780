"""A sweep of 32 trainings in two processes against one: the wall time of each, in turns, with the processes already started."""

import statistics
import time
import warnings

from gib_nb.experiments.sweep import grid, run_trials, single_thread

CELLS = grid(beta=[0.0, 0.03, 0.1, 0.3], seed=range(8), epochs=30, pretrain_epochs=5, rampup_epochs=5, max_restarts=0)


def short_cell(data, **settings) -> dict:
    "A training and its score."
    from gib_nb.train.trainer import GIBTrainer

    with single_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {"score": GIBTrainer(**settings).fit(data.train, valid=data.valid, progress=False).score(data.test)}


def seconds(jobs: int, data) -> float:
    start = time.perf_counter()
    run_trials(short_cell, CELLS, jobs=jobs, progress=False, data=data)
    return time.perf_counter() - start


def run(rounds: int = 5) -> dict:
    from gib_nb.data.synthetic import motif_dataset

    data = motif_dataset(200)
    run_trials(short_cell, CELLS[:4], jobs=2, progress=False, data=data)
    times = [(seconds(1, data), seconds(2, data)) for _ in range(rounds)]
    ratio = statistics.median(one / two for one, two in times)
    return {
        "cells": len(CELLS),
        "seconds_in_one_and_two_processes": times,
        "speedup": ratio,
        "bar": 1.8,
        "met": ratio >= 1.8,
    }
