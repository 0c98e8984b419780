"""Files of molecules or graphs, with a reason for every row that cannot be used"""

import csv
import dataclasses
import functools
import io
import pathlib
import re

from ..chem.smiles import read_molecule
from ..chem.standardize import inchikey, murcko_scaffold, standardize_molecule
from ..utils.files import write_atomically
from .columns import Rejected, read_columns, shortened
from .records import LONGEST_SMILES
from .targets import called_targets, check_target, find_target, parse_target

__all__ = ["MoleculeTable", "read_molecules", "write_rejected", "read_graphs"]


@dataclasses.dataclass(frozen=True, eq=False)
class MoleculeTable:
    "The usable rows of a file of molecules, in their order, and the rejected ones."

    path: pathlib.Path
    smiles: list  # [n] SMILES, of the parent molecules if they were standardized
    lines: list  # [n] line in the file where the row begins, from 1; in SDF and Parquet the number of the record
    targets: object  # pandas.DataFrame [n, targets] float64, or str where a column has words; NaN or None: missing
    table: object  # pandas.DataFrame [n, all columns] str as in the file; None: missing
    keys: list  # [n] InChIKey, or canonical SMILES if there is none
    rejected: list  # of `Rejected`, in the order of the file
    smiles_column: str | None  # name, or number from 1 if columns have no names; None for SDF
    target_columns: list
    notes: list  # sentences about what was detected
    standardized: bool = False  # whether the molecules are the parents of those in the file

    def __len__(self):
        return len(self.smiles)

    @functools.cached_property
    def duplicates(self) -> int:
        "The number of rows whose key occurred before."
        return len(self.keys) - len(set(self.keys))

    @functools.cached_property
    def conflicts(self) -> list:
        "(key, lines) of the molecules whose rows disagree on a label."
        return _conflicts(self.targets, self.keys, self.lines)

    @functools.cached_property
    def scaffolds(self) -> list:
        "[n] Bemis–Murcko scaffolds; rows with the same key have that of the first one."
        first = {}
        return [
            first[key] if key in first else first.setdefault(key, murcko_scaffold(smiles))
            for key, smiles in zip(self.keys, self.smiles)
        ]

    def take(self, rows: list) -> "MoleculeTable":
        "Some of the usable rows [m], by their numbers from 0, with all rejected rows."
        return dataclasses.replace(
            self,
            **{name: [getattr(self, name)[row] for row in rows] for name in ("smiles", "lines", "keys")},
            **{name: getattr(self, name).iloc[rows].reset_index(drop=True) for name in ("targets", "table")},
        )


def read_molecules(
    path,  # .smi, .smiles, .txt: a list; .csv, .tsv, .tab: a table; .sdf; .parquet; each also with .gz at the end
    smiles: str | int | None = None,  # column with the SMILES, by its name or number from 1; None: detected
    target=None,  # columns with labels: a name or number, or a list of them; None: detected if only one column may hold them
    standardize: bool = False,  # take the parent of each molecule, as `standardize_molecule` does
    labels: bool = True,  # whether labels are read; if not, only rows that are not molecules are rejected
    progress: bool = True,  # show a progress bar for more than 3000 rows
) -> MoleculeTable:
    "Read the molecules and labels of a file. No row is lost: one that cannot be used is in `rejected`. ValueError if the columns are unclear, or if no row can be used."
    path = pathlib.Path(path)
    asked = [] if target is None else [target] if isinstance(target, (str, int)) else list(target)
    if target is not None and not (asked and labels):
        raise ValueError(f"expected at least one target, and labels=True with it (got {target!r} and labels={labels})")
    found = read_columns(path, smiles, asked)
    if not found.rows:
        raise _none_usable(path, found.rejected)
    places = (called_targets(path, found, asked) if asked else find_target(path, found)) if labels else []
    targets = {found.names[place]: parse_target([row[place] for row in found.rows], found.comma) for place in places}
    for name, values in targets.items():
        check_target(path, name, values)
    molecules, rejected = _read_rows(found, targets, standardize, progress)
    if not molecules:
        raise _none_usable(path, rejected)
    frame, table = _frames(found, targets, list(molecules))
    return MoleculeTable(
        path=path,
        smiles=[text for text, _ in molecules.values()],
        lines=[found.lines[row] for row in molecules],
        targets=frame,
        table=table,
        keys=[key for _, key in molecules.values()],
        rejected=rejected,
        smiles_column=None if found.place is None else found.names[found.place],
        target_columns=list(targets),
        notes=_notes(found, targets, smiles, labels and not asked),
        standardized=standardize,
    )


