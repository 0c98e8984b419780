"""Write an assignment into a folder: notebooks for students, and a key for the teacher."""

import json
import pathlib
import shutil

from gib_nb.course import notebook
from gib_nb.course.assignment import KEY, Assignment, make_assignment
from gib_nb.utils.files import write_atomically, write_json

FORMATS = ("plain", "nbgrader", "otter")
SUBMITTED = """Put the notebooks that you get from students here, and run: gib-nb course grade FOLDER

A file belongs to the student of its name (ada.ipynb, ada_lesson_1.ipynb), a folder to the student of the folder's name
(ada/lesson_1.ipynb).
"""


def export_assignment(
    folder: pathlib.Path,
    sources: list,  # numbers of lessons, or paths of lessons of your own
    points: dict[str, float] | None = None,
    form: str = "plain",  # one of `FORMATS`
) -> Assignment:
    "Write the assignment; FileExistsError if the folder already holds another one."
    assignment = make_assignment(sources, points)
    if (folder / "teacher" / KEY).exists():
        raise FileExistsError(f"expected a new folder (got {folder}, which has a key); choose another one or remove it")
    kept = [own_copy(source, folder / "teacher") for source in sources]
    for lesson, source in zip(assignment.lessons, kept):
        for path, content in notebooks(lesson, form).items():
            write(folder / path, content)
        write(
            folder / "teacher" / f"{lesson.name}_key.ipynb",
            notebook.key(lesson, None if isinstance(source, int) else source),
        )
    write_json(folder / "teacher" / KEY, assignment.record(kept))
    write_atomically(folder / "submitted" / "README.md", SUBMITTED.encode())
    return assignment


def own_copy(source, folder: pathlib.Path):
    "The number of a lesson, or the name of a copy of its file beside the key."
    if str(source).isdecimal():
        return int(source)
    folder.mkdir(parents=True, exist_ok=True)
    return pathlib.Path(shutil.copy(source, folder)).name


def notebooks(lesson, form: str) -> dict[str, dict]:  # path in the folder → notebook
    "The notebooks of a lesson in a format."
    name = lesson.name
    match form:
        case "plain":
            return {f"student/{name}.ipynb": notebook.plain(lesson)}
        case "nbgrader":
            found = {True: "source", False: "release"}
            return {f"{place}/{name}/{name}.ipynb": notebook.nbgrader(lesson, who) for who, place in found.items()}
        case "otter":
            master = {f"teacher/{name}.ipynb": notebook.otter_master(lesson)}
            return master | {f"student/{name}.ipynb": notebook.otter_student(lesson)}
    raise ValueError(f"expected a format of {', '.join(FORMATS)} (got {form})")


def write(path: pathlib.Path, content: dict):
    "Write a notebook."
    write_atomically(path, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
