"""The widgets of an explorer: ipywidgets for the controls, one thin widget around plotly.js for figures, HTML for the rest.

plotly's own widget brings plotly.js along with every figure, five megabytes each. `PlotView` asks for the library once per page and afterwards receives only
data. While the kernel runs another cell it says so, waits, and draws when the answer comes; when the kernel or the server is gone, the explorer says that
nothing moves any more. Each control is observed by one function, which sets the value and draws the panels once. An exception in a panel is shown above the
panels, and is raised all the same, so that it reaches the log and a test.
"""

import functools
import html
import importlib.resources
import threading

import anywidget
import ipywidgets
import traitlets

from ..report.figures import THEME, figure
from ..report.html import figure_js
from .control import Control
from .explorer import Explorer
from .task import BackgroundTask


def source(name: str) -> str:
    "The text of a script or a style sheet that lies beside this module."
    return (importlib.resources.files("gib_nb.explorers") / name).read_text(encoding="utf-8")


STYLE = THEME + "\n" + source("explorer.css")


@functools.cache
def plotly_js() -> bytes:
    "The source of plotly.js, as shipped with plotly."
    return (importlib.resources.files("plotly") / "package_data" / "plotly.min.js").read_bytes()


class PlotView(anywidget.AnyWidget):
    "A plotly figure in a notebook or page; `show` draws another in its place."

    _esm = figure_js() + source("plot.js")
    spec = traitlets.Unicode("{}").tag(sync=True)
    label = traitlets.Unicode("").tag(sync=True)

    def __init__(self, shown, label: str = "", on_click=None, **settings):
        super().__init__(label=label, **settings)
        self.on_click, self.drawn, self.rev = on_click, "", 0
        self.on_msg(self._answer)
        self.show(shown)

    def show(self, shown):
        "Draw a plotly figure, unless it is the one that is there."
        text = shown.to_json()
        if text != self.drawn:
            self.drawn, self.figure, self.rev = text, shown, self.rev + 1
            self.spec = f'{{"rev":{self.rev},{text[1:]}'

    def _answer(self, _, message, buffers):
        if message.get("kind") == "plotly.js":
            self.send({"kind": "plotly.js"}, [plotly_js()])
        if message.get("kind") == "opened" and message.get("rev", self.rev) != self.rev:
            self.send_state("spec")  # the view began with an older figure
        if message.get("kind") == "click" and self.on_click:
            self.on_click(message["name"])


class TaskView:
    "Start, Stop, progress, a line of text, and a figure once there is one, in `box`."

    def __init__(self, live: BackgroundTask, say: str):
        self.live, self.watchers, self._lock = live, 0, threading.Lock()
        auto = {"width": "auto"}
        self.start = ipywidgets.ToggleButton(False, description="▶ Train live", tooltip=say, layout=auto)
        self.stop = ipywidgets.ToggleButton(
            False, description="■ Stop", tooltip="Stop after the present batch.", disabled=True, layout=auto
        )
        self.progress = ipywidgets.FloatProgress(
            0.0, min=0.0, max=1.0, description="progress", layout={"width": "260px"}
        )
        self.words = ipywidgets.HTML(f'<span class="gib-note">{html.escape(say)}</span>')
        self.plot = PlotView(
            figure([], height=10), "live training", layout={"width": "100%", "max_width": "820px", "display": "none"}
        )
        self.plot.on_msg(self._watch)
        self.start.observe(self._started, "value")
        self.stop.observe(self._stopped, "value")
        line = ipywidgets.Box(
            [self.start, self.stop, self.progress, self.words],
            layout={"flex_flow": "row wrap", "align_items": "center"},
        )
        self.box = ipywidgets.VBox([line, self.plot])

    def _started(self, change):
        if change["new"]:
            self.live.start()
            self.show(self.live)

    def _stopped(self, change):
        if change["new"]:
            self.live.stop()

    def show(self, run: BackgroundTask):
        "Bring the widgets to where a run is."
        with self._lock:
            self.progress.value = run.fraction
            self.words.value = f'<span class="{"gib-problem" if run.error else "gib-note"}" role="status">{html.escape(run.text)}</span>'
            if run.figure is not None:
                self.plot.show(run.figure)
                self.plot.layout.display = None
            self.start.disabled, self.stop.disabled = run.running, not run.running
            if not run.running:
                self.start.value = self.stop.value = False

    def _watch(self, _, message, buffers):
        self.watchers += {"opened": 1, "closed": -1}.get(message.get("kind"), 0)
        if message.get("kind") == "closed" and self.watchers <= 0:
            self.live.stop()


def introduction(explorer: Explorer) -> str:  # HTML
    "Title and question; what to try and what would be surprising are folded, so that a guess comes first."
    question = f'<p class="gib-question">{html.escape(explorer.question)}</p>' if explorer.question else ""
    lines = [html.escape(line) for line in (explorer.hint, explorer.counterexample) if line]
    folded = (
        f'<details class="gib-say"><summary>What to try</summary>{"".join(f"<p>{line}</p>" for line in lines)}</details>'
        if lines
        else ""
    )
    return f"<h3>{html.escape(explorer.title)}</h3>{question}{folded}"


