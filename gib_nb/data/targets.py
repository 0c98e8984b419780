"""Which columns of a file are the targets, and how their texts are read"""

import math
import re
from typing import NamedTuple

from .columns import shortened
from .records import is_smiles_name, places_called, smiles_fraction
from .splits import PART_WORDS

__all__ = ["Target", "parse_target", "find_target", "called_targets", "check_target"]

TARGET_OPTION = "--target (target= in Python)"
_MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "<na>"}  # in lowercase; "none" and "-" may be classes
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?", re.IGNORECASE)
_MONTH = "(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DATE = re.compile(
    rf"([0-9]{{4}}[-/.][0-9]{{1,2}}[-/.][0-9]{{1,2}}|[0-9]{{1,2}}[-/.][0-9]{{1,2}}[-/.]([0-9]{{4}}|[0-9]{{2}})"
    rf"|[0-9]{{1,2}}[-. ]+{_MONTH}[-. ,]+[0-9]{{2,4}}|{_MONTH}[. ]+[0-9]{{1,2}}, *[0-9]{{4}})([T ].*)?",
    re.IGNORECASE,
)
_IDENTIFIER = re.compile(
    r"(unnamed: ?[0-9]+|index|idx|row|line|title|inchi|formula|iupac|"
    r"((mol|molecule|cmpd|compound|drug|ligand|substance|chembl|pubchem|zinc|inchi|cas|iupac|common|generic|row)[ _.-]?)?"
    r"(id|no|nr|number|name|key|cid|sid|cas|compound|molecule|drug|ligand))",
    re.IGNORECASE,
)
_FEW = 20  # different values; a column of words with more of them does not hold classes if most occur once


class Target(NamedTuple):
    "The values of a column."

    values: list  # float, or str in a column of words; NaN or None: missing
    filled: list  # texts of the cells that are not missing
    words: bool  # whether it holds words rather than numbers
    no_number: dict  # row -> text of a cell that is not a number, in a column of numbers


def _number(text, comma):
    "The finite number that a text stands for, or None."
    text = text.replace(",", ".") if comma and text.count(",") == 1 and "." not in text else text
    value = float(text) if _NUMBER.fullmatch(text) else math.inf
    return value if math.isfinite(value) else None


def parse_target(cells, comma):
    "The values of a column: numbers if all cells are numbers, or if most of many different ones are; otherwise words."
    filled = {row: cell for row, cell in enumerate(cells) if cell is not None and cell.lower() not in _MISSING}
    numbers = {row: value for row, cell in filled.items() if (value := _number(cell, comma)) is not None}
    measured = 2 * len(numbers) > len(filled) and len(set(filled.values())) > _FEW
    if len(numbers) < len(filled) and not measured:
        return Target([filled.get(row) for row in range(len(cells))], list(filled.values()), True, {})
    values = [numbers.get(row, math.nan) for row in range(len(cells))]
    return Target(values, list(filled.values()), False, {row: filled[row] for row in filled if row not in numbers})


def _are_dates(target):
    return target.words and all(map(_DATE.fullmatch, target.filled))


def _are_identifiers(target):
    "Whether words identify molecules rather than classes."
    different = len(set(target.filled))
    return target.words and (different == len(target.filled) or different > max(_FEW, len(target.filled) / 2))


def _is_running_number(target, place):
    "Whether this is 0, 1, 2, … as the first column, or a long run of successive numbers anywhere."
    numbers = [] if target.words else target.values
    whole = len(numbers) > 1 and numbers[0] == numbers[0] // 1
    successive = whole and all(after - before == 1 for before, after in zip(numbers, numbers[1:]))
    return successive and (len(numbers) >= 10 or place == 0 and numbers[0] in (0, 1))


def _may_be_target(found, place, target):
    "Whether a column may be the target if none was named."
    name, different = found.names[place], set(target.filled)
    if place == found.place or not different or is_smiles_name(name) or _are_dates(target):
        return False
    if target.words:
        rows = [[row[place] or ""] for row in found.rows[:200]]
        parts = {word.lower() for word in different} <= set(PART_WORDS)
        return not (len(different) == 1 or parts or _are_identifiers(target) or smiles_fraction(rows, 0, False) > 0.5)
    named = _IDENTIFIER.fullmatch(name) and 2 * len(different) > len(target.filled)
    return not (named or _is_running_number(target, place))


def _some(names):
    return ", ".join(names[:20]) + ", …" * (len(names) > 20)


def find_target(path, found):
    "The position of the only column that may be the target, in a list."
    places = [
        place
        for place in range(len(found.names))
        if _may_be_target(found, place, parse_target([row[place] for row in found.rows], found.comma))
    ]
    if len(places) == 1:
        return places
    may = _some([found.names[place] for place in places])
    got = f"several candidates: {may}" if places else "none that holds numbers or a few classes"
    raise ValueError(
        f"expected one column of labels in {path} (got {got}; its columns are {_some(found.names) or 'none'}); "
        f"name one or more as {TARGET_OPTION}"
    )


def called_targets(path, found, targets):
    "The positions of the columns with these names or numbers."
    places = []
    for name in targets:
        called = places_called([found.names], str(name).strip())
        if len(called) != 1:
            raise ValueError(
                f"expected a column named {name} in {path} (got columns {_some(found.names) or 'none'}); "
                f"give a name, or a number from 1, as {TARGET_OPTION}"
            )
        if called[0] == found.place or called[0] in places:
            got = "the column with the SMILES" if called[0] == found.place else "a column twice"
            raise ValueError(f"expected columns with labels as {TARGET_OPTION} (got {got}: {name})")
        places += called
    return places


def check_target(path, name, target):
    "ValueError for a requested column that holds no labels."
    got = (
        "only empty cells"
        if not target.filled
        else f"dates such as {target.filled[0]}"
        if _are_dates(target)
        else f"{len(set(target.filled)):,} different words such as {shortened(target.filled[0], 40)}"
        if _are_identifiers(target) and len(target.filled) > _FEW
        else None
    )
    if got:
        raise ValueError(
            f"expected numbers or classes in column {name} of {path} (got {got}); choose another as {TARGET_OPTION}"
        )
