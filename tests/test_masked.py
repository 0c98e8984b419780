"Classifiers that read through a mask: edges, chance, a classifier that learns apart, and training all of it."
import warnings

import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.explain import Explainer
from torch_geometric.explain.algorithm.utils import set_masks
from torch_geometric.explain.metric import fidelity
from torch_geometric.nn import GIN, SimpleConv

from gib_nb.comparison import apart_config, both_ways, fit_classifier
from gib_nb.data import motif_dataset
from gib_nb.explainer import GIBExplainer, GraphPredictor
from gib_nb.masked import EdgeGenerator, EncodeAgainGIB, FeatureEncoder, PostHocGIB, masked_messages, random_masks, relaxed_sample, through, undirected
from gib_nb.reproducible import LocalRandomness
from gib_nb.trainer import GIBConfig, GIBTrainer, InputFormat, Run, build_model, fingerprint, learning_rate, part_of, share_bound, train_epoch

PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
SMALL = dict(hidden_channels=8, restarts=0, batch_size=16)
APART = dict(classifier_epochs=4, **SMALL)  # of apart_config: four epochs for the classifier, two for the generator, four for the classifier again


def model_of(**settings):
    torch.manual_seed(0)
    return EncodeAgainGIB(3, 2, hidden_channels=8, **settings).eval()


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
def apart(trees):
    return fitted(apart_config(**APART), trees)


# ---- masks

@pytest.mark.parametrize("logits", [False, True])
def test_masks_multiply_and_the_outer_one_comes_back(logits):
    torch.manual_seed(0)
    gnn, x, outer, inner = GIN(3, 4, 1, norm=None).eval(), features(), torch.tensor([.5, .5, 1, 1, .2, .2]), torch.tensor([1., 1, .3, .3, .5, .5])
    with masked_messages(gnn, outer * inner, PATH):
        both = gnn(x, PATH)
    set_masks(gnn, outer.logit(1e-7) if logits else outer, PATH, apply_sigmoid=logits)
    alone = gnn(x, PATH)
    with masked_messages(gnn, inner, PATH):
        torch.testing.assert_close(gnn(x, PATH), both)
    assert torch.equal(gnn(x, PATH), alone) and not torch.allclose(both, alone)


def test_directions_of_an_edge_share_a_number():
    assert undirected(torch.tensor([[3, 0, 1, 0, 2, 2], [0, 1, 0, 3, 2, 3]])).tolist() == [1, 0, 0, 1, 2, 3]
    assert undirected(torch.empty(2, 0, dtype=torch.long)).shape == (0,)


def test_samples_follow_the_probability_and_pass_gradients():
    torch.manual_seed(0)
    p = torch.tensor([0., .1, .5, .9, 1.], requires_grad=True)
    draws = torch.stack([relaxed_sample(p) for _ in range(20_000)])
    torch.testing.assert_close((draws > .5).double().mean(0), p.detach().double(), atol=.015, rtol=0)
    draws.mean().backward()
    assert draws.isfinite().all() and p.grad.isfinite().all() and (p.grad[1:4] > 0).all()
    together = relaxed_sample(torch.full((4,), .5), torch.tensor([0, 1, 1, 0]))
    assert together[0] == together[3] and together[1] == together[2] != together[0]


def test_random_masks_are_symmetric_and_differ_in_share():
    torch.manual_seed(0)
    graphs = Batch.from_data_list([Data(edge_index=PATH, num_nodes=4)] * 400)
    mask = random_masks(graphs.edge_index, graphs.batch, 400)
    assert torch.equal(mask[0::2], mask[1::2]) and ((mask >= 0) & (mask <= 1)).all() and abs(mask.mean() - .5) < .05
    shares = (mask.view(400, 6) > .5).double().mean(1)
    assert (shares == 0).any() and (shares == 1).any()


def test_a_network_that_cannot_be_masked_is_refused():
    class Deaf(nn.Module):
        out_channels = 4

        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 4)

        def forward(self, x, edge_index, batch=None):
            return self.linear(x)

    for make in (lambda: EncodeAgainGIB(3, 2, Deaf()), lambda: PostHocGIB(Deaf(), 3, 2)):
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
    model, x = model_of(assign="edges"), features(5)
    output = model(x, PATH)
    p = output.edge_mask[0::2]
    torch.testing.assert_close(output.assignment[:, 0], torch.stack([p[0], torch.max(p[0], p[1]), torch.max(p[1], p[2]), p[2], torch.tensor(0.)]))
    assert (output.assignment.sum(1) == 1).all()


