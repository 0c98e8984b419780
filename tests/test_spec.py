"What comes in: labels and features in any form, graphs that do not fit, and each graph checked once."

import dataclasses
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data, InMemoryDataset
from torch_geometric.nn import GIN, global_mean_pool

from gib_nb.data import validate
from gib_nb.data.spec import DataSpec, PreparedGraphs, prepare_training
from gib_nb.train.classifier_trainer import ClassifierTrainer
from gib_nb.train.estimators import GIBClassifier
from gib_nb.train.trainer import GIBTrainer
from gib_nb.utils.reproducible import LocalRandomness
from tests.training import NONE, QUICK, caught, fitted, make_graphs, quick, ring, same

pytestmark = pytest.mark.filterwarnings("ignore::gib_nb.train.collapse.CollapseWarning")


@pytest.fixture(scope="module")
def trained():
    return fitted()


@pytest.fixture(scope="module")
def featureless():
    return fitted(make_graphs(d=0))


LABELS = {
    "[1]": lambda v: torch.tensor([v]),
    "scalar": lambda v: torch.tensor(v),
    "[1, 1]": lambda v: torch.tensor([[v]]),
    "uint8": lambda v: torch.tensor([v], dtype=torch.uint8),
    "int32": lambda v: torch.tensor([v], dtype=torch.int32),
    "bool": lambda v: torch.tensor([v == 1]),
}


@pytest.mark.parametrize("kind", LABELS)
def test_one_label_in_any_shape(kind, trained):
    "A label of one element: as a vector, a scalar or a matrix, and of any type of whole number."
    other = fitted(make_graphs(y=LABELS[kind]))
    assert same(other.history, trained.history)
    assert other.score(make_graphs(y=LABELS[kind])) == trained.score(make_graphs())


