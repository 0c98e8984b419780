"Parts, what they check, and their other forms: single settings and JSON."

import dataclasses
import json
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch_geometric.nn import GCNConv

from gib_nb.train.config import (
    SLOTS,
    GIBConfig,
    config_from_dict,
    config_to_dict,
    configure,
    default_schedule,
    flat_settings,
    lengths_of,
    options,
    phases_from,
)
from gib_nb.train.fields import Part
from gib_nb.train.parts import (
    Bottleneck,
    Critic,
    EdgeMask,
    Encoder,
    Finetune,
    Frozen,
    NodeMask,
    Optim,
    Phase,
    Pooled,
    Pretrain,
    Prior,
    Reencode,
)
from gib_nb.train.trainer import GIBTrainer

# --- each setting

WRONG = {
    "encoder": ("gni", None, "GIN", "custom", 3),
    "hidden_channels": (0, -1, 8.0, "8", True, None),
    "num_layers": (0, 1.5),
    "dropout": (-0.1, 1.0, "0"),
    "norm": ("graph_norm", False),
    "readout": ("max", None),
    "mask_on": ("faces", None),
    "generator_num_layers": (-1, 1.5, True),
    "generator_num_networks": (0, 1.5, None),
    "sample_mask": (1, None, "yes"),
    "classifier": ("again", None),
    "alpha": (-0.1, math.nan, math.inf, "1", None),
    "beta": (-1, math.nan, math.inf, None),
    "information": ("none", None),
    "num_steps": (-1, 2.5, None),
    "memory_bank": ("disk", None, 1),
    "reinit_critic": ("yes", None, 2),
    "negatives": ("shift", "shift:0", "shift:-3", "unique", "most", "", None, 8),
    "critic_hidden_channels": (0, 4.0),
    "critic_batch_size": (1, 0, 16.0),
    "critic_lr": (-1, math.nan),
    "prior_prob": (0.0, 1, -0.1, math.nan, "half"),
    "prior_start": (0.0, 1, -0.1, math.nan, "high"),
    "prior_step_epochs": (0, 2.5, "10"),
    "epochs": (0, 30.0, -3, None),
    "pretrain_epochs": (-1, 0.5),
    "rampup_epochs": (-1, 2.0),
    "finetune_epochs": (-1, 2.0),
    "patience": (0, -1, None),
    "two_stage": (1, None),
    "batch_size": (1, 0, 32.0),
    "lr": (-1e-3, math.nan, math.inf),
    "lr_schedule": ("linear", None),
    "weight_decay": (-1,),
    "max_grad_norm": (0, -1.0, "1", True, math.nan, math.inf),
    "max_restarts": (-1, 1.0),
    "threshold": (-0.1, 1.0, math.nan),
    "metric": ("auc", None, 3),
    "class_weight": ("even", {}, {"a": -1}, {"a": "b"}, 2, [1, 2]),
    "device": ("gpu", "", None, 3.5),
    "pretrained": ("chembl", 1, True),
    "seed": (-1, 1.5, "a", None, True, 2**70),
}
FIELD_OF = {
    "encoder": "Encoder.name",
    "generator_num_layers": "num_layers",
    "generator_num_networks": "num_networks",
    "sample_mask": "sample",
    "reinit_critic": "reinit",
    "critic_hidden_channels": "Critic.hidden_channels",
    "critic_batch_size": "Critic.batch_size",
    "critic_lr": "Critic.lr",
    "prior_prob": "Prior.prob",
    "prior_start": "Prior.start",
    "prior_step_epochs": "Prior.step_epochs",
}


@pytest.mark.parametrize("name, values", WRONG.items())
def test_each_setting_is_checked(name, values):
    "When the configuration is made, and by name."
    for value in values:
        with pytest.raises(ValueError, match=f"expected .*{FIELD_OF.get(name, name)}.*got"):
            configure(**{name: value})