@pytest.mark.parametrize("assign", ["nodes", "edges"])
@pytest.mark.parametrize("sight", [None, 0, 1])
def test_batched_as_alone_and_odd_graphs(assign, sight):
    model, graphs = model_of(assign=assign, generator_layers=sight), [(features(4, 1), PATH), (features(1), PATH[:, :0]), (features(4, 2), PATH), (features(2), PATH[:, :2])]
    batch = Batch.from_data_list([Data(x=x, edge_index=edges) for x, edges in graphs])
    together, starts = model(batch.x, batch.edge_index, batch.batch, 5), 0
    assert together.prediction.shape == (5, 2) and all(value.isfinite().all() for value in vars(together).values())
    mask = together.edge_mask.split([edges.size(1) for _, edges in graphs])
    for i, (x, edges) in enumerate(graphs):
        alone = model(x, edges)
        torch.testing.assert_close(alone.prediction[0], together.prediction[i])
        torch.testing.assert_close(alone.edge_mask, mask[i])
    p, masks, prediction, whole = model.explain(batch.x, batch.edge_index, batch.batch, 5)
    torch.testing.assert_close(prediction, together.prediction)
    assert torch.equal(masks, together.edge_mask) and torch.equal(p, together.assignment[:, 0]) and not torch.allclose(whole[0], prediction[0])


@pytest.mark.parametrize("assign", ["nodes", "edges"])
def test_the_order_of_nodes_and_edges_does_not_matter(assign):
    model, x, nodes, edges = model_of(assign=assign), features(), torch.tensor([2, 0, 3, 1]), torch.tensor([5, 1, 2, 0, 4, 3])
    before = model(x, PATH)
    after = model(x[nodes], nodes.argsort()[PATH[:, edges]])
    torch.testing.assert_close(after.prediction, before.prediction)
    torch.testing.assert_close(after.edge_mask, before.edge_mask[edges])
    torch.testing.assert_close(after.assignment, before.assignment[nodes])


def test_sight_ends_where_it_should():
    changed = features()
    changed[3] += 1
    first_edge = {}
    for sight in (0, 1, 2, 3):
        model = model_of(assign="edges", generator_layers=sight, norm=None)
        first_edge[sight] = float((model(features(), PATH).edge_mask - model(changed, PATH).edge_mask)[0].abs())
    assert first_edge[0] == first_edge[1] == 0 and first_edge[2] > 0 and first_edge[3] > 0  # node 3 is two edges from the nearer end
    assert isinstance(model_of(generator_layers=0).backbone, FeatureEncoder)


def test_chance_is_for_training_alone():
    model = model_of(assign="edges", stochastic=True, norm=None)
    predict = lambda: model(features(), PATH).prediction
    assert torch.equal(predict(), predict())
    model.train()
    assert not torch.equal(predict(), predict())
    assert torch.equal(model(features(), PATH).edge_mask, model.eval()(features(), PATH).edge_mask)  # what is reported is the probability
    nodes = model_of(stochastic=True, norm=None).train()
    assert not torch.equal(nodes(features(), PATH).prediction, nodes(features(), PATH).prediction)


def test_only_the_mask_tells_the_classifier_of_edges():
    model = model_of()
    bent = torch.tensor([[0, 1, 1, 2, 1, 3], [1, 0, 2, 1, 3, 1]])
    mask, batch = torch.tensor([1., 1, 1, 1, 0, 0]), torch.zeros(4, dtype=torch.long)
    read = lambda edges, *mask: model.answer(features(), edges, batch, 1, *mask)
    torch.testing.assert_close(read(PATH, mask), read(bent, mask))
    assert not torch.allclose(read(PATH), read(bent))


def test_several_readers_answer_with_the_mean_of_their_logits():
    model, batch, mask = model_of(readers=3), torch.zeros(4, dtype=torch.long), torch.tensor([1., 1, .5, .5, 0, 0])
    for seen in (mask, None):
        each = torch.stack([through(seen, reader, features(), PATH) for reader in model.classifier])
        torch.testing.assert_close(model.answer(features(), PATH, batch, 1, seen), each.mean(0))
        assert each.std(0).min() > 0
        product = each.softmax(2).log().mean(0).softmax(1)  # a geometric mean of their probabilities
        torch.testing.assert_close(model.answer(features(), PATH, batch, 1, seen).softmax(1), product)


# ---- training

