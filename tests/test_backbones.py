import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GATConv, GATv2Conv, GCNConv, GINEConv, Sequential
from torch_geometric.nn.models import PNA

from gib_nb.nn.backbones import CustomBackbone, call_network, check_batch, edge_fields, make_backbone, readout
from gib_nb.nn.masks import masked_forward
from gib_nb.nn.registry import BACKBONES

NONE = torch.zeros(2, 0, dtype=torch.long)
PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def seeded(name, *arguments, seed=0, **options):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make_backbone(name, *arguments, **options)


def features(n, d=5, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def graph(n, edges=NONE, seed=0):
    return Data(x=features(n, seed=seed), edge_index=edges)


def trained(name, **options):
    "A backbone whose batch norms have seen data, so that evaluation mode differs from a fresh one."
    module = seeded(name, 5, 8, **options)
    module.train()(features(20, seed=9), torch.randint(0, 20, (2, 40), generator=torch.Generator().manual_seed(9)))
    return module.eval()


ODD = {
    "path and one node": [graph(3, PATH), graph(1, seed=1)],
    "path and empty": [graph(3, PATH), graph(0)],
    "empty and path": [graph(0), graph(3, PATH)],
    "empty between": [graph(3, PATH), graph(0), graph(2, seed=2)],
    "isolated last node": [graph(4, PATH), graph(3, PATH, seed=1)],
    "no edges at all": [graph(2), graph(1, seed=1), graph(3, seed=2)],
    "one graph": [graph(3, PATH)],
    "only empty": [graph(0), graph(0)],
}


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("reduce", ["mean", "sum"])
@pytest.mark.parametrize("case", ODD)
def test_odd_graphs_in_a_batch(name, reduce, case):
    graphs, module = ODD[case], trained(name)
    batch = Batch.from_data_list(graphs)
    out = readout(module(batch.x, batch.edge_index), batch.batch, batch.num_graphs, reduce)
    assert out.shape == (len(graphs), 8) and out.isfinite().all()
    for row, alone in zip(out, graphs):
        expected = readout(module(alone.x, alone.edge_index), None, 1, reduce)[0] if alone.num_nodes else torch.zeros(8)
        torch.testing.assert_close(row, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("norm", ["batch_norm", "layer_norm", None])
def test_no_norm_mixes_the_graphs_of_a_batch(norm):
    graphs = ODD["empty between"]
    batch, module = Batch.from_data_list(graphs), trained("gin", norm=norm)
    together = module(batch.x, batch.edge_index)
    torch.testing.assert_close(together[:3], module(graphs[0].x, graphs[0].edge_index), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", BACKBONES)
def test_order_of_nodes_and_edges_does_not_matter(name):
    generator = torch.Generator().manual_seed(3)
    module, n = trained(name), 12
    x, edges = features(n), torch.randint(0, n, (2, 30), generator=generator)
    batch = torch.arange(n) // 4
    edges = torch.stack([edges[0], edges[0] // 4 * 4 + edges[1] % 4])
    edges = torch.cat([edges, edges.flip(0)], 1).unique(dim=1)
    shuffle = torch.randperm(n, generator=generator)
    place = shuffle.argsort()
    moved = place[edges][:, torch.randperm(edges.size(1), generator=generator)]
    before, after = module(x, edges), module(x[shuffle], moved)
    torch.testing.assert_close(after, before[shuffle], rtol=1e-4, atol=1e-5)
    assert (batch[shuffle].diff() < 0).any()
    torch.testing.assert_close(readout(after, batch[shuffle], 3), readout(before, batch, 3), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("n", [1, 3])
def test_batch_norm_trains_through_a_small_last_batch(name, n):
    module = seeded(name, 5, 8).train()
    out = module(features(n), NONE)
    out.square().sum().backward()
    assert out.shape == (n, 8) and out.isfinite().all()
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    assert gradients and all(g.isfinite().all() for g in gradients) and any(g.abs().max() > 0 for g in gradients)
    assert all(b.isfinite().all() for b in module.buffers())


@pytest.mark.parametrize("layers", [1, 2, 4])
@pytest.mark.parametrize("name", BACKBONES)
def test_width_of_the_embeddings(name, layers):
    module = seeded(name, 5, 12, layers, 0.3)
    assert module.out_channels == 12 and module(features(3), PATH).shape == (3, 12)
    assert len(module.convs) == layers


def test_options_reach_the_network():
    assert seeded("gcn", 5, dropout=0.25).dropout.p == 0.25
    assert [seeded("gat", 5, width).convs[0].heads for width in (64, 6, 5)] == [4, 2, 1]
    assert not [m for m in seeded("gin", 5, norm=None).modules() if "Norm" in type(m).__name__]
    assert [m for m in seeded("gin", 5).modules() if "BatchNorm" in type(m).__name__]


@pytest.mark.parametrize(
    "arguments, options, text",
    [
        (("gnc", 5), {}, "gcn, graphsage, gin, gat"),
        (("gcn", 0), {}, "in_channels"),
        (("gcn", 5, 0), {}, "hidden_channels"),
        (("gcn", 5, 8, 0), {}, "num_layers"),
        (("gcn", 5, 8, 2.0), {}, "num_layers"),
        (("gcn", 5), {"dropout": 1.0}, "dropout"),
        (("gcn", 5), {"norm": "graph_norm"}, "batch_norm"),
        (("gcn", 5), {"out_channels": 3}, "hidden_channels"),
    ],
)
def test_bad_options_are_named(arguments, options, text):
    with pytest.raises(ValueError, match=f"expected .*{text}.*got|got.*{text}"):
        make_backbone(*arguments, **options)


# --- networks of one's own


def test_a_module_that_states_its_width_is_passed_through():
    module = seeded("gin", 5, 8)
    assert make_backbone(module, 5) is module


def test_a_module_without_width_needs_the_argument():
    module = Sequential("x, edge_index", [(GCNConv(5, 8), "x, edge_index -> x"), nn.ReLU()])
    with pytest.raises(ValueError, match="out_channels"):
        make_backbone(module, 5)
    backbone = make_backbone(module, 5, out_channels=8)
    assert isinstance(backbone, CustomBackbone) and backbone.out_channels == 8
    assert len(list(backbone.parameters())) == 2 and torch.equal(backbone(features(3), PATH), module(features(3), PATH))


def test_a_plain_function_becomes_a_module():
    backbone = make_backbone(lambda x, edge_index: x * 2, 5, out_channels=5)
    assert isinstance(backbone, nn.Module) and torch.equal(backbone(features(3), PATH), 2 * features(3))


@pytest.mark.parametrize(
    "module, in_channels, out_channels, text",
    [
        (GCNConv(5, 8), 6, None, r"\[n, 6\]"),
        (GCNConv(5, 8), 5, 9, r"\[n, 9\]"),
        (lambda x: x, 5, 5, "accepts"),
        (lambda x, edge_index: None, 5, 5, "NoneType"),
        (lambda x, edge_index: x.mean(0), 5, 5, r"got \[5\]"),
        (GCNConv(5, 8), 5, "eight", "eight"),
    ],
)
def test_a_module_that_does_not_fit_is_refused(module, in_channels, out_channels, text):
    with pytest.raises(ValueError, match=text):
        make_backbone(module, in_channels, out_channels=out_channels)


@pytest.mark.parametrize("wrong", [GCNConv, None, 3])
def test_not_a_module(wrong):
    with pytest.raises(TypeError, match="module that takes"):
        make_backbone(wrong, 5)


def test_the_trial_run_leaves_no_trace():
    module = seeded("gin", 5, 8, dropout=0.5).train()
    module.norms[0].eval()
    state, modes, random_state = (
        {k: v.clone() for k, v in module.state_dict().items()},
        [m.training for m in module.modules()],
        torch.get_rng_state(),
    )
    make_backbone(module, 5)
    assert all(torch.equal(v, state[k]) for k, v in module.state_dict().items())
    assert [m.training for m in module.modules()] == modes
    assert torch.equal(torch.get_rng_state(), random_state)
    assert all(p.grad is None for p in module.parameters())


# --- readout


@st.composite
def batches(draw):
    graphs, n = draw(st.integers(1, 5)), draw(st.integers(0, 12))
    batch = draw(st.lists(st.integers(0, graphs - 1), min_size=n, max_size=n))
    return torch.tensor(batch, dtype=torch.long), graphs, draw(st.integers(0, 10**6))


@settings(max_examples=60)
@given(batches(), st.sampled_from(["mean", "sum"]), st.booleans())
def test_readout_equals_the_loop(drawn, reduce, weighted):
    batch, graphs, seed = drawn
    x = features(len(batch), 3, seed).double()
    weight = torch.rand(len(batch), generator=torch.Generator().manual_seed(seed)).double() if weighted else None
    expected = [[0.0] * 3 for _ in range(graphs)]
    count = [0] * graphs
    for i, g in enumerate(batch.tolist()):
        count[g] += 1
        for k in range(3):
            expected[g][k] += x[i, k].item() * (weight[i].item() if weighted else 1.0)
    if reduce == "mean":
        expected = [[value / max(count[g], 1) for value in row] for g, row in enumerate(expected)]
    torch.testing.assert_close(readout(x, batch, graphs, reduce, weight), torch.tensor(expected, dtype=torch.double))


def test_readout_by_hand():
    x, batch = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), torch.tensor([0, 0, 2])
    assert readout(x, batch, 4).tolist() == [[2, 3], [0, 0], [5, 6], [0, 0]]
    assert readout(x, batch, 4, "sum").tolist() == [[4, 6], [0, 0], [5, 6], [0, 0]]
    assert readout(x, batch).shape == (3, 2) and readout(x, None).tolist() == [[3, 4]]


def test_half_a_weight_is_half_an_embedding():
    "The mean divides by the number of nodes: dividing by the weights would make ½ everywhere look like the whole graph."
    x, batch = features(6), torch.tensor([0, 0, 0, 1, 1, 1])
    torch.testing.assert_close(readout(x, batch, 2, weight=torch.full((6,), 0.5)), readout(x, batch, 2) / 2)
    assert torch.equal(readout(x, batch, 2, weight=torch.ones(6)), readout(x, batch, 2))


def test_graphs_of_a_batch_have_their_own_embeddings():
    "Not the mean of the whole batch, which would be the same row for all 64 graphs."
    batch = torch.arange(64).repeat_interleave(3)
    x = features(192)
    out = readout(x, batch, 64)
    assert torch.equal(out[5], x[15:18].sum(0) / 3)
    assert torch.pdist(out).min() > 1e-3


def test_gradients_of_the_readout():
    x, weight = (
        features(5, 2).double().requires_grad_(),
        torch.rand(5, generator=torch.Generator().manual_seed(0)).double().requires_grad_(),
    )
    batch = torch.tensor([2, 0, 0, 2, 3])
    for reduce in ("mean", "sum"):
        assert torch.autograd.gradcheck(lambda x, w: readout(x, batch, 5, reduce, w), (x, weight))


@pytest.mark.parametrize(
    "batch, graphs, text",
    [
        (torch.tensor([0, 0]), 2, r"shape \[3\].*got \[2\]"),
        (torch.tensor([[0], [0], [1]]), 2, r"got \[3, 1\]"),
        (torch.tensor([0, -1, 1]), 2, "0 to 1.*got -1 to 1"),
        (torch.tensor([0, 2, 1]), 2, "0 to 1.*got 0 to 2"),
        (torch.tensor([0.0, 0.0, 1.0]), 2, "int64.*float32"),
        ([0, 0, 1], 2, "int64.*list"),
    ],
)
def test_a_wrong_batch_vector_is_refused(batch, graphs, text):
    with pytest.raises(ValueError, match=text):
        readout(torch.ones(3, 2), batch, graphs)
    with pytest.raises(ValueError, match=text):
        check_batch(batch, 3, graphs)


@pytest.mark.parametrize(
    "options, text",
    [
        ({"reduce": "max"}, "'max'"),
        ({"weight": torch.ones(3, 1)}, r"weight of shape \[3\].*\[3, 1\]"),
        ({"weight": torch.ones(2)}, r"weight of shape \[3\].*\[2\]"),
    ],
)
def test_wrong_options_of_the_readout(options, text):
    with pytest.raises(ValueError, match=text):
        readout(torch.ones(3, 2), torch.zeros(3, dtype=torch.long), 1, **options)


def test_wrong_x():
    with pytest.raises(ValueError, match=r"\[n, d\]"):
        readout(torch.ones(3), torch.zeros(3, dtype=torch.long), 1)


def test_check_batch_without_a_vector():
    batch, graphs = check_batch(None, 3)
    assert batch.tolist() == [0, 0, 0] and graphs == 1
    assert check_batch(torch.zeros(0, dtype=torch.long), 0, 4)[1] == 4


# --- what the edges carry

GRAPH = features(6), torch.tensor([[0, 1, 1, 2, 3, 4, 2, 2], [1, 0, 2, 1, 4, 3, 2, 5]])
BONDS = torch.randn(8, 3, generator=torch.Generator().manual_seed(7))
READERS = ["gat", "gine", "gatv2"]


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("layers", [1, 3])
def test_edge_features_change_the_embeddings_of_those_that_hear_them(name, layers):
    module = seeded(name, 5, 8, layers, edge_channels=3).eval()
    assert edge_fields(module) == ("edge_attr",)
    out, other = (
        call_network(module, *GRAPH, edge_attr=attr) for attr in (BONDS, BONDS * torch.arange(8)[:, None].eq(0))
    )
    changed = (out - other).abs().amax(1) > 1e-6
    assert changed[:3].all() or layers == 1
    torch.testing.assert_close(
        seeded(name, 5, 8, edge_channels=3).eval()(GRAPH[0][:3], NONE, edge_attr=BONDS[:0]).shape, torch.Size([3, 8])
    )


@pytest.mark.parametrize("name", BACKBONES)
def test_backbones_ignore_what_they_cannot_take(name):
    "Without edge features, and by name, all are as they were; an edge weight reaches gcn alone."
    module = trained(name)
    plain = module(*GRAPH)
    assert torch.equal(call_network(module, *GRAPH, edge_attr=BONDS), plain)
    weighted = call_network(module, *GRAPH, edge_weight=torch.arange(1.0, 9))
    assert torch.equal(weighted, plain) == (name != "gcn")


def test_gine_without_edge_features_is_gin():
    one, other = (seeded(name, 5, 8).eval() for name in ("gin", "gine"))
    assert torch.equal(one(*GRAPH), other(*GRAPH)) and list(one.state_dict()) == list(other.state_dict())


def test_gcn_with_weights_is_that_of_pyg():
    module, weight = seeded("gcn", 5, 8, 1, norm=None).eval(), torch.arange(1.0, 9)
    torch.testing.assert_close(
        call_network(module, *GRAPH, edge_weight=weight), module.convs[0](*GRAPH, edge_weight=weight)
    )


@pytest.mark.parametrize("name", READERS)
def test_attention_and_sums_are_those_of_pyg(name):
    "But for self-loops, which have zeros for edge features."
    module = seeded(name, 5, 8, 1, edge_channels=3).eval()
    conv = module.convs[0]
    theirs = {
        "gine": lambda: GINEConv(conv.nn, edge_dim=3),
        "gat": lambda: GATConv(5, 2, heads=4, edge_dim=3, fill_value=0.0),
        "gatv2": lambda: GATv2Conv(5, 2, heads=4, edge_dim=3, fill_value=0.0),
    }[name]()
    theirs.load_state_dict(conv.state_dict())
    x = module.node_encoder(GRAPH[0]) if name == "gine" else GRAPH[0]
    torch.testing.assert_close(module(*GRAPH, edge_attr=BONDS), theirs(x, GRAPH[1], edge_attr=BONDS))


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", READERS)
def test_a_closed_edge_is_no_edge_and_an_open_mask_no_mask(name, layers):
    "Also where there are self-loops and more than one closed edge at a node."
    module = seeded(name, 5, 8, layers, edge_channels=3).eval()
    kept = torch.tensor([1.0, 1, 0, 0, 0, 1, 1, 0])
    through = masked_forward(kept, module, *GRAPH, edge_attr=BONDS)
    loops = GRAPH[1][0] == GRAPH[1][1]
    cut = kept.bool() | loops
    torch.testing.assert_close(through, module(GRAPH[0], GRAPH[1][:, cut], edge_attr=BONDS[cut]))
    torch.testing.assert_close(
        masked_forward(torch.ones(8), module, *GRAPH, edge_attr=BONDS), module(*GRAPH, edge_attr=BONDS)
    )
    other = BONDS.clone()
    other[~cut] = 9.0
    torch.testing.assert_close(masked_forward(kept, module, *GRAPH, edge_attr=other), through)
    mask = torch.full((8,), 0.5, requires_grad=True)
    masked_forward(mask, module, *GRAPH, edge_attr=BONDS).square().sum().backward()
    assert mask.grad[~loops].abs().gt(0).sum() > 4


def test_an_open_mask_is_no_mask_in_training_either():
    module = seeded("gatv2", 5, 8, 2, dropout=0.4, edge_channels=3).train()
    outs = []
    for mask in (None, torch.ones(8)):
        torch.manual_seed(1)
        outs.append(masked_forward(mask, module, *GRAPH, edge_attr=BONDS))
    torch.testing.assert_close(*outs)


class Weighed(nn.Module):
    "Takes both, by arguments."

    out_channels = 5

    def forward(self, x, edge_index, edge_weight=None, edge_attr=None):
        messages = x[edge_index[0]]
        if edge_attr is not None:
            messages = messages + edge_attr.sum(1, keepdim=True)
        if edge_weight is not None:
            messages = messages * edge_weight[:, None]
        return torch.zeros_like(x).index_add(0, edge_index[1], messages)


class States(Weighed):
    supports_edge_attr = False


@pytest.mark.parametrize(
    "network, fields",
    [
        (Weighed(), ("edge_attr", "edge_weight")),
        (States(), ("edge_weight",)),
        (lambda x, edge_index, edge_attr=None: x, ("edge_attr",)),
        (lambda x, edge_index: x, ()),
        (GCNConv(5, 8), ("edge_weight",)),
        (GATv2Conv, ("edge_attr",)),
        (PNA, ("edge_attr",)),
        (
            Sequential(
                "x, edge_index, edge_attr", [(GINEConv(nn.Linear(5, 8), edge_dim=3), "x, edge_index, edge_attr -> x")]
            ),
            ("edge_attr",),
        ),
        (torch.add, ()),
    ],
)
def test_what_a_network_takes_is_told(network, fields):
    assert edge_fields(network) == fields


def test_a_network_of_ones_own_gets_what_it_takes():
    weight = torch.arange(8.0)
    for module in (make_backbone(Weighed(), 5, edge_channels=3), make_backbone(Weighed().forward, 5, out_channels=5)):
        out = call_network(module, *GRAPH, edge_attr=BONDS, edge_weight=weight)
        torch.testing.assert_close(out, Weighed()(*GRAPH, weight, BONDS))
    out = call_network(make_backbone(States(), 5), *GRAPH, edge_attr=BONDS, edge_weight=weight)
    torch.testing.assert_close(out, Weighed()(*GRAPH, weight))


@pytest.mark.parametrize("channels, text", [(4, r"edge_attr \[E, 4\]"), (0, "expected a backbone that accepts")])
def test_a_network_for_other_edge_features_is_refused(channels, text):
    with pytest.raises(ValueError, match=text):
        make_backbone(GINEConv(nn.Sequential(nn.Linear(5, 8)), edge_dim=3), 5, out_channels=8, edge_channels=channels)


@pytest.mark.parametrize("wrong", [-1, 2.0, None])
def test_bad_edge_channels(wrong):
    with pytest.raises(ValueError, match="edge_channels"):
        make_backbone("gine", 5, edge_channels=wrong)
