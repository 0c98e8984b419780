"`GIBClassifier` and `GIBRegressor` in scikit-learn's tools: all that is promised for an estimator, with graphs as X."

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RandomizedSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    permutation_test_score,
    validation_curve,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from gib_nb.train.checkpoint import weights_hash
from gib_nb.train.config import GIBConfig, configure, options
from gib_nb.train.estimators import GIBClassifier, GIBRegressor
from gib_nb.train.parts import Bottleneck, Encoder, Optim, Pretrain, Prior
from gib_nb.train.trainer import GIBTrainer
from tests.training import QUICK, caught, make_graphs

pytestmark = pytest.mark.filterwarnings("ignore::gib_nb.train.collapse.CollapseWarning")
TINY = QUICK | dict(epochs=3, num_steps=1)
WORDS = np.array(["chord", "ring"])


def classifier(**settings):
    return GIBClassifier(**TINY | settings)


def regressor(**settings):
    return GIBRegressor(**TINY | settings)


def bare(graphs):
    return [Data(x=graph.x, edge_index=graph.edge_index) for graph in graphs]


def as_array(graphs):
    array = np.empty(len(graphs), dtype=object)
    array[:] = graphs
    return array


GRAPHS = make_graphs(36)
Y = np.array([graph.y.item() for graph in GRAPHS])
VALUES = np.random.default_rng(0).normal(size=36)
NUMBERED = [
    Data(x=graph.x, edge_index=graph.edge_index, y=torch.tensor([value])) for graph, value in zip(GRAPHS, VALUES)
]
CASES = {  # estimator, X, y, and y as it is known to the test
    "classes in the graphs": (classifier, GRAPHS, None, Y),
    "numbers": (classifier, bare(GRAPHS), Y, Y),
    "words": (classifier, as_array(bare(GRAPHS)), WORDS[Y], WORDS[Y]),
    "signs": (classifier, bare(GRAPHS), 2 * Y - 1, 2 * Y - 1),
    "whole floats": (classifier, bare(GRAPHS), Y.astype(float), Y),
    "truths": (classifier, bare(GRAPHS), Y == 1, Y == 1),
    "a list": (classifier, bare(GRAPHS), Y.tolist(), Y),
    "values in the graphs": (regressor, NUMBERED, None, VALUES),
    "values": (regressor, bare(GRAPHS), VALUES, VALUES),
    "whole values": (regressor, as_array(bare(GRAPHS)), Y * 3, Y * 3.0),
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    "Estimator, X, y, the true y, and the estimator fitted."
    make, X, y, true = CASES[request.param]
    return make(), X, y, true, caught(make().fit, X, y)[0]


# --- fitted with y, and without


def test_fit_predict_score(case):
    estimator, X, y, true, fitted = case
    predicted = fitted.predict(X)
    assert predicted.shape == (36,) and predicted.dtype.kind == true.dtype.kind
    if is_classifier(fitted):
        assert fitted.classes_.tolist() == np.unique(true).tolist() and set(predicted.tolist()) <= set(true.tolist())
        p = fitted.predict_proba(X)
        assert p.shape == (36, 2) and np.allclose(p.sum(1), 1) and (fitted.classes_[p.argmax(1)] == predicted).all()
        assert fitted.score(X, y) == accuracy_score(true, predicted)
    else:
        assert (
            not hasattr(fitted, "classes_")
            and not hasattr(fitted, "predict_proba")
            and fitted.score(X, y) == pytest.approx(r2_score(true, predicted))
        )
    weights = np.linspace(0, 1, 36)
    assert fitted.score(X, y, sample_weight=weights) == pytest.approx(
        (accuracy_score if is_classifier(fitted) else r2_score)(true, predicted, sample_weight=weights)
    )


def test_cross_validation(case):
    estimator, X, y, true, _ = case
    scores = caught(cross_val_score, estimator, X, y, cv=2)[0]
    assert scores.shape == (2,) and np.isfinite(scores).all()
    if y is not None:
        assert caught(cross_val_predict, estimator, X, y, cv=2)[0].shape == (36,)


def test_it_is_the_trainer_of_the_same_settings(case):
    _, X, y, true, fitted = case
    given = true if y is not None and np.asarray(y).dtype.kind != "f" or not is_classifier(fitted) else Y
    trainer = caught(GIBTrainer(**TINY).fit, X, given, progress=False)[0]
    assert (
        weights_hash(trainer.model) == weights_hash(fitted.trainer_.model)
        and (trainer.predict(X) == fitted.predict(X)).all()
    )


# --- tools


@pytest.mark.slow
def test_processes_give_the_same_scores():
    alone, together = (cross_val_score(classifier(), GRAPHS, Y, cv=3, n_jobs=jobs) for jobs in (None, 2))
    assert alone.tolist() == together.tolist()


def test_several_scores():
    found = cross_validate(
        classifier(),
        as_array(GRAPHS),
        WORDS[Y],
        cv=StratifiedKFold(2),
        scoring=["accuracy", "roc_auc", "neg_log_loss"],
        return_estimator=True,
        return_train_score=True,
        error_score="raise",
    )
    assert (
        ((0 <= found["test_roc_auc"]) & (found["test_roc_auc"] <= 1)).all()
        and np.isfinite(found["test_neg_log_loss"]).all()
        and all(isinstance(each, GIBClassifier) for each in found["estimator"])
    )
    assert np.isfinite(
        cross_val_score(regressor(), bare(GRAPHS), VALUES, cv=2, scoring="neg_mean_absolute_error", error_score="raise")
    ).all()


@pytest.mark.slow
def test_search():
    search = GridSearchCV(
        classifier(), {"beta": [0.0, 0.1], "hidden_channels": np.array([4, 8])}, cv=2, error_score="raise"
    ).fit(GRAPHS, Y)
    assert (
        search.best_params_["hidden_channels"] in (4, 8)
        and len(search.cv_results_["mean_test_score"]) == 4
        and search.best_estimator_.trainer_.config.beta == search.best_params_["beta"]
    )
    assert search.predict(GRAPHS).shape == (36,) and search.score(GRAPHS, Y) == search.best_estimator_.score(GRAPHS)
    kinds = {"classifier": ["pooled", "reencode"], "information": ["critic"]}
    assert (
        len(GridSearchCV(classifier(), kinds, cv=KFold(2), error_score="raise").fit(GRAPHS).cv_results_["params"]) == 2
    )  # without y
    RandomizedSearchCV(regressor(), {"lr": [0.01, 0.001]}, n_iter=1, cv=2, random_state=0, error_score="raise").fit(
        bare(GRAPHS), VALUES
    )


def test_pipelines():
    pipeline = Pipeline([("same", FunctionTransformer()), ("gib", classifier())]).fit(GRAPHS, Y)
    assert (
        pipeline.score(GRAPHS, Y) == pipeline[-1].score(GRAPHS)
        and pipeline.set_params(gib__beta=0.5)["gib"].beta == 0.5
    )
    searched = GridSearchCV(
        make_pipeline(FunctionTransformer(), classifier()),
        {"gibclassifier__beta": [0.0, 0.1]},
        cv=2,
        error_score="raise",
    ).fit(GRAPHS, Y)
    assert searched.predict(GRAPHS).shape == (36,)


@pytest.mark.slow
def test_calibration_curves_and_permutations():
    calibrated = CalibratedClassifierCV(classifier(), cv=2).fit(as_array(GRAPHS), Y)
    assert calibrated.predict_proba(as_array(GRAPHS)).shape == (36, 2)
    sizes, train, test = learning_curve(classifier(), GRAPHS, Y, train_sizes=[0.6, 1.0], cv=2, error_score="raise")
    assert len(sizes) == 2 and np.isfinite(train).all() and np.isfinite(test).all()
    score, permuted, p = permutation_test_score(classifier(), GRAPHS, Y, cv=2, n_permutations=2)
    assert len(permuted) == 2 and 0 < p <= 1
    train, test = validation_curve(classifier(), GRAPHS, Y, param_name="beta", param_range=[0.0, 0.1], cv=2)
    assert train.shape == test.shape == (2, 2)


@pytest.mark.slow
def test_ensembles_of_scikit_learn():
    vote = VotingClassifier([("gib", classifier()), ("gcn", classifier(encoder="gcn"))], voting="soft").fit(GRAPHS, Y)
    assert vote.predict(GRAPHS).shape == (36,)


# --- settings


def test_settings_are_those_of_the_trainer():
    expected = {"config", *options(), "loss", "optimizer", "scheduler"}
    assert set(GIBClassifier().get_params()) == expected == set(GIBRegressor().get_params())
    assert set(GIBClassifier().get_params().values()) == {None} and GIBClassifier(beta=0.3).get_params()["beta"] == 0.3
    with pytest.raises(TypeError, match="expected settings among .*got gamma"):
        GIBClassifier(gamma=1)


def test_settings_are_kept_as_given_and_checked_by_fit():
    "As scikit-learn has it: the constructor stores, `fit` validates."
    beta = np.float32(0.25)
    estimator = classifier(
        beta=beta,
        hidden_channels=np.int64(4),
        sample_mask=np.bool_(True),
        encoder=np.str_("gcn"),
        device=torch.device("cpu"),
    )
    assert estimator.beta is beta and clone(estimator).get_params() == estimator.get_params()
    config = estimator.fit(GRAPHS).trainer_.config
    assert (config.beta, config.encoder.hidden_channels, config.mask.sample, config.encoder.name) == (
        0.25,
        4,
        True,
        "gcn",
    )
    with pytest.raises(ValueError, match="expected beta"):
        GIBClassifier(beta=-1).fit(GRAPHS)
    with pytest.raises(ValueError, match="only with information='critic'"):
        classifier(prior_prob=0.3).fit(GRAPHS)


def test_set_params_names_a_wrong_one():
    estimator = classifier()
    with pytest.raises(ValueError, match="[Ii]nvalid parameter 'bate'"):
        estimator.set_params(bate=1)
    assert (
        estimator.set_params(beta=0.7) is estimator
        and estimator.beta == 0.7
        and estimator.set_params(beta=None).fit(GRAPHS).trainer_.config.beta == 0.1
    )


def test_a_config_is_a_beginning():
    "Settings change it; None leaves it as it is; no normalization has a name."
    config = GIBConfig(
        encoder=Encoder("gcn", 4, norm=None),
        information=Prior(0.3),
        phases=(Pretrain(1), Bottleneck(1)),
        optim=Optim(batch_size=8),
        max_restarts=0,
    )
    estimator = GIBClassifier(config=config, beta=0.5)
    fitted = clone(estimator).fit(GRAPHS)
    assert fitted.trainer_.config == configure(config, beta=0.5) and clone(estimator).config == config
    assert (
        classifier(norm="none").fit(GRAPHS).trainer_.config.encoder.norm is None
        and classifier().fit(GRAPHS).trainer_.config.encoder.norm == "batch_norm"
    )


def test_cloned_and_pickled(case):
    estimator, X, y, true, fitted = case
    copied = clone(fitted)
    assert not hasattr(copied, "trainer_") and copied.get_params() == fitted.get_params()
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.predict(X) == fitted.predict(X)).all() and again.get_params() == fitted.get_params()
    assert pickle.loads(pickle.dumps(estimator)).get_params() == estimator.get_params()


