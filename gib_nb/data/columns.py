"""The columns of any file of molecules, as texts

Text files are read as in `records`, SDF by RDKit, Parquet by pandas.
"""

import collections
import gzip
import io
from typing import NamedTuple

from ..chem.smiles import _first_reason, read_molecule
from .records import (
    LATIN1,
    MOLECULE_FILES,
    Rejected,
    is_list,
    iter_records,
    likely_places,
    open_text,
    places_called,
    smiles_column,
    smiles_of,
    unclear_column,
    whole_gzip,
    without_name,
)

__all__ = ["Columns", "read_columns"]

SMILES_OPTION = "--smiles (smiles= in Python)"


class Columns(NamedTuple):
    "The columns of a file, before its molecules are read."

    names: list  # of columns, all different
    lines: list  # [rows]
    rows: list  # [rows] of lists of str or None, one for each name
    smiles: list  # [rows] texts that should be SMILES
    place: int | None  # of the column with the SMILES
    rejected: list  # rows that were already rejected
    notes: list
    comma: bool = False  # whether numbers may have a decimal comma


def shortened(text, length):
    "A text, whose middle is left out if it is longer than `length`."
    return text if len(text) <= length else f"{text[: length // 2]} … {text[-length // 2 :]}"


def _distinct(names):
    "Names of columns, or their numbers if they have none, with .1, .2, … after those that occurred before."
    taken, counts = set(), collections.Counter()
    for number, name in enumerate(names, 1):
        name = base = str(name).strip() or str(number)
        while name in taken:
            counts[base] += 1
            name = f"{base}.{counts[base]}"
        taken.add(name)
        yield name


def _read_text(path, smiles, targets):
    "The columns of a list or table."
    found = smiles_column(path, smiles, SMILES_OPTION)
    try:
        numbered, latin1 = _numbered_records(path, found.delimiter, "strict"), False
    except UnicodeDecodeError:
        numbered, latin1 = _numbered_records(path, found.delimiter, LATIN1), True
    rows = [(number, record) for number, record in numbered if any(record)]
    called = {name.strip().lower() for name in map(str, targets) if not name.strip().isdecimal()}
    heading = bool(rows) and (found.heading or not called.isdisjoint(map(str.lower, rows[0][1])))
    head = rows.pop(0)[1] if heading else []
    if not rows:
        raise _empty(path, heading)
    if found.delimiter is None:
        rows = [(number, _without_extension(record, found.place)) for number, record in rows]
        head, rows = _with_last_joined(head, rows, found.place)
    width = max(found.place + 1, len(head) or max(len(record) for _, record in rows[:200]))
    listed = is_list(path) or found.delimiter is None
    rejected = list(_too_wide(rows, width, found.place, listed, heading))
    broken = {row.line for row in rejected}
    rows = [(number, record) for number, record in rows if number not in broken]
    return Columns(
        names=list(_distinct([*head, *[""] * (width - len(head))])),
        lines=[number for number, _ in rows],
        rows=[[cell or None for cell in (*record[:width], *[""] * (width - len(record)))] for _, record in rows],
        smiles=[without_name(smiles_of(record, found.place, listed)) for _, record in rows],
        place=found.place,
        rejected=rejected,
        notes=[
            *([] if heading else ["the first line holds no column names, so the columns are called by their numbers"]),
            *(["the file is not UTF-8; other characters were read as Latin-1"] if latin1 else []),
        ],
        comma=found.delimiter == ";",
    )


def _numbered_records(path, delimiter, errors):
    "The number of the first line and the cells of each record."
    with open_text(path, errors) as lines:
        return [(number, [*map(str.strip, record)]) for number, record in iter_records(lines, delimiter)]


def _empty(path, heading=False):
    content = "has only the names of its columns" if heading else "is empty"
    return ValueError(f"expected a file with at least one molecule (got {path}, which {content})")


def _without_extension(record, place):
    "A record without the words |…| that extend its SMILES."
    words = record[place + 1 :]
    if not words or not words[0].startswith("|"):
        return record
    end = next((i for i, word in enumerate(words, 1) if word.endswith("|") and (i > 1 or len(word) > 1)), 0)
    return [*record[: place + 1], *words[end:]]


def _with_last_joined(head, rows, place):
    "With whitespace as delimiter, a name may have several words: if records differ in length, the surplus words become one cell."
    if len({len(record) for record in (*([head] if head else []), *(record for _, record in rows))}) == 1:
        return head, rows
    last = (len(head) or max(2, place + 1)) - 1
    return head, [(number, [*record[:last], " ".join(record[last:])]) for number, record in rows]


