"""`gib-nb course`: exercises as homework, the grading of a class, and lessons of your own."""

import argparse
import pathlib

from gib_nb.cli.common import PLAIN, count, output, report_progress

EXPORT = """FOLDER gets these parts:
  student/      the notebooks to hand out: tasks with points, without solutions and without the hidden cases
  teacher/      the key: solutions, known mistakes with their messages, and key.json for gib-nb course grade
  submitted/    where you put what students hand in

formats:
  plain         notebooks for any Jupyter; gib-nb course grade grades them
  nbgrader      source/ for nbgrader generate_assignment, and release/ as that command writes it
  otter         teacher/LESSON.ipynb for otter assign; student/ has the visible tests for otter.Notebook

gib-nb course grade reads notebooks of all three formats.

examples:
  gib-nb course export homework-1 --lessons 1
  gib-nb course export homework-1 --lessons 1 2 --points entropy_in_bits=3 no_information=0.5
  gib-nb course export homework-2 --lessons gini.py --format otter
"""
GRADE = """FOLDER is that of gib-nb course export, with the handed-in notebooks in submitted/. A file belongs to the student of its
name, without the name of the lesson; a folder with files belongs to the student of the folder's name.

Three files are written into FOLDER, or into --out:
  grades.csv    name, lesson, exercise, points, max_points, mistake, message
  class.html    the class at a glance: which mistakes were made how often, and by whom
  mistakes.html the same without names, to be shown to the class

Every notebook runs in a process of its own, with limits on time and memory, without network, and without access to
other files. The process receives one input at a time and returns a value. It is compared outside, so a notebook cannot
give itself points. docs/homework.md says what these limits do not protect from.

examples:
  gib-nb course grade homework-1
  gib-nb course grade downloads/handed-in --key homework-1/teacher/key.json --out homework-1
"""
NEW = """The file holds one exercise and one question, ready to be changed. The tutorial nbs/tutorials/own_lesson.ipynb leads
through it.

examples:
  gib-nb course new gini
  gib-nb course check gini.py
  gib-nb course export homework-3 --lessons gini.py
"""


def add_parser(commands) -> list:
    "Add the command, and return the parsers of its parts in a list."
    parser = commands.add_parser(
        "course",
        help="hand out exercises as homework, grade a class, and write lessons of your own",
        usage="gib-nb course {export,grade,new,check} ...",
        description="Hand out exercises as homework, grade a class, and write lessons of your own.",
        **PLAIN,
    )
    parts = parser.add_subparsers(prog="gib-nb course", title="parts", dest="part", metavar="PART", required=True)
    return [add_export(parts), add_grade(parts), add_new(parts), add_check(parts)]


def add_export(parts):
    "The parser of `gib-nb course export`."
    parser = parts.add_parser(
        "export",
        help="write exercises as an assignment, with a key",
        usage="gib-nb course export FOLDER [options]",
        description="Write the exercises of lessons as an assignment, and a key for the teacher.",
        epilog=EXPORT,
        **PLAIN,
    )
    parser.add_argument("folder", type=pathlib.Path, metavar="FOLDER", help="a new folder")
    parser.add_argument(
        "--format", dest="form", choices=("plain", "nbgrader", "otter"), default="plain", help="(default: plain)"
    )
    parser.add_argument(
        "--lessons",
        nargs="+",
        default=["1"],
        metavar="N|FILE",
        help="numbers of lessons, or Python files of your own (default: 1)",
    )
    parser.add_argument(
        "--points",
        nargs="+",
        default=[],
        type=points_of,
        metavar="NAME=N",
        help="points of some exercises (default: 2 for a function, 1 for a question)",
    )
    parser.set_defaults(run=export_command)
    return parser


def add_grade(parts):
    "The parser of `gib-nb course grade`."
    parser = parts.add_parser(
        "grade",
        help="grade handed-in notebooks",
        usage="gib-nb course grade FOLDER [options]",
        description="Grade a folder of handed-in notebooks.",
        epilog=GRADE,
        **PLAIN,
    )
    parser.add_argument("folder", type=pathlib.Path, metavar="FOLDER", help="folder of the assignment, or of notebooks")
    parser.add_argument(
        "--key", type=pathlib.Path, metavar="FILE", help="key of the assignment (default: FOLDER/teacher/key.json)"
    )
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="folder of the results (default: FOLDER)")
    parser.add_argument(
        "--seconds",
        type=count,
        default=10,
        metavar="N",
        help="time for one cell or one call of a function (default: 10)",
    )
    parser.add_argument(
        "--total", type=count, default=120, metavar="N", help="seconds for a whole notebook (default: 120)"
    )
    parser.add_argument(
        "--memory", type=count, default=2048, metavar="N", help="megabytes for a notebook (default: 2048)"
    )
    parser.set_defaults(run=grade_command)
    return parser


