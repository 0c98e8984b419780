"Networks without a bottleneck: every batch as its graphs alone, any order, the trainer, and attention as an explanation."

import functools
import math
import pathlib

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from torch_geometric.data import Batch, Data

from gib_nb.data.synthetic import motif_dataset
from gib_nb.explain.attention import TopKAttentionExplainer
from gib_nb.nn.pooling import (
    NETWORKS,
    AttentionPool,
    DiffPool,
    PoolingNetwork,
    SortPool,
    SumFeatures,
    apply_in_chunks,
    random_subgraph,
    sort_by_graph,
    topk_ratio,
)
from gib_nb.train.classifier_trainer import ClassifierTrainer

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4, 4, 0], [1, 0, 2, 1, 3, 2, 4, 3, 0, 4]])


def features(n, seed=0):
    return torch.rand(n, 3, generator=torch.Generator().manual_seed(seed))


def network(name, **more):
    torch.manual_seed(0)
    return NETWORKS[name](3, 2, hidden_channels=8, num_layers=3, **more).eval()


@pytest.fixture(scope="module")
def trees():
    return motif_dataset(60, base_nodes=6)


ODD = [
    (features(5, 1), EDGES),
    (features(1), EDGES[:, :0]),
    (features(4, 2), EDGES[:, :0]),
    (features(5, 3), EDGES[:, :8]),
    (features(2, 4), EDGES[:, :2]),
]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_batch_is_answered_as_its_graphs(name):
    model, batch = network(name), Batch.from_data_list([Data(x=x, edge_index=edges) for x, edges in ODD])
    together = model(batch.x, batch.edge_index, batch.batch, len(ODD) + 1)
    assert together.shape == (len(ODD) + 1, 2) and together.isfinite().all()  # the last graph has no nodes
    for row, (x, edges) in zip(together, ODD):
        torch.testing.assert_close(model(x, edges)[0], row, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_order_of_nodes_and_edges_does_not_matter(name):
    model, x, nodes, edges = (
        network(name),
        features(5),
        torch.tensor([2, 0, 4, 3, 1]),
        torch.tensor([5, 1, 2, 0, 9, 4, 3, 8, 7, 6]),
    )
    torch.testing.assert_close(model(x[nodes], nodes.argsort()[EDGES[:, edges]]), model(x, EDGES), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_nodes_of_graphs_may_lie_mixed(name):
    model, graphs = network(name), Batch.from_data_list([Data(x=x, edge_index=edges) for x, edges in ODD])
    order = torch.randperm(len(graphs.x), generator=torch.Generator().manual_seed(0))
    mixed = model(graphs.x[order], order.argsort()[graphs.edge_index], graphs.batch[order], len(ODD))
    torch.testing.assert_close(mixed, model(graphs.x, graphs.edge_index, graphs.batch, len(ODD)), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_weight_learns(name):
    torch.manual_seed(0)
    model = NETWORKS[name](3, 2, hidden_channels=8, num_layers=3).train()
    batch = Batch.from_data_list([Data(x=features(5, seed) + 1, edge_index=EDGES) for seed in range(8)])
    torch.nn.functional.cross_entropy(model(batch.x, batch.edge_index, batch.batch), torch.arange(8) % 2).backward()
    unused = (
        ["pools.0.select.weight", "pools.1.select.weight"] if name == "asa_pool" else []
    )  # PyG's ASAPooling carries a projection that it does not use
    assert [
        key for key, weight in model.named_parameters() if weight.grad is None or not weight.grad.isfinite().all()
    ] == unused


def test_graph_by_graph_keeps_the_graphs():
    x, batch, edges = torch.arange(4.0)[:, None], torch.tensor([1, 0, 1, 0]), torch.tensor([[0, 2, 1, 3], [2, 0, 3, 1]])
    nodes, sorted_edges, sorted_batch, count = sort_by_graph(x, edges, batch, None)
    assert sorted_batch.tolist() == [0, 0, 1, 1] and count == 2 and nodes[:, 0].tolist() == [1, 3, 0, 2]
    assert {tuple(nodes[edge, 0].tolist()) for edge in sorted_edges.t()} == {
        tuple(x[edge, 0].tolist()) for edge in edges.t()
    }


@pytest.mark.parametrize("most", [1, 30, 10**9])
@pytest.mark.parametrize(
    "network, limit",
    [
        (functools.partial(DiffPool, nodes=8), "max_dense_entries"),
        (functools.partial(PoolingNetwork, pool="asa_pool"), "max_edges"),
        (functools.partial(PoolingNetwork, pool="edge_pool"), "max_edges"),
    ],
)
def test_answers_and_gradients_do_not_depend_on_the_groups(network, limit, most):
    batch = Batch.from_data_list([Data(x=x, edge_index=edges) for x, edges in ODD])
    found = []
    for entries in (most, 4_000_000):
        torch.manual_seed(0)
        model = network(3, 2, 8, 3, **{limit: entries}).eval()
        answer = model(batch.x, batch.edge_index, batch.batch)
        answer.square().sum().backward()
        found.append([answer, *(weight.grad for weight in model.parameters() if weight.grad is not None)])
    assert len(found[0]) > 8
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("limit", [1, 6, 12, 100])
def test_groups_keep_within_their_limit(limit):
    graphs = [Data(x=torch.ones(n, 1) * n, edge_index=torch.empty(2, 0, dtype=torch.long)) for n in (3, 1, 5, 2, 2, 6)]
    batch, asked = Batch.from_data_list(graphs), []

    def pooled(x, edge_index, batch, number):
        sizes = torch.bincount(batch, minlength=number)
        asked.append((number, int(sizes.max())))
        return sizes[:, None].float() * torch.ones(1, requires_grad=True)

    rows = apply_in_chunks(pooled, torch.tensor([3, 1, 5, 2, 2, 6]), limit, batch.x, batch.edge_index, batch.batch, 6)
    assert rows[:, 0].tolist() == [3, 1, 5, 2, 2, 6] and sum(number for number, _ in asked) == 6
    assert (
        all(number == 1 or number * largest <= limit for number, largest in asked)
        and len(asked) == {1: 6, 6: 4, 12: 2, 100: 1}[limit]
    )


def test_sort_pool_reads_the_nodes_with_the_largest_last_channel():
    torch.manual_seed(0)
    model, x = SortPool(3, 2, 8, 1, k=5).eval(), features(9)
    edges = torch.empty(2, 0, dtype=torch.long)
    last = model.convs[0](x, edges)[:, -1]
    changed = x.clone()
    changed[last.argmin()] = x[last.argmin()] - 1e-4  # it stays the last of nine, and is not read
    assert torch.equal(model(x, edges), model(changed, edges))


def test_structure_blind_sees_no_edges_and_counts_features():
    torch.manual_seed(0)
    model, x = SumFeatures(3, 2, 8).eval(), features(5)
    assert torch.equal(model(x, EDGES), model(x, EDGES[:, :2]))
    torch.testing.assert_close(model(x, EDGES), model(x.sum(0, keepdim=True), EDGES[:, :0]))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.7, 1.0])
def test_top_share_against_the_plain_way(share):
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        batch = torch.randint(4, (23,), generator=generator)
        values = torch.rand(23, generator=generator)
        expected = torch.zeros(23, dtype=torch.bool)
        for graph in batch.unique().tolist():
            mine = (batch == graph).nonzero()[:, 0].tolist()
            expected[sorted(mine, key=lambda i: -values[i])[: math.ceil(share * len(mine) - 1e-9)]] = True
        assert torch.equal(topk_ratio(values, batch, share), expected)


def test_equal_values_are_chosen_by_chance_and_not_by_place():
    batch, values = torch.zeros(10, dtype=torch.long), torch.tensor([2.0] + [1.0] * 8 + [0.0])
    found = torch.stack([topk_ratio(values, batch, 0.5, seed) for seed in range(400)])
    assert (found.sum(1) == 5).all() and found[:, 0].all() and not found[:, 9].any()
    torch.testing.assert_close(found[:, 1:9].double().mean(0), torch.full((8,), 0.5).double(), atol=0.12, rtol=0)
    assert torch.equal(topk_ratio(values, batch, 0.5), topk_ratio(values, batch, 0.5))


def test_a_random_half_is_half_and_says_the_same_again(trees):
    halves, again = random_subgraph(trees.train, 3), random_subgraph(trees.train, 3)
    for graph, half, same in zip(trees.train, halves, again):
        assert (
            half.num_nodes == math.ceil(graph.num_nodes / 2)
            and torch.equal(half.edge_index, same.edge_index)
            and half.y == graph.y
        )
        assert half.num_edges < graph.num_edges and (not half.num_edges or int(half.edge_index.max()) < half.num_nodes)
    other = random_subgraph(trees.train, 4)
    assert any(a.num_edges != b.num_edges for a, b in zip(halves, other))


def test_the_half_does_not_know_the_degrees_of_the_whole(trees):
    assert trees.degree_features is not None
    for half in random_subgraph(trees.train, 1, trees.degree_features):
        degree = torch.bincount(half.edge_index[0], minlength=half.num_nodes).clamp(
            max=trees.degree_features.max_degree
        )
        assert torch.equal(half.x.argmax(1), degree) and half.y is not None


def test_a_tail_batch_of_one_graph_is_no_trouble(trees):
    trainer = ClassifierTrainer("no_edges", hidden_channels=8, epochs=2, batch_size=len(trees.train) - 1).fit(
        trees.train, valid=trees.valid
    )
    assert (
        len(trainer.losses) == 2
        and np.isfinite(trainer.losses).all()
        and np.isfinite(trainer.predict_proba(trees.test)).all()
    )


# ---- the trainer


def test_one_seed_one_result(trees):
    fit = lambda seed: ClassifierTrainer("gcn", hidden_channels=8, epochs=3, seed=seed).fit(
        trees.train, valid=trees.valid
    )
    first, again, other = fit(1), fit(1), fit(2)
    assert (
        first.losses == again.losses != other.losses
        and first.loss == min(first.losses) == first.losses[first.best_epoch]
    )
    assert np.array_equal(first.predict_proba(trees.test), again.predict_proba(trees.test))


def test_predictions_and_scores(trees):
    trainer = ClassifierTrainer("graphsage", hidden_channels=8, epochs=3).fit(trees.train, valid=trees.valid)
    y, p = np.array([int(graph.y) for graph in trees.test]), trainer.predict_proba(trees.test)
    assert (
        p.shape == (len(y), 2)
        and np.allclose(p.sum(1), 1)
        and trainer.score(trees.test) == (p.argmax(1) == y).mean() == (trainer.predict(trees.test) == y).mean()
    )
    assert trainer.score(iter(trees.test)) == trainer.score(trees.test)


def test_values_keep_their_units():
    generator = torch.Generator().manual_seed(0)
    graphs = [Data(x=torch.rand(5, 3, generator=generator), edge_index=EDGES) for _ in range(120)]
    for graph in graphs:
        graph.y = 1000 + 50 * graph.x[:, 0].mean()[None]
    trainer = ClassifierTrainer("gin", hidden_channels=16, epochs=30, lr=0.01).fit(graphs[:80], valid=graphs[80:100])
    assert abs(trainer.predict(graphs[100:]).mean() - 1025) < 10 and trainer.score(graphs[100:]) > 0.5
    with pytest.raises(ValueError, match="expected a classification model"):
        trainer.predict_proba(graphs[100:])


def test_it_stops_when_nothing_improves(trees):
    trainer = ClassifierTrainer("gin", hidden_channels=8, epochs=60, patience=2, lr=0.05).fit(
        trees.train, valid=trees.valid
    )
    assert len(trainer.losses) == min(60, trainer.best_epoch + 3)


@pytest.mark.parametrize("name", NETWORKS)
def test_graphs_without_features_are_read_by_degree(name):
    graphs = [
        Data(edge_index=EDGES if i % 2 else EDGES[:, :8], num_nodes=5, y=torch.tensor([i % 2])) for i in range(20)
    ]
    trainer = ClassifierTrainer(name, hidden_channels=8, epochs=2).fit(graphs[:16], valid=graphs[16:])
    assert trainer.predict_proba(graphs).shape == (20, 2)


def test_what_cannot_be_trained_is_refused(trees):
    with pytest.raises(ValueError, match="network to be one of sort_pool"):
        ClassifierTrainer("transformer")
    with pytest.raises(NotFittedError, match="call fit first"):
        ClassifierTrainer().predict(trees.test)
    broken = ClassifierTrainer(lambda i, o: Broken(o), epochs=1)
    with pytest.raises(FloatingPointError, match="lower lr, or scale"):
        broken.fit(trees.train, valid=trees.valid)
    with pytest.raises(NotFittedError, match="call fit first"):
        broken.predict(trees.test)
    for settings in (
        dict(epochs=0),
        dict(patience=0),
        dict(num_layers=0),
        dict(hidden_channels=8.0),
        dict(batch_size=0),
    ):
        with pytest.raises(ValueError, match=f"expected {next(iter(settings))} as (None or )?an integer ≥ 1"):
            ClassifierTrainer(**settings)
    with pytest.raises(ValueError, match="graph 1: expected y"):
        ClassifierTrainer("gin", hidden_channels=8, epochs=1).fit(trees.train, valid=trees.valid).score(
            [trees.test[0], Data(x=trees.test[1].x, edge_index=trees.test[1].edge_index)]
        )


class Broken(torch.nn.Module):
    def __init__(self, out):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((out,), float("nan")))

    def forward(self, x, edge_index, batch, num_graphs):
        return self.weight.expand(num_graphs, -1)


