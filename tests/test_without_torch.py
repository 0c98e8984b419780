"""What a browser runs: explorers, exercises, and exact information work without PyTorch, RDKit, pandas, and threads, and almost all without SciPy, which is a large download."""

import json
import pathlib
import subprocess
import sys
import textwrap

import pytest

ABSENT = (
    "torch",
    "torch_geometric",
    "rdkit",
    "pandas",
    "sklearn",
    "psutil",
    "joblib",
    "safetensors",
    "pooch",
    "networkx",
)
LARGE = ("scipy",)  # loaded where a cell asks for it
BROWSER = """
import sys, threading
from importlib.machinery import PathFinder

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in ABSENT else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Finder

def start(thread):
    raise RuntimeError("can't start new thread")

threading.Thread.start = start
"""


def in_browser(program, absent=ABSENT, folder=None):
    "What a program prints in a Python with what a browser has; fails where the program does."
    program = f"ABSENT = {absent}\n{BROWSER}{textwrap.dedent(program)}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_exact_information_and_figures():
    shown = in_browser(
        """
        import gib_nb
        from gib_nb.report.figures import draw_graph
        print(gib_nb.mutual_information([[0.5, 0], [0, 0.5]]), len(draw_graph([[0, 1]], [1, 0], positions=[[0, 0], [1, 1]])))
    """,
        ABSENT + LARGE,
    )
    information, letters = shown.split()
    assert information == "0.6931471805599453" and int(letters) > 100


def test_every_explorer_moves_each_control():
    shown = in_browser("""
        import gib_nb.explorers
        from gib_nb.explorers.registry import CLASSES
        for name in sorted(CLASSES, key=lambda name: name == "ModelSelectionExplorer"):  # t tests need SciPy
            if name == "ModelSelectionExplorer":
                assert "scipy" not in sys.modules
            explorer = getattr(gib_nb.explorers, name)()
            explorer.widget
            for control in explorer.controls:
                if control.kind != "text":
                    for option in (control.options[0], control.options[-1]):
                        explorer.restore({control.name: option})
            print(name, sum(len(str(panel)) > 0 for panel in explorer.panels().values()))
    """)
    from gib_nb.explorers.registry import CLASSES

    assert {line.split()[0] for line in shown.splitlines()} == set(CLASSES)


def test_live_training_and_molecules_say_what_is_missing():
    shown = in_browser("""
        import gib_nb.explorers
        from gib_nb.explorers.registry import CLASSES
        for name in CLASSES:
            explorer = getattr(gib_nb.explorers, name)()
            if explorer.live:
                explorer.view.live.start.value = True
                print(name, explorer.view.live.words.value)
        molecules = gib_nb.explorers.MoleculeExplorer()
        molecules.widget
        molecules.smiles = "CCO"
        print("panel", molecules.panel("drawing"))
        print("field", [words.value for words in molecules.view.problems.values()])
    """)
    lines = dict(line.split(" ", 1) for line in shown.splitlines())
    assert {"BetaExplorer", "CaseStudyExplorer", "InnerStepsExplorer", "StabilityExplorer"} <= set(lines)
    for name, words in lines.items():
        if name != "field":
            assert "PyTorch" in words and "gib-nb#install" in words, name
    assert "RDKit" in lines["panel"] and "Error" not in shown


def test_exercises_recognize_every_mistake():
    shown = in_browser("""
        from gib_nb.exercises.base import LESSONS, Exercise, check, exercises_of
        for lesson in LESSONS:
            exercises = [each for each in exercises_of(lesson).values() if isinstance(each, Exercise)]
            for each in exercises:
                assert check(each.name, each.solution), each.name
                for mistake in each.mistakes:
                    found = check(each.name, mistake)
                    assert not found and found.message == mistake.__doc__, (each.name, found)
            print(lesson, len(exercises))
    """)
    assert len(shown.splitlines()) == 11 and all(int(line.split()[1]) >= 2 for line in shown.splitlines())


def test_an_answer_that_does_not_end_is_stopped():
    shown = in_browser("""
        from gib_nb.exercises.attempt import Endless, within
        def forever():
            while True:
                pass
        try:
            within(0.2, forever)
        except Endless as error:
            print(error)
        print(within(1.0, lambda: within(1.0, lambda: 5)), sys.gettrace())
    """)
    assert shown.splitlines() == ["no answer after 0.2 s.", "5 None"]


LESSONS = sorted((pathlib.Path(__file__).parents[1] / "nbs" / "lessons").glob("*.ipynb"))


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_cells_of_a_lesson_run_unless_they_are_tagged(path, tmp_path):
    "Lessons 1, 2, 4, and 6 run whole; in the others, the tag needs-torch marks what does not run in a browser."
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    tagged = [cell["id"] for cell in cells if "needs-torch" in cell["metadata"].get("tags", ())]
    assert tagged or path.stem[:2] not in ("03", "05", "07", "08", "09", "10", "11")
    assert not tagged or path.stem[:2] not in ("01", "02", "04", "06")
    sources = {cell["id"]: "".join(cell["source"]) for cell in cells if cell["id"] not in tagged}
    in_browser(
        f"""
        import sys
        from IPython.core.interactiveshell import InteractiveShell
        shell = InteractiveShell(history_length=0)
        shell.history_manager.enabled = False
        for name, source in {sources!r}.items():
            assert shell.run_cell(source, silent=True).success, name
    """,
        folder=tmp_path,
    )


def test_figures_of_plotly_are_shown_as_those_of_explorers():
    shown = in_browser("""
        from IPython.core.interactiveshell import InteractiveShell
        import IPython.display
        sys.platform = "emscripten"
        shell = InteractiveShell.instance(history_length=0)
        IPython.display.display = lambda widget: print(type(widget).__name__, widget.figure.data[0].y)
        shell.run_cell("from gib_nb.report.figures import figure; figure([dict(type='scatter', y=[1, 2])])", silent=True)
        shell.display_formatter.format(shell.user_ns["figure"]([dict(type="scatter", y=[3, 4])]))
    """)
    assert shown.split("\n")[-2] == "PlotView (3, 4)"


def test_a_name_that_needs_torch_says_so():
    shown = in_browser("""
        try:
            from gib_nb import GIBTrainer
        except ImportError as error:
            print(error)
    """)
    assert "No module named 'torch'. This needs PyTorch" in shown and "gib-nb#install" in shown
