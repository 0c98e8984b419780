"What users of scikit-learn, PyG, NumPy and torch bring along means here what it means there."

import copy
import json
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas
import pytest
import torch
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data import Batch, Data
from torch_geometric.explain import Explainer
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GIN, global_add_pool

from gib_nb.data.datasets import load_dataset
from gib_nb.data.spec import prepare_training, to_device
from gib_nb.data.synthetic import add_redundant_edges, motif_dataset
from gib_nb.data.tu import read_tu
from gib_nb.data.validate import DegreeFeatures, validate_graphs
from gib_nb.experiments.sweep import grid
from gib_nb.explain.attention import TopKAttentionExplainer
from gib_nb.explain.metrics import mask_scores
from gib_nb.explain.pyg import GIBExplainer, GraphPredictor
from gib_nb.methods.two_stage import decoupled_config
from gib_nb.nn.classifiers import ReencodingGIB, call_classifier
from gib_nb.nn.masks import node_mask_from_edges
from gib_nb.report.tables import mean_std, mean_text
from gib_nb.train.checkpoint import weights_hash
from gib_nb.train.classifier_trainer import ClassifierTrainer
from gib_nb.train.collapse import CollapseWarning, audit_masks, find_idle_mask
from gib_nb.train.config import config_to_dict, configure, lengths_of
from gib_nb.train.phases import TrainState
from gib_nb.train.trainer import GIBTrainer
from gib_nb.utils.files import load_safetensors, save_safetensors
from gib_nb.utils.reproducible import LocalRandomness, num_threads
from tests.training import in_bottleneck, outer_step

TINY = dict(
    hidden_channels=8, epochs=4, pretrain_epochs=1, rampup_epochs=1, num_steps=2, batch_size=24, lr=0.01, max_restarts=0
)
pytestmark = pytest.mark.filterwarnings("ignore::gib_nb.train.collapse.CollapseWarning")


def quiet(**settings):
    "A trainer that shows no bar, also where scikit-learn calls its `fit`."
    return Quiet(
        **{name: value for name, value in TINY.items() if name != "num_steps" or "prior_prob" not in settings}
        | settings
    )


class Quiet(GIBTrainer):
    def fit(self, train, y=None, **settings):
        return super().fit(train, y, **{"progress": False} | settings)


@pytest.fixture(scope="module")
def trees():
    return motif_dataset(60, base_nodes=6)


@pytest.fixture(scope="module")
def trained(trees):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return quiet().fit(trees.train, valid=trees.valid)


def bare(graphs):
    "Graphs without labels."
    return [Data(x=graph.x, edge_index=graph.edge_index) for graph in graphs]


def object_array(graphs):
    array = np.empty(len(graphs), dtype=object)
    array[:] = graphs
    return array


# ---- scikit-learn


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [quiet, lambda: ClassifierTrainer("gin", hidden_channels=8, epochs=3)],
    ids=["GIBTrainer", "ClassifierTrainer"],
)
@pytest.mark.parametrize(
    "labels",
    ["in the graphs", "words", *(pytest.param(labels, marks=pytest.mark.slow) for labels in ("numbers", "signs"))],
)
def test_cross_validation(trees, make, labels):
    numbers = trees.labels
    y = {
        "in the graphs": None,
        "numbers": numbers,
        "words": np.array(["house", "ring"])[numbers],
        "signs": 2 * numbers - 1,
    }[labels]
    graphs = trees.graphs if y is None else object_array(bare(trees.graphs))
    assert cross_val_score(make(), graphs, y, cv=2).shape == (2,)
    if y is not None:
        found = cross_validate(make(), graphs, y, cv=StratifiedKFold(2), scoring=["accuracy", "roc_auc"])
        assert ((0 <= found["test_roc_auc"]) & (found["test_roc_auc"] <= 1)).all()
        fitted = make().fit(graphs, y)
        assert fitted.classes_.tolist() == np.unique(y).tolist() and set(fitted.predict(graphs)) <= set(y)
        assert fitted.score(graphs, y) == (fitted.predict(graphs) == y).mean()
        assert cross_val_predict(make(), graphs, y, cv=2, method="predict_proba").shape == (60, 2)


