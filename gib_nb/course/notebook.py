"""Notebooks made from text, in the plain, nbgrader, and otter formats."""

import textwrap

from gib_nb.course.assignment import Lesson, Task, example_of, imports_of, literal, source_of
from gib_nb.exercises.verdict import format_value

KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
RULES = """Complete the cells and hand in this notebook with all exercises, {points} points in total. Your answers are graded with
inputs that are not shown here. Keep the names of functions and variables, and use only the arguments of a function. A
cell that raises an error costs only its own points."""


def notebook(cells: list[dict], **metadata) -> dict:
    "A notebook of cells, as JSON."
    return {"cells": cells, "metadata": KERNEL | metadata, "nbformat": 4, "nbformat_minor": 5}


def cell(kind: str, name: str, source: str, **metadata) -> dict:
    "A cell: `kind` is markdown, code, or raw; `name` is its id."
    more = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "id": name[:64], "metadata": metadata, "source": source} | more


def head(lesson: Lesson) -> str:
    "The text above the exercises."
    points = sum(task.points for task in lesson.tasks)
    return f"{lesson.head}\n\n{RULES.format(points=f'{points:g}')}"


def heading(number: int, task: Task) -> str:
    "The text of an exercise, with its points."
    return f"## {number} · `{task.name}` ({task.points:g} {'point' if task.points == 1 else 'points'})\n\n{task.text}"


def example(task: Task) -> str:
    "A call of the function whose value students can compare; empty if it cannot be shown."
    found = example_of(task)
    return f"{found[0]}  # expected: {format_value(found[1])}" if found else ""


def plain(lesson: Lesson) -> dict:
    "The notebook for students, which any Jupyter can open."
    cells = [cell("markdown", "head", head(lesson)), cell("code", "imports", imports_of(lesson.tasks))]
    for number, task in enumerate(lesson.tasks, 1):
        cells += [cell("markdown", f"task-{task.name}", heading(number, task)), cell("code", task.name, task.stub)]
        if shown := example(task):
            cells += [cell("code", f"example-{task.name}", shown)]
    return notebook(cells)


def key(lesson: Lesson, own_file: str | None) -> dict:
    "The notebook for the teacher: solutions, checks, and the mistakes that are recognized."
    load = f'\n\nload_lesson("{own_file}")' if own_file else ""
    imports = "from gib_nb.exercises import check" + (
        "\nfrom gib_nb.exercises.own import load_lesson" if own_file else ""
    )
    cells = [
        cell("markdown", "head", f"{lesson.head}\n\nThe key, for teachers only."),
        cell("code", "imports", f"{imports_of(lesson.tasks)}\n{imports}{load}"),
    ]
    for number, task in enumerate(lesson.tasks, 1):
        cells += [
            cell("markdown", f"task-{task.name}", heading(number, task)),
            cell("code", task.name, f'{source_of(task)}\n\n\ncheck("{task.name}", {task.name})'),
            cell("markdown", f"mistakes-{task.name}", mistakes(task)),
        ]
    return notebook(cells)


def mistakes(task: Task) -> str:
    "The mistakes that are recognized, with what students read."
    if task.asks_for_function:
        count = len(task.exercise.cases)
        found = {each.__name__.replace("_", " "): each.__doc__ for each in task.exercise.mistakes}
        words = f"Graded with {count} hidden {'case' if count == 1 else 'cases'}."
    else:
        found = {f"{wrong}": reply for wrong, reply in task.exercise.replies.items()}
        words = task.exercise.explanation
    rows = "".join(
        f"\n| {name} | {' '.join(text.split()).replace('|', chr(92) + '|')} |" for name, text in found.items()
    )
    return f"{words}\n\n| mistake | message |\n|---|---|{rows}" if found else words


def test_of(task: Task) -> str:
    "A visible test: the example, as an assertion; empty if there is none."
    found = example_of(task)
    return f"assert np.allclose({found[0]}, {literal(found[1])})" if found else ""


def hidden_test(task: Task) -> str:
    """A test on all hidden cases, as code for another grader.

    Exercises of the course are tested by `check`, whose message names the mistake. The cases of your own exercises are written out,
    because the other grader does not have your file; ValueError if that is impossible.
    """
    if isinstance(task.exercise.lesson, int):
        return f'from gib_nb.exercises import check\n\nverdict = check("{task.name}", {task.name})\nassert verdict, repr(verdict)'
    if not task.asks_for_function:
        answer = task.exercise.answer
        return (
            f"assert {task.name} == {answer!r}"
            if task.exercise.choices
            else f"assert np.isclose({task.name}, {answer!r}, 0, {task.exercise.tolerance * max(1, abs(answer))!r})"
        )
    if task.exercise.through or any(callable(value) for case in task.exercise.cases for value in case):
        raise ValueError(f"expected cases of {task.name} that can be written out (got functions); use --format plain")
    lines = [
        f"np.testing.assert_allclose({task.name}({', '.join(map(literal, case))}), {literal(right)}, {task.exercise.tolerance!r}, {task.exercise.tolerance!r})"
        for case, right in zip(task.exercise.cases, task.exercise.right)
    ]
    return "\n".join(["import numpy as np", "", *lines])


