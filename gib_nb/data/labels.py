"""Labels as users provide them: class numbers, words, booleans, or values; one for each graph, or several of which some are missing."""

import warnings
from typing import NamedTuple

import numpy as np
import torch
from torch_geometric.data import Data

from gib_nb.data.validate import iter_graphs, warn_of_float_classes


class EncodedLabels(NamedTuple):
    "Labels as a loss takes them, and the meaning of the numbers."

    train: list  # a tensor for each graph: [1] class or value; for several targets [1, T], 0 or 1 or a value, NaN if missing
    valid: list
    task: str  # "classification" or "regression"
    classes: tuple | None  # the label behind each number; None: 0, 1, …
    targets: tuple | None = None  # the names of several targets; None for one
    coded: bool = False  # whether the graphs hold these numbers, and not the labels


class LabeledGraphs(list):
    "A list of graphs with the names of their classes and targets; a slice of it does not have them."

    def __init__(self, graphs=(), task: str | None = None, classes: tuple | None = None, targets: tuple | None = None):
        super().__init__(graphs)
        self.task, self.classes, self.targets = task, classes, targets


class LabeledSubset(torch.utils.data.Subset):
    "Some graphs of a data set that is not in memory, with the names of their classes and targets."

    def __init__(
        self, graphs, rows, task: str | None = None, classes: tuple | None = None, targets: tuple | None = None
    ):
        super().__init__(graphs, np.asarray(rows, int))
        self.task, self.classes, self.targets = task, classes, targets

    def __iter__(self):
        return (self[i] for i in range(len(self)))


def list_graphs(
    graphs,  # as from `iter_graphs`
) -> LabeledGraphs:
    "All graphs, with the task and the names of classes and targets if their data set has them."
    names = {name: getattr(graphs, name, None) for name in ("task", "classes", "targets")}
    return LabeledGraphs(iter_graphs(graphs), **names)


def check_label(
    graph: Data,
    number: int,  # of the graph, for error messages
    num_targets: int = 1,
) -> torch.Tensor:
    "The label of a graph, one number for each target; ValueError with the number of the graph if it has none."
    y = graph.get("y")
    if not isinstance(y, torch.Tensor) or y.numel() != num_targets:
        wanted = "one label" if num_targets == 1 else f"{num_targets} labels, NaN where one is missing"
        raise ValueError(f"graph {number}: expected y, a tensor with {wanted} (got {getattr(y, 'shape', y)})")
    return y


def num_targets_of(graphs: list) -> int:
    "The number of labels of each graph, from the first one."
    y = graphs[0].get("y") if graphs else None
    return max(y.numel(), 1) if isinstance(y, torch.Tensor) else 1


def read_labels(
    graphs: list,  # with y, if none is given
    y=None,  # [N] or [N, T] labels or values; None takes those of the graphs
) -> np.ndarray:  # [N], or [N, T] for several targets; of a floating type for regression
    "The labels of graphs; ValueError for a wrong number of labels, or for a graph without any."
    if y is None:
        several = num_targets_of(graphs)
        found = [check_label(graph, i, several) for i, graph in enumerate(graphs)]
        if several > 1:
            return _without_empty_rows(torch.stack([label.reshape(-1) for label in found]).numpy())
        return np.array([label.item() for label in found])
    if isinstance(y, (list, tuple)) and len({isinstance(label, str) for label in y if label is not None}) > 1:
        raise ValueError("expected labels of one type (got words and numbers)")
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] > 1 and len(y) == len(graphs):
        return _without_empty_rows(y)
    if y.shape not in ((len(graphs),), (len(graphs), 1)):
        raise ValueError(f"expected y with one label for each of {len(graphs)} graphs (got shape {list(y.shape)})")
    y = y.reshape(-1)
    if missing := [i for i, label in enumerate(y.tolist()) if _is_missing(label)]:
        raise ValueError(
            f"expected a label for every graph (got {y[missing[0]]!r} for graph {missing[0]}); leave out graphs without one"
        )
    return y


def named_labels(graphs, y=None) -> np.ndarray:
    "Like `read_labels`, with the class names of a data set in place of the numbers that its graphs hold."
    names = getattr(graphs, "classes", None) if y is None else None
    y = read_labels(graphs, y)
    return y if names is None or y.ndim == 2 else np.array(names)[y]


def _is_missing(label) -> bool:
    return label is None or label != label


def _seen(y: np.ndarray) -> np.ndarray:
    "Which cells have a label, bool of the shape of y."
    if y.dtype.kind == "f":
        return ~np.isnan(y)
    return np.array([not _is_missing(label) for label in y.ravel().tolist()], dtype=bool).reshape(y.shape)


def _without_empty_rows(y: np.ndarray) -> np.ndarray:
    "The labels unchanged; ValueError for a graph that has none."
    if len(empty := np.flatnonzero(~_seen(y).any(1))):
        raise ValueError(
            f"expected a label in at least one of {y.shape[1]} targets for every graph (got none for graph {empty[0]}); leave out graphs without one"
        )
    return y


