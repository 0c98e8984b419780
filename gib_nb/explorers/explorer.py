"""The state of an explorer: values that Python can read and set, and a panel for each picture.

An explorer lists its controls and has one method `panel_NAME` for each panel, which reads the values and gives a plotly figure or a piece of HTML. Setting a
value checks it, then tells the view, if there is one. `view` turns such an object into widgets, `page` into one HTML file.
"""

import base64
import functools
import os
import pathlib
import threading

from ..train.migrate import settings_of_before
from ..utils.files import read_asset
from .control import Control
from .registry import CLASSES, QUESTIONS
from .task import BackgroundTask


@functools.cache
def shipped_result(name: str) -> dict:  # shared, not to be changed
    "A shipped result as it would be written today: settings of trainers have the names of today."
    found = read_asset(name)
    return found | {
        part: settings_of_before(found[part]) for part in ("config", "settings") if "restarts" in found.get(part, ())
    }


class Explorer:
    "Values that can be moved, and pictures that follow. Subclasses give `title`, `controls`, `layout`, and the panels."

    title = ""  # a few words
    hint = ""  # one sentence: what to look for
    introduced = True  # whether the question is shown
    counterexample = ""  # one sentence: what would be surprising
    controls = ()  # of `Control`
    layout = ()  # rows of panel names; for each NAME there is a method panel_NAME() -> plotly figure or HTML
    advanced = ()  # further rows, folded until they are opened
    on_site = ()  # names of the controls that move on a page of the site, the most important first; (): all. They are as many as the page has room for
    asset = None  # name of the shipped result that `data` reads
    train = None  # a method train(report) gives the view a button "Train live"; see `BackgroundTask`
    train_help = "Train with the values of the controls, here and now."

    def __init__(self, **values):
        self.__dict__.update(_view=None, _quiet=0, _lock=threading.RLock())
        self.live = BackgroundTask(self.train, self._live_changed) if self.train else None
        self.__dict__.update({control.name: control.default for control in self.controls})
        self.restore(values)

    @property
    def question(self) -> str:
        "What can be found out with it, one sentence; empty for an explorer that is not registered."
        return QUESTIONS.get(CLASSES.get(type(self).__name__), "") if self.introduced else ""

    @property
    def data(self) -> dict:
        "The shipped result, with the settings of today; shared, not to be changed."
        return shipped_result(self.asset)

    def control(self, name: str) -> Control:
        "The control of a name; AttributeError with the names there are."
        for control in self.controls:
            if control.name == name:
                return control
        raise AttributeError(f"expected one of {', '.join(control.name for control in self.controls)} (got {name!r})")

    def __setattr__(self, name, value):
        if any(control.name == name for control in self.controls):
            self.restore({name: value})
        else:
            super().__setattr__(name, value)

    @property
    def state(self) -> dict:
        "The values of all controls, plain and in order; `restore` takes them back."
        return {control.name: getattr(self, control.name) for control in self.controls}

    def restore(self, state: dict):
        "Set several values at once: all of them, or, on a ValueError, none."
        checked = {name: self.control(name).check(value) for name, value in state.items()}
        with self._lock:
            self.__dict__.update(checked)
            if self._quiet:
                return self
            self._quiet += 1  # what `changed` sets is part of the same move
            try:
                for name in checked:
                    self.changed(name)
            finally:
                self._quiet -= 1
            if self._view is not None and checked:
                self._view.refresh()
        return self

    def changed(self, name: str):
        "Called after a value was set, before the panels are drawn; may set others."

    def problem(self, name: str) -> str:
        "What is wrong with the text of a text control, in plain words, shown beside it; empty when nothing is."
        return ""

    def panels(self) -> dict:  # name -> plotly figure or HTML
        "All panels for the present values."
        return {name: self.panel(name) for row in (*self.layout, *self.advanced) for name in row}

    def panel(self, name: str):  # plotly figure or HTML
        "One panel for the present values."
        return getattr(self, f"panel_{name}")()

    def select(self, *names: str, exclude=()):
        "The same explorer with some of its panels, to draw attention to them, and without some of its controls; ValueError for others. What it says of itself beforehand is about all panels, and goes too."
        every = [name for row in (*self.layout, *self.advanced) for name in row]
        if not names or set(names) - set(every):
            raise ValueError(
                f"expected some of the panels {', '.join(every)} (got {', '.join(map(str, names)) or 'none'})"
            )
        rows = (tuple(name for name in row if name in names) for row in (*self.layout, *self.advanced))
        self.layout, self.advanced = tuple(row for row in rows if row), ()
        hidden = [self.control(name) for name in exclude]
        self.controls = tuple(control for control in self.controls if control not in hidden)
        self.introduced, self.hint, self.counterexample = False, "", ""
        return self

    def figure(self, name: str | None = None):
        "The figure of a panel, by default the first that is one."
        if name is not None:
            return self.panel(name)
        return next(panel for panel in self.panels().values() if not isinstance(panel, str))

    @classmethod
    def build(cls, small: bool = False, jobs: int = 1, progress: bool = True, folder=None) -> dict:
        "Compute the content of the asset anew; `small` takes seconds, finished trials are kept in `folder` and found again."
        raise NotImplementedError(f"{cls.__name__} has no shipped result")

    @classmethod
    def extend(cls, content: dict, jobs: int = 1, progress: bool = True, folder=None) -> dict:
        "The content of an asset with what it lacks, such as the sweep of a new method; the rest is kept. By default nothing is lacking."
        return content

    @property
    def view(self) -> "ExplorerView":  # noqa: F821, its module needs a notebook's packages
        if self._view is None:
            from .view import ExplorerView

            with self._lock:
                self._view = self._view or ExplorerView(self)
        return self._view

    @property
    def widget(self):  # ipywidgets.Widget
        "The explorer with its sliders, for a cell's last line or inside other widgets."
        return self.view.box

    def _live_changed(self, run):
        if self._view is not None:
            self._view.live.show(run)

    def close(self):
        "Stop a training and remove the widgets."
        if self.live:
            self.live.stop()
        if self._view is not None:
            self._view.close()
            self._view = None

    def to_html(self, path=None, over=None) -> str:
        "One HTML file with sliders that needs neither kernel nor network; see `static_page`."
        from .page import static_page

        text = static_page(self, over)
        if path is not None:
            pathlib.Path(path).write_text(text, encoding="utf-8")
        return text

    def snapshot(self) -> bytes | None:
        "A PNG of the explorer as it stands; None where there is no Chromium."
        from .page import screenshot, static_page

        return screenshot(static_page(self, now=True))

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.state.items())})"

    def _repr_mimebundle_(self, **settings):
        bundle = self.widget._repr_mimebundle_(**settings)
        bundle = dict(bundle[0] if isinstance(bundle, tuple) else bundle or {})
        bundle["text/plain"] = f"{self!r}: run the cell to move its controls"
        if "png" in os.environ.get(
            "PLOTLY_RENDERER", ""
        ):  # as for plotly's own figures: a picture for readers without a kernel
            picture = self.snapshot()
            if picture is not None:
                bundle["image/png"] = base64.b64encode(picture).decode()
        return bundle