def test_every_setting_is_among_those_that_are_checked():
    assert options().keys() - WRONG.keys() == {
        "num_classifiers",
        "mask_features",
        "prototypes_per_class",
        "prototype_weight",
        "project_every",
    }  # these need another classifier, see below
    for name, value in (("num_classifiers", 0), ("num_classifiers", 2.0), ("mask_features", 1)):
        with pytest.raises(ValueError, match="expected Reencode.num_models|expected mask_features"):
            configure(classifier="reencode", **{name: value})
    for name, value in (("prototypes_per_class", 0), ("prototype_weight", -1.0), ("project_every", 0)):
        with pytest.raises(ValueError, match="expected (Prototypes.(per_class|weight)|project_every)"):
            configure(classifier="prototypes", **{name: value})


def test_numbers_of_numpy_and_torch_become_plain():
    for name, value in (
        ("seed", np.int64(3)),
        ("epochs", np.int64(40)),
        ("beta", np.float64(0.1)),
        ("beta", np.float32(0.1)),
        ("beta", torch.tensor(0.5)),
        ("seed", np.array(3)),
        ("sample_mask", np.bool_(True)),
        ("hidden_channels", torch.tensor(8)),
        ("device", torch.device("cpu")),
        ("encoder", np.str_("gcn")),
    ):
        config = configure(**{name: value})
        assert config_from_dict(json.loads(json.dumps(config_to_dict(config)))) == config != GIBConfig(seed=9)
        assert type(flat_settings(config)[name]) in (int, float, bool, str)


@pytest.mark.parametrize(
    "field, value",
    [("seed", np.float64(3)), ("epochs", np.int64(0)), ("beta", np.bool_(True)), ("beta", np.array([0.1, 0.2]))],
)
def test_numbers_of_numpy_are_checked_like_those_of_python(field, value):
    with pytest.raises(ValueError, match=f"expected {field} as"):
        configure(**{field: value})


def test_the_full_loss_must_be_trained():
    with pytest.raises(ValueError, match="epochs > pretrain_epochs . rampup_epochs = 30.*got 30"):
        configure(epochs=30, pretrain_epochs=15, rampup_epochs=15)
    assert configure(epochs=31, pretrain_epochs=15, rampup_epochs=15).epochs == 31
    with pytest.raises(ValueError, match="more epochs than rampup"):
        Bottleneck(15, rampup=15)


