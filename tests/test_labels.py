"Labels as users have them: words, booleans, −1 and 1, several targets with missing cells; weights of classes; metrics."

import json
import math

import numpy as np
import pytest
import torch
from sklearn.preprocessing import LabelEncoder
from sklearn.utils.class_weight import compute_class_weight
from torch_geometric.data import Data

from gib_nb.data.graph_dataset import make_dataset
from gib_nb.data.labels import LabeledGraphs, encode_labels, list_graphs, read_labels
from gib_nb.data.spec import DataSpec, prepare_training
from gib_nb.data.synthetic import motif_dataset
from gib_nb.train.estimators import GIBClassifier
from gib_nb.train.metrics import METRICS, bootstrap_interval, metric_table, metric_value, metrics_for
from gib_nb.train.trainer import GIBTrainer
from gib_nb.utils.text import label_text

QUICK = dict(epochs=3, pretrain_epochs=1, rampup_epochs=1, max_restarts=0, hidden_channels=8, num_steps=2)
nan = math.nan


@pytest.fixture(scope="module")
def graphs():
    return motif_dataset(40, base_nodes=5).graphs


def with_labels(graphs, labels):
    return [Data(x=graph.x, edge_index=graph.edge_index, y=label) for graph, label in zip(graphs, labels)]


def fitted(graphs, y=None, **settings):
    return GIBTrainer(**QUICK | settings).fit(graphs, y, progress=False)


WORDS = {"words": ["yes", "no"], "booleans": [True, False], "minus one and one": [1, -1], "any integers": [100000, 7]}


@pytest.mark.parametrize("labels", WORDS.values(), ids=WORDS)
def test_classes_are_those_of_scikit_learn(graphs, labels):
    y = [labels[int(graph.y)] for graph in graphs]
    trainer = fitted(graphs, y)
    assert trainer.classes_.tolist() == LabelEncoder().fit(y).classes_.tolist()
    assert set(trainer.predict(graphs).tolist()) <= set(labels)
    assert trainer.score(graphs, y) == np.mean([a == b for a, b in zip(trainer.predict(graphs).tolist(), y)])


@pytest.mark.parametrize("labels", [[True, False], [1, -1], [9, 4]], ids=str)
def test_graphs_may_hold_any_classes(graphs, labels):
    "In a data set y becomes the number of the class, whose name the data set keeps."
    data = make_dataset("mine", with_labels(graphs, [torch.tensor(labels[int(graph.y)]) for graph in graphs]))
    assert data.classes == (None if labels == [9, 4] else tuple(sorted(labels)))
    trainer = GIBTrainer(**QUICK).fit(data.train, valid=data.valid, progress=False)
    assert trainer.classes_.tolist() == sorted(labels) and set(trainer.predict(data.test).tolist()) <= set(labels)
    by_hand = np.mean(
        [
            np.array(sorted(labels))[code] == found
            for code, found in zip(
                [g.y.item() if data.classes else sorted(labels).index(g.y.item()) for g in data.test],
                trainer.predict(data.test),
            )
        ]
    )
    assert trainer.score(data.test) == by_hand


def test_names_of_classes_reach_predictions_files_and_estimators(graphs, tmp_path):
    data = make_dataset("drugs", graphs, classes=("inactive", "active"))
    assert isinstance(data.train, LabeledGraphs) and "inactive 20, active 20" in repr(data)
    trainer = GIBTrainer(**QUICK).fit(data.train, valid=data.valid, progress=False)
    assert set(trainer.predict(data.test)) <= {"inactive", "active"} and trainer.spec.coded
    words = [data.classes[int(graph.y)] for graph in data.test]
    assert (
        trainer.score(data.test)
        == trainer.score(list(data.test), words)
        == np.mean(trainer.predict(data.test) == words)
    )
    trainer.save(tmp_path)
    loaded = GIBTrainer.load(tmp_path)
    assert loaded.spec == trainer.spec and loaded.predict(data.test).tolist() == trainer.predict(data.test).tolist()
    estimator = GIBClassifier(**QUICK).fit(data.train)
    assert estimator.classes_.tolist() == ["active", "inactive"] and 0 <= estimator.score(data.test) <= 1


def test_another_data_set_with_its_classes_in_another_order(graphs):
    "What is compared are the names, not the numbers."
    data = make_dataset("one", graphs, classes=("b", "a"))
    trainer = GIBTrainer(**QUICK).fit(data.train, valid=data.valid, progress=False)
    flipped = [Data(x=graph.x, edge_index=graph.edge_index, y=1 - graph.y) for graph in data.test]
    other = LabeledGraphs(flipped, "classification", ("a", "b"))
    assert trainer.score(other) == trainer.score(data.test)


SEVERAL = [[0, 1, nan], [1, nan, 0.0], [nan, 0, 1], [1, 1, 1]]


