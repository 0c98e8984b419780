"""An assignment: which exercises it has, with how many points, and what students and teachers see of each."""

import ast
import dis
import inspect
import json
import pathlib
import re
import textwrap
import types
from dataclasses import dataclass

import numpy as np

from gib_nb.exercises.base import LESSONS, Exercise, exercises_of
from gib_nb.exercises.own import load_lesson
from gib_nb.exercises.verdict import format_value

KEY = "key.json"  # of the teacher; `gib-nb course grade` reads it
LESSON_FOLDER = pathlib.Path(__file__).resolve().parents[2] / "nbs" / "lessons"  # only in a clone of the project
EXAMPLE = 160  # characters that an example may have


@dataclass(frozen=True)
class Task:
    "An exercise of an assignment."

    exercise: object  # `Exercise` or `Question`
    points: float
    lesson: str  # name of its notebook
    text: str  # what students have to do, in Markdown
    stub: str  # the code that they complete

    @property
    def name(self) -> str:
        return self.exercise.name

    @property
    def asks_for_function(self) -> bool:
        return isinstance(self.exercise, Exercise)


@dataclass(frozen=True)
class Lesson:
    "The exercises of one lesson as a part of an assignment."

    name: str  # such as "lesson_1"
    title: str
    head: str  # Markdown
    tasks: tuple[Task, ...]


@dataclass(frozen=True)
class Assignment:
    "The lessons whose exercises are homework."

    lessons: tuple[Lesson, ...]

    @property
    def tasks(self) -> list[Task]:
        return [task for lesson in self.lessons for task in lesson.tasks]

    def record(self, sources: list) -> dict:
        "What the key file holds: where the exercises come from, and the points of each."
        return {"lessons": sources, "points": {task.name: task.points for task in self.tasks}}


def make_assignment(
    sources: list,  # numbers of lessons, or paths of lessons of your own
    points: dict[str, float] | None = None,  # of some exercises; the others keep theirs
) -> Assignment:
    "The assignment of some lessons; ValueError for an unknown lesson or exercise."
    lessons = tuple(
        built_in(int(source), points or {}) if str(source).isdecimal() else own(source, points or {})
        for source in sources
    )
    names = [task.name for lesson in lessons for task in lesson.tasks]
    if unknown := set(points or {}) - set(names):
        raise ValueError(
            f"expected points of exercises such as {', '.join(names[:3])} (got {', '.join(sorted(unknown))})"
        )
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"expected every exercise once (got {', '.join(sorted(twice))} twice); rename one")
    return Assignment(lessons)


def load_key(path: pathlib.Path) -> Assignment:
    "The assignment of a key file, which `gib-nb course export` has written."
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        sources = [source if isinstance(source, int) else path.parent / source for source in record["lessons"]]
        return make_assignment(sources, record["points"])
    except (KeyError, TypeError, json.JSONDecodeError):
        raise ValueError(f"expected the key of an assignment (got {path}); gib-nb course export writes one") from None


def built_in(number: int, points: dict) -> Lesson:
    "A lesson of this course."
    if number not in LESSONS:
        raise ValueError(f"expected a lesson from {LESSONS[0]} to {LESSONS[-1]} (got {number})")
    texts = texts_of(number)
    head = texts.pop("", f"# Lesson {number}")
    tasks = tuple(task_of(exercise, points, f"lesson_{number}", texts) for exercise in exercises_of(number).values())
    return Lesson(f"lesson_{number}", head.removeprefix("# "), head, tasks)


def own(path, points: dict) -> Lesson:
    "A lesson of the teacher's own, from its file."
    lesson = load_lesson(pathlib.Path(path))
    tasks = tuple(task_of(exercise, points, lesson.name, {}) for exercise in lesson.exercises)
    return Lesson(lesson.name, lesson.title, lesson.text, tasks)


