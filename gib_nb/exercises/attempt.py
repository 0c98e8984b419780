"""Run code that may not end: in a thread of its own, with limits on time, memory, and output.

The waiting thread raises an exception *in that thread* once a limit is reached. This works from any thread and on every operating system. It cannot interrupt a single
call into C, such as `time.sleep(1000)`; such a thread is left running, and the message says so. Where there are no threads, as in a browser, the code runs in the
only one, and only its time is limited.
"""

import builtins
import contextlib
import contextvars
import ctypes
import sys
import threading
import time
from collections.abc import Callable

from ..utils.missing import has_threads


class TimeUp(BaseException):
    "Raised inside a function that takes too long; `except Exception` does not catch it."


class Attempt(threading.Thread):
    "A thread that can be stopped; afterwards `value` holds the result of its work, or `error` the exception that it raised."

    def __init__(self, work: Callable):
        super().__init__(name="gib-attempt", daemon=True)
        self.work, self.value, self.error = work, None, None
        self.context = contextvars.copy_context()  # so that Jupyter shows the output below the right cell

    def run(self):
        with contextlib.suppress(TimeUp):  # one that is raised after the end
            try:
                self.value = self.context.run(self.work)
            except BaseException as error:
                self.error = error

    def stop(self, patience: float = 1.0) -> bool:
        "Raise `TimeUp` in the thread until it ends, repeatedly in case it is caught; returns whether it ended."
        end = time.monotonic() + patience
        while self.is_alive() and time.monotonic() < end:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), ctypes.py_object(TimeUp))
            self.join(0.02)
        return not self.is_alive()


class ShortOutput:
    "Standard output to which an `Attempt` can write only a limited number of characters; other threads write as usual."

    def __init__(self, stream, most: int = 2000):
        self.stream, self.left = stream, most

    def write(self, text):
        if not isinstance(threading.current_thread(), Attempt):
            return self.stream.write(text)
        if self.left > 0:
            self.stream.write(
                text[: self.left] + ("" if len(text) < self.left else "\n… the rest of the output is not shown.\n")
            )
        self.left -= len(text)
        return len(text)

    def __getattr__(self, name):
        return getattr(self.stream, name)


@contextlib.contextmanager
def undisturbed():
    "A context in which an `Attempt` prints little and cannot wait for input."
    usual = builtins.input

    def no_input(*prompt):
        if isinstance(threading.current_thread(), Attempt):
            raise EOFError(
                "nobody can type while a function is checked; leave input() out and use the arguments instead"
            )
        return usual(*prompt)

    builtins.input = no_input
    try:
        with contextlib.redirect_stdout(ShortOutput(sys.stdout)):
            yield
    finally:
        builtins.input = usual


MEMORY = 2**30  # bytes that an answer may allocate
_ONE_AT_A_TIME = threading.Lock()


class Endless(TimeoutError):
    "The work did not end within its limits; the message names the limit, and says if the work goes on."


def within(
    seconds: float,  # to wait
    work: Callable,  # without arguments
):
    "The result of `work`, or the exception that it raised; `Endless` if it takes too long or too much memory."
    if isinstance(threading.current_thread(), Attempt):  # an answer that itself calls `check`
        return work()
    if not has_threads():
        return _within_this_thread(seconds, work)
    import psutil

    attempt, memory = Attempt(work), psutil.Process().memory_info
    with _ONE_AT_A_TIME, undisturbed():
        most, end = memory().rss + MEMORY, time.monotonic() + seconds
        attempt.start()
        try:
            attempt.join(min(0.05, seconds))
            while attempt.is_alive() and time.monotonic() < end and memory().rss < most:
                attempt.join(0.05)
            late, large = attempt.is_alive(), memory().rss >= most
        finally:  # also after an interrupt of the kernel
            ended = attempt.stop()
    error, attempt.error = (
        attempt.error,
        None,
    )  # otherwise the thread and the frames of its function keep each other and their contents alive
    if late:
        reached = f"{MEMORY / 2**30:.2g} GB of memory taken" if large else f"no answer after {seconds:g} s"
        goes_on = "" if ended else " It cannot be stopped and continues in the background; restart the kernel."
        raise Endless(f"{reached}.{goes_on}").with_traceback(error and error.__traceback__)
    if error is not None:
        raise error
    return attempt.value


def _within_this_thread(seconds, work):
    "`within` without a second thread: the first line of Python that begins too late raises `TimeUp`."
    end, usual = time.monotonic() + seconds, sys.gettrace()

    def watch(frame, event, argument):
        if time.monotonic() > end:
            raise TimeUp
        return watch

    sys.settrace(watch)
    try:
        return work()
    except TimeUp:
        raise Endless(f"no answer after {seconds:g} s.") from None
    finally:
        sys.settrace(usual)
