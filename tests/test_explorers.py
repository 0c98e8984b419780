"""What the explorers share: state, view, training in the background, static page."""

import io
import json
import pathlib
import re
import subprocess
import sys
import threading
import time

import ipywidgets
import pytest
from PIL import Image

import gib_nb.explorers
from gib_nb.explorers.app import Page, build_assets, page_notebook, voila_command
from gib_nb.explorers.control import Control
from gib_nb.explorers.explorer import Explorer
from gib_nb.explorers.page import find_chromium, screenshot, static_page, static_states
from gib_nb.explorers.registry import CLASSES, EXPLORERS, QUESTIONS, TITLES, register
from gib_nb.explorers.task import BackgroundTask
from gib_nb.explorers.view import STYLE, PlotView, introduction
from gib_nb.report.figures import BLUE, GREEN, ORANGE, PURPLE, RED, THEME, figure

ROOT = pathlib.Path(__file__).parents[1]
ALL = list(EXPLORERS.values())


class Line(Explorer):
    title = "A <line>"
    controls = (
        Control("slope", "slope", (0, 1, 2), 1),
        Control("up", "up", kind="toggle"),
        Control("color", "color", ("red", "blue"), kind="dropdown"),
        Control("note", "note", kind="text"),
    )
    layout = (("plot", "words"),)
    drawn = 0

    def panel_plot(self):
        self.__dict__["drawn"] = self.drawn + 1
        return figure(
            [
                dict(
                    type="scatter",
                    x=[0, 1],
                    y=[int(self.up), self.slope + int(self.up)],
                    customdata=["up", "slope"],
                    line=dict(color=self.color),
                )
            ],
            height=200,
        )

    def panel_words(self):
        if self.note == "fail":
            raise ZeroDivisionError("no <b>words</b>")
        return f"slope {self.slope}"

    def problem(self, name):
        return "<i>too long</i>" if len(self.note) > 10 else ""


def held(explorer, name):
    return explorer.view.controls[name]


# state


def test_state_goes_in_and_out():
    line = Line(slope=2)
    assert line.state == {"slope": 2, "up": False, "color": "red", "note": ""}
    other = Line().restore(json.loads(json.dumps(line.state | {"up": True})))
    assert other.state == line.state | {"up": True}
    assert repr(other) == "Line(slope=2, up=True, color='red', note='')"


@pytest.mark.parametrize("value", [3, "1", None, True, 1.5])
def test_other_values_are_refused_with_the_options(value):
    line = Line()
    with pytest.raises(ValueError, match=r"expected slope to be one of 0, 1, 2 \(got"):
        line.slope = value
    assert line.slope == 1


def test_a_state_is_set_whole_or_not_at_all():
    line = Line()
    with pytest.raises(ValueError):
        line.restore({"slope": 2, "color": "green"})
    with pytest.raises(AttributeError, match="expected one of slope, up, color, note"):
        line.restore({"slope": 2, "size": 1})
    assert line.slope == 1


def test_control_checks_itself():
    with pytest.raises(ValueError, match="expected kind"):
        Control("a", "a", (1,), kind="knob")
    with pytest.raises(ValueError, match="expected the default of a among its options"):
        Control("a", "a", (1, 2), 3)


def test_only_some_panels_and_controls():
    line = Line(slope=2, color="blue")
    line.hint = "a line"
    assert line.select("plot", exclude=["color"]) is line
    assert (
        list(line.panels()) == ["plot"] and "color" not in line.state and line.panel_plot().data[0].line.color == "blue"
    )
    assert list(line.view.controls) == ["slope", "up", "note"] and "What to try" not in static_page(line, now=True)
    assert len(Line().controls) == 4
    with pytest.raises(ValueError, match="some of the panels plot .got plots"):
        line.select("plots")
    with pytest.raises(AttributeError, match="expected one of"):
        Line().select("plot", exclude=["size"])