def task_of(exercise, points: dict, lesson: str, texts: dict) -> Task:
    "The task of an exercise; its text is that of the lesson's notebook, or else its docstring."
    text, stub = texts.get(exercise.name, ("", ""))
    if isinstance(exercise, Exercise):
        text = text or inspect.getdoc(exercise.solution)
        stub = stub or f"def {exercise.name}{inspect.signature(exercise.solution)}:\n    ..."
    else:
        choices = "".join(f"\n- **{letter}** {words}" for letter, words in exercise.choices.items())
        text = f"{exercise.text}\n{choices}" if choices else exercise.text
        letters = [f'"{letter}"' for letter in exercise.choices]
        number = f"a number{exercise.unit and f', in {exercise.unit}'}"
        kind = f"{', '.join(letters[:-1])}, or {letters[-1]}" if letters else number
        stub = f"{exercise.name} = ...  # {kind}"
    value = float(points.get(exercise.name, exercise.points))
    if not value >= 0:
        raise ValueError(f"expected points ≥ 0 for {exercise.name} (got {value:g})")
    return Task(exercise, value, lesson, text, stub)


def texts_of(number: int) -> dict[str, tuple[str, str]]:
    "Exercise → (its text, its stub) of a lesson's notebook, and the title for ''; empty where there are no notebooks."
    paths = sorted(LESSON_FOLDER.glob(f"{number:02}_*.ipynb"))
    if not paths:
        return {}
    cells = json.loads(paths[0].read_text(encoding="utf-8"))["cells"]
    sources = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    found = {"": sources[0][1].partition("\n")[0]}
    for (kind, text), (_, code) in zip(sources, sources[1:]):
        if kind == "markdown" and (asked := re.search(r'^check\("(\w+)"', code, re.M)):
            task = re.sub(r".*?^\*\*\d+\.\*\* ", "", text, flags=re.S | re.M)
            stub = next(node for node in ast.parse(code).body if getattr(node, "name", "") == asked[1])
            lines = code.splitlines()[stub.lineno - 1 : stub.end_lineno]
            without_links = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", task)
            found[asked[1]] = without_links, "\n".join(lines)
    return found


def imports_of(tasks) -> str:
    "The imports that the solutions need, always with NumPy; ValueError for a solution that needs another helper."
    needed = {"import numpy as np": None}
    for task in tasks:
        function = task.exercise.solution if task.asks_for_function else None
        for name in names_in(function.__code__) if function else ():
            thing = function.__globals__.get(name, function)
            if isinstance(thing, types.ModuleType):
                named = thing.__name__ if thing.__name__ == name else f"{thing.__name__} as {name}"
                needed[f"import {named}"] = None
            elif thing is not function:
                module = getattr(thing, "__module__", None)
                if module in (None, function.__module__):
                    raise ValueError(
                        f"expected a solution of {task.name} that needs only imports (it uses {name}); "
                        f"write what it needs into the function"
                    )
                needed[f"from {module} import {name}"] = None
    return "\n".join(sorted(needed, key=lambda line: (line.startswith("from"), line)))


def names_in(code) -> list[str]:
    "The global names that a function uses, also in functions within it."
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    mine = [line.argval for line in dis.get_instructions(code) if line.opname == "LOAD_GLOBAL"]
    return [*mine, *(name for each in inner for name in names_in(each))]


def source_of(task: Task) -> str:
    "The solution as code: the function without its decorators, or the answer of a question."
    if not task.asks_for_function:
        return f"{task.name} = {task.exercise.answer!r}"
    source = textwrap.dedent(inspect.getsource(task.exercise.solution))
    return source[source.index(f"def {task.name}(") :].rstrip()


def example_of(task: Task) -> tuple[str, object] | None:  # call, right value
    "The easiest case as a call with its value, if it can be written in a line."
    if not task.asks_for_function or task.exercise.through:
        return None
    case, right = task.exercise.cases[0], task.exercise.right[0]
    call = f"{task.name}({', '.join(map(literal, case))})"
    shown = len(call) <= EXAMPLE and len(format_value(right)) <= EXAMPLE
    return (call, right) if shown and not any(map(callable, case)) else None


def literal(value) -> str:
    "A value as Python code."
    if isinstance(value, np.ndarray) and value.ndim:
        return f"np.array({literal(value.tolist())})"
    return re.sub(
        r"\b(nan|inf)\b", r"np.\1", repr(value.item() if isinstance(value, np.generic | np.ndarray) else value)
    )
