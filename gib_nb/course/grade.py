"""Grade handed-in notebooks: a verdict with points for each exercise, by the same checks as in the lessons."""

import csv
import functools
import pathlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace

from gib_nb.course.assignment import Assignment, Task
from gib_nb.course.session import Gone, Limits, Session, TooMuch, cells_of
from gib_nb.exercises.attempt import Endless
from gib_nb.exercises.base import Exercise
from gib_nb.exercises.verdict import UNWRITTEN, Verdict

UNKNOWN = "not recognized"  # a wrong answer that is no known mistake
NO_NOTEBOOK, NO_CELLS, MISSING = "not a notebook", "an empty notebook", "not in the notebook"
CELL_FAILS, NO_END, ENDED, TOO_MUCH = "its cell fails", "no end", "its process ended", "too much memory"


@dataclass(frozen=True)
class Grade:
    "What a student gets for one exercise."

    name: str  # of the student
    lesson: str
    exercise: str
    points: float
    max_points: float
    mistake: str  # its name; empty if the answer is right
    message: str  # what `check` says about it


class Answers:
    "The answers of one notebook, in a process of their own. Use it as a context."

    def __init__(self, cells: list[str], limits: Limits):
        self.cells, self.session = cells, Session(limits)
        self.failed = {}  # number of a cell → (name of the failure, message)

    def __enter__(self):
        self.session.__enter__()
        self.run()
        return self

    def __exit__(self, *error):
        self.session.__exit__(*error)

    def run(self):
        "Run all cells. After one that stops the process, start it again and leave out this cell."
        number = 0
        while number < len(self.cells):
            try:
                if self.failed.get(number, (CELL_FAILS,))[0] in (CELL_FAILS, UNWRITTEN):
                    self._run_cell(number)
                number += 1
            except (Endless, Gone) as error:
                self.failed[number] = name_of(error), str(error)
                if self.session.time_is_up:
                    return
                self.restart()
                number = 0

    def _run_cell(self, number: int):
        self.failed.pop(number, None)
        if error := self.session.run_cell(self.cells[number]):
            where = f" in line {error['line']}" if isinstance(error.get("line"), int) else ""
            text = f"{error.get('type')}{where} of the cell: {error.get('message')}"
            unwritten = error.get("type") == "NotImplementedError"
            self.failed[number] = (
                (UNWRITTEN, "The cell has no answer so far.") if unwritten else (CELL_FAILS, text[:600])
            )

    def restart(self):
        "Start the process again, without any names."
        self.session.stop()
        self.session.start()

    def verdict(self, exercise) -> Verdict:
        "What is said about the answer to an exercise."
        say = functools.partial(Verdict, exercise.name, False)
        try:
            if self.session.broken:
                if self.session.time_is_up:
                    raise Endless(f"The {self.session.limits.total:g} s for the whole notebook are used up.")
                self.restart()
                self.run()
            answer = self.session.look(exercise.name)
        except KeyError:
            return say(*self._why_missing(exercise.name))
        except (Endless, Gone) as error:
            return say(str(error), name_of(error))
        if isinstance(exercise, Exercise):  # the session has limits of its own, which are reached first
            exercise = patient(exercise, self.session.limits.total + 60)
        verdict, stopped = exercise.check(answer), self.session.broken
        if isinstance(stopped, (Gone, TooMuch)):
            return say(str(stopped), name_of(stopped))
        return verdict

    def _why_missing(self, name: str) -> tuple[str, str]:  # message, name of the mistake
        defines = re.compile(rf"^\s*(?:def\s+{name}\b|{name}\s*[:=])", re.M)
        for number, source in enumerate(self.cells):
            if number in self.failed and defines.search(source):
                mistake, message = self.failed[number]
                return message, mistake
        return f"No cell defines {name}.", MISSING