def test_readers_that_learn_alone_do_not_hear_of_each_other(trees):
    config = apart_config(**APART | {"readers": 2, "dropout": 0.})
    form = InputFormat.of(trees.graphs)
    run = Run(config, form, form.prepare(trees.train), form.prepare(trees.valid))
    batch, gradients = Batch.from_data_list(run.train[:16]), {}
    for scale in (1, 2):
        run.randomness = LocalRandomness(0)
        with torch.no_grad():
            run.model.classifier[1].head[-1].weight.mul_(scale)
        run.model.zero_grad()
        run.lesson(batch).backward()
        gradients[scale] = [[weight.grad.clone() for weight in reader.parameters()] for reader in run.model.classifier]
    same = [all(torch.equal(a, b) for a, b in zip(gradients[1][i], gradients[2][i])) for i in range(2)]
    assert same == [True, False]


def test_the_bound_by_hand():
    output = model_of(assign="edges")(features(), PATH)
    for assign, p in (("edges", output.edge_mask), ("nodes", output.assignment[:, 0])):
        config = GIBConfig(encode_again=True, assign=assign, prior=.2)
        bernoulli = torch.distributions.Bernoulli
        expected = torch.distributions.kl_divergence(bernoulli(p), bernoulli(torch.tensor(.2))).mean()
        torch.testing.assert_close(share_bound(output, config), expected)
    nothing = model_of(assign="edges")(features(2), PATH[:, :0])
    assert share_bound(nothing, GIBConfig(encode_again=True, assign="edges", prior=.2)) == 0


def test_graphs_may_bring_a_prior(trees):
    own = lambda share: [Data(**graph.to_dict(), prior=torch.full((graph.num_nodes,), share)) for graph in trees.train[:20]]
    losses = lambda graphs, prior: [epoch["loss"] for epoch in GIBTrainer(GIBConfig(prior=prior, beta=5., epochs=3, warmup=0, ramp=0, **SMALL)).fit(graphs, valid=graphs, progress=False)
                                    .history["epochs"]]
    assert losses(own(.2), .9) == losses(trees.train[:20], .2) != losses(own(.3), .2)
    for bad in (torch.tensor([.5]), torch.zeros(trees.train[0].num_nodes), "much", torch.full((trees.train[0].num_nodes,), float("nan"))):
        with pytest.raises(ValueError, match="graph 0: expected prior"):
            GIBTrainer(prior=.5).fit([Data(**trees.train[0].to_dict(), prior=bad), *own(.2)[1:5]], valid=trees.train[:5])
    with pytest.raises(ValueError, match="graph 1: expected prior of shape .*as other graphs have one"):
        GIBTrainer(prior=.5).fit([*own(.2)[:1], *trees.train[1:5]], valid=trees.train[:5])
    with pytest.raises(ValueError, match="neither included"):
        GIBTrainer(prior=.5).fit([Data(**graph.to_dict(), prior=torch.full((graph.num_nodes,), 1 - 1e-12, dtype=torch.double)) for graph in trees.train[:5]], valid=trees.train[:5])
    form, config = InputFormat.of(trees.train), GIBConfig(prior=.5)
    assert len({fingerprint(config, form.prepare(graphs, labels=True, prior="nodes"), []) for graphs in (trees.train[:20], own(.2), own(.3))}) == 3
    edges = [Data(**graph.to_dict(), prior=torch.full((graph.num_edges,), .2)) for graph in trees.train[:20]]
    GIBTrainer(GIBConfig(prior=.5, encode_again=True, assign="edges", epochs=3, warmup=0, ramp=0, **SMALL)).fit(edges, valid=edges, progress=False)


def test_the_learning_rate_falls_in_each_part():
    config = GIBConfig(learning_rate=.1, anneal=True, warmup=2, ramp=0, epochs=6)
    assert [round(learning_rate(epoch, config), 5) for epoch in range(6)] == [.1, .05, .1, .08536, .05, .01464]
    assert learning_rate(5, GIBConfig(learning_rate=.1)) == .1
    config = GIBConfig(learning_rate=.1, anneal=True, warmup=1, ramp=0, closing=2, epochs=5, encode_again=True, independent=True)
    assert [part_of(epoch, config) for epoch in range(5)] == [("warm-up", 0, 1), ("main", 1, 3), ("main", 1, 3), ("closing", 3, 5), ("closing", 3, 5)]
    assert [round(learning_rate(epoch, config), 5) for epoch in range(5)] == [.1, .1, .05, .1, .05]


def test_classifier_first_then_generator_then_classifier(trees):
    config = apart_config(**APART)
    form = InputFormat.of(trees.graphs)
    run = Run(config, form, form.prepare(trees.train), form.prepare(trees.valid))
    snapshot = lambda: {name: value.clone() for name, value in run.model.state_dict().items()}
    changed = lambda before: {name.split(".")[0] for name, value in run.model.state_dict().items() if not torch.equal(value, before[name])}
    for epoch in range(config.epochs):
        before = snapshot()
        train_epoch(run)
        assert changed(before) == ({"backbone", "generator"} if part_of(epoch, config)[0] == "main" else {"classifier"})
    assert run.epochs[-1]["loss"] == pytest.approx(run.epochs[-1]["classification"] + share_bound(run.model.eval()(*whole(form.prepare(trees.valid))), config).item(), rel=1e-4)


