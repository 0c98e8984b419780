"""Data sets that are larger than memory: graphs are read when a batch needs them, and are not kept in memory."""

import dataclasses
import itertools

import numpy as np
import torch
from torch_geometric.data import Batch, Data, InMemoryDataset

from gib_nb.chem.featurize import MoleculeGraphs
from gib_nb.data.labels import encode_labels, list_graphs, read_labels
from gib_nb.data.spec import (
    DataSpec,
    PreparedGraphs,
    graphs_and_labels,
    label_names,
    prepare_training,
    spec_of,
    strata_of,
    to_device,
    with_edges,
)
from gib_nb.data.splits import split_indices
from gib_nb.data.validate import DegreeFeatures, validate_alike, warn_of_unused_fields

CHUNK = 1000  # graphs in memory while labels and sizes are read
SAMPLE = 5000  # graphs on which a training on more graphs is evaluated at its end


def stream_of(graphs):
    "The data set from which graphs can be read one by one, with its number of workers; None for graphs in memory."
    if isinstance(graphs, torch.utils.data.DataLoader):
        if stream_of(graphs.dataset) is None:
            return None
        rows = rows_of_loader(graphs)
        chosen = graphs.dataset if rows is None else torch.utils.data.Subset(graphs.dataset, rows)
        return chosen, graphs.num_workers
    if isinstance(graphs, torch.utils.data.Subset):
        return None if stream_of(graphs.dataset) is None else (graphs, 0)
    if isinstance(graphs, MoleculeGraphs):
        return graphs, 0
    data_set = (
        isinstance(graphs, torch.utils.data.Dataset) and hasattr(graphs, "__getitem__") and hasattr(graphs, "__len__")
    )
    return (graphs, 0) if data_set and not isinstance(graphs, InMemoryDataset) else None


def rows_of_loader(loader: torch.utils.data.DataLoader) -> list | None:
    "The rows of the data set that the samplers of a `DataLoader` choose; None if they choose all."
    batches, sampler = loader.batch_sampler, loader.sampler
    if type(batches) not in (torch.utils.data.BatchSampler, type(None)):
        return list(itertools.chain.from_iterable(batches))
    drawn = isinstance(sampler, torch.utils.data.RandomSampler) and (
        sampler.replacement or sampler.num_samples != len(loader.dataset)
    )
    if type(sampler) in (torch.utils.data.SequentialSampler, torch.utils.data.RandomSampler) and not drawn:
        return None
    return list(sampler)


class StreamedGraphs(PreparedGraphs):
    "`PreparedGraphs` of data sets: a graph is read, and converted to the format, each time it is requested."

    in_memory = False

    def __init__(
        self,
        sources: list,  # data sets, or lists of graphs
        places: np.ndarray,  # [N, 2] number of the source and of the graph in it
        spec: DataSpec,
        targets: torch.Tensor,  # [N] or [N, T]
        prior: str | None = None,
        num_workers: int = 0,
        mean_nodes: float = 0.0,
    ):
        super().__init__([], spec)
        self.sources, self.places, self.targets = sources, places, targets
        self.prior, self.num_workers, self._mean_nodes = prior, num_workers, mean_nodes

    def _some(self, rows) -> "StreamedGraphs":
        more = self.prior, self.num_workers, self._mean_nodes
        return StreamedGraphs(self.sources, self.places[rows], self.spec, self.targets[rows], *more)

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, place):
        if isinstance(place, slice):
            return self._some(place)
        source, row = self.places[place]
        graph = self.sources[source][int(row)]
        return self.spec._bare([graph], [self.targets[place : place + 1]], self.prior, int(row)).graphs[0]

    def __add__(self, others: "StreamedGraphs") -> "StreamedGraphs":
        shifted = others.places + np.array([len(self.sources), 0])
        places, targets = np.concatenate([self.places, shifted]), torch.cat([self.targets, others.targets])
        more = self.prior, self.num_workers, self._mean_nodes
        return StreamedGraphs([*self.sources, *others.sources], places, self.spec, targets, *more)

    @property
    def y(self) -> torch.Tensor:
        return self.targets

    @property
    def mean_nodes(self) -> float:
        return self._mean_nodes

    def batch(self, rows=None, device: str = "cpu") -> Batch:
        rows = range(len(self)) if rows is None else rows
        return to_device(Batch.from_data_list([self[row] for row in rows]), device)

    def batches_of(self, parts, device: str = "cpu"):
        if not self.num_workers:
            yield from super().batches_of(parts, device)
            return
        loader = torch.utils.data.DataLoader(
            self, batch_sampler=list(parts), num_workers=self.num_workers, collate_fn=Batch.from_data_list
        )
        for batch in loader:
            yield to_device(batch, device)

    def batches(self, batch_size: int, device: str = "cpu"):
        yield from self.batches_of(
            [range(i, min(i + batch_size, len(self))) for i in range(0, len(self), batch_size)], device
        )

    def sample(self) -> PreparedGraphs:
        if len(self) <= SAMPLE:
            return self
        return self._some(np.linspace(0, len(self) - 1, SAMPLE).round().astype(int))