def name_of(error: Exception) -> str:
    "What the stop of a process is called."
    return TOO_MUCH if isinstance(error, TooMuch) else NO_END if isinstance(error, Endless) else ENDED


@functools.cache
def patient(exercise: Exercise, seconds: float) -> Exercise:
    "The exercise with another time limit; its right and wrong values are computed once for a whole class."
    return replace(exercise, time_limit=seconds)


def grade_notebook(
    path: pathlib.Path,
    tasks: list[Task],
    limits: Limits = Limits(),
    name: str = "",  # of the student
    on_start: Callable = lambda confined_by: None,  # is told by which means the process is confined
) -> list[Grade]:
    "Grades for all tasks; a file that is no notebook, or an empty one, gets no points."
    try:
        cells = cells_of(path)
        reason = None if any(source.strip() for source in cells) else (NO_CELLS, "It has no code.")
    except (ValueError, OSError) as error:
        reason = NO_NOTEBOOK, f"{str(error)[:1].upper()}{str(error)[1:]}."
    if reason:
        return [graded(task, Verdict(task.name, False, reason[1], reason[0]), name) for task in tasks]
    with Answers(cells, limits) as answers:
        on_start(answers.session.confined_by)
        return [graded(task, answers.verdict(task.exercise), name) for task in tasks]


def graded(task: Task, verdict: Verdict, name: str) -> Grade:
    "A verdict with its points."
    mistake = "" if verdict else readable(verdict.mistake or UNKNOWN)
    points = task.points if verdict else 0.0
    message = "" if verdict else readable(verdict.message)
    return Grade(name, task.lesson, task.name, points, task.points, mistake, message)


def readable(text: str) -> str:
    "A text in one line, without signs that cannot be written or shown."
    return "".join(sign if sign.isprintable() else "?" for sign in " ".join(text.split()))


def handed_in(folder: pathlib.Path) -> dict[str, list[pathlib.Path]]:  # student → files
    """The files of each student, notebooks if there are some.

    A folder belongs to one student, under its name. A file outside of any folder belongs to the student of its name,
    without the name of the lesson: `ada.ipynb`, `ada_lesson_1.ipynb`, and `ada/lesson_1.ipynb` are all Ada's.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if not path.is_file() or any(part.startswith((".", "__")) for part in parts) or parts[0] == "README.md":
            continue
        alone = re.sub(r"[-_ ]*lesson[-_ ]?\d+$", "", path.stem) or path.stem
        found.setdefault(readable(alone if len(parts) == 1 else parts[0]), []).append(path)
    for student, files in found.items():
        found[student] = [path for path in files if path.suffix == ".ipynb"] or files[:1]
    return dict(sorted(found.items()))


def best(one: Grade, other: Grade) -> Grade:
    "The better of two grades for the same exercise: right before wrong, wrong before missing."
    rank = lambda grade: (grade.points, not grade.mistake, grade.mistake not in (MISSING, NO_NOTEBOOK, NO_CELLS))
    return max(one, other, key=rank)


def grade_class(
    files: dict[str, list[pathlib.Path]],  # student → files, see `handed_in`
    assignment: Assignment,
    limits: Limits = Limits(),
    on_start: Callable = lambda confined_by: None,  # see `grade_notebook`
) -> Iterator[tuple[str, list[Grade]]]:
    "The grades of one student after the other; of several notebooks, the best answer counts."
    for student, paths in files.items():
        found = [grade_notebook(path, assignment.tasks, limits, student, on_start) for path in paths]
        yield student, [functools.reduce(best, grades) for grades in zip(*found)]


def write_csv(grades: list[Grade], file):
    "Grades as a table; text that a spreadsheet would read as a formula is quoted."
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([field.name for field in fields(Grade)])
    for grade in grades:
        writer.writerow([cell(getattr(grade, field.name)) for field in fields(Grade)])


def cell(value):
    "A value for a cell of a table."
    if isinstance(value, str):
        return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
    return f"{value:g}"