def test_labels_of_all_kinds_give_one_model(trees):
    "Words, signs and far apart numbers are three names of the same classes."
    models = {}
    for name, values in {
        "plain": [0, 1],
        "words": ["a", "b"],
        "signs": [-1, 1],
        "far": [7, 100_000],
        "truth": [False, True],
    }.items():
        fitted = quiet().fit(bare(trees.train), np.array(values)[trees.labels[trees.split["train"]]])
        assert fitted.spec.out_channels == 2 and fitted.classes_.tolist() == values
        models[name] = weights_hash(fitted.model)
    assert len(set(models.values())) == 1


def test_a_far_label_in_a_graph_is_one_output(trees):
    far = [Data(x=graph.x, edge_index=graph.edge_index, y=graph.y * 100_000) for graph in trees.train]
    fitted = quiet().fit(far)
    assert (
        fitted.spec.out_channels == 2
        and fitted.classes_.tolist() == [0, 100_000]
        and set(fitted.predict(far)) <= {0, 100_000}
    )
    assert load_dataset(far).num_classes == 2 and load_dataset(far).summary()["classes"].count(",") == 1


def test_a_class_that_was_not_there_in_training_counts_as_wrong(trees, trained):
    strange = [Data(x=graph.x, edge_index=graph.edge_index, y=torch.tensor([5])) for graph in trees.test]
    assert trained.score(strange) == 0


def test_words_survive_saving(trees, tmp_path):
    y = np.array(["house", "ring"])[trees.labels]
    fitted = quiet().fit(bare(trees.graphs), y)
    fitted.save(tmp_path)
    loaded = GIBTrainer.load(tmp_path)
    assert (
        loaded.classes_.tolist() == ["house", "ring"]
        and (loaded.predict(trees.graphs) == fitted.predict(trees.graphs)).all()
    )


@pytest.mark.slow
def test_search_and_pipeline(trees):
    search = GridSearchCV(quiet(), {"beta": [0.0, 0.1], "hidden_channels": np.array([4, 8])}, cv=KFold(2)).fit(
        trees.graphs, trees.labels
    )
    assert search.best_params_["hidden_channels"] in (4, 8) and len(search.cv_results_["mean_test_score"]) == 4
    pipeline = Pipeline([("same", FunctionTransformer()), ("gib", quiet())]).fit(trees.graphs, trees.labels)
    assert pipeline.score(trees.graphs, trees.labels) == pipeline[-1].score(trees.graphs)
    calibrated = CalibratedClassifierCV(quiet(), cv=2).fit(object_array(trees.graphs), trees.labels)
    assert calibrated.predict_proba(object_array(trees.test)).shape == (len(trees.test), 2)


def test_what_it_is(trees, trained):
    assert is_classifier(trained) and not is_regressor(trained) and is_classifier(quiet())
    check_is_fitted(trained)
    with pytest.raises(NotFittedError):
        check_is_fitted(quiet())
    values = quiet().fit(trees.train, np.random.default_rng(0).normal(size=len(trees.train)))
    assert is_regressor(values) and not hasattr(values, "classes_") and not hasattr(quiet(), "classes_")
    copied = clone(trained)
    assert copied.model is None and copied.get_params() == trained.get_params()


def test_wrong_labels_are_named(trees):
    for y, words in (
        (trees.labels[:5], "expected y with one label for each of 60 graphs"),
        ([None, *trees.labels[1:]], "graph 0"),
        ([1, "a"] * 30, "one type"),
        (np.full(60, np.nan), "graph 0"),
        (np.zeros(60, int), "two classes"),
        (np.full(60, 0.5), "varies"),
    ):
        with pytest.raises(ValueError, match=words):
            quiet().fit(bare(trees.graphs), y)
    with pytest.raises(TypeError, match="valid=graphs"):
        quiet().fit(trees.train, y=trees.valid)
    with pytest.raises(ValueError, match="bate"):
        quiet().set_params(bate=1)


def test_validation_graphs_may_have_their_labels_apart(trees):
    y = np.array(["house", "ring"])[trees.labels]
    parts = {name: (bare(trees[rows]), y[rows]) for name, rows in trees.split.items()}
    apart = quiet().fit(*parts["train"], valid=parts["valid"])
    assert weights_hash(apart.model) == weights_hash(quiet().fit(trees.train, valid=trees.valid).model)


def test_set_params_fits_the_phases_to_the_epochs():
    lengths = lambda trainer: tuple(
        lengths_of(trainer.config)[name] for name in ("epochs", "pretrain_epochs", "rampup_epochs")
    )
    assert (
        lengths(GIBTrainer(epochs=8)) == (8, 1, 1)
        and lengths(GIBTrainer(epochs=8, pretrain_epochs=3)) == (8, 3, 1)
        and lengths(GIBTrainer(epochs=200)) == (200, 15, 15)
    )
    assert lengths(clone(GIBTrainer()).set_params(epochs=20)) == (20, 3, 3)