# ---- attention


def test_attention_sums_to_one_and_is_what_pools():
    torch.manual_seed(0)
    model, batch = (
        AttentionPool(3, 2, 8).eval(),
        Batch.from_data_list([Data(x=x, edge_index=edges) for x, edges in ODD]),
    )
    weights, nodes = model.attention(batch.x, batch.edge_index, batch.batch), model.backbone(batch.x, batch.edge_index)
    sums = torch.zeros(len(ODD)).index_add(0, batch.batch, weights)
    torch.testing.assert_close(sums, torch.ones(len(ODD)))
    pooled = torch.zeros(len(ODD), nodes.size(1)).index_add(0, batch.batch, weights[:, None] * nodes)
    torch.testing.assert_close(model.head(pooled), model(batch.x, batch.edge_index, batch.batch))


def test_the_half_with_the_largest_attention_is_the_subgraph(trees):
    trainer = ClassifierTrainer("att_pool", hidden_channels=8, epochs=2).fit(trees.train, valid=trees.valid)
    for share in (0.5, 0.7, 1.0):
        for graph, e in zip(trees.test, TopKAttentionExplainer(trainer, share).iter_explain(trees.test)):
            assert int(e.selected_nodes.sum()) == math.ceil(share * graph.num_nodes - 1e-9) and e.node_mask.max() == 1
            kept, left = e.node_mask[e.selected_nodes], e.node_mask[~e.selected_nodes]
            assert not len(left) or kept.min() >= left.max()
            assert e.components >= 1 and e.validate()
    assert len(list(TopKAttentionExplainer(trainer).iter_explain(iter(trees.test)))) == len(trees.test)  # a stream
    for share, words in ((0, "ratio above 0"), (1.2, "ratio above 0")):
        with pytest.raises(ValueError, match=words):
            TopKAttentionExplainer(trainer, share)
    with pytest.raises(ValueError, match='fitted ClassifierTrainer."att_pool".'):
        TopKAttentionExplainer(ClassifierTrainer("gin"))


