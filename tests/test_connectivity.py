import dataclasses
import math
import sys

import networkx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gib_nb.nn.connectivity import (
    compactness,
    connectivity_loss,
    connectivity_loss_published,
    connectivity_matrix,
    largest_component_mask,
    num_connected_components,
    row_normalize,
    selected_nodes,
)

NONE = torch.zeros(2, 0, dtype=torch.long)
TRIANGLES = torch.tensor([[0, 0, 1, 2, 3, 3, 4], [1, 2, 2, 3, 4, 5, 5]])
TRIANGLES = torch.cat([TRIANGLES, TRIANGLES.flip(0)], 1)
SPLIT = torch.tensor([1.0, 1, 1, 0, 0, 0])
LOSSES = [connectivity_loss, connectivity_loss_published]


def sides(p):
    return torch.stack([p, 1 - p], 1)


# --- the obvious way


def slow_matrix(assignment, edges, batch, graphs):
    out = [[[0.0, 0.0], [0.0, 0.0]] for _ in range(graphs)]
    S, batch = assignment.tolist(), batch.tolist()
    for i, j in edges.T.tolist():
        for a in range(2):
            for b in range(2):
                out[batch[i]][a][b] += S[i][a] * S[j][b]
    return out


def slow_losses(assignment, edges, batch, graphs):
    norm, published = [], []
    for matrix in slow_matrix(assignment, edges, batch, graphs):
        total = sum(map(sum, matrix))
        if total == 0:
            continue
        rows = [[v / sum(row) for v in row] if sum(row) > 1e-9 * total else [0.0, 0.0] for row in matrix]
        norm.append(math.sqrt(sum((rows[a][b] - (a == b)) ** 2 for a in range(2) for b in range(2))))
        published.append(sum((1 - rows[a][a]) ** 2 for a in range(2)) / 2)
    return [sum(v) / len(v) if v else 0.0 for v in (norm, published)]


@st.composite
def graph_batches(draw, saturated=True):
    "(p, edges, batch, graphs): directed multigraphs with self-loops, in unsorted order, some empty or without edges."
    graphs = draw(st.integers(1, 4))
    batch = draw(st.lists(st.integers(0, graphs - 1), min_size=1, max_size=10))
    pairs = [(i, j) for i in range(len(batch)) for j in range(len(batch)) if batch[i] == batch[j]]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=25))
    values = st.floats(0.01, 0.99) | st.sampled_from([0.0, 1.0]) if saturated else st.floats(0.05, 0.95)
    p = draw(st.lists(values, min_size=len(batch), max_size=len(batch)))
    return (
        torch.tensor(p, dtype=torch.double),
        torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T,
        torch.tensor(batch),
        graphs,
    )


@settings(max_examples=150)
@given(graph_batches())
def test_equal_to_the_double_loop(drawn):
    p, edges, batch, graphs = drawn
    S = sides(p)
    torch.testing.assert_close(
        connectivity_matrix(S, edges, batch, graphs),
        torch.tensor(slow_matrix(S, edges, batch, graphs), dtype=torch.double),
        rtol=1e-9,
        atol=1e-9,
    )
    for loss, expected in zip(LOSSES, slow_losses(S, edges, batch, graphs)):
        assert math.isclose(loss(S, edges, batch, graphs).item(), expected, rel_tol=1e-7, abs_tol=1e-7)


@settings(max_examples=60)
@given(graph_batches(), st.randoms(use_true_random=False))
def test_order_of_nodes_and_edges_does_not_matter(drawn, random):
    p, edges, batch, graphs = drawn
    shuffle = torch.tensor(random.sample(range(len(p)), len(p)))
    moved = shuffle.argsort()[edges][:, random.sample(range(edges.size(1)), edges.size(1))]
    torch.testing.assert_close(
        connectivity_matrix(sides(p)[shuffle], moved, batch[shuffle], graphs),
        connectivity_matrix(sides(p), edges, batch, graphs),
        rtol=1e-12,
        atol=1e-12,
    )
    assert torch.equal(
        num_connected_components(p[shuffle], moved, batch[shuffle], graphs),
        num_connected_components(p, edges, batch, graphs),
    )