# ---- settings that can be saved


@pytest.mark.parametrize(
    "settings",
    [
        {"device": torch.device("cpu")},
        {"hidden_channels": np.int64(8)},
        {"beta": np.float32(0.1)},
        {"alpha": np.float64(0.1)},
        {"seed": np.array(3)},
        {"classifier": np.str_("reencode")},
        {"prior_prob": np.float32(0.25)},
        {"norm": None},
        {"encoder": np.str_("gcn")},
        {"sample_mask": np.bool_(True)},
        {"beta": torch.tensor(0.5)},
    ],
)
def test_what_is_accepted_is_saved(trees, tmp_path, settings):
    fitted = quiet(**settings).fit(trees.train, valid=trees.valid, checkpoint=tmp_path / "run")
    fitted.save(tmp_path / "model")
    loaded = GIBTrainer.load(tmp_path / "model", device=torch.device("cpu"))
    assert loaded.config == fitted.config and json.loads(json.dumps(config_to_dict(fitted.config))) == config_to_dict(
        fitted.config
    )
    assert (loaded.predict(trees.test) == fitted.predict(trees.test)).all()


def test_what_cannot_be_saved_is_refused():
    for settings in ({"beta": True}, {"seed": 2**70}, {"hidden_channels": 8.0}, {"beta": "0.1"}, {"device": 3.5}):
        with pytest.raises(ValueError, match=f"expected {next(iter(settings))}|expected device"):
            configure(**settings)


# ---- batches, loaders and data sets are graphs


@pytest.mark.slow
def test_loaders_mean_their_graphs(trees, trained):
    graphs, loader = trees.graphs, DataLoader(trees.graphs, batch_size=8)
    for given in (loader, Batch.from_data_list(graphs), object_array(graphs), iter(graphs), pandas.Series(graphs)):
        assert (trained.predict(given) == trained.predict(graphs)).all()
    assert trained.score(loader) == trained.score(graphs) and len(trained.predict_proba(loader)) == len(graphs)
    assert trained.mutual_information(loader, steps=20) == trained.mutual_information(graphs, steps=20)
    assert weights_hash(quiet().fit(loader).model) == weights_hash(quiet().fit(graphs).model)
    assert weights_hash(ClassifierTrainer("gin", hidden_channels=8, epochs=2).fit(loader).model) == weights_hash(
        ClassifierTrainer("gin", hidden_channels=8, epochs=2).fit(graphs).model
    )
    assert len(load_dataset(loader)) == len(graphs)
    attention = ClassifierTrainer("att_pool", hidden_channels=8, epochs=1).fit(trees.train, valid=trees.valid)
    assert len(list(TopKAttentionExplainer(attention).iter_explain(loader))) == len(graphs) and len(
        attention.predict(loader)
    ) == len(graphs)


def test_a_model_is_explained_on_graphs_and_not_on_unions(trees):
    theirs = ClassifierTrainer("gin", hidden_channels=16, epochs=20, lr=0.01).fit(trees.train, valid=trees.valid).model
    of = lambda given: weights_hash(quiet(model=theirs).fit(given).model)
    assert of(DataLoader(trees.train, 8)) == of(trees.train)


def test_a_stream_of_batches_is_checked(trained):
    broken = Data(x=torch.full((2, 10), float("nan")), edge_index=torch.tensor([[0], [1]]))
    with pytest.raises(ValueError, match="graph 0: expected finite x"):
        list(trained.iter_explain([Batch.from_data_list([broken])]))
    with pytest.raises(ValueError, match="int64"):
        list(
            trained.iter_explain(
                DataLoader([Data(x=torch.ones(2, 10), edge_index=torch.tensor([[0], [1]], dtype=torch.int32))])
            )
        )
    with pytest.raises(ValueError, match="Batch.from_data_list"):
        trained.predict(
            Batch(x=torch.ones(2, 10), edge_index=torch.tensor([[0], [1]]), batch=torch.zeros(2, dtype=torch.long))
        )
    with pytest.raises(TypeError, match="expected graphs"):
        trained.predict("graphs")
    with pytest.raises(TypeError, match="a batch of 1 graphs"):
        validate_graphs([Batch.from_data_list([broken])])


