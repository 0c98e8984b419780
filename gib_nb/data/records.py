"""Text files of molecules: records, and the column with the SMILES

A record is a line, unless a quoted cell contains line breaks. A quote counts only if it is closed as CSV requires. Any other quote,
such as an inch mark, is an ordinary character and does not affect the lines that follow. The column with the SMILES is recognized by
its name, or because it is the only one whose first values are all SMILES. If this is unclear, the file is refused.
"""

import codecs
import collections
import contextlib
import csv
import gzip
import itertools
import pathlib
import re
import zlib
from typing import NamedTuple

LONGEST_SMILES = 5000  # characters; a protein of 250 residues has fewer
LISTS, TABLES = (".smi", ".smiles", ".txt"), (".csv", ".tsv", ".tab")
FILES = tuple(f"{suffix}{packed}" for suffix in (*LISTS, *TABLES) for packed in ("", ".gz"))
MOLECULE_FILES = (*FILES, ".parquet", ".parquet.gz", ".sdf", ".sdf.gz")


class Rejected(NamedTuple):
    "A row that cannot be used."

    line: int  # where it begins in the file, from 1; in an SDF the number of the record
    text: str  # its SMILES as written, shortened; in an SDF the title of the record
    reason: str

    def __str__(self):
        return self.text


def _latin1(error):
    "The bytes that are not UTF-8, decoded as Latin-1, which older programs wrote."
    return error.object[error.start : error.end].decode("latin-1"), error.end


LATIN1 = "latin1-for-the-rest"
codecs.register_error(LATIN1, _latin1)


@contextlib.contextmanager
def open_text(path, errors=LATIN1):
    "The lines of a file with their line breaks. It may be UTF-8, or UTF-16 with a byte order mark, and compressed by gzip, whatever its name says; bytes that are not UTF-8 are read as Latin-1."
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    with whole_gzip(path):
        with (gzip.open if packed else open)(path, "rb") as file:
            start = file.read(2**16)
        wide = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        if b"\0" in start and not wide:
            raise ValueError(
                f"expected a text file (got {path}, which contains zero bytes, so it is no text or has another encoding); save it as text in UTF-8"
            )
        with (gzip.open if packed else open)(
            path, "rt", encoding="utf-16" if wide else "utf-8-sig", errors="replace" if wide else errors, newline=""
        ) as lines:
            yield lines


@contextlib.contextmanager
def whole_gzip(path):
    "Context in which an error about compressed data becomes a ValueError that names the file."
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"expected a complete gzip file (got {path}, which is broken: {error})") from None


def _quoted_cells(text, delimiter):
    "The cells of a record with quotes, or None if a quote is not closed at the end of a cell."
    limit = csv.field_size_limit(2**31 - 1)  # of the whole process, so it is restored
    try:
        return next(csv.reader([text], delimiter=delimiter, strict=True, skipinitialspace=True))
    except csv.Error:
        return None
    finally:
        csv.field_size_limit(limit)


def iter_records(lines, delimiter, most=1000):
    "Yields (number of its first line, cells) for each record. The delimiter None means whitespace; a quoted cell has at most `most` lines."
    lines, ahead, number = iter(lines), collections.deque(), 1
    take = lambda: ahead.popleft() if ahead else next(lines, None)
    while (line := take()) is not None:
        first, number, cells = number, number + 1, None
        if delimiter is not None and '"' in line:
            cells = _quoted_cells(line, delimiter)
            if cells is None and line.count('"') % 2:  # open at the end of the line
                more = list(_until_odd(iter(take, None), most))
                cells = _quoted_cells("".join([line, *more]), delimiter)
                number += 0 if cells is None else len(more)
                ahead.extendleft(reversed(more if cells is None else []))
        yield first, line.rstrip("\r\n").split(delimiter) if cells is None else cells


def _until_odd(lines, most):
    "Lines up to and including the first with an odd number of quotes."
    for line in itertools.islice(lines, most):
        yield line
        if line.count('"') % 2:
            return


class SmilesColumn(NamedTuple):
    "Where the SMILES of a file are."

    delimiter: str | None  # between the cells of a record; None: whitespace
    place: int  # of the column, from 0
    heading: bool  # whether the first record that is not empty holds column names
    name: str  # of the column, or its number from 1