def add_new(parts):
    "The parser of `gib-nb course new`."
    parser = parts.add_parser(
        "new",
        help="write the skeleton of a lesson of your own",
        usage="gib-nb course new LESSON",
        description="Write a Python file with an exercise and a question to begin with.",
        epilog=NEW,
        **PLAIN,
    )
    parser.add_argument("lesson", metavar="LESSON", help="name of the lesson and of its file, such as gini")
    parser.set_defaults(run=new_command)
    return parser


def add_check(parts):
    "The parser of `gib-nb course check`."
    parser = parts.add_parser(
        "check",
        help="check a lesson of your own",
        usage="gib-nb course check FILE",
        description="Check that each solution is right and that each mistake is recognized by its name.",
        **PLAIN,
    )
    parser.add_argument("file", type=pathlib.Path, metavar="FILE", help="file of a lesson, such as gini.py")
    parser.set_defaults(run=check_command)
    return parser


def points_of(text: str) -> tuple[str, float]:
    "NAME=N as an option; ArgumentTypeError for another text."
    name, _, number = text.partition("=")
    try:
        return name, float(number)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected NAME=N (got {text})") from None


def export_command(args) -> int:
    "Write an assignment; returns the exit code."
    from gib_nb.course.export import export_assignment

    assignment = export_assignment(args.folder, args.lessons, dict(args.points), args.form)
    points = sum(task.points for task in assignment.tasks)
    print(f"{len(assignment.tasks)} exercises, {points:g} points, in {args.folder}")
    for path in sorted(args.folder.rglob("*.*")):
        print(f"  {path.relative_to(args.folder)}")
    return 0


def grade_command(args) -> int:
    "Grade a class; returns the exit code, 1 if there is nothing to grade."
    from gib_nb.course.assignment import KEY, load_key
    from gib_nb.course.class_page import class_page
    from gib_nb.course.grade import grade_class, handed_in, write_csv
    from gib_nb.course.session import Limits

    key, out = args.key or args.folder / "teacher" / KEY, args.out or args.folder
    if not key.is_file():
        raise FileNotFoundError(f"expected the key of the assignment (got no file {key}); name it with --key")
    assignment = load_key(key)
    limits = Limits(args.seconds, max(args.total, args.seconds), args.memory * 2**20)
    submitted = args.folder / "submitted"
    folder = submitted if submitted.is_dir() else args.folder
    files = handed_in(folder)
    if not files:
        raise ValueError(f"expected handed-in notebooks in {folder} (got none)")
    students, confined_by = {}, {}
    for student, grades in grade_class(files, assignment, limits, confined_by.update):
        students[student] = grades
        points = f"{sum(grade.points for grade in grades):g} of {sum(task.points for task in assignment.tasks):g}"
        report_progress(f"{len(students)} of {len(files)}  {student!r}: {points} points", args)
    with output(out / "grades.csv") as file:
        write_csv([grade for grades in students.values() for grade in grades], file)
    for page, names in (("class.html", True), ("mistakes.html", False)):
        with output(out / page) as file:
            file.write(class_page(students, assignment, confined_by, names))
    print(f"{len(students)} students; {out / 'grades.csv'}, {out / 'class.html'}, and {out / 'mistakes.html'}")
    return 0


def new_command(args) -> int:
    "Write the skeleton of a lesson; returns the exit code."
    from gib_nb.course.skeleton import write_skeleton

    path = write_skeleton(pathlib.Path.cwd(), args.lesson)
    print(f"{path.name}: change it, then run: gib-nb course check {path.name}")
    return 0


def check_command(args) -> int:
    "Check a lesson; returns the exit code."
    from gib_nb.exercises.base import Exercise
    from gib_nb.exercises.own import load_lesson

    lesson = load_lesson(args.file)
    for each in lesson.exercises:
        known = len(each.mistakes if isinstance(each, Exercise) else each.replies)
        print(f"{each.name}: right, and {known} {'mistake is' if known == 1 else 'mistakes are'} recognized")
    return 0