# ---- nothing that looks changes what it looks at


def state(model):
    return [part.training for part in model.modules()], weights_hash(model)


def test_an_explainer_leaves_the_model_alone(trees, trained):
    predictor, graph, before = GraphPredictor(trained), trees.test[0], state(trained.model)
    explain = Explainer(
        predictor,
        GIBExplainer(trained),
        explanation_type="model",
        node_mask_type="object",
        edge_mask_type="object",
        model_config=dict(mode="multiclass_classification", task_level="graph", return_type="raw"),
    )
    answers = [predictor(graph.x, graph.edge_index)]
    for _ in range(3):
        explain(graph.x, graph.edge_index)
        answers.append(predictor(graph.x, graph.edge_index))
    assert all(torch.equal(answer, answers[0]) for answer in answers) and state(trained.model) == before


def test_the_mode_does_not_matter_and_stays(trees):
    fitted = quiet(dropout=0.5).fit(trees.train, valid=trees.valid)
    look = lambda: (
        fitted.predict_proba(trees.test).tolist(),
        [e.node_mask.tolist() for e in fitted.iter_explain(trees.test)],
        GraphPredictor(fitted)(trees.test[0].x, trees.test[0].edge_index).tolist(),
        audit_masks(fitted.model, fitted.spec.prepare(trees.test), fitted.config),
    )
    found = {}
    for training in (False, True):
        fitted.model.train(training)
        before = state(fitted.model)
        found[training] = look()
        assert state(fitted.model) == before
    assert found[False] == found[True]


def test_scores_of_masks_do_not_depend_on_the_mode(trees):
    model = ClassifierTrainer("gin", hidden_channels=16, epochs=10).fit(trees.train, valid=trees.valid).model
    masks = [
        torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(i)) for i, graph in enumerate(trees.test)
    ]
    scores = []
    for training in (False, True):
        before = state(model.train(training))
        scores.append(mask_scores(model, trees.test, masks))
        assert state(model) == before
    assert scores[0] == scores[1]


def test_networks_too(trees):
    network = ClassifierTrainer("att_pool", hidden_channels=8, epochs=2).fit(trees.train, valid=trees.valid)
    expected = network.predict_proba(trees.test)
    before = state(network.model.train())
    assert (network.predict_proba(trees.test) == expected).all() and len(
        list(TopKAttentionExplainer(network).iter_explain(trees.test))
    ) == len(trees.test)
    assert state(network.model) == before


# ---- an explanation that does nothing


def rings(count, seed=0):
    "Rings of 12 nodes; the label stands in a feature of three neighbors, which are the truth."
    rng, graphs = np.random.default_rng(seed), []
    ring = torch.tensor([[i, (i + 1) % 12] for i in range(12)] + [[(i + 1) % 12, i] for i in range(12)]).T
    for i in range(count):
        x, start = torch.from_numpy(rng.normal(size=(12, 3))).float(), rng.integers(12)
        nodes = [(start + k) % 12 for k in range(3)]
        x[nodes, 0] = 3.0 if i % 2 else -3.0
        truth = torch.tensor([u in nodes and v in nodes for u, v in ring.T.tolist()]).float()
        graphs.append(Data(x=x, edge_index=ring, y=torch.tensor([i % 2]), edge_mask=truth))
    return graphs


def test_an_idle_mask_is_reported():
    scores = {"subgraph": 1.0, "empty": 1.0, "full": 1.0, "random": 1.0, "constant": 0.5}
    assert "with an empty mask" in find_idle_mask(scores)
    assert find_idle_mask(scores | {"empty": 0.6}) is None  # the mask is needed
    assert (
        find_idle_mask(scores | {"subgraph": 0.55, "empty": 0.55}) is None
    )  # nothing was learned, and that shows in the score


@pytest.mark.slow
def test_features_that_tell_the_label_are_found_out():
    graphs = rings(160)
    short = dict(max_restarts=0, batch_size=16, num_classifiers=1, hidden_channels=16)
    with pytest.warns(CollapseWarning, match="1.00 with it and (1.00|0.9.) with an empty mask"):
        loud = GIBTrainer(decoupled_config(12, **short)).fit(graphs[:120], valid=graphs[120:], progress=False)
    assert loud.audit["empty"] > 0.9 and "does not depend on the subgraph" in loud.collapse
    silent = GIBTrainer(decoupled_config(12, **short, mask_features=True)).fit(
        graphs[:120], valid=graphs[120:], progress=False
    )
    assert (
        silent.audit["empty"] < 0.7
        and silent.audit["subgraph"] > 0.9
        and "does not depend on the subgraph" not in (silent.collapse or "")
    )