def test_a_config_is_frozen_printable_and_saved():
    config = configure(beta=0.05, norm=None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.beta = 1.0
    assert "beta=0.05" in repr(config) and config_from_dict(json.loads(json.dumps(config_to_dict(config)))) == config
    assert hash(config) == hash(configure(beta=0.05, norm=None)) and configure(norm="none") == configure(norm=None)


# --- the schedule


def test_rampup():
    "Nothing in pretraining, then equal steps, full weight from the end of the ramp-up on."
    pretrain, bottleneck = configure(pretrain_epochs=2, rampup_epochs=3, epochs=10).phases
    assert [pretrain.loss_weight(epoch) for epoch in range(2)] + [
        bottleneck.loss_weight(epoch) for epoch in range(6)
    ] == [0, 0, 0.25, 0.5, 0.75, 1, 1, 1]
    assert configure(pretrain_epochs=0, rampup_epochs=0).phases[0].loss_weight(0) == 1


def test_the_learning_rate_falls_in_each_phase():
    rates = lambda config: [
        round(config.optim.lr_at(epoch, phase.epochs), 5) for phase in config.phases for epoch in range(phase.epochs)
    ]
    assert rates(configure(lr=0.1, lr_schedule="cosine", pretrain_epochs=2, rampup_epochs=0, epochs=6)) == [
        0.1,
        0.05,
        0.1,
        0.08536,
        0.05,
        0.01464,
    ]
    assert set(rates(configure(lr=0.1))) == {0.1}
    config = configure(
        lr=0.1,
        lr_schedule="cosine",
        pretrain_epochs=1,
        rampup_epochs=0,
        finetune_epochs=2,
        epochs=5,
        classifier="reencode",
        two_stage=True,
    )
    assert config.phases == (Pretrain(1, random_masks=True), Bottleneck(2, train_mask_only=True), Finetune(2))
    assert [(phase.epochs, phase.trains) for phase in config.phases] == [
        (1, "classifier"),
        (2, "mask"),
        (2, "classifier"),
    ] and rates(config) == [0.1, 0.1, 0.05, 0.1, 0.05]


def test_fewer_epochs_shorten_the_phases():
    "Unless their lengths are given; what they were before is the most."
    lengths = lambda **settings: tuple(
        lengths_of(configure(**settings))[name] for name in ("epochs", "pretrain_epochs", "rampup_epochs")
    )
    assert (
        lengths() == (100, 15, 15)
        and lengths(epochs=8) == (8, 1, 1)
        and lengths(epochs=8, pretrain_epochs=3) == (8, 3, 1)
        and lengths(epochs=200) == (200, 15, 15)
        and lengths(epochs=1) == (1, 0, 0)
    )
    assert lengths_of(configure(configure(epochs=8), epochs=100))["pretrain_epochs"] == 1  # never longer than before
    assert configure(**default_schedule(50)).phases == (Pretrain(10), Bottleneck(40, rampup=10, patience=50))


# --- what means nothing cannot be written


class Encode(nn.Module):
    out_channels = 3


@pytest.mark.parametrize(
    "settings, words",
    [
        (dict(two_stage=True), "classifier=Reencode.., with weights of its own"),
        (
            dict(two_stage=True, classifier="reencode", pretrain_epochs=0),
            "a Pretrain phase, which trains the classifier, before Bottleneck.train_mask_only=True.",
        ),
        (dict(num_classifiers=2), "num_classifiers only with classifier='reencode'"),
        (dict(classifier="frozen", num_classifiers=2), "num_classifiers only with classifier='reencode'"),
        (
            dict(mask_features=True),
            "mask_features only with classifier='frozen' or classifier='shared' or classifier='reencode'",
        ),
        (
            dict(finetune_epochs=2, classifier="frozen"),
            "classifier=Reencode.., .* for phases that train only one half of the model .*Finetune",
        ),
        (dict(classifier="frozen", two_stage=True), "classifier=Reencode"),
        (
            dict(
                two_stage=True,
                classifier="reencode",
                epochs=100,
                pretrain_epochs=50,
                rampup_epochs=0,
                finetune_epochs=50,
            ),
            "epochs > pretrain_epochs . rampup_epochs . finetune_epochs = 100",
        ),
        *(
            (dict(prior_prob=0.3) | setting, f"{name} only with information='critic'")
            for setting in (
                dict(num_steps=3),
                dict(negatives="all"),
                dict(memory_bank=False),
                dict(reinit_critic=True),
                dict(critic_batch_size=8),
                dict(critic_hidden_channels=8),
                dict(critic_lr=0.1),
            )
            for name in setting
        ),
        (dict(information="prior", num_steps=3), "num_steps only with information='critic'"),
        (dict(information="critic", prior_prob=0.3), "prior_prob only with information='prior'"),
        (dict(information=Critic(num_steps=3), prior_prob=0.3), "prior_prob only with information='prior'"),
        (dict(generator_num_layers=1, encoder=Encode), "no num_layers of the mask with an encoder of your own"),
        (dict(phases=(Bottleneck(5),), epochs=9), "phases or epochs, not both"),
        (dict(phases=()), "one Bottleneck"),
        (dict(phases=[Pretrain(3)]), "one Bottleneck"),
        (dict(phases=(Bottleneck(3), Bottleneck(3))), "one Bottleneck"),
        (dict(phases=(3,)), "one Bottleneck"),
        (dict(phases=(Bottleneck(3), Pretrain(3))), "order Pretrain, Bottleneck, Finetune"),
        (dict(phases=(Finetune(3), Bottleneck(3)), classifier="reencode"), "order Pretrain, Bottleneck, Finetune"),
        (dict(phases=(Pretrain(3, random_masks=True), Bottleneck(3))), "classifier=Reencode"),
        (dict(phases=(Bottleneck(3, train_mask_only=True),), classifier="reencode"), "a Pretrain phase"),
        (dict(information="noise"), 'classifier="noisy" with information="noise"'),
        (dict(classifier="noisy", mask_on="edges"), r"mask=NodeMask\(\) with Noisy"),
        (dict(classifier="shared", generator_num_layers=1), "no num_layers of the mask with an encoder"),
        (dict(classifier="reencode", generator_num_networks=2), "expected generator_num_layers, and classifier="),
        (dict(generator_num_layers=2, generator_num_networks=2), 'and classifier="reencode" or "frozen"'),
        (dict(mask=Pooled()), "mask as one of NodeMask, EdgeMask"),
        (dict(classifier=NodeMask()), "classifier as one of Pooled, Noisy, Prototypes, Frozen, Shared, Reencode"),
        (dict(information=Optim()), "information as one of Critic, Prior"),
        (dict(encoder=[1]), "Encoder.name to be one of"),
        (dict(information=(Bottleneck(2),), critic_batch_size=8), "information to be one of critic, prior"),
        (dict(information=NodeMask(), num_steps=8), "num_steps only with"),
        (dict(phases=3), "settings"),
        (dict(optim=Phase), "settings|optim"),
        (dict(mask="edges"), "such as .*Mask\\(\\), or mask_on='nodes' or 'edges'"),
        (dict(mask=EdgeMask), r"mask=EdgeMask\(\), an instance"),
        (dict(classifier=Reencode), r"classifier=Reencode\(\), an instance"),
        (dict(optim="adam"), r"such as Optim\(\), or its settings by name"),
        (dict(gamma=1), "settings among .*got gamma"),
        (dict(warmup=3), "expected the new name: warmup is now pretrain_epochs"),
        (dict(encode_again=True), 'encode_again is now classifier="reencode"'),
    ],
    ids=str,
)
def test_settings_that_mean_nothing_are_refused(settings, words):
    "In the constructor of the trainer, with what they need; formerly some were switched off in silence, and others failed in `fit`."
    with pytest.raises(ValueError, match=words):
        GIBTrainer(**settings)


@pytest.mark.parametrize("settings", [dict(classifier="frozen"), dict(classifier=Frozen())], ids=str)
def test_a_frozen_classifier_needs_a_model(settings):
    with pytest.raises(ValueError, match="expected model=MODEL if and only if classifier=Frozen"):
        GIBTrainer(**settings)


@pytest.mark.parametrize("classifier", ["pooled", "reencode", Reencode(num_models=2)])
def test_a_model_needs_a_frozen_classifier(classifier):
    with pytest.raises(ValueError, match="expected model=MODEL if and only if classifier=Frozen"):
        GIBTrainer(model=Encode(), classifier=classifier)
    assert GIBTrainer(model=Encode()).config.classifier == Frozen() and GIBTrainer(
        configure(mask_on="edges", classifier="reencode", mask_features=True), model=Encode()
    ).config.classifier == Frozen(True)


def test_one_phase_or_several():
    assert (
        GIBConfig(phases=Bottleneck(3))
        == GIBConfig(phases=[Bottleneck(3)])
        == configure(phases=Bottleneck(3))
        == GIBConfig(phases=(Bottleneck(3),))
    )
    with pytest.raises(ValueError, match="expected phases to be one Phase or several .got 3"):
        GIBConfig(phases=3)


def test_an_encoder_is_a_name_or_a_function():
    with pytest.raises(
        ValueError, match="Encoder.name to be one of gcn, graphsage, gin, gat, gine, gatv2, or a function"
    ):
        Encoder("custom")
    for module in (GCNConv(3, 6), Encode()):
        with pytest.raises(TypeError, match=r"function in_channels → module.*got the module \w+ itself"):
            Encoder(module)
    assert Encoder(Encode).to_dict()["name"] == "custom" and configure(encoder=Encode).encoder == Encoder(Encode)


def test_a_word_that_chooses_a_part_keeps_what_both_have():
    config = configure(
        sample_mask=True, generator_num_layers=1, mask_on="edges", classifier="reencode", mask_features=True
    )
    assert (
        config.mask == EdgeMask(1, True)
        and configure(config, mask_on="nodes").mask == NodeMask(1, True)
        and configure(config, classifier="frozen").classifier == Frozen(True)
    )
    assert (
        configure(prior_prob=0.2).information
        == Prior(0.2)
        == configure(configure(information="prior"), prior_prob=0.2).information
        and configure(prior_prob=None) == GIBConfig()
    )
    assert configure(config, encoder=Encoder("gcn", 8), num_layers=3).encoder == Encoder("gcn", 8, 3)


# --- other forms

sizes, rates = st.integers(1, 9), st.floats(0, 0.9)
encoders = st.builds(
    Encoder,
    st.sampled_from(["gin", "gcn", "gat", "graphsage"]),
    sizes,
    sizes,
    rates,
    st.sampled_from([None, "batch_norm", "layer_norm"]),
    st.sampled_from(["mean", "sum"]),
)
masks = st.one_of(
    *(st.builds(kind, st.one_of(st.none(), st.integers(0, 5)), st.booleans()) for kind in (NodeMask, EdgeMask))
)
information = st.one_of(
    st.builds(
        Critic,
        st.integers(0, 9),
        st.sampled_from(["all", "permute", "shift:3"]),
        st.booleans(),
        st.booleans(),
        st.integers(2, 9),
        sizes,
        rates,
    ),
    st.builds(Prior, st.floats(0.01, 0.99)),
)
norms = st.one_of(st.none(), st.floats(0.01, 10))
optims = st.builds(Optim, rates, st.integers(2, 9), rates, st.sampled_from(["constant", "cosine"]), norms)


@st.composite
def configs(draw, standard=False):
    "Any configuration; with `standard`, one whose phases have one patience and each occur once."
    classifier = draw(
        st.one_of(st.just(Pooled()), st.builds(Frozen, st.booleans()), st.builds(Reencode, st.booleans(), sizes))
    )
    two_stage, patience = isinstance(classifier, Reencode) and draw(st.booleans()), draw(sizes)
    epochs = draw(sizes)
    first = draw(st.lists(sizes, min_size=int(two_stage), max_size=1 if standard else 3))
    last = draw(st.lists(sizes, max_size=1 if standard else 2)) if isinstance(classifier, Reencode) else []
    phases = (
        *(Pretrain(n, two_stage) for n in first),
        Bottleneck(epochs, draw(st.integers(0, epochs - 1)), patience, two_stage),
        *(Finetune(n, patience if standard else draw(sizes)) for n in last),
    )
    return GIBConfig(
        draw(encoders),
        draw(masks),
        classifier,
        draw(information),
        phases,
        draw(optims),
        draw(rates),
        draw(rates),
        draw(rates),
        draw(st.integers(0, 3)),
        draw(st.sampled_from(["cpu", "cuda:1"])),
        draw(st.integers(0, 2**40)),
    )


@settings(max_examples=60)
@given(configs())
def test_json_and_back(config):
    record = json.loads(json.dumps(config_to_dict(config), allow_nan=False))
    assert config_from_dict(record) == config and config_to_dict(config_from_dict(record)) == record


@settings(max_examples=60)
@given(configs(standard=True))
def test_single_settings_and_back(config):
    flat = flat_settings(config)
    assert configure(**flat) == config and json.loads(json.dumps(flat)) == flat and flat.keys() <= options().keys()
    assert phases_from(**lengths_of(config)) == config.phases


@settings(max_examples=60)
@given(configs(), configs())
def test_single_settings_of_any_phases(config, other):
    "Also where no lengths describe the phases; and whatever configuration they are applied to, except that a choice of parts has to come along."
    assert configure(**flat_settings(config)) == config == configure(other, **flat_settings(config))


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"encoder": {"kind": "Encoder"}},
        {"encoder": 3},
        config_to_dict(GIBConfig()) | {"gamma": 1},
        config_to_dict(GIBConfig()) | {"phases": 3},
        config_to_dict(GIBConfig()) | {"phases": [3]},
        config_to_dict(GIBConfig()) | {"mask": {"kind": "FaceMask"}},
        config_to_dict(GIBConfig()) | {"mask": {"kind": "NodeMask", "gamma": 1}},
        config_to_dict(GIBConfig()) | {"mask": {"kind": "Pooled"}},
        config_to_dict(GIBConfig()) | {"beta": -1},
    ],
    ids=lambda record: str(record)[:20] + str(record)[-40:],
)
def test_other_records_are_refused(record):
    with pytest.raises(ValueError, match="expected"):
        config_from_dict(record)


