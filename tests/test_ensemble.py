"Deep ensembles: means and spread by hand from the members, files, checkpoints, and the command line."

import csv
import json
import warnings

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from gib_nb import GIBEnsemble, GIBTrainer
from gib_nb.cli import main, train
from gib_nb.cli.common import CHECKPOINT
from gib_nb.report.evaluate import evaluate
from gib_nb.report.run import spread_measures, spread_rows
from gib_nb.train.config import GIBConfig, configure
from gib_nb.train.ensemble import combine_logits, ensemble_record, load_trainer
from tests.test_checkpoint import Interrupt, after
from tests.training import Features, fitted, make_graphs, quick, real, same, same_state


def two_targets(i, label):
    return torch.tensor([[float(label), float("nan") if i % 3 else 1.0 - label]])


def graphs_of(kind):
    if kind != "targets":
        return make_graphs(y=real) if kind == "values" else make_graphs()
    graphs = make_graphs()
    for i, graph in enumerate(graphs):
        graph.y = two_targets(i, i % 2)
    return graphs


def ensemble(graphs=None, num_models=3, checkpoint=None, callbacks=None, valid=True, **settings):
    graphs = make_graphs() if graphs is None else graphs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GIBEnsemble(num_models=num_models, **quick(**settings)).fit(
            graphs[:18] if valid else graphs,
            valid=graphs[18:] if valid else None,
            progress=False,
            checkpoint=checkpoint,
            callbacks=callbacks,
        )


@pytest.fixture(scope="module")
def trained():
    return {kind: ensemble(graphs_of(kind)) for kind in ("classes", "values", "targets")}


# --- numbers


def test_members_are_trainers_with_the_next_seeds(trained):
    "Each is the same to the last bit as one that is trained alone."
    for i, member in enumerate(trained["classes"].members):
        alone = fitted(seed=i)
        assert same(member.history, alone.history) and same_state(member.model, alone.model)


def test_means_and_spread_by_hand(trained):
    "Of probabilities, and of values in the units of y; the spread with M − 1 = 2 below the line."
    graphs, found = make_graphs(), trained["classes"]
    p = np.stack([member.predict_proba(graphs) for member in found.members]).astype(float)
    mean = p.mean(0)
    np.testing.assert_allclose(found.predict_proba(graphs), mean, rtol=1e-5)
    assert (found.predict(graphs) == mean.argmax(1)).all()
    assert found.score(graphs) == pytest.approx((mean.argmax(1) == np.arange(24) % 2).mean())
    for n, chosen in enumerate(mean.argmax(1)):
        a, b, c = p[:, n, chosen]
        m = (a + b + c) / 3
        assert found.predict_std(graphs)[n] == pytest.approx((((a - m) ** 2 + (b - m) ** 2 + (c - m) ** 2) / 2) ** 0.5)
    values = np.stack([member.predict(graphs) for member in trained["values"].members])
    np.testing.assert_allclose(trained["values"].predict(graphs), values.mean(0), rtol=1e-6)
    np.testing.assert_allclose(trained["values"].predict_std(graphs), values.std(0, ddof=1), rtol=1e-5)
    assert trained["values"].predict(graphs).shape == (24,)
    p = np.stack([member.predict_proba(graphs) for member in trained["targets"].members]).astype(float)
    np.testing.assert_allclose(trained["targets"].predict_proba(graphs), p.mean(0), rtol=1e-5)
    np.testing.assert_allclose(trained["targets"].predict_std(graphs), p.std(0, ddof=1), rtol=1e-5)
    assert (trained["targets"].predict(graphs) == (p.mean(0) > 0.5)).all() and p.shape == (3, 24, 2)


def test_sure_members_that_disagree(trained):
    "Logits that no probability of single precision can tell from 0 or 1."
    spec = trained["classes"].spec
    logits = torch.tensor([[[200.0, 0.0]], [[0.0, 200.0]], [[0.0, 200.0]]])
    assert combine_logits(spec, logits).softmax(1)[0].tolist() == pytest.approx([1 / 3, 2 / 3])
    spec = trained["targets"].spec
    logits = torch.tensor([[[200.0, -200.0]], [[-200.0, -200.0]]])
    combined = combine_logits(spec, logits)
    assert combined.isfinite().all() and combined.sigmoid()[0].tolist() == pytest.approx([0.5, 0.0])


