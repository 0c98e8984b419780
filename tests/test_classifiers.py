"Classifiers that predict through a mask: edges, samples, two-stage training, and models that are given."

import itertools
import warnings

import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.explain import Explainer
from torch_geometric.explain.algorithm.utils import set_masks
from torch_geometric.explain.metric import fidelity
from torch_geometric.nn import GIN, GINEConv, SAGEConv, SimpleConv, global_add_pool

from gib_nb.data.spec import prepare_training
from gib_nb.data.synthetic import motif_dataset
from gib_nb.experiments.explainers import fit_classifier, symmetrize
from gib_nb.explain.pyg import GIBExplainer, GraphPredictor
from gib_nb.methods.two_stage import decoupled_config
from gib_nb.nn.backbones import edges_of
from gib_nb.nn.classifiers import PostHocGIB, ReencodingGIB, call_classifier
from gib_nb.nn.gib import FeatureEncoder
from gib_nb.nn.masks import (
    EdgeGenerator,
    edge_mask_context,
    generate,
    masked_forward,
    random_masks,
    sample_concrete,
    undirected_edge_ids,
)
from gib_nb.train.callbacks import History
from gib_nb.train.checkpoint import fingerprint
from gib_nb.train.classifier_trainer import ClassifierTrainer
from gib_nb.train.config import configure
from gib_nb.train.loop import train_epoch
from gib_nb.train.phases import TrainState, prior_kl
from gib_nb.train.trainer import GIBTrainer
from gib_nb.utils.reproducible import LocalRandomness
from tests.training import bond_graphs, caught, same_state

PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
SMALL = dict(hidden_channels=8, max_restarts=0, batch_size=16)
DECOUPLED = dict(
    epochs=10, pretrain_epochs=4, finetune_epochs=4, **SMALL
)  # of decoupled_config; two epochs are left for the mask


def model_of(**settings):
    torch.manual_seed(0)
    return ReencodingGIB(3, 2, hidden_channels=8, **settings).eval()


def features(n=4, seed=0):
    return torch.rand(n, 3, generator=torch.Generator().manual_seed(seed))


def fitted(config, data, **trainer):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GIBTrainer(config, **trainer).fit(data.train, valid=data.valid, progress=False)


@pytest.fixture(scope="module")
def trees():
    return motif_dataset(60, base_nodes=6)


@pytest.fixture(scope="module")
def decoupled(trees):
    return fitted(decoupled_config(**DECOUPLED), trees)


# ---- masks


@pytest.mark.parametrize("logits", [False, True])
def test_masks_multiply_and_the_outer_one_comes_back(logits):
    torch.manual_seed(0)
    gnn, x, outer, inner = (
        GIN(3, 4, 1, norm=None).eval(),
        features(),
        torch.tensor([0.5, 0.5, 1, 1, 0.2, 0.2]),
        torch.tensor([1.0, 1, 0.3, 0.3, 0.5, 0.5]),
    )
    with edge_mask_context(gnn, outer * inner, PATH):
        both = gnn(x, PATH)
    set_masks(gnn, outer.logit(1e-7) if logits else outer, PATH, apply_sigmoid=logits)
    alone = gnn(x, PATH)
    with edge_mask_context(gnn, inner, PATH):
        torch.testing.assert_close(gnn(x, PATH), both)
    assert torch.equal(gnn(x, PATH), alone) and not torch.allclose(both, alone)


def test_directions_of_an_edge_share_a_number():
    assert undirected_edge_ids(torch.tensor([[3, 0, 1, 0, 2, 2], [0, 1, 0, 3, 2, 3]])).tolist() == [1, 0, 0, 1, 2, 3]
    assert undirected_edge_ids(torch.empty(2, 0, dtype=torch.long)).shape == (0,)


def test_samples_follow_the_probability_and_pass_gradients():
    torch.manual_seed(0)
    p = torch.tensor([0.0, 0.1, 0.5, 0.9, 1.0], requires_grad=True)
    draws = torch.stack([sample_concrete(p) for _ in range(20_000)])
    torch.testing.assert_close((draws > 0.5).double().mean(0), p.detach().double(), atol=0.015, rtol=0)
    draws.mean().backward()
    assert draws.isfinite().all() and p.grad.isfinite().all() and (p.grad[1:4] > 0).all()
    together = sample_concrete(torch.full((4,), 0.5), torch.tensor([0, 1, 1, 0]))
    assert together[0] == together[3] and together[1] == together[2] != together[0]


def test_random_masks_are_symmetric_and_differ_in_share():
    torch.manual_seed(0)
    graphs = Batch.from_data_list([Data(edge_index=PATH, num_nodes=4)] * 400)
    mask = random_masks(graphs.edge_index, graphs.batch, 400)
    assert torch.equal(mask[0::2], mask[1::2]) and ((mask >= 0) & (mask <= 1)).all() and abs(mask.mean() - 0.5) < 0.05
    shares = (mask.view(400, 6) > 0.5).double().mean(1)
    assert (shares == 0).any() and (shares == 1).any()