def whole(graphs):
    batch = Batch.from_data_list(graphs)
    return batch.x, batch.edge_index, batch.batch, batch.num_graphs


def test_stopped_and_resumed_it_ends_the_same(trees, apart, tmp_path):
    for stop in (1, 5, 7):
        def interrupt(record, stop=stop):
            if record["epoch"] == stop:
                raise KeyboardInterrupt
        file = tmp_path / f"{stop}.safetensors"
        with pytest.raises(KeyboardInterrupt):
            GIBTrainer(apart_config(**APART)).fit(trees.train, valid=trees.valid, checkpoint=file, progress=False, callback=interrupt)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            resumed = GIBTrainer(apart_config(**APART)).fit(trees.train, valid=trees.valid, checkpoint=file, progress=False)
        assert [step["loss"] for step in resumed.history["steps"]] == [step["loss"] for step in apart.history["steps"]]
        assert torch.equal(resumed.subgraph(trees.test[0]).edge_mask, apart.subgraph(trees.test[0]).edge_mask)


def test_readers_are_taken_over_and_stay(trees, tmp_path):
    settings = APART | {"closing": 0, "readers": 2}
    first = fitted(apart_config(**settings), trees)
    weights = {name: value.clone() for name, value in first.model.classifier.state_dict().items()}
    second = GIBTrainer(apart_config(**settings | {"prior": .5}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        second.fit(trees.train, valid=trees.valid, readers=first.model.classifier, progress=False, checkpoint=tmp_path / "a.safetensors")
    for model in (first.model, second.model):  # and the first trainer is not disturbed
        assert all(torch.equal(value, weights[name]) for name, value in model.classifier.state_dict().items())
    assert {step["epoch"] for step in second.history["steps"]} == {4, 5} and all(0 < step["kept"] < 1 for step in second.history["steps"])
    assert not torch.equal(first.subgraph(trees.test[0]).edge_mask, second.subgraph(trees.test[0]).edge_mask)
    with pytest.raises(ValueError, match="written for others"):  # a checkpoint knows whose readers it was made with
        second.fit(trees.train, valid=trees.valid, progress=False, checkpoint=tmp_path / "a.safetensors")
    with pytest.raises(ValueError, match="expected 2 readers of this config"):
        second.fit(trees.train, valid=trees.valid, readers=first.model.classifier[:1], progress=False)
    with pytest.raises(ValueError, match="independent=True with readers"):
        GIBTrainer(GIBConfig(**SMALL)).fit(trees.train, valid=trees.valid, readers=first.model.classifier, progress=False)


def test_saved_and_loaded(trees, apart, tmp_path):
    apart.save(tmp_path)
    loaded = GIBTrainer.load(tmp_path)
    for ours, theirs in zip(apart.subgraph(trees.test), loaded.subgraph(trees.test)):
        assert torch.equal(ours.edge_mask, theirs.edge_mask) and torch.equal(ours.whole_prediction, theirs.whole_prediction)


def test_a_backbone_of_ones_own_reads_again(trees):
    class Mean(nn.Module):
        out_channels = 8

        def __init__(self, width):
            super().__init__()
            self.linear, self.conv = nn.Linear(width, 8), SimpleConv()

        def forward(self, x, edge_index):
            return self.conv(self.linear(x), edge_index).relu()

    trainer = fitted(GIBConfig(encode_again=True, readers=2, epochs=3, warmup=1, ramp=1, inner_steps=1, **SMALL), trees, backbone=Mean)
    first, second = (reader.backbone for reader in trainer.model.classifier)
    assert first is not second and trainer.model.backbone not in (first, second) and trainer.predict(trees.test).shape == (len(trees.test),)
    assert not torch.equal(first.linear.weight, second.linear.weight)


def test_post_hoc_with_edges_and_a_prior(trees):
    theirs = fit_classifier(trees.train, trees.valid, epochs=3)
    config = GIBConfig(assign="edges", stochastic=True, generator_layers=1, prior=.3, beta=1., epochs=3, warmup=1, ramp=1, **SMALL)
    graph = trees.test[0]
    mask = fitted(config, trees, explained=theirs).subgraph(graph).edge_mask
    torch.testing.assert_close(mask, both_ways(mask, graph.edge_index))
    assert mask.std() > 0


def test_metrics_of_pyg_on_the_classifier_and_on_the_subgraph(trees, apart):
    for predictor in (GraphPredictor(apart, whole=True), GraphPredictor(apart)):
        explainer = Explainer(predictor, GIBExplainer(apart), explanation_type="model", node_mask_type="object", edge_mask_type="object",
                              model_config=dict(mode="multiclass_classification", task_level="graph", return_type="raw"))
        explanation = explainer(trees.test[0].x, trees.test[0].edge_index)
        assert torch.equal(explanation.edge_mask, apart.subgraph(trees.test[0]).edge_mask) and all(0 <= value <= 1 for value in fidelity(explainer, explanation))


@pytest.mark.parametrize("settings, words", [
    (dict(independent=True), "encode_again=True and a warm-up with independent=True"),
    (dict(independent=True, encode_again=True, warmup=0), "encode_again=True and a warm-up with independent=True"),
    (dict(readers=2), "encode_again=True with several readers"),
    (dict(readers=0), "readers as an integer ≥ 1"),
    (dict(closing=2), "independent=True with closing epochs"),
    (dict(independent=True, encode_again=True, warmup=50, ramp=0, closing=50), "epochs > warmup . ramp . closing = 100"),
    (dict(prior=0.), "prior as None or a share between 0 and 1"),
    (dict(prior=1), "prior as None or a share between 0 and 1"),
    (dict(generator_layers=-1), "generator_layers as None, or"),
    (dict(generator_layers=1, backbone="custom"), "generator_layers as None, or"),
    (dict(assign="faces"), "assign to be one of nodes, edges"),
    (dict(stochastic=1), "stochastic as True or False")])
def test_settings_that_cannot_work_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        GIBConfig(**settings)


def test_a_given_model_reads_for_itself(trees):
    theirs = fit_classifier(trees.train, trees.valid, epochs=1)
    for settings in (dict(encode_again=True), dict(encode_again=True, readers=2), APART):
        config = apart_config(**settings) if settings is APART else GIBConfig(**settings)
        with pytest.raises(ValueError, match="encode_again=False with a model to explain"):
            build_model(config, InputFormat.of(trees.train), explained=theirs)


def test_several_readers_beside_a_module_have_backbones_of_their_own():
    backbone = lambda: GIN(3, 8, 1)
    assert len(EncodeAgainGIB(3, 2, backbone()).classifier) == 1 and len(EncodeAgainGIB(3, 2, backbone(), readers=[backbone(), backbone()]).classifier) == 2
    for readers in (0, 2, []):
        with pytest.raises(ValueError, match="at least one reader, and a list of backbones"):
            EncodeAgainGIB(3, 2, backbone(), readers=readers)


@pytest.mark.parametrize("settings", [dict(assign="edges"), dict(stochastic=True), dict(generator_layers=1)])
def test_what_needs_a_reading_classifier_says_so(trees, settings):
    with pytest.raises(ValueError, match="need encode_again=True, or a model to explain"):
        GIBTrainer(GIBConfig(**settings)).fit(trees.train, progress=False)


@pytest.mark.slow
def test_it_finds_the_edge_that_makes_the_label():
    "Rings of six coloured nodes; those with an edge between red and blue are of class 1, and nothing else tells them apart."
    generator = torch.Generator().manual_seed(0)
    ring = torch.arange(6)
    edges = torch.cat([torch.stack([ring, ring.roll(-1)]), torch.stack([ring.roll(-1), ring])], 1)
    graphs = []
    while len(graphs) < 400:
        colour = torch.tensor([0, 1, 2, 2, 3, 3])[torch.randperm(6, generator=generator)]
        truth = (colour[edges].sum(0) == 1).float()  # red is 0, blue is 1; the others add up to more
        if (y := int(truth.any())) != len(graphs) % 2:
            continue
        graphs.append(Data(x=torch.eye(4)[colour], edge_index=edges, y=torch.tensor([y]), edge_mask=truth))
    config = apart_config(20, prior=.1, learning_rate=.005, hidden_channels=32, restarts=0, batch_size=32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = GIBTrainer(config).fit(graphs[:300], valid=graphs[300:340], progress=False)
    positive = [graph for graph in graphs[340:] if graph.y]
    found = torch.cat([e.edge_mask for e in trainer.subgraph(positive)])
    assert roc_auc_score(torch.cat([graph.edge_mask for graph in positive]), found) > .97
    assert torch.cat([e.whole_prediction for e in trainer.subgraph(graphs[340:])]).argmax(1).eq(torch.cat([graph.y for graph in graphs[340:]])).double().mean() > .95