def test_mean_masks(trained):
    "Of nodes and edges, and the components of what is above the threshold."
    graphs, found = make_graphs(), trained["classes"]
    parts = [member.apply(graphs) for member in found.members]
    whole = found.apply(graphs)
    for name in ("node_mask", "edge_mask"):
        torch.testing.assert_close(getattr(whole, name), sum(getattr(part, name) for part in parts) / 3)
    mean = sum(part.whole_prediction.softmax(1) for part in parts) / 3
    torch.testing.assert_close(whole.whole_prediction.softmax(1), mean)
    assert whole.subgraph_embedding.shape[1] == 3 * parts[0].subgraph_embedding.shape[1]
    one, several = found.explain(graphs[3]), found.explain(graphs)
    assert len(several) == 24 and torch.equal(one.x, graphs[3].x)
    torch.testing.assert_close(one.node_mask, several[3].node_mask)
    assert torch.equal(one.selected_nodes, one.node_mask[:, 0] > 0.5)
    assert len(list(found.iter_explain(graphs))) == 24 and evaluate(found, graphs)["score"] == found.score(graphs)


def test_information_is_the_mean_of_the_members(trained):
    graphs, settings = make_graphs(), dict(seed=0, steps=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = trained["classes"].mutual_information(graphs, **settings)
        alone = [member.mutual_information(graphs, **settings) for member in trained["classes"].members]
    assert found.value == pytest.approx(np.mean([each.value for each in alone]))
    assert found.standard_error == pytest.approx(np.mean([each.standard_error for each in alone]))


def test_one_part_for_validation():
    "The same for all members where none is given, so that all have one format."
    found = ensemble(make_graphs(y=real), valid=False)
    assert len({str(member.spec) for member in found.members}) == 1
    assert found.predict(make_graphs()).shape == (24,)


def test_what_the_spread_is_worth(trained):
    "Rank correlation with the absolute error, or ROC-AUC for wrong classes, by hand."
    graphs = graphs_of("values")
    found = spread_measures(trained["values"], graphs)
    y, std = np.array([graph.y.item() for graph in graphs]), trained["values"].predict_std(graphs)
    expected = spearmanr(std, np.abs(trained["values"].predict(graphs) - y)).statistic
    assert found == {
        "models": 3,
        "mean": pytest.approx(std.mean()),
        "measure": "Spearman correlation",
        "value": pytest.approx(expected),
    }
    graphs = graphs_of("classes")
    wrong, std = trained["classes"].predict(graphs) != np.arange(24) % 2, trained["classes"].predict_std(graphs)
    found = spread_measures(trained["classes"], graphs)
    assert found["measure"] == "ROC-AUC" and found["value"] == pytest.approx(roc_auc_score(wrong, std))
    graphs = graphs_of("targets")
    y = torch.cat([graph.y for graph in graphs]).numpy()
    seen, wrong = ~np.isnan(y), trained["targets"].predict(graphs) != y
    expected = roc_auc_score(wrong[seen], trained["targets"].predict_std(graphs)[seen])
    assert spread_measures(trained["targets"], graphs)["value"] == pytest.approx(expected)
    (row,) = spread_rows({"spread": found, "task": "classification"})
    assert row[0] == "standard deviation over 3 models" and "ROC-AUC for wrong predictions" in row[2]
    assert spread_rows({"task": "classification"}) == spread_rows({"task": "regression", "spread": None}) == []


# --- files


@pytest.mark.parametrize("kind", ["classes", "values", "targets"])
def test_save_and_load(kind, trained, tmp_path):
    trained[kind].save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "member-0", "member-1", "member-2"]
    for again in (GIBEnsemble.load(tmp_path), load_trainer(tmp_path, device="cpu")):
        assert isinstance(again, GIBEnsemble) and again.config == trained[kind].config and again.num_models == 3
        assert np.array_equal(again.predict(make_graphs()), trained[kind].predict(make_graphs()))
        assert np.array_equal(again.predict_std(make_graphs()), trained[kind].predict_std(make_graphs()))
        assert again.collapse == trained[kind].collapse and again.spec == trained[kind].spec
    assert GIBTrainer.load(tmp_path / "member-1").config.seed == 1


def test_an_ensemble_of_fewer_models_in_the_same_folder(tmp_path):
    for number in (3, 2):
        found = ensemble(num_models=number)
        found.save(tmp_path)
    assert len(GIBEnsemble.load(tmp_path).members) == 2


def test_other_folders(tmp_path):
    fitted().save(tmp_path / "single")
    assert isinstance(load_trainer(tmp_path / "single"), GIBTrainer) and ensemble_record(tmp_path / "single") is None
    with pytest.raises(FileNotFoundError, match="expected a folder written by GIBEnsemble.save"):
        GIBEnsemble.load(tmp_path / "single")
    with pytest.raises(FileNotFoundError, match="expected a folder written by GIBTrainer.save"):
        load_trainer(tmp_path / "nothing")


