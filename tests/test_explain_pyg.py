"GIBExplainer in PyG's Explainer, post hoc explanations, and the explanations themselves."

import copy
import itertools
import logging
import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.explain.metric import (
    characterization_score,
    fidelity,
    fidelity_curve_auc,
    groundtruth_metrics,
    unfaithfulness,
)
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GAT, GIN, global_mean_pool

from gib_nb.data.synthetic import motif_dataset
from gib_nb.explain.pyg import GIBExplainer, GraphPredictor
from gib_nb.nn.classifiers import PostHocGIB
from gib_nb.nn.masks import edge_mask_context
from gib_nb.train.config import configure
from gib_nb.train.trainer import GIBTrainer

TINY = dict(
    hidden_channels=8, epochs=8, pretrain_epochs=2, rampup_epochs=2, num_steps=2, batch_size=24, lr=0.01, max_restarts=0
)
CLASSES = dict(mode="multiclass_classification", task_level="graph", return_type="raw")
VALUES = dict(mode="regression", task_level="graph", return_type="raw")
MASKS = dict(explanation_type="model", node_mask_type="object", edge_mask_type="object")


class Classifier(nn.Module):
    def __init__(self, in_channels, out_channels=2, gnn=GIN):
        super().__init__()
        self.gnn, self.head = gnn(in_channels, 8, 2, norm="batch_norm"), nn.Linear(8, out_channels)

    def forward(self, x, edge_index, batch=None):
        return self.head(global_mean_pool(self.gnn(x, edge_index), batch))


def quietly(function, *arguments, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **settings)


@pytest.fixture(scope="module")
def trees():
    return motif_dataset(60, base_nodes=6)


@pytest.fixture(scope="module")
def trained(trees):
    return quietly(GIBTrainer(configure(**TINY)).fit, trees.train, valid=trees.valid, progress=False)


@pytest.fixture(scope="module")
def regression(trees):
    graphs = [
        Data(x=g.x, edge_index=g.edge_index, y=torch.tensor([float(g.num_nodes) + i % 3]))
        for i, g in enumerate(trees.train)
    ]
    return quietly(GIBTrainer(configure(**TINY)).fit, graphs[:40], valid=graphs[40:], progress=False)


def theirs_for(trees, out_channels=2, gnn=GIN, train=True):
    "A classifier of a user, trained for a moment."
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Classifier(trees.graphs[0].num_features, out_channels, gnn)
        batch, optimizer = Batch.from_data_list(trees.train), torch.optim.Adam(model.parameters(), 0.02)
        for _ in range(30 if train else 0):
            optimizer.zero_grad()
            answer = model(batch.x, batch.edge_index, batch.batch)
            (
                nn.functional.cross_entropy(answer, batch.y)
                if out_channels > 1
                else (answer[:, 0] - 10 - 5 * batch.y).square().mean()
            ).backward()
            optimizer.step()
        optimizer.zero_grad()
    return model.eval()


@pytest.fixture(scope="module")
def theirs(trees):
    return theirs_for(trees)


@pytest.fixture(scope="module")
def post_hoc(trees, theirs):
    return quietly(GIBTrainer(configure(**TINY), model=theirs).fit, trees.train, progress=False)


# ---- in PyG's Explainer


def test_masks_are_those_of_the_trainer(trees, trained):
    explainer = Explainer(GraphPredictor(trained), GIBExplainer(trained), model_config=CLASSES, **MASKS)
    for graph in trees.test:
        mine, ours = explainer(graph.x, graph.edge_index), quietly(trained.explain, graph)
        torch.testing.assert_close(mine.node_mask, ours.node_mask)
        torch.testing.assert_close(mine.edge_mask, ours.edge_mask)
        torch.testing.assert_close(mine.prediction, ours.prediction)
        assert (
            mine.node_mask.shape == (graph.num_nodes, 1)
            and mine.edge_mask.shape == (graph.num_edges,)
            and mine.validate()
        )
        assert mine.target.tolist() == trained.predict(graph).tolist()