def test_fitting_again_begins_anew():
    estimator = classifier()
    first = weights_hash(estimator.fit(GRAPHS, Y).trainer_.model)
    estimator.fit(GRAPHS, WORDS[1 - Y])
    assert (
        estimator.classes_.tolist() == WORDS.tolist() and weights_hash(estimator.fit(GRAPHS, Y).trainer_.model) == first
    )


# --- what it is


def test_tags():
    for make, kind in ((classifier, "classifier"), (regressor, "regressor")):
        tags = get_tags(make())
        assert (
            tags.estimator_type == kind
            and not tags.input_tags.two_d_array
            and not tags.target_tags.required
            and tags.no_validation
        )
    assert (
        is_classifier(classifier())
        and not is_regressor(classifier())
        and is_regressor(regressor())
        and not is_classifier(regressor())
    )
    assert "beta=0.3" in repr(GIBClassifier(beta=0.3)) and GIBClassifier(beta=0.3)._repr_html_()


def test_what_is_not_fitted_says_so():
    for make in (classifier, regressor):
        with pytest.raises(NotFittedError):
            check_is_fitted(make())
        for method in ("predict", "score", "explain"):
            with pytest.raises(NotFittedError):
                getattr(make(), method)(GRAPHS)
    with pytest.raises(NotFittedError):
        classifier().predict_proba(GRAPHS)
    assert not hasattr(classifier(), "classes_")
    check_is_fitted(classifier().fit(GRAPHS))


