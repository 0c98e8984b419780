"""Whatever comes in: a result that keeps its promises, or a ValueError in words. GIB_NB_FUZZ=5000 tries more."""

import contextlib
import io
import json
import math
import os
import shlex
import warnings

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data

from gib_nb import cli, explain_smiles
from gib_nb.chem.builtin import DRUGS
from gib_nb.cli.options import config_of, given_settings, method_settings
from gib_nb.data.datasets import molecule_dataset
from gib_nb.data.graph_dataset import make_dataset
from gib_nb.data.synthetic import motif_dataset
from gib_nb.experiments.sweep import grid
from gib_nb.nn.gib import GIB
from gib_nb.nn.registry import BACKBONES
from gib_nb.train.config import config_from_dict, config_to_dict, configure, flat_settings, options
from gib_nb.train.parts import Bottleneck, Critic, EdgeMask, NodeMask, Optim, Pretrain, Prior, Reencode
from gib_nb.train.trainer import GIBTrainer

TRIES = int(os.environ.get("GIB_NB_FUZZ", 25))
fuzz = settings(max_examples=TRIES, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
TINY = dict(hidden_channels=4, epochs=3, pretrain_epochs=1, rampup_epochs=1, num_steps=2, batch_size=4, max_restarts=0)
NUMBERS = st.one_of(
    st.floats(-3, 3, width=32),
    st.sampled_from([0.0, -0.0, 1e-30, 1e10, 1e30, 3e38, -3e38, math.nan, math.inf, -math.inf]),
)


@st.composite
def graphs(draw, label=True, width=None, wild=True):
    """0 to 50 nodes; isolated nodes, loops, double and one-sided edges, several components; x of a few columns, or none, or with values that are huge or no numbers. Some are broken on purpose:
    edges that lead nowhere, x for other nodes, y of another shape."""
    n = draw(st.sampled_from([0, 1, 2, 3, 5, 8, 20, 50]))
    node = st.integers(0, max(0, n - 1)) if not wild or draw(st.integers(0, 39)) else st.integers(-2, n + 2)
    pairs = draw(st.lists(st.tuples(node, node), max_size=3 * n)) if n else []
    if draw(st.integers(0, 4)):
        pairs = pairs + [pair[::-1] for pair in pairs]
    edge_index = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
    columns = draw(st.sampled_from([-1, 1, 3])) if width is None else width  # -1: no x
    x = None
    if columns >= 0:
        dice = np.random.default_rng(draw(st.integers(0, 1000)))
        rows = n + (wild and draw(st.integers(0, 39)) == 0)
        x = torch.from_numpy(dice.normal(size=(rows, columns))).float()
        if wild and rows and draw(st.integers(0, 9)) == 0:
            x[draw(st.integers(0, rows - 1)), draw(st.integers(0, columns - 1))] = draw(NUMBERS)
    y = draw(st.sampled_from([0, 1] * 10 + [2, -1] * wild)) if label else None
    y = None if y is None else torch.tensor([y])
    if label and wild and draw(st.integers(0, 39)) == 0:
        y = draw(
            st.sampled_from(
                [
                    None,
                    torch.tensor([1.0, math.nan]),
                    torch.tensor([math.nan]),
                    torch.tensor([0.5]),
                    torch.tensor([]),
                    1,
                ]
            )
        )
    graph = Data(x=x, edge_index=edge_index, num_nodes=n, **({} if y is None else {"y": y}))
    if wild and draw(st.integers(0, 39)) == 0:
        name, value = draw(
            st.sampled_from(
                [
                    ("x", [[1.0]] * n),
                    ("x", torch.ones(n)),
                    ("x", torch.ones(n, 1, dtype=torch.long)),
                    ("x", torch.ones(n, 1, dtype=torch.double)),
                    ("x", torch.ones(n, 0)),
                    ("x", np.ones((n, 1))),
                    ("edge_index", edge_index.int()),
                    ("edge_index", edge_index.T),
                    ("edge_index", None),
                    ("edge_index", edge_index.tolist()),
                    ("num_nodes", None),
                    ("num_nodes", -1),
                    ("num_nodes", 2.5),
                    ("edge_mask", torch.ones(1)),
                    ("edge_mask", 1.0),
                    ("node_mask", [1.0] * n),
                    ("prior", torch.full((n,), 0.5)),
                    ("prior", torch.full((n,), 2.0)),
                    ("prior", 0.5),
                    ("edge_attr", torch.ones(1)),
                    ("edge_weight", torch.ones(edge_index.size(1))),
                    ("batch", torch.zeros(n, dtype=torch.long)),
                    ("ptr", torch.tensor([0, n])),
                    ("pos", "here"),
                ]
            )
        )
        graph[name] = value
    return graph


ENDED = []  # True for each example of the present test that ended well, False for each that was refused


@contextlib.contextmanager
def refusals_have_words():
    "A ValueError (or a TypeError) of one readable sentence is an answer; any other exception is a fault."
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            yield
        ENDED.append(True)
    except (ValueError, TypeError) as error:
        assert "expected" in str(error), f"no words: {error!r}"
        ENDED.append(False)


@pytest.fixture(autouse=True)
def not_everything_is_refused():
    "A fault that refuses every example in words would pass for caution."
    ENDED.clear()
    yield
    assert not ENDED or sum(ENDED) >= len(ENDED) / 20, f"{sum(ENDED)} of {len(ENDED)} examples ended well"


def check_explanations(trainer, given):
    found = trainer.explain(given)
    prediction = trainer.predict_proba(given) if trainer.spec.task == "classification" else trainer.predict(given)
    assert len(found) == len(given) == len(prediction) and np.isfinite(prediction).all()
    if trainer.spec.task == "classification":
        assert np.allclose(prediction.sum(1), 1, atol=1e-5) and (prediction >= 0).all()
    for graph, e in zip(given, found):
        assert list(e.node_mask.shape) == [graph.num_nodes, 1] and list(e.edge_mask.shape) == [graph.edge_index.size(1)]
        for mask in (e.node_mask, e.edge_mask):
            assert bool(torch.isfinite(mask).all()) and bool(((mask >= 0) & (mask <= 1)).all())
        assert bool((e.selected_nodes == (e.node_mask[:, 0] > trainer.config.threshold)).all())


@pytest.fixture(scope="module")
def fitted():
    found = {}
    for width in (-1, 3):
        data = motif_dataset(30, seed=1)
        given = [
            Data(
                x=None if width < 0 else torch.randn(g.num_nodes, width, generator=torch.Generator().manual_seed(i)),
                edge_index=g.edge_index,
                y=g.y,
                num_nodes=g.num_nodes,
            )
            for i, g in enumerate(data.graphs)
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[width] = GIBTrainer(**TINY).fit(given, progress=False)
    return found


MOSTLY_ALIKE = st.sampled_from([-1, 1, 3] * 4 + [None]).flatmap(
    lambda width: st.lists(graphs(width=width), min_size=2, max_size=8)
)  # all with as many columns of x; None: each as it likes


@pytest.mark.slow
@fuzz
@given(
    MOSTLY_ALIKE,
    st.sampled_from(sorted(BACKBONES)),
    st.sampled_from([None, "batch_norm", "layer_norm"]),
    st.sampled_from(["mean", "sum"]),
)
def test_fit(given, backbone, norm, readout):
    with refusals_have_words():
        trainer = GIBTrainer(encoder=backbone, norm=norm, readout=readout, **TINY).fit(
            given, valid=given, progress=False
        )
        check_explanations(trainer, given)
        assert math.isfinite(trainer.score(given))


@pytest.mark.slow
@fuzz
@given(st.lists(graphs(width=2, wild=False), min_size=6, max_size=12), st.sampled_from(sorted(BACKBONES)))
def test_fit_of_sound_graphs_ends_well(given, backbone):
    "Without anything broken there is a result, whatever the shapes."
    given = [graph for graph in given if graph.num_nodes]
    assume(len({int(graph.y) for graph in given}) == 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = GIBTrainer(encoder=backbone, **TINY).fit(given, valid=given, progress=False)
        check_explanations(trainer, given)


@fuzz
@given(st.sampled_from([-1, 3]), st.data())
def test_predict_and_subgraph(fitted, width, data):
    given = data.draw(st.lists(graphs(label=False, width=width), min_size=0, max_size=6))
    with refusals_have_words():
        check_explanations(fitted[width], given)


@fuzz
@given(
    st.lists(graphs(label=False, width=2, wild=False), max_size=5), st.sampled_from(sorted(BACKBONES)), st.booleans()
)
def test_the_model_on_batches(given, backbone, training):
    "Empty graphs in a batch, also at its end; in training mode and out of it."
    given = given or [Data(x=torch.zeros(1, 2), edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=1)]
    batch = Batch.from_data_list(given)
    torch.manual_seed(0)
    model = GIB(2, 2, backbone=backbone, hidden_channels=4).train(training)
    with refusals_have_words():
        output = model(batch.x, batch.edge_index, batch.batch, len(given))
        assert list(output.prediction.shape) == [len(given), 2] and list(output.assignment.shape) == [
            batch.num_nodes,
            2,
        ]
        for value in (
            output.prediction,
            output.assignment,
            output.graph_embedding,
            output.subgraph_embedding,
            output.connectivity_loss,
        ):
            assert bool(torch.isfinite(value).all())


KNOWN = options()
NAMES = sorted(KNOWN) + ["mask", "optim", "phases"]  # the last three are parts
ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 200),
    st.floats(allow_nan=True),
    st.text(max_size=8),
    st.sampled_from(
        [
            "gin",
            "gcn",
            "gat",
            "graphsage",
            "custom",
            "mean",
            "sum",
            "nodes",
            "edges",
            "all",
            "permute",
            "shift:3",
            "shift:0",
            "shift:-1",
            "unique",
            "batch_norm",
            "layer_norm",
            "none",
            "cpu",
            "cuda:99",
            "meta",
            "pooled",
            "reencode",
            "frozen",
            "critic",
            "prior",
            "cosine",
            EdgeMask(),
            NodeMask(1, True),
            Reencode(num_models=2),
            Prior(0.3),
            Critic(num_steps=1),
            Optim(batch_size=4),
            (Bottleneck(2),),
            [Pretrain(1), Bottleneck(1)],
            (),
        ]
    ),
    st.lists(st.integers(), max_size=2),
)
FEW = [graph for graph in motif_dataset(12, seed=3).graphs]
SMALL = {name: value for name, value in TINY.items() if name != "num_steps"}  # which a prior does not have


def too_large(config):
    "Whether a training would take long, or needs another machine."
    flat = flat_settings(config)
    limits = {
        "hidden_channels": 60,
        "num_layers": 8,
        "generator_num_layers": 8,
        "num_steps": 60,
        "critic_hidden_channels": 100,
        "num_classifiers": 3,
        "max_restarts": 2,
    }
    return (
        config.epochs > 10
        or config.device != "cpu"
        or any((flat.get(name) or 0) > limit for name, limit in limits.items())
    )


@pytest.mark.slow
@fuzz
@given(
    st.dictionaries(st.sampled_from(NAMES), ANYTHING, max_size=2),
    st.sets(st.sampled_from(sorted(KNOWN)), max_size=5),
    st.randoms(use_true_random=False),
)
def test_settings(given, sensible, dice):
    "A config is refused in words, or is what JSON and its single settings say and a fit with it ends well."
    plain = {}
    for name in sorted(sensible):  # values of the right type, to get past the first check
        kind = KNOWN[name].type
        plain[name] = (
            dice.choice(KNOWN[name].choices)
            if KNOWN[name].choices
            else {
                int: dice.choice([0, 1, 2, 3, 7]),
                float: dice.choice([0.0, 0.01, 0.5, 0.9]),
                bool: dice.random() < 0.5,
            }.get(kind, KNOWN[name].default)
        )
    with refusals_have_words():
        config = configure(**SMALL | plain | given)
        assert (
            config_from_dict(json.loads(json.dumps(config_to_dict(config))))
            == config
            == configure(**flat_settings(config))
        )
        if too_large(config):
            return
        trainer = GIBTrainer(config).fit(FEW, valid=FEW, progress=False)
        check_explanations(trainer, FEW)


@pytest.fixture(scope="module")
def chemist():
    data = molecule_dataset(limit=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GIBTrainer(**TINY | dict(epochs=6), beta=0.01).fit(data.train, valid=data.valid, progress=False)


ALPHABET = "CNOPSFIBclnos()[]=#-+@/\\%.123456789*:$&~HaeR "


@st.composite
def smiles(draw):
    "Molecules that RDKit accepts, mutated ones, random text, and very long lines."
    kind, text = draw(st.integers(0, 4)), draw(st.sampled_from(sorted(DRUGS.values())))
    if kind == 0:
        return text
    if kind == 1:
        for _ in range(draw(st.integers(1, 4))):
            i = draw(st.integers(0, len(text)))
            text = text[:i] + draw(st.sampled_from(["", *ALPHABET])) + text[i + draw(st.integers(0, 1)) :]
        return text
    if kind == 2:
        return draw(st.text(max_size=30))
    if kind == 3:
        return draw(st.text(ALPHABET, max_size=40))
    unit = draw(
        st.sampled_from(["C", "CC(C)", "C1CC1", "c1ccccc1", "(", "[", "C(", "N#", ".", "C.", "é", "9", "[13C@H]"])
    )
    return (unit * 10_000)[: draw(st.sampled_from([500, 2_000, 10_000]))]


@fuzz
@given(smiles())
def test_smiles(chemist, text):
    with refusals_have_words():
        e = explain_smiles(text, chemist, "QED" if len(text) < 1000 else None)
        assert (
            len(e.weights) > 0
            and all(0 <= weight <= 1 for weight in e.weights)
            and math.isfinite(e.prediction)
            and 0 <= e.fragment_fraction <= 1
        )
        assert e.value is None or math.isfinite(e.value)
        assert "<svg" in e._repr_mimebundle_()["image/svg+xml"] if len(text) < 1000 else True


WORDS = [
    "train",
    "explain",
    "sweep",
    "reproduce",
    "app",
    "--help",
    "--version",
    "--beta",
    "--epochs",
    "--out",
    "--limit",
    "--folds",
    "--fold",
    "--seed",
    "--model",
    "--property",
    "QED",
    "--threshold",
    "--jobs",
    "--dask",
    "--encoder",
    "--method",
    "two_stage",
    "--classifier",
    "reencode",
    "--prior-prob",
    "0.3",
    "--num-steps",
    "--backbone",
    "--no-progress",
    "--debug",
    "--data",
    "--resume",
    "--force",
    "motif",
    "MUTAG",
    "nothing",
    "C",
    "CCO",
    "C1CC",
    "x.smi",
    "x.csv",
    "x.parquet",
    "0",
    "1",
    "2",
    "-1",
    "nan",
    "inf",
    "1e400",
    "gin",
    "custom",
    "classification",
    "--datasets",
    "--methods",
    "GIN",
    "--layers",
    "",
    " ",
    "\u2603",
    "--",
    "-h",
    "'",
]


@fuzz
@given(st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=6)), max_size=6))
def test_the_command_line(chemist, words):
    "An exit code and, where it is not 0, one line of error; never a traceback. What would train for long is not run."
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()) as said,
    ):
        patch.setattr(cli.train, "train_command", lambda args: config_of(args) and 0)
        patch.setattr(
            cli.sweep,
            "sweep_command",
            lambda args: (
                len([configure(**method_settings(args.method, trial)) for trial in grid(**given_settings(args))]) * 0
            ),
        )
        patch.setattr(cli.reproduce, "reproduce_command", lambda args: 0)
        patch.setattr(cli.app, "app_command", lambda args: 0)
        patch.setattr(cli.explain, "shipped_model", lambda name: chemist)
        patch.setattr(cli.explain, "output", lambda path: contextlib.nullcontext(io.StringIO()))
        words = [word for word in words if word != "--debug"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = cli.main(words)
    assert code in (0, 1, 2), (code, shlex.join(words))
    assert "Traceback" not in said.getvalue()


@fuzz
@given(MOSTLY_ALIKE)
def test_data_sets(given):
    with refusals_have_words():
        data = make_dataset("fuzz", given)
        assert (
            sum(map(len, data.split.values())) == len(given)
            and data.fingerprint() == make_dataset("fuzz", given).fingerprint()
            and repr(data)
        )
