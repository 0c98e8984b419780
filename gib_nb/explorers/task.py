"""Training in the background: a thread that tells how far it is, and can be stopped.

The work calls `report` with how far it is, a line of text, and a figure. The answer says whether Stop was pressed, so a training that asks after every batch ends
within one. Figures are drawn at most seven times in a second. An exception ends up in the view, and again in `join`, where a test finds it. Where there are no
threads, as in a browser, `start` returns at the end of the work.
"""

import threading
import time

from ..utils.missing import has_threads, missing


class BackgroundTask:
    "A function `work(report)` on a thread, one at a time; `on_change` hears of every change."

    def __init__(self, work, on_change=lambda run: None, pause: float = 0.15):
        self.work, self.on_change, self.pause = work, on_change, pause
        self.fraction, self.text, self.figure, self.error = 0.0, "", None, None
        self.running, self._thread = False, None  # a thread that has told of its end may still be there for a moment
        self._lock, self._stop, self._last, self._pending = threading.Lock(), threading.Event(), 0.0, None

    def start(self) -> bool:
        "Begin, unless it is under way; returns whether it began."
        with self._lock:
            if self.running:
                return False
            self._stop.clear()
            self.fraction, self.text, self.figure, self.error, self._last = 0.0, "preparing …", None, None, 0.0
            self._pending = None
            self.running = True
            if has_threads():
                self._thread = threading.Thread(target=self._run, name="gib-live", daemon=True)
                self._thread.start()
        if not has_threads():
            self._run()
        return True

    def stop(self):
        "Ask the work to end at its next report."
        self._stop.set()

    def report(self, fraction: float, text: str = "", figure=None) -> bool:
        "Called by the work; the answer is whether it should end. A figure may be a function, called only when it is time to draw."
        self.fraction, self.text = min(float(fraction), 1.0), text
        if time.monotonic() - self._last > self.pause and not self._stop.is_set():
            self._last = time.monotonic()
            self._take(figure)
            self.on_change(self)
        elif figure is not None:
            self._pending = figure
        return self._stop.is_set()

    def _take(self, figure):
        self._pending = None
        if figure is not None:
            self.figure = figure() if callable(figure) else figure

    def _run(self):
        try:
            self.work(self.report)
            self._take(self._pending)
            self.text = f"{'stopped' if self._stop.is_set() else 'done'}{': ' if self.text else ''}{self.text}"
        except Exception as error:
            lacking = isinstance(error, ModuleNotFoundError) and missing(error.name.partition(".")[0])
            self.error, self.text = error, lacking or f"{type(error).__name__}: {error}"
        finally:
            self.running = False
            self.on_change(self)

    def join(self, timeout: float = 300.0):
        "Wait for the end and raise what the work raised; TimeoutError when it goes on."
        thread = self._thread
        if thread is not None:
            thread.join(timeout)
            if thread.is_alive():
                raise TimeoutError(f"expected an end within {timeout} s (got a run that goes on: {self.text})")
        if self.error is not None:
            raise self.error