@settings(max_examples=40)
@given(graph_batches(saturated=False))
def test_gradients_are_those_of_the_formula(drawn):
    "Through scores, as in training: the dense SᵀAS of each graph, differentiated by autograd, is the oracle."
    p, edges, batch, graphs = drawn
    scores = torch.stack([p.log(), (1 - p).log()], 1)
    A = torch.zeros(len(p), len(p), dtype=torch.double).index_put(
        tuple(edges), torch.tensor(1.0, dtype=torch.double), accumulate=True
    )

    def dense(scores):
        values = []
        for g in range(graphs):
            mine = batch == g
            S, block = scores[mine].softmax(1), A[mine][:, mine]
            if block.sum() > 0:
                M = S.T @ block @ S
                values.append(torch.linalg.matrix_norm(M / M.sum(1, keepdim=True) - torch.eye(2)))
        return torch.stack(values).mean() if values else scores.sum() * 0

    gradients = []
    for loss in (dense, lambda s: connectivity_loss(s.softmax(1), edges, batch, graphs)):
        leaf = scores.clone().requires_grad_()
        value = loss(leaf)
        if value.item() < 1e-4:
            return  # the norm has a kink at zero
        gradients.append(torch.autograd.grad(value, leaf)[0])
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-5, atol=1e-7)


# --- by hand


def test_two_triangles():
    S = sides(SPLIT)
    matrix = connectivity_matrix(S, TRIANGLES)
    assert matrix.tolist() == [[[6, 1], [1, 6]]]
    torch.testing.assert_close(row_normalize(matrix)[0], torch.tensor([[6, 1], [1, 6]]).double() / 7)
    assert connectivity_loss(S, TRIANGLES).item() == pytest.approx(2 / 7, rel=1e-6)
    assert connectivity_loss_published(S, TRIANGLES).item() == pytest.approx(1 / 49, rel=1e-6)


def test_the_largest_values_belong_to_a_selection_that_cuts_every_edge():
    square = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]])
    assert [loss(sides(torch.tensor([1.0, 0, 1, 0])), square).item() for loss in LOSSES] == [2, 1]


@pytest.mark.parametrize(
    "p, norm, published",
    [
        (0.5, 1, 0.25),
        (
            0.999,
            math.sqrt(2 * (0.999**2 + 0.001**2)),
            (0.999**2 + 0.001**2) / 2,
        ),  # close to √2: the collapse seen in training
        (1 - 2**-24, math.sqrt(2), 0.5),  # the last number below 1 in single precision
        (1.0, 1, 0.5),  # the second side has no edges: its row is zero
        (0.0, 1, 0.5),
    ],
)
def test_all_nodes_alike(p, norm, published):
    S = sides(torch.full((6,), p, dtype=torch.float32)).requires_grad_()
    for loss, expected in zip(LOSSES, (norm, published)):
        value = loss(S, TRIANGLES)
        assert value.item() == pytest.approx(expected, rel=1e-5) and torch.autograd.grad(value, S)[0].isfinite().all()


@pytest.mark.parametrize("edges", [TRIANGLES, NONE, torch.tensor([[0], [1]]), torch.tensor([[2], [2]])])
@pytest.mark.parametrize("inside", [[1, 1, 1, 0, 0, 0], [0] * 6, [1] * 6, [0, 1, 0, 1, 0, 1], [0.5] * 6])
@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_are_finite_at_zero_and_one(edges, inside, loss):
    S = sides(torch.tensor(inside, dtype=torch.float)).requires_grad_()
    value = loss(S, edges)
    value.backward()
    assert value.isfinite() and S.grad.isfinite().all() and S.grad.abs().max() < 10


@pytest.mark.parametrize("size", [0, 1e-30, 5, 10, 12, 30, 60, 90, 200, 1e4])
@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_of_extreme_scores(size, loss):
    size = float(size)
    for scores in (
        torch.tensor([[size, -size]] * 6),
        torch.tensor([[-size, size]] * 6),
        torch.tensor([[-size, size]] * 5 + [[size, -size]]),
        torch.tensor([[size, 0.0]] * 3 + [[0.0, size]] * 3),
    ):
        scores.requires_grad_()
        value = loss(scores.softmax(1), TRIANGLES)
        value.backward()
        assert value.isfinite() and scores.grad.isfinite().all() and scores.grad.abs().max() < 10