@pytest.mark.parametrize(
    "make, y, words",
    [
        (classifier, VALUES, "use GIBRegressor"),
        (regressor, WORDS[Y], "use GIBClassifier"),
        (classifier, Y[:5], "one label for each of 36 graphs"),
        (regressor, VALUES[:5], "one label for each of 36 graphs"),
        (classifier, [None, *Y[1:]], "graph 0"),
        (regressor, [*VALUES[:-1], np.nan], "graph 35"),
        (classifier, np.zeros(36, int), "two classes"),
        (regressor, np.ones(36), "varies"),
        (classifier, [1, "a"] * 18, "one type"),
    ],
    ids=[
        "values",
        "words",
        "few classes",
        "few values",
        "a missing class",
        "a missing value",
        "one class",
        "one value",
        "words and numbers",
    ],
)
def test_wrong_labels_are_named(make, y, words):
    with pytest.raises(ValueError, match=words):
        make().fit(bare(GRAPHS), y)


def test_graphs_in_other_containers():
    fitted = classifier().fit(GRAPHS)
    for given in (as_array(GRAPHS), DataLoader(GRAPHS, 8), Batch.from_data_list(GRAPHS), iter(GRAPHS), tuple(GRAPHS)):
        assert (fitted.predict(given) == fitted.predict(GRAPHS)).all()
    assert fitted.predict(GRAPHS[0]).shape == (1,) and fitted.score(DataLoader(GRAPHS, 8)) == fitted.score(GRAPHS)
    found, _ = caught(fitted.explain, GRAPHS[:3])
    assert [explanation.num_nodes for explanation in found] == [graph.num_nodes for graph in GRAPHS[:3]]


def test_graphs_for_validation():
    valid = GRAPHS[30:]
    first = classifier().fit(GRAPHS[:30], valid=valid)
    second = classifier().fit(bare(GRAPHS[:30]), Y[:30], valid=(bare(valid), Y[30:]))
    assert weights_hash(first.trainer_.model) == weights_hash(second.trainer_.model)


def test_functions_reach_the_trainer():
    "And survive a clone."

    def loss(prediction, y):
        return torch.nn.functional.cross_entropy(prediction, y, label_smoothing=0.1)

    estimator = clone(classifier(loss=loss, optimizer=torch.optim.AdamW, max_grad_norm=1.0)).fit(GRAPHS)
    functions = estimator.trainer_.functions
    assert (functions.loss, functions.optimizer, functions.scheduler) == (loss, torch.optim.AdamW, None)
    assert estimator.trainer_.config.optim.max_grad_norm == 1.0