def _read_row(text, standardize):
    "SMILES and key of a molecule; ValueError with the reason if there is none."
    from rdkit import Chem

    if not text:
        raise ValueError("expected a SMILES (got an empty cell)")
    if len(text) > LONGEST_SMILES:
        raise ValueError(f"expected a SMILES of at most {LONGEST_SMILES:,} characters (got {len(text):,})")
    mol = read_molecule(text)
    if standardize:
        mol = standardize_molecule(mol)
        text = Chem.MolToSmiles(mol)
    return text, inchikey(mol)


def _read_rows(found, targets, standardize, progress):
    "Row -> (SMILES, key) of the usable rows, and the rejected ones."
    from tqdm.auto import tqdm

    molecules, rejected = {}, list(found.rejected)
    bar = tqdm(found.smiles, desc="molecules", leave=False, disable=not progress or len(found.smiles) <= 3000)
    for row, text in enumerate(bar):
        try:
            molecule = _read_row(text, standardize)
            _check_labels(targets, row)
        except ValueError as error:
            rejected.append(Rejected(found.lines[row], shortened(text, 80), shortened(str(error), 300)))
        else:
            molecules[row] = molecule
    return molecules, sorted(rejected)


def _check_labels(targets, row):
    "ValueError for a row without a label in any column."
    import pandas

    if targets and all(pandas.isna(target.values[row]) for target in targets.values()):
        no_number = next((target.no_number[row] for target in targets.values() if row in target.no_number), None)
        got = "an empty cell" if no_number is None else repr(shortened(no_number, 40))
        kind = "a label" if no_number is None else "a number"
        raise ValueError(f"expected {kind} in {', '.join(targets)} (got {got})")


def _none_usable(path, rejected):
    first = "; ".join(f"line {row.line}: {row.reason}" for row in rejected[:3])
    return ValueError(
        f"expected at least one row with a molecule and a label in {path} (got none among {len(rejected):,}: {first})"
    )


def _frames(found, targets, rows):
    "The labels and all columns of the usable rows."
    import pandas

    frame = pandas.DataFrame(
        {
            name: pandas.Series([target.values[row] for row in rows], dtype=object if target.words else float)
            for name, target in targets.items()
        },
        index=range(len(rows)),
    )
    return frame, pandas.DataFrame([found.rows[row] for row in rows], columns=found.names, dtype=object)


def _conflicts(frame, keys, lines):
    "(key, lines) of the molecules whose rows have different labels."
    if frame.empty or len(set(keys)) == len(keys):
        return []
    disagree = frame.groupby(keys, sort=False).nunique().gt(1).any(axis=1)
    where = {key: [] for key in disagree.index[disagree]}
    for key, line in zip(keys, lines):
        if key in where:
            where[key].append(line)
    return [(key, tuple(some)) for key, some in where.items()]


def _notes(found, targets, smiles, detected):
    "Sentences about what was detected."
    notes = list(found.notes)
    if smiles is None and found.place is not None:
        notes.append(f"the SMILES are in column {found.names[found.place]}")
    if detected:
        notes.append(f"the labels are in column {', '.join(targets)}, the only one that may hold them")
    for name, target in targets.items():
        if target.no_number:
            row, text = next(iter(target.no_number.items()))
            cells = (
                "1 cell is not a number and counts"
                if len(target.no_number) == 1
                else f"{len(target.no_number):,} cells are not numbers and count"
            )
            notes.append(
                f"column {name}: {cells} as missing; the first is {shortened(text, 40)!r} in line {found.lines[row]}"
            )
    return notes


def write_rejected(
    path,  # of the CSV file to write
    table: MoleculeTable,
):
    "Write the rows that could not be used, with columns line, text, and reason."
    text = io.StringIO()
    csv.writer(text).writerows([Rejected._fields, *table.rejected])
    write_atomically(pathlib.Path(path), text.getvalue().encode())


