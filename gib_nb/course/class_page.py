"""A page that shows a graded class at a glance: which mistakes were made how often, and by whom."""

import html
import statistics
from dataclasses import replace

from gib_nb.course.assignment import Assignment
from gib_nb.course.grade import CELL_FAILS, ENDED, MISSING, NO_CELLS, NO_END, NO_NOTEBOOK, TOO_MUCH, UNKNOWN, Grade
from gib_nb.exercises.verdict import UNWRITTEN
from gib_nb.report.html import page, paragraph, scrolled
from gib_nb.utils.files import shipped_file

KINDS = {  # class of the style sheet → what it means
    "right": "right",
    "known": "a mistake that is recognized",
    "other": "another wrong value",
    "stops": "does not run or does not end",
    "missing": "no answer",
}
OTHER = (UNKNOWN, "no number", "no such choice", "no function")
STOPS, NOTHING = (CELL_FAILS, NO_END, ENDED, TOO_MUCH, "an error"), (MISSING, UNWRITTEN, NO_NOTEBOOK, NO_CELLS)
WHERE = {
    "files": {
        "kernel": "Files outside of its own folder were closed to it by the operating system",
        "interpreter": "Files outside of its own folder were closed to it by the Python interpreter, which code that avoids Python can evade",
    },
    "network": {
        "kernel": "the network and other processes by the operating system",
        "interpreter": "the network and other processes by the Python interpreter",
    },
}


def kind_of(grade: Grade) -> str:
    "The kind of an answer, one of `KINDS`."
    named = (
        {"": "right"}
        | dict.fromkeys(OTHER, "other")
        | dict.fromkeys(STOPS, "stops")
        | dict.fromkeys(NOTHING, "missing")
    )
    return named.get(grade.mistake, "known")


def class_page(
    students: dict[str, list[Grade]],  # name → a grade for each task
    assignment: Assignment,
    confined_by: dict,  # "files", "network" → by which means; empty if nothing was run
    names: bool = True,  # False: for showing it to the class
) -> str:
    "The page as HTML, complete in itself."
    titles = ", ".join(lesson.title for lesson in assignment.lessons)
    style = shipped_file("course.css").read_text(encoding="utf-8")
    if not names:
        students = {name: [replace(grade, name="") for grade in grades] for name, grades in students.items()}
    parts = [
        f"<style>{style}</style><main class='course'><h1>{html.escape(titles)}</h1>",
        cards(students, assignment),
        keys(),
        most_frequent(students),
        "<h2>Exercises</h2>",
        paragraph(
            f"The most frequent mistakes come first. Open a mistake to see its message{' and who made it' * names}."
        ),
        *(exercise_part(number, task, students) for number, task in enumerate(assignment.tasks)),
        f"<h2>Students</h2>{students_table(students, assignment)}" if names else "",
        paragraph(how_graded(confined_by)),
        "</main>",
    ]
    return page(f"Homework: {titles}", "\n".join(parts))


def cards(students: dict, assignment: Assignment) -> str:
    "The numbers that come first."
    most, totals = sum(task.points for task in assignment.tasks), [total(grades) for grades in students.values()]
    grades = [grade for each in students.values() for grade in each]
    of_all = lambda kind: f"{sum(kind_of(grade) == kind for grade in grades) / max(1, len(grades)):.0%}"
    shown = {
        "students": len(students),
        f"mean of {most:g} points": f"{statistics.mean(totals):.1f}" if totals else "–",
        "median": f"{statistics.median(totals):g}" if totals else "–",
        "of the answers are right": of_all("right"),
        "have a recognized mistake": of_all("known"),
    }
    return f'<ul class="cards">{"".join(f"<li><b>{value}</b><span>{name}</span></li>" for name, value in shown.items())}</ul>'


def total(grades: list[Grade]) -> float:
    "The points of a student."
    return sum(grade.points for grade in grades)


def keys() -> str:
    "The colors and their meaning."
    spans = "".join(f'<span><i class="{kind}"></i>{words}</span>' for kind, words in KINDS.items())
    return f'<div class="keys">{spans}</div>'


