"The comparison on tables of molecules: splits, methods, differences, and what a fraction of the atoms says."

import copy
import dataclasses
import gzip
import json
import math

import numpy as np
import pytest
import torch

from gib_nb.cli import main
from gib_nb.experiments import own_data as room
from gib_nb.experiments.own_data import (
    DATASETS,
    METHODS,
    SETS,
    condense,
    differences,
    fraction_differences,
    fraction_outcomes,
    interval,
    own_data_trial,
    report,
    smallest_fraction,
)
from gib_nb.nn.pooling import topk_ratio

CHAINS = ["C" * n + end for n in range(1, 21) for end in ("O", "N", "F")]
TINY = dict(hidden_channels=8, num_layers=2, max_restarts=0)


@pytest.fixture
def root(tmp_path):
    "A folder of published data with two small tables in place of the real ones."
    folder = tmp_path / "moleculenet"
    folder.mkdir()
    rows = [f"{smiles},{len(smiles) + ('O' in smiles)}.5" for smiles in CHAINS]
    (folder / "esol.csv.gz").write_bytes(gzip.compress("\n".join(["smiles,logS", *rows]).encode()))
    rows = [f"{smiles},{int('O' in smiles)},{'' if i % 3 else int('N' in smiles)}" for i, smiles in enumerate(CHAINS)]
    (folder / "clintox.csv.gz").write_bytes(gzip.compress("\n".join(["smiles,FDA_APPROVED,CT_TOX", *rows]).encode()))
    return tmp_path


@pytest.mark.parametrize(
    "method",
    [pytest.param(method, marks=pytest.mark.slow) for method in ("GIB", "GIB, pre-trained")]
    + [method for method in METHODS if method not in ("GIB", "GIB, pre-trained", "chemprop")],
)
@pytest.mark.parametrize("dataset", ["ESOL", "ClinTox"])
def test_a_trial_of_every_method(root, dataset, method, monkeypatch):
    monkeypatch.setattr("gib_nb.report.baselines.TREES", 10)
    sizes = {} if method.endswith("pre-trained") else TINY
    found = own_data_trial(dataset, method, 1, root, epochs=3, **sizes)
    assert len(found["predictions"]) == len(found["labels"]) == 6 and found["seconds"] > 0 and json.dumps(found)
    assert SETS[dataset].metric in found["scores"]
    if method == "constant":
        assert np.ptp(np.array(found["predictions"]), axis=0).max() == 0
    if method == "GIB, pre-trained":
        assert found["config"]["encoder"]["pretrained"] == "zinc"
    if method == "GIB":
        assert found["curve_errors"]["1.0"] == 0 and list(found["curve_errors"]) == list(found["curve"])
        assert list(found["curve"]) == [f"{i / 10:g}" if i < 10 else "1.0" for i in range(1, 11)]
        assert 0 <= found["selected_fraction"] <= 1 and found["config"]["encoder"]["name"] == "gine"
    if method == "GIB without bonds":
        assert found["config"]["encoder"]["name"] == "gin"