@dataclasses.dataclass
class _Scan:
    "The results of one pass over all graphs."

    first: list  # the first graphs, in memory
    labels: np.ndarray  # [N] or [N, T]
    max_degree: int  # over all graphs; used if they have no features
    mean_nodes: float


def _scan(graphs, y) -> _Scan:
    "Check all graphs of a data set, and read their labels if y does not give them."
    numbers, degree, nodes, first, start = [], 0, 0, [], 0
    rows = iter(graphs[i] for i in range(len(graphs)))
    while chunk := list(itertools.islice(rows, CHUNK)):
        validate_alike(chunk, [y is None] * len(chunk), start)
        first = first or chunk
        if start:
            _check_like(first[0], chunk[0], start, y is None)
        if chunk[0].x is None or not chunk[0].x.size(1):
            degree = max(degree, DegreeFeatures.fit(chunk).max_degree)
        nodes += sum(graph.num_nodes for graph in chunk)
        numbers.append(read_labels(chunk) if y is None else np.zeros(0))
        start += len(chunk)
    if not start:
        raise ValueError("expected at least one graph (got an empty data set)")
    labels = np.concatenate(numbers) if y is None else read_labels(range(start), y)
    return _Scan(first, labels, degree, nodes / start)


def _check_like(first: Data, graph: Data, number: int, labeled: bool):
    "ValueError if a graph has another number of features or labels than the first one."
    width = lambda each: 0 if each.x is None else each.x.size(1)
    if width(first) != width(graph):
        raise ValueError(f"graph {number}: expected columns of x {width(first)}, as in graph 0 (got {width(graph)})")
    if labeled and first.y.numel() != graph.y.numel():
        raise ValueError(
            f"graph {number}: expected number of labels {first.y.numel()}, as in graph 0 (got {graph.y.numel()})"
        )


def prepare_streams(
    train,  # a data set
    y=None,  # as in `prepare_training`, like all that follow
    valid=None,  # a data set, or a list of graphs
    valid_y=None,
    seed: int = 0,
    prior: str | None = None,
    class_weight=None,
    edges=(),
    num_workers: int = 0,  # processes that read graphs
) -> tuple[DataSpec, StreamedGraphs, StreamedGraphs]:
    "Like `prepare_training`, but without keeping the graphs: they are read once here, and again for each batch."
    scan = _scan(train, y)
    other = None if valid is None else _scan(valid, valid_y)
    names = label_names(train) if y is None else {}
    encoded = encode_labels(scan.labels, scan.labels[:0] if other is None else other.labels, **names)
    spec = with_edges(spec_of(scan.first, encoded, class_weight), scan.first, edges)
    if spec.max_degree is not None:
        degree = max(scan.max_degree, 0 if other is None else other.max_degree)
        spec = dataclasses.replace(spec, max_degree=degree, in_channels=degree + 1)
    own, more = torch.cat(encoded.train), (prior, num_workers, scan.mean_nodes)
    place = lambda rows: np.stack([np.zeros(len(rows), int), np.asarray(rows, int)], 1)
    if other is None:
        parts = split_indices(strata_of(encoded), 0.9, 0.1, seed)
        made = [
            StreamedGraphs([train], place(parts[name]), spec, own[parts[name]], *more) for name in ("train", "valid")
        ]
        return spec, *made
    given = torch.cat(encoded.valid)
    return (
        spec,
        StreamedGraphs([train], place(range(len(train))), spec, own, *more),
        StreamedGraphs([valid], place(range(len(valid))), spec, given, *more),
    )


def prepare_any(
    train,  # graphs in memory, as from `iter_graphs`, or a data set that gives them one by one
    y=None,  # as in `prepare_training`, like all that follow
    valid=None,  # graphs, or a pair of graphs and y
    num_workers: int = 0,  # processes that read the graphs of a data set
    **more,  # seed, prior, class_weight, edges
) -> tuple[DataSpec, PreparedGraphs, PreparedGraphs]:
    "The format and both sets in it; graphs of a data set that is not in memory are not kept. Warns of fields that no network reads."
    stream = stream_of(train)
    if stream is None:
        given, (valid, valid_y) = list_graphs(train), graphs_and_labels(valid, y)
        prepared = prepare_training(given, y, valid, valid_y, **more)
    else:
        other = stream_of(valid)
        valid, valid_y = graphs_and_labels(valid, y) if other is None else (other[0], None)
        prepared = prepare_streams(stream[0], y, valid, valid_y, num_workers=num_workers or stream[1], **more)
        given = [stream[0][0]]
    warn_of_unused_fields(given, prepared[0].edge_fields)
    return prepared