def exercise_part(number: int, task, students: dict) -> str:
    "The answers to one exercise: a bar with all of them, and the mistakes by frequency."
    grades = [each[number] for each in students.values()]
    count = {kind: sum(kind_of(grade) == kind for grade in grades) for kind in KINDS}
    label = ", ".join(f"{count[kind]} {words}" for kind, words in KINDS.items() if count[kind])
    bar = "".join(f'<i class="{kind}" style="flex:{count[kind]}"></i>' for kind in KINDS if count[kind])
    found = {}
    for grade in grades:
        if grade.mistake:
            found.setdefault(grade.mistake, []).append(grade)
    by_frequency = sorted(found.values(), key=lambda some: (-len(some), some[0].mistake))
    rows = [mistake_row(some, len(by_frequency[0])) for some in by_frequency]
    points = f"{task.points:g} {'point' if task.points == 1 else 'points'} · {count['right']} of {len(grades)} right"
    return (
        f"<section><h3><code>{html.escape(task.name)}</code><small>{points}</small></h3>"
        f'<div class="stack" role="img" aria-label="{label}" title="{label}">{bar}</div>{"".join(rows)}</section>'
    )


def most_frequent(students: dict, most: int = 5) -> str:
    "The recognized mistakes that several students share, for the next lesson; empty if there are none."
    found = {}
    for grade in (grade for grades in students.values() for grade in grades if kind_of(grade) == "known"):
        found.setdefault((grade.exercise, grade.mistake), []).append(grade)
    shared = sorted((some for some in found.values() if len(some) > 1), key=len, reverse=True)[:most]
    if not shared:
        return ""
    rows = "".join(mistake_row(some, len(shared[0]), f" · {some[0].exercise}") for some in shared)
    return f"<h2>To talk about first</h2>{paragraph('Recognized mistakes that several students made.')}{rows}"


def mistake_row(grades: list[Grade], most: int, more: str = "") -> str:
    "A mistake with its bar, which opens to its message and the names; the bar of `most` students is full."
    name, kind = grades[0].mistake, kind_of(grades[0])
    if len({grade.message for grade in grades}) == 1:
        who = ", ".join(html.escape(grade.name) for grade in grades if grade.name)
        inside = f'<p>{html.escape(grades[0].message)}</p><p class="who">{who}</p>'
    else:
        line = '<p><span class="who">{}</span> {}</p>'.format
        inside = "".join(line(html.escape(grade.name), html.escape(grade.message)) for grade in grades)
    bar = f'<span class="bar {kind}" style="width:{100 * len(grades) / most:.0f}%"></span>'
    return (
        f"<details><summary><b>{len(grades)}</b><span>{bar}</span><span>{html.escape(name + more)}</span></summary>"
        f"<div>{inside}</div></details>"
    )


def students_table(students: dict, assignment: Assignment) -> str:
    "A row for each student, with the mistakes in short."
    head = "".join(f"<th>{html.escape(task.name)}</th>" for task in assignment.tasks)
    lines = []
    for name in sorted(students, key=str.lower):
        cells = "".join(
            f'<td class="cell" title="{html.escape(grade.message)}"><i class="{kind_of(grade)}"></i>'
            f"{html.escape(grade.mistake) or '✓'}</td>"
            for grade in students[name]
        )
        own = html.escape(name)
        points = f'<td class="points">{total(students[name]):g}</td>'
        lines.append(f'<tr><th scope="row" title="{own}">{own}</th>{points}{cells}</tr>')
    return scrolled(
        f'<table><thead><tr><th>name</th><th class="points">points</th>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'
    )


def how_graded(confined_by: dict) -> str:
    "What protected the grader, in words."
    if not confined_by:
        return "No handed-in notebook could be run."
    return (
        "Each notebook ran in a process of its own, with limits on time and memory. It was sent inputs and returned values, "
        f"which were compared outside of it. {'; '.join(WHERE[part][confined_by[part]] for part in WHERE)}."
    )
