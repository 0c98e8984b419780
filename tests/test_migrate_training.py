"""Configurations, models and checkpoints that were written when a configuration was one flat record.

`tests/data` holds a model and two checkpoints of interrupted trainings of that time, and in before.json what these trainings ended with when they were not interrupted.
"""

import json
import pathlib
import shutil
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gib_nb.chem.smiles import molecule_to_data
from gib_nb.explain.molecule import SHIPPED_MODELS, shipped_model
from gib_nb.train.config import RENAMED, GIBConfig, config_from_dict, config_to_dict, configure, flat_settings
from gib_nb.train.migrate import migrate, migrate_config, settings_before, settings_of_before
from gib_nb.train.parts import (
    Bottleneck,
    Critic,
    EdgeMask,
    Encoder,
    Finetune,
    Frozen,
    Optim,
    Pooled,
    Pretrain,
    Prior,
    Reencode,
)
from gib_nb.train.trainer import GIBTrainer
from gib_nb.utils.files import load_safetensors
from tests.training import make_graphs

ROOT = pathlib.Path(__file__).parents[1]
DATA = ROOT / "tests" / "data"
DEFAULTS = {  # every setting of before, at its default
    "backbone": "gin",
    "hidden_channels": 64,
    "num_layers": 2,
    "dropout": 0.0,
    "norm": "batch_norm",
    "readout": "mean",
    "encode_again": False,
    "readers": 1,
    "assign": "nodes",
    "generator_layers": None,
    "stochastic": False,
    "mask_features": False,
    "independent": False,
    "alpha": 0.3,
    "beta": 0.1,
    "prior": None,
    "inner_steps": 50,
    "negatives": "shift:8",
    "memory": "bank",
    "reset_critic": False,
    "critic_batch_size": 64,
    "critic_hidden": 32,
    "critic_learning_rate": 0.01,
    "epochs": 100,
    "warmup": 15,
    "ramp": 15,
    "closing": 0,
    "patience": 50,
    "batch_size": 128,
    "learning_rate": 3e-3,
    "anneal": False,
    "weight_decay": 0.0,
    "restarts": 3,
    "threshold": 0.5,
    "device": "cpu",
    "seed": 0,
}
DECOUPLED = DEFAULTS | dict(
    encode_again=True,
    readers=3,
    independent=True,
    assign="edges",
    generator_layers=1,
    stochastic=True,
    prior=0.05,
    beta=1.0,
    alpha=0.0,
    readout="sum",
    dropout=0.1,
    learning_rate=1e-3,
    anneal=True,
    epochs=90,
    warmup=45,
    ramp=0,
    closing=30,
    threshold=0.1,
)
PUBLISHED = {
    "backbone": "gcn",
    "dropout": 0.0,
    "norm": "batch_norm",
    "readout": "sum",
    "encode_again": False,
    "readers": 1,
    "assign": "nodes",
    "generator_layers": None,
    "stochastic": False,
    "independent": False,
    "alpha": 0.03,
    "beta": 0.01,
    "prior": None,
    "inner_steps": 20,
    "negatives": "perm",
    "memory": "batch",
    "reset_critic": True,
    "critic_batch_size": 64,
    "critic_hidden": 32,
    "critic_learning_rate": 0.01,
    "epochs": 60,
    "warmup": 6,
    "ramp": 6,
    "closing": 0,
    "patience": 60,
    "batch_size": 128,
    "learning_rate": 0.01,
    "anneal": False,
    "weight_decay": 0.0,
    "restarts": 1,
    "threshold": 0.5,
    "device": "cpu",
}  # of a table; it varied the others


@pytest.fixture(scope="module")
def ended():
    return json.loads((DATA / "before.json").read_text())


# --- configurations


def of(old, **more):
    return configure(**settings_of_before(old, **more))


def test_the_defaults_are_what_they_were():
    assert (
        of(DEFAULTS) == GIBConfig()
        and of({}) == GIBConfig()
        and settings_before(GIBConfig()) == {name: value for name, value in DEFAULTS.items() if name != "mask_features"}
    )