MORE = "More figures"


def control_widget(control: Control, value) -> ipywidgets.Widget:
    "The ipywidget of a control; its value is the number of the option, or the switch, or the text."
    shared = dict(description=control.label, description_allow_html=False, tooltip=control.help or control.label)
    wide = dict(style={"description_width": "initial"})
    if control.kind == "text":
        return ipywidgets.Text(value, continuous_update=False, layout={"width": "520px"}, **shared, **wide)
    if control.kind == "toggle":
        return ipywidgets.ToggleButton(value, layout={"width": "auto", "min_width": "64px"}, **shared)
    options = [(control.format(option), i) for i, option in enumerate(control.options)]
    if control.kind == "dropdown":
        return ipywidgets.Dropdown(
            options=options,
            value=control.options.index(value),
            layout={"width": "auto", "min_width": "180px"},
            **shared,
            **wide,
        )
    return ipywidgets.SelectionSlider(
        options=options, value=control.options.index(value), layout={"width": "370px"}, **shared, **wide
    )


def widget_value(control: Control, value):
    "What the widget of a control holds for a value."
    return control.options.index(value) if control.kind in ("slider", "dropdown") else value


def control_value(control: Control, held):
    "The value of a control for what its widget holds."
    return control.options[held] if control.kind in ("slider", "dropdown") else held


class ExplorerView:
    "The widgets of one explorer: `controls` and `panels` by name, all in `box`."

    def __init__(self, explorer: Explorer):
        self.explorer, self._syncing = explorer, False
        self.live = TaskView(explorer.live, explorer.train_help) if explorer.live else None
        self.controls = {
            control.name: control_widget(control, getattr(explorer, control.name)) for control in explorer.controls
        }
        self.problems = {control.name: ipywidgets.HTML() for control in explorer.controls if control.kind == "text"}
        self.message = ipywidgets.HTML()
        self.panels = {name: self._panel(name, content) for name, content in explorer.panels().items()}
        self._say_problems()
        for control in explorer.controls:
            self.controls[control.name].observe(functools.partial(self._moved, control), "value")
        across = {"width": "100%", "flex_flow": "row wrap", "align_items": "flex-start", "grid_gap": "8px"}
        row_box = lambda row: ipywidgets.HBox(
            [self.panels[name] for name in row], layout=across, _dom_classes=("gib-panels",)
        )
        rows = [row_box(row) for row in explorer.layout]
        if explorer.advanced:
            folded = ipywidgets.VBox([row_box(row) for row in explorer.advanced], layout={"grid_gap": "6px"})
            rows.append(ipywidgets.Accordion([folded], titles=(MORE,), selected_index=None))
        self.box = ipywidgets.VBox(
            [
                ipywidgets.HTML(f"<style>{STYLE}</style>{introduction(explorer)}"),
                self._control_box(),
                self.message,
                *rows,
                *([self.live.box] if self.live else []),
            ],
            layout={"grid_gap": "6px"},
        )
        self.box.add_class("gib-explorer")

    def _panel(self, name, content):
        layout = {
            "flex": "1 1 0%"
        }  # a row is shared out, but nothing is cut: a table keeps its width, and what has no room moves below
        if isinstance(content, str):
            return ipywidgets.HTML(content, layout=layout | {"min_width": "min-content"})
        return PlotView(
            content, f"{self.explorer.title}: {name}", self._clicked, layout=layout | {"min_width": "240px"}
        )

    def _control_box(self):
        items = []
        for name, widget in self.controls.items():
            items += [widget, self.problems[name]] if name in self.problems else [widget]
        return ipywidgets.Box(
            items, layout={"flex_flow": "row wrap", "align_items": "center", "width": "100%", "grid_gap": "0 20px"}
        )

    def _moved(self, control, change):
        with self.explorer._lock:  # while another thread draws, this waits, and is not forgotten
            if not self._syncing:
                self.explorer.restore({control.name: control_value(control, change["new"])})

    def _clicked(self, name):
        if name in self.controls and self.explorer.control(name).kind == "toggle":
            self.explorer.restore({name: not getattr(self.explorer, name)})

    def close(self):
        "Remove the widgets from kernel and page."
        waiting = [self.box]
        while waiting:
            widget = waiting.pop()
            waiting += getattr(widget, "children", ())
            widget.close()

    def _say_problems(self):
        for name, words in self.problems.items():
            words.value = f'<span class="gib-problem" role="alert">{html.escape(self.explorer.problem(name))}</span>'

    def refresh(self):
        "Draw what has changed."
        explorer, self._syncing = self.explorer, True
        try:
            for control in explorer.controls:
                self.controls[control.name].value = widget_value(control, getattr(explorer, control.name))
            self._say_problems()
            for (
                name,
                shown,
            ) in self.panels.items():  # one after the other, so that the page draws while the next is made
                content = explorer.panel(name)
                if isinstance(content, str):
                    shown.value = content
                else:
                    shown.show(content)
            self.message.value = ""
        except Exception as error:
            self.message.value = (
                f'<span class="gib-problem" role="alert">{html.escape(f"{type(error).__name__}: {error}")}</span>'
            )
            raise
        finally:
            self._syncing = False