def test_a_network_that_cannot_be_masked_is_refused():
    class Deaf(nn.Module):
        out_channels = 4

        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 4)

        def forward(self, x, edge_index, batch=None):
            return self.linear(x)

    for make in (lambda: ReencodingGIB(3, 2, Deaf()), lambda: PostHocGIB(Deaf(), 3, 2)):
        with pytest.raises(ValueError, match="message passing layers, which can be masked .got Deaf"):
            make()


# ---- the model


def test_an_edge_has_one_probability_in_both_directions_and_in_any_order():
    torch.manual_seed(0)
    generator, x, order = EdgeGenerator(3), features(), torch.tensor([2, 0, 3, 1])
    p = generator(x, PATH)
    assert torch.equal(p[0::2], p[1::2])
    torch.testing.assert_close(generator(x[order.argsort()], order[PATH]), p)


def test_a_node_is_in_as_its_strongest_edge_and_alone_it_is_out():
    model, x = model_of(mask_on="edges"), features(5)
    output = model(x, PATH)
    p = output.edge_mask[0::2]
    torch.testing.assert_close(
        output.assignment[:, 0],
        torch.stack([p[0], torch.max(p[0], p[1]), torch.max(p[1], p[2]), p[2], torch.tensor(0.0)]),
    )
    assert (output.assignment.sum(1) == 1).all()


@pytest.mark.parametrize("mask_on", ["nodes", "edges"])
@pytest.mark.parametrize("num_layers", [None, 0, 1])
def test_batched_as_alone_and_odd_graphs(mask_on, num_layers):
    model, graphs = (
        model_of(mask_on=mask_on, generator_num_layers=num_layers),
        [(features(4, 1), PATH), (features(1), PATH[:, :0]), (features(4, 2), PATH), (features(2), PATH[:, :2])],
    )
    batch = Batch.from_data_list([Data(x=x, edge_index=edges) for x, edges in graphs])
    together, starts = model(batch.x, batch.edge_index, batch.batch, 5), 0
    assert together.prediction.shape == (5, 2) and all(value.isfinite().all() for value in vars(together).values())
    mask = together.edge_mask.split([edges.size(1) for _, edges in graphs])
    for i, (x, edges) in enumerate(graphs):
        alone = model(x, edges)
        torch.testing.assert_close(alone.prediction[0], together.prediction[i])
        torch.testing.assert_close(alone.edge_mask, mask[i])
    found = model.explain(batch.x, batch.edge_index, batch.batch, 5)
    torch.testing.assert_close(found["prediction"], together.prediction)
    assert (
        torch.equal(found["edge_mask"], together.edge_mask)
        and torch.equal(found["node_mask"], together.node_mask)
        and not torch.allclose(found["whole_prediction"][0], found["prediction"][0])
    )
    assert torch.equal(found["subgraph_embedding"], together.subgraph_embedding) and torch.equal(
        found["graph_embedding"], together.graph_embedding
    )
    assert model.explain(batch.x, batch.edge_index, batch.batch, 5, whole=False)["whole_prediction"] is None


@pytest.mark.parametrize("mask_on", ["nodes", "edges"])
def test_the_order_of_nodes_and_edges_does_not_matter(mask_on):
    model, x, nodes, edges = (
        model_of(mask_on=mask_on),
        features(),
        torch.tensor([2, 0, 3, 1]),
        torch.tensor([5, 1, 2, 0, 4, 3]),
    )
    before = model(x, PATH)
    after = model(x[nodes], nodes.argsort()[PATH[:, edges]])
    torch.testing.assert_close(after.prediction, before.prediction)
    torch.testing.assert_close(after.edge_mask, before.edge_mask[edges])
    torch.testing.assert_close(after.assignment, before.assignment[nodes])


def test_the_receptive_field_ends_where_it_should():
    changed = features()
    changed[3] += 1
    first_edge = {}
    for num_layers in (0, 1, 2, 3):
        model = model_of(mask_on="edges", generator_num_layers=num_layers, norm=None)
        first_edge[num_layers] = float((model(features(), PATH).edge_mask - model(changed, PATH).edge_mask)[0].abs())
    assert (
        first_edge[0] == first_edge[1] == 0 and first_edge[2] > 0 and first_edge[3] > 0
    )  # node 3 is two edges from the nearer end
    assert isinstance(model_of(generator_num_layers=0).backbone, FeatureEncoder)


def test_samples_are_for_training_alone():
    model = model_of(mask_on="edges", sample_mask=True, norm=None)
    predict = lambda: model(features(), PATH).prediction
    assert torch.equal(predict(), predict())
    model.train()
    assert not torch.equal(predict(), predict())
    assert torch.equal(
        model(features(), PATH).edge_mask, model.eval()(features(), PATH).edge_mask
    )  # what is reported is the probability
    nodes = model_of(sample_mask=True, norm=None).train()
    assert not torch.equal(nodes(features(), PATH).prediction, nodes(features(), PATH).prediction)