def _too_wide(rows, width, place, listed, heading):
    "The rejected records with more cells than there are columns: a delimiter outside quotes has moved the cells after it to wrong columns."
    for number, record in rows:
        if any(record[width:]):
            where = "the names in the first line" if heading else "the records above"
            reason = f"expected {width} cells, as many as {where} (got {len(record)}); put a cell that contains the delimiter in quotes"
            yield Rejected(number, shortened(smiles_of(record, place, listed), 80), reason)


def _read_parquet(path, smiles):
    "The columns of a Parquet file, as texts."
    import pandas

    try:
        with whole_gzip(path):
            packed = path.suffix == ".gz"
            frame = pandas.read_parquet(io.BytesIO(gzip.decompress(path.read_bytes())) if packed else path)
    except ImportError:
        raise OSError("expected pyarrow for .parquet; install it with: pip install 'gib-nb[screen]'") from None
    except ValueError as error:
        raise ValueError(f"expected a Parquet file (got {path}, which cannot be read: {error})") from None
    if not len(frame):
        raise _empty(path)
    columns = [
        [None if gone else str(value).strip() or None for value, gone in zip(column, column.isna())]
        for _, column in frame.items()
    ]
    rows, names = [list(row) for row in zip(*columns)], list(_distinct(frame.columns))
    first = [names, *([cell or "" for cell in row] for row in rows[:200])]
    places = likely_places(first, False, False) if smiles is None else places_called(first, str(smiles).strip())
    if len(places) != 1:
        reason = " and ".join(names[place] for place in places) + " may be it" if places else "none of them is clear"
        raise unclear_column(path, first, reason, SMILES_OPTION)
    texts = [row[places[0]] or "" for row in rows]
    return Columns(names, list(range(1, len(rows) + 1)), rows, texts, places[0], [], [])


def _sdf_records(path):
    "The lines of each record, up to its line $$$$."
    record = []
    with open_text(path) as lines:
        for line in lines:
            record.append(line.rstrip("\r\n"))
            if line.startswith("$$$$"):
                yield record
                record = []
    if any(map(str.strip, record)):
        yield record


def _sdf_molecule(record):
    "Canonical SMILES and properties of a record; ValueError with RDKit's reason."
    from rdkit import Chem, rdBase

    content = io.BytesIO("".join(f"{line}\n" for line in record).encode())
    with rdBase.BlockLogs(), rdBase.CaptureErrorLog() as log:
        mol = next(iter(Chem.ForwardSDMolSupplier(content)), None)
    if mol is None:
        raise ValueError(f"expected a record that RDKit accepts: {_first_reason(log.messages)}")
    return Chem.MolToSmiles(read_molecule(mol)), {name: mol.GetProp(name).strip() for name in mol.GetPropNames()}


def _read_sdf(path, smiles):
    "The properties of an SDF as columns."
    if smiles is not None:
        raise ValueError(f"expected no column of SMILES for an SDF, whose records are the molecules (got {smiles!r})")
    found, rejected, number = [], [], 0
    for number, record in enumerate(_sdf_records(path), 1):
        try:
            found.append((number, *_sdf_molecule(record)))
        except ValueError as error:
            rejected.append(Rejected(number, shortened(record[0].strip(), 80), shortened(str(error), 300)))
    if not number:
        raise _empty(path)
    names = list(dict.fromkeys(name for _, _, properties in found for name in properties))
    rows = [[properties.get(name) or None for name in names] for _, _, properties in found]
    return Columns(names, [row[0] for row in found], rows, [row[1] for row in found], None, rejected, [])


def read_columns(path, smiles, targets):
    "Read a file according to its ending."
    name = path.name.lower()
    if path.is_dir() or not name.endswith(MOLECULE_FILES):
        endings = ", ".join(ending for ending in MOLECULE_FILES if not ending.endswith(".gz"))
        got = "a folder" if path.is_dir() else "another ending"
        raise ValueError(
            f"expected a file ending in {endings}, or one of these with .gz at the end (got {path}: {got})"
        )
    if name.endswith((".parquet", ".parquet.gz")):
        return _read_parquet(path, smiles)
    if name.endswith((".sdf", ".sdf.gz")):
        return _read_sdf(path, smiles)
    return _read_text(path, smiles, targets)