def test_an_encoder_of_ones_own_is_given_again():
    record = config_to_dict(configure(encoder=Encode))
    assert json.loads(json.dumps(record)) == record and config_from_dict(record, Encode) == configure(encoder=Encode)
    for wrong in (dict(), dict(encoder="gin")):
        with pytest.raises(ValueError, match="encoder=FUNCTION if and only if .*custom"):
            config_from_dict(record, **wrong)
    with pytest.raises(ValueError, match="encoder=FUNCTION if and only if"):
        config_from_dict(config_to_dict(GIBConfig()), Encode)


# --- what the command line and reports read


def test_every_field_has_a_help_text():
    kinds = [GIBConfig, *Part.kinds.values()]
    assert {
        Encoder,
        NodeMask,
        EdgeMask,
        Pooled,
        Frozen,
        Reencode,
        Critic,
        Prior,
        Pretrain,
        Bottleneck,
        Finetune,
        Optim,
    } <= set(kinds)
    for kind in kinds:
        assert kind.__doc__
        for field in dataclasses.fields(kind):
            if kind is not GIBConfig or field.name not in (*SLOTS, "phases"):
                assert len(field.metadata["help"]) > 5 and callable(field.metadata["check"]), (
                    f"{kind.__name__}.{field.name}"
                )


