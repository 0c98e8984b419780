import csv
import dataclasses
import functools
import html.parser
import json
import platform
import re
import shutil
import subprocess
import sys
import types
import warnings

import pytest
import torch
from torch_geometric.data import Data

from gib_nb.chem.properties import property_oracle
from gib_nb.cli import explain, main, reproduce, train
from gib_nb.cli.common import CHECKPOINT
from gib_nb.cli.main import build_parser
from gib_nb.cli.options import config_of, given_settings, method_settings
from gib_nb.data.datasets import load_dataset, molecule_dataset
from gib_nb.data.graph_dataset import make_dataset
from gib_nb.data.records import smiles_lines
from gib_nb.data.registry import DATASETS
from gib_nb.data.synthetic import motif_dataset
from gib_nb.experiments.screening import explain_lines
from gib_nb.experiments.sweep import trial_key
from gib_nb.explain.molecule import explain_smiles
from gib_nb.nn.registry import BACKBONES
from gib_nb.report import folder as report_folder
from gib_nb.report.evaluate import COLUMNS
from gib_nb.report.folder import example_molecules
from gib_nb.report.molecules import MOLECULE_COLUMNS, molecule_figure
from gib_nb.report.run import all_warnings, baselines, fold_summary, number_text, plain_json, results_text, run_metrics
from gib_nb.report.run_html import gallery_choice, oracle_note, report_html
from gib_nb.train.config import RENAMED, config_to_dict, configure, flat_settings, options
from gib_nb.train.migrate import settings_before
from gib_nb.train.parts import Encoder
from gib_nb.train.recipes import RECIPES, recipe, summary_of
from gib_nb.train.trainer import GIBTrainer

OPTIONS = options()
TINY = dict(
    hidden_channels=8, epochs=6, pretrain_epochs=1, rampup_epochs=1, num_steps=2, batch_size=24, lr=0.01, max_restarts=0
)
WORDS = [word for name, value in TINY.items() for word in ("--" + name.replace("_", "-"), str(value))]
TRAIN = ["train", "motif", "--max-graphs", "60", "--no-progress", "--no-baselines", *WORDS]


