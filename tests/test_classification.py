"The protocol of the paper's table 2: cells, the choice of sizes, the table, and paired differences."

import json
import math

import numpy as np
import pytest
from scipy import stats

from gib_nb import cli
from gib_nb.data.datasets import load_dataset
from gib_nb.experiments import classification
from gib_nb.experiments.classification import (
    BOTTLENECKS,
    DATASETS,
    METHODS,
    PAPER,
    PLAIN,
    RELATED,
    accuracy_table,
    classification_grid,
    classification_trial,
    method_config,
    paired_ttest,
    select_configs,
)
from gib_nb.nn.pooling import NETWORKS
from gib_nb.train.classifier_trainer import ClassifierConfig
from gib_nb.train.config import configure
from gib_nb.train.recipes import recipe


def row(method="GIN", fold=0, layers=2, hidden=32, loss=0.5, accuracy=0.8, dataset="MUTAG", seed=0):
    return dict(
        dataset=dataset,
        method=method,
        fold=fold,
        num_layers=layers,
        hidden_channels=hidden,
        loss=loss,
        accuracy=accuracy,
        seed=seed,
    )


def test_methods_are_those_of_the_paper_and_the_trivial_ones():
    assert set(PAPER) < set(METHODS) and len(PAPER) == 13 and set(PLAIN.values()) <= set(NETWORKS)
    assert {"majority class", "no-edges baseline", "random half", "GIN+GIB, β = 0"} <= set(METHODS)
    assert all(
        set(values) == set(DATASETS) and all(0.5 < mean < 1 > spread > 0 for mean, spread in values.values())
        for values in PAPER.values()
    )


@pytest.mark.parametrize("epochs", [1, 4, 100])
@pytest.mark.parametrize("method", BOTTLENECKS)
def test_settings_of_gibs_can_be_trained(method, epochs):
    config = configure(**method_config(method, epochs))
    assert (
        (config.beta == 0) == ("β = 0" in method)
        and config.epochs == epochs
        and config.encoder.name == BOTTLENECKS[method]["encoder"]
    )


@pytest.mark.parametrize("method", RELATED)
def test_related_methods_differ_from_their_recipe_in_what_all_methods_share(method):
    settings = method_config(method, 60)
    config, usual = recipe(settings.pop("recipe"), **settings), recipe(RELATED[method], epochs=60)
    assert type(config.classifier) is type(usual.classifier) and config.information == usual.information
    assert (config.alpha, config.beta, config.mask) == (usual.alpha, usual.beta, usual.mask)
    assert config.epochs == 60 and config.encoder.readout == "sum" and config.encoder.name == "gin"


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(method, marks=[] if method in ("majority class", "structure-blind") else [pytest.mark.slow])
        for method in METHODS
    ],
)
def test_a_cell_of_every_method(method):
    cell = lambda fold: classification_trial("motif", method, fold, 8, 2, **method_config(method, 2))
    found = cell(1)
    assert method == "majority class" or [
        found["config"].get("encoder", found["config"])[name] for name in ("num_layers", "hidden_channels")
    ] == [2, 8]
    assert math.isfinite(found["loss"]) and 0 <= found["accuracy"] <= 1 and found["seconds"] > 0 and json.dumps(found)
    again = cell(1)
    assert {**found, "seconds": 0} == {**again, "seconds": 0}


@pytest.mark.slow
def test_the_majority_class_by_hand():
    data = load_dataset("motif").folds()[3]
    y = lambda part: np.array([int(graph.y) for graph in part])
    share = np.bincount(y(data.train)) / len(data.train)
    found = classification_trial("motif", "majority class", 3)
    assert found["accuracy"] == (y(data.test) == share.argmax()).mean() and found["loss"] == pytest.approx(
        -np.log(share[y(data.valid)]).mean()
    )


@pytest.mark.slow
def test_training_never_sees_the_test_fold(monkeypatch):
    seen = []

    class Spy:
        loss, config, best_epoch = 0.5, ClassifierConfig(), 0

        def __init__(self, *_, **__):
            pass

        def fit(self, train, valid):
            seen.append((train, valid))
            return self

        def score(self, graphs):
            return len(graphs)

    monkeypatch.setattr(classification, "ClassifierTrainer", Spy)
    found, data = classification_trial("motif", "GIN", 4), load_dataset("motif").folds()[4]
    train, valid = seen[0]
    assert found["accuracy"] == len(data.test) and len(train) + len(valid) + len(data.test) == len(data)
    key = lambda graph: (graph.edge_index.tolist(), int(graph.y), graph.num_nodes)
    assert [key(graph) for graph in valid] == [
        key(graph) for graph in load_dataset("motif").folds()[3].test
    ]  # the fold before


def test_the_grid():
    trials = classification_grid(["MUTAG", "DD"], ["GIN", "majority class"], folds=3, layers=(1, 2), hidden=(8, 16))
    assert (
        len(classification_grid(["MUTAG", "PROTEINS", "DD"], ["GIN"], folds=1)) == 4 * 3 + 2 + 1
    )  # three seeds on MUTAG
    assert len(trials) == 3 * 4 * (3 + 1) + 2 * 3 and all(
        method_config(trial["method"], 60).items() <= trial.items() for trial in trials
    )
    with pytest.raises(ValueError, match="expected methods among SortPool.*got Perceptron"):
        classification_grid(["MUTAG"], ["GIN", "Perceptron"])
    with pytest.raises(ValueError, match="expected a method among"):
        classification_trial("motif", "Perceptron")
    for folds in (0, 11):
        with pytest.raises(ValueError, match="expected 1 to 10 folds"):
            classification_grid(["MUTAG"], folds=folds)