@pytest.mark.parametrize(
    "old, new",
    [
        (
            DECOUPLED,
            GIBConfig(
                Encoder(dropout=0.1, readout="sum"),
                EdgeMask(1, True),
                Reencode(num_models=3),
                Prior(0.05),
                (Pretrain(45, True), Bottleneck(15, 0, 50, True), Finetune(30, 50)),
                Optim(1e-3, lr_schedule="cosine"),
                0.0,
                1.0,
                0.1,
            ),
        ),
        (
            PUBLISHED,
            GIBConfig(
                Encoder("gcn", readout="sum"),
                information=Critic(20, "permute", False, True),
                phases=(Pretrain(6), Bottleneck(54, 6, 60)),
                optim=Optim(0.01),
                alpha=0.03,
                beta=0.01,
                max_restarts=1,
            ),
        ),
        (DEFAULTS | {"warmup": 0, "ramp": 0, "norm": None}, GIBConfig(Encoder(norm=None), phases=(Bottleneck(100),))),
        (DEFAULTS | {"encode_again": True, "mask_features": True}, GIBConfig(classifier=Reencode(mask_features=True))),
        (DEFAULTS | {"prior": 0.3, "inner_steps": 7, "negatives": "all"}, GIBConfig(information=Prior(0.3))),
    ],
    ids=["two-stage", "published", "plain", "features", "idle critic"],
)
def test_by_hand(old, new):
    assert of(old) == new and config_from_dict(migrate_config(old)) == new
    if old.get("inner_steps") != 7:  # settings without an effect are forgotten
        assert settings_before(new).items() <= (DEFAULTS | old).items()


def test_one_that_explained_a_model():
    old = DEFAULTS | {"assign": "edges", "stochastic": True, "mask_features": True}
    assert of(old, frozen=True) == GIBConfig(mask=EdgeMask(sample=True), classifier=Frozen(mask_features=True))
    assert migrate({"config": old, "post_hoc": True, "explained": "abc"}) == {
        "config": config_to_dict(of(old, frozen=True)),
        "post_hoc": True,
        "model": "abc",
    }


def test_an_encoder_of_ones_own():
    record = migrate_config(DEFAULTS | {"backbone": "custom"})
    assert (
        record["encoder"]["name"] == "custom"
        and config_from_dict(record, encoder=torch.nn.Linear).encoder.name is torch.nn.Linear
    )


CHANGES = {
    "backbone": st.sampled_from(["gin", "gcn", "gat", "graphsage"]),
    "hidden_channels": st.integers(1, 99),
    "num_layers": st.integers(1, 5),
    "dropout": st.floats(0, 0.9),
    "norm": st.sampled_from([None, "batch_norm", "layer_norm"]),
    "readout": st.sampled_from(["mean", "sum"]),
    "alpha": st.floats(0, 2),
    "beta": st.floats(0, 2),
    "inner_steps": st.integers(0, 99),
    "negatives": st.sampled_from(["perm", "all", "shift:3"]),
    "memory": st.sampled_from(["bank", "batch"]),
    "reset_critic": st.booleans(),
    "critic_batch_size": st.integers(2, 99),
    "critic_hidden": st.integers(1, 99),
    "critic_learning_rate": st.floats(0, 1),
    "warmup": st.integers(0, 30),
    "ramp": st.integers(0, 30),
    "patience": st.integers(1, 99),
    "batch_size": st.integers(2, 99),
    "learning_rate": st.floats(0, 1),
    "anneal": st.booleans(),
    "weight_decay": st.floats(0, 1),
    "restarts": st.integers(0, 9),
    "threshold": st.floats(0, 0.9),
    "seed": st.integers(0, 99),
    "device": st.sampled_from(["cpu", "cuda:1"]),
}


@settings(max_examples=80)
@given(
    st.fixed_dictionaries({}, optional=CHANGES),
    st.sampled_from(
        [
            {},
            {"encode_again": True},
            {"encode_again": True, "readers": 3, "assign": "edges", "generator_layers": 0, "stochastic": True},
            {"encode_again": True, "independent": True, "warmup": 5, "closing": 9},
        ]
    ),
)
def test_there_and_back(changes, kind):
    "By what it was called, a configuration finds the checkpoints of that time; the JSON of today stays as it is."
    old = DEFAULTS | changes | kind
    config = of(old)
    assert settings_before(config) == {name: value for name, value in old.items() if name != "mask_features"}
    record = migrate_config(old)
    assert (
        config_from_dict(json.loads(json.dumps(record))) == config
        and migrate_config(record) == record == migrate({"config": record})["config"]
    )