def encode_labels(
    given: np.ndarray,  # [N] or [N, T], of training
    others: np.ndarray,  # of validation; may be empty
    classes: tuple | None = None,  # names of the class numbers in `given`, if known
    targets: tuple | None = None,  # names of the targets
    task: str | None = None,  # None: by the type of the labels
    renumber: bool = True,  # False: the labels are already the numbers of outputs
) -> EncodedLabels:
    "Labels as the loss takes them, with classes in ascending order as in scikit-learn's `LabelEncoder`; ValueError if they cannot be learned."
    if given.ndim == 2:
        return _encode_several(given, others, classes, targets, task)
    if len(others) and (given.dtype.kind == "f") != (others.dtype.kind == "f"):
        raise ValueError(
            f"expected labels of one kind in training and validation (got {given.dtype} and {others.dtype})"
        )
    if given.dtype.kind == "f" or task == "regression":
        return _encode_values(given, others)
    if len(found := np.unique(given)) < 2:
        raise ValueError(f"expected at least two classes (got only class {found[0]} in {len(given)} graphs)")
    if classes is not None:
        return EncodedLabels(
            _class_tensors(given), _class_tensors(others), "classification", tuple(classes), coded=True
        )
    known = np.unique(np.concatenate([given, others]) if len(others) else given)
    plain = not renumber or known.dtype.kind in "iu" and np.array_equal(known, np.arange(len(known)))
    code = lambda labels: _class_tensors(labels if plain else np.searchsorted(known, labels))
    return EncodedLabels(code(given), code(others), "classification", None if plain else tuple(known.tolist()))


def _class_tensors(codes) -> list:
    return [torch.tensor([int(code)]) for code in codes]


def _encode_values(given, others) -> EncodedLabels:
    "One value for each graph."
    given, others = given.astype(float), others.astype(float)
    warn_of_float_classes(given)
    if len(given) > 1 and len(values := np.unique(given)) == 1:
        raise ValueError(f"expected a y that varies, for regression (got {values[0]:g} in all {len(given)} graphs)")
    tensors = lambda values: [torch.tensor([value], dtype=torch.double) for value in values.tolist()]
    return EncodedLabels(tensors(given), tensors(others), "regression", None)


def _encode_several(given, others, classes, targets, task) -> EncodedLabels:
    "Several labels for each graph, of which some may be missing: of two classes that all targets have in common, or values."
    others = others if len(others) else given[:0]
    if others.shape[1] != given.shape[1]:
        raise ValueError(f"expected {given.shape[1]} targets in validation, as in training (got {others.shape[1]})")
    targets = tuple(targets or (f"target {i}" for i in range(given.shape[1])))
    seen = _seen(given)
    if empty := [name for name, some in zip(targets, seen.any(0)) if not some]:
        raise ValueError(f"expected labels of every target in training (got none of {', '.join(empty)})")
    known = np.unique(np.concatenate([given[seen], others[_seen(others)]]).astype(given[seen].dtype))
    values = given.dtype.kind == "f" and not set(known.tolist()) <= {0.0, 1.0}
    if task == "regression" or task is None and values:
        return EncodedLabels(_rows(given), _rows(others), "regression", None, targets)
    if len(known) != 2:
        raise ValueError(
            f"expected two classes that all of {len(targets)} targets have in common (got {', '.join(map(str, known[:10]))})"
        )
    if single := [name for name, column, some in zip(targets, given.T, seen.T) if len(set(column[some].tolist())) < 2]:
        warnings.warn(f"only one class in training: {', '.join(single)}", UserWarning, stacklevel=4)
    plain = set(known.tolist()) == {0, 1} and known.dtype.kind != "b"
    names = classes or (None if plain else tuple(known.tolist()))
    code = lambda y: _rows(np.where(_seen(y), y == known[1], np.nan))
    return EncodedLabels(code(given), code(others), "classification", names, targets, plain)


def _rows(y: np.ndarray) -> list:
    return list(torch.as_tensor(y.astype(float))[:, None])


def balanced_weights(
    y: torch.Tensor,  # [N] class numbers, or [N, T] of 0, 1, and NaN
    num_classes: int,
) -> np.ndarray:  # [C], or [T, 2]
    "The weight of each class, N / (C · its number of graphs), as in scikit-learn; 1 for a class that does not occur."
    if y.dim() == 1:
        count = torch.bincount(y, minlength=num_classes).numpy()
    else:
        count = np.stack([(y == code).sum(0).numpy() for code in (0, 1)], 1)
    total = count.sum(-1, keepdims=True)
    return np.where(count > 0, total / (num_classes * np.maximum(count, 1)), 1.0)


def class_weights(
    weight,  # None, "balanced", or a dict: label → weight
    encoded: EncodedLabels,
    num_classes: int,
) -> tuple | None:  # [C], or a pair for each target
    "The weights of the classes in the loss; ValueError for labels that do not occur, and for regression."
    if weight is None:
        return None
    if encoded.task == "regression":
        raise ValueError(f"expected class_weight only with classes (got {weight!r} for values)")
    if weight == "balanced":
        return _nested(balanced_weights(torch.cat(encoded.train), num_classes))
    labels = list(encoded.classes or range(num_classes))
    names = [str(label) for label in labels]  # keys in JSON are strings
    if unknown := [label for label in weight if label not in labels and str(label) not in names]:
        raise ValueError(
            f"expected class_weight for labels among {', '.join(names)} (got {', '.join(map(str, unknown))})"
        )
    row = tuple(float(weight.get(label, weight.get(name, 1.0))) for label, name in zip(labels, names))
    return row if encoded.targets is None else (row,) * len(encoded.targets)


def _nested(weights: np.ndarray) -> tuple:
    return tuple(map(tuple, weights.tolist())) if weights.ndim == 2 else tuple(weights.tolist())
