"""The course keeps its shape: a promise, an example by hand, one explorer, exercises, a summary, sources. `nbdev_test` runs the lessons themselves."""

import ast
import inspect
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from gib_nb.exercises.base import Exercise, Question, exercises_of, guesses_of

NBS = pathlib.Path(__file__).parents[1] / "nbs"
LESSONS = sorted((NBS / "lessons").glob("[0-9]*.ipynb"))
TUTORIALS = sorted((NBS / "tutorials").glob("*.ipynb"))
WITH_DATA = [path for path in TUTORIALS if path.stem != "own_lesson"]


def marked():
    return [
        pytest.param(path, marks=getattr(pytest.mark, f"lesson{int(path.stem[:2])}"), id=path.stem) for path in LESSONS
    ]


def cells(path, kind):
    return ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == kind]


def test_there_are_eleven():
    assert [int(path.stem[:2]) for path in LESSONS] == list(range(1, 12))


@pytest.mark.parametrize("path", marked())
def test_a_lesson_has_all_its_parts(path):
    prose, code, number = "\n".join(cells(path, "markdown")), "\n".join(cells(path, "code")), int(path.stem[:2])
    assert re.match(rf"# {number} · .+\n\n> .+\n\nAfter this lesson, you can ", prose)
    assert re.search(r"\*\*Time\*\* \d+ minutes\. \*\*Prerequisites\*\* .+ \*\*Next\*\* ", prose)
    for heading in ("## Exercises", "## In short", "## Further reading"):
        assert prose.count(heading) == 1, heading
    words = re.findall(r"[^\W\d_][\w'’-]*", re.sub(r"\$\$.*?\$\$|\$[^$]*\$|\]\([^)]*\)", " ", prose, flags=re.S))
    assert 600 <= len(words) <= 1500, len(words)
    assert 15_000 <= path.stat().st_size <= 150_000
    pictures = sum(
        len("".join(content))
        for cell in json.loads(path.read_text())["cells"]
        for output in cell.get("outputs", ())
        for kind, content in output.get("data", {}).items()
        if kind.startswith("image/")
    )
    assert path.stat().st_size - pictures <= 65_000
    assert len(re.findall(r"^\s*\w+Explorer\(", code, re.M)) == 1  # one explorer
    assert code.count("assert ") >= 2


@pytest.mark.parametrize("path", marked())
def test_a_lesson_asks_all_its_exercises_and_shows_no_solution(path):
    code, number = "\n".join(cells(path, "code")), int(path.stem[:2])
    for name, exercise in exercises_of(number).items():
        if isinstance(exercise, Exercise):
            assert f'check("{name}", {name})' in code, name
            stub = next(
                node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef) and node.name == name
            )
            assert [ast.unparse(line) for line in stub.body] == ["..."], name
            assert [argument.arg for argument in stub.args.args] == list(
                inspect.signature(exercise.solution).parameters
            ), name
        else:
            assert f'ask("{name}")' in code, name
    assert len(re.findall(r"\bcheck\(|\bask\(", code)) == len(exercises_of(number))


@pytest.mark.parametrize(
    "path",
    [*marked(), *TUTORIALS, NBS / "lessons" / "teaching.ipynb", NBS / "0_start_here.ipynb"],
    ids=lambda path: path.stem,
)
def test_links_lead_to_notebooks(path):
    for target in re.findall(r"\]\(([^)#]+)\)", "\n".join(cells(path, "markdown"))):
        assert target.startswith("https://") or (path.parent / target).is_file(), target


@pytest.mark.parametrize("path", marked())
def test_exercises_and_questions_can_be_seen_without_a_kernel(path):
    outputs = [
        output
        for cell in json.loads(path.read_text())["cells"]
        for output in cell.get("outputs", [])
        if "data" in output
    ]
    shown = "".join("".join(output["data"].get("text/html", "")) for output in outputs)
    asked = "\n".join(cells(path, "code"))
    assert shown.count("Not written yet") == asked.count("check(") and shown.count("<details>") >= asked.count("ask(")