def test_what_did_not_exist_has_no_name_of_before():
    for config in (configure(sample_mask=True), configure(mask_on="edges"), configure(generator_num_layers=1)):
        assert settings_before(config) == {}


def test_every_setting_of_before_is_named_when_it_is_used():
    "Those with another name now, in an error that says it."
    for name in DEFAULTS:
        if name in RENAMED:
            with pytest.raises(ValueError, match=f"{name} is now"):
                GIBTrainer(**{name: DEFAULTS[name]})
        else:
            assert name in flat_settings(configure(classifier="reencode"))


def committed():
    "Settings of before in every result and model that the project keeps."

    def within(record):
        if isinstance(record, dict):
            if {"learning_rate", "warmup", "restarts"} <= record.keys():
                yield record
            for value in record.values():
                yield from within(value)
        elif isinstance(record, list):
            for value in record:
                yield from within(value)

    for path in sorted(
        [
            *(ROOT / "nbs" / "experiments" / "results").glob("*.json"),
            *(ROOT / "tests" / "benchmarks" / "results").glob("*.json"),
            DATA / "model_before" / "config.json",
        ]
    ):
        yield from ((path.name, record) for record in within(json.loads(path.read_text())))
    for path in sorted((ROOT / "gib_nb" / "assets").glob("model_*.safetensors")):
        yield path.name, load_safetensors(path)[1]["config"]


def test_what_is_committed_is_read():
    found = list(committed())
    assert {name for name, _ in found} >= {
        "config.json",
        *(f"model_{name.lower()}.safetensors" for name in SHIPPED_MODELS),
    }
    for name, record in found:
        config = config_from_dict(migrate_config(record))
        assert (
            record.get("seed") in (None, config.seed)
            and "alpha" in record
            and (config.alpha, config.beta) == (record["alpha"], record["beta"])
        ), name


# --- models

SMILES = ["CC(=O)Oc1ccccc1C(=O)O", "Cn1cnc2c1c(=O)n(C)c(=O)n2C", "CCO", "c1ccc2c(c1)cccc2CCN"]
PREDICTED = {  # values of these molecules, and expected numbers of their atoms in the subgraph, as before
    "QED": ([0.55698197, 0.85956371, 0.62707727, 0.91184151], [8.9882765, 7.5780416, 0.2941031, 2.3150508]),
    "DRD2": ([0.03016514, 0.0327896, -0.13133374, 0.72177158], [6.9961967, 9.2269878, 2.9990876, 3.0108674]),
    "HLM": ([1.54392672, 1.67362241, 1.9382945, 2.4720956], [12.9764424, 2.285785, 0.0182787, 10.8908863]),
    "MLM": ([2.1101586, 2.034518, 2.37116888, 2.49625393], [4.9993381, 0.4048254, 2.995986, 12.9888430]),
}


@pytest.mark.parametrize("name", SHIPPED_MODELS)
def test_shipped_models_predict_as_before(name):
    trainer, graphs = shipped_model(name), [molecule_to_data(smiles) for smiles in SMILES]
    values, sizes = PREDICTED[name]
    assert trainer.predict(graphs) == pytest.approx(values, abs=1e-3)
    assert [float(explanation.node_mask.sum()) for explanation in trainer.iter_explain(graphs)] == pytest.approx(
        sizes, abs=2e-3
    )
    assert trainer.config.classifier == Pooled() and trainer.spec.task == "regression" and trainer.spec.y_std != 1