def test_only_the_mask_tells_the_classifier_of_edges():
    model = model_of()
    bent = torch.tensor([[0, 1, 1, 2, 1, 3], [1, 0, 2, 1, 3, 1]])
    mask, batch = torch.tensor([1.0, 1, 1, 1, 0, 0]), torch.zeros(4, dtype=torch.long)
    read = lambda edges, *mask: model.predict_graph(features(), edges, batch, 1, *mask)
    torch.testing.assert_close(read(PATH, mask), read(bent, mask))
    assert not torch.allclose(read(PATH), read(bent))


def test_several_classifiers_predict_with_the_mean_of_their_logits():
    model, batch, mask = (
        model_of(classifiers=3),
        torch.zeros(4, dtype=torch.long),
        torch.tensor([1.0, 1, 0.5, 0.5, 0, 0]),
    )
    for seen in (mask, None):
        logits = torch.stack([masked_forward(seen, each, features(), PATH) for each in model.classifier])
        torch.testing.assert_close(model.predict_graph(features(), PATH, batch, 1, seen), logits.mean(0))
        assert logits.std(0).min() > 0
        product = logits.softmax(2).log().mean(0).softmax(1)  # a geometric mean of their probabilities
        torch.testing.assert_close(model.predict_graph(features(), PATH, batch, 1, seen).softmax(1), product)


# ---- training


def state_of(config, data):
    "The beginning of an attempt."
    return TrainState(config, *prepare_training(data.train, valid=data.valid)[1:])


def test_classifiers_that_are_trained_alone_do_not_depend_on_each_other(trees):
    config = decoupled_config(**DECOUPLED | {"num_classifiers": 2, "dropout": 0.0})
    state = state_of(config, trees)
    batch, gradients = state.train[:16].batch(), {}
    for scale in (1, 2):
        state.randomness = LocalRandomness(0)
        with torch.no_grad():
            state.model.classifier[1].head[-1].weight.mul_(scale)
        state.model.zero_grad()
        state.losses(torch.arange(16), batch)["loss"].backward()
        gradients[scale] = [[weight.grad.clone() for weight in each.parameters()] for each in state.model.classifier]
    same = [all(torch.equal(a, b) for a, b in zip(gradients[1][i], gradients[2][i])) for i in range(2)]
    assert same == [True, False]


def test_the_bound_by_hand(trees):
    output, bernoulli = model_of(mask_on="edges")(features(), PATH), torch.distributions.Bernoulli
    for mask_on, p in (("edges", output.edge_mask), ("nodes", output.assignment[:, 0])):
        expected = torch.distributions.kl_divergence(bernoulli(p), bernoulli(torch.tensor(0.2))).mean()
        torch.testing.assert_close(prior_kl(p, 0.2), expected)
        term = state_of(configure(classifier="reencode", mask_on=mask_on, prior_prob=0.2), trees).information
        torch.testing.assert_close(term(output, Data()), expected)
    own = torch.linspace(0.1, 0.9, 6)
    torch.testing.assert_close(
        prior_kl(output.edge_mask, own),
        torch.distributions.kl_divergence(bernoulli(output.edge_mask), bernoulli(own)).mean(),
    )
    nothing = model_of(mask_on="edges")(features(2), PATH[:, :0])
    assert prior_kl(nothing.edge_mask, 0.2) == 0 and prior_kl(torch.tensor([0.0, 1.0]), 0.5).isfinite()


def test_graphs_may_bring_a_prior(trees):
    own = lambda share: [
        Data(**graph.to_dict(), prior=torch.full((graph.num_nodes,), share)) for graph in trees.train[:20]
    ]
    losses = lambda graphs, prob: [
        epoch["loss"]
        for epoch in GIBTrainer(
            configure(prior_prob=prob, beta=5.0, epochs=3, pretrain_epochs=0, rampup_epochs=0, **SMALL)
        )
        .fit(graphs, valid=graphs, progress=False)
        .history["epochs"]
    ]
    assert losses(own(0.2), 0.9) == losses(trees.train[:20], 0.2) != losses(own(0.3), 0.2)
    for bad in (
        torch.tensor([0.5]),
        torch.zeros(trees.train[0].num_nodes),
        "much",
        torch.full((trees.train[0].num_nodes,), float("nan")),
    ):
        with pytest.raises(ValueError, match="graph 0: expected prior"):
            GIBTrainer(prior_prob=0.5).fit(
                [Data(**trees.train[0].to_dict(), prior=bad), *own(0.2)[1:5]], valid=trees.train[:5]
            )
    with pytest.raises(ValueError, match="graph 1: expected prior of shape .*as other graphs have one"):
        GIBTrainer(prior_prob=0.5).fit([*own(0.2)[:1], *trees.train[1:5]], valid=trees.train[:5])
    with pytest.raises(ValueError, match="neither included"):
        GIBTrainer(prior_prob=0.5).fit(
            [
                Data(**graph.to_dict(), prior=torch.full((graph.num_nodes,), 1 - 1e-12, dtype=torch.double))
                for graph in trees.train[:5]
            ],
            valid=trees.train[:5],
        )
    spec, config = prepare_training(trees.train, valid=trees.valid)[0], configure(prior_prob=0.5)
    assert (
        len(
            {
                fingerprint(config, spec.prepare(graphs, labels=True, prior="nodes"), [])
                for graphs in (trees.train[:20], own(0.2), own(0.3))
            }
        )
        == 3
    )
    edges = [Data(**graph.to_dict(), prior=torch.full((graph.num_edges,), 0.2)) for graph in trees.train[:20]]
    GIBTrainer(
        configure(
            prior_prob=0.5,
            classifier="reencode",
            mask_on="edges",
            epochs=3,
            pretrain_epochs=0,
            rampup_epochs=0,
            **SMALL,
        )
    ).fit(edges, valid=edges, progress=False)


