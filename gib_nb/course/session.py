"""The grader's side of a handed-in notebook: start the confined process, run cells in it, and call its functions."""

import contextlib
import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import time
import types
from dataclasses import dataclass

import psutil

from gib_nb.course.confine import PACKAGES
from gib_nb.course.wire import LINE, decode, encode, from_line, to_line
from gib_nb.exercises.attempt import Endless

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
START = 60.0  # seconds on the processor that the process has to start
WAIT = 5  # times as long may an answer take on a busy computer, or without using the processor


@dataclass(frozen=True)
class Limits:
    "What a handed-in notebook may use."

    seconds: float = 10.0  # on the processor, for one cell, or one call of a function
    total: float = 120.0  # on the clock, for the whole notebook
    memory: int = 2**31  # bytes

    def __post_init__(self):
        if not (0 < self.seconds <= self.total and self.memory >= 2**28):
            raise ValueError(
                f"expected 0 < seconds ≤ total and at least 256 MB of memory "
                f"(got seconds {self.seconds:g}, total {self.total:g}, memory {self.memory / 2**20:.0f} MB)"
            )


class TooMuch(Endless):
    "An answer took more memory than it may."


class Gone(Exception):
    "The process of an answer has ended, and with it the answer; the message says why."


def student_error(found: dict) -> Exception:
    "The error that an answer raised, as one of the same name that can be raised here; `answer_line` is its line."
    name = str(found.get("type"))[:80]
    kind = RecursionError if name == "RecursionError" else type(name, (Exception,), {})
    error = kind(str(found.get("message"))[:500])
    line = found.get("line")
    error.answer_line = line if isinstance(line, int) else None
    return error


def import_paths() -> list[str]:
    "Where the process finds this package and those that it needs, also if they are installed for one user only."
    return [str(PACKAGE.parent), *(path for path in sys.path if pathlib.Path(path).name in PACKAGES)]