def test_options_are_those_of_the_parts():
    "Each with a help text, the default that a configuration has, and the choices that its check allows."
    known = options()
    assert all(len(option.help) > 5 and option.type in (int, float, str, bool) for option in known.values())
    for name, value in flat_settings(GIBConfig()).items():
        assert known[name].default == value, name
    for name, option in known.items():
        for choice in option.choices or ():
            needed = {("mask_features", None): "reencode", ("information", "noise"): "noisy"}
            classifier = needed.get((name, None)) or needed.get((name, choice))
            more = {"classifier": classifier} if classifier else {}
            assert configure(**{name: choice}, **more)
    for kind in Part.kinds.values():
        for field in dataclasses.fields(kind):
            if (option := field.metadata["option"]) and kind.slot:
                assert kind in known[option].kinds or any(issubclass(kind, each) for each in known[option].kinds)


def test_words_of_the_parts_of_a_slot_differ():
    for slot in ("mask", "classifier", "information"):
        words = [kind.word for kind in Part.kinds.values() if kind.slot == slot]
        assert all(words) and len(set(words)) == len(words) > 1


def test_it_loads_no_torch():
    code = "import gib_nb.train.config as c; c.configure(encoder='gat', epochs=9); import sys; print([name for name in ('torch', 'torch_geometric', 'sklearn', 'pandas') if name in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