@pytest.mark.slow
def test_classifier_first_then_mask_then_classifier(trees):
    config = decoupled_config(**DECOUPLED)
    state = state_of(config, trees)
    snapshot = lambda: {name: value.clone() for name, value in state.model.state_dict().items()}
    changed = lambda before: {
        name.split(".")[0] for name, value in state.model.state_dict().items() if not torch.equal(value, before[name])
    }
    halves, history = [], History()
    while not state.finished:
        before, phase = snapshot(), type(state.phase).__name__
        train_epoch(state, [history])
        halves.append(changed(before))
        assert halves[-1] == ({"backbone", "generator"} if phase == "Bottleneck" else {"classifier"})
    assert [sorted(half)[0] for half in halves] == ["classifier"] * 4 + ["backbone"] * 2 + ["classifier"] * 4
    batch = state.valid.batch()
    bound = prior_kl(
        state.model.eval()(batch.x, batch.edge_index, batch.batch, batch.num_graphs).edge_mask, config.information.prob
    ).item()
    assert history.epochs[-1]["loss"] == pytest.approx(history.epochs[-1]["classification"] + bound, rel=1e-4)


@pytest.mark.slow
def test_stopped_and_resumed_it_ends_the_same(trees, decoupled, tmp_path):
    for stop in (1, 5, 7):

        def interrupt(record, stop=stop):
            if record["epoch"] == stop:
                raise KeyboardInterrupt

        file = tmp_path / f"{stop}.safetensors"
        with pytest.raises(KeyboardInterrupt):
            GIBTrainer(decoupled_config(**DECOUPLED)).fit(
                trees.train, valid=trees.valid, checkpoint=file, progress=False, callbacks=interrupt
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            resumed = GIBTrainer(decoupled_config(**DECOUPLED)).fit(
                trees.train, valid=trees.valid, checkpoint=file, progress=False
            )
        assert [step["loss"] for step in resumed.history["steps"]] == [
            step["loss"] for step in decoupled.history["steps"]
        ]
        assert torch.equal(resumed.explain(trees.test[0]).edge_mask, decoupled.explain(trees.test[0]).edge_mask)


def test_given_classifiers_are_used_as_they_are(trees, tmp_path):
    settings = DECOUPLED | {"epochs": 6, "finetune_epochs": 0, "num_classifiers": 2}
    first = fitted(decoupled_config(**settings), trees)
    weights = {name: value.clone() for name, value in first.model.classifier.state_dict().items()}
    second = GIBTrainer(decoupled_config(**settings | {"prior_prob": 0.5}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        second.fit(
            trees.train,
            valid=trees.valid,
            classifier=first.model.classifier,
            progress=False,
            checkpoint=tmp_path / "a.safetensors",
        )
    for model in (first.model, second.model):  # and the first trainer is not disturbed
        assert all(torch.equal(value, weights[name]) for name, value in model.classifier.state_dict().items())
    assert {step["epoch"] for step in second.history["steps"]} == {4, 5} and all(
        0 < step["mean_node_mask"] < 1 for step in second.history["steps"]
    )
    assert not torch.equal(first.explain(trees.test[0]).edge_mask, second.explain(trees.test[0]).edge_mask)
    with pytest.raises(ValueError, match="written for others"):  # a checkpoint knows whose classifiers it was made with
        second.fit(trees.train, valid=trees.valid, progress=False, checkpoint=tmp_path / "a.safetensors")
    with pytest.raises(ValueError, match="expected 2 classifiers of this config"):
        second.fit(trees.train, valid=trees.valid, classifier=first.model.classifier[:1], progress=False)
    with pytest.raises(ValueError, match="expected two-stage training with given classifiers"):
        GIBTrainer(configure(**SMALL)).fit(
            trees.train, valid=trees.valid, classifier=first.model.classifier, progress=False
        )


def test_saved_and_loaded(trees, decoupled, tmp_path):
    decoupled.save(tmp_path)
    loaded = GIBTrainer.load(tmp_path)
    for ours, theirs in zip(decoupled.explain(trees.test), loaded.explain(trees.test)):
        assert torch.equal(ours.edge_mask, theirs.edge_mask) and torch.equal(
            ours.whole_prediction, theirs.whole_prediction
        )


def test_a_backbone_of_ones_own_reads_again(trees):
    class Mean(nn.Module):
        out_channels = 8

        def __init__(self, width):
            super().__init__()
            self.linear, self.conv = nn.Linear(width, 8), SimpleConv()

        def forward(self, x, edge_index):
            return self.conv(self.linear(x), edge_index).relu()

    trainer = fitted(
        configure(
            classifier="reencode", num_classifiers=2, epochs=3, pretrain_epochs=1, rampup_epochs=1, num_steps=1, **SMALL
        ),
        trees,
        encoder=Mean,
    )
    first, second = (each.backbone for each in trainer.model.classifier)
    assert (
        first is not second
        and trainer.model.backbone not in (first, second)
        and trainer.predict(trees.test).shape == (len(trees.test),)
    )
    assert not torch.equal(first.linear.weight, second.linear.weight)


def test_post_hoc_with_edges_and_a_prior(trees):
    theirs = fit_classifier(trees.train, trees.valid, epochs=3)
    config = configure(
        mask_on="edges",
        sample_mask=True,
        generator_num_layers=1,
        prior_prob=0.3,
        beta=1.0,
        epochs=3,
        pretrain_epochs=1,
        rampup_epochs=1,
        **SMALL,
    )
    graph = trees.test[0]
    mask = fitted(config, trees, model=theirs).explain(graph).edge_mask
    torch.testing.assert_close(mask, symmetrize(mask, graph.edge_index))
    assert mask.std() > 0


def test_metrics_of_pyg_on_the_classifier_and_on_the_subgraph(trees, decoupled):
    for predictor in (GraphPredictor(decoupled, whole=True), GraphPredictor(decoupled)):
        explainer = Explainer(
            predictor,
            GIBExplainer(decoupled),
            explanation_type="model",
            node_mask_type="object",
            edge_mask_type="object",
            model_config=dict(mode="multiclass_classification", task_level="graph", return_type="raw"),
        )
        explanation = explainer(trees.test[0].x, trees.test[0].edge_index)
        assert torch.equal(explanation.edge_mask, decoupled.explain(trees.test[0]).edge_mask) and all(
            0 <= value <= 1 for value in fidelity(explainer, explanation)
        )


def test_several_classifiers_beside_a_module_have_backbones_of_their_own():
    backbone = lambda: GIN(3, 8, 1)
    assert (
        len(ReencodingGIB(3, 2, backbone()).classifier) == 1
        and len(ReencodingGIB(3, 2, backbone(), classifiers=[backbone(), backbone()]).classifier) == 2
    )
    for classifiers in (0, 2, []):
        with pytest.raises(ValueError, match="at least one classifier, and .* a list of backbones"):
            ReencodingGIB(3, 2, backbone(), classifiers=classifiers)


@pytest.mark.slow
def test_it_finds_the_edge_that_makes_the_label():
    "Rings of six colored nodes; those with an edge between red and blue are of class 1, and nothing else tells them decoupled."
    generator = torch.Generator().manual_seed(0)
    ring = torch.arange(6)
    edges = torch.cat([torch.stack([ring, ring.roll(-1)]), torch.stack([ring.roll(-1), ring])], 1)
    graphs = []
    while len(graphs) < 400:
        color = torch.tensor([0, 1, 2, 2, 3, 3])[torch.randperm(6, generator=generator)]
        truth = (color[edges].sum(0) == 1).float()  # red is 0, blue is 1; the others add up to more
        if (y := int(truth.any())) != len(graphs) % 2:
            continue
        graphs.append(Data(x=torch.eye(4)[color], edge_index=edges, y=torch.tensor([y]), edge_mask=truth))
    config = decoupled_config(42, prior_prob=0.1, lr=0.005, hidden_channels=32, max_restarts=0, batch_size=32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = GIBTrainer(config).fit(graphs[:300], valid=graphs[300:340], progress=False)
    positive = [graph for graph in graphs[340:] if graph.y]
    found = torch.cat([e.edge_mask for e in trainer.explain(positive)])
    assert roc_auc_score(torch.cat([graph.edge_mask for graph in positive]), found) > 0.97
    assert (
        torch.cat([e.whole_prediction for e in trainer.explain(graphs[340:])])
        .argmax(1)
        .eq(torch.cat([graph.y for graph in graphs[340:]]))
        .double()
        .mean()
        > 0.95
    )


# ---- what the edges carry

BONDS = dict(hidden_channels=16, batch_size=20, lr=0.01, max_restarts=0, epochs=20, pretrain_epochs=14)
JOINT = BONDS | dict(rampup_epochs=2, num_steps=3, alpha=0.03, beta=0.01)


@pytest.fixture(scope="module")
def bonds():
    return bond_graphs(120)


def of_bonds(graphs, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GIBTrainer(**settings).fit(graphs[:80], valid=graphs[80:100], progress=False)


@pytest.mark.parametrize(
    "encoder, mask_on, classifier",
    [("gine", "nodes", "pooled")]
    + [
        pytest.param(*each, marks=pytest.mark.slow)
        for each in itertools.product(("gine", "gatv2"), ("nodes", "edges"), ("pooled", "reencode"))
        if each != ("gine", "nodes", "pooled")
    ],
)
def test_labels_that_only_the_edges_know(encoder, mask_on, classifier, bonds, tmp_path):
    trainer = of_bonds(bonds, encoder=encoder, mask_on=mask_on, classifier=classifier, **JOINT)
    assert trainer.score(bonds[100:]) > 0.9 and trainer.spec.edge_channels == 2
    assert trainer.audit["empty"] < 0.7  # no edge, no label
    trainer.save(tmp_path)
    again = GIBTrainer.load(tmp_path)
    assert again.spec == trainer.spec and (again.predict_proba(bonds[100:]) == trainer.predict_proba(bonds[100:])).all()
    explained = trainer.explain(bonds[100:104])
    assert [len(e.edge_mask) for e in explained] == [12] * 4


def test_networks_without_edge_features_cannot_know(bonds):
    trainer, said = caught(
        lambda: GIBTrainer(encoder="gin", **JOINT | dict(epochs=17)).fit(
            bonds[:80], valid=bonds[80:100], progress=False
        )
    )
    assert trainer.score(bonds[100:]) < 0.7 and trainer.spec.edge_channels == 0
    assert [str(each.message) for each in said if "not used" in str(each.message)] == [
        "not used: edge_attr (2 columns); the networks read x and edge_index; gine, gatv2, and gat read edge_attr"
    ]
    bare = [Data(x=graph.x, edge_index=graph.edge_index) for graph in bonds]
    assert (trainer.predict(bare) == trainer.predict(bonds)).all()


def test_graphs_with_other_edges_than_in_training_are_refused(bonds):
    trainer = of_bonds(bonds, encoder="gine", **JOINT | dict(epochs=17))
    for change, got in (
        (lambda edges: edges[:, :1], r"shape \[12, 2\] .got \[12, 1\]"),
        (lambda edges: None, "as other graphs have .got none"),
    ):
        wrong = [graph.clone() for graph in bonds[:4]]
        wrong[2].edge_attr = change(wrong[2].edge_attr)
        for use in (trainer.predict, trainer.explain, trainer.apply, trainer.score):
            with pytest.raises(ValueError, match=f"graph 2: expected edge_attr.*{got}"):
                use(wrong)


@pytest.mark.slow
def test_two_stages_with_edge_features(bonds):
    config = decoupled_config(
        encoder="gine",
        **BONDS | dict(epochs=32, pretrain_epochs=20, finetune_epochs=4, num_classifiers=2, generator_num_layers=1),
    )
    trainer = of_bonds(bonds, config=config)
    assert trainer.score(bonds[100:]) > 0.9
    assert all("lin.weight" in " ".join(each.state_dict()) for each in trainer.model.classifier)


@pytest.mark.slow
@pytest.mark.parametrize("module", [True, False])
def test_an_encoder_of_ones_own_reads_the_edges(module, bonds):
    class Mine(nn.Module):
        out_channels = 16

        def __init__(self, in_channels):
            super().__init__()
            self.conv, self.out = GINEConv(nn.Linear(in_channels, 16), edge_dim=2), nn.Linear(16, 16)

        def forward(self, x, edge_index, edge_attr):
            return self.out(self.conv(x, edge_index, edge_attr).relu())

    torch.manual_seed(0)
    trainer = of_bonds(
        bonds, encoder=lambda in_channels: Mine(in_channels), classifier="reencode" if module else "pooled", **JOINT
    )
    assert trainer.spec.edge_channels == 2 and trainer.score(bonds[100:]) > 0.9
    with pytest.raises(ValueError, match="expected a backbone that accepts"):
        of_bonds([Data(x=g.x, edge_index=g.edge_index, y=g.y) for g in bonds], encoder=Mine, **JOINT)


@pytest.mark.slow
def test_edge_weights_reach_gcn(bonds):
    "The weight of the marked edge is 3, of the others 1."
    graphs = [Data(x=g.x, edge_index=g.edge_index, y=g.y, edge_weight=1 + 2 * g.edge_attr[:, 1]) for g in bonds]
    trainer = of_bonds(graphs, encoder="gcn", **JOINT)
    assert trainer.spec.edge_weight and trainer.score(graphs[100:]) > 0.9
    plain = ClassifierTrainer("gcn", hidden_channels=16, epochs=40, lr=0.01, batch_size=20).fit(
        graphs[:80], valid=graphs[80:100]
    )
    assert plain.spec.edge_weight and plain.score(graphs[100:]) > 0.9
    attentive = ClassifierTrainer("att_pool", hidden_channels=8, epochs=2).fit(graphs[:80], valid=graphs[80:100])
    assert attentive.spec.edge_weight
    assert (
        not ClassifierTrainer("sort_pool", hidden_channels=8, epochs=2)
        .fit(graphs[:80], valid=graphs[80:100])
        .spec.edge_weight
    )


@pytest.mark.parametrize("encoder", ["gine", pytest.param("gatv2", marks=pytest.mark.slow)])
def test_a_checkpoint_resumes_with_edge_features(encoder, bonds, tmp_path):
    settings = dict(
        encoder=encoder,
        classifier="reencode",
        **JOINT | dict(epochs=6, pretrain_epochs=2, rampup_epochs=2, dropout=0.2),
    )

    def stop(losses, seen=[]):
        seen.append(1)
        if len(seen) == 9:
            raise KeyboardInterrupt

    fit = lambda **more: GIBTrainer(**settings).fit(bonds[:80], valid=bonds[80:100], progress=False, **more)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = fit()
        with pytest.raises(KeyboardInterrupt):
            fit(checkpoint=tmp_path / "run", callbacks=stop)
        resumed = fit(checkpoint=tmp_path / "run")
    assert same_state(whole.model, resumed.model)
    other = [graph.clone() for graph in bonds[:80]]
    other[0].edge_attr = other[0].edge_attr.flip(1)
    with pytest.raises(ValueError, match="expected a checkpoint of this config and these graphs"):
        GIBTrainer(**settings).fit(other, valid=bonds[80:100], progress=False, checkpoint=tmp_path / "run")


# ---- models of others, called in their own way


class Theirs(nn.Module):
    "With edge features, in the order of many examples of PyG."

    def __init__(self):
        super().__init__()
        self.conv, self.out = GINEConv(nn.Sequential(nn.Linear(3, 16), nn.ReLU()), edge_dim=2), nn.Linear(16, 2)

    def logits(self, x, edge_index, edge_attr, batch):
        return self.out(global_add_pool(self.conv(x, edge_index, edge_attr), batch))

    def forward(self, x, edge_index, edge_attr, batch):
        return self.logits(x, edge_index, edge_attr, batch)


class Log(Theirs):
    def forward(self, x, edge_index, batch, edge_attr=None):
        return self.logits(x, edge_index, edge_attr, batch).log_softmax(1)


class OfData(Theirs):
    def forward(self, data):
        return self.logits(data.x, data.edge_index, data.edge_attr, data.batch)


class Third(Theirs):
    def forward(self, nodes, edges, edge_attr, number):
        return self.logits(nodes, edges, edge_attr, number), nodes


class NodesFirst(Theirs):
    def forward(self, x, edge_index, edge_attr, *, batch):
        return x, self.logits(x, edge_index, edge_attr, batch)


@pytest.fixture(scope="module")
def theirs(bonds):
    with LocalRandomness(0):
        model = Theirs()
    batch, optimizer = Batch.from_data_list(bonds[:80]), torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch.x, batch.edge_index, batch.edge_attr, batch.batch), batch.y).backward()
        optimizer.step()
    return model.eval()


@pytest.mark.parametrize(
    "kind", [Log, *(pytest.param(each, marks=pytest.mark.slow) for each in (Theirs, OfData, Third, NodesFirst))]
)
def test_models_with_edge_features_are_explained(kind, theirs, bonds, tmp_path):
    model = kind()
    model.load_state_dict(theirs.state_dict())
    batch = Batch.from_data_list(bonds[100:])
    logits = theirs(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
    assert (logits.argmax(1) == batch.y).float().mean() > 0.9
    found = call_classifier(model, batch.x, batch.edge_index, batch.batch, **edges_of(batch))
    torch.testing.assert_close(found.softmax(1), logits.softmax(1))
    unlabeled = [Data(x=g.x, edge_index=g.edge_index, edge_attr=g.edge_attr) for g in bonds]
    trainer = of_bonds(unlabeled, model=model, encoder="gine", **JOINT | dict(epochs=20, pretrain_epochs=2))
    assert (trainer.predict(unlabeled[100:]) == batch.y.numpy()).mean() > 0.9
    trainer.save(tmp_path)
    again = GIBTrainer.load(tmp_path, model=model)
    assert (again.predict(unlabeled) == trainer.predict(unlabeled)).all()
    short = JOINT | dict(epochs=3, pretrain_epochs=1, rampup_epochs=1)
    for encoder, warned in (("gine", False), ("gin", True)):
        blind, said = caught(lambda: GIBTrainer(model=model, encoder=encoder, **short).fit(unlabeled, progress=False))
        assert any("the network of the mask does not" in str(each.message) for each in said) == warned
    assert blind.spec.edge_channels == 2  # the model reads them, the mask does not
    with pytest.raises(ValueError, match="edge_attr"):
        trainer.predict([Data(x=g.x, edge_index=g.edge_index) for g in bonds])


def test_a_model_that_needs_edge_features_says_so(theirs, bonds):
    with pytest.raises(ValueError, match="expected graphs with edge_attr, which Theirs needs .got none"):
        of_bonds([Data(x=g.x, edge_index=g.edge_index) for g in bonds], model=theirs, **JOINT)


@pytest.mark.parametrize(
    "answer, expected",
    [
        (lambda n, g: torch.ones(g), (2, 1)),
        (lambda n, g: torch.ones(g, 1), (2, 1)),
        (lambda n, g: torch.ones(g, 3), (2, 3)),
        (lambda n, g: (torch.ones(n, 4), torch.ones(g, 3)), (2, 3)),
        (lambda n, g: [torch.ones(g, 3), torch.ones(g, 8)], (2, 3)),
        (lambda n, g: torch.ones(g, 3, dtype=torch.long), "int64 .2, 3."),
        (lambda n, g: torch.ones(n, 3), r"float32 .5, 3."),
        (lambda n, g: torch.ones(g, 3, 1), r"float32 .2, 3, 1."),
        (lambda n, g: {"logits": torch.ones(g, 3)}, "got dict"),
        (lambda n, g: None, "got NoneType"),
        (lambda n, g: (), "got nothing"),
    ],
)
def test_answers_that_can_be_read_off(answer, expected):
    class Answers(nn.Module):
        def forward(self, x, edge_index, batch):
            return answer(len(x), int(batch.max()) + 1)

    graph = features(5), PATH, torch.tensor([0, 0, 0, 0, 1])
    if isinstance(expected, tuple):
        assert call_classifier(Answers(), *graph).shape == expected
    else:
        with pytest.raises(
            ValueError, match=f"logits .N, C., or of values .N. or .N, 1..*for N = 2 graphs.*{expected}"
        ):
            call_classifier(Answers(), *graph)


def test_one_graph_may_be_squeezed():
    class Squeezed(nn.Module):
        def forward(self, data):
            return torch.ones(data.num_graphs, 3).squeeze()

    graph = features(4), PATH, torch.zeros(4, dtype=torch.long)
    assert call_classifier(Squeezed(), *graph).shape == (1, 3)


def test_pyg_gets_edge_features_too(bonds):
    trainer = of_bonds(bonds, encoder="gine", **JOINT | dict(epochs=17))
    graph = bonds[100]
    model = GraphPredictor(trainer)
    torch.testing.assert_close(
        model(graph.x, graph.edge_index, edge_attr=graph.edge_attr), trainer.explain(graph).prediction
    )
    explainer = Explainer(
        model,
        GIBExplainer(trainer),
        explanation_type="model",
        node_mask_type="object",
        edge_mask_type="object",
        model_config=dict(mode="multiclass_classification", task_level="graph", return_type="raw"),
    )
    found = explainer(graph.x, graph.edge_index, edge_attr=graph.edge_attr)
    torch.testing.assert_close(found.edge_mask, trainer.explain(graph).edge_mask)
    with pytest.raises(ValueError, match="expected edge_attr of shape .12, 2."):
        model(graph.x, graph.edge_index)


def test_a_mask_reaches_layers_derived_from_those_of_pyg():
    class Derived(SAGEConv):
        pass

    SAGEConv(3, 4)(features(), PATH)  # compiled before
    layer = Derived(3, 4)
    whole = layer(features(), PATH)
    kept = torch.tensor([1.0, 1, 0, 0, 0, 0])
    torch.testing.assert_close(masked_forward(0 * kept, layer, features(), PATH), layer(features(), PATH[:, :0]))
    for _ in range(2):
        assert torch.equal(layer(features(), PATH), whole)
        torch.testing.assert_close(masked_forward(torch.ones(6), layer, features(), PATH), whole)


@pytest.mark.parametrize("mask_on", ["nodes", "edges"])
def test_several_networks_of_a_mask_vote_by_their_logits(mask_on):
    "Depths 2, 1 and 0, and no less; the mask is the mean of the logits of all of them."
    settings = dict(mask_on=mask_on, generator_num_layers=2, norm=None)
    model = ReencodingGIB(3, 2, "gin", 8, 2, generator_num_networks=4, **settings).eval()
    x, edge_index = torch.randn(4, 3), torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    assert [type(network.backbone).__name__ for network in model.mask_networks] == ["GIN", *["FeatureEncoder"] * 2]
    assert model.mask_networks[0].backbone.num_layers == 1
    nodes, p, mask = model.mask(x, edge_index)
    each = [generate(model.generator, nodes, edge_index), *(net(x, edge_index) for net in model.mask_networks)]
    found = torch.stack([values.logit(1e-6) for values in each]).mean(0).sigmoid()
    assert torch.equal(mask if mask_on == "edges" else p, found)


def test_the_networks_of_a_mask_are_trained_and_frozen_together():
    model = ReencodingGIB(3, 2, "gin", 8, 2, generator_num_layers=1, generator_num_networks=2)
    for half, learns in (("mask", True), ("classifier", False)):
        model.set_trainable(half)
        assert {parameter.requires_grad for parameter in model.mask_networks.parameters()} == {learns}
        assert model.mask_networks[0].training == learns