class Session:
    "A confined process with the names that a notebook's cells have defined. Use it as a context."

    def __init__(self, limits: Limits):
        self.limits, self.end, self.confined_by = limits, time.monotonic() + limits.total, {}
        self.process, self.broken = None, None  # the error after which the process has to be started again
        self.folder = tempfile.TemporaryDirectory(prefix="answer-", ignore_cleanup_errors=True)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error):
        self.stop()
        self.folder.cleanup()

    def start(self):
        "Start the process; RuntimeError if it does not confine itself."
        self.broken = None
        code = f"import sys; sys.path[:0] = {import_paths()!r}; import gib_nb.course.student as s; s.serve()"
        kept = {name: os.environ[name] for name in ("SYSTEMROOT", "LD_LIBRARY_PATH") if name in os.environ}
        home = dict.fromkeys(("HOME", "TMPDIR", "TEMP", "TMP", "MPLCONFIGDIR", "USERPROFILE"), self.folder.name)
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        log = tempfile.TemporaryFile()  # not in the folder of the answer, which might put a link in its place
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-B", "-X", "utf8", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=self.folder.name,
            env=kept | home | threads | {"PATH": os.defpath, "LANG": "C.UTF-8"},
            start_new_session=True,
        )
        self.inbox, self.outbox = queue.Queue(maxsize=4), queue.Queue()  # what is sent without being asked has to wait
        self.threads = [
            threading.Thread(target=work, args=(self.process, self.inbox, self.outbox), daemon=True)
            for work in (self._listen, self._send)
        ]
        for thread in self.threads:
            thread.start()
        left = max(1, round(self.end - time.monotonic()) + 1)
        try:
            self.outbox.put({"seconds": left, "memory": self.limits.memory})
            self.confined_by = self._wait(START, time.monotonic(), 0.0)["limits"]
        except (Gone, Endless, KeyError) as error:
            if self.time_is_up:  # used up by what ran before
                self.broken = error
                return
            log.seek(0)
            said = log.read().decode(errors="replace")[-500:]
            raise RuntimeError(f"the process for answers did not start: {error} {said}") from None

    @staticmethod
    def _listen(process, inbox, outbox):
        with contextlib.suppress(ValueError, OSError):
            while line := process.stdout.readline(LINE + 1):
                inbox.put(line)
        inbox.put(None)

    @staticmethod
    def _send(process, inbox, outbox):
        with contextlib.suppress(ValueError, OSError):  # the process has ended
            for message in iter(outbox.get, None):
                process.stdin.write(to_line(message))
                process.stdin.flush()

    @property
    def time_is_up(self) -> bool:
        "Whether the time for the whole notebook is used up."
        return time.monotonic() >= self.end

    def stop(self):
        "End the process and everything that it started."
        if self.process is None:
            return
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self.process.pid).children(recursive=True):
                child.kill()
        self.process.kill()
        self.process.wait()
        self.outbox.put(None)
        while any(thread.is_alive() for thread in self.threads):  # one may wait for a place in the queue
            with contextlib.suppress(queue.Empty):
                self.inbox.get(timeout=0.01)
        self.process.stdout.close()
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process = None

    def _wait(self, seconds: float, start: float, used: float) -> dict:
        "The next message; `seconds` count from `used` on the processor, and several times from `start` on the clock."
        while True:
            try:
                line = self.inbox.get(timeout=0.1)
            except queue.Empty:
                self._check_memory()
                if self.processor_time() - used > seconds or time.monotonic() - start > WAIT * seconds:
                    raise Endless(f"no answer after {seconds:g} s.") from None
                if self.time_is_up:
                    raise Endless(f"the {self.limits.total:g} s for the whole notebook are used up.") from None
                continue
            if line is None:
                raise Gone(self._why_gone())
            return from_line(line)

    def processor_time(self) -> float:
        "Seconds that the process has used on the processor."
        try:
            return sum(psutil.Process(self.process.pid).cpu_times()[:2])
        except psutil.Error:
            return 0.0

    def _check_memory(self):
        with contextlib.suppress(psutil.Error):
            if psutil.Process(self.process.pid).memory_info().rss > self.limits.memory:
                raise TooMuch(f"{self.limits.memory / 2**30:.2g} GB of memory taken.")

    def _why_gone(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self.process.wait(timeout=1)
            return f"The process ended (exit code {code})."
        return "The process no longer answers."

    def ask(self, message: dict, seconds: float, functions=()) -> dict:
        "What the process answers; Endless or Gone if it does not. Its calls of the grader's functions are fulfilled."
        try:
            found = self._ask_and_fulfill(message, seconds, functions)
            if not isinstance(found.get("error", {}), dict) or not isinstance(found.get("arguments", []), list):
                raise ValueError("a reply of another form")
            if found.get("error", {}).get("type") == "MemoryError":
                raise TooMuch(f"more than {self.limits.memory / 2**30:.2g} GB of memory taken.")
        except (ValueError, TypeError, KeyError):
            self.broken = Gone("It sent something else than values.")
        except (Endless, Gone) as error:
            self.broken = error
        if self.broken:
            raise self.broken
        return found

    def _ask_and_fulfill(self, message: dict, seconds: float, functions) -> dict:
        if self.time_is_up:
            raise Endless(f"the {self.limits.total:g} s for the whole notebook are used up.")
        start, used = time.monotonic(), self.processor_time()
        self.outbox.put(message)
        found = self._wait(seconds, start, used)
        while "function" in found:
            try:
                value = functions[found["function"]](*map(decode, found["arguments"]))
                self.outbox.put({"value": encode(value)})
            except Exception as error:  # of the answer's making: wrong arguments, or something that is no value
                self.outbox.put({"error": str(error)[:500]})
            if time.monotonic() - start > WAIT * seconds:
                raise Endless(f"no answer after {seconds:g} s.")
            found = self._wait(seconds, start, used)
        return found

    def run_cell(self, source: str) -> dict | None:  # {"type", "message", "line"}
        "Run a cell, and return the error that it raised."
        return self.ask({"cell": source}, self.limits.seconds).get("error")

    def look(self, name: str):
        "What a name stands for: a `RemoteFunction`, a value, or KeyError."
        found = self.ask({"look": name}, self.limits.seconds)
        match found.get("kind"):
            case "function":
                return RemoteFunction(self, name, found["code"] if isinstance(found.get("code"), int) else 999)
            case "value":
                return self.received(found.get("value"))
        raise KeyError(name)

    def received(self, value):
        "The value that the process sent; Gone if it is none."
        try:
            return decode(value)
        except (ValueError, TypeError, OverflowError, RecursionError):
            self.broken = Gone("It sent something else than values.")
            raise self.broken from None


class RemoteFunction:
    "A function of a handed-in notebook that can be called here; it runs in the process of the notebook."

    def __init__(self, session: Session, name: str, code: int):
        self.session, self.__name__ = session, name
        self.__code__ = types.SimpleNamespace(co_code=bytes(min(max(code, 0), 999)), co_firstlineno=1)

    def __repr__(self):
        return f"a function {self.__name__}"

    def __call__(self, *arguments):
        functions = []
        given = [encode(each, functions) for each in arguments]
        found = self.session.ask({"call": self.__name__, "arguments": given}, self.session.limits.seconds, functions)
        if "error" in found:
            raise student_error(found["error"])
        if not functions:
            self._copy_changes(arguments, found.get("arguments", []))
        return self.session.received(found.get("value"))

    def _copy_changes(self, arguments, after):
        "Change the arguments here as the function has changed them there."
        for mine, changed in zip(arguments, after):
            if isinstance(mine, list) or getattr(mine, "shape", ()):
                with contextlib.suppress(ValueError, TypeError):  # another shape
                    mine[:] = self.session.received(changed)


def cells_of(path: pathlib.Path, most: int = 20_000_000) -> list[str]:
    "The sources of the code cells of a notebook; ValueError if it is none."
    if path.stat().st_size > most:
        raise ValueError(f"expected a notebook of at most {most // 10**6} MB (got {path.stat().st_size // 10**6} MB)")
    try:
        cells = json.loads(path.read_bytes())["cells"]
        code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
        return [source if isinstance(source, str) else "".join(source) for source in code]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError("expected a notebook (got a file of another kind, or an incomplete one)") from None
