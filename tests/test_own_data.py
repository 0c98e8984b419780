"A file of one's own, from the command line and from Python: train, report, predict, explain."

import csv
import dataclasses
import gzip
import json
import math

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gib_nb.chem.featurize import featurize_molecules
from gib_nb.chem.smiles import molecule_to_data, read_molecule
from gib_nb.chem.standardize import inchikey
from gib_nb.cli import main
from gib_nb.cli.main import build_parser
from gib_nb.cli.options import config_of
from gib_nb.cli.train import load_data, source_lines, subsample
from gib_nb.data.datasets import load_dataset
from gib_nb.data.from_file import load_file
from gib_nb.data.splits import split_indices
from gib_nb.report.comparison import compare_outcomes, comparison_text
from gib_nb.report.folder import source_record, write_report
from gib_nb.report.run import plain_json
from gib_nb.train.trainer import GIBTrainer

FEW = ["--epochs", "4", "--hidden-channels", "8", "--num-steps", "2", "--max-restarts", "0", "--no-progress"]
CHAINS = ["C" * n + end for n in range(1, 21) for end in ("O", "N", "F")]  # 60 molecules


@pytest.fixture(autouse=True, scope="module")
def few_repeats():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gib_nb.train.metrics.REPEATS", 10)
        patch.setattr("gib_nb.report.baselines.TREES", 10)
        yield