def test_several_targets_by_hand():
    spec = DataSpec("classification", 3, 1, targets=("a", "b", "c"), coded=True)
    y, logits = (
        torch.tensor(SEVERAL, dtype=torch.double),
        torch.tensor([[2.0, -1, 5], [0.5, 9, -3], [7, 1, 2], [-1, 3, 0]]),
    )
    terms = [
        math.log(1 + math.exp(-logit if label else logit))
        for row, labels in zip(logits.tolist(), SEVERAL)
        for logit, label in zip(row, labels)
        if label == label
    ]
    assert len(terms) == 9 and float(spec.loss(logits, y)) == pytest.approx(np.mean(terms))
    assert spec.score(logits, y) == pytest.approx(np.mean([1 / 3, 1 / 3, 2 / 3]))
    assert spec.decode(logits).tolist() == [[1, 0, 1], [1, 1, 0], [1, 1, 1], [0, 1, 0]]


def test_a_missing_cell_adds_no_loss_and_no_gradient():
    spec = DataSpec("classification", 2, 1, targets=("a", "b"), coded=True)
    logits = torch.zeros(2, 2, requires_grad=True)
    spec.loss(logits, torch.tensor([[1.0, nan], [nan, nan]], dtype=torch.double)).backward()
    assert logits.grad.tolist() == [[-0.5, 0], [0, 0]]
    logits = torch.zeros(2, 2, requires_grad=True)
    spec.loss(logits, torch.full((2, 2), nan, dtype=torch.double)).backward()
    assert logits.grad.tolist() == [[0, 0], [0, 0]]


def test_several_values_by_hand():
    y = np.array([[0.0, 10], [2, nan], [4, 30]])
    encoded = encode_labels(y, y[:0])
    assert encoded.task == "regression" and encoded.targets == ("target 0", "target 1")
    graphs = [Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]])) for _ in range(3)]
    spec, train, _ = prepare_training(graphs, y, graphs[:2], y[:2])
    assert spec.y_mean == pytest.approx((1.6, 50 / 3)) and spec.y_std == pytest.approx(
        (np.std([0, 2, 4, 0, 2]), np.std([10, 30, 10]))
    )
    zeros = torch.zeros(3, 2)
    assert spec.decode(zeros).tolist() == [pytest.approx(list(spec.y_mean))] * 3
    scaled = ((y - spec.y_mean) / spec.y_std) ** 2
    assert float(spec.loss(zeros, train.y)) == pytest.approx(np.nanmean(scaled))


def test_several_targets_are_learned_from_what_is_there(graphs, tmp_path):
    "The first target is the class, the second its opposite with two of three cells missing."
    y = [[int(g.y), nan if i % 3 else 1 - int(g.y)] for i, g in enumerate(graphs)]
    own = with_labels(graphs, [torch.tensor([row], dtype=torch.float) for row in y])
    data = make_dataset("two", own, targets=("is", "is not"))
    assert data.labels.shape == (40, 2) and data.summary()["labels"] == 40 + 14
    trainer = GIBTrainer(**QUICK | dict(epochs=30, pretrain_epochs=25, lr=0.02)).fit(
        data.train, valid=data.valid, progress=False
    )
    assert trainer.spec.targets == ("is", "is not") and trainer.predict_proba(data.test).shape == (len(data.test), 2)
    assert trainer.score(data.train) > 0.9
    trainer.save(tmp_path)
    assert GIBTrainer.load(tmp_path).spec == trainer.spec
    again = fitted(graphs, np.array(y, dtype=object))
    assert again.spec.targets == ("target 0", "target 1")


@pytest.mark.parametrize(
    "y, words",
    [
        ([[0, nan], [nan, nan], [1, 1]], "at least one of 2 targets .*graph 1"),
        ([[0, nan], [1, nan], [1, nan]], "labels of every target .*target 1"),
        ([["a", "b"], ["c", "a"], ["b", None]], "two classes that all of 2 targets .*a, b, c"),
    ],
    ids=["empty row", "empty column", "three classes"],
)
def test_several_labels_that_cannot_be_learned(graphs, y, words):
    with pytest.raises(ValueError, match=words):
        fitted(graphs[:3], np.array(y, dtype=object))


def test_node_labels_are_no_targets(graphs):
    wrong = with_labels(graphs, [torch.ones(graph.num_nodes) for graph in graphs])
    with pytest.raises(ValueError, match=r"graph 0: expected y, .*\[1, T\] for several targets"):
        fitted(wrong)


# ---- weights


def test_balanced_weights_are_those_of_scikit_learn(graphs):
    y = np.array([0] * 30 + [1] * 7 + [2] * 3)
    trainer = GIBTrainer(**QUICK, class_weight="balanced").fit(graphs, y, valid=(graphs, y), progress=False)
    assert trainer.spec.class_weight == pytest.approx(compute_class_weight("balanced", classes=np.arange(3), y=y))
    logits = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    weight = np.array(trainer.spec.class_weight)[y]
    each = torch.nn.functional.cross_entropy(logits, torch.tensor(y), reduction="none").numpy()
    assert float(trainer.spec.loss(logits, torch.tensor(y))) == pytest.approx((weight * each).sum() / weight.sum())