def test_hints_are_folded_below_the_question():
    line = Line()
    line.hint, line.counterexample = "try <this>", "an exception"
    title, folded = introduction(line).split("<details", 1)
    assert "A &lt;line&gt;" in title
    assert "try" not in title and "try &lt;this&gt;" in folded and "an exception" in folded and " open" not in folded
    assert "<details" in static_page(line, now=True) and "<details" not in introduction(Line())


# view


def test_a_moved_control_sets_the_value_and_draws_once():
    line = Line()
    held(line, "slope")
    before, rev = line.drawn, line.view.panels["plot"].rev
    held(line, "slope").value = 2
    assert line.slope == 2 and line.drawn == before + 1 and line.view.panels["plot"].rev == rev + 1
    assert json.loads(line.view.panels["plot"].spec)["data"][0]["y"] == [0, 2]
    assert line.view.panels["words"].value == "slope 2"


def test_a_value_set_from_python_moves_the_control():
    line = Line()
    held(line, "slope")
    line.restore({"slope": 0, "up": True, "color": "blue", "note": "hello"})
    assert [held(line, name).value for name in ("slope", "up", "color", "note")] == [0, True, 1, "hello"]


def test_what_did_not_change_is_not_sent():
    line = Line()
    rev = line.view.panels["plot"].rev
    line.note = "hello"
    assert line.view.panels["plot"].rev == rev


def test_a_click_flips_a_switch_and_nothing_else():
    line = Line()
    plot = line.view.panels["plot"]
    plot._answer(plot, {"kind": "click", "name": "up"}, [])
    assert line.up and held(line, "up").value
    for name in ("slope", "nothing", "__class__"):
        plot._answer(plot, {"kind": "click", "name": name}, [])
    assert line.state == {"slope": 1, "up": True, "color": "red", "note": ""}


def test_a_failing_panel_is_shown_escaped_and_raised():
    line = Line()
    with pytest.raises(ZeroDivisionError):
        held(line, "note").value = "fail"
    assert "ZeroDivisionError: no &lt;b&gt;words&lt;/b&gt;" in line.view.message.value
    line.note = "fine"
    assert line.view.message.value == ""


def test_problems_stand_beside_the_text_escaped():
    line = Line()
    held(line, "note").value = "much too long a text"
    assert "&lt;i&gt;too long&lt;/i&gt;" in line.view.problems["note"].value
    line.note = "short"
    assert "too long" not in line.view.problems["note"].value


def test_what_changed_sets_belongs_to_the_same_move():
    class Tied(Line):
        def changed(self, name):
            if name == "slope":
                self.up = self.slope == 2

    tied = Tied()
    held(tied, "slope")
    before = tied.drawn
    held(tied, "slope").value = 2
    assert tied.up and held(tied, "up").value and tied.drawn == before + 1


def test_library_is_sent_when_asked_for():
    view, sent = PlotView(figure([])), []
    view.send = lambda content, buffers: sent.append((content, buffers))
    view._answer(view, {"kind": "plotly.js"}, [])
    assert sent[0][0] == {"kind": "plotly.js"} and sent[0][1][0].startswith(b"/**")


def test_close_removes_every_widget():
    import ipywidgets

    line = Line()
    line.widget
    line.close()
    assert line._view is None
    line.slope = 2  # still a plain object
    assert isinstance(line.widget, ipywidgets.VBox)


# training in the background


class Counting(Line):
    steps = 0

    def train(self, report):
        """Counts until it is stopped."""
        if self.slope == 0:
            raise FloatingPointError("weights are <no longer> finite")
        for i in range(10_000):
            self.__dict__["steps"] = i
            if report(
                i / 10_000, f"step {i}", lambda: figure([dict(type="scatter", x=list(range(i)), y=list(range(i)))])
            ):
                return
            time.sleep(0.005)


def wait_for(condition, seconds=300):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def live_threads():
    return [thread for thread in threading.enumerate() if thread.name == "gib-live"]