def test_a_batch_is_explained_as_its_graphs(trees, trained):
    explainer = Explainer(GraphPredictor(trained), GIBExplainer(trained), model_config=CLASSES, **MASKS)
    batch = Batch.from_data_list(trees.test)
    together = explainer(batch.x, batch.edge_index, batch=batch.batch)
    alone = [explainer(graph.x, graph.edge_index) for graph in trees.test]
    torch.testing.assert_close(together.node_mask, torch.cat([e.node_mask for e in alone]), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(together.edge_mask, torch.cat([e.edge_mask for e in alone]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["trained", "post_hoc"])
def test_metrics_of_pyg_work(trees, name, request):
    trainer = request.getfixturevalue(name)
    model = GraphPredictor(trainer) if name == "trained" else trainer.explained_model
    explainer, graph = Explainer(model, GIBExplainer(trainer), model_config=CLASSES, **MASKS), trees.test[0]
    explanation = explainer(graph.x, graph.edge_index)
    positive, negative = fidelity(explainer, explanation)
    assert {positive, negative} <= {0.0, 1.0} and 0 <= unfaithfulness(explainer, explanation) <= 1
    assert 0 <= float(characterization_score(torch.tensor([0.5, positive]), torch.tensor([0.5, negative])).max()) <= 1
    assert np.isfinite(
        float(fidelity_curve_auc(torch.tensor([0.5, 0.6]), torch.tensor([0.5, 0.4]), torch.tensor([0.0, 1.0])))
    )
    assert float(groundtruth_metrics(graph.edge_mask, graph.edge_mask.long(), metrics="auroc")) == 1
    assert 0 <= float(groundtruth_metrics(explanation.edge_mask, graph.edge_mask.long(), metrics="auroc")) <= 1


def test_masks_can_be_asked_for_one_by_one(trees, trained):
    graph = trees.test[0]
    for wanted, other in (("node", "edge"), ("edge", "node")):
        explainer = Explainer(
            GraphPredictor(trained), GIBExplainer(trained), model_config=CLASSES, **MASKS | {f"{other}_mask_type": None}
        )
        assert explainer(graph.x, graph.edge_index).available_explanations == [f"{wanted}_mask"]


def test_a_regression_is_explained(trees, regression):
    graph = trees.test[0]
    explanation = Explainer(GraphPredictor(regression), GIBExplainer(regression), model_config=VALUES, **MASKS)(
        graph.x, graph.edge_index
    )
    torch.testing.assert_close(explanation.edge_mask, quietly(regression.explain, graph).edge_mask)


@pytest.mark.parametrize(
    "changes, model_changes, reason",
    [
        ({"node_mask_type": "attributes"}, {}, "expected node_mask_type='object' (got 'attributes')"),
        ({"node_mask_type": "common_attributes"}, {}, "node_mask_type='object'"),
        ({"explanation_type": "phenomenon"}, {}, "expected explanation_type='model' (got 'phenomenon')"),
        ({}, {"task_level": "node"}, "expected task_level='graph' (got 'node')"),
        ({}, {"task_level": "edge"}, "task_level='graph'"),
        (
            {},
            {"mode": "binary_classification"},
            "expected mode='multiclass_classification' (got 'binary_classification')",
        ),
        ({}, {"mode": "regression"}, "expected mode='multiclass_classification'"),
    ],
)
def test_what_cannot_be_explained_is_refused_with_the_reason(trained, caplog, changes, model_changes, reason):
    with caplog.at_level(logging.ERROR), pytest.raises(ValueError) as error:
        Explainer(
            GraphPredictor(trained), GIBExplainer(trained), model_config=CLASSES | model_changes, **MASKS | changes
        )
    assert reason in str(error.value) and reason in caplog.text


def test_an_untrained_model_explains_nothing(trees):
    for make in (GIBExplainer, GraphPredictor):
        with pytest.raises(NotFittedError, match="call fit or load first"):
            make(GIBTrainer())
    with pytest.raises(NotFittedError):
        next(GIBTrainer().iter_explain(trees.test))


def test_another_model_or_question_is_refused(trees, trained, theirs, post_hoc):
    graph = trees.test[0]
    with pytest.raises(ValueError, match=r"GIBTrainer\(model=model\)"):
        Explainer(theirs, GIBExplainer(trained), model_config=CLASSES, **MASKS)(graph.x, graph.edge_index)
    with pytest.raises(ValueError, match="expected the model of this explainer"):
        Explainer(theirs_for(trees, train=False), GIBExplainer(post_hoc), model_config=CLASSES, **MASKS)(
            graph.x, graph.edge_index
        )
    explainer = Explainer(GraphPredictor(trained), GIBExplainer(trained), model_config=CLASSES, **MASKS)
    with pytest.raises(ValueError, match="expected index=None"):
        explainer(graph.x, graph.edge_index, index=0)
    explainer.get_prediction = lambda *arguments, **settings: torch.zeros(
        1, 2
    )  # the model itself would stop at such features
    with pytest.raises(ValueError, match=f"expected x with {graph.num_features} columns"):
        explainer(torch.ones(graph.num_nodes, 3), graph.edge_index)


# ---- post hoc


def test_the_explained_model_stays_as_it_is(trees):
    model = theirs_for(trees).train()
    before = copy.deepcopy(model.state_dict())
    trainer = quietly(GIBTrainer(configure(**TINY), model=model).fit, trees.train, progress=False)
    quietly(trainer.explain, trees.test)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training and all(weight.grad is None and weight.requires_grad for weight in model.parameters())
    assert all(module._edge_mask is None for module in model.modules() if hasattr(module, "_edge_mask"))
    assert not any("gnn" in name or "head" in name for name in trainer.model.state_dict())


def test_it_is_trained_on_the_answers_and_not_on_the_labels(trees, theirs):
    turned = [Data(x=g.x, edge_index=g.edge_index, y=1 - g.y) for g in trees.train]
    with_labels, with_others = (
        quietly(GIBTrainer(configure(**TINY), model=theirs).fit, graphs, progress=False)
        for graphs in (trees.train, turned)
    )
    for name, value in with_labels.model.state_dict().items():
        assert torch.equal(value, with_others.model.state_dict()[name])


def test_predictions_are_the_models_on_the_masked_graph(trees, theirs, post_hoc):
    explainer = Explainer(theirs, GIBExplainer(post_hoc), model_config=CLASSES, **MASKS)
    for graph in trees.test:
        found = quietly(post_hoc.explain, graph)
        torch.testing.assert_close(
            found.prediction, explainer.get_masked_prediction(graph.x, graph.edge_index, None, found.edge_mask)
        )
        torch.testing.assert_close(found.whole_prediction, explainer.get_prediction(graph.x, graph.edge_index))
    together = quietly(post_hoc.explain, trees.test)
    torch.testing.assert_close(
        torch.cat([e.prediction for e in together]),
        torch.cat([quietly(post_hoc.explain, g).prediction for g in trees.test]),
    )


def test_any_kind_of_classifier(trees):
    model = theirs_for(trees, 3, GAT)
    trainer = quietly(GIBTrainer(configure(**TINY), model=model).fit, trees.train, progress=False)
    assert {int(model(g.x, g.edge_index).argmax()) for g in trees.train} == {0, 1} and trainer.predict_proba(
        trees.test
    ).shape == (len(trees.test), 3)
    torch.testing.assert_close(
        quietly(trainer.explain, trees.test[0]).whole_prediction,
        model(trees.test[0].x, trees.test[0].edge_index).detach(),
    )


def test_values_keep_their_units(trees):
    model = theirs_for(trees, 1)
    trainer = quietly(GIBTrainer(configure(**TINY), model=model).fit, trees.train, progress=False)
    assert trainer.spec.task == "regression" and trainer.spec.y_std != 1
    with torch.no_grad():
        trainer.model.generator.score[-1].weight.zero_()
        trainer.model.generator.score[-1].bias.fill_(40.0)  # all nodes kept: the model's own values
    for graph in trees.test:
        assert trainer.predict(graph)[0] == pytest.approx(float(model(graph.x, graph.edge_index)), rel=1e-4)


def test_saved_and_loaded_with_the_model(trees, theirs, post_hoc, trained, tmp_path):
    post_hoc.save(tmp_path / "post")
    again = GIBTrainer.load(tmp_path / "post", model=theirs)
    assert (again.predict_proba(trees.test) == post_hoc.predict_proba(trees.test)).all()
    with pytest.raises(ValueError, match="model=my_model"):
        GIBTrainer.load(tmp_path / "post")
    trained.save(tmp_path / "own")
    with pytest.raises(ValueError, match="expected no model"):
        GIBTrainer.load(tmp_path / "own", model=theirs)


@pytest.mark.slow
def test_a_checkpoint_resumes(trees, theirs, tmp_path):
    whole = quietly(GIBTrainer(configure(**TINY), model=theirs).fit, trees.train, progress=False)
    steps = itertools.count()

    def stop(record):
        if next(steps) == 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quietly(
            GIBTrainer(configure(**TINY), model=theirs).fit,
            trees.train,
            progress=False,
            checkpoint=tmp_path / "run",
            callbacks=stop,
        )
    parts = quietly(
        GIBTrainer(configure(**TINY), model=theirs).fit, trees.train, progress=False, checkpoint=tmp_path / "run"
    )
    assert (whole.predict_proba(trees.test) == parts.predict_proba(trees.test)).all()


@pytest.mark.parametrize(
    "graphs, model, words",
    [
        (
            [Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)] * 4,
            None,
            "features x that the explained model takes",
        ),
        (None, lambda x, edge_index, batch: x, "expected a model that returns a tensor of logits"),
    ],
)
def test_what_cannot_be_asked(trees, theirs, graphs, model, words):
    class Wrong(nn.Module):
        forward = staticmethod(model)

    with pytest.raises(ValueError, match=words):
        GIBTrainer(configure(**TINY), model=Wrong() if model else theirs).fit(graphs or trees.train, progress=False)


def test_masks_are_cleared_after_an_error():
    torch.manual_seed(0)
    gnn, edge_index = GIN(3, 4, 1), torch.tensor([[0, 1], [1, 0]])
    plain = gnn(torch.ones(2, 3), edge_index)
    with pytest.raises(ZeroDivisionError), edge_mask_context(gnn, torch.zeros(2), edge_index):
        assert not torch.allclose(gnn(torch.ones(2, 3), edge_index), plain)
        1 / 0
    assert torch.equal(gnn(torch.ones(2, 3), edge_index), plain)


def test_gradients_reach_the_mask_of_a_model_that_pyg_explained_before(trees, theirs):
    model, graph = copy.deepcopy(theirs), trees.test[0]
    Explainer(model, GNNExplainer(epochs=2), model_config=CLASSES, explanation_type="model", edge_mask_type="object")(
        graph.x, graph.edge_index
    )
    mask = torch.full((graph.num_edges,), 0.5, requires_grad=True)
    with edge_mask_context(model, mask, graph.edge_index):
        model(graph.x, graph.edge_index).square().sum().backward()
    assert mask.grad is not None and (mask.grad != 0).any()


def test_a_mask_of_one_changes_nothing_and_of_zero_cuts():
    torch.manual_seed(0)
    gnn, x = GIN(3, 4, 2, norm=None).eval(), torch.rand(4, 3)
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    with edge_mask_context(gnn, torch.ones(6), edge_index):
        torch.testing.assert_close(gnn(x, edge_index), gnn(x, edge_index))
        ones = gnn(x, edge_index)
    torch.testing.assert_close(ones, gnn(x, edge_index))
    with edge_mask_context(gnn, torch.tensor([1.0, 1, 0, 0, 1, 1]), edge_index):
        cut = gnn(x, edge_index)
    torch.testing.assert_close(cut, gnn(x, edge_index[:, [0, 1, 4, 5]]))


def test_a_copy_of_the_model_follows_to_another_type():
    model = PostHocGIB(Classifier(3), 3, 2, hidden_channels=4).double()
    assert next(model._model[0].parameters()).dtype == torch.double


@pytest.mark.slow
def test_post_hoc_finds_the_motif_and_not_what_is_left_without_it():
    "A classifier of houses and rings is explained by both, not by the absence of the other: features of nodes that are out must stay."
    from gib_nb.experiments.explainers import fit_classifier
    from gib_nb.explain.metrics import edge_auc

    data = motif_dataset(300, seed=1)
    classifier = fit_classifier(data.train, data.valid, epochs=25)
    config = configure(epochs=25, pretrain_epochs=8, rampup_epochs=4, max_restarts=0, num_steps=10, lr=0.005)
    found = quietly(
        quietly(GIBTrainer(config, model=classifier).fit, data.train, valid=data.valid, progress=False).explain,
        data.test,
    )
    assert edge_auc(data.test, found) > 0.9
    assert np.mean([int(e.prediction.argmax()) == int(e.whole_prediction.argmax()) for e in found]) > 0.9


# ---- explanations


def test_a_stream_equals_the_list_and_reads_a_batch_at_a_time(trees, trained):
    read = []

    def source():
        for graph in itertools.cycle(trees.train):
            read.append(1)
            yield graph

    stream = trained.iter_explain(source())
    first = [next(stream) for _ in range(30)]
    assert len(read) == 2 * trained.config.optim.batch_size
    for mine, listed in zip(first, quietly(trained.explain, trees.train[:30])):
        assert (
            torch.equal(mine.edge_index, listed.edge_index)
            and torch.equal(mine.x, listed.x)
            and mine.components == listed.components
        )
        torch.testing.assert_close(mine.node_mask, listed.node_mask, rtol=1e-5, atol=1e-6)
    assert list(trained.iter_explain([])) == []


def test_errors_in_a_stream_name_the_graph(trees, trained):
    graphs = [trees.train[i % 20] for i in range(30)]
    graphs[27] = Data(x=torch.full_like(graphs[0].x, float("nan")), edge_index=graphs[0].edge_index)
    with pytest.raises(ValueError, match="graph 27"):
        list(trained.iter_explain(graphs))
    graphs[27] = Data(x=torch.ones(2, 3), edge_index=torch.tensor([[0], [1]]))
    with pytest.raises(ValueError, match="graph 27"):
        list(trained.iter_explain(graphs))


def test_a_batch_counts_as_its_graphs(trees, trained):
    batch = Batch.from_data_list(trees.test)
    assert trained.predict(batch).tolist() == trained.predict(trees.test).tolist() and trained.score(
        batch
    ) == trained.score(trees.test)
    found = quietly(trained.explain, batch)
    assert len(found) == len(trees.test)
    torch.testing.assert_close(found[2].edge_mask, quietly(trained.explain, trees.test[2]).edge_mask)


def test_the_subgraph_is_cut_at_the_threshold(trees, trained):
    sharp = copy.copy(trained)
    for explanation in quietly(sharp.explain, trees.test):
        middle = float(explanation.node_mask.median())
        explanation.selected_nodes = explanation.node_mask[:, 0] > middle
        inside = set(explanation.selected_nodes.nonzero().flatten().tolist())
        cut, rest = explanation.get_explanation_subgraph(), explanation.get_complement_subgraph()
        pairs = explanation.edge_index.T.tolist()
        assert cut.num_nodes == len(inside) and rest.num_nodes == explanation.num_nodes - len(inside)
        assert cut.num_edges == sum(u in inside and v in inside for u, v in pairs) == len(cut.edge_mask)
        assert rest.num_edges == sum(u not in inside and v not in inside for u, v in pairs)
        assert torch.equal(cut.x, explanation.x[explanation.selected_nodes]) and cut.validate()


def test_both_predictions_are_there(trees, trained):
    with torch.no_grad():
        for graph in trees.test[:3]:
            explanation, output = quietly(trained.explain, graph), trained.model(graph.x, graph.edge_index)
            torch.testing.assert_close(explanation.prediction, output.prediction)
            torch.testing.assert_close(explanation.whole_prediction, trained.model.classify(output.graph_embedding))
            assert not explanation.whole_prediction.requires_grad


def test_the_explanation_is_the_same_every_time(trees, trained):
    first, second = (quietly(trained.explain, trees.test) for _ in range(2))
    assert all(
        torch.equal(a.node_mask, b.node_mask) and torch.equal(a.edge_mask, b.edge_mask) for a, b in zip(first, second)
    )


def test_pyg_draws_it(trees, trained, tmp_path):
    pytest.importorskip("matplotlib").use("agg")
    quietly(trained.explain, trees.test[0]).visualize_graph(tmp_path / "graph.png", backend="networkx")
    assert (tmp_path / "graph.png").stat().st_size > 1000


def test_batches_of_a_loader_mean_their_graphs(trees, trained, post_hoc):
    for trainer in (trained, post_hoc):
        found = list(trainer.iter_explain(DataLoader(trees.test, 4)))
        one_by_one = quietly(trainer.explain, trees.test)
        assert len(found) == len(one_by_one) == len(trees.test)
        for mine, other in zip(found, one_by_one):
            for name in (
                "x",
                "edge_index",
                "node_mask",
                "edge_mask",
                "prediction",
                "whole_prediction",
                "selected_nodes",
            ):
                torch.testing.assert_close(mine[name], other[name], rtol=1e-4, atol=1e-5)
            assert mine.components == other.components and mine.validate()
    mixed = list(trained.iter_explain([Batch.from_data_list(trees.test[:3]), *trees.test[3:5]]))
    assert [len(e.prediction) for e in mixed] == [1] * 5
    with pytest.raises(ValueError, match="graph 0: expected x with 10 columns"):
        next(
            trained.iter_explain(
                [Batch.from_data_list([Data(x=torch.ones(2, 3), edge_index=torch.tensor([[0], [1]]))])]
            )
        )