def test_chemprop_is_asked_with_the_same_split(root, tmp_path, monkeypatch):
    "A program in its place predicts 7 for every test molecule."
    program = tmp_path / "chemprop"
    program.write_text(
        "#!/usr/bin/env python3\nimport csv, os, sys\nw = sys.argv\nfile, out = w[w.index('--data-path') + 1], w[w.index('--output-dir') + 1]\n"
        "rows = list(csv.DictReader(open(file)))\nassert {r['split'] for r in rows} == {'train', 'val', 'test'} and len(rows) == 60\n"
        "os.makedirs(out)\nprint('smiles,y0', *[r['smiles'] + ',7' for r in rows if r['split'] == 'test'], sep='\\n', file=open(out + '/test_predictions.csv', 'w'))\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("GIB_NB_CHEMPROP", str(program))
    found = own_data_trial("ESOL", "chemprop", 0, root)
    assert found["predictions"] == [[7.0]] * 6
    assert found["scores"]["rmse"] == pytest.approx(math.sqrt(np.mean((np.array(found["labels"]) - 7) ** 2)), rel=1e-5)
    program.write_text("#!/bin/sh\necho no GPU here >&2\nexit 1\n")
    with pytest.raises(RuntimeError, match="no GPU here"):
        own_data_trial("ESOL", "chemprop", 0, root)


def test_without_the_tables_it_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("GIB_NB_DATA", raising=False)
    with pytest.raises(ValueError, match="folder of published data with moleculenet/ in it"):
        own_data_trial("ESOL", "constant", 0, tmp_path)


@pytest.fixture
def short(root):
    "A GIB after three epochs, and its data."
    trainer, data = room._trainer("ESOL", 0, 3, TINY), room.own_data("ESOL", 0, root)
    return trainer.fit(data.train, valid=data.valid, progress=False), data


def test_all_atoms_predict_as_the_model_does(short):
    "And half of them as the model with the mask of the others at 0."
    trainer, data = short
    part, model = room._embedded(trainer, data.test), trainer.model
    with torch.no_grad():
        found = trainer.spec.outcomes(model.classifier(room._cut(trainer, part, 1.0)))
        np.testing.assert_allclose(found[:, 0], trainer.predict(data.test), atol=1e-5)
        batch = next(trainer.spec.prepare(data.test).batches(64))
        chosen = topk_ratio(part.p, batch.batch, 0.5)
        assert 0.5 <= chosen.float().mean() < 0.7
        graph = batch.x, batch.edge_index, batch.batch, batch.num_graphs
        by_hand = model.predict_graph(*graph, None, part.p * chosen, edge_attr=batch.edge_attr)
        torch.testing.assert_close(model.classifier(room._cut(trainer, part, 0.5)), by_hand)
    assert torch.equal(part.y, batch.y)


def test_the_classifier_of_a_fraction_is_chosen_on_validation_molecules(short):
    "It is no worse there than the one of the model, which it leaves as it is; test molecules have no part in it."
    trainer, data = short
    before = copy.deepcopy(trainer.model.state_dict())
    outcomes = fraction_outcomes(trainer, data, "rmse", (0.3, 1.0))
    assert {fraction: found.shape for fraction, found in outcomes.items()} == {0.3: (6, 1), 1.0: (6, 1)}
    assert all(torch.equal(before[name], value) for name, value in trainer.model.state_dict().items())
    train, valid = (room._embedded(trainer, graphs) for graphs in (data.train, data.valid))
    x, x_valid = (room._cut(trainer, part, 0.3) for part in (train, valid))
    tuned, by_loss = (room._trained_further(trainer, x, train.y, x_valid, valid.y, name) for name in ("rmse", "loss"))
    rmse = lambda model: float(((trainer.spec.outcomes(model(x_valid))[:, 0] - valid.y.numpy()) ** 2).mean())
    with torch.no_grad():
        assert rmse(tuned.eval()) < rmse(trainer.model.classifier)
        loss, before_it = (
            float(trainer.spec.loss(each.eval()(x_valid), valid.y)) for each in (by_loss, trainer.model.classifier)
        )
        assert loss < before_it
    other = dataclasses.replace(data, split=data.split | {"test": data.split["test"][:2]})
    np.testing.assert_allclose(fraction_outcomes(trainer, other, "rmse", (0.3,))[0.3], outcomes[0.3][:2], rtol=1e-6)


def rows_of(values, dataset="ESOL"):
    return [
        {
            "dataset": dataset,
            "method": method,
            "seed": seed,
            "scores": {SETS[dataset].metric: value},
            "predictions": [],
            "labels": [],
        }
        for method, each in values.items()
        for seed, value in enumerate(each)
    ]


def test_differences_by_hand():
    found = differences(rows_of({"GIB": (0.9, 0.7), "network": (1.0, 1.0), "constant": (2.0,)}))
    assert set(found) == {"network"} and found["network"]["difference"] == pytest.approx(0.2)
    assert found["network"]["high"] - 0.2 == pytest.approx(12.7062 * math.sqrt(0.02 / 2), rel=1e-4)


@pytest.mark.slow
def test_molecules_count_where_seeds_share_them():
    "With a scaffold split, two seeds that agree are no certainty."
    random = np.random.default_rng(0)
    y, p = random.integers(0, 2, 80), random.random((80, 1))
    rows = rows_of({"GIB": (0.8, 0.8), "network": (0.7, 0.7)}, "BBBP")
    for row in rows:
        noise = 0.0 if row["method"] == "GIB" else 0.3 * random.random((80, 1))
        row |= {"labels": y.tolist(), "predictions": np.concatenate([1 - p - noise, p + noise], 1).tolist()}
    found = differences(rows)["network"]
    assert found["difference"] == pytest.approx(0.1) and found["high"] - found["low"] > 0.05


def test_an_interval_of_seeds_and_molecules_by_hand():
    "Without errors it is the t interval; with errors only, that of the normal distribution; with both, in between."
    each = [0.1, 0.3, 0.2]
    assert interval(each)["high"] - 0.2 == pytest.approx(4.302653 * math.sqrt(0.01 / 3), rel=1e-5)
    assert interval([0.2, 0.2], [0.05, 0.05])["high"] - 0.2 == pytest.approx(1.959964 * 0.05, rel=1e-5)
    variance = 0.01 / 3 + 0.05**2
    freedom = 2 * (variance / (0.01 / 3)) ** 2
    assert freedom == pytest.approx(6.125)
    assert interval(each, [0.05] * 3)["high"] - 0.2 == pytest.approx(2.4343 * math.sqrt(variance), rel=1e-3)


def test_the_smallest_fraction_that_loses_nothing():
    "RMSE 1 ± .01 from all atoms; a tenth of them is clearly worse, half are not, and nine tenths are better."
    rows = rows_of({"GIB": (1.0, 1.01, 0.99)})
    for row, noise in zip(rows, (0.0, 0.02, -0.02)):
        own = row["scores"]["rmse"]
        row |= {"curve": {"0.1": own + 1 + noise, "0.5": own + noise, "0.9": own - 0.1, "1.0": own}, "curve_errors": {}}
    apart = fraction_differences(rows)
    assert apart["0.1"]["difference"] == pytest.approx(-1) and apart["0.9"]["difference"] == pytest.approx(0.1)
    assert smallest_fraction(apart) == 0.5
    assert smallest_fraction({"0.5": {"high": 0.1}, "1.0": {"high": -0.1}}) is None


def test_condensed_rows_and_their_table():
    rows = condense(rows_of({"GIB": (0.9, 0.7), "network": (1.0, 1.0)}))
    assert all("predictions" not in row and "labels" not in row for row in rows)
    assert ["differences" in row for row in rows] == [True, False, False, False]
    both = condense(rows_of({"frozen encoder": (0.9, 0.7), "GIB": (1.0, 1.0), "network": (1.0, 1.0)}))
    signs = {
        row["method"]: {other: row["differences"][other]["difference"] for other in row["differences"]}
        for row in both
        if "differences" in row
    }
    assert signs["frozen encoder"]["GIB"] == -signs["GIB"]["frozen encoder"] > 0
    text = report(rows)
    assert "ESOL, rmse, random" in text and "0.800 ± 0.141" in text and "+0.200 [" in text


def test_the_command_writes_the_table(root, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("gib_nb.report.baselines.TREES", 5)
    words = ["reproduce", "own-data", "--datasets", "ESOL", "--methods", "random forest", "constant", "--seeds", "2"]
    assert main([*words, "--data", str(root), "--out", str(tmp_path / "out"), "--no-progress"]) == 0
    assert "random forest" in capsys.readouterr().out
    record = json.loads((tmp_path / "out" / "own_data.json").read_text())
    assert len(record["rows"]) == 4 and "predictions" not in record["rows"][0] and set(DATASETS) == set(SETS)