def test_an_empty_mask_leaves_nothing_where_features_are_masked(trees):
    for mask_on in ("nodes", "edges"):
        model = ReencodingGIB(10, 2, hidden_channels=8, mask_on=mask_on, mask_features=True).eval()
        x, edge_index = trees.test[0].x, trees.test[0].edge_index
        batch = Batch.from_data_list([Data(x=x, edge_index=edge_index), Data(x=x.flip(0), edge_index=edge_index)])
        answer = model.predict_graph(
            batch.x, batch.edge_index, batch.batch, 2, torch.zeros(batch.num_edges), torch.zeros(batch.num_nodes)
        )
        torch.testing.assert_close(answer[0], answer[1])


def test_random_masks_keep_the_size(trees):
    from gib_nb.train.collapse import shuffled_masks

    batch, generator = Batch.from_data_list(trees.test), torch.Generator().manual_seed(0)
    model = ReencodingGIB(10, 2, hidden_channels=8, mask_on="edges").eval()
    for edges in (False, True):
        p, mask = (values.detach() for values in model.mask(batch.x, batch.edge_index)[1:])
        q, other = shuffled_masks(p, mask, batch, edges, generator)
        sizes = (batch.batch[batch.edge_index[0]], mask, other) if edges else (batch.batch, p, q)
        for graph in range(batch.num_graphs):
            before, after = (values[sizes[0] == graph].sort().values for values in sizes[1:])
            torch.testing.assert_close(before, after)
        back = {(int(u), int(v)): float(value) for (u, v), value in zip(batch.edge_index.T, other)}
        assert all(abs(back[u, v] - back[v, u]) < 1e-6 for u, v in back)


# ---- threads, and random numbers of one's own


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [{"dropout": 0.3}, pytest.param({"classifier": "reencode", "sample_mask": True}, marks=pytest.mark.slow)],
    ids=["dropout", "samples"],
)
def test_four_threads_train_as_one(trees, settings):
    make = lambda seed: weights_hash(quiet(seed=seed, **settings).fit(trees.train, valid=trees.valid).model)
    alone = [make(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(make, range(4))) == alone
    assert len(set(alone)) == 4


def test_training_leaves_the_global_random_state_alone(trees, tmp_path):
    torch.manual_seed(0)
    np.random.seed(0)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    fitted = quiet(dropout=0.3).fit(trees.train, valid=trees.valid, checkpoint=tmp_path / "run")
    ClassifierTrainer("sort_pool", hidden_channels=8, epochs=2).fit(trees.train, valid=trees.valid)
    fitted.explain(trees.test)
    fitted.save(tmp_path / "model")
    GIBTrainer.load(tmp_path / "model")
    GIBTrainer(encoder=lambda channels: GIN(channels, 8, 2), **TINY).fit(trees.train, valid=trees.valid, progress=False)
    assert torch.equal(torch.get_rng_state(), before[0]) and np.random.get_state()[1].tolist() == before[1]


def test_nor_does_the_global_state_matter(trees):
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        found.append(weights_hash(quiet(dropout=0.3, encoder="gat").fit(trees.train, valid=trees.valid).model))
    assert found[0] == found[1]


@pytest.mark.slow
def test_the_number_of_threads_is_put_back(trees):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        seen = []
        quiet().fit(trees.train, valid=trees.valid, callbacks=lambda record: seen.append(torch.get_num_threads()))
        assert set(seen) == {1} and torch.get_num_threads() == 2
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda seed: quiet(seed=seed).fit(trees.train, valid=trees.valid), range(4)))
        assert torch.get_num_threads() == 2
        with pytest.raises(ZeroDivisionError), num_threads(1):
            1 / 0
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_randomness_covers_what_torch_draws():
    def draw():
        drop = nn.functional.dropout(torch.ones(5), 0.5)
        return [
            torch.rand(3),
            torch.randn(2, 2),
            torch.randint(9, (4,)),
            torch.randint(2, 9, (4,)),
            torch.randperm(5),
            torch.rand_like(drop),
            torch.bernoulli(torch.full((4,), 0.5)),
            torch.multinomial(torch.ones(4), 2),
            torch.empty(3).normal_(),
            torch.empty(3).exponential_(),
            drop,
            nn.Linear(2, 2).weight.detach(),
        ]

    torch.manual_seed(11)
    expected = draw()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    with LocalRandomness(11):
        found = draw()
    assert all(torch.equal(a, b) for a, b in zip(expected, found)) and torch.equal(before, torch.get_rng_state())