def test_an_encoder_of_ones_own(tmp_path):
    found = ensemble(encoder=Features)
    found.save(tmp_path)
    again = GIBEnsemble.load(tmp_path, encoder=Features)
    assert np.array_equal(again.predict_proba(make_graphs()), found.predict_proba(make_graphs()))


@pytest.mark.slow
@pytest.mark.parametrize("at", [5, 18, 30])
def test_a_training_goes_on_to_the_same_bits(at, tmp_path, trained):
    "Cut off in each of three members with 12 steps each; what is finished is not trained again."
    seen = []
    with pytest.raises(Interrupt):
        ensemble(checkpoint=tmp_path / "run", callbacks=after(at))
    pieces = ensemble(checkpoint=tmp_path / "run", callbacks=lambda record: seen.append(1))
    assert len(seen) == 36 - (at - 1) // 3 * 3
    for member, whole in zip(pieces.members, trained["classes"].members):
        assert same(member.history, whole.history) and same_state(member.model, whole.model)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["member-0", "member-1", "member-2"]


# --- the estimator


def test_settings():
    config = configure(beta=0.3, seed=4)
    found = GIBEnsemble(config, 3, lr=0.01, loss=torch.nn.CrossEntropyLoss())
    assert found.config == configure(config, lr=0.01) and found.get_params()["num_models"] == 3
    again = clone(found)
    assert again.config == found.config and again.num_models == 3 and again.functions == found.functions
    assert found.set_params(num_models=4, beta=0.1).num_models == 4 and found.config.beta == 0.1
    assert "num_models=4, not fitted" in repr(found) and found.model is None
    for wrong in (1, 2.0, True, None):
        with pytest.raises(ValueError, match="expected num_models as an integer ≥ 2"):
            GIBEnsemble(num_models=wrong)
    with pytest.raises(ValueError, match="expected a classifier that is trained"):
        GIBEnsemble(classifier="frozen")
    for name in ("predict", "predict_std", "apply", "explain"):
        with pytest.raises(ValueError, match="untrained GIBEnsemble"):
            getattr(GIBEnsemble(GIBConfig()), name)(make_graphs())


# --- the command line

FEW = ["--epochs", "3", "--hidden-channels", "8", "--num-steps", "2", "--max-restarts", "0", "--no-progress"]
CHAINS = ["C" * n + end for n in range(1, 21) for end in ("O", "N", "F")]


@pytest.fixture(autouse=True)
def few_repeats(monkeypatch):
    monkeypatch.setattr("gib_nb.train.metrics.REPEATS", 5)
    monkeypatch.setattr("gib_nb.report.baselines.TREES", 5)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "activity.csv"
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([["smiles", "activity"], *([s, "yes" if "O" in s else "no"] for s in CHAINS)])
    return path


