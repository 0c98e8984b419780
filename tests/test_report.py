import math
import types

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gib_nb.data.spec import DataSpec
from gib_nb.report.evaluate import COLUMNS, caption, evaluate
from gib_nb.report.tables import align, mean_std, mean_text, method_table
from gib_nb.train.config import configure
from gib_nb.train.predictions import Predictions

LOG3 = math.log(3)


def path(nodes, p, y, **more):
    "A path, with the probabilities of its nodes."
    ends = torch.arange(nodes - 1)
    edges = torch.stack([torch.stack([ends, ends + 1]), torch.stack([ends + 1, ends])], 2).flatten(1)
    return Data(x=torch.ones(nodes, 1), edge_index=edges, y=torch.tensor([y]), p=torch.tensor(p), **more)


GRAPHS = [
    path(3, [0.9, 0.8, 0.1], 1, node_mask=torch.tensor([1.0, 1, 0]), edge_mask=torch.tensor([1.0, 1, 0, 0])),
    path(3, [0.9, 0.2, 0.7], 1),
    path(2, [0.1, 0.3], 0),
]
LOGITS = [[0, LOG3], [LOG3, 0], [0, 0]]


def predicted(graphs, prediction, threshold=0.5):
    sizes = [0, *np.cumsum([graph.num_nodes for graph in graphs])]
    p = torch.cat([graph.p for graph in graphs])
    edges = torch.cat([graph.edge_index + int(first) for graph, first in zip(graphs, sizes)], 1)
    nothing = torch.zeros(len(graphs), 4)
    return Predictions(
        node_mask=p,
        edge_mask=p[edges].prod(0),
        prediction=torch.tensor(prediction),
        whole_prediction=None,
        subgraph_embedding=nothing,
        graph_embedding=nothing,
        edge_index=edges,
        batch=torch.arange(len(graphs)).repeat_interleave(torch.tensor(np.diff(sizes))),
        ptr=torch.tensor(sizes),
        threshold=threshold,
    )


def stub(prediction, spec=DataSpec("classification", 2, 1), **settings):
    "A trainer that predicts what is given, with the masks that stand in the graphs."
    return types.SimpleNamespace(
        spec=spec, config=configure(**settings), apply=lambda graphs: predicted(graphs, prediction)
    )


def test_every_measure_by_hand():
    found = evaluate(stub(LOGITS, alpha=0.0, beta=0.0), GRAPHS)
    assert found.keys() <= COLUMNS.keys() and all(
        value is None or type(value) in (int, float) for value in found.values()
    )
    # 4 of 8 nodes are above .5; the probabilities sum to 4; 1, 2 and 0 components; 2 of 3 nodes of the one graph with a truth
    expected = {
        "graphs": 3,
        "threshold": 0.5,
        "selected_fraction": 0.5,
        "mean_node_mask": 0.5,
        "components": 1.0,
        "connected_fraction": 1 / 3,
        "empty_fraction": 1 / 3,
        "full_fraction": 0.0,
        "true_fraction": 2 / 3,
        "edge_auc": 1.0,
        "score": 2 / 3,
        "whole_score": None,
        "prior_kl": None,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    # the labels have probability ¾, ¼ and ½: −log(3/32) / 3 = 0.7890; H(1/3, 2/3) = 0.6365
    assert found["classification"] == found["loss"] == pytest.approx(0.7890, abs=1e-4) and found[
        "label_mi_bound"
    ] == pytest.approx(-0.1525, abs=1e-4)


def test_losses_by_hand():
    "One edge with p = .1 and .3: SᵀAS = [[.06, .34], [.34, 1.26]], so its rows are [.15, .85] and [.2125, .7875]."
    found = evaluate(stub([[0.0, 0.0]], alpha=0.5, beta=2.0, prior_prob=0.5), GRAPHS[2:])
    assert found["connectivity"] == pytest.approx(1.2391, abs=1e-4)
    assert found["prior_kl"] == pytest.approx(0.2252, abs=1e-4)  # the mean of .3681 and .0823
    assert found["loss"] == pytest.approx(math.log(2) + 0.5 * 1.2391 + 2 * 0.2252, abs=2e-4)
    own = GRAPHS[2].clone()
    own.prior = torch.tensor([0.1, 0.3])
    assert evaluate(stub([[0.0, 0.0]], prior_prob=0.5), [own])["prior_kl"] == pytest.approx(0, abs=1e-6)


def test_values_by_hand():
    spec = DataSpec("regression", 1, 1, y_mean=10.0, y_std=2.0)
    graphs = [path(2, [0.1, 0.3], value) for value in (8.0, 10.0, 12.0)]
    found = evaluate(stub([[-1.0], [0.0], [0.0]], spec), graphs)  # predicts 8, 10 and 10: R² = 1 − 4/8
    assert (
        found["score"] == 0.5
        and found["classification"] == pytest.approx(1 / 3)
        and found["label_mi_bound"] == pytest.approx(0.3466, abs=1e-4)
    )


def test_a_class_that_training_did_not_have():
    found = evaluate(stub([[5.0, 0.0], [0.0, 5.0]]), [path(2, [0.9, 0.9], 0), path(2, [0.9, 0.9], 2)])
    assert found["score"] == 0.5 and found["classification"] == math.inf and math.isfinite(found["label_mi_bound"])


def test_without_labels_and_of_other_graphs():
    bare = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]), p=torch.tensor([0.1, 0.3]))
    found = evaluate(stub([[0.0, 0.0]]), [bare])
    assert found["score"] is found["loss"] is found["label_mi_bound"] is found["true_fraction"] is found[
        "edge_auc"
    ] is None and found["mean_node_mask"] == pytest.approx(0.2)
    with pytest.raises(ValueError, match="expected predictions of the same 2 graphs"):
        evaluate(stub(LOGITS), GRAPHS[:2], predicted(GRAPHS[:1], [[0.0, 0.0]]))


