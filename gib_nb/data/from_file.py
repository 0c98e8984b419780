"""A data set from your own file: molecules with labels, or graphs."""

import pathlib
from collections import defaultdict

import numpy as np
import torch

from gib_nb.chem.featurize import MoleculeGraphs, featurize_molecules
from gib_nb.data.columns import Rejected
from gib_nb.data.files import MoleculeTable, read_graphs, read_molecules
from gib_nb.data.graph_dataset import GraphDataset, make_dataset
from gib_nb.data.registry import is_graph_file
from gib_nb.data.splits import DEFAULT_SPLIT, predefined_split, scaffold_split, split_indices

TASKS = ("auto", "classification", "regression")
LARGEST = 100_000  # graphs of at most this many molecules are kept in memory
FEWEST_OF_A_CLASS = 5  # rarer classes are reported, if there are more than two
FEW_CLASSES = 10  # at most this many different whole numbers are read as classes


def load_file(
    path,  # molecules (.csv, .tsv, .parquet, .smi, .sdf, …, as in `read_molecules`) or graphs (.pt, a folder, as in `read_graphs`)
    smiles: str | int | None = None,  # column with the SMILES; None: detected
    target=None,  # column with the labels, or a list of several; None: detected
    *,
    task: str = "auto",  # "classification", "regression", or "auto": by the labels
    positive=None,  # which of two classes precision, F1, and average precision are about; None: the last in ascending order
    split: str = "random",  # "random" (stratified), "scaffold", or the name of a column with train, valid, test
    seed: int = 0,  # of a random split
    standardize: bool = False,  # take the parent of each molecule: the largest fragment, neutral
    workers: int = 1,  # processes that compute the graphs of molecules
    in_memory: bool
    | None = None,  # keep the graphs of molecules; None: of up to 100,000. Otherwise they are computed for each batch
    progress: bool = True,  # show progress bars for large files
) -> GraphDataset:  # `source` is the `MoleculeTable`, with the rejected rows
    "The data set of a file; ValueError if the columns are unclear, or if no row can be used."
    path = pathlib.Path(path)
    if task not in TASKS:
        raise ValueError(f"expected task to be one of {', '.join(TASKS)} (got {task!r})")
    if not path.exists():
        raise FileNotFoundError(
            f"expected a file, a folder, or the name of a data set (got {path}, which does not exist)"
        )
    if is_graph_file(path):
        if positive is not None:
            raise ValueError(f"expected positive only for a table of molecules (got {positive!r} for graphs)")
        return _of_graphs(path, task, split, seed)
    table = read_molecules(path, smiles, target, standardize, progress=progress)
    y, task, classes = _labels_of(table, task)
    if positive is not None:
        y, classes = _with_positive(y, task, classes, positive)
    split = _split_of(table, y, task, split, seed)
    _reject_duplicates(table, split)
    if len(table) > LARGEST if in_memory is None else not in_memory:
        return _dataset(path, MoleculeGraphs(table.smiles, y), task, classes, table, split)
    graphs = featurize_molecules(table.smiles, workers, progress=progress)
    for graph, label in zip(graphs, y):
        graph.y = label
    return _dataset(path, graphs, task, classes, table, split)


def _of_graphs(path, task, split, seed):
    "The data set of a file or folder of graphs."
    if split != "random":
        raise ValueError(
            f"expected split='random' for graphs (got {split!r}); scaffolds and columns apply only to tables of molecules"
        )
    task = None if task == "auto" else task
    return make_dataset(path.stem, read_graphs(path), DEFAULT_SPLIT, seed, task)


def _dataset(path, graphs, task, classes, table, split):
    name = path.name.removesuffix(".gz").rsplit(".", 1)[0]
    targets = tuple(table.target_columns) if len(table.target_columns) > 1 else None
    number = None if task == "regression" else 2 if targets else len(classes)
    return GraphDataset(
        name, graphs, task, number, graphs[0].x.size(1), split, classes=classes, targets=targets, source=table
    )


def _labels_of(table: MoleculeTable, task: str) -> tuple[list, str, tuple | None]:
    "A label for each molecule as a tensor, the task, and the names of the classes."
    frame = table.targets
    numeric = [frame[name].dtype.kind == "f" for name in frame]
    if task == "regression" and not all(numeric):
        wrong = next(name for name, number in zip(frame, numeric) if not number)
        raise ValueError(f"expected numbers for regression in column {wrong} (got words); use task='classification'")
    if task == "auto":
        task = "classification" if all(map(_holds_classes, (frame[name] for name in frame))) else "regression"
        if task == "regression" and not all(numeric):
            raise ValueError(f"expected targets of one kind, numbers or classes (got both in {', '.join(frame)})")
        table.notes.append(f"task: {task}")
    if frame.shape[1] == 1:
        return _single(frame.iloc[:, 0], task, table)
    values = frame.to_numpy()
    if task == "regression":
        return list(torch.tensor(values.astype(float), dtype=torch.float)[:, None]), task, None
    seen = frame.notna().to_numpy()
    found = _whole(np.unique(values[seen].astype(str) if not all(numeric) else values[seen].astype(float)))
    if len(found) != 2:
        raise ValueError(
            f"expected two classes that all targets have in common (got {', '.join(map(str, found[:10]))})"
        )
    ones = np.where(seen, values == (found[1] if not all(numeric) else float(found[1])), np.nan).astype(float)
    classes = None if found == [0, 1] else tuple(found)
    return list(torch.tensor(ones, dtype=torch.float)[:, None]), task, classes