def write(path, rows):
    with (gzip.open if path.suffix == ".gz" else open)(path, "wt", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


@pytest.fixture
def activity(tmp_path):
    "Alcohols are active, amines and fluorides are not; one line is no molecule, and one has no label."
    rows = [[f"m{i}", smiles, "active" if "O" in smiles else "inactive"] for i, smiles in enumerate(CHAINS)]
    return write(
        tmp_path / "activity.csv",
        [["name", "smiles", "activity"], *rows, ["bad", "C1CC", "active"], ["none", "CCCl", ""]],
    )


def test_from_a_csv_to_a_report_predictions_and_explanations(activity, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["train", str(activity), "--out", str(run), *FEW]) == 0
    shown = capsys.readouterr().out
    assert "random forest, Morgan counts" in shown and "same network, no bottleneck" in shown and "ROC-AUC" in shown
    rejected = list(csv.DictReader(open(run / "rejected.csv")))
    assert [row["line"] for row in rejected] == ["62", "63"] and all(row["reason"] for row in rejected)
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["source"] | {"file": ""} == {
        "file": "",
        "smiles": "smiles",
        "targets": ["activity"],
        "rejected": 2,
        "duplicates": 0,
        "conflicts": 0,
        "standardize": False,
    }
    assert metrics["data"]["classes"] == "active 20, inactive 40"
    table = metrics["metrics"]
    assert list(table) == [
        "model",
        "majority class",
        "no-edges baseline",
        "random forest, Morgan counts",
        "same network, no bottleneck",
    ]
    assert metrics["comparison"]["metric"] == "roc_auc" and "The best baseline is " in shown
    assert table["majority class"]["roc_auc"]["value"] == 0.5 and set(table["model"]["f1"]) == {"value", "low", "high"}
    report = (run / "report.html").read_text()
    assert "the one with the smallest validation loss" in report
    assert "class active, predicted" in report or "class inactive, predicted" in report
    assert "balanced accuracy" in report
    trainer = GIBTrainer.load(run)
    assert trainer.classes_.tolist() == ["active", "inactive"]
    library = write(
        tmp_path / "library.csv",
        [["id", "smiles", "reason"], ["a", "CCCO", "x"], ["b", "nonsense(", "y"], ["c", "CCN", "z"]],
    )
    assert (
        main(["predict", str(library), "--model", str(run), "--out", str(tmp_path / "out.csv"), "--no-progress"]) == 0
    )
    assert "1 of 3 rows have no prediction" in capsys.readouterr().err
    rows = list(csv.DictReader(open(tmp_path / "out.csv")))
    assert [row["line"] for row in rows] == ["2", "3", "4"] and rows[1]["reason"] and not rows[1]["prediction"]
    assert [row["id"] for row in rows] == ["a", "", "c"] and rows[2][
        "reason (file)"
    ] == "z"  # what the file had besides
    expected = trainer.predict_proba([molecule_to_data("CCCO"), molecule_to_data("CCN")])
    assert [float(rows[i]["P(active)"]) for i in (0, 2)] == pytest.approx(expected[:, 0], rel=1e-6)
    assert {rows[0]["prediction"], rows[2]["prediction"]} <= {"active", "inactive"}
    assert main(["explain", "CCCO", "--model", str(run), "--no-progress"]) == 0
    assert "prediction  " + trainer.predict(molecule_to_data("CCCO"))[0] in capsys.readouterr().out


def test_the_positive_class_is_chosen(activity, tmp_path, capsys):
    data = load_dataset(str(activity), positive="active")
    assert data.classes == ("inactive", "active") and data.labels.tolist() == [1 if "O" in s else 0 for s in CHAINS]
    assert main(["train", str(activity), "--out", str(tmp_path / "run"), "--positive", "active", *FEW]) == 0
    assert "F1, class active" in capsys.readouterr().out
    assert GIBTrainer.load(tmp_path / "run").classes_.tolist() == ["inactive", "active"]
    for wrong in ("Active", "2"):
        with pytest.raises(
            ValueError, match=f"positive as one of two classes .got '{wrong}' for the classes active, inac"
        ):
            load_dataset(str(activity), positive=wrong)
    numbers = write(tmp_path / "v.csv", [["smiles", "value"], *([s, 0.1 * i] for i, s in enumerate(CHAINS))])
    with pytest.raises(ValueError, match="got 1 for values"):
        load_dataset(str(numbers), positive=1)
    rows = [[s, int("O" in s), "" if i % 3 else int("N" in s)] for i, s in enumerate(CHAINS)]
    two = write(tmp_path / "two.csv", [["smiles", "alcohol", "amine"], *rows])
    data = load_dataset(str(two), target=["alcohol", "amine"], positive=0)
    assert data.classes == (1, 0) and data.labels[0].tolist() == [0, 1] and np.isnan(data.labels[1, 1])


@pytest.mark.slow
def test_an_sdf_is_predicted_and_old_rejections_are_removed(activity, tmp_path, capsys):
    from rdkit import Chem

    run, file = tmp_path / "run", tmp_path / "a.sdf"
    assert main(["train", str(activity), "--out", str(run), "--no-baselines", *FEW]) == 0
    assert (run / "rejected.csv").exists()
    with Chem.SDWriter(str(file)) as writer:
        for smiles in ("CCCO", "CCN"):
            mol = Chem.MolFromSmiles(smiles)
            mol.SetProp("id", smiles)
            writer.write(mol)
    capsys.readouterr()
    assert main(["predict", str(file), "--model", str(run), "--no-progress"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["id"] for row in rows] == ["CCCO", "CCN"] and all(row["prediction"] for row in rows)
    clean = write(tmp_path / "clean.csv", [["smiles", "y"], *([s, int("O" in s)] for s in CHAINS)])
    assert main(["train", str(clean), "--out", str(run), "--no-baselines", "--force", *FEW]) == 0
    assert not (run / "rejected.csv").exists()


def test_standardization_is_remembered_by_a_report_from_python(tmp_path):
    rows = [[s + (".Cl" if i % 5 == 0 else ""), int("O" in s)] for i, s in enumerate(CHAINS)]
    data = load_dataset(str(write(tmp_path / "a.csv", [["smiles", "y"], *rows])), standardize=True)
    assert source_record(data.source)["standardize"] and not any("." in smiles for smiles in data.source.smiles)
    assert not any("components" in line for line in source_lines(data.source))


def test_a_row_that_is_rejected_after_the_split_counts_once(tmp_path):
    rows = [[s, int("O" in s), "train" if i < 40 else "valid" if i < 50 else "test"] for i, s in enumerate(CHAINS)]
    rows.append([CHAINS[0], 1, "test"])
    data = load_dataset(str(write(tmp_path / "a.csv", [["smiles", "y", "fold"], *rows])), target="y", split="fold")
    assert "1 of 61 rows cannot be used; rejected.csv says why" in source_lines(data.source)


@pytest.mark.slow
def test_doubtful_classes_are_reported(tmp_path, capsys):
    rows = [[s, ("active", "Active", "inactive", "n.d.")[(i > 50) + (i > 52) + (i > 58)]] for i, s in enumerate(CHAINS)]
    rows[0][0] += ".Cl"
    file = write(tmp_path / "doubt.csv", [["smiles", "activity"], *rows])
    assert main(["train", str(file), "--out", str(tmp_path / "run"), "--no-baselines", *FEW]) == 0
    out, err = capsys.readouterr()
    assert "classes: Active 2, active 51, inactive 6, n.d. 1" in err
    assert "the classes Active and active differ only in case" in err
    assert "fewer than 5 rows of the class Active, n.d." in err
    assert "1 molecule has several components, such as salts; --standardize" in err
    missing = "Not defined here, since a class does not occur in the test graphs: ROC-AUC, average precision."
    page = (tmp_path / "run" / "report.html").read_text()
    assert missing in out and missing in page and "Classes: Active 2, active 51, inactive 6, n.d. 1." in page


def test_the_best_baseline_is_compared_with_the_model():
    y = np.array([0, 1] * 50)
    good, half, noise = (
        np.stack([1 - p, p], 1) for p in (y * 0.8 + 0.1, np.full(100, 0.5), np.random.default_rng(0).random(100))
    )
    found = compare_outcomes("accuracy", y, half, {"forest": good, "constant": half})
    assert found["model"] == 0.5 and found["baselines"]["constant"] == dict(value=0.5, better_by=0, low=0, high=0)
    forest = found["baselines"]["forest"]
    assert forest["value"] == 1 and forest["better_by"] == 0.5 and 0.3 < forest["low"] < 0.5 < forest["high"] < 0.7
    assert "baseline is “forest” with accuracy 1.000; the model has 0.500. It predicts better" in comparison_text(found)
    found = compare_outcomes("accuracy", y, good, {"noise": noise, "constant": half})
    assert "The model predicts better, by 0." in comparison_text(found)
    close = compare_outcomes("roc_auc", y, noise, {"constant": half})
    assert "do not show which" in comparison_text(close)
    errors = compare_outcomes("rmse", 1.0 * y, half[:, :1], {"forest": good[:, 1:]})
    assert errors["baselines"]["forest"]["better_by"] == pytest.approx(0.4)  # an error of .1 in place of .5
    assert (
        comparison_text(None)
        == comparison_text(plain_json(compare_outcomes("roc_auc", 0 * y, half, {"x": half})))
        == ""
    )


@pytest.mark.slow
def test_warnings_of_a_run_are_on_the_page_of_its_explanations(activity, tmp_path, capsys):
    run, page, table = tmp_path / "run", tmp_path / "page.html", tmp_path / "table.csv"
    assert main(["train", str(activity), "--out", str(run), "--no-baselines", *FEW]) == 0
    metrics = json.loads((run / "metrics.json").read_text())
    (run / "metrics.json").write_text(json.dumps(metrics | {"warnings": ["the mask <is> undecided"]}))
    library = write(
        tmp_path / "library.csv", [["id", "smiles"], ["a", "CCCO"], ["", ""], ["b", "nonsense("], ["c", "CCN"]]
    )
    words = ["explain", str(library), "--model", str(run)]
    assert main([*words, "--out", str(page), "--no-progress"]) == 0 and capsys.readouterr().err.count("line 4") == 1
    assert "the mask &lt;is&gt; undecided" in page.read_text()
    assert main([*words, "--out", str(table)]) == 0
    assert "warning from the training of this model: the mask <is> undecided" in capsys.readouterr().err
    rows = list(csv.DictReader(open(table)))
    assert [(row["line"], row["smiles"]) for row in rows] == [
        ("2", "CCCO"),
        ("3", ""),
        ("4", "nonsense("),
        ("5", "CCN"),
    ]


def test_five_lines_of_python(activity):
    data = load_dataset(str(activity))
    assert data.classes == ("active", "inactive") and data.labels.tolist() == [0 if "O" in s else 1 for s in CHAINS]
    assert data.source.target_columns == ["activity"] and len(data.source.rejected) == 2
    phases = dict(epochs=60, pretrain_epochs=55, rampup_epochs=0, max_restarts=0)
    trainer = GIBTrainer(beta=0.001, lr=0.01, hidden_channels=16, **phases)
    trainer.fit(data.train, valid=data.valid, progress=False)
    assert trainer.score(data.test) == 1  # so it is with six seeds


@pytest.mark.slow
def test_several_targets_from_a_file(tmp_path, capsys):
    rows = [[smiles, int("O" in smiles), "" if i % 3 else int("N" in smiles)] for i, smiles in enumerate(CHAINS)]
    file = write(tmp_path / "two.csv.gz", [["smiles", "alcohol", "amine"], *rows])
    assert main(["train", str(file), "--out", str(tmp_path / "no"), *FEW]) == 1
    assert "alcohol, amine" in capsys.readouterr().err
    words = ["--target", "alcohol", "amine", "--class-weight", "balanced", "--metric", "roc_auc", *FEW]
    assert main(["train", str(file), "--out", str(tmp_path / "run"), *words]) == 0
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["data"]["targets"] == 2 and metrics["data"]["labels"] == 60 + 20
    assert "the one with the best ROC-AUC on validation graphs" in (tmp_path / "run" / "report.html").read_text()
    assert main(["predict", str(file), "--model", str(tmp_path / "run"), "--no-progress"]) == 0
    shown = capsys.readouterr().out.splitlines()
    heading = next(line for line in shown if line.startswith("line,"))
    assert heading == "line,smiles,alcohol,amine,P(alcohol=1),P(amine=1),reason,alcohol (file),amine (file)"
    assert main(["explain", "CCCO", "--model", str(tmp_path / "run"), "--no-progress"]) == 0


@pytest.mark.parametrize(
    "values, task, classes",
    [
        (["yes", "no"], "classification", ("no", "yes")),
        (["True", "False"], "classification", ("False", "True")),
        (["-1", "1"], "classification", (-1, 1)),
        (["3", "1", "2"], "classification", (1, 2, 3)),
        (["0.5", "1.25", "3"], "regression", None),
        ([str(n) for n in range(30)], "regression", None),
    ],
    ids=str,
)
def test_the_task_is_that_of_the_labels(tmp_path, values, task, classes):
    rows = [[smiles, values[(7 * i) % len(values)]] for i, smiles in enumerate(CHAINS)]
    data = load_file(write(tmp_path / "a.csv", [["smiles", "label"], *rows]), target="label")
    assert (data.task, data.classes) == (task, classes) and f"task: {task}" in data.source.notes
    assert data.labels[1] == (
        classes.index(type(classes[0])(values[7 % len(values)]))
        if classes
        else pytest.approx(float(values[7 % len(values)]))
    )


def test_a_task_can_be_asked_for(tmp_path):
    rows = [[smiles, i % 2] for i, smiles in enumerate(CHAINS)]
    file = write(tmp_path / "a.csv", [["smiles", "label"], *rows])
    assert load_file(file, target="label").task == "classification"
    assert load_file(file, target="label", task="regression").task == "regression"
    words = write(tmp_path / "b.csv", [["smiles", "label"], *[[s, "ab"[i % 2]] for i, s in enumerate(CHAINS)]])
    with pytest.raises(ValueError, match="numbers for regression in column label .got words"):
        load_file(words, task="regression")
    with pytest.raises(ValueError, match="at least two classes in column label .got only 1"):
        load_file(write(tmp_path / "c.csv", [["smiles", "label"], *[[s, 1] for s in CHAINS]]), target="label")


def test_the_same_molecule_is_in_one_part_only(tmp_path):
    rows = [[smiles, i % 2] for i, smiles in enumerate(CHAINS * 2)] + [["OC", 1], ["OCC", 0]]
    data = load_file(write(tmp_path / "a.csv", [["smiles", "label"], *rows]), target="label")
    assert data.source.duplicates == 62 and data.groups == data.source.keys
    for each in (data, data.with_split(0.5, 0.2, seed=3), *data.folds(3)):
        parts = {part: {data.groups[row] for row in rows} for part, rows in each.split.items()}
        assert not parts["train"] & parts["test"]
        assert not parts["train"] & parts["valid"]
        assert not parts["valid"] & parts["test"]
        assert sum(map(len, each.split.values())) == 122


@pytest.mark.parametrize("words", [[], ["--no-progress"]])
def test_the_command_reads_the_graphs_into_memory(tmp_path, words):
    "With and without bars; a part of the molecules keeps its duplicates together in folds, too."
    rows = [[smiles, i % 2] for i, smiles in enumerate(CHAINS * 2)]
    file = write(tmp_path / "a.csv", [["smiles", "label"], *rows])
    args = build_parser().parse_args(["train", str(file), *words])
    data = load_data(args)
    assert isinstance(data.graphs, list) and len(data) == 120
    some = subsample(data, 90, seed=1)
    assert len(some) == len(some.groups) and some.source.duplicates == 90 - len(set(some.groups)) > 0
    assert [inchikey(read_molecule(graph.smiles)) for graph in some.graphs] == some.groups
    for fold in some.folds(3):
        assert not {some.groups[row] for row in fold.split["train"]} & {some.groups[row] for row in fold.split["test"]}


@pytest.mark.slow
def test_python_writes_the_folder_that_the_command_writes(tmp_path, capsys):
    "The same numbers, model and rejected rows, but for the time that it took; predict reads both."
    rows = [["smiles", "label"], *[[smiles, "no" if i % 2 else "yes"] for i, smiles in enumerate(CHAINS)], ["C1", "no"]]
    file = write(tmp_path / "a.csv", rows)
    assert main(["train", str(file), "--out", str(tmp_path / "command"), *FEW]) == 0
    data = load_dataset(file)
    config = config_of(build_parser().parse_args(["train", str(file), *FEW]))
    trainer = GIBTrainer(config).fit(data.train, valid=data.valid, progress=False)
    page = write_report(trainer, data, tmp_path / "python", progress=False)
    assert page == tmp_path / "python" / "report.html" and "random forest" in page.read_text()
    found = [json.loads((tmp_path / name / "metrics.json").read_text()) for name in ("command", "python")]
    assert found[0].pop("seconds") > 0 and found[1].pop("seconds") is None
    assert found[0] == found[1]
    for name in ("rejected.csv", "model.safetensors", "config.json"):
        first, second = ((tmp_path / folder / name).read_bytes() for folder in ("command", "python"))
        assert first == second, name
    assert main(["predict", str(file), "--model", str(tmp_path / "python"), "--no-progress"]) == 0
    write_report(trainer, data, tmp_path / "python", compare=False)
    assert "random forest" not in page.read_text(), "what was there is replaced"
    with pytest.raises(ValueError, match="test graphs"):
        write_report(trainer, dataclasses.replace(data, split=data.split | {"test": []}), tmp_path / "none")


def test_a_split_by_column_gives_up_duplicates_with_a_reason(tmp_path):
    part = lambda i: ("train", "train", "train", "valid", "test")[i % 5]
    rows = [[smiles, i % 2, part(i)] for i, smiles in enumerate(CHAINS)] + [
        [CHAINS[4], 0, "train"],
        [CHAINS[3], 1, "train"],
    ]
    data = load_file(write(tmp_path / "a.csv", [["smiles", "label", "part"], *rows]), target="label", split="part")
    assert {name: len(rows) for name, rows in data.split.items()} == {"train": 36, "valid": 12, "test": 12}
    assert [
        (row.line, "line 6, which is in test" in row.reason or "line 5, which is in valid" in row.reason)
        for row in data.source.rejected
    ] == [(62, True), (63, True)]
    with pytest.raises(
        ValueError, match="split as random, scaffold, or one of the columns smiles, label, part .got 'fold'"
    ):
        load_file(tmp_path / "a.csv", target="label", split="fold")


def test_scaffolds_stay_together(tmp_path):
    rings = ["c1ccccc1", "c1ccncc1", "C1CCCCC1", "c1ccsc1", "C1CCNCC1"]
    rows = [["C" * n + ring, (n + i) % 2] for i, ring in enumerate(rings) for n in range(1, 11)]
    data = load_file(write(tmp_path / "a.csv", [["smiles", "label"], *rows]), target="label", split="scaffold")
    parts = [{data.source.scaffolds[row] for row in rows} for rows in data.split.values()]
    assert [len(part) for part in parts] == [4, 0, 1] or not (
        parts[0] & parts[1] or parts[0] & parts[2] or parts[1] & parts[2]
    )


def test_without_duplicates_a_split_is_that_of_split_indices(activity):
    data = load_file(activity, seed=3)
    by_hand = split_indices(data.labels, 0.8, 0.1, 3)
    assert all(np.array_equal(data.split[part], by_hand[part]) for part in by_hand)


@pytest.mark.slow
def test_graphs_of_ones_own(tmp_path, capsys):
    graphs = [
        Data(
            x=torch.full((3, 2), float(i % 2)),
            edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]),
            y=torch.tensor([i % 2]),
        )
        for i in range(40)
    ]
    torch.save(graphs, tmp_path / "mine.pt")
    assert len(load_dataset(tmp_path / "mine.pt")) == 40
    run = tmp_path / "run"
    assert main(["train", str(tmp_path / "mine.pt"), "--out", str(run), *FEW]) == 0
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "mine.pt"), "--model", str(run), "--no-progress"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "line,prediction,P(0),P(1),reason" and len(lines) == 41
    molecules = write(tmp_path / "m.csv", [["smiles"], ["CCO"], ["CCN"]])
    assert main(["predict", str(molecules), "--model", str(run), "--no-progress"]) == 1
    assert "expected a model for graphs with 18 features per node (got one for 2 features)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, message",
    [
        (["nowhere.csv"], "nowhere.csv, which does not exist"),
        (["a.csv", "--target", "nothing"], "expected a column named nothing"),
        (["a.csv", "--split", "fold", "--target", "activity"], "one of the columns name, smiles, activity"),
        (["a.csv", "--metric", "rmse"], "metric for classification"),
    ],
    ids=["no file", "no column", "no split", "other metric"],
)
def test_mistakes_are_one_line(activity, tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    activity.rename("a.csv")
    assert main(["train", *words, "--out", "run", *FEW]) == 1
    text = capsys.readouterr().err.strip().splitlines()[-1]
    assert text.startswith("gib-nb train: ") and message in text


@pytest.mark.slow
def test_standardized_when_trained_is_standardized_when_predicted(tmp_path, capsys):
    rows = [[smiles + ".[Na+].[Cl-]", int("O" in smiles)] for smiles in CHAINS]
    file = write(tmp_path / "salts.csv", [["smiles", "label"], *rows])
    run = tmp_path / "run"
    assert (
        main(["train", str(file), "--target", "label", "--standardize", "--no-baselines", "--out", str(run), *FEW]) == 0
    )
    assert main(["predict", str(file), "--model", str(run), "--no-progress"]) == 0
    shown = capsys.readouterr().out
    assert ",CO," in shown and "[Na+]" not in shown


@pytest.mark.slow
def test_graphs_of_many_molecules_come_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GIB_NB_CACHE", str(tmp_path))
    monkeypatch.setattr("gib_nb.chem.featurize.SMALL", 10)
    monkeypatch.setattr("gib_nb.chem.featurize.CHUNK", 25)
    first = featurize_molecules(CHAINS, progress=False)
    files = sorted((tmp_path / "molecules").iterdir())
    assert len(files) == 3
    monkeypatch.setattr("gib_nb.chem.smiles.molecule_to_data", lambda smiles: pytest.fail("made again"))
    again = featurize_molecules(CHAINS, progress=False)
    monkeypatch.undo()
    plain = [molecule_to_data(smiles) for smiles in CHAINS]
    for graphs in (first, again):
        assert [graph.smiles for graph in graphs] == CHAINS
        assert all(
            torch.equal(a[name], b[name]) for a, b in zip(graphs, plain) for name in ("x", "edge_index", "edge_attr")
        )
    files[0].write_bytes(b"broken")
    monkeypatch.setenv("GIB_NB_CACHE", str(tmp_path))
    monkeypatch.setattr("gib_nb.chem.featurize.SMALL", 10)
    monkeypatch.setattr("gib_nb.chem.featurize.CHUNK", 25)
    assert torch.equal(featurize_molecules(CHAINS, workers=2, progress=False)[0].x, plain[0].x)


def test_nothing_is_lost_where_half_of_the_labels_are_missing(tmp_path):
    rows = [[smiles, math.pi * i if i % 2 else ""] for i, smiles in enumerate(CHAINS)]
    data = load_file(write(tmp_path / "a.csv", [["smiles", "value"], *rows]))
    assert len(data) == 30 and len(data.source.rejected) == 30 and data.task == "regression"