# ---- edges in one direction


def test_edges_in_one_direction_count_for_both_ends():
    assert node_mask_from_edges(torch.tensor([0.9]), torch.tensor([[0], [1]]), 3).tolist() == pytest.approx(
        [0.9, 0.9, 0]
    )
    one_way = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3)
    both = Data(edge_index=torch.cat([one_way.edge_index, one_way.edge_index.flip(0)], 1), num_nodes=3)
    assert DegreeFeatures(4)(one_way).x.argmax(1).tolist() == DegreeFeatures(4)(both).x.argmax(1).tolist() == [2, 2, 2]
    star = Data(edge_index=torch.tensor([[0, 0, 0], [1, 2, 3]]), num_nodes=6)
    noisy = add_redundant_edges(star, 1.0, seed=0)
    assert noisy.is_undirected() and noisy.edge_mask.sum() == 6 and noisy.num_edges == 12


def test_a_node_with_entering_edges_alone_has_a_probability():
    model = ReencodingGIB(3, 2, hidden_channels=8, mask_on="edges").eval()
    _, p, mask = model.mask(torch.eye(3), torch.tensor([[0, 0], [1, 2]]))
    assert p.tolist() == pytest.approx([float(mask.max()), float(mask[0]), float(mask[1])])


# ---- models of others


class PyGOrder(nn.Module):
    def __init__(self, channels=10, classes=2):
        super().__init__()
        self.gnn = GIN(channels, 8, 2, out_channels=classes)

    def forward(self, x, edge_index, edge_weight=None, batch=None):
        assert edge_weight is None
        return global_add_pool(self.gnn(x, edge_index), batch)


class ByName(PyGOrder):
    def forward(self, x, edge_index, *, batch):
        return super().forward(x, edge_index, batch=batch), self.gnn(x, edge_index)


class Positional(PyGOrder):
    def forward(self, nodes, edges, graph_of):
        return super().forward(nodes, edges, batch=graph_of)


def of_two_minds(kind, graphs):
    "A model with weights for which it predicts both classes."
    batch = Batch.from_data_list(graphs)
    for seed in range(100):
        with LocalRandomness(seed):
            model = kind().eval()
        if len(call_classifier(model, batch.x, batch.edge_index, batch.batch).argmax(1).unique()) == 2:
            return model
    raise AssertionError("no seed gives both classes")


@pytest.mark.parametrize("kind", [PyGOrder, ByName, Positional])
def test_models_in_their_own_order_are_explained(trees, kind):
    theirs = of_two_minds(kind, trees.train)
    fitted = quiet(model=theirs).fit(trees.train)
    batch = Batch.from_data_list(trees.test)
    whole = torch.cat([e.whole_prediction for e in fitted.iter_explain(trees.test)])
    torch.testing.assert_close(whole, call_classifier(theirs, batch.x, batch.edge_index, batch.batch))
    assert set(mask_scores(theirs, trees.test, [graph.edge_mask for graph in trees.test])) >= {"auc", "fidelity_plus"}


def test_models_that_cannot_be_asked_are_named():
    class OfEdges(nn.Module):
        def forward(self, x, edge_index):
            return x

    class Dictionary(PyGOrder):
        def forward(self, x, edge_index, batch):
            return {"logits": x}

    graph = torch.ones(2, 10), torch.tensor([[0], [1]]), torch.zeros(2, dtype=torch.long)
    with pytest.raises(ValueError, match=r"model\(x, edge_index, batch\), or as model\(data\)"):
        call_classifier(OfEdges(), *graph)
    with pytest.raises(ValueError, match="returns a tensor"):
        call_classifier(Dictionary(), *graph)


def test_another_explained_model_is_refused(trees, tmp_path):
    theirs, others = of_two_minds(PyGOrder, trees.train), PyGOrder()
    fitted = quiet(model=theirs).fit(trees.train)
    fitted.save(tmp_path)
    expected = fitted.predict(trees.test)
    assert (GIBTrainer.load(tmp_path, model=copy.deepcopy(theirs)).predict(trees.test) == expected).all()
    with pytest.raises(ValueError, match="expected the model that was explained in training"):
        GIBTrainer.load(tmp_path, model=others)
    tensors, record = load_safetensors(
        tmp_path / "model.safetensors"
    )  # as it was written before there were fingerprints
    del record["model"], record["audit"]
    (tmp_path / "model.safetensors").write_bytes(save_safetensors(tensors, record))
    assert (GIBTrainer.load(tmp_path, model=theirs).predict(trees.test) == expected).all()