# graphs

_SAVE = (
    'save them as a list of PyG Data that hold only tensors, numbers, and texts: torch.save([data, ...], "graphs.pt")'
)


def read_graphs(
    path,  # .pt file with a list of Data, a Data, a Batch, or the data of an InMemoryDataset; or a folder of such files
) -> list:  # of PyG Data
    "Read graphs without running code that a file may contain. ValueError for a file that cannot be read says how to save graphs."
    path = pathlib.Path(path)
    if path.is_dir():
        files = [path / "processed" / "data.pt"] if (path / "processed" / "data.pt").is_file() else _graph_files(path)
    elif path.suffix.lower() in (".pt", ".pth"):
        files = [path]
    else:
        raise ValueError(f"expected a .pt file or a folder of them (got {path}); {_SAVE}")
    graphs = [graph for file in files for graph in _graphs_of(file)]
    if not graphs:
        raise ValueError(f"expected at least one graph in {path} (got none); {_SAVE}")
    return graphs


def _graph_files(folder):
    "The .pt files of a folder, 2.pt before 10.pt, without the two others that a PyG data set stores next to its data."
    number = lambda path: [int(part) if part.isdecimal() else part for part in re.split("([0-9]+)", path.name)]
    return sorted(
        (path for path in folder.glob("*.pt") if path.name not in ("pre_filter.pt", "pre_transform.pt")), key=number
    )


def _graphs_of(file):
    "The graphs of one file."
    content = _load(file)
    if isinstance(content, tuple) and len(content) >= 2 and isinstance(content[1], dict):
        return _separated(file, *content[:2])
    if hasattr(content, "to_data_list"):
        content = content.to_data_list()
    graphs = content if isinstance(content, (list, tuple)) else [content]
    for graph in graphs:
        _check_graph(file, graph)
    return list(graphs)


def _check_graph(file, graph):
    from torch_geometric.data import Data

    if not isinstance(graph, Data):
        raise ValueError(f"expected PyG Data in {file} (got {type(graph).__name__}); {_SAVE}")


def _separated(file, data, slices):
    "The graphs of PyG's InMemoryDataset, which are stored as one large graph and its slices."
    from torch_geometric.data import Data
    from torch_geometric.data.separate import separate

    data = Data.from_dict(data) if isinstance(data, dict) else data
    _check_graph(file, data)
    number = max((len(cuts) - 1 for cuts in slices.values()), default=0)
    return [separate(Data, data, i, slices, decrement=False) for i in range(number)]


def _load(file):
    "The content of a file, if it consists of tensors, plain values, and PyG's own classes."
    import pickle

    import torch

    if not file.is_file():
        raise FileNotFoundError(f"expected a file of graphs (got {file}, which does not exist)")
    torch.serialization.add_safe_globals(_graph_classes())
    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        found = re.search(r"GLOBAL ([\w.]+)", str(error))
        got = f"an object of {found[1]}" if found else "something else"
        raise ValueError(
            f"expected graphs in {file} (got {got}, which is not loaded for safety reasons); {_SAVE}"
        ) from None
    except (RuntimeError, EOFError, ValueError, KeyError, UnicodeDecodeError) as error:
        why = f"cannot be read: {shortened(str(error), 200)}" if file.stat().st_size else "is empty"
        raise ValueError(f"expected a file of torch.save (got {file}, which {why}); {_SAVE}") from None


def _new_batch(batch, data):
    "An empty Batch, to be filled with what was saved."
    return batch(_base_cls=data)


@functools.cache
def _graph_classes():
    """The classes with which PyG saves graphs.

    A Batch is saved as a call of an object, which torch does not allow; a stand-in of the same name is a function of this module instead."""
    from torch_geometric.data import Batch, Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage

    name, module = "DynamicInheritanceGetter", "torch_geometric.data.batch"
    getter = type(name, (), {"__module__": module, "__new__": lambda cls: _new_batch})
    return [
        Data,
        Batch,
        type(Batch(_base_cls=Data)),
        DataEdgeAttr,
        DataTensorAttr,
        BaseStorage,
        GlobalStorage,
        NodeStorage,
        EdgeStorage,
        getter,
        _new_batch,
    ]