def test_a_view_that_began_with_an_older_figure_gets_the_present_one(monkeypatch):
    view, sent = PlotView(figure([], height=10)), []
    view.show(figure([], height=20))
    monkeypatch.setattr(view, "send_state", sent.append)
    for message in ({"kind": "opened", "rev": 2}, {"kind": "opened"}, {"kind": "opened", "rev": 1}):
        view._answer(view, message, [])
    assert sent == ["spec"]


def test_training_streams_and_stops_within_a_step():
    counting = Counting()
    live = counting.view.live
    live.start.value = True
    assert live.start.disabled and not live.stop.disabled
    wait_for(lambda: live.plot.rev > 3)  # pictures arrive while it runs
    assert live.progress.value > 0 and "step" in live.words.value and live.plot.layout.display is None
    live.stop.value = True
    before = counting.steps
    counting.live.join()
    assert counting.steps <= before + 1
    assert not live.start.disabled and live.stop.disabled and not live.start.value and "stopped" in live.words.value
    assert live_threads() == []


def test_a_second_start_is_impossible():
    counting = Counting()
    assert counting.live.start() and not counting.live.start()
    counting.view.live.start.value = True  # a click that was under way
    assert len(live_threads()) == 1
    counting.close()
    counting.live.join()


def test_what_is_moved_while_another_thread_draws_is_not_forgotten():
    "As when something is typed while the model of the molecules is being loaded."
    drawing, may_end = threading.Event(), threading.Event()

    class Slow(Line):
        def panel_words(self):
            if threading.current_thread().name == "loader":
                drawing.set()
                may_end.wait()
            return super().panel_words()

    slow = Slow()
    moved = held(slow, "note")
    loader = threading.Thread(target=lambda: slow.restore({"up": True}), name="loader")
    loader.start()
    drawing.wait()
    mover = threading.Thread(target=lambda: setattr(moved, "value", "typed"))
    mover.start()
    mover.join(0.5)  # it may have to wait for the loader
    may_end.set()
    loader.join()
    mover.join()
    assert slow.state == {"slope": 1, "up": True, "color": "red", "note": "typed"} and moved.value == "typed"