def test_a_checkpoint_belongs_to_one_explained_model(trees, tmp_path):
    theirs = of_two_minds(PyGOrder, trees.train)
    louder = copy.deepcopy(theirs)
    with torch.no_grad():
        for weight in list(louder.gnn.parameters())[-2:]:
            weight.mul_(2)  # the same answers, from other weights
    stop = lambda record: record["epoch"] == 2
    quiet(model=theirs).fit(trees.train, checkpoint=tmp_path / "run", callbacks=stop)
    with pytest.raises(ValueError, match="written for others"):
        quiet(model=louder).fit(trees.train, checkpoint=tmp_path / "run")


# ---- numbers of other types


@pytest.mark.slow
@pytest.mark.parametrize("backbone", ["gcn", "graphsage", "gin", "gat"])
def test_double_precision_as_default(trees, backbone):
    expected = quiet(encoder=backbone).fit(trees.train, valid=trees.valid)
    torch.set_default_dtype(torch.float64)
    try:
        fitted = quiet(encoder=backbone).fit(trees.train, valid=trees.valid)
        assert next(fitted.model.parameters()).dtype == torch.float32 and len(fitted.predict(trees.test)) == len(
            trees.test
        )
        quiet(encoder=backbone, classifier="reencode", sample_mask=True).fit(trees.train, valid=trees.valid)
        GIBTrainer(decoupled_config(6, hidden_channels=8, max_restarts=0, encoder=backbone)).fit(
            trees.train, valid=trees.valid, progress=False
        )
        ClassifierTrainer(backbone, hidden_channels=8, epochs=2).fit(trees.train, valid=trees.valid).predict(trees.test)
        assert set(fitted.predict(trees.test)) <= set(expected.classes_)
    finally:
        torch.set_default_dtype(torch.float32)


def test_sparse_features_are_named():
    with pytest.raises(ValueError, match="dense x .*to_dense"):
        validate_graphs([Data(x=torch.eye(3).to_sparse(), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([0]))])


class SinglePrecision(TorchDispatchMode):
    "A device like Apple's, which has no numbers of double precision."

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        found = operation(*args, **kwargs or {})
        for value in found if isinstance(found, (tuple, list)) else (found,):
            assert not (isinstance(value, torch.Tensor) and value.dtype == torch.float64), operation
        return found


def test_a_step_needs_no_double_precision(trees, monkeypatch):
    import gib_nb.nn.connectivity

    original = gib_nb.nn.connectivity.connectivity_matrix
    graphs = [
        Data(x=graph.x, edge_index=graph.edge_index, y=torch.tensor([float(i % 5)]))
        for i, graph in enumerate(trees.graphs)
    ]
    _, train, valid = prepare_training(graphs[:48], valid=graphs[48:])
    state = in_bottleneck(TrainState(configure(**TINY), train, valid))
    rows = torch.arange(24)
    moved = []
    monkeypatch.setattr(Batch, "to", lambda self, device: moved.append(str(device)) or self, raising=False)
    batch = to_device(Batch.from_data_list(state.train[:24].graphs), "mps")
    assert moved == ["mps"] and batch.y.dtype == torch.float32
    monkeypatch.setattr(gib_nb.nn.connectivity, "_precision", lambda device: torch.float32)
    with SinglePrecision():
        losses = outer_step(state, rows, batch)
    assert (
        all(torch.isfinite(value) for value in losses.values())
        and original is gib_nb.nn.connectivity.connectivity_matrix
    )


def test_a_grid_of_arrays():
    assert [trial["beta"] for trial in grid(beta=np.linspace(0, 1, 3))] == [0.0, 0.5, 1.0]
    assert [type(trial["T"]) for trial in grid(T=np.array([1, 2]), beta=pandas.Series([0.1]))] == [int, int]
    assert grid(seed=iter([1, 2]), beta=np.float64(0.5)) == [{"seed": 1, "beta": 0.5}, {"seed": 2, "beta": 0.5}]
    assert grid(name="motif", seed=(np.int64(3),)) == [{"name": "motif", "seed": 3}] and json.dumps(
        grid(seed=torch.arange(2))
    )
    with pytest.raises(ValueError, match="at least one value of beta"):
        grid(beta=np.array([]))


