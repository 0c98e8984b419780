"""Work that may not end: it runs on a thread of its own, is stopped after some time or memory, and prints little.

Whoever waits raises an exception *in that thread* once a limit is reached. This works from any thread and on every operating system. It cannot interrupt a single
call into C, such as `time.sleep(1000)`; such a thread is left behind, and the message says so.
"""

import builtins
import contextlib
import contextvars
import ctypes
import sys
import threading
import time
from collections.abc import Callable

import psutil


class TimeUp(BaseException):
    "Raised inside a function that took too long; no `except Exception` of its author stops it."


class Attempt(threading.Thread):
    "Some work on a thread that can be told to stop: afterwards `value` holds its result or `error` what it raised."

    def __init__(self, work: Callable):
        super().__init__(name="gib-attempt", daemon=True)
        self.work, self.value, self.error = work, None, None
        self.context = contextvars.copy_context()  # so that Jupyter knows to which cell its output belongs

    def run(self):
        with contextlib.suppress(TimeUp):  # one that arrives after the end
            try:
                self.value = self.context.run(self.work)
            except BaseException as error:
                self.error = error

    def stop(self, patience: float = 1.0) -> bool:
        "Raise `TimeUp` in the thread until it ends, again where its author caught it; returns whether it ended."
        end = time.monotonic() + patience
        while self.is_alive() and time.monotonic() < end:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), ctypes.py_object(TimeUp))
            self.join(0.02)
        return not self.is_alive()


class ShortOutput:
    "Standard output that lets an `Attempt` write its first characters only; other threads write as always."

    def __init__(self, stream, most: int = 2000):
        self.stream, self.left = stream, most

    def write(self, text):
        if not isinstance(threading.current_thread(), Attempt):
            return self.stream.write(text)
        if self.left > 0:
            self.stream.write(
                text[: self.left] + ("" if len(text) < self.left else "\n… what else it prints is not shown.\n")
            )
        self.left -= len(text)
        return len(text)

    def __getattr__(self, name):
        return getattr(self.stream, name)


@contextlib.contextmanager
def undisturbed():
    "Meanwhile an `Attempt` prints little and cannot wait for input."
    usual = builtins.input

    def no_input(*prompt):
        if isinstance(threading.current_thread(), Attempt):
            raise EOFError("nobody types while it is checked; what it needs is in its arguments, so leave input() out")
        return usual(*prompt)

    builtins.input = no_input
    try:
        with contextlib.redirect_stdout(ShortOutput(sys.stdout)):
            yield
    finally:
        builtins.input = usual


MEMORY = 2**30  # bytes that an answer may take
_ONE_AT_A_TIME = threading.Lock()


class Endless(TimeoutError):
    "Some work did not end within its limits; the message says within which, and whether it goes on."


def within(
    seconds: float,  # to wait
    work: Callable,  # without arguments
):
    "The result of some work, or what it raised; `Endless` when it takes too long or too much memory."
    if isinstance(threading.current_thread(), Attempt):  # an answer that checks itself
        return work()
    attempt, memory = Attempt(work), psutil.Process().memory_info
    with _ONE_AT_A_TIME, undisturbed():
        most, end = memory().rss + MEMORY, time.monotonic() + seconds
        attempt.start()
        try:
            attempt.join(min(0.05, seconds))
            while attempt.is_alive() and time.monotonic() < end and memory().rss < most:
                attempt.join(0.05)
            late, large = attempt.is_alive(), memory().rss >= most
        finally:  # after an interrupt of the kernel too
            ended = attempt.stop()
    error, attempt.error = (
        attempt.error,
        None,
    )  # or the thread and the frames of its function keep each other, and all that they hold
    if late:
        reached = f"{MEMORY / 2**30:.2g} GB of memory taken" if large else f"no answer after {seconds:g} s"
        goes_on = "" if ended else " It cannot be stopped and goes on in the background; restart the kernel."
        raise Endless(f"{reached}.{goes_on}").with_traceback(error and error.__traceback__)
    if error is not None:
        raise error
    return attempt.value