def dense_batch(graphs=20, nodes=60, seed=0):
    generator = torch.Generator().manual_seed(seed)
    edges = [
        torch.combinations(torch.arange(nodes))[torch.rand(nodes * (nodes - 1) // 2, generator=generator) < 0.2].T
        + nodes * i
        for i in range(graphs)
    ]
    edges = torch.cat(edges, 1)
    return (
        torch.randn(graphs * nodes, 5, generator=generator),
        torch.cat([edges, edges.flip(0)], 1),
        torch.arange(graphs).repeat_interleave(nodes),
    )


def test_asapool_is_the_same_with_matrices_of_coordinates(monkeypatch):
    "PyG's own way, with CSR matrices that carry a gradient, gives the same values and gradients."
    import contextlib

    from gib_nb.nn import pooling as baselines

    torch.manual_seed(0)
    network = baselines.PoolingNetwork(5, 2, 16, 3).eval()
    x, edge_index, batch = dense_batch(6, 20)

    def run():
        network.zero_grad()
        out = network(x, edge_index, batch)
        out.square().sum().backward()
        return out, [p.grad.clone() for p in network.parameters() if p.grad is not None]

    ours, our_grads = run()
    monkeypatch.setattr(baselines, "_SparseProductWorkaround", contextlib.nullcontext)
    theirs, their_grads = run()
    assert torch.allclose(ours, theirs, atol=1e-5) and len(our_grads) == len(their_grads)
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(our_grads, their_grads))


@pytest.mark.parametrize("seed", range(6))
def test_edgepool_in_rounds_is_pygs(seed):
    "The same merged nodes, edges, graphs and gradients, with loops and double edges too."
    from torch_geometric.nn import EdgePooling

    from gib_nb.nn.pooling import EdgePoolingInRounds

    x, edge_index, batch = dense_batch(6, 4 + 6 * seed, seed)
    if seed % 2:
        edge_index = torch.cat([edge_index, edge_index[:, :20], torch.arange(0, len(x), 3).repeat(2, 1)], 1)
    torch.manual_seed(seed)
    ours, theirs = EdgePoolingInRounds(5), EdgePooling(5)
    theirs.load_state_dict(ours.state_dict())
    found, expected = ours(x, edge_index, batch), theirs(x, edge_index, batch)
    assert len(expected[0]) < len(x) and all(torch.equal(a, b) for a, b in zip(found[:3], expected[:3]))
    for pool, result in ((ours, found), (theirs, expected)):
        result[0].square().sum().backward()
    assert all(torch.allclose(a.grad, b.grad, atol=1e-5) for a, b in zip(ours.parameters(), theirs.parameters()))


@pytest.mark.slow
@pytest.mark.skipif(not pathlib.Path("/proc/self/statm").exists(), reason="counts memory as Linux does")
def test_asapool_gives_its_memory_back():
    "PyTorch keeps the product of two CSR matrices for ever: 60 passes took some 300 MB."
    import resource

    used = lambda: int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20
    network, graphs = PoolingNetwork(5, 2, 16, 4), dense_batch()
    before = None
    for step in range(70):
        network(*graphs).sum().backward()
        before = used() if step == 10 else before
    assert used() - before < 60