@pytest.mark.parametrize("loss", LOSSES)
def test_two_components_split_exactly_are_zero(loss):
    "Also for large graphs in single precision, where the sums are long, and with a finite gradient at the kink of the norm."
    n = 20_000
    generator = torch.Generator().manual_seed(0)
    half = torch.randint(0, n, (2, 50_000), generator=generator)
    S = sides((torch.arange(2 * n) < n).float()).requires_grad_()
    edges = torch.cat([half, half.flip(0), half + n, half.flip(0) + n], 1)
    value = loss(S, edges)
    value.backward()
    assert value.item() == 0 and S.grad.isfinite().all()


def test_long_sums_keep_their_small_entries():
    "Single precision would lose the cut between a large side at p ≈ 1 and the rest."
    n = 30_000
    p = torch.full((n,), 1 - 2**-20)
    edges = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
    exact = p.double()
    expected = (exact * (1 - exact.roll(-1))).sum().item()
    assert connectivity_matrix(sides(p), edges)[0, 0, 1].item() == pytest.approx(expected, rel=1e-6)


@settings(max_examples=60)
@given(graph_batches())
def test_at_one_half_the_gradient_is_zero(drawn):
    p, edges, batch, graphs = drawn
    S = sides(torch.full_like(p, 0.5)).requires_grad_()
    for loss in LOSSES:
        assert torch.autograd.grad(loss(S, edges, batch, graphs), S)[0].abs().max() < 1e-12


@settings(max_examples=60)
@given(graph_batches(saturated=False))
def test_the_complement_has_the_same_loss_and_published_is_its_square(drawn):
    p, edges, batch, graphs = drawn
    for loss in LOSSES:
        assert math.isclose(
            loss(sides(p), edges, batch, graphs), loss(sides(1 - p), edges, batch, graphs), rel_tol=1e-9, abs_tol=1e-9
        )
    for g in range(graphs):
        mine = edges[:, batch[edges[0]] == g]
        norm, published = [loss(sides(p), mine, batch, graphs).item() for loss in LOSSES]
        assert math.isclose(published, norm**2 / 4, rel_tol=1e-9, abs_tol=1e-12)


# --- definitions at the edges


def test_direction_counts():
    "One edge 0 → 1 with node 0 in and node 1 out leaves the first side; the second side has no edge that starts there."
    S = sides(torch.tensor([1.0, 0.0]))
    assert connectivity_matrix(S, torch.tensor([[0], [1]])).tolist() == [[[0, 1], [0, 0]]]
    assert connectivity_matrix(S, torch.tensor([[1], [0]])).tolist() == [[[0, 0], [1, 0]]]
    assert connectivity_loss(S, torch.tensor([[0], [1]])).item() == pytest.approx(math.sqrt(3))


def test_each_listed_edge_counts():
    S = sides(torch.tensor([1.0, 0.0]))
    assert connectivity_matrix(S, torch.tensor([[0, 0, 0, 1], [0, 1, 1, 1]])).tolist() == [[[1, 2], [0, 1]]]


def test_graphs_without_edges_are_left_out_of_the_mean():
    S = sides(torch.cat([torch.tensor([0.3, 0.9]), SPLIT])).requires_grad_()
    batch = torch.tensor([0, 2, 3, 3, 3, 3, 3, 3])
    for loss in LOSSES:
        value = loss(S, TRIANGLES + 2, batch, 5)
        assert value.item() == pytest.approx(loss(S[2:], TRIANGLES).item())
        gradient = torch.autograd.grad(value, S)[0]
        assert (gradient[:2] == 0).all() and gradient.isfinite().all()
        nothing = loss(S, NONE, batch, 5)
        assert nothing.item() == 0 and (torch.autograd.grad(nothing, S)[0] == 0).all()