@pytest.fixture(scope="module")
def run(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "ensemble"
    words = ["--ensemble", "2", "--log", "csv", "--no-baselines", *FEW]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gib_nb.train.metrics.REPEATS", 5)
        assert main(["train", str(table), "--out", str(folder), *words]) == 0
    return folder


@pytest.mark.slow
def test_a_run_with_an_ensemble(run):
    names = {"config.json", "log.csv", "member-0", "member-1", "metrics.json", "report.html"}
    assert {path.name for path in run.iterdir()} == names and not list(run.glob(f"**/{CHECKPOINT}"))
    metrics, found = json.loads((run / "metrics.json").read_text()), GIBEnsemble.load(run)
    assert metrics["ensemble"] == metrics["spread"]["models"] == 2 and metrics["epochs"] == 6
    assert [attempt["seed"] for attempt in metrics["attempts"]] == [0, 1] and found.num_models == 2
    report = (run / "report.html").read_text()
    assert "standard deviation over 2 models" in report and "the first of 2 models" in report
    with open(run / "log.csv") as file:
        assert [(row["seed"], row["epoch"]) for row in csv.DictReader(file)] == [
            (seed, epoch) for seed in "01" for epoch in "012"
        ]


@pytest.mark.slow
def test_predictions_of_a_run(run, table, tmp_path):
    "A column with the spread; for other models there is none."
    assert main(["predict", str(table), "--model", str(run), "--out", str(tmp_path / "out.csv"), "--no-progress"]) == 0
    with open(tmp_path / "out.csv") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["line", "smiles", "prediction", "P(no)", "P(yes)", "std", "reason"]
    from gib_nb import molecule_to_data

    graphs, found = [molecule_to_data(smiles) for smiles in CHAINS], GIBEnsemble.load(run)
    assert [float(row["std"]) for row in rows] == pytest.approx(found.predict_std(graphs), rel=1e-5)
    assert [float(row["P(yes)"]) for row in rows] == pytest.approx(found.predict_proba(graphs)[:, 1], rel=1e-5)
    assert [row["prediction"] for row in rows] == found.predict(graphs).tolist()
    single = str(run / "member-0")
    assert main(["predict", str(table), "--model", single, "--out", str(tmp_path / "one.csv"), "--no-progress"]) == 0
    assert "std" not in (tmp_path / "one.csv").read_text().splitlines()[0]


@pytest.mark.slow
def test_explanations_of_a_run(run, table, tmp_path, capsys):
    assert main(["explain", "CCCO", "--model", str(run), "--no-progress"]) == 0
    assert "prediction" in capsys.readouterr().out
    assert main(["explain", str(table), "--model", str(run), "--out", str(tmp_path / "e.csv"), "--no-progress"]) == 0
    assert len((tmp_path / "e.csv").read_text().splitlines()) == 61


@pytest.mark.slow
def test_an_interrupted_run_goes_on(run, table, tmp_path, monkeypatch, capsys):
    "To the same models and the same log; a finished one is not overwritten, unless it is forced."
    words = ["train", str(table), "--out", str(tmp_path / "run"), "--ensemble", "2", "--log", "csv", "--no-baselines"]
    fit, seen = GIBTrainer._fit_prepared, []

    def killed(self, graphs, valid, checkpoint, classifier, progress, callbacks):
        stop = [after(2)] if not seen and self.config.seed == 1 else []
        seen.extend(stop)
        return fit(self, graphs, valid, checkpoint, classifier, progress, [*callbacks, *map(stop_when, stop)])

    monkeypatch.setattr(GIBTrainer, "_fit_prepared", killed)
    with pytest.raises(Interrupt):
        main([*words, *FEW])
    assert (tmp_path / "run" / "member-0" / CHECKPOINT).is_file()
    assert main([*words, *FEW, "--resume"]) == 0
    first, second = GIBEnsemble.load(run), GIBEnsemble.load(tmp_path / "run")
    assert same_state(first.model, second.model)
    assert (run / "log.csv").read_text() == (tmp_path / "run" / "log.csv").read_text()
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["resumed"] is True
    capsys.readouterr()
    assert main([*words, *FEW]) == 1 and "holds a finished run" in capsys.readouterr().err
    train.prepare_run_dir(tmp_path / "run", force=True)
    assert not [path for path in (tmp_path / "run").glob("**/*") if path.is_file() and path.name != "rejected.csv"]


def stop_when(function):
    from gib_nb.train.callbacks import StopWhen

    return StopWhen(function)


def test_a_saved_ensemble_is_not_overwritten(trained, tmp_path):
    trained["classes"].save(tmp_path)
    with pytest.raises(FileExistsError, match="holds a finished run"):
        train.prepare_run_dir(tmp_path)


def test_wrong_options(capsys, monkeypatch, tmp_path):
    for words in (["--ensemble", "1"], ["--ensemble", "x"], ["--log", "excel"]):
        assert main(["train", "motif", *words]) == 2 and "--help" in capsys.readouterr().err
    monkeypatch.setitem(__import__("sys").modules, "torch.utils.tensorboard", None)
    words = ["--max-graphs", "20", "--log", "tensorboard", "--out", str(tmp_path / "run"), *FEW]
    assert main(["train", "motif", *words]) == 1
    assert "pip install 'gib-nb[log]'" in capsys.readouterr().err


@pytest.mark.slow
def test_folds_of_ensembles(table, tmp_path, capsys):
    "Each fold has its members; a fold that is done is read, unless it has another number of models."
    words = ["train", str(table), "--folds", "2", "--no-baselines", "--out", str(tmp_path), *FEW]
    assert main([*words, "--ensemble", "2"]) == 0
    assert len(list(tmp_path.glob("fold-*/member-*/model.safetensors"))) == 4
    assert not list(tmp_path.glob(f"**/{CHECKPOINT}"))
    (tmp_path / "metrics.json").unlink()
    capsys.readouterr()
    assert main([*words, "--ensemble", "3"]) == 1 and "settings and data" in capsys.readouterr().err
    assert main([*words, "--ensemble", "2"]) == 0