def test_columns_have_one_title_each():
    titles = [column.title for column in COLUMNS.values()]
    assert len(set(titles)) == len(titles)
    assert (
        caption("connectivity") == "L_con"
        and caption("mean_node_mask") == "mean node mask"
        and caption("graph_mi") == "I(G;G_sub), estimated (nats)"
    )
    assert caption("some_setting") == "some setting"


@pytest.mark.parametrize(
    "values, mean, deviation",
    [
        ([2, 4, 4, 4, 5, 5, 7, 9], 5, 2.13809),  # squared distances sum to 32, over 7
        ([1.0, float("nan"), 3.0, None], 2, 1.41421),
        ([10, 10, 10], 10, 0),
        (np.array([0.5, 0.7]), 0.6, 0.141421),
        ([True, False], 0.5, 0.707107),
    ],
)
def test_mean_and_standard_deviation_by_hand(values, mean, deviation):
    assert mean_std(values) == (pytest.approx(mean), pytest.approx(deviation, abs=1e-5))


def test_one_value_has_no_spread():
    assert mean_std([0.99])[0] == 0.99 and math.isnan(mean_std([0.99])[1]) and all(map(math.isnan, mean_std([None])))
    assert (mean_text([0.99]), mean_text([1.0, 3.0], ".1f"), mean_text([]), mean_text([0.1, 0.3], ".0%")) == (
        "0.990",
        "2.0 ± 1.4",
        "",
        "20% ± 14%",
    )


def test_tables_of_text():
    assert align([["", "a"], ["long", "1.5"], ["x", ""]]) == "        a\nlong  1.5\nx"
    table = method_table(
        [
            {"GIB": {"auc": 0.9}, "other": {"auc": 0.5, "time": 1}, "seed": 0},
            {"GIB": {"auc": 1.0}, "other": {"auc": 0.5, "time": 3}, "seed": 1},
        ]
    ).splitlines()
    assert (
        [line.split("  ")[0] for line in table] == ["", "GIB", "other"]
        and "0.950 ± 0.071" in table[1]
        and table[2].endswith("2.000 ± 1.414")
    )


def test_a_metric_of_one_class_names_it():
    from gib_nb.report.run import metric_title

    record = {"classes": ["active", "inactive"]}
    assert metric_title("f1", record) == "F1, class inactive" and metric_title("roc_auc", record) == "ROC-AUC"
    assert metric_title("f1", {"classes": ["a", "b", "c"]}) == metric_title("f1", {}) == "F1"


def test_few_test_graphs_are_audited_with_those_for_validation(monkeypatch):
    from types import SimpleNamespace

    from gib_nb.data.synthetic import motif_dataset
    from gib_nb.report.run import faithfulness

    asked = []
    monkeypatch.setattr(
        "gib_nb.explain.audit.audit",
        lambda trainer, graphs, **settings: asked.append(len(graphs)) or SimpleNamespace(to_dict=dict),
    )
    graphs = motif_dataset(60).graphs
    assert faithfulness(None, graphs[:10], graphs[10:22]) == {} and faithfulness(None, graphs[:25], graphs[25:]) == {}
    assert asked == [22, 25] and faithfulness(None, graphs[:5], graphs[5:10]) is None


def test_doubts_about_an_estimate_that_was_not_trained_on_are_no_warnings():
    from gib_nb.report.run import all_warnings, subgraph_rows

    information = dict(value=7.5, standard_error=1.0, in_sample=8.6, log_num_pairs=3.0, warnings=["a doubt"])
    record = {"collapse": None, "warnings": [], "mutual_information": information}
    assert all_warnings(record) == ["I(G;G_sub): a doubt"]
    record["config"] = {"information": {"kind": "Prior"}}
    assert all_warnings(record) == []
    measures = dict.fromkeys(
        ("selected_fraction", "components", "connected_fraction", "empty_fraction", "threshold"), 0.5
    )
    record |= {"subgraphs": measures | {"true_fraction": None, "edge_auc": None}, "scores": {"measure": "accuracy"}}
    assert subgraph_rows(record)[-1][2].startswith("too uncertain to use, and not part of the training; held out")