def test_a_batch_is_the_mean_of_its_graphs():
    generator = torch.Generator().manual_seed(1)
    S = torch.randn(18, 2, generator=generator).softmax(1)
    edges = torch.cat([TRIANGLES, TRIANGLES + 6, TRIANGLES + 12], 1)
    batch = torch.arange(18) // 6
    for loss in LOSSES:
        alone = [loss(S[6 * g : 6 * g + 6], TRIANGLES).item() for g in range(3)]
        assert loss(S, edges, batch).item() == pytest.approx(sum(alone) / 3, rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_types(dtype):
    S = sides(SPLIT.to(dtype))
    assert all(loss(S, TRIANGLES).dtype == dtype and loss(S, TRIANGLES).shape == () for loss in LOSSES)
    assert connectivity_matrix(S, TRIANGLES).dtype == torch.float64


def test_memory_is_linear():
    "40,000 nodes and 100,000 edges, forward and backward: a dense adjacency alone would take 6.4 GB."
    resource = pytest.importorskip("resource")
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(40_000, 2, generator=generator).requires_grad_()
    edges = torch.randint(0, 40_000, (2, 100_000), generator=generator)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # the highest so far, which can only rise
    connectivity_loss(scores.softmax(1), edges).backward()
    risen = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert scores.grad.isfinite().all() and scores.grad.abs().max() > 0
    assert risen * (1 if sys.platform == "darwin" else 1024) < 2e8


# --- what is refused


@pytest.mark.parametrize(
    "assignment, text",
    [
        (torch.full((6, 2), 0.7), r"softmax"),
        (torch.tensor([[0.5, 0.5]] * 5 + [[1.5, -0.5]]), "node 5"),
        (torch.tensor([[0.5, 0.5]] * 3 + [[float("nan"), 0.5]] + [[0.5, 0.5]] * 2), "node 3"),
        (torch.full((6, 3), 1 / 3), r"\[n, 2\].*\[6, 3\]"),
        (torch.full((6,), 0.5), r"\[n, 2\].*\[6\]"),
        (torch.ones(6, 2, dtype=torch.long), "int64"),
    ],
)
def test_wrong_assignments(assignment, text):
    for function in (connectivity_matrix, *LOSSES):
        with pytest.raises(ValueError, match=text):
            function(assignment, TRIANGLES)


@pytest.mark.parametrize(
    "edges, text",
    [
        (TRIANGLES.T, r"\[2, E\].*\[14, 2\]"),
        (TRIANGLES.int(), "int64.*int32"),
        (torch.tensor([[0], [6]]), "0 to 6|0 and 5"),
        (torch.tensor([[-1], [2]]), "got -1 to 2"),
    ],
)
def test_wrong_edges(edges, text):
    for function in (connectivity_loss, num_connected_components, compactness):
        with pytest.raises(ValueError, match=text):
            function(sides(SPLIT), edges)


def test_an_edge_between_two_graphs_is_refused():
    batch = torch.tensor([0, 0, 0, 1, 1, 1])
    for function in (connectivity_loss, num_connected_components, compactness):
        with pytest.raises(ValueError, match=r"edge \[2, 3\] from graph 0 to 1"):
            function(sides(SPLIT), TRIANGLES, batch, 2)


def test_a_wrong_batch_vector_is_refused():
    for function in (connectivity_loss, num_connected_components, compactness):
        with pytest.raises(ValueError, match=r"shape \[6\]"):
            function(sides(SPLIT), TRIANGLES, torch.zeros(5, dtype=torch.long), 1)
    with pytest.raises(ValueError, match=r"shape \[6\]"):
        largest_component_mask(SPLIT.bool(), TRIANGLES, torch.zeros(5, dtype=torch.long))


# --- pieces


def test_a_node_at_the_threshold_is_out():
    assert selected_nodes(sides(torch.tensor([0.5, 0.51, 0.2]))).tolist() == [False, True, False]
    assert selected_nodes(torch.tensor([0.5, 0.51, 0.2]), 0.2).tolist() == [True, True, False]
    assert selected_nodes(torch.tensor([True, False])).tolist() == [True, False]
    with pytest.raises(ValueError, match="bool mask"):
        selected_nodes(torch.tensor([0, 1]))


def test_every_other_atom_of_a_path_is_five_pieces():
    path = torch.stack([torch.arange(8), torch.arange(1, 9)])
    assert num_connected_components(torch.arange(9) % 2 == 0, path).tolist() == [5]


def slow_pieces(mask, edges, batch, graphs):
    "Per graph, the node sets of the connected pieces, by networkx."
    graph = networkx.Graph()
    graph.add_nodes_from(mask.nonzero().flatten().tolist())
    graph.add_edges_from((i, j) for i, j in edges.T.tolist() if mask[i] and mask[j])
    pieces = [[] for _ in range(graphs)]
    for piece in networkx.connected_components(graph):
        pieces[batch[min(piece)]].append(sorted(piece))
    return pieces


@settings(max_examples=100)
@given(graph_batches())
def test_pieces_equal_those_of_networkx(drawn):
    p, edges, batch, graphs = drawn
    mask = p > 0.5
    pieces = slow_pieces(mask, edges, batch, graphs)
    assert num_connected_components(p, edges, batch, graphs).tolist() == [len(of_graph) for of_graph in pieces]
    assert torch.equal(
        num_connected_components(sides(p), edges, batch, graphs), num_connected_components(mask, edges, batch, graphs)
    )
    largest = [max(of_graph, key=lambda piece: (len(piece), -piece[0])) for of_graph in pieces if of_graph]
    assert largest_component_mask(mask, edges, batch).nonzero().flatten().tolist() == sorted(sum(largest, []))


def test_of_equal_pieces_the_one_with_the_lowest_node():
    edges = torch.tensor([[5, 1, 0], [3, 4, 2]])
    assert largest_component_mask(
        torch.tensor([0, 1, 0, 1, 1, 1], dtype=torch.bool), edges
    ).nonzero().flatten().tolist() == [1, 4]


def test_nothing_selected_and_no_nodes():
    assert num_connected_components(torch.zeros(3, dtype=torch.bool), NONE).tolist() == [0]
    assert not largest_component_mask(torch.zeros(3, dtype=torch.bool), NONE).any()
    none = torch.zeros(0, dtype=torch.bool)
    assert num_connected_components(none, NONE, torch.zeros(0, dtype=torch.long), 2).tolist() == [0, 0]
    assert largest_component_mask(none, NONE).shape == (0,)
    assert (
        connectivity_matrix(torch.zeros(0, 2), NONE, torch.zeros(0, dtype=torch.long), 2).tolist()
        == [[[0, 0], [0, 0]]] * 2
    )
    with pytest.raises(ValueError, match="bool mask"):
        largest_component_mask(torch.ones(3), NONE)


# --- compactness


def test_compactness_of_the_two_triangles():
    record = compactness(sides(SPLIT), TRIANGLES)
    assert record.selected_fraction.tolist() == [0.5] and record.components.tolist() == [1] and record.threshold == 0.5
    assert record.cut_ratio.item() == pytest.approx(1 / 7) and record.conductance.item() == pytest.approx(1 / 7)
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.threshold = 0.7


def test_compactness_of_odd_graphs():
    "All in, none in, no edges, no nodes: shares are 0 where there is nothing to share, conductance is nan."
    batch = torch.tensor([0, 0, 1, 1, 2])
    record = compactness(torch.tensor([1.0, 1, 0, 0, 1]), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), batch, 4)
    assert record.selected_fraction.tolist() == [1, 0, 1, 0] and record.components.tolist() == [1, 0, 1, 0]
    assert record.cut_ratio.tolist() == [0, 0, 0, 0] and record.conductance.isnan().all()


@settings(max_examples=60)
@given(graph_batches())
def test_conductance_and_cut_equal_those_of_networkx(drawn):
    p, edges, batch, graphs = drawn
    edges = edges[:, edges[0] != edges[1]]
    both = torch.cat([edges, edges.flip(0)], 1).unique(dim=1)
    record = compactness(p, both, batch, graphs)
    for g in range(graphs):
        graph = networkx.Graph()
        graph.add_nodes_from((batch == g).nonzero().flatten().tolist())
        graph.add_edges_from((i, j) for i, j in both.T.tolist() if batch[i] == g)
        inside = [i for i in graph if p[i] > 0.5]
        outside = [i for i in graph if p[i] <= 0.5]
        assert record.cut_ratio[g].item() == pytest.approx(
            networkx.cut_size(graph, inside, outside) / max(graph.number_of_edges(), 1)
        )
        if min(networkx.volume(graph, inside), networkx.volume(graph, outside)) == 0:
            assert record.conductance[g].isnan()
        else:
            assert record.conductance[g].item() == pytest.approx(networkx.conductance(graph, inside, outside))