# ---- what is not used is said


def test_edge_features_are_named_once(trees):
    graphs = [
        Data(
            x=graph.x,
            edge_index=graph.edge_index,
            y=graph.y,
            edge_attr=torch.ones(graph.num_edges, 4),
            edge_weight=torch.ones(graph.num_edges),
        )
        for graph in trees.graphs
    ]
    for make in (quiet, lambda: ClassifierTrainer("gin", hidden_channels=8, epochs=2)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            make().fit(graphs)
        said = [str(warning.message) for warning in caught if "not used" in str(warning.message)]
        assert said == [
            "not used: edge_attr (4 columns), edge_weight; the networks read x and edge_index; gine, gatv2, and gat read edge_attr"
        ]


def test_float_classes_are_said_and_constants_refused(trees):
    floats = [Data(x=graph.x, edge_index=graph.edge_index, y=graph.y.float()) for graph in trees.graphs]
    with pytest.warns(UserWarning, match="whole numbers of a floating type.*regression"):
        fitted = quiet().fit(floats)
    assert fitted.spec.task == "regression"
    with pytest.warns(UserWarning, match="regression"):
        load_dataset(floats)
    for graph in floats:
        graph.y = torch.tensor([2.5])
    with pytest.raises(ValueError, match="varies, for regression .got 2.5 in all 60"):
        quiet().fit(floats)


def test_what_a_published_set_has_besides_is_named(tmp_path):
    files = {
        "A": "1, 2\n2, 1\n3, 4\n4, 3\n",
        "graph_indicator": "1\n1\n2\n2\n",
        "graph_labels": "1, 7\n2, 8\n",
        "node_attributes": "0.1\n0.2\n0.3\n0.4\n",
        "edge_labels": "1\n1\n2\n2\n",
    }
    for name, text in files.items():
        (tmp_path / f"S_{name}.txt").write_text(text)
    with pytest.warns(UserWarning, match="not used of S: 1 further columns of labels, node attributes, edge labels"):
        assert [int(graph.y) for graph in read_tu(tmp_path, "S")] == [0, 1]


# ---- no spread of one number


def test_one_number_has_no_spread():
    assert mean_std([0.99])[0] == 0.99 and np.isnan(mean_std([0.99])[1]) and np.isnan(mean_std([])).all()
    assert mean_std([1.0, 3.0]) == (2.0, pytest.approx(2**0.5))
    assert (mean_text([0.99]), mean_text([1.0, 3.0], ".1f"), mean_text([])) == ("0.990", "2.0 ± 1.4", "")


# ---- each kind of warning once


def test_warnings_are_counted(trees):
    graphs = trees.graphs[:25]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        quiet(batch_size=23, beta=0.1, epochs=6).fit(graphs[:24], valid=graphs[:10])
    said = [str(warning.message) for warning in caught if "single graph" in str(warning.message)]
    assert said == ["a batch holds a single graph and so has no negative pairs: its L_MI is skipped (5 times)"]


@pytest.mark.slow
def test_a_sweep_in_threads_gives_the_rows_of_one_after_the_other(trees):
    from joblib import parallel_config

    from gib_nb.experiments.sweep import sweep

    trials = grid(dropout=0.3, seed=range(4), **TINY)
    alone = sweep(trials, trees, None, progress=False)
    with parallel_config("threading", n_jobs=4):
        together = sweep(trials, trees, None, progress=False)
    assert "error" not in together and together.drop(columns="history").equals(alone.drop(columns="history"))
    assert all(str(a) == str(b) for a, b in zip(alone.history, together.history))


@pytest.mark.slow
def test_a_sweep_names_unused_fields_once(trees):
    from gib_nb.experiments.sweep import sweep

    graphs = [
        Data(x=graph.x, edge_index=graph.edge_index, y=graph.y, edge_attr=torch.ones(graph.num_edges, 4))
        for graph in trees.graphs
    ]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sweep(grid(seed=[0, 1], **TINY), graphs, None, progress=False)
    assert [str(warning.message) for warning in caught if "not used" in str(warning.message)] == [
        "not used: edge_attr (4 columns); the networks read x and edge_index; gine, gatv2, and gat read edge_attr"
    ]