def _holds_classes(column) -> bool:
    "Whether a column holds words, or few different whole numbers."
    values = column.dropna()
    if column.dtype.kind != "f":
        return True
    return bool((values == values.round()).all()) and values.nunique() <= min(FEW_CLASSES, max(2, len(values) // 4))


def _single(column, task: str, table) -> tuple[list, str, tuple | None]:
    "Labels of one target. None is missing, since rows without a label were rejected."
    if task == "regression":
        if column.nunique() < 2:
            raise ValueError(f"expected values that differ in column {column.name} (got only {column.iloc[0]:g})")
        return [torch.tensor([value], dtype=torch.float) for value in column], task, None
    codes, classes = _encoded(column)
    if len(classes) < 2:
        raise ValueError(f"expected at least two classes in column {column.name} (got only {classes[0]})")
    table.notes.extend(_class_notes(classes, np.bincount(codes).tolist()))
    return [torch.tensor([code]) for code in codes.tolist()], task, classes


def _with_positive(y: list, task: str, classes: tuple | None, positive) -> tuple[list, tuple]:
    "Labels of two classes, numbered so that `positive` is 1; ValueError if it is not one of two classes."
    classes = classes or ((0, 1) if task == "classification" else ())
    names = [str(name) for name in classes]
    if len(names) != 2 or str(positive) not in names:
        got = f"the classes {', '.join(names)}" if names else "values"
        raise ValueError(f"expected positive as one of two classes (got {positive!r} for {got})")
    if names[1] == str(positive):
        return y, classes
    return [1 - label for label in y], classes[::-1]


def _class_notes(classes: tuple, counts: list) -> list[str]:
    "The number of rows of each class, and doubts about classes that may be mistakes."
    notes = ["classes: " + ", ".join(f"{name} {count:,}" for name, count in zip(classes, counts))]
    alike = defaultdict(list)
    for name in map(str, classes):
        alike[name.casefold().strip()].append(name)
    notes += [
        f"the classes {' and '.join(names)} differ only in case or spaces; if they are the same, correct the file"
        for names in alike.values()
        if len(names) > 1
    ]
    rare = [str(name) for name, count in zip(classes, counts) if count < FEWEST_OF_A_CLASS]
    if rare and len(classes) > 2:
        notes.append(f"fewer than {FEWEST_OF_A_CLASS} rows of the class {', '.join(rare)}: is it a label?")
    return notes


def _encoded(column) -> tuple[np.ndarray, tuple]:
    "Class numbers, and the classes in the order of scikit-learn's `LabelEncoder`."
    from sklearn.preprocessing import LabelEncoder

    encoder = LabelEncoder()
    codes = encoder.fit_transform(column.astype(str) if column.dtype.kind != "f" else column)
    return codes, tuple(_whole(encoder.classes_))


def _whole(values) -> list:
    "The values as a list, with whole numbers as integers."
    return [int(value) if isinstance(value, float) and value.is_integer() else value for value in values.tolist()]


def _split_of(table: MoleculeTable, y: list, task: str, split: str, seed: int) -> dict:
    "The split by name; molecules with the same key stay together."
    if split == "scaffold":
        return scaffold_split(table.scaffolds, *DEFAULT_SPLIT)
    if split == "random":
        labels = torch.cat(y).numpy()
        strata = labels if task == "classification" and labels.ndim == 1 else np.zeros(len(y), int)
        return split_indices(strata, *DEFAULT_SPLIT, seed, groups=table.keys)
    if split not in table.table.columns:
        known = ", ".join(map(str, table.table.columns))
        raise ValueError(f"expected split as random, scaffold, or one of the columns {known} (got {split!r})")
    return predefined_split(table.table[split])


def _reject_duplicates(table: MoleculeTable, split: dict):
    "Reject training and validation molecules that are also in the test part, and training molecules that are also in validation; only a predefined split has any."
    seen = {}
    for part in ("test", "valid", "train"):
        rows = split[part].tolist()
        twice = [row for row in rows if table.keys[row] in seen and seen[table.keys[row]][0] != part]
        for row in twice:
            other = seen[table.keys[row]]
            reason = f"expected each molecule in only one part (got that of line {other[1]}, which is in {other[0]})"
            table.rejected.append(Rejected(table.lines[row], table.smiles[row], reason))
        split[part] = np.array([row for row in rows if row not in set(twice)], dtype=int)
        for row in split[part].tolist():
            seen.setdefault(table.keys[row], (part, table.lines[row]))
    table.rejected.sort()