def solved(task: Task, begin: str, end: str) -> str:
    "The solution with marks around what students write themselves."
    source = source_of(task)
    if not task.asks_for_function:
        return f"{begin}\n{source}\n{end}"
    first, _, body = source.partition("\n")
    return f"{first}\n{textwrap.indent(begin, '    ')}\n{body}\n{textwrap.indent(end, '    ')}"


def graded(name: str, **flags) -> dict:
    "The metadata of a cell for nbgrader."
    usual = {"grade": False, "grade_id": name, "locked": True, "schema_version": 3, "solution": False, "task": False}
    changeable = {} if flags.get("locked") is False else {"editable": False}
    return {"deletable": False} | changeable | {"nbgrader": usual | flags}


def nbgrader(lesson: Lesson, teacher: bool) -> dict:
    "The notebook for nbgrader: of the teacher, as `nbgrader generate_assignment` reads it, or of the students."
    cells = [
        cell("markdown", "head", head(lesson), **graded("head")),
        cell("code", "imports", imports_of(lesson.tasks), **graded("imports")),
    ]
    for number, task in enumerate(lesson.tasks, 1):
        answer = solved(task, "### BEGIN SOLUTION", "### END SOLUTION") if teacher else task.stub
        hidden = f"### BEGIN HIDDEN TESTS\n{hidden_test(task)}\n### END HIDDEN TESTS" if teacher else ""
        test = "\n".join([f"# {task.points:g} points, for hidden cases too", *filter(None, [test_of(task), hidden])])
        cells += [
            cell("markdown", f"task-{task.name}", heading(number, task), **graded(f"task-{task.name}")),
            cell("code", task.name, answer, **graded(task.name, solution=True, locked=False)),
            cell("code", f"test-{task.name}", test, **graded(f"test-{task.name}", grade=True, points=task.points)),
        ]
    return notebook(cells)


def otter_master(lesson: Lesson) -> dict:
    "The teacher's notebook for `otter assign`, which makes the students' notebook and the autograder of it."
    raw = lambda name, text: cell("raw", name, text)
    config = "# ASSIGNMENT CONFIG\ninit_cell: true\ncheck_all_cell: false\nexport_cell: false\ntests:\n  files: false"
    cells = [
        raw("config", config),
        cell("markdown", "head", head(lesson)),
        cell("code", "imports", imports_of(lesson.tasks)),
    ]
    for number, task in enumerate(lesson.tasks, 1):
        name = task.name
        tests = [cell("code", f"test-{name}", test_of(task))] if test_of(task) else []
        cells += [
            raw(f"begin-{name}", f"# BEGIN QUESTION\nname: {name}\npoints: {task.points:g}"),
            cell("markdown", f"task-{name}", heading(number, task)),
            raw(f"begin-solution-{name}", "# BEGIN SOLUTION"),
            cell("code", name, solved(task, "# BEGIN SOLUTION", "# END SOLUTION")),
            raw(f"end-solution-{name}", "# END SOLUTION"),
            raw(f"begin-tests-{name}", "# BEGIN TESTS"),
            *tests,
            cell("code", f"hidden-{name}", f"# HIDDEN\n{hidden_test(task)}"),
            raw(f"end-tests-{name}", "# END TESTS"),
            raw(f"end-{name}", "# END QUESTION"),
        ]
    return notebook(cells)


def otter_student(lesson: Lesson) -> dict:
    "The students' notebook for otter, with the visible tests in its metadata."
    begin = f'import otter\n\ngrader = otter.Notebook("{lesson.name}.ipynb")'
    cells = [
        cell("code", "otter", begin, deletable=False, editable=False),
        cell("markdown", "head", head(lesson)),
        cell("code", "imports", imports_of(lesson.tasks)),
    ]
    tests = {}
    for number, task in enumerate(lesson.tasks, 1):
        lines = test_of(task)
        cells += [cell("markdown", f"task-{task.name}", heading(number, task)), cell("code", task.name, task.stub)]
        if lines:
            check = f'grader.check("{task.name}")'
            cells.append(cell("code", f"check-{task.name}", check, deletable=False, editable=False))
        cases = [{"code": f">>> {lines}", "hidden": False, "locked": False}] if lines else []
        suite = {"cases": cases, "scored": True, "setup": "", "teardown": "", "type": "doctest"}
        tests[task.name] = {"name": task.name, "points": task.points, "suites": [suite]}
    return notebook(cells, otter={"OK_FORMAT": True, "tests": tests})