@pytest.mark.parametrize("kind", ["[1]", "scalar", "[1, 1]"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_one_target_in_any_shape(kind, dtype):
    trainer = fitted(make_graphs(y=lambda v: LABELS[kind](v).to(dtype)))
    assert trainer.spec.task == "regression" and trainer.predict(make_graphs()[:3]).shape == (3,)


@pytest.mark.parametrize("y", [None, 1, torch.tensor([0, 1]), torch.tensor([]), torch.tensor([math.nan])], ids=str)
@pytest.mark.parametrize("split", [True, False])
def test_labels_that_are_none(y, split):
    "The graph at fault is named, whether or not the trainer has to split."
    graphs = make_graphs()
    graphs[3].y = y
    with pytest.raises(ValueError, match="graph 3: expected .*y"):
        GIBTrainer(**QUICK).fit(graphs[:18] if split else graphs, valid=graphs[18:] if split else None, progress=False)


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="at least two classes .*class 1"):
        GIBTrainer(**QUICK).fit(make_graphs()[1::2], progress=False)


def test_one_class_in_training_is_refused():
    "Also when only the validation graphs hold a second one."
    with pytest.raises(ValueError, match="two classes"):
        GIBTrainer(**QUICK).fit(make_graphs()[1::2], valid=make_graphs()[:4], progress=False)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_features_that_are_not_finite_are_named(value, trained):
    "By graph, column and row; in training and at prediction."
    graphs = make_graphs()
    graphs[5].x[2, 1] = value
    with pytest.raises(ValueError, match="graph 5: .*finite.*column 1, row 2"):
        GIBTrainer(**QUICK).fit(graphs, progress=False)
    for method in (trained.predict, trained.predict_proba, trained.explain):
        with pytest.raises(ValueError, match="graph 1: .*finite.*column 1, row 2"):
            method(graphs[4:6])


@pytest.mark.parametrize(
    "change, text",
    [
        (dict(x=torch.ones(5, 5)), "3 columns, as in training .*5 columns"),
        (dict(x=None), "3 columns, as in training .*no x"),
        (dict(x=torch.ones(5, 3, dtype=torch.long)), "floating"),
        (dict(edge_index=torch.tensor([[0], [5]])), "edge_index between 0 and 4"),
        (dict(edge_index=ring(4).int()), "int64"),
        (dict(edge_index=None), r"\[2, E\]"),
    ],
)
def test_graphs_that_do_not_fit_are_named(change, text, trained):
    graphs = make_graphs(2)
    for name, value in change.items():
        graphs[1][name] = value
    for method in (trained.predict, trained.explain):
        with pytest.raises(ValueError, match=f"graph [01]: expected .*{text}"):
            method(graphs[1])


@pytest.mark.parametrize("train, valid", [([], None), ([], []), (make_graphs(4), []), (make_graphs(1), make_graphs(2))])
def test_too_few_graphs(train, valid):
    with pytest.raises(ValueError, match="expected"):
        GIBTrainer(**QUICK).fit(train, valid=valid, progress=False)


def test_predictions_of_nothing(trained):
    for method in (trained.predict, trained.predict_proba, trained.explain):
        with pytest.raises(ValueError, match="at least one graph"):
            method([])


def test_degree_features_have_one_width():
    "Fixed from all graphs that training may see, also those of the validation set; the graphs themselves are not changed."
    graphs = make_graphs(d=0)
    hub = Data(edge_index=torch.tensor([[0] * 7, list(range(1, 8))]), y=torch.tensor([1]), num_nodes=8)
    trainer = fitted(graphs[:18], [*graphs[18:], hub])
    assert trainer.spec.in_channels == 8 and trainer.spec.max_degree == 7
    assert all(graph.x is None for graph in (*graphs, hub))
    assert trainer.spec.prepare([graphs[0]])[0].x.tolist() == [[0, 0, 1, 0, 0, 0, 0, 0]] * 4


def test_unseen_degrees_share_the_last_column(featureless):
    star = lambda n: Data(edge_index=torch.tensor([[0] * n, list(range(1, n + 1))]), num_nodes=n + 1)
    top = featureless.spec.max_degree
    prepared = featureless.spec.prepare([star(top), star(40)])
    assert torch.equal(prepared[0].x[0], prepared[1].x[0]) and prepared[1].x[0, -1] == 1
    assert {graph.x.shape[1] for graph in prepared} == {featureless.spec.in_channels}
    assert featureless.predict([star(40)]).shape == (1,)


def test_graphs_without_an_edge():
    "All of them, without features: one column, degree 0."
    graphs = [Data(edge_index=NONE, num_nodes=1 + i % 2, y=torch.tensor([i % 2])) for i in range(12)]
    trainer, _ = caught(fitted, graphs[:9], graphs[9:])
    assert trainer.spec.in_channels == 1 and np.isfinite(trainer.predict_proba(graphs)).all()


def test_labels_are_read_graph_by_graph():
    "From a slice of a data set in one block: never from its unsliced store."
    graphs = make_graphs(40, y=lambda v: torch.tensor([float(v)]))
    for i, graph in enumerate(graphs):
        graph.y += 10 * i
    dataset = InMemoryDataset()
    dataset.data, dataset.slices = dataset.collate(graphs)
    part = dataset[[30, 3, 12, 7]]
    expected = [float(graphs[i].y) for i in (30, 3, 12, 7)]
    spec, train, valid = prepare_training(list(part)[:3], valid=list(part)[3:])
    assert spec.y_mean == pytest.approx(np.mean(expected)) and spec.y_std == pytest.approx(np.std(expected))
    assert [float(graph.y) for graph in spec.prepare(list(part))] == (train + valid).y.tolist() == expected


def test_the_graphs_are_left_alone():
    graphs = make_graphs()
    before = [graph.clone() for graph in graphs]
    trainer = fitted(graphs)
    caught(trainer.explain, graphs)
    for graph, old in zip(graphs, before):
        assert sorted(graph.keys()) == sorted(old.keys()) and all(
            torch.equal(graph[k], old[k]) for k in ("x", "edge_index", "y")
        )


# --- each graph is checked once


@pytest.fixture
def checks(monkeypatch):
    "Graph (the object) → how often it was checked."
    seen, check = {}, validate.check_graph

    def counting(graph, *more):
        seen[id(graph)] = seen.get(id(graph), 0) + 1
        check(graph, *more)

    monkeypatch.setattr(validate, "check_graph", counting)
    return seen


def once(graphs, checks):
    "Whether each of these graphs, and nothing else, was checked once; forgets it."
    found = {id(graph): 1 for graph in graphs} == checks
    checks.clear()
    return found


class Theirs(nn.Module):
    def __init__(self):
        super().__init__()
        self.gnn = GIN(3, 8, 2, out_channels=2)

    def forward(self, x, edge_index, batch):
        return global_mean_pool(self.gnn(x, edge_index), batch)


@pytest.mark.parametrize(
    "settings",
    [{}, dict(classifier="reencode", mask_on="edges", prior_prob=0.3), dict(threshold=0.0, max_restarts=2)],
    ids=["GIB", "prior", "restarts"],
)
def test_fit_checks_each_graph_once(checks, settings, tmp_path):
    "Whatever follows: epochs, restarts, checkpoints, the search for collapse and the audit of the masks."
    graphs = make_graphs()
    fitted(graphs, checkpoint=tmp_path / "run", **settings)
    assert once(graphs, checks)
    trainer = GIBTrainer(**quick(**settings)).fit(graphs, progress=False)  # split by the trainer
    assert once(graphs, checks)
    trainer.fit(
        graphs[:18],
        [graph.y.item() for graph in graphs[:18]],
        valid=(graphs[18:], [graph.y.item() for graph in graphs[18:]]),
        progress=False,
    )
    assert once(graphs, checks)


def test_post_hoc_too(checks):
    graphs = make_graphs()
    for seed in range(50):
        with LocalRandomness(seed):
            theirs = Theirs().eval()
        batch = Batch.from_data_list(graphs[:18])
        if len(theirs(batch.x, batch.edge_index, batch.batch).argmax(1).unique()) == 2:
            break
    fitted(graphs, model=theirs)
    assert once(graphs, checks)


@pytest.mark.parametrize(
    "make",
    [lambda: GIBClassifier(**QUICK), lambda: ClassifierTrainer("gin", hidden_channels=8, epochs=2)],
    ids=["GIBClassifier", "ClassifierTrainer"],
)
def test_estimators_too(checks, make):
    graphs = make_graphs()
    estimator = make().fit(graphs)
    assert once(graphs, checks)
    estimator.predict(graphs)
    assert once(graphs, checks)
    estimator.score(graphs)
    assert once(graphs, checks)


def test_whatever_is_asked_of_graphs_checks_each_once(checks, trained):
    graphs = make_graphs()
    for ask in (
        trained.predict,
        trained.predict_proba,
        trained.apply,
        trained.explain,
        trained.score,
        lambda graphs: list(trained.iter_explain(graphs)),
        lambda graphs: trained.mutual_information(graphs, steps=3),
    ):
        caught(ask, graphs)
        assert once(graphs, checks)
    trained.predict(graphs[0])
    assert once(graphs[:1], checks)


def test_prepared_graphs_pass_unchecked(checks, trained):
    "Those of this format; others are checked, as if they were new."
    graphs = make_graphs()
    prepared = trained.spec.prepare(graphs)
    assert isinstance(prepared, PreparedGraphs) and once(graphs, checks)
    assert trained.spec.prepare(prepared) is prepared and not checks
    assert np.array_equal(trained.predict_proba(prepared), trained.predict_proba(graphs)) and once(graphs, checks)
    other = dataclasses.replace(trained.spec, in_channels=5)
    with pytest.raises(ValueError, match="graph 0: expected x with 5 columns"):
        other.prepare(prepared)


def test_prepared_graphs_are_a_sequence(trained):
    prepared = trained.spec.prepare(make_graphs())
    assert (
        len(prepared) == 24
        and len(prepared[3:7]) == 4
        and isinstance(prepared[3:7], PreparedGraphs)
        and prepared[-1].y.tolist() == [1]
    )
    assert (
        [len(batch) for batch in prepared.batches(9)] == [9, 9, 6]
        and prepared.batch([3, 1]).y.tolist() == [1, 1]
        and len(prepared[:2] + prepared[3:]) == 23
    )
    assert prepared.y.tolist() == [0, 1] * 12 and all(
        set(graph.keys()) <= {"x", "edge_index", "y", "num_nodes"} for graph in prepared
    )


def test_graphs_that_were_prepared_without_labels_have_none(trained):
    assert "y" not in trained.spec.prepare(make_graphs(), labels=False)[0]
    graphs = make_graphs()
    graphs[3].y = None
    assert "y" not in trained.spec.prepare(graphs)[0]  # by default all are labeled, or none is
    with pytest.raises(ValueError, match="graph 3: expected y"):
        trained.spec.prepare(graphs, labels=True)
    with pytest.raises(ValueError, match="among the classes of training, a, b .got 7"):
        DataSpec("classification", 2, 3, classes=("a", "b")).prepare(make_graphs(3, y=lambda label: torch.tensor([7])))


# ---- what the edges carry


def with_edges(graphs, **fields):
    "The graphs with fields that are functions of the number of edges."
    return [graph.clone().update({name: make(graph.num_edges) for name, make in fields.items()}) for graph in graphs]


@pytest.mark.parametrize(
    "field, make, shape, dtype",
    [
        ("edge_attr", lambda e: torch.ones(e, 2), (2,), None),
        ("edge_attr", lambda e: torch.ones(e, 2, dtype=torch.long), (2,), None),
        ("edge_attr", lambda e: torch.ones(e, 2, dtype=torch.bool), (2,), None),
        ("edge_attr", lambda e: torch.ones(e, dtype=torch.double), (1,), None),
        ("edge_weight", lambda e: torch.arange(e), (), None),
        ("edge_weight", lambda e: torch.ones(e, dtype=torch.half), (), None),
    ],
)
def test_what_edges_carry_becomes_single_precision(field, make, shape, dtype):
    graphs = with_edges(make_graphs(), **{field: make})
    spec, train, _ = prepare_training(graphs[:18], valid=graphs[18:], edges=("edge_attr", "edge_weight"))
    assert spec.edge_fields == (field,) and spec.edge_channels == (shape[0] if shape else 0)
    for graph, given in zip(train, graphs):
        assert graph[field].dtype == torch.float and graph[field].shape == (given.num_edges, *shape)
        assert torch.equal(graph[field], make(given.num_edges).reshape(-1, *shape).float())
    again = spec.prepare(graphs[:3])
    assert all(torch.equal(a[field], b[field]) for a, b in zip(again, train))


@pytest.mark.parametrize(
    "field, wrong, text",
    [
        ("edge_attr", None, r"edge_attr of shape \[8, 2\], as other graphs have .got none"),
        ("edge_attr", "x", "got str"),
        ("edge_attr", torch.ones(8, 3), r"edge_attr with numbers of shape \[8, 2\] .got \[8, 3\]"),
        ("edge_attr", torch.ones(7, 2), r"got \[7, 2\]"),
        ("edge_attr", torch.ones(8), r"got \[8\]"),
        ("edge_attr", torch.ones(8, 2, 1), r"got \[8, 2, 1\]"),
        ("edge_attr", torch.ones(8, 2, dtype=torch.cfloat), "complex"),
        ("edge_attr", torch.ones(8, 2).to_sparse(), "sparse"),
        ("edge_attr", torch.full((8, 2), math.nan), "finite edge_attr .got .nan, nan. in row 0"),
        ("edge_weight", None, "edge_weight of shape .8., as other graphs have"),
        ("edge_weight", torch.ones(8, 2), r"got \[8, 2\]"),
        ("edge_weight", torch.tensor([1.0] * 7 + [math.inf]), "finite edge_weight .got inf in row 7"),
    ],
)
def test_edges_that_do_not_fit_are_named(field, wrong, text):
    graphs = with_edges(make_graphs(), edge_attr=lambda e: torch.ones(e, 2), edge_weight=torch.ones)
    assert graphs[3].num_edges == 8 + 2 or True
    number = next(i for i, graph in enumerate(graphs) if i and graph.num_edges == 8)
    spec = prepare_training(graphs[:18], valid=graphs[18:], edges=("edge_attr", "edge_weight"))[0]
    bad = [graph.clone() for graph in graphs]
    bad[number][field] = wrong
    for refuse in (
        lambda: prepare_training(bad[:18], valid=bad[18:], edges=("edge_attr", "edge_weight")),
        lambda: spec.prepare(bad),
    ):
        with pytest.raises(ValueError, match=f"graph {number}: expected .*{text}"):
            refuse()
    prepare_training(bad[:18], valid=bad[18:])  # nobody reads it
    other = "edge_attr" if field == "edge_weight" else "edge_weight"
    prepare_training(bad[:18], valid=bad[18:], edges=(other,))


def test_graphs_without_edges_may_leave_them_out():
    graphs = with_edges(make_graphs(), edge_attr=lambda e: torch.ones(e, 2), edge_weight=torch.ones)
    for i, values in enumerate((None, torch.zeros(0), torch.zeros(0, 2))):
        graphs[i] = Data(x=graphs[i].x, edge_index=NONE, y=graphs[i].y, edge_attr=values)
    spec, train, _ = prepare_training(graphs[:18], valid=graphs[18:], edges=("edge_attr", "edge_weight"))
    assert [train[i].edge_attr.shape for i in range(3)] == [(0, 2)] * 3 and train.batch().edge_weight.dim() == 1


def test_a_spec_of_before_has_no_edges():
    spec = DataSpec(task="classification", out_channels=2, in_channels=3, max_degree=None, y_mean=0.0, y_std=1.0)
    assert spec.edge_fields == () and not spec.edge_weight and spec == DataSpec(**dataclasses.asdict(spec))
    graphs = with_edges(make_graphs(), edge_attr=lambda e: torch.ones(e, 2))
    assert "edge_attr" not in spec.prepare(graphs)[0] and DataSpec.of(graphs).edge_channels == 0
    assert DataSpec.of(graphs, edges=("edge_attr",)).edge_channels == 2


@pytest.mark.parametrize(
    "encoder, used",
    [("gin", ()), ("graphsage", ()), ("gcn", ("edge_weight",)), ("gat", ("edge_attr",)), ("gine", ("edge_attr",))],
)
def test_the_warning_is_given_where_the_networks_cannot_take_it(encoder, used):
    graphs = with_edges(make_graphs(), edge_attr=lambda e: torch.ones(e, 2), edge_weight=torch.ones)
    for fit in (
        lambda: fitted(graphs, encoder=encoder),
        lambda: ClassifierTrainer(encoder, hidden_channels=8, epochs=2).fit(graphs),
    ):
        trainer, found = caught(fit)
        said = " ".join(str(each.message) for each in found if "not used" in str(each.message))
        assert trainer.spec.edge_fields == used
        assert ("edge_attr (2 columns)" in said, "edge_weight" in said.split(";")[0]) == (
            "edge_attr" not in used,
            "edge_weight" not in used,
        )
        hint = "" if "edge_attr" in used else "; gine, gatv2, and gat read edge_attr"
        assert said.endswith(("x and edge_index" if not used else f"x, edge_index, and {used[0]}") + hint)