_NAMES = re.compile(
    "[a-z]*smiles(string|code|isomeric|canonical)?|smi|structure"
)  # of SMILES columns, reduced to lowercase letters


def is_smiles_name(cell):
    "Whether this is the name of a column of SMILES."
    return not re.search("[,;|]", cell) and bool(_NAMES.fullmatch(re.sub("[^a-z]", "", cell.lower())))


def is_smiles(text):
    "Whether RDKit reads a text as a molecule; a very long text is not tried."
    from ..chem.smiles import read_molecule

    try:
        return len(text) <= LONGEST_SMILES and bool(read_molecule(text))
    except ValueError:
        return False


def _is_heading(record, place):
    "Whether a record without a known name holds column names: a word with letters that SMILES do not have outside brackets, and no number."
    words = (
        re.fullmatch(r"[\w .\-]*[^\W\dBCNOFPSIHbcnopslr_][\w .\-]*", record[place].strip())
        if place < len(record)
        else None
    )
    return (
        bool(words)
        and not is_smiles(record[place].strip())
        and not any(re.fullmatch(r"\s*[-+]?\d+([.,]\d+)?\s*", cell) for cell in record)
    )


def smiles_of(record, place, listed):
    "The SMILES in a record; in a list, the first word of its cell."
    text = record[place].strip() if place < len(record) else ""
    return text.split()[0] if listed and text else text


def without_name(text: str) -> str:
    "A SMILES without the name behind a blank; extensions of a CXSMILES stay."
    first, *rest = text.split(maxsplit=1) or [""]
    return text if rest and rest[0].startswith("|") else first


def smiles_fraction(records, place, listed):
    "The fraction of SMILES among the first 50 values of a column; in a table, its name does not count."
    values = [value for record in records if (value := smiles_of(record, place, listed))]
    values = values[bool(values) and not listed and _is_heading(records[0], place) :][:50]
    return sum(map(is_smiles, values)) / max(len(values), 1)


def likely_places(records, listed, blanks):
    "Positions of the columns that may hold the SMILES; there should be one."
    named = [place for place, cell in enumerate(records[0]) if is_smiles_name(cell)]
    if len(named) == 1 and not blanks:
        return named
    places = range(2) if blanks else named or range(max(map(len, records)))
    fractions = {place: smiles_fraction(records[bool(named) :], place, listed) for place in places}
    if len(named) == 1 and (
        fractions.get(named[0]) or not any(fractions.values())
    ):  # with whitespace as delimiter, a name of two words takes two positions
        return named
    likely = [place for place, fraction in fractions.items() if fraction > 0.5]
    in_doubt = len(likely) == 1 < len(fractions) and not listed and fractions[likely[0]] < 1
    return [] if in_doubt else likely


def places_called(records, column):
    "Positions of the columns with this name, or with this number from 1."
    head = [cell.strip() for cell in records[0]]
    same, similar = (
        [place for place, cell in enumerate(head) if change(cell) == change(column)] for change in (str, str.lower)
    )
    numbered = [int(column) - 1] if column.isdecimal() and 1 <= int(column) <= max(map(len, records)) else []
    return same or similar or numbered


def _first_records(path, delimiter):
    "The first 200 records that are not empty."
    with open_text(path) as lines:
        records = (record for _, record in iter_records(lines, delimiter) if any(map(str.strip, record)))
        return list(itertools.islice(records, 200))


def _delimiters(first, listed):
    "Delimiters to try, the most likely first; None means whitespace."
    found = {}
    for delimiter, records in first.items():
        sizes = [len(record) for record in records]
        if delimiter and sizes[0] > 1:
            found[delimiter] = (sizes.count(sizes[0]) / len(sizes), sizes[0])
    likely = sorted(found, key=found.get, reverse=True)
    if not listed:
        return likely or [",", None]
    tabs = ["\t"] if found.get("\t", (0, 0))[0] == 1 else []  # a name that follows a tab may contain spaces
    return [*tabs, None, *(delimiter for delimiter in likely if delimiter != "\t")]


def is_list(path):
    "Whether a file is a list of SMILES and not a table, according to its name."
    return pathlib.Path(path).name.lower().removesuffix(".gz").endswith(LISTS)