@pytest.mark.parametrize("path", [*LESSONS, *sorted(NBS.glob("exercises/lesson_*.ipynb"))], ids=lambda path: path.stem)
def test_stored_questions_are_those_of_today(path):
    "A reader without a kernel sees each question, and what opens at a click, as the module has them."
    outputs = [
        out for cell in json.loads(path.read_text())["cells"] for out in cell.get("outputs", []) if "data" in out
    ]
    stored = {"".join(out["data"].get("text/html", "")) for out in outputs}
    shown = {each for each in stored if re.match(r"<b>.+</b><details>", each)}
    lesson = int(re.search(r"\d+", path.stem)[0])
    known = [each for each in exercises_of(lesson).values() if isinstance(each, Question)]
    assert shown <= {each._repr_html_() for each in (*known, *guesses_of(lesson))}
    assert len(shown) >= "\n".join(cells(path, "code")).count('ask("')


# An old processor: two threads, and none of the wide instructions that torch, MKL and oneDNN choose by themselves. Every sum is then rounded in another way, and a training goes another way.
OTHER_PROCESSOR = {
    "OMP_NUM_THREADS": "2",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "OMP_WAIT_POLICY": "PASSIVE",
}  # a thread that waits leaves its core to others


@pytest.mark.slow
@pytest.mark.parametrize(
    "path, instructions",
    [
        pytest.param(NBS / "0_start_here.ipynb", "default", id="start_here"),
        pytest.param(NBS / "lessons" / "07_training.ipynb", "avx2", id="07_training"),
        pytest.param(NBS / "tutorials" / "own_molecules.ipynb", "default", id="own_molecules"),
        pytest.param(NBS / "tutorials" / "own_graphs.ipynb", "avx2", id="own_graphs"),
    ],
)
def test_what_a_lesson_asserts_holds_on_another_processor(path, instructions):
    "Those whose outcomes swing most from training to training; slow cells keep what they show and assert nothing."
    code = "\n".join(cell for cell in cells(path, "code") if not cell.startswith("#| slow"))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=path.parent,
        env=os.environ | OTHER_PROCESSOR | {"ATEN_CPU_CAPABILITY": instructions},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("path", WITH_DATA, ids=lambda path: path.stem)
def test_a_tutorial_goes_from_a_file_to_the_shell(path):
    "A promise, then the steps in their order, with the same as commands; nothing is exported and nothing left out of the tests."
    prose, code = "\n".join(cells(path, "markdown")), "\n".join(cells(path, "code"))
    assert re.match(r"# Your own \w+\n\n> .+\n\nIn ten minutes you [^.]+\. After this tutorial, you [^.]+\.\n", prose)
    steps = (
        "## Train",
        "## Compare",
        "## Predict",
        "## Explain",
        "## Save and load",
        "## The same without Python",
        "## Where",
    )
    assert sorted(steps, key=prose.index) == list(steps)
    assert len(re.findall(r"^gib-nb (train|predict|explain) ", prose, re.M)) == 3
    assert code.count("assert ") >= 5 and "#| " not in code and path.stat().st_size < 150_000


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_the_commands_of_a_tutorial_are_commands(path):
    "Their options are known; nothing is trained."
    from gib_nb.cli.main import build_parser

    for line in re.findall(r"^gib-nb (.+?)\s*(?:#.*)?$", "\n".join(cells(path, "markdown")), re.M):
        build_parser().parse_args(line.split())


def test_slow_cells_of_lessons_assert_nothing():
    for path in (*LESSONS, NBS / "0_start_here.ipynb"):
        assert not [cell for cell in cells(path, "code") if cell.startswith("#| slow") and "assert " in cell], path.stem


@pytest.mark.parametrize("path", [*LESSONS, *TUTORIALS, NBS / "0_start_here.ipynb"], ids=lambda path: path.stem)
def test_checks_are_hidden_from_learners(path):
    "JupyterLab folds the source, and the site leaves the cell out; the tests run it."
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "code" and any(
            isinstance(line, ast.Assert) for line in ast.parse("".join(cell["source"])).body
        ):
            assert cell["metadata"]["jupyter"]["source_hidden"] and "remove-cell" in cell["metadata"]["tags"], cell[
                "id"
            ]
