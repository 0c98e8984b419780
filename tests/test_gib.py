import dataclasses
import math
import sys
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv

from gib_nb.nn.connectivity import connectivity_loss
from gib_nb.nn.gib import GIB, GIBOutput
from gib_nb.nn.masks import SubgraphGenerator
from gib_nb.nn.registry import BACKBONES

NONE = torch.zeros(2, 0, dtype=torch.long)
PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
READOUTS = ["mean", "sum"]


def features(n, d=4, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def graph(n, edges=NONE, seed=0):
    return Data(x=features(n, seed=seed), edge_index=edges, num_nodes=n)


def seeded(*arguments, seed=0, **options):
    "A model of one seed, which leaves the global random state as it was."
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return GIB(*arguments, **options)


def trained(backbone="gin", **options):
    "A small model in evaluation mode whose batch norms have seen data."
    model = seeded(4, 2, backbone, **({"hidden_channels": 8} | options))
    edges = torch.randint(0, 20, (2, 40), generator=torch.Generator().manual_seed(9))
    model.train()(features(20, seed=9), edges)
    return model.eval()


def run(model, graphs):
    batch = Batch.from_data_list(graphs)
    return model(batch.x, batch.edge_index, batch.batch, batch.num_graphs)


def random_graph(n, seed):
    "Undirected, without self-loops, of about 1.5 n edges."
    ends = torch.randint(0, n, (2, 3 * n // 2), generator=torch.Generator().manual_seed(seed))
    ends = ends[:, ends[0] != ends[1]]
    return graph(n, torch.cat([ends, ends.flip(0)], 1).unique(dim=1), seed)


MODEL = trained()
ODD = {
    "path and one node": [graph(3, PATH), graph(1, seed=1)],
    "path and empty": [graph(3, PATH), graph(0)],
    "empty and path": [graph(0), graph(3, PATH)],
    "empty between": [graph(3, PATH), graph(0), graph(2, seed=2)],
    "isolated last node": [graph(4, PATH), graph(3, PATH, seed=1)],
    "no edges at all": [graph(2), graph(1, seed=1), graph(3, seed=2)],
    "one graph": [graph(3, PATH)],
    "one node": [graph(1)],
    "only empty": [graph(0), graph(0)],
}


# --- odd graphs in a batch


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("case", ODD)
def test_one_row_per_graph_as_if_alone(backbone, case):
    """Path and single node, path and empty graph, isolated last node, no edges: one finite row per graph, equal to the
    graph alone in evaluation mode. (Such batches have raised errors, or lost a row.)"""
    graphs = ODD[case]
    for readout in READOUTS:
        model = trained(backbone, readout=readout)
        output, start = run(model, graphs), 0
        n, N, E = sum(g.num_nodes for g in graphs), len(graphs), sum(g.num_edges for g in graphs)
        shapes = {name: tuple(value.shape) for name, value in vars(output).items()}
        assert shapes == {
            "prediction": (N, 2),
            "assignment": (n, 2),
            "subgraph_embedding": (N, 8),
            "graph_embedding": (N, 8),
            "connectivity_loss": (),
            "edge_mask": (E,),
        }
        assert all(value.isfinite().all() for value in vars(output).values())
        for row, single in enumerate(graphs):
            nodes = slice(start, start := start + single.num_nodes)
            if not single.num_nodes:
                assert not output.graph_embedding[row].any() and not output.subgraph_embedding[row].any()
                continue
            alone = model(single.x, single.edge_index)
            for name in ("prediction", "subgraph_embedding", "graph_embedding"):
                torch.testing.assert_close(getattr(output, name)[row], getattr(alone, name)[0], rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(output.assignment[nodes], alone.assignment, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("case", ODD)
def test_odd_graphs_can_be_trained_on(backbone, case):
    "Also a last batch of one graph, or of one node, through batch norm: values, gradients and buffers are finite."
    model = seeded(4, 2, backbone, hidden_channels=8).train()
    output = run(model, ODD[case])
    (output.prediction.square().sum() + output.connectivity_loss + output.graph_embedding.square().sum()).backward()
    assert output.prediction.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    assert {"generator", "classifier"} <= {
        name.split(".")[0] for name, p in model.named_parameters() if p.grad is not None
    }
    assert all(buffer.isfinite().all() for buffer in model.buffers())


def test_trailing_empty_graphs_need_the_number_of_graphs():
    model, single = trained(), graph(3, PATH)
    batch = torch.zeros(3, dtype=torch.long)
    assert model(single.x, PATH, batch, 3).prediction.shape == (3, 2)
    assert model(single.x, PATH, batch).prediction.shape == (1, 2)


# --- order


@pytest.mark.parametrize("backbone", BACKBONES)
def test_order_of_nodes_and_edges_does_not_matter(backbone):
    "Permuted nodes and shuffled edge columns: equal predictions, permuted S; an unsorted batch vector is handled."
    model, batch = (
        trained(backbone),
        Batch.from_data_list([random_graph(n, seed) for seed, n in enumerate((5, 1, 7, 4))]),
    )
    generator = torch.Generator().manual_seed(3)
    shuffle = torch.randperm(len(batch.x), generator=generator)
    moved = shuffle.argsort()[batch.edge_index][:, torch.randperm(batch.num_edges, generator=generator)]
    before = model(batch.x, batch.edge_index, batch.batch)
    after = model(batch.x[shuffle], moved, batch.batch[shuffle])
    assert (batch.batch[shuffle].diff() < 0).any()
    torch.testing.assert_close(after.assignment, before.assignment[shuffle], rtol=1e-4, atol=1e-5)
    for name in ("prediction", "subgraph_embedding", "graph_embedding", "connectivity_loss"):
        torch.testing.assert_close(getattr(after, name), getattr(before, name), rtol=1e-4, atol=1e-5)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_order_of_the_graphs_does_not_matter(sizes, random):
    model, graphs = MODEL, [random_graph(n, seed) if n > 1 else graph(n, seed=seed) for seed, n in enumerate(sizes)]
    order = random.sample(range(len(graphs)), len(graphs))
    before, after = run(model, graphs), run(model, [graphs[i] for i in order])
    torch.testing.assert_close(after.prediction, before.prediction[order], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(after.connectivity_loss, before.connectivity_loss, rtol=1e-4, atol=1e-6)


# --- what the embeddings are


@pytest.mark.parametrize("readout", READOUTS)
def test_embeddings_equal_the_loop(readout):
    "g and s over each graph's own nodes, with the same readout: never the mean of the whole batch."
    model, graphs = trained(readout=readout), [random_graph(3 + i % 5, i) for i in range(64)]
    output, start = run(model, graphs), 0
    for row, single in enumerate(graphs):
        nodes = model.backbone(single.x, single.edge_index)
        p = output.assignment[start : start + len(nodes), 0]
        g, s = torch.zeros(8), torch.zeros(8)
        for i in range(len(nodes)):
            g, s = g + nodes[i], s + p[i] * nodes[i]
        size = len(nodes) if readout == "mean" else 1
        torch.testing.assert_close(output.graph_embedding[row], g / size, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(output.subgraph_embedding[row], s / size, rtol=1e-4, atol=1e-5)
        start += len(nodes)
    assert torch.pdist(output.graph_embedding).min() > 1e-4


@pytest.mark.parametrize("readout", READOUTS)
def test_all_in_is_the_graph_and_none_in_is_nothing(readout):
    model, graphs = trained(readout=readout), [random_graph(5, 1), random_graph(4, 2)]
    for logit, expected in ((1e3, "graph"), (-1e3, "nothing")):
        with torch.no_grad():
            model.generator.score[-1].weight.zero_()
            model.generator.score[-1].bias.fill_(logit)
        output = run(model, graphs)
        target = output.graph_embedding if expected == "graph" else torch.zeros(2, 8)
        assert torch.equal(output.subgraph_embedding, target)
        output.prediction.sum().backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_the_classifier_sees_the_subgraph_alone():
    "Two graphs whose subgraph is empty get one answer, whatever was left out."
    model = trained()
    with torch.no_grad():
        model.generator.score[-1].weight.zero_()
        model.generator.score[-1].bias.fill_(-1e3)
    output = run(model, [random_graph(5, 1), random_graph(4, 2)])
    assert torch.equal(output.prediction[0], output.prediction[1])
    output = run(MODEL, [random_graph(5, 1), random_graph(4, 2)])
    assert torch.equal(output.prediction, MODEL.classify(output.subgraph_embedding))


def test_connectivity_loss_is_that_of_the_assignment():
    output = run(MODEL, [random_graph(6, 1), graph(2), random_graph(5, 2)])
    batch = Batch.from_data_list([random_graph(6, 1), graph(2), random_graph(5, 2)])
    assert output.connectivity_loss == connectivity_loss(output.assignment, batch.edge_index, batch.batch, 3)
    gradients = torch.autograd.grad(output.connectivity_loss, list(MODEL.generator.parameters()))
    assert all(gradient.abs().max() > 0 for gradient in gradients)


# --- the assignment


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4, 1e30])
def test_assignments_are_probabilities(scale):
    "The paper's softmax over two logits, one of them 0; also for extreme node embeddings."
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        generator = SubgraphGenerator(4)
    x = (features(9) * scale).requires_grad_()
    p = generator(x)
    assert p.shape == (9,) and ((p >= 0) & (p <= 1)).all()
    p.sum().backward()
    assert x.grad.isfinite().all()
    logits = torch.cat([generator.score(x), torch.zeros(9, 1)], 1)
    torch.testing.assert_close(p, logits.softmax(1)[:, 0])


def test_an_untrained_assignment_lies_around_one_half():
    p = run(seeded(4, 2).eval(), [random_graph(8, 1)]).assignment[:, 0]
    assert (p - 0.5).abs().max() < 0.45


# --- an ordinary module


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("norm", ["batch_norm", "layer_norm", None])
def test_every_parameter_learns(backbone, norm):
    model = seeded(4, 3, backbone, hidden_channels=8, norm=norm).train()
    output = run(model, [random_graph(6, 1), random_graph(5, 2), random_graph(7, 3)])
    loss = nn.functional.cross_entropy(output.prediction, torch.tensor([0, 1, 2])) + output.connectivity_loss
    loss.backward()
    idle = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert not idle
    assert all(
        any(p.grad.abs().max() > 0 for p in part.parameters())
        for part in (model.backbone, model.generator, model.classifier)
    )


def test_dropout_sleeps_in_evaluation_mode():
    model = trained(dropout=0.5)
    graphs = [random_graph(6, 1), random_graph(5, 2)]
    assert torch.equal(run(model, graphs).prediction, run(model, graphs).prediction)
    with torch.random.fork_rng(devices=[]):
        assert not torch.equal(run(model.train(), graphs).prediction, run(model, graphs).prediction)


def test_weights_can_be_handed_over():
    first, second = trained(), seeded(4, 2, hidden_channels=8, seed=5).eval()
    graphs = [random_graph(6, 1)]
    assert not torch.equal(run(first, graphs).prediction, run(second, graphs).prediction)
    second.load_state_dict(first.state_dict())
    assert torch.equal(run(first, graphs).prediction, run(second, graphs).prediction)


def test_one_seed_one_model():
    first, second = seeded(4, 2, seed=3), seeded(4, 2, seed=3)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters()))


def test_moving_the_model_moves_all_of_it():
    model = seeded(4, 2).to("meta")
    assert {value.device.type for value in model.state_dict().values()} == {"meta"}


def test_the_record_is_frozen():
    output = run(MODEL, [graph(3, PATH)])
    assert isinstance(output, GIBOutput)
    with pytest.raises(dataclasses.FrozenInstanceError):
        output.prediction = None


def test_one_output_for_regression():
    assert run(seeded(4, 1).eval(), [graph(3, PATH), graph(1)]).prediction.shape == (2, 1)


def test_a_large_batch_in_seconds():
    "40,000 nodes and 100,000 edges, forward and backward, within 1 GB: a dense adjacency would take 6.4 GB."
    resource = pytest.importorskip("resource")
    n, N = 40_000, 400
    batch = torch.arange(n) // (n // N)
    ends = torch.randint(0, n // N, (2, 50_000), generator=torch.Generator().manual_seed(0))
    ends = ends + torch.randint(0, N, (50_000,), generator=torch.Generator().manual_seed(1)) * (n // N)
    edges = torch.cat([ends, ends.flip(0)], 1)
    model, x = seeded(4, 2, hidden_channels=32).train(), features(n)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    output = model(x, edges, batch, N)
    (output.prediction.square().mean() + output.connectivity_loss).backward()
    risen = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * (1 if sys.platform == "darwin" else 1024)
    assert output.prediction.shape == (N, 2) and risen < 1e9 and time.process_time() - start < 10


# --- networks of one's own


class Neighbors(nn.Module):
    out_channels = 6

    def __init__(self):
        super().__init__()
        self.conv = GCNConv(4, 6)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index).relu()


def test_any_module_serves_as_backbone():
    model = seeded(4, 2, Neighbors())
    output = run(model.eval(), ODD["empty between"])
    assert output.graph_embedding.shape == (3, 6) and output.prediction.shape == (3, 2) and model.channels == 6
    run(model, [random_graph(5, 1)]).prediction.sum().backward()
    assert model.backbone.conv.lin.weight.grad is not None


@pytest.mark.parametrize(
    "backbone, error, text",
    [
        ("gni", ValueError, "gcn, graphsage, gin, gat"),
        (nn.Identity(), ValueError, "out_channels"),
        (GCNConv(5, 8), ValueError, r"\[n, 4\]"),
        (None, TypeError, "None"),
        (Neighbors, TypeError, "Neighbors"),
    ],
)
def test_backbones_that_do_not_fit(backbone, error, text):
    with pytest.raises(error, match=text):
        GIB(4, 2, backbone)


# --- what is refused


@pytest.mark.parametrize(
    "options, text",
    [
        ({"readout": "max"}, "'max'"),
        ({"norm": "graph_norm"}, "graph_norm"),
        ({"hidden_channels": 0}, "hidden_channels"),
        ({"num_layers": 0}, "num_layers"),
        ({"dropout": 1.5}, "dropout|1.5"),
    ],
)
def test_options_that_cannot_be(options, text):
    with pytest.raises(ValueError, match=text):
        GIB(4, 2, **options)


@pytest.mark.parametrize(
    "batch, N, text",
    [
        (torch.tensor([0, 0]), None, r"shape \[3\].*\[2\]"),
        (torch.tensor([0, 0, 2]), 2, "0 to 1"),
        (torch.tensor([0.0, 0.0, 1.0]), None, "int64"),
        (torch.tensor([0, -1, 0]), None, "-1"),
    ],
)
def test_batch_vectors_that_do_not_fit(batch, N, text):
    with pytest.raises(ValueError, match=text):
        MODEL(features(3), NONE, batch, N)


def test_edges_between_graphs_are_refused():
    with pytest.raises(ValueError, match=r"edges within one graph .*\[1, 2\] from graph 0 to 1"):
        MODEL(features(3), torch.tensor([[1], [2]]), torch.tensor([0, 0, 1]))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_features_that_are_not_finite_are_not_answered(value):
    "An error, never a prediction of NaN."
    x = features(3)
    x[1, 2] = value
    with pytest.raises((ValueError, FloatingPointError), match="nan|finite"):
        MODEL(x, PATH)