def test_a_saved_model_predicts_as_before(ended, tmp_path):
    "And is saved with the names of today."
    trainer, expected = GIBTrainer.load(DATA / "model_before"), ended["model_before"]
    for each in (trainer, None):
        if each is None:
            trainer.save(tmp_path)
            each = GIBTrainer.load(tmp_path)
            assert (
                json.loads((tmp_path / "config.json").read_text())["config"] == config_to_dict(trainer.config)
                and each.config == trainer.config
            )
        assert (
            each.predict_proba(make_graphs()[:3]) == pytest.approx(np.array(expected["probabilities"]), abs=1e-5)
            and each.collapse == expected["collapse"]
        )
        assert next(each.iter_explain(make_graphs()[:1])).node_mask[:, 0].tolist() == pytest.approx(
            expected["node_mask"], abs=1e-5
        )
        assert each.audit.keys() == {"subgraph", "empty", "full", "random", "constant"} and each.config == of(
            dict(
                DEFAULTS,
                hidden_channels=4,
                dropout=0.2,
                inner_steps=3,
                critic_batch_size=8,
                critic_hidden=4,
                epochs=9,
                warmup=2,
                ramp=2,
                batch_size=8,
                learning_rate=0.02,
                restarts=0,
            )
        )
        assert (
            set(each.history["steps"][0])
            == {
                "loss",
                "classification",
                "connectivity",
                "mutual_information",
                "mean_node_mask",
                "epoch",
                "loss_weight",
            }
            and len(each.history["epochs"]) == 9
        )
        assert set(each.history["epochs"][0]) == {
            "loss",
            "classification",
            "connectivity",
            "score",
            "mean_node_mask",
            "selected_fraction",
            "epoch",
        }


# --- checkpoints

COMMON = dict(hidden_channels=4, batch_size=8, learning_rate=0.02)
RUNS = {
    "checkpoint_before_restart": dict(
        COMMON,
        restarts=1,
        epochs=5,
        warmup=1,
        ramp=1,
        inner_steps=3,
        critic_hidden=4,
        critic_batch_size=8,
        threshold=0.0,
    ),
    "checkpoint_before_two_stage": dict(
        COMMON,
        restarts=0,
        num_layers=1,
        encode_again=True,
        readers=1,
        independent=True,
        assign="edges",
        generator_layers=1,
        stochastic=True,
        prior=0.3,
        beta=1.0,
        alpha=0.0,
        readout="sum",
        dropout=0.1,
        anneal=True,
        ramp=0,
        warmup=3,
        closing=4,
        epochs=10,
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_an_interrupted_training_of_before_goes_on(name, ended, tmp_path):
    "In the second epoch of its second attempt, and in the last phase of two-stage training; to the numbers that it would have had then."
    file, graphs, seen, expected = tmp_path / "run", make_graphs(), [], ended[name]
    shutil.copy(DATA / f"{name}.safetensors", file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = lambda config: GIBTrainer(config).fit(
            graphs[:18],
            valid=graphs[18:],
            progress=False,
            checkpoint=file,
            callbacks=lambda record: seen.append(record["epoch"]),
        )
        with pytest.raises(ValueError, match="written for others"):
            fit(of(RUNS[name] | {"seed": 1}))
        trainer = fit(of(RUNS[name]))
        assert [seen[0], seen[-1], len(seen)] == (
            [1, 4, 12] if "restart" in name else [8, 9, 6]
        )  # three steps in an epoch
        history = trainer.history
        assert (
            [row["loss"] for row in history["epochs"]] == pytest.approx(expected["losses"], abs=1e-4)
            and history["best_epoch"] == expected["best_epoch"]
            and len(history["steps"]) == expected["steps"]
        )
        for mine, theirs in zip(history["attempts"], expected["attempts"], strict=True):
            # processors round differently, 5e-4 after these epochs; any part of the state that is lost costs over 0.02
            assert mine["loss"] == pytest.approx(theirs["loss"], abs=5e-3) and (mine["seed"], mine["best_epoch"]) == (
                theirs["seed"],
                theirs["best_epoch"],
            )
        assert trainer.predict_proba(graphs[:3]) == pytest.approx(np.array(expected["probabilities"]), abs=1e-3)
        fit(of(RUNS[name]))  # the file is one of today now, and finished
    assert len(seen) == (12 if "restart" in name else 6)
    assert load_safetensors(file)[1]["run"] is None