def test_sizes_are_chosen_by_the_validation_loss_alone():
    rows = [
        row(fold=fold, layers=layers, loss=loss, accuracy=accuracy)
        for layers, loss, accuracy in ((2, 0.5, 0.99), (4, 0.4, 0.7))
        for fold in range(3)
    ]
    assert [found["num_layers"] for found in select_configs(rows)["MUTAG", "GIN"]] == [4, 4, 4]
    assert (
        accuracy_table(rows)["MUTAG"]["GIN"] == "0.700 ± 0.000"
        and accuracy_table(rows)["MUTAG, paper"]["GIN"] == "0.825 ± 0.068"
    )
    table = accuracy_table(rows + [row("GAT", dataset="DD")])
    assert list(table.index) == ["GIN", "GAT"] and table["MUTAG"]["GAT"] == table["DD"]["GIN"] == ""
    with pytest.raises(ValueError, match="same folds for all sizes"):
        select_configs(rows[:-1])


def test_paired_differences_against_scipy():
    generator = np.random.default_rng(0)
    a, b = generator.random(10), generator.random(10)
    rows = [row("GIN+GIB", i, accuracy=a[i]) for i in reversed(range(10))] + [
        row("GIN", i, accuracy=b[i]) for i in range(10)
    ]
    found = paired_ttest(rows, "GIN+GIB", "GIN")["MUTAG"]
    assert found["difference"] == pytest.approx((a - b).mean()) and found["p"] == pytest.approx(
        stats.ttest_rel(a, b).pvalue
    )
    assert paired_ttest(rows, "GIN", "GIN")["MUTAG"] == {"difference": 0.0, "std": 0.0, "p": 1.0}
    assert paired_ttest(rows, "GIN", "GAT") == {}
    for folds in (range(1, 10), range(1, 11)):  # fewer, and others as many
        with pytest.raises(ValueError, match="on the same folds of MUTAG"):
            paired_ttest([row("GIN+GIB", i) for i in folds] + rows[10:], "GIN+GIB", "GIN")
    twice = [
        row("GIN+GIB", i, accuracy=a[i] + shift, seed=seed) for seed, shift in ((0, -0.1), (1, 0.1)) for i in range(10)
    ]
    assert paired_ttest(twice + rows[10:], "GIN+GIB", "GIN")["MUTAG"]["p"] == pytest.approx(
        found["p"]
    )  # seeds of a fold are one observation


@pytest.mark.slow
def test_the_command_goes_on_where_it_was(tmp_path, capsys):
    words = [
        "reproduce",
        "classification",
        "--datasets",
        "motif",
        "--methods",
        "majority class",
        "no-edges baseline",
        "--folds",
        "2",
        "--num-layers",
        "1",
        "--hidden-channels",
        "8",
        "--epochs",
        "1",
        "--out",
        str(tmp_path),
        "--no-progress",
    ]
    assert cli.main(words) == 0 and "no-edges baseline" in capsys.readouterr().out
    cells = {path: path.stat().st_mtime_ns for path in (tmp_path / "trials").iterdir()}
    gone = next(iter(cells))
    gone.unlink()
    assert cli.main(words) == 0 and len(cells) == 4
    assert [path for path, time in cells.items() if path.stat().st_mtime_ns != time] == [gone]
    record = json.loads((tmp_path / "classification.json").read_text())
    assert len(record["rows"]) == 4 and "versions" in record and "root" not in record["rows"][0]


@pytest.mark.slow
def test_a_table_grows_by_parts(tmp_path, capsys):
    def made(*methods, folds="2"):
        words = [
            "reproduce",
            "classification",
            "--datasets",
            "motif",
            "--folds",
            folds,
            "--num-layers",
            "1",
            "--hidden-channels",
            "8",
            "--epochs",
            "1",
            "--out",
            str(tmp_path),
            "--no-progress",
        ]
        code = cli.main([*words, "--methods", *methods])
        return code, json.loads((tmp_path / "classification.json").read_text()), capsys.readouterr()

    _, first, _ = made("no-edges baseline", "GIN+GIB")
    _, both, said = made("majority class")
    assert both["rows"][:4] == first["rows"] and both["configs"] == first["configs"]
    assert [row["method"] for row in both["rows"][4:]] == ["majority class"] * 2 and {
        "no-edges baseline",
        "GIN+GIB",
    } <= {line.split("  ")[0] for line in said.out.splitlines()}
    _, again, _ = made("no-edges baseline", folds="1")  # asked for again: these rows and no old ones
    assert [(row["method"], row["fold"]) for row in again["rows"]] == [
        ("GIN+GIB", 0),
        ("GIN+GIB", 1),
        ("majority class", 0),
        ("majority class", 1),
        ("no-edges baseline", 0),
    ]
    record = again | {"versions": again["versions"] | {"torch": "1.0"}}
    (tmp_path / "classification.json").write_text(json.dumps(record))
    code, kept, said = made("majority class")
    assert code == 1 and kept == record and "of the same versions" in said.err and "choose another --out" in said.err
    assert made("majority class", "no-edges baseline", "GIN+GIB")[0] == 0  # all is new, so nothing is mixed


def test_only_what_depends_on_the_seed_is_repeated():
    trials = classification_grid(["MUTAG", "DD"], ["GIN", "majority class"])
    count = lambda dataset, method: len(
        [trial for trial in trials if (trial["dataset"], trial["method"]) == (dataset, method)]
    )
    assert [
        count("MUTAG", "GIN"),
        count("MUTAG", "majority class"),
        count("DD", "GIN"),
        count("DD", "majority class"),
    ] == [10 * 4 * 3, 10, 10, 10]
    assert {trial["seed"] for trial in classification_grid(["DD"], ["GIN"], seeds=2)} == {0, 1}