def test_many_starts_at_once_start_one():
    counting, began = Counting(), []
    threads = [threading.Thread(target=lambda: began.append(counting.live.start())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(began) == 1
    counting.live.stop()
    counting.live.join()


def test_an_exception_is_shown_and_raised():
    counting = Counting(slope=0)
    counting.view.live.start.value = True
    with pytest.raises(FloatingPointError, match="no longer"):
        counting.live.join()
    wait_for(lambda: "gib-problem" in counting.view.live.words.value)
    assert "FloatingPointError: weights are &lt;no longer&gt; finite" in counting.view.live.words.value
    assert not counting.view.live.start.disabled
    counting.slope = 1
    assert counting.live.start()  # and it can be tried again
    counting.live.stop()
    counting.live.join()


def test_the_last_picture_is_not_lost():
    run = BackgroundTask(
        lambda report: [report(i / 3, str(i), figure([dict(type="scatter", x=[i], y=[i])])) for i in range(4)], pause=60
    )
    run.start()
    run.join()
    assert run.figure.data[0].x == (3,) and run.text == "done: 3"


def test_join_waits_for_whoever_hears_of_the_end():
    heard, may_hear = [], threading.Event()
    run = BackgroundTask(lambda report: None, on_change=lambda run: may_hear.wait() and heard.append(run.text))
    run.start()
    wait_for(lambda: not run.running)
    threading.Timer(0.1, may_hear.set).start()
    run.join()
    assert heard == ["done: preparing …"] and live_threads() == []


def test_closing_the_last_page_ends_a_training():
    counting = Counting()
    plot, watch = counting.view.live.plot, counting.view.live._watch
    for kind in ("opened", "opened"):
        watch(plot, {"kind": kind}, [])
    counting.live.start()
    watch(plot, {"kind": "closed"}, [])
    assert counting.live.running
    watch(plot, {"kind": "closed"}, [])
    counting.live.join()
    assert live_threads() == []


def test_closing_an_explorer_ends_a_training():
    counting = Counting()
    counting.widget
    counting.live.start()
    counting.close()
    counting.live.join()
    assert live_threads() == []


def test_join_says_when_a_run_goes_on():
    counting = Counting()
    counting.live.start()
    with pytest.raises(TimeoutError, match="goes on"):
        counting.live.join(0.05)
    counting.live.stop()
    counting.live.join()


# static page


def test_static_states_hold_every_combination_once():
    found = static_states(Line())
    assert len(found["states"]) == 3 * 2 * 2 and len(found["contents"]) == 12 + 3
    for key, (plot, words) in found["states"].items():
        slope, up, color = map(int, key.split(","))
        assert found["contents"][words] == f"slope {slope}"
        assert found["contents"][plot]["data"][0]["y"] == [up, slope + up]
        assert found["contents"][plot]["data"][0]["line"]["color"] == ["red", "blue"][color]


def test_static_states_leave_the_explorer_alone():
    line = Line(slope=2)
    rev = line.view.panels["plot"].rev
    static_states(line)
    assert line.slope == 2 and line.view.panels["plot"].rev == rev


def test_static_states_can_be_fewer():
    found = static_states(Line(up=True, note="<hello>"), over=["slope"])
    assert [control["name"] for control in found["controls"]] == ["slope"] and len(found["states"]) == 3
    assert {"label": "note", "text": "<hello>"} in found["fixed"]
    assert len(static_states(Line(), now=True)["states"]) == 1
    with pytest.raises(ValueError, match="at most 5 combinations"):
        static_states(Line(), most=5)
    with pytest.raises(ValueError, match="a text"):
        static_states(Line(), over=["note"])
    with pytest.raises(AttributeError, match="expected one of"):
        static_states(Line(), over=["size"])


def test_static_page_is_whole_and_escaped(tmp_path):
    line = Line(note="</script><script>alert(1)</script>")
    text = line.to_html(tmp_path / "line.html")
    assert (tmp_path / "line.html").read_text(encoding="utf-8") == text == static_page(line)
    assert "A &lt;line&gt;" in text and "</script><script>alert" not in text
    outside = re.sub(r"<script>/\*\*.*?</script>", "", text, flags=re.S)  # all but plotly.js
    assert not re.search(r"(src|href)=", outside)
    data = re.search(r'id="gib-data">(.*?)</script>', text, re.S)[1]
    assert json.loads(data)["fixed"][0]["text"] == line.note


@pytest.mark.slow
def test_photograph():
    if find_chromium() is None:
        pytest.skip("no Chromium found: apt-get install chromium")
    picture = Line().snapshot()
    assert picture.startswith(b"\x89PNG") and len(picture) > 3000
    stripes = "".join(
        f'<div style="background: {color}; height: 9px; width: 300px"></div>'
        for color in (BLUE, ORANGE, GREEN, RED, PURPLE)
    )
    pixels = {
        pixel
        for _, pixel in Image.open(io.BytesIO(screenshot(f'<body data-height="80">{stripes}', 400)))
        .convert("RGB")
        .getcolors(10**6)
    }
    assert {tuple(bytes.fromhex(color[1:])) for color in (BLUE, ORANGE, GREEN, RED, PURPLE)} <= pixels


def test_without_chromium_there_is_no_picture(monkeypatch):
    monkeypatch.delenv("GIB_NB_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", "")
    assert screenshot("<p>hello</p>") is None


def test_notebook_shows_text_and_picture(monkeypatch):
    monkeypatch.setattr(Line, "snapshot", lambda self: b"png")
    monkeypatch.setenv("PLOTLY_RENDERER", "plotly_mimetype+png")
    bundle = Line()._repr_mimebundle_()
    assert (
        bundle["image/png"] == "cG5n"
        and "Line(slope=1" in bundle["text/plain"]
        and "application/vnd.jupyter.widget-view+json" in bundle
    )
    monkeypatch.setenv("PLOTLY_RENDERER", "plotly_mimetype")
    assert "image/png" not in Line()._repr_mimebundle_()


# all explorers


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_every_explorer_keeps_the_promises(cls):
    import plotly.graph_objects as go

    explorer = cls()
    assert explorer.title and explorer.hint and explorer.counterexample
    assert all(control.label and control.help for control in cls.controls)
    assert cls().restore(json.loads(json.dumps(explorer.state))).state == explorer.state
    for name, panel in explorer.panels().items():
        if not isinstance(panel, str):
            go.Figure(json.loads(panel.to_json()))  # validates every property
            assert panel.layout.height <= 400 and panel.layout.width is None, name
    assert isinstance(explorer.figure(), go.Figure)
    explorer.close()


@pytest.mark.slow
@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_every_option_of_every_control_can_be_shown(cls):
    explorer = cls()
    explorer.widget
    for control in cls.controls:
        if control.kind in ("slider", "dropdown"):
            for k in range(len(control.options)):
                explorer.view.controls[control.name].value = k
                assert getattr(explorer, control.name) == control.options[k]
        elif control.kind == "toggle":
            explorer.view.controls[control.name].value = not getattr(explorer, control.name)
    assert explorer.view.message.value == ""
    explorer.close()


SHIPPED = [cls.__name__ for cls in ALL if cls.asset]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "BetaExplorer" else [pytest.mark.slow])
        for name in (*SHIPPED, "InformationBottleneckExplorer")
        if name != "MoleculeExplorer"
    ],
)
def test_shipped_results_are_shown_without_torch(name):
    code = (
        f"import sys, gib_nb.explorers as e; x = e.{name}(); x.widget; x.to_html(over=[x.controls[-1].name]); "
        "print([m for m in ('torch', 'torch_geometric', 'rdkit', 'sklearn', 'pandas') if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_assets_are_small_and_say_where_they_come_from():
    files = [file for file in (ROOT / "gib_nb" / "assets").iterdir() if not file.name.startswith("encoder_")]
    assert sum(file.stat().st_size for file in files) < 2_000_000  # each encoder has a limit of its own
    for name in SHIPPED:
        data = getattr(gib_nb.explorers, name)().data
        assert set(data["environment"]["versions"]) >= {"python", "torch", "gib_nb"} and {"config", "settings"} & set(
            data
        ), name
        assert "seed" in json.dumps(data), name
        assert not re.search(r"/(home|root|tmp|work|Users)/", json.dumps(data)), name


@pytest.mark.slow
def test_small_rebuilds_are_equal(tmp_path):
    once, twice = (build_assets(["beta"], small=True, folder=tmp_path / str(i))[0].read_bytes() for i in range(2))
    assert once == twice
    with pytest.raises(ValueError, match="expected names among"):
        build_assets(["gamma"])


# the page


def test_one_call_registers_an_explorer():
    assert list(EXPLORERS) == list(TITLES) == list(CLASSES.values()) and set(CLASSES) < set(gib_nb.explorers.__all__)
    for name, cls in EXPLORERS.items():
        assert CLASSES[cls.__name__] == name and cls is getattr(gib_nb.explorers, cls.__name__)
        assert cls.asset in (None, name)  # `python -m gib_nb.explorers NAME`
    register("line", "A line", f"{__name__}:Line")
    try:
        page = Page(["line"])
        page.tabs.selected_index = 1
        assert type(page.explorers["line"]) is Line and gib_nb.explorers.Line is Line
        with pytest.raises(ValueError, match="expected a new name"):
            register("line", "Another", f"{__name__}:Line")
    finally:
        EXPLORERS.unregister("line")
        del TITLES["line"], QUESTIONS["line"], CLASSES["Line"]


def test_settings_of_shipped_results_have_the_names_of_today():
    from gib_nb.train.config import options

    for name in ("beta", "stability", "molecule"):
        settings = EXPLORERS[name]().data["settings" if name == "molecule" else "config"]
        assert {"pretrain_epochs", "rampup_epochs", "max_restarts"} <= settings.keys() <= {*options(), "graphs"}, name
    assert EXPLORERS["case_study"]().data["config"]["learning_rate"] == 0.06  # of the study, not of a trainer


def test_scripts_and_styles_are_part_of_the_package():
    import fnmatch
    import tomllib

    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["gib_nb"]
    files = [
        path.relative_to(ROOT / "gib_nb").as_posix()
        for path in (ROOT / "gib_nb").rglob("*")
        if path.suffix in (".js", ".css", ".j2")
    ]
    assert len(files) >= 6 and all(any(fnmatch.fnmatch(file, pattern) for pattern in patterns) for file in files)


def test_public_names_resolve():
    assert all(callable(getattr(gib_nb.explorers, name)) for name in gib_nb.explorers.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        gib_nb.explorers.nothing


def test_tabs_are_built_when_they_are_opened():
    page = Page(["information_bottleneck", "beta"])
    welcome, *tabs = page.tabs.children
    assert not page.explorers and "Loading β" in tabs[1].children[0].value
    _, first, second = welcome.children
    assert [child.description for child in (first.children[0], second.children[0])] == ["Classical bottleneck", "β"]
    assert second.children[1].value == QUESTIONS["beta"]
    second.children[0].click()
    assert page.tabs.selected_index == 2 and tabs[1].children[0] is page.explorers["beta"].widget
    assert list(page.explorers) == ["beta"]


def test_a_model_of_ones_own_is_in_its_tab_and_seen_first(monkeypatch):
    asked = []

    class Own(Line):
        def __init__(self, model=None):
            asked.append(model)
            super().__init__()

    monkeypatch.setattr("gib_nb.explorers.app.EXPLORERS", {"bits": Line, "molecule": Own})
    page = Page(["bits", "molecule"], model="runs/activity")
    assert asked == ["runs/activity"] and page.tabs.selected_index == 2 and list(page.explorers) == ["molecule"]
    source = json.loads(page_notebook("runs/it's"))["cells"][0]["source"]
    assert f"page(model={str(pathlib.Path('runs').resolve() / 'it') + chr(39) + 's'!r})" in source
    compile(source, "page", "exec")


def test_page_listens_on_this_computer_alone():
    command = voila_command("page.ipynb", 1234)
    assert "--Voila.ip=127.0.0.1" in command and "--port=1234" in command
    assert "gib_nb.explorers.app" in json.loads(page_notebook())["cells"][0]["source"]


def test_colors_are_readable():
    "Text has a contrast of at least 4.5 to its ground, in a light page and in a dark one."

    def light(color):
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    def contrast(one, other):
        dark, bright = sorted((light(one), light(other)))
        return (bright + 0.05) / (dark + 0.05)

    colors = {
        name: (on_light, on_dark)
        for name, on_light, on_dark in re.findall(r"--gib-([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", THEME)
    }
    assert {"ink", "soft-ink", "alert-ink", "link"} < set(colors)
    for theme in (0, 1):
        assert all(
            contrast(colors[name][theme], colors["ground"][theme]) >= 4.5
            for name in ("ink", "soft-ink", "alert-ink", "link")
        )
        assert contrast(colors["ink"][theme], colors["alert"][theme]) >= 4.5
    assert (
        re.findall(r"(?<![\w-])color: *(#\w+)", STYLE) == []
    )  # an ink of its own would be unreadable in one of the two


@pytest.mark.parametrize("name", EXPLORERS)
def test_every_explorer_asks_one_question(name):
    assert QUESTIONS[name].endswith("?") and QUESTIONS[name].count("?") == 1


def test_further_panels_are_folded():
    class Folded(Line):
        layout, advanced = (("plot",),), (("words",),)

    folded = Folded()
    assert list(folded.panels()) == ["plot", "words"]
    *_, more = (child for child in folded.view.box.children if isinstance(child, ipywidgets.Accordion))
    assert more.selected_index is None and more.titles == ("More figures",)
    states = static_states(folded, over=["slope"])
    assert states["rows"] == [["plot"]] and states["more"]["rows"] == [["words"]]
    assert folded.select("words").layout == (("words",),) and folded.advanced == ()
    folded.close()
