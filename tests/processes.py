"""Work in processes of their own, which can be killed.

They are copies of a server that has no threads. A copy of the process that runs the tests would have its locks, and not the threads that release them: it may wait for ever.
"""

import multiprocessing
import random
import time

import pytest

pytest.importorskip("resource", reason="needs an operating system that can fork")
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["tests.warm"])


def started(work, *arguments, **named):
    "A process that does some work, a function of a module, and ends."
    process = SERVER.Process(target=work, args=arguments, kwargs=named)
    process.start()
    return process


def ended(process, patience: float = 120) -> bool:
    "Wait; whether it ended by itself, and well."
    process.join(patience)
    if process.exitcode is None:
        process.kill()
    assert process.exitcode in (0, -9), f"the work failed by itself, or took {patience} s"
    return process.exitcode == 0


def kill_until_done(longest: float, dice: random.Random, work, *arguments, **named) -> int:
    "Start some work again and again, killing it after a random time, until it ends by itself; the number of kills."
    for kills in range(200):
        process = started(work, *arguments, **named)
        time.sleep(dice.uniform(0, longest))
        process.kill()
        if ended(process):
            return kills
        longest *= 1.05  # so that it comes to an end on a slow machine too
    raise AssertionError("the work does not come to an end")
