"""The skeleton of a lesson of your own."""

import pathlib

from gib_nb.utils.files import write_atomically

SKELETON = '''"""# TITLE

Write here, in Markdown, what students should read before the exercises.
"""

import numpy as np

from gib_nb.exercises.own import exercise, question


def chance_to_agree(p):
    "Σ p² is the chance that two draws agree. The exercise asks for the chance that they differ."
    return (p**2).sum()


@exercise(
    cases=[np.array([0.5, 0.5]), np.array([0.2, 0.3, 0.5])],  # hidden inputs, the easiest first
    mistakes=[chance_to_agree],  # functions with typical mistakes; their docstrings are what students read
    points=2,
)
def NAME_function(p):
    "Compute the chance that two independent draws from the probabilities p [n] differ."
    return 1 - (p**2).sum()


question(
    "NAME_question",
    "Two fair coins are tossed. How likely is it that they differ?",
    0.5,
    "Of four equally likely outcomes, two differ.",
    replies={0.25: "That is the chance of one outcome, such as heads and then tails."},
)
'''


def write_skeleton(folder: pathlib.Path, name: str) -> pathlib.Path:
    "Write NAME.py; ValueError for a name that Python cannot import, FileExistsError if there is such a file."
    name = name.removesuffix(".py")
    if not name.isidentifier():
        raise ValueError(f"expected a name of letters, digits, and _, such as gini (got {name!r})")
    path = folder / f"{name}.py"
    if path.exists():
        raise FileExistsError(f"expected a new name (got {name}, but {path.name} exists)")
    title = name.replace("_", " ").capitalize()
    write_atomically(path, SKELETON.replace("TITLE", title).replace("NAME", name).encode())
    return path