def test_weights_by_label_also_after_json(graphs):
    y = ["b" if graph.y else "a" for graph in graphs]
    assert fitted(graphs, y, class_weight={"b": 5}).spec.class_weight == (1.0, 5.0)
    weight = json.loads(json.dumps({0: 2.0, 1: 3.0}))
    assert fitted(graphs, class_weight=weight).spec.class_weight == (2.0, 3.0)
    with pytest.raises(ValueError, match="labels among a, b .got c"):
        fitted(graphs, y, class_weight={"c": 2})
    with pytest.raises(ValueError, match="class_weight only with classes"):
        fitted(graphs, np.linspace(0, 1, 40), class_weight="balanced")


def test_weights_of_several_targets():
    y = np.array([[1, 0], [0, 0], [0, 0], [0, 1], [1, nan]], dtype=float)
    graphs = [Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]])) for _ in y]
    spec, train, _ = prepare_training(graphs, y, graphs, y, class_weight="balanced")
    assert spec.class_weight == (pytest.approx((5 / 6, 5 / 4)), pytest.approx((4 / 6, 2.0)))
    logits = torch.tensor([[0.0, 1], [2, -1], [0, 0], [1, 1], [3, 5]])
    terms = [
        (spec.class_weight[t][int(y[i, t])], math.log(1 + math.exp(-v if y[i, t] else v)))
        for i, row in enumerate(logits.tolist())
        for t, v in enumerate(row)
        if y[i, t] == y[i, t]
    ]
    assert float(spec.loss(logits, train.y)) == pytest.approx(sum(w * v for w, v in terms) / sum(w for w, _ in terms))


# ---- metrics


def test_metrics_by_hand():
    y, p = np.array([0, 0, 1, 1, 1]), np.array([0.1, 0.6, 0.4, 0.8, 0.9])
    both = np.stack([1 - p, p], 1)
    value = {name: metric_value(name, y, both) for name in metrics_for("classification")}
    assert value["accuracy"] == 0.6 and value["balanced_accuracy"] == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert value["roc_auc"] == pytest.approx(5 / 6) and value["f1"] == pytest.approx(2 / 3)
    assert value["mcc"] == pytest.approx((2 * 1 - 1 * 1) / math.sqrt(3 * 3 * 2 * 2))
    assert value["average_precision"] == pytest.approx((1 + 1 + 3 / 4) / 3)
    truth, found = np.array([1.0, 2, 3, 4]), np.array([[1.0], [3], [2], [5]])
    value = {name: metric_value(name, truth, found) for name in metrics_for("regression")}
    assert value == pytest.approx({"rmse": math.sqrt(3 / 4), "mae": 3 / 4, "r2": 1 - 3 / 5, "spearman": 0.8})


def test_metrics_without_a_meaning_are_nan():
    one = np.array([[0.3, 0.7]] * 3)
    assert math.isnan(metric_value("roc_auc", np.ones(3, int), one))
    assert metric_value("spearman", np.arange(3.0), np.ones((3, 1))) == 0
    several = np.array([[0, nan], [1, nan], [1, 1]])
    assert metric_value("roc_auc", several, np.array([[0.1, 0.2], [0.3, 0.4], [0.2, 0.9]]), True) == 1


def test_intervals_cover():
    "Of 200 means of 50 standard normal numbers, about 95 in 100 intervals hold 0."
    random, inside = np.random.default_rng(0), 0
    for seed in range(200):
        x = random.normal(size=50)
        low, high = bootstrap_interval(lambda rows: x[rows].mean(), 50, 200, seed=seed)
        inside += low <= 0 <= high
    assert 0.90 <= inside / 200 <= 0.98
    table = metric_table(
        np.arange(30.0), np.arange(30.0)[:, None] + random.normal(size=(30, 1)), "regression", repeats=50
    )
    assert set(table) == set(metrics_for("regression"))
    assert all(cell["low"] <= cell["value"] <= cell["high"] for cell in table.values())


def test_a_metric_chooses_the_epoch(graphs):
    trainer = fitted(graphs, metric="roc_auc", epochs=8)
    rows = [row for row in trainer.history["epochs"] if row["epoch"] >= 2]
    best = max(rows, key=lambda row: row["roc_auc"])
    assert trainer.history["best_epoch"] == best["epoch"] and set(METRICS) >= {"roc_auc"}
    with pytest.raises(ValueError, match="metric for classification: accuracy.*got 'rmse'"):
        fitted(graphs, metric="rmse")
    same = [graph for graph in graphs if graph.y == 0][:3]
    with pytest.raises(ValueError, match="different labels for the metric roc_auc"):
        GIBTrainer(**QUICK, metric="roc_auc").fit(graphs, valid=same, progress=False)


def test_text_of_labels():
    assert [label_text(value) for value in ("active", 3, 0.123456, [1, nan, "x"], True)] == [
        "active",
        "3",
        "0.1235",
        "1, -, x",
        "True",
    ]


def test_lists_know_their_labels(graphs):
    data = make_dataset("drugs", graphs, classes=("no", "yes"))
    assert list_graphs(data).classes == ("no", "yes") and list_graphs(graphs).classes is None
    assert read_labels(data.train).tolist() == [int(graph.y) for graph in data.train]
