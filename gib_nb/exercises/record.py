"""Which exercises were tried and which are solved, in a file in the folder of the notebook.

In JupyterLite this folder is the storage of the browser, so the same file works there. The environment variable
`GIB_NB_PROGRESS` names another file; if it is empty, nothing is kept. Outside of notebooks, nothing is kept either.
"""

import json
import os
import pathlib
import sys
import warnings

from gib_nb.exercises.verdict import UNWRITTEN, Verdict
from gib_nb.utils.files import write_json

FILE = "gib-progress.json"
WATCHERS = {}  # bar → function without arguments that draws it again after a change


def record_file() -> pathlib.Path | None:
    "The file of the record, or None if none is kept."
    if (named := os.environ.get("GIB_NB_PROGRESS")) is not None:
        return pathlib.Path(named) if named else None
    return pathlib.Path(FILE) if in_notebook() else None


def in_notebook() -> bool:
    "Whether this runs in the kernel of a notebook."
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell is not None and (hasattr(shell, "kernel") or sys.platform == "emscripten")


def read_record() -> dict[str, dict]:  # exercise → {"tries": count until it was solved, "solved": bool}
    "What has been tried and solved so far; empty if no record is kept, or if it cannot be read."
    path = record_file()
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path and path.is_file() else {}
        return {str(name): {"tries": int(one["tries"]), "solved": bool(one["solved"])} for name, one in found.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        warnings.warn(f"expected a record of your progress in {path} (got another file); it starts anew", stacklevel=2)
        return {}


def remember(verdict: Verdict) -> Verdict:  # the same
    "Keep that an exercise was tried, and whether it is solved; an answer that is not written yet does not count."
    path = record_file()
    if path and verdict.mistake != UNWRITTEN:
        found = read_record()
        before = found.get(verdict.exercise, {"tries": 0, "solved": False})
        tries = before["tries"] + (not before["solved"])
        found[verdict.exercise] = {"tries": tries, "solved": before["solved"] or verdict.right}
        try:
            write_json(path, found)
        except OSError as error:
            warnings.warn(f"your progress cannot be kept: {error}", stacklevel=2)
        for draw in WATCHERS.values():
            draw()
    return verdict
