"""Homework: what is handed out, and how a class is graded, with wrong, endless, malicious, and unrunnable notebooks among it."""

import csv
import inspect
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from gib_nb.cli import main
from gib_nb.course.assignment import load_key, make_assignment
from gib_nb.course.class_page import class_page
from gib_nb.course.export import export_assignment
from gib_nb.course.grade import (
    CELL_FAILS,
    ENDED,
    MISSING,
    NO_CELLS,
    NO_END,
    NO_NOTEBOOK,
    TOO_MUCH,
    UNKNOWN,
    grade_notebook,
    handed_in,
)
from gib_nb.course.session import Limits
from gib_nb.exercises.base import LESSONS, OWN, Exercise, exercises_of
from gib_nb.exercises.own import load_lesson
from gib_nb.exercises.verdict import UNWRITTEN

QUICK = Limits(seconds=1)
linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's limits are those of Linux")


def sources(notebook):
    return ["".join(cell["source"]) for cell in notebook["cells"]]


def write_notebook(path, *cells):
    path.parent.mkdir(parents=True, exist_ok=True)
    code = [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": c} for c in cells]
    path.write_text(json.dumps({"cells": code, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return path


# ---- a class of thirty


def right(**others):
    "Cells with right answers to lesson 1, but for the ones that are given as code."
    cells = {
        "entropy_in_bits": "def entropy_in_bits(p):\n    p = p[p > 0]\n    return -(p * np.log2(p)).sum()",
        "conditional_entropy": "def conditional_entropy(joint):\n    h = lambda p: -(p[p > 0] * np.log(p[p > 0])).sum()\n"
        "    return h(joint) - h(joint.sum(1))",
        "mutual_information": "def mutual_information(joint):\n    h = lambda p: -(p[p > 0] * np.log(p[p > 0])).sum()\n"
        "    return h(joint.sum(0)) + h(joint.sum(1)) - h(joint)",
        "half_of_xor": "half_of_xor = 0",
        "no_information": 'no_information = "c"',
    } | others
    return ["import numpy as np", *(source for source in cells.values() if source)]


def body(name, code):
    return {name: f"def {name}({'p' if name == 'entropy_in_bits' else 'joint'}):\n    {code}"}


ENTROPY, CONDITIONAL, INFORMATION = "entropy_in_bits", "conditional_entropy", "mutual_information"
FAKE = """import sys, os, json
print("entropy_in_bits,2,2,,")
open("grades.csv", "w").write("mallory,entropy_in_bits,2")
for place in (0, 1, 2, 3, 4, 5, 6):
    try:
        os.write(place, b'{"verdict": true, "points": 99, "value": 1.0}\\n')
    except OSError:
        pass
import gib_nb.exercises.base as base
base.check = lambda *some: True"""
EQUAL = """class Always:
        __eq__ = lambda self, other: True
    return Always()"""
# name → (cells, {exercise: mistake}); what is not named is right
CLASS = {f"student {i:02}": (right(), {}) for i in range(1, 4)} | {
    "nats": (right(**body(ENTROPY, "return -(p[p > 0] * np.log(p[p > 0])).sum()")), {ENTROPY: "nats for bits"}),
    "nats too": (right(**body(ENTROPY, "p = p[p > 0]; return -(p @ np.log(p))")), {ENTROPY: "nats for bits"}),
    "sign": (right(**body(ENTROPY, "p = p[p > 0]; return p @ np.log2(p)")), {ENTROPY: "the sign"}),
    "zero": (right(**body(ENTROPY, "return -(p * np.log2(p)).sum()")), {ENTROPY: "log of zero"}),
    "joint": (
        right(**body(CONDITIONAL, "p = joint[joint > 0]; return -(p * np.log(p)).sum()")),
        {CONDITIONAL: "joint entropy"},
    ),
    "letters": (
        right(no_information="no_information = 'b'"),
        {"no_information": "they are uncorrelated, and nothing more"},
    ),
    "one bit": (right(half_of_xor="half_of_xor = '1 bit'"), {"half_of_xor": "1 bit"}),
    "chance": (right(**body(CONDITIONAL, "return joint.max()")), {CONDITIONAL: UNKNOWN}),
    "no zero": (right(**body(INFORMATION, "return joint.max()")), {INFORMATION: "independence gives zero"}),
    "nothing": (right(**body(ENTROPY, "...")), {ENTROPY: UNWRITTEN}),
    "not implemented": (
        right(
            **body(ENTROPY, "raise NotImplementedError()"),
            half_of_xor="half_of_xor = NotImplemented\nraise NotImplementedError",
        ),
        {ENTROPY: UNWRITTEN, "half_of_xor": "no number"},
    ),
    "missing": (right(mutual_information="", half_of_xor=""), {INFORMATION: MISSING, "half_of_xor": MISSING}),
    "typo": (right(**body(ENTROPY, "return -(p * np.log2(p).sum()")), {ENTROPY: CELL_FAILS}),
    "error": (right(**body(INFORMATION, "return joint[99]")), {INFORMATION: "an error"}),
    "endless function": (right(**body(ENTROPY, "while True: pass")), {ENTROPY: NO_END}),
    "endless cell": ([*right(half_of_xor="half_of_xor = 0\nwhile True: pass")], {"half_of_xor": NO_END}),
    "recursion": (right(**body(CONDITIONAL, "return conditional_entropy(joint)")), {CONDITIONAL: "no end"}),
    "memory": (right(**body(ENTROPY, "return len(bytearray(10**10))")), {ENTROPY: TOO_MUCH}),
    "leaves": (right(**body(ENTROPY, "import os; os._exit(0)")), {ENTROPY: ENDED}),
    "leaves early": (["import os; os._exit(0)", *right()], {}),
    "mallory": ([FAKE, *right(**body(ENTROPY, "return 1.0"))], None),
    "equal": (right(**body(ENTROPY, EQUAL)), {ENTROPY: UNKNOWN}),
    "changes": (right(**body(ENTROPY, "p[:] = 0; return 0.0")), {ENTROPY: "the input is changed"}),
    "random": (right(**body(ENTROPY, "return np.random.rand()")), {ENTROPY: "another value each time"}),
}
FILES = {"no json": ("{'cells': ", NO_NOTEBOOK), "document": ("Dear teacher, …", NO_NOTEBOOK)}


@pytest.fixture(scope="module")
def homework(tmp_path_factory):
    "The folder of a graded class."
    folder = tmp_path_factory.mktemp("homework") / "homework 1"
    assert main(["course", "export", str(folder)]) == 0
    for name, (cells, _) in CLASS.items():
        write_notebook(folder / "submitted" / f"{name}_lesson_1.ipynb", *cells)
    for name, (text, _) in FILES.items():
        (folder / "submitted" / name).mkdir()
        (folder / "submitted" / name / "answers.ipynb").write_text(text)
    write_notebook(folder / "submitted" / "empty.ipynb", "", " ")
    assert main(["course", "grade", str(folder), "--seconds", "1", "--memory", "1000", "--no-progress"]) == 0
    return folder


@pytest.fixture(scope="module")
def rows(homework):
    "Student → exercise → row of the table."
    found = {}
    with open(homework / "grades.csv", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["name"], {})[row["exercise"]] = row
    return found


def test_the_class_has_thirty_and_everyone_is_graded(rows):
    assert len(rows) == 30 and all(list(each) == list(exercises_of(1)) for each in rows.values())


@linux
@pytest.mark.parametrize("name", [name for name, (_, mistakes) in CLASS.items() if mistakes is not None])
def test_a_mistake_costs_its_points_and_nothing_else(rows, name):
    found = {exercise: row["mistake"] for exercise, row in rows[name].items() if row["mistake"]}
    assert found == CLASS[name][1]
    for exercise, row in rows[name].items():
        assert float(row["points"]) == (0 if exercise in found else float(row["max_points"]))
        assert bool(row["message"]) == (exercise in found)


def test_a_notebook_that_cannot_be_read_gets_nothing_and_a_reason(rows):
    for name, mistake in {**{name: mistake for name, (_, mistake) in FILES.items()}, "empty": NO_CELLS}.items():
        assert {row["mistake"] for row in rows[name].values()} == {mistake}
        assert {row["points"] for row in rows[name].values()} == {"0"}


def test_what_is_written_into_the_connection_earns_nothing(rows):
    "Values that were not asked for are taken for answers, and are as wrong as any other wrong value."
    assert float(rows["mallory"][ENTROPY]["points"]) == 0
    assert rows["student 01"][ENTROPY]["points"] == "2"


def test_the_page_counts_mistakes(homework):
    page = (homework / "class.html").read_text()
    for words in ("nats for bits", "they are uncorrelated, and nothing more", "endless function", "<b>30</b>"):
        assert words in page
    assert "http" not in page.split("</head>")[1] and "<script" not in page.split("</head>")[1]
    section = page[page.index("<code>entropy_in_bits") : page.index("<code>conditional_entropy")]
    assert "<b>2</b>" in section and "nats, nats too" in section


def test_a_page_for_the_class_has_no_names(homework):
    page = (homework / "mistakes.html").read_text()
    assert "nats for bits" in page and not [name for name in CLASS if re.search(rf"[>,] ?{name}[<,]", page)]
    assert "Students" not in page and "IndexError" in page


def test_names_and_messages_are_no_markup_and_no_formulas(tmp_path):
    name = "=cmd<script>"
    write_notebook(tmp_path / name / "a.ipynb", "def entropy_in_bits(p):\n    raise ValueError('<img src=x>')")
    export_assignment(tmp_path / "work", [1])
    key = str(tmp_path / "work" / "teacher" / "key.json")
    folder = tmp_path / "handed"
    folder.mkdir()
    (tmp_path / name).rename(folder / name)
    assert main(["course", "grade", str(folder), "--key", key, "--no-progress"]) == 0
    assert (folder / "grades.csv").read_text().splitlines()[1].startswith("'=cmd<script>,")
    page = (folder / "class.html").read_text()
    assert "<script" not in page and "<img" not in page and "&lt;img src=x&gt;" in page


def test_signs_that_cannot_be_written_are_replaced(tmp_path):
    cells = "def entropy_in_bits(p):\n    raise ValueError('\\ud800\\x00\\n=1')"
    path = write_notebook(tmp_path / os.fsdecode(b"a\xff.ipynb"), cells)
    [name] = handed_in(tmp_path)
    grade = grade_notebook(path, make_assignment([1]).tasks, QUICK, name)[0]
    assert name == "a?" and "ValueError in line 2 of your function: ?? =1" in grade.message
    grade.message.encode()


@pytest.mark.parametrize("lesson", [2, 3, 4, 8])
def test_right_and_wrong_answers_of_other_lessons(lesson, tmp_path):
    "Inputs that are functions, lists, and numbers; values that are words."
    tasks = make_assignment([lesson]).tasks
    export_assignment(tmp_path / "work", [lesson])
    key = json.loads((tmp_path / f"work/teacher/lesson_{lesson}_key.ipynb").read_text())["cells"]
    write_notebook(tmp_path / "right.ipynb", *(cell["source"] for cell in key if cell["cell_type"] == "code"))
    assert {grade.name: grade.mistake for grade in grade_notebook(tmp_path / "right.ipynb", tasks, QUICK)} == {"": ""}
    mistakes = {
        task.name: next(each for each in task.exercise.mistakes if task.name not in each.__code__.co_names)
        for task in tasks
        if task.asks_for_function
    }
    module = inspect.getsource(inspect.getmodule(next(iter(mistakes.values()))))
    code = re.sub(r"^from \.\S* import .*$", "", module, flags=re.M)
    own = "Exercise = Question = Guess = lambda *some, **more: None\nfrom gib_nb.information.exact import mutual_information\n"
    names = "\n".join(f"{name} = {mistake.__name__}" for name, mistake in mistakes.items())
    write_notebook(tmp_path / "wrong.ipynb", "import numpy as np", own + code + "\n" + names)
    found = {grade.exercise: grade.mistake for grade in grade_notebook(tmp_path / "wrong.ipynb", tasks, QUICK)}
    assert {name: found[name] for name in mistakes} == {
        name: mistake.__name__.replace("_", " ") for name, mistake in mistakes.items()
    }


def test_a_student_may_hand_in_several_notebooks(tmp_path):
    for place in ("ada.ipynb", "ben_lesson_1.ipynb", "ben-lesson-2.ipynb", "eve/x.ipynb", "eve/data.csv", "pdf/a.pdf"):
        write_notebook(tmp_path / place, "1")
    write_notebook(tmp_path / "eve/.ipynb_checkpoints/x.ipynb", "1")
    found = {name: [path.name for path in files] for name, files in handed_in(tmp_path).items()}
    assert found == {
        "ada": ["ada.ipynb"],
        "ben": ["ben-lesson-2.ipynb", "ben_lesson_1.ipynb"],
        "eve": ["x.ipynb"],
        "pdf": ["a.pdf"],
    }


# ---- what is handed out


@pytest.mark.parametrize("form", ["plain", "nbgrader", "otter"])
def test_students_get_no_solutions_and_no_hidden_cases(form, tmp_path):
    assignment = export_assignment(tmp_path, list(LESSONS), {"half_of_xor": 3}, form)
    folder = tmp_path / ("release" if form == "nbgrader" else "student")
    files = sorted(folder.rglob("*.ipynb"))
    assert len(files) == len(LESSONS)
    text = "\n".join(path.read_text() for path in files)
    notebooks = [json.loads(path.read_text()) for path in files]
    for task in assignment.tasks:
        code = [each for notebook in notebooks for each in sources(notebook) if f"{task.name}" in each]
        assert any(f"({task.points:g} point" in each for each in code), task.name
        assert any(each == task.stub for each in code), task.name
        if isinstance(task.exercise, Exercise):
            for line in task.exercise.solution.__code__.co_consts[1:]:
                assert not (isinstance(line, str) and len(line) > 30 and line in text)
        else:
            assert task.exercise.explanation not in text
    assert "HIDDEN" not in text and "BEGIN SOLUTION" not in text and "check(" not in text.replace("grader.check(", "")
    assert "(3 points)" in text and load_key(tmp_path / "teacher" / "key.json").record([1]) == assignment.record([1])


def made_by(program, folder, *words):
    "Run another grader's program in a folder, if it is installed."
    if (found := shutil.which(program)) is None:
        pytest.skip(f"{program} is not installed: pip install nbgrader otter-grader")
    path = os.pathsep.join([str(pathlib.Path(found).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(pathlib.Path(__file__).parents[1])}
    done = subprocess.run([program, *words], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def without(cell, *keys):
    "A cell's metadata for nbgrader without some entries."
    return {key: value for key, value in cell["metadata"]["nbgrader"].items() if key not in keys}


def test_nbgrader_accepts_the_assignment_and_makes_the_same_one(tmp_path):
    export_assignment(tmp_path, [1, 4], form="nbgrader")
    path = tmp_path / "release/lesson_4/lesson_4.ipynb"
    ours = json.loads(path.read_text())["cells"]
    (tmp_path / "nbgrader_config.py").write_text("")
    made_by("nbgrader", tmp_path, "generate_assignment", "lesson_4", "--force")
    theirs = json.loads(path.read_text())["cells"]
    assert [cell["id"] for cell in theirs] == [cell["id"] for cell in ours]
    for mine, cell in zip(ours, theirs):
        assert without(cell, "checksum", "cell_type") == without(mine)
        solved = "solution" in cell["id"] or cell["metadata"]["nbgrader"]["solution"]
        assert solved or "".join(cell["source"]).strip() == "".join(mine["source"]).strip()
    assert "BEGIN" not in path.read_text()


def test_otter_accepts_the_assignment_and_makes_the_same_one(tmp_path):
    "`otter assign` runs the tests on the solutions, and fails if one of them fails."
    export_assignment(tmp_path, [4], form="otter")
    ours = json.loads((tmp_path / "student/lesson_4.ipynb").read_text())
    made_by("otter", tmp_path, "assign", "teacher/lesson_4.ipynb", "made")
    theirs = json.loads((tmp_path / "made/student/lesson_4.ipynb").read_text())
    tests = [notebook["metadata"]["otter"]["tests"] for notebook in (ours, theirs)]
    points = lambda test: (test["points"], len(test["suites"][0]["cases"]))
    assert {name: points(test) for name, test in tests[0].items()} == {
        name: points(test) for name, test in tests[1].items()
    }
    checks = [[each for each in sources(notebook) if "grader.check" in each] for notebook in (ours, theirs)]
    assert checks[0] == checks[1] and len(checks[0]) == 2


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_text_of_a_task_is_that_of_the_lesson(lesson):
    for task in make_assignment([lesson]).tasks:
        assert task.text and "](" not in task.text and "**1.**" not in task.text
        assert task.stub.startswith(f"def {task.name}(" if task.asks_for_function else f"{task.name} = ...")


def test_without_the_notebooks_of_the_project_the_docstrings_are_the_tasks(tmp_path, monkeypatch):
    "As where only the package is installed."
    monkeypatch.setattr("gib_nb.course.assignment.LESSON_FOLDER", tmp_path)
    [lesson] = make_assignment([1]).lessons
    assert lesson.title == "Lesson 1" and lesson.tasks[0].text == exercises_of(1)["entropy_in_bits"].solution.__doc__
    assert lesson.tasks[0].stub == "def entropy_in_bits(p):\n    ..."


def test_wrong_use_is_explained(tmp_path, capsys):
    for words, message in (
        (["export", tmp_path / "a", "--lessons", "12"], "expected a lesson from 1 to 11 (got 12)"),
        (["export", tmp_path / "a", "--lessons", "no.py"], "expected the number of a lesson, or a Python file"),
        (["export", tmp_path / "a", "--points", "entropy=2"], "expected points of exercises such as entropy_in_bits"),
        (
            ["export", tmp_path / "a", "--points", "entropy_in_bits=-2"],
            "expected points ≥ 0 for entropy_in_bits (got -2)",
        ),
        (["grade", tmp_path], "expected the key of the assignment (got no file"),
        (["new", "my lesson"], "expected a name of letters, digits, and _"),
    ):
        assert main(["course", *map(str, words)]) == 1
        assert message in capsys.readouterr().err
    export_assignment(tmp_path / "b", [1])
    assert main(["course", "export", str(tmp_path / "b")]) == 1 and "expected a new folder" in capsys.readouterr().err
    assert main(["course", "grade", str(tmp_path / "b")]) == 1
    assert "expected handed-in notebooks" in capsys.readouterr().err


# ---- a lesson of one's own


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gib_nb.exercises.base.OWN", dict(OWN))
    return tmp_path


@pytest.mark.parametrize("form", ["plain", "nbgrader", "otter"])
def test_the_skeleton_becomes_homework(own, form, capsys):
    assert main(["course", "new", "gini"]) == 0 and main(["course", "new", "gini"]) == 1
    assert main(["course", "check", "gini.py"]) == 0
    assert "gini_function: right, and 1 mistake is recognized" in capsys.readouterr().out
    assert main(["course", "export", "work", "--lessons", "gini.py", "1", "--format", form]) == 0
    wrong = "def gini_function(p):\n    return p @ p\ngini_question = 0.25"
    write_notebook(own / "work/submitted/ada.ipynb", *right(), wrong)
    assert main(["course", "grade", "work", "--no-progress"]) == 0
    found = list(csv.DictReader(open(own / "work/grades.csv", newline="")))
    assert [row["mistake"] for row in found] == ["chance to agree", "0.25", "", "", "", "", ""]


def test_a_lesson_that_would_not_work_is_refused(own):
    text = """"# A lesson"\nfrom gib_nb.exercises.own import exercise\ndef helper(n):\n    return n\n{}"""
    for code, message in (
        ("", "expected functions with the decorator exercise"),
        ("@exercise(cases=[1])\ndef f(n):\n    return n", "expected a docstring"),
        (
            "def g(n):\n    'No.'\n    return n\n@exercise(cases=[1], mistakes=[g])\ndef f(n):\n    'Yes.'\n    return n",
            "tells g",
        ),
        ("@exercise(cases=[1])\ndef half_of_xor(n):\n    'Yes.'\n    return n", "no exercise of the course has"),
    ):
        (own / "mine.py").write_text(text.format(code))
        with pytest.raises(ValueError, match=message):
            load_lesson(own / "mine.py")
    (own / "mine.py").write_text(text.format("@exercise(cases=[1])\ndef f(n):\n    'Yes.'\n    return helper(n)"))
    with pytest.raises(ValueError, match="needs only imports"):
        export_assignment(own / "work", ["mine.py"])


def test_the_page_of_a_class_without_runnable_notebooks():
    assignment = make_assignment([1])
    assert "No handed-in notebook could be run." in class_page({}, assignment, {})


def test_the_time_for_a_whole_notebook_is_shared(tmp_path):
    "Several endless cells use it up; what was defined before is lost with the process, and the reason is given."
    cells = ["import time\ntime.sleep(100)", *right(), "while True: pass"]
    path = write_notebook(tmp_path / "a.ipynb", *cells)
    limits = Limits(seconds=0.3, total=2.5)
    assert {grade.mistake for grade in grade_notebook(path, make_assignment([1]).tasks, limits)} <= {NO_END, ""}
    with pytest.raises(ValueError, match="expected 0 < seconds ≤ total"):
        Limits(seconds=10, total=5)