def _has_names(head, place, column, listed):
    "Whether the first record holds column names; in a list, one of them must be that of a SMILES column, since the first line may be a broken SMILES."
    given = "" if column is None else str(column).strip().lower()
    called = column is not None and [cell.strip().lower() for cell in head[place : place + 1]] == [given]
    return called or any(map(is_smiles_name, head)) or not listed and _is_heading(head, place)


def column_name(head, place):
    "The name of a column, or its number if it has none."
    named = any(map(is_smiles_name, head)) and place < len(head) or _is_heading(head, place)
    return head[place].strip() if named else str(place + 1)


def unclear_column(path, records, reason, option):
    "The error that lists the columns of a file."
    names = [column_name(records[0], place) for place in range(max(map(len, records)))]
    return ValueError(
        f"expected one column of SMILES in {path} (got columns {', '.join(names[:20])}{', …' * (len(names) > 20)}: {reason}); "
        f"give its name, or its number from 1, as {option}"
    )


def smiles_column(
    path,  # as in `smiles_lines`
    column: str | int | None = None,  # as in `smiles_lines`
    option: str = "--smiles (column= in Python)",  # how the column can be given, for an error
) -> SmilesColumn:
    "Find the SMILES column of a file from its first 200 records; ValueError if it is not clear which column it is."
    listed = is_list(path)
    first = {delimiter: _first_records(path, delimiter) for delimiter in ("\t", ";", "|", ",", None)}
    first = {delimiter: records for delimiter, records in first.items() if records}
    if None not in first:
        return SmilesColumn(None, 0, False, "1")
    delimiters = [delimiter for delimiter in _delimiters(first, listed) if delimiter in first]
    for delimiter in delimiters:
        records, blanks = first[delimiter], delimiter is None
        if column is None:
            places = likely_places(records, listed or blanks, blanks)
        else:
            places = places_called(records, str(column).strip())
        if len(places) == 1:
            name = column_name(records[0], *places)
            return SmilesColumn(delimiter, *places, _has_names(records[0], *places, column, listed or blanks), name)
        if places:
            names = " and ".join(column_name(records[0], place) for place in places)
            raise unclear_column(path, records, f"{names} may be it", option)
    if listed and column is None:
        return SmilesColumn(delimiters[0], 0, False, "1")
    reason = "none has SMILES in all of its first records" if column is None else f"none is {column}"
    raise unclear_column(path, first[delimiters[0]], reason, option)


def smiles_lines(
    path,  # .smi, .smiles, or .txt: a list; .csv, .tsv, or .tab: a table with , ; tab or |; each also with .gz at the end
    column: str | int | None = None,  # name of the column with the SMILES, or its number from 1; None: detected
):  # iterator of str
    "The SMILES of each record of a file, or an empty text if there is none; a first record with column names is left out. ValueError as in `smiles_column`."
    return (smiles for _, smiles in numbered_smiles(path, column))


def numbered_smiles(
    path,  # as in `smiles_lines`
    column: str | int | None = None,  # as in `smiles_lines`
):  # iterator of (int, str)
    "Like `smiles_lines`, with the number of the first line of each record in the file, from 1."
    return _column_values(path, smiles_column(path, column))


def numbered_molecules(
    path,  # one of `MOLECULE_FILES`
    column: str | int | None = None,  # as in `smiles_lines`
):  # iterator of (int, str or `Rejected`)
    "Like `numbered_smiles`, also for SDF and Parquet; a record of an SDF that RDKit refuses gives the reason."
    if str(path).lower().endswith(FILES):
        return numbered_smiles(path, column)
    from .columns import read_columns

    found = read_columns(pathlib.Path(path), column, None)
    refused = [(row.line, row if row.text else row._replace(text=f"record {row.line}")) for row in found.rejected]
    return iter(sorted([*zip(found.lines, found.smiles), *refused], key=lambda record: record[0]))


def _column_values(path, found):
    listed, heading = is_list(path) or found.delimiter is None, found.heading
    with open_text(path) as lines:
        for number, record in iter_records(lines, found.delimiter):
            if heading and any(map(str.strip, record)):
                heading = False
                continue
            yield number, without_name(smiles_of(record, found.place, listed))