def fitted(data, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GIBTrainer(configure(**TINY | settings)).fit(data.train, valid=data.valid, progress=False)


@pytest.fixture(scope="module", autouse=True)
def quick_estimates():
    "Few critic steps for I(G;G_sub): its value is not what is tested here."
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_folder, "run_metrics", functools.partial(run_metrics, steps=20))
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    "The folder of a finished run."
    folder = tmp_path_factory.mktemp("run") / "motif"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(platform, "node", lambda: "name-of-this-computer")
        assert main([*TRAIN, "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def molecules():
    return molecule_dataset(limit=60)


@pytest.fixture(scope="module")
def chemist(molecules):
    return fitted(molecules, epochs=20, beta=0.01)


@pytest.fixture(scope="module")
def model(chemist, molecules, tmp_path_factory):
    "A result folder with a molecule model, as far as explain needs it."
    folder = tmp_path_factory.mktemp("model")
    chemist.save(folder)
    (folder / "metrics.json").write_text(json.dumps({"data": {"name": "molecules"}}))
    return folder


@pytest.fixture(autouse=True, scope="module")
def few_repeats():
    "Intervals from ten resamples are wide, and there at once."
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gib_nb.train.metrics.REPEATS", 10)
        yield


# ---- help and options


def test_import_and_help_load_nothing_heavy():
    code = (
        "import sys\nfrom gib_nb.cli import main\n"
        "codes = [main(words) for words in (['--help'], ['train', '--help'], ['explain', '--help'], ['--version'])]\n"
        "print(codes, sorted({'torch', 'rdkit', 'numpy', 'plotly', 'sklearn'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == "[0, 0, 0, 0] []"
    assert done.stdout.splitlines()[-1] == f"gib-nb {__import__('gib_nb').__version__}"


def words_of(name, needs=True):
    "Words that give an option another value than its default, and the value."
    option, flag = OPTIONS[name], "--" + name.replace("_", "-")
    if option.type is bool:
        return [flag.replace("--", "--no-") if option.default else flag], not option.default
    open_values = {
        "encoder": "gat",
        "norm": "none",
        "negatives": "all",
        "device": "meta",
        "class_weight": "balanced",
        "epochs": "90",
        "pretrain_epochs": "7",
    }
    other = next((choice for choice in option.choices or () if choice not in (option.default, "frozen")), None)
    text = open_values.get(name) or other or {int: "17", float: "0.02"}[option.type]
    return [flag, text], None if text == "none" else option.type(text)


NEEDS = {
    name: {"classifier": "reencode"} for name in ("num_classifiers", "mask_features", "two_stage", "finetune_epochs")
} | {name: {"classifier": "prototypes"} for name in ("prototypes_per_class", "prototype_weight", "project_every")}
NEEDS["generator_num_networks"] = {"classifier": "reencode", "generator_num_layers": 2}


@pytest.mark.parametrize("name", OPTIONS)
def test_each_option_sets_its_setting(name):
    words, value = words_of(name)
    needed = NEEDS.get(name, {})
    args = build_parser().parse_args(
        [
            "train",
            "motif",
            *words,
            *(word for pair in needed.items() for word in ("--" + pair[0].replace("_", "-"), str(pair[1]))),
        ]
    )
    assert given_settings(args) == needed | {name: value}  # and none that was not given
    config = config_of(args)
    assert config == configure(**needed, **{name: value})
    found = flat_settings(config)[name]
    assert found == value and type(found) is type(value) and found != OPTIONS[name].default


def test_options_are_those_of_the_configuration(capsys):
    "All of them, with their default and, where a setting belongs to one kind of part, with that kind."
    main(["train", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    flags = {flag.replace("-", "_") for flag in re.findall(r"--(?!no-)([a-z][a-z-]+)", text)}
    assert OPTIONS.keys() <= flags and not {"backbone", "warmup", "inner_steps"} & flags
    for said in (
        "--num-layers N number of message-passing layers (default: 2)",
        "--weight-decay X weight decay (default: 0.0)",
        "--seed N",
        "(default: 0)",
        "--prior-prob X prior probability of being in the subgraph, between 0 and 1; with --information prior (default: 0.5)",
        "--encoder {gcn,graphsage,gin,gat,gine,gatv2}",
        "--classifier {pooled,noisy,prototypes,shared,reencode}",
        "--num-classifiers N",
        "with --classifier reencode (default: 1)",
        "--norm {batch_norm,layer_norm,none}",
    ):
        assert said in text, said


def test_encoders_are_those_that_are_registered(capsys):
    BACKBONES.register("mine", "torch_geometric.nn.models:GCN")
    try:
        assert config_of(build_parser().parse_args(["train", "motif", "--encoder", "mine"])).encoder == Encoder("mine")
    finally:
        BACKBONES.unregister("mine")
    assert main(["train", "motif", "--encoder", "mine"]) == 2 and "'gin'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "old, new",
    [
        ("--inner-steps", "--num-steps"),
        ("--warmup", "--pretrain-epochs"),
        ("--ramp", "--rampup-epochs"),
        ("--closing", "--finetune-epochs"),
        ("--readers", "--num-classifiers"),
        ("--backbone", "--encoder"),
        ("--encode-again", "--classifier reencode"),
        ("--anneal", "--lr-schedule cosine"),
        ("--prior", "--prior-prob"),
        ("--learning-rate", "--lr"),
        ("--restarts", "--max-restarts"),
        ("--memory", "--memory-bank"),
    ],
)
@pytest.mark.parametrize("command", ["train", "sweep"])
def test_a_former_option_is_an_error_that_names_the_new_one(command, old, new, capsys):
    for value in ([], ["5"], ["no", "yes"]):
        assert main([command, "motif", old, *value]) == 2
        out, err = capsys.readouterr()
        assert (
            out == ""
            and err == f"gib-nb {command}: expected {new} (got {old}, its former name) (see gib-nb {command} --help)\n"
        )
    build_parser().parse_args(
        [
            command,
            "motif",
            *new.split(),
            *([] if " " in new or new == "--memory-bank" else ["gin" if new == "--encoder" else "1"]),
        ]
    )


def test_every_former_setting_has_an_answer():
    for old in RENAMED.keys() - {"explained"}:  # which was none of the command line
        assert main(["train", "motif", "--" + old.replace("_", "-"), "1"]) == 2


@pytest.mark.parametrize(
    "words, new",
    [
        (["train", "motif", "--limit", "60"], "--max-graphs"),
        (["reproduce", "explanation", "--limit", "7"], "--max-explained"),
        (["reproduce", "interpretation", "--limit", "7"], "--max-explained"),
        (["reproduce", "interpretation", "--molecules", "7"], "--max-graphs"),
    ],
)
def test_each_limit_has_one_name(words, new, capsys):
    assert main(words) == 2 and f"expected {new} (got {words[2]}, its former name)" in capsys.readouterr().err


@pytest.mark.parametrize("method", RECIPES)
@pytest.mark.parametrize(
    "settings", [{}, {"beta": 0.5}, {"epochs": 30}, {"seed": 3, "prior_prob": 0.2, "dropout": 0.0}]
)
def test_a_method_is_a_recipe_with_the_settings_that_are_given(method, settings, capsys):
    if method in ("vgib", "pgib"):
        settings = {name: value for name, value in settings.items() if name != "prior_prob"}
    words = [word for name, value in settings.items() for word in ("--" + name.replace("_", "-"), str(value))]
    assert config_of(build_parser().parse_args(["train", "motif", "--method", method, *words])) == recipe(
        method, **settings
    )
    assert configure(**method_settings(method, settings)) == recipe(method, **settings)
    assert main(["train", "--help"]) == 0 and re.search(
        rf"  {method} +{re.escape(summary_of(method))}", capsys.readouterr().out
    )


@pytest.mark.parametrize("epochs, pretrain, rampup", [(1, 0, 0), (20, 3, 3), (100, 15, 15), (1000, 15, 15)])
def test_fewer_epochs_shorten_pretraining_and_rampup(epochs, pretrain, rampup):
    found = flat_settings(config_of(types.SimpleNamespace(epochs=epochs)))
    assert (found["pretrain_epochs"], found["rampup_epochs"], found["epochs"]) == (pretrain, rampup, epochs)


def test_help_names_every_data_set(capsys):
    assert main(["train", "--help"]) == 0
    text = capsys.readouterr().out
    assert [name for name in DATASETS if not re.search(rf"\b{re.escape(name)}\b", text)] == []
    DATASETS.register("one_of_mine", "gib_nb.data.synthetic:motif_dataset")
    try:
        assert main(["train", "--help"]) == 0 and "  one_of_mine\n" in capsys.readouterr().out
    finally:
        DATASETS.unregister("one_of_mine")


@pytest.mark.parametrize(
    "words",
    [
        ["train"],
        ["nonsense"],
        ["train", "motif", "--epoch", "3"],
        ["train", "motif", "--epochs", "x"],
        ["train", "motif", "--encoder", "rnn"],
        ["train", "motif", "--encoder", "custom"],
        ["train", "motif", "--classifier", "frozen"],
        ["train", "motif", "--num-classifiers", "3"],
        ["train", "motif", "--prior-prob", "1"],
        ["train", "motif", "--device", "gpu"],
        ["train", "motif", "--epochs", "0"],
        ["train", "motif", "--max-graphs", "3"],
        ["explain", "C", "--threshold", "1"],
        ["explain", "C", "--threshold", "nan"],
        ["explain", "C", "--out", "x.pdf"],
        ["explain", "a.smi", "--out", "x.svg"],
    ],
)
def test_wrong_use_is_one_line_and_code_2(words, capsys):
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.strip().splitlines()) == 1 and "--help" in err


def test_without_a_command_the_help_is_shown(capsys):
    assert main([]) == 2 and "first steps" in capsys.readouterr().out


# ---- training


def test_result_folder(finished):
    assert sorted(path.name for path in finished.iterdir()) == sorted(train.RESULTS)
    metrics, trainer = json.loads((finished / "metrics.json").read_text()), GIBTrainer.load(finished)
    data = motif_dataset(60)
    assert metrics["config"] == config_to_dict(trainer.config) and metrics["data"] == data.summary()
    assert metrics["scores"]["model"] == {
        part: trainer.score(getattr(data, part)) for part in ("train", "valid", "test")
    }
    assert metrics["scores"]["majority class"]["train"] == 0.5 and "no-edges baseline" in metrics["scores"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p = torch.cat([e.node_mask for e in trainer.explain(data.test)])
    assert metrics["subgraphs"]["selected_fraction"] == pytest.approx(float((p > 0.5).float().mean()))
    assert metrics["subgraphs"]["true_fraction"] == pytest.approx(0.2)
    assert {"held_out", "in_sample", "standard_error", "warnings"} <= set(metrics["mutual_information"])
    assert set(metrics["versions"]) == {"python", "gib_nb", "torch", "torch_geometric", "rdkit", "numpy"}
    assert metrics["epochs"] == len(trainer.history["epochs"]) and metrics["seed"] == 0 and metrics["seconds"] > 0


def test_metrics_tell_nothing_of_the_computer_s_name_or_paths(finished):
    text = (finished / "metrics.json").read_text() + (finished / "report.html").read_text().replace("\n", " ")
    assert (
        str(finished.parent) not in text
        and "name-of-this-computer" not in text
        and (len(platform.node()) < 6 or platform.node() not in text)
    )


def test_the_same_command_gives_the_same_model(finished, tmp_path):
    assert main([*TRAIN, "--out", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again/model.safetensors").read_bytes() == (finished / "model.safetensors").read_bytes()


def test_a_finished_run_is_not_overwritten(finished, capsys):
    before = (finished / "model.safetensors").stat().st_mtime_ns
    assert main([*TRAIN, "--out", str(finished)]) == 1
    assert "--force" in capsys.readouterr().err and (finished / "model.safetensors").stat().st_mtime_ns == before


def test_claim_folder(tmp_path):
    assert train.prepare_run_dir(tmp_path / "new") is False
    (tmp_path / "own.txt").write_text("mine")
    assert train.prepare_run_dir(tmp_path) is False
    (tmp_path / "model.safetensors").write_text("saved by hand")
    with pytest.raises(FileExistsError, match="--force"):
        train.prepare_run_dir(tmp_path)
    (tmp_path / CHECKPOINT).write_text("interrupted after the model was saved")
    assert train.prepare_run_dir(tmp_path) is True
    (tmp_path / "fold-01").mkdir()
    (tmp_path / "fold-01/metrics.json").write_text("{}")
    assert train.prepare_run_dir(tmp_path, force=True) in (True, False)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["own.txt"]


@pytest.mark.slow
def test_force_trains_anew(tmp_path):
    folder = tmp_path / "run"
    for words in ([], ["--force", "--seed", "5"]):
        assert main([*TRAIN, "--out", str(folder), *words]) == 0
    assert json.loads((folder / "metrics.json").read_text())["seed"] == 5


@pytest.mark.parametrize("how", ["out", "resume"])
def test_interrupted_run_goes_on_to_the_same_model(how, finished, tmp_path, monkeypatch, capsys):
    from gib_nb.train import loop

    whole, seen = loop.train_epoch, []

    def stopped(state, callbacks):
        if len(seen) == 3:
            raise KeyboardInterrupt
        seen.append(state.epoch)
        return whole(state, callbacks)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loop, "train_epoch", stopped)
    assert main(TRAIN) == 130
    (folder,) = (tmp_path / "runs").iterdir()
    said = capsys.readouterr().err
    assert (
        f"--out runs/{folder.name}" in said
        and (folder / CHECKPOINT).is_file()
        and not (folder / "metrics.json").exists()
    )
    monkeypatch.setattr(loop, "train_epoch", whole)
    words = said.split("gib-nb ", 1)[1].split() if how == "out" else [*TRAIN, "--resume"]
    assert main(words) == 0
    assert (folder / "model.safetensors").read_bytes() == (finished / "model.safetensors").read_bytes()
    assert json.loads((folder / "metrics.json").read_text())["resumed"] is True and not (folder / CHECKPOINT).exists()


@pytest.mark.slow
def test_interruption_after_the_training_loses_nothing(finished, tmp_path, monkeypatch):
    real = report_folder.report_html
    monkeypatch.setattr(report_folder, "report_html", lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt))
    folder = tmp_path / "run"
    assert main([*TRAIN, "--out", str(folder)]) == 130
    monkeypatch.setattr(report_folder, "report_html", real)
    monkeypatch.setattr("gib_nb.train.loop.train_epoch", lambda *a: pytest.fail("trained again"))
    assert main([*TRAIN, "--out", str(folder)]) == 0
    assert (folder / "model.safetensors").read_bytes() == (finished / "model.safetensors").read_bytes()


def test_resume_needs_something_to_resume(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([*TRAIN, "--resume"]) == 1 and "interrupted run" in capsys.readouterr().err
    assert main([*TRAIN, "--resume", "--out", "nowhere"]) == 1 and "nothing to resume" in capsys.readouterr().err


def test_other_settings_do_not_resume(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(report_folder, "report_html", lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt))
    assert main([*TRAIN, "--out", str(tmp_path)]) == 130
    capsys.readouterr()
    assert main([*TRAIN, "--out", str(tmp_path), "--beta", ".7"]) == 1
    assert "expected a checkpoint of this config" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, said",
    [
        (["train", "MUTAGG"], "did you mean MUTAG?"),
        (["train", "PROTEINS", "--no-download", "--data", "/nowhere"], "PROTEINS is not on this computer"),
        (["train", "motif", "--max-graphs", "20", "--folds", "2", "--no-progress"], "between 3 folds"),
        (["explain", "C1CC"], "unclosed ring"),
        (["explain", ""], "an empty text"),
        (["explain", "nothing.smi"], "expected a SMILES or a file"),
        (["explain", "C", "--model", "/nowhere"], "make one with gib-nb train FILE"),
    ],
)
def test_errors_are_one_line_and_code_1(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GIB_NB_DATA", raising=False)
    monkeypatch.setattr("gib_nb.data.download.cache_folder", lambda: tmp_path / "cache")
    assert main(words) == 1
    out, err = capsys.readouterr()
    assert out == "" and said in err and len(err.strip().splitlines()) == 1
    with pytest.raises((ValueError, OSError)):
        main([*words, "--debug"])


def test_the_summary_of_folds_by_hand():
    folds = [
        {"scores": {"model": {"train": train, "valid": valid, "test": test}}}
        for train, valid, test in ((0.9, 0.5, 0.5), (0.9, 0.7, 0.5), (0.9, 0.9, 1.0))
    ]
    assert fold_summary(folds) == [
        "0.900 ± 0.000",
        "0.700 ± 0.200",
        "0.667 ± 0.289",
    ]  # of a sample: divided by 2, not by 3
    assert fold_summary(folds[:1]) == ["0.900", "0.500", "0.500"]


@pytest.mark.slow
def test_folds(tmp_path, capsys):
    folder, words = tmp_path / "run", ["train", "motif", "--max-graphs", "30", "--folds", "3", "--no-progress", *WORDS]
    assert main([*words, "--out", str(folder)]) == 0
    table, metrics = capsys.readouterr().out, json.loads((folder / "metrics.json").read_text())
    parts = [json.loads((folder / f"fold-0{i}/metrics.json").read_text()) for i in (1, 2, 3)]
    assert [fold["model"] for fold in metrics["folds"]] == [part["scores"]["model"] for part in parts]
    summary = fold_summary(parts)
    assert f"train {summary[0]}, valid {summary[1]}, test {summary[2]}" in table
    report = (folder / "report.html").read_text()
    assert all(text in report for text in summary) and "All folds" in report and "the first of 3 folds" in table
    # killed before the last fold was finished: the others are not trained again
    before = [(folder / f"fold-0{i}/model.safetensors").stat().st_mtime_ns for i in (1, 2, 3)]
    (folder / "metrics.json").unlink()
    (folder / "fold-03/metrics.json").unlink()
    assert main([*words, "--out", str(folder)]) == 0
    after = [(folder / f"fold-0{i}/model.safetensors").stat().st_mtime_ns for i in (1, 2, 3)]
    assert before[:2] == after[:2] and before[2] < after[2]
    (folder / "metrics.json").unlink()
    capsys.readouterr()
    assert main([*words, "--out", str(folder), "--beta", ".9"]) == 1 and "settings and data" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", ["MUTAG", "IMDB-BINARY", "QED"])
def test_published_sets(name, data_root, tmp_path, capsys):
    words = [
        "train",
        name,
        "--max-graphs",
        "60",
        "--data",
        str(data_root),
        "--no-download",
        "--no-progress",
        "--out",
        str(tmp_path / "run"),
        *WORDS,
    ]
    assert main(words) == 0
    metrics, report = (
        json.loads((tmp_path / "run/metrics.json").read_text()),
        (tmp_path / "run/report.html").read_text(),
    )
    assert metrics["data"]["graphs"] == 60 and metrics["scores"]["measure"] == ("R²" if name == "QED" else "accuracy")
    assert ("QED (exact)" in report) == (name == "QED") and "<figure><svg" in report


# ---- numbers


def test_baselines_by_hand():
    one = lambda value, y: Data(
        x=torch.tensor([[value], [value]]), edge_index=torch.empty(2, 0, dtype=torch.long), y=torch.tensor([y])
    )
    graphs = [one(float(i % 3 == 0), int(i % 3 == 0)) for i in range(60)]
    found = baselines(make_dataset("third", graphs))
    assert found["majority class"]["train"] == pytest.approx(2 / 3, abs=0.01) and set(
        found["no-edges baseline"].values()
    ) == {1.0}
    values = [one(float(i), float(2 * i + 1)) for i in range(60)]
    data = make_dataset("line", values)
    found = baselines(data)
    y, mean = data.labels[data.split["test"]], data.labels[data.split["train"]].mean()
    assert found["training mean"]["train"] == pytest.approx(0, abs=1e-9)
    assert found["training mean"]["test"] == pytest.approx(1 - ((y - mean) ** 2).sum() / ((y - y.mean()) ** 2).sum())
    assert found["no-edges baseline"]["test"] > 0.99


def test_limit_keeps_parts_and_classes():
    data = motif_dataset(200)
    for number, graph in enumerate(data.graphs):
        graph.number = number
    small = train.subsample(data, 50, seed=1)
    assert len(small) == 50
    for part in ("train", "valid", "test"):
        numbers = [graph.number for graph in getattr(small, part)]
        assert set(numbers) <= set(data.split[part].tolist()) and len(numbers) == {"train": 40}.get(part, 5)
    assert sum(int(graph.y) for graph in small.train) == 20
    assert [g.number for g in small.graphs] == [g.number for g in train.subsample(data, 50, seed=1).graphs]
    assert {g.number for g in small.graphs} != {g.number for g in train.subsample(data, 50, seed=2).graphs}
    sorted_labels = make_dataset("sorted", sorted(data.graphs, key=lambda graph: int(graph.y)))
    assert sum(int(graph.y) for graph in train.subsample(sorted_labels, 50).train) == 20
    assert train.subsample(data, 200) is data
    with pytest.raises(ValueError, match="at least 10"):
        train.subsample(data, 9)


@pytest.mark.slow
def test_measure_reports_collapse_and_empty_subgraphs():
    data = motif_dataset(60, base_nodes=5)
    trainer = fitted(data)
    trainer.collapse = "all nodes selected (100%): nothing is compressed"
    found = run_metrics(trainer, data)
    assert "collapse: all nodes selected" in all_warnings(found)[0]
    trainer.collapse = None
    with torch.no_grad():
        trainer.model.generator.score[-1].weight.zero_()
        trainer.model.generator.score[-1].bias.fill_(-3)
    found = run_metrics(trainer, data)
    assert found["subgraphs"]["empty_fraction"] == 1 and any(
        "selects all nodes or none in every test graph" in text for text in all_warnings(found)
    )
    trainer.collapse = "no node selected"
    assert not any(
        "selects all nodes or none in every test graph" in text for text in all_warnings(run_metrics(trainer, data))
    )  # said once
    text = results_text(found)
    assert "100% are empty" in text and "majority class" in text and "no-edges baseline" in text
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_numbers_that_are_not_finite_become_null():
    assert plain_json({"a": (float("nan"), 1.5), "b": [{"c": float("inf")}], "d": "x", "e": 3}) == {
        "a": [None, 1.5],
        "b": [{"c": None}],
        "d": "x",
        "e": 3,
    }
    assert number_text(None, ".2f") == "unknown"


# ---- report


class Page(html.parser.HTMLParser):
    "Tags, attributes and the text outside scripts and styles."

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.inside = [], "", None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag if tag in ("script", "style") else self.inside

    def handle_endtag(self, tag):
        self.inside = None if tag == self.inside else self.inside

    def handle_data(self, data):
        self.text += "" if self.inside else data


def test_report_is_one_file_that_asks_for_nothing(finished):
    text = (finished / "report.html").read_text()
    page = Page(text)
    assert not [attrs for _, attrs in page.tags if {"src", "href", "srcset", "data", "action"} & set(attrs)]
    assert not [tag for tag, _ in page.tags if tag in ("link", "iframe", "img", "base", "object", "embed")]
    outside = re.sub(r"<script.*?</script>", "", text, flags=re.S)
    assert "http:" not in outside and "https:" not in outside and "url(" not in outside and "@import" not in outside
    policy = next(attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'") and "http" not in policy
    assert text.count("Plotly.newPlot(") >= 2 and 4e6 < len(text) < 6e6


def test_report_shows_numbers_warnings_and_pictures(finished):
    page, metrics = Page((finished / "report.html").read_text()), json.loads((finished / "metrics.json").read_text())
    for text in (
        *(f"Warning: {text}" for text in all_warnings(metrics)),
        "majority class",
        "no-edges baseline",
        "edge ROC-AUC",
        "nats",
        "ground truth",
        "selected fraction",
        "num_steps",
    ):
        assert text in page.text
    pictures = [attrs for tag, attrs in page.tags if tag == "svg"]
    assert len(pictures) == metrics["subgraphs"]["graphs"] and all(attrs["role"] == "img" for attrs in pictures)
    assert page.text.count("test graph ") == 2 * len(pictures)  # title and caption


@pytest.mark.slow
def test_text_of_a_data_set_stays_text():
    data = motif_dataset(60, base_nodes=5)
    data = dataclasses.replace(data, name="<script>alert(1)</script>")
    trainer = fitted(data)
    metrics = {
        "data": data.summary(),
        "config": {},
        "versions": {},
        "machine": {},
        "epochs": 1,
        "attempts": [],
        "seconds": 1,
        "resumed": False,
        **run_metrics(trainer, data),
    }
    metrics["warnings"] = ["<img src=x onerror=alert(2)>"]
    report = report_html(trainer, data, metrics)
    outside = re.sub(r"<script(?! type)>.*?</script>|<script type.*?</script>", "", report, flags=re.S)
    assert "alert(1)" in outside and "alert(2)" in outside and "<script>alert" not in report and "<img" not in outside


def test_gallery_choice():
    graph = lambda nodes, y: Data(num_nodes=nodes, y=torch.tensor([y]))
    graphs = [graph(5, i % 2) for i in range(40)] + [graph(500, 0)]
    chosen = gallery_choice(graphs)
    assert len(chosen) == len(set(chosen)) == 12 and 40 not in chosen and sum(int(graphs[i].y) for i in chosen) == 6
    assert gallery_choice([graph(900, 0), graph(300, 1), graph(400, 0)], 2) in ([2, 1], [1, 2])
    assert gallery_choice(graphs[:1]) == [0]


# ---- explaining molecules


def test_a_model_of_other_graphs_is_refused(finished, capsys):
    assert main(["explain", "CCO", "--model", str(finished)]) == 1
    assert "expected a model trained on molecules" in capsys.readouterr().err


def test_a_model_trained_on_a_gpu_is_read_without_one(chemist, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("needs a computer without a GPU")
    trainer = GIBTrainer(chemist.config, device="cuda")
    trainer.spec, trainer.model, trainer.collapse, trainer.history = chemist.spec, chemist.model, None, {}
    trainer.save(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["config"]["device"] == "cuda"
    assert main(["explain", "CCO", "--model", str(tmp_path)]) == 0


def test_a_result_folder_of_before_explains(tmp_path, capsys):
    "A model whose settings, and metrics whose names, are those of before the names of today."
    from gib_nb.explain.molecule import model_path

    shutil.copy(model_path("QED"), tmp_path / "model.safetensors")
    (tmp_path / "metrics.json").write_text(
        json.dumps(
            {
                "data": {"name": "QED"},
                "scores": {"measure": "R²", "model": {"test": 0.4321}},
                "subgraphs": {"nodes_kept": 0.3, "one_piece": 0.9},
                "config": {
                    "backbone": "gcn",
                    "inner_steps": 20,
                    "warmup": 3,
                    "ramp": 3,
                    "epochs": 30,
                    "alpha": 0.3,
                    "beta": 0.1,
                },
            }
        )
    )
    assert main(["explain", "CCO", "--model", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert main(["explain", "CCO"]) == 0
    same = lambda text: [line for line in text.splitlines() if not line.startswith(("model", "scores"))]
    assert same(said) == same(capsys.readouterr().out) and "QED (exact)" in said


def test_a_fold_of_before_is_done(tmp_path):
    data, config = (
        motif_dataset(60).folds(3)[0],
        configure(num_steps=7, classifier="reencode", num_classifiers=2, mask_on="edges"),
    )
    (tmp_path / "metrics.json").write_text(
        json.dumps(
            {
                "config": settings_before(config),
                "data": data.summary(),
                "subgraphs": {"nodes_kept": 0.25, "one_piece": 1.0},
            }
        )
    )
    assert train.read_fold(tmp_path, data, config)["subgraphs"] == {
        "selected_fraction": 0.25,
        "connected_fraction": 1.0,
    }
    with pytest.raises(ValueError, match="settings and data"):
        train.read_fold(tmp_path, data, configure(num_steps=8))


def test_help_of_explain_says_what_the_columns_mean(capsys):
    assert main(["explain", "--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"{name:<18} {COLUMNS[name].help}" in text for name in MOLECULE_COLUMNS)


def test_explain_command(model, tmp_path, capsys):
    for suffix in ("svg", "html", "csv"):
        out = tmp_path / f"new/aspirin.{suffix}"
        assert (
            main(["explain", "CC(=O)Oc1ccccc1C(=O)O", "--model", str(model), "--out", str(out), "--no-progress"]) == 0
        )
        assert out.stat().st_size > 60 and not list(out.parent.glob("*.part"))
    out, err = capsys.readouterr()
    assert "QED (exact)" in out and err == ""
    assert (tmp_path / "new/aspirin.svg").read_text().startswith("<svg")
    assert "http" not in (tmp_path / "new/aspirin.html").read_text().replace("http-equiv", "")
    assert list(csv.reader(open(tmp_path / "new/aspirin.csv")))[0] == list(MOLECULE_COLUMNS)


LINES = [
    "CCO ethanol",
    "",
    "CC(=O)[O-].[Na+]",
    "<script>alert(1)</script>",
    "C" * 2000,
    ")" * 2000,
    "C1CC",
    "  c1ccccc1\tbenzene",
    "[Na+]",
    "é",
]


def test_explain_file(model, chemist, tmp_path):
    source, out = tmp_path / "library.smi", tmp_path / "library.csv"
    source.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    assert main(["explain", str(source), "--model", str(model), "--out", str(out), "--no-progress"]) == 0
    rows = list(csv.DictReader(open(out, encoding="utf-8")))
    assert list(rows[0]) == list(MOLECULE_COLUMNS) and len(rows) == len(LINES)
    assert [row["smiles"] for row in rows] == [(line.split() or [""])[0] for line in LINES]
    assert [bool(row["prediction"]) for row in rows] == [
        True,
        False,
        True,
        False,
        True,
        False,
        False,
        True,
        True,
        False,
    ]
    assert rows[1]["reason"] == "empty line" and "unclosed ring" in rows[6]["reason"] and rows[3]["reason"]
    for row in rows:
        if row["prediction"]:
            e = explain_smiles(row["smiles"], chemist)
            assert float(row["prediction"]) == pytest.approx(e.prediction, rel=1e-4) and row["fragment"] == (
                e.fragment.smiles or ""
            )
            assert (
                float(row["fragment_fraction"]) == pytest.approx(e.fragment_fraction, abs=1e-4)
                and int(row["components"]) == e.components
            )
            assert bool(row["reason"]) == (e.fragment.smiles is None)


def test_explain_file_to_the_standard_output_and_as_a_page(model, tmp_path, capsys):
    source, out = tmp_path / "library.txt", tmp_path / "page.html"
    source.write_text("\n".join(line for line in LINES if len(line) < 200), encoding="utf-8")
    assert main(["explain", str(source), "--model", str(model), "--no-progress"]) == 0
    assert len(list(csv.reader(capsys.readouterr().out.splitlines()))) == len(LINES) - 1
    assert main(["explain", str(source), "--model", str(model), "--out", str(out), "--no-progress"]) == 0
    page = Page(out.read_text())
    assert "script" not in [tag for tag, _ in page.tags] and "<script>alert(1)</script>" in page.text
    assert sum(tag == "svg" for tag, _ in page.tags) == 4 and "QED (exact)" in page.text


def test_a_file_appears_when_it_is_complete(model, tmp_path, monkeypatch):
    source, out = tmp_path / "x.smi", tmp_path / "x.csv"
    source.write_text("CCO\nCCN\n")
    out.write_text("an older result")

    def stopped(*line):
        if line[1] == "CCN":
            assert out.read_text() == "an older result"
            raise KeyboardInterrupt
        return line

    monkeypatch.setattr(explain, "molecule_row", stopped)
    assert main(["explain", str(source), "--model", str(model), "--out", str(out), "--no-progress"]) == 130
    assert out.read_text() == "an older result" and sorted(path.name for path in tmp_path.iterdir()) == [
        "x.csv",
        "x.smi",
    ]


@pytest.mark.parametrize(
    "name, text, code, said",
    [
        (
            "a.csv",
            "ligand,canonical_smiles\nCNO,CCO\nCN,C1CC\n,\n",
            0,
            "explained 1 of 3 lines; 2 skipped: 1 empty; 1 without a molecule, the first is line 3: .*unclosed ring",
        ),
        ("a.tsv", "ID\tDrug\n1\tCCO\n", 0, ""),
        (
            "a.csv",
            "ligand,drug\nCNO,CCO\n",
            1,
            "expected one column of SMILES in .*ligand and drug may be it.*--smiles",
        ),
        (
            "a.csv",
            "smiles,y\nC1CC,1\n\n",
            1,
            "expected at least one molecule .*got none in 2 lines: 1 empty; 1 without a molecule.*unclosed ring",
        ),
        ("a.smi", "\n\n", 1, "which is empty|got none in 2 lines: 2 empty"),
        ("a.smi", "", 1, "which is empty"),
        ("a.csv", "smiles,y\n", 1, "only the names of its columns"),
        ("a.mol2", "CCO", 1, "expected a file ending in .smi, .*.sdf.*got .*a.mol2"),
        ("a.sdf", "CCO", 1, "at least one molecule .*expected a record that RDKit accepts"),
        ("a.sdf", "", 1, "at least one"),
        ("a.mol", "CCO", 1, "expected a file ending in"),
        ("CCO", "C", 1, "expected a file ending in"),
        ("a.xlsx", "C", 1, "expected a file ending in"),
    ],
)
@pytest.mark.parametrize("out", [None, "out.csv", "out.html", "out.parquet"])
def test_a_file_is_explained_or_refused_in_one_sentence(
    name, text, code, said, out, model, tmp_path, capfd, monkeypatch
):
    "Never exit code 0 for nothing done, and what was skipped is said."
    if out == "out.parquet":
        pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(text)
    out = out if name.startswith("a.") and name[2:] in ("csv", "tsv", "smi") else None
    assert main(["explain", name, "--model", str(model), "--no-progress", *(["--out", out] if out else [])]) == code
    err = capfd.readouterr().err.strip()
    said = said.split(": 1 empty; 1")[0].split(": 2 empty")[0] if out == "out.parquet" else said
    assert re.search(said, err) and len(err.splitlines()) == bool(said) and ("Traceback" not in err)
    if out and ("got none" in err or code == 0) and out != "out.html":
        assert (tmp_path / out).is_file()  # with the reasons


def test_smiles_column_of_a_file(model, tmp_path, capsys):
    (tmp_path / "a.csv").write_text("ligand,drug\nCNO,c1ccccc1\nCN,CCO\n")
    words = ["explain", str(tmp_path / "a.csv"), "--model", str(model), "--no-progress", "--smiles"]
    for column in ("drug", "2"):
        assert main([*words, column]) == 0 and [
            row["smiles"] for row in csv.DictReader(capsys.readouterr().out.splitlines())
        ] == ["c1ccccc1", "CCO"]
    assert main([*words, "x"]) == 1 and "none is x" in capsys.readouterr().err
    assert (
        main(["explain", "CCO", "--smiles", "drug"]) == 2 and "expected a file for --smiles" in capsys.readouterr().err
    )


def test_a_file_is_refused_before_a_model_is_trained(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(explain, "shipped_model", lambda *names: pytest.fail("read for nothing"))
    for name, text in (("a.csv", "x,y\n1,2\n"), ("a.smi", ""), ("a.mol2", "C"), ("a.sdf", ""), ("a.parquet", "C")):
        (tmp_path / name).write_text(text)
        assert main(["explain", str(tmp_path / name)]) == 1 and capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "text, said",
    [
        ("C1CC", "unclosed ring"),
        ("library", "there is no file with this name either"),
        ("folder", "that is a folder"),
        ("C" * 300 + "(", "no file with this name"),
    ],
)
def test_a_wrong_smiles_is_reported_once(text, said, tmp_path, monkeypatch, capfd):
    "By us, and not by RDKit as well, which writes past Python to the standard error."
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    assert main(["explain", text, "--no-progress"]) == 1
    out, err = capfd.readouterr()
    assert out == "" and len(err.splitlines()) == 1 and said in err


@pytest.mark.parametrize(
    "text, expected",
    [
        ("name,SMILES\na,CCO\nb,\n", ["CCO", ""]),
        ("CCO,ethanol\n\nC\n", ["CCO", "", "C"]),
        ('smiles\n"CC(=O)O"\nCl\n', ["CC(=O)O", "Cl"]),
        ("\ufeffsmiles,y\r\nC,1\r\n", ["C"]),
        ("", []),
    ],
)
def test_smiles_lines_of_a_csv(text, expected, tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(text.encode())
    assert list(smiles_lines(path)) == expected


def test_smiles_lines_of_a_smi(tmp_path):
    path = tmp_path / "x.smi"
    path.write_bytes(b"smiles name\nCCO a b\n\n\xff\xfe\n C\tx\nsmiles")
    assert list(smiles_lines(path)) == ["CCO", "", "\u00ff\u00fe", "C", "smiles"]


def test_lines_stream_in_batches(chemist):
    taken = []

    def lines():
        for i in range(100):
            taken.append(i)
            yield "C" * (i + 1)

    stream = explain_lines(lines(), chemist, batch_size=10)
    assert next(stream)[0] == "C" and len(taken) == 10
    assert [smiles for smiles, *_ in stream] == ["C" * (i + 1) for i in range(1, 100)]


def test_a_surrogate_is_called_one(chemist):
    e = explain_smiles("CCN(CC)CC(=O)Nc1c(C)cccc1C", chemist, "HLM")
    figure = molecule_figure(e, "<script>")
    assert (
        "HLM (surrogate)" in str(e)
        and "HLM (surrogate)" in figure
        and "<script>" not in figure
        and "&lt;script&gt;" in figure
    )
    assert "surrogate" in oracle_note(property_oracle("HLM"), 0) and "seed 0" in oracle_note(property_oracle("HLM"), 1)


def test_explain_without_a_model_uses_the_shipped_one(model, capsys):
    assert (
        main(["explain", "CCO"]) == 0
        and "QED (exact)" in (said := capsys.readouterr().out)
        and "the QED model shipped with gib_nb" in said
    )
    assert (
        main(["explain", "CCO", "--property", "drd2"]) == 0
        and "DRD2 (published model)" in (said := capsys.readouterr().out)
        and "the DRD2 model shipped" in said
    )
    assert main(["explain", "CCO", "--property", "logP"]) == 2 and "QED" in capsys.readouterr().err
    assert (
        main(["explain", "CCO", "--property", "QED", "--model", str(model)]) == 2
        and "expected --model or --property" in capsys.readouterr().err
    )


def test_a_model_of_ones_own_is_named_with_its_figures(model, tmp_path, capsys):
    folder = shutil.copytree(model, tmp_path / "own")
    (folder / "metrics.json").write_text(
        json.dumps({"data": {"name": "molecules"}, "scores": {"measure": "R²", "model": {"test": 0.4321}}})
    )
    assert main(["explain", "CCO", "--model", str(folder)]) == 0
    said = capsys.readouterr().out
    assert (
        f"a model trained here ({folder}), fingerprint" in said
        and "R² 0.43 on test molecules" in said
        and "shipped" not in said
    )
    assert (
        main(["explain", "CCO", "--model", str(model)]) == 0
        and "no score on test molecules is on record" in capsys.readouterr().out
    )


def test_app_shows_a_model_of_ones_own(model, finished, tmp_path, monkeypatch, capsys):
    import gib_nb.explorers.app as app

    asked = []
    monkeypatch.setattr(app, "serve", lambda *words: asked.append(words) or 0)
    assert main(["app", "--no-browser"]) == 0 and main(["app", "--no-browser", "--model", str(model)]) == 0
    assert asked == [(8866, "127.0.0.1", False, None), (8866, "127.0.0.1", False, str(model))]
    capsys.readouterr()
    for folder, said in ((tmp_path, "make one with gib-nb train FILE"), (finished, "a column of SMILES")):
        assert main(["app", "--model", str(folder)]) == 1
        text = capsys.readouterr().err.strip()
        assert text.startswith("gib-nb app: expected") and said in text and len(text.splitlines()) == 1
    assert len(asked) == 2


def test_a_run_keeps_test_molecules_with_their_labels(molecules):
    found = example_molecules(molecules, 3)
    assert [smiles for smiles, _ in found] == [graph.smiles for graph in molecules.test[:3]]
    assert float(found[0][1]) == pytest.approx(molecules.test[0].y.item(), rel=1e-3)
    assert example_molecules(motif_dataset(20)) == []


def test_warnings_are_lines_without_file_names(model, monkeypatch, capsys):
    def warned(args):
        warnings.warn("look out", UserWarning)
        return 0

    monkeypatch.setattr(explain, "explain_command", warned)
    assert main(["explain", "C"]) == 0 and capsys.readouterr().err == "gib-nb: warning: look out\n"


# ---- tables again


@pytest.mark.slow
def test_reproduce_writes_every_value_and_goes_on(tmp_path, monkeypatch, capsys):
    from gib_nb.experiments import explainers

    asked = []

    def cell(dataset, method, seed, root, max_explained, epochs):
        asked.append((dataset, method, seed))
        name = "random edges" if method == "PyG" else method
        auc = {"GIB": 0.9 + 0.1 * seed, "PyG": 0.5}.get(method, 0.7)
        return {name: {"auc": auc, "seconds": 0.5}, "graphs": max_explained}

    monkeypatch.setattr(explainers, "explanation_trial", cell)
    arguments = [
        "reproduce",
        "explanation",
        "--seeds",
        "2",
        "--datasets",
        "motif",
        "--max-explained",
        "7",
        "--out",
        str(tmp_path),
        "--no-progress",
    ]
    two = [*arguments, "--methods", "GIB", "PyG"]
    assert main(two) == 0 and asked == [("motif", method, seed) for seed in (0, 1) for method in ("GIB", "PyG")]
    record = json.loads((tmp_path / "explanation.json").read_text())
    assert (
        [row["GIB"]["auc"] for row in record["rows"]] == [0.9, 1.0]
        and record["rows"][1]["seed"] == 1
        and "versions" in record
        and "root" not in record["rows"][0]
    )
    said = capsys.readouterr().out
    assert "0.950 ± 0.071" in said and "random edges" in said
    assert main(two) == 0 and len(asked) == 4  # all trials are there
    assert main([*arguments, "--methods", "GSAT"]) == 0 and len(asked) == 6  # the others stay in the rows
    rows = json.loads((tmp_path / "explanation.json").read_text())["rows"]
    assert len(rows) == 2 and [rows[1][name]["auc"] for name in ("GIB", "random edges", "GSAT")] == [1.0, 0.5, 0.7]
    (tmp_path / "explanation.json").write_text(json.dumps({"rows": rows, "versions": {"torch": "0"}}))
    assert main([*arguments, "--methods", "VGIB"]) == 1 and "of the same versions" in capsys.readouterr().err
    assert main(arguments) == 0  # with all methods nothing of an earlier table is kept
    rows = json.loads((tmp_path / "explanation.json").read_text())["rows"]
    assert len(rows) == 2 and {"VGIB", "PGIB", "GIB, post hoc"} <= rows[0].keys()


@pytest.mark.slow
def test_reproduce_tables_of_single_methods(tmp_path, monkeypatch, capsys):
    from gib_nb.experiments import denoising

    def cell(dataset, method, seed, root, **settings):
        return {"recall": 0.5 + 0.1 * seed, "curve": [1.0] * 14 + [0.8] * 7} | (
            {} if method == "keep all" else {"accuracy": 0.75, "config": settings | {"seed": seed, "dropout": 0.0}}
        )

    monkeypatch.setattr(denoising, "denoising_trial", cell)
    words = [
        "reproduce",
        "denoising",
        "--methods",
        "keep all",
        "GCN+GIB",
        "--seeds",
        "2",
        "--out",
        str(tmp_path),
        "--no-progress",
    ]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "MUTAG, 2 seeds, mean ± standard deviation" and lines[1].split() == [
        "recall",
        "at",
        "recall",
        "0.7",
        "accuracy",
    ]
    assert lines[2].split() == ["keep", "all", "0.550", "±", "0.071", "0.800", "±", "0.000"] and lines[3].endswith(
        "0.750 ± 0.000"
    )
    record = json.loads((tmp_path / "denoising.json").read_text())
    assert [row.get("config") for row in record["rows"]] == [None, 0, None, 0] and [
        row["seed"] for row in record["rows"]
    ] == [0, 0, 1, 1]
    (config,) = record["configs"]  # what both seeds share, and no row repeats
    own = {
        name: value
        for name, value in denoising.method_config("GCN+GIB", 100).items()
        if name not in ("hidden_channels", "num_layers")
    }
    assert config == own | {"dropout": 0.0} and not config.keys() & record["rows"][1].keys()
    assert record["rows"][1]["hidden_channels"] == 32
    assert (
        main([*words[:3], "keep some", *words[5:]]) == 1
        and "expected methods among keep all" in capsys.readouterr().err
    )


@pytest.mark.parametrize("table", reproduce.TABLES)
def test_every_table_has_its_module_and_defaults(table):
    import importlib

    args = build_parser().parse_args(["reproduce", table])
    module = importlib.import_module(f"gib_nb.{reproduce.TABLES[table].module}")
    trials = reproduce.trials_of(args, module, reproduce.TABLES[table].datasets)
    trial = getattr(module, f"{reproduce.table_name(table)}_trial")
    import inspect

    assert trials and all(inspect.signature(trial).bind(**each) for each in trials)


def test_the_time_is_said_before_it_starts(tmp_path):
    table = reproduce.TABLES["denoising"]._replace(minutes={"MUTAG": 3.0, "DD": 60.0})

    def trial(dataset, seed):
        pass

    trials = [{"dataset": name, "seed": seed} for name in ("MUTAG", "DD") for seed in range(3)]
    said = lambda some, epochs=100: reproduce.expected_time(table, trial, some, epochs, tmp_path)
    assert said(trials).startswith("6 of 6 trials are left: about 3 hours on one core")
    assert said(trials[:3]).startswith("3 of 3 trials are left: about 9 minutes on one core")
    assert "about 4 minutes" in said(trials[:3], epochs=50)
    for each in trials[:3]:
        (tmp_path / f"{trial_key(trial, each)}.json").write_text("{}")
    assert said(trials[:4]).startswith("1 of 4 trials are left: about 60 minutes")
    assert said(trials[:3]) == "all 3 trials have been computed before"


# ---- sweeps


@pytest.fixture
def few_graphs(monkeypatch):
    from gib_nb.experiments import sweep as module

    monkeypatch.setattr(
        module,
        "_loaded",
        lambda name, root, seed: motif_dataset(60, seed=seed) if name == "motif" else load_dataset(name),
    )


@pytest.mark.slow
def test_sweep_trains_every_combination_once(few_graphs, tmp_path, capsys):
    words = ["sweep", "motif", "--no-progress", "--out", str(tmp_path), *WORDS, "--epochs", "4", "--seed", "0", "1"]
    assert main([*words, "--beta", "0", "0.1"]) == 0
    said = capsys.readouterr().out
    assert "0.0" in said and "±" in said and "every row is in" in said
    files = set((tmp_path / "trials").iterdir())
    assert (
        len(files) == 4
        and main([*words, "--beta", "0.1", "1"]) == 0
        and len(set((tmp_path / "trials").iterdir()) - files) == 2
    )
    rows = list(csv.DictReader(open(tmp_path / "sweep.csv")))
    assert [(row["beta"], row["seed"]) for row in rows] == [
        ("0.1", "0"),
        ("0.1", "1"),
        ("1.0", "0"),
        ("1.0", "1"),
    ] and {row["epochs"] for row in rows} == {"4"}


@pytest.mark.slow
def test_a_sweep_of_a_method(few_graphs, tmp_path):
    words = ["--hidden-channels", "8", "--epochs", "6", "--batch-size", "24", "--max-restarts", "0"]
    assert (
        main(
            [
                "sweep",
                "motif",
                "--no-progress",
                "--method",
                "two_stage",
                "--out",
                str(tmp_path),
                *words,
                "--beta",
                "0.1",
                "1",
                "--fold",
                "0",
            ]
        )
        == 0
    )
    rows = list(csv.DictReader(open(tmp_path / "sweep.csv")))
    assert [row["beta"] for row in rows] == ["0.1", "1.0"] and {
        (row["mask_on"], row["num_classifiers"], row["pretrain_epochs"], row["fold"]) for row in rows
    } == {("edges", "3", "3", "0")}


def test_sweep_says_what_is_wrong(few_graphs, tmp_path, capsys):
    assert (
        main(["sweep", "motif", "--beta", "-1", "--out", str(tmp_path)]) == 1
        and "beta as a number ≥ 0" in capsys.readouterr().err
    )
    assert (
        main(["sweep", "motif", "--fold", "11", "--out", str(tmp_path)]) == 1
        and "fold as a number from 0 to 9" in capsys.readouterr().err
    )
    assert main(["sweep", "nothing", "--out", str(tmp_path)]) == 1 and "MUTAG" in capsys.readouterr().err
    assert main(["sweep", "motif", "--no-progress", "--out", str(tmp_path), *WORDS, "--lr", "1e30"]) == 1
    assert "1 trials failed, see the column error" in capsys.readouterr().out


@pytest.mark.slow
def test_an_interrupted_sweep_leaves_what_is_done(few_graphs, tmp_path, capsys, monkeypatch):
    real, calls = GIBTrainer.fit, []

    def interrupted(*args, **settings):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*args, **settings)

    monkeypatch.setattr(GIBTrainer, "fit", interrupted)
    words = [
        "sweep",
        "motif",
        "--no-progress",
        "--out",
        str(tmp_path),
        *WORDS,
        "--epochs",
        "3",
        "--seed",
        "0",
        "1",
        "2",
    ]
    assert main(words) == 130 and "finished work is kept, and the same command continues" in capsys.readouterr().err
    assert [row["seed"] for row in csv.DictReader(open(tmp_path / "sweep.csv"))] == ["0", "1"]
    assert main(words) == 0 and len(calls) == 4 and len(list(csv.DictReader(open(tmp_path / "sweep.csv")))) == 3
