import re
import types
import xml.etree.ElementTree

import numpy as np
import plotly.graph_objects
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from gib_nb.report import figures as plots

PATH = [(0, 1), (1, 2), (2, 3)]
LINES = r'<line x1="([\d.]+)" y1="([\d.]+)" x2="([\d.]+)" y2="([\d.]+)" stroke="([^"]+)" stroke-width="([\d.]+)"'


def explained(graph, p, threshold=0.5):
    p = torch.tensor(p)
    return types.SimpleNamespace(
        node_mask=p[:, None],
        edge_mask=p[graph.edge_index[0]] * p[graph.edge_index[1]],
        selected_nodes=p > threshold,
        num_nodes=len(p),
        components=1,
    )


def drawn_lines(svg):
    return [(color, float(width)) for *_, color, width in re.findall(LINES, svg)]


def places(svg):
    return np.array(re.findall(r'cx="([\d.-]+)" cy="([\d.-]+)"', svg), float)


# ---- drawings


def test_drawing_of_a_graph():
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    graph = Data(
        edge_index=edge_index,
        num_nodes=4,
        edge_mask=torch.tensor([1.0, 1, 0, 0, 0, 0]),
        node_mask=torch.tensor([1.0, 1, 0, 0]),
    )
    svg = plots.graph_svg(graph, explained(graph, [1.0, 1.0, 0.0, 0.6]), "a <b>")
    assert (
        svg.count("<circle") == 4
        and svg.count('stroke="black" stroke-width="2.5"') == 2
        and svg.count(f'stroke="{plots.ORANGE}"') == 1
    )
    assert (
        svg.count("rgb(255,255,255)") == 1 and svg.count("rgb(86,180,233)") == 2 and "<title>a &lt;b&gt;</title>" in svg
    )
    widths = [float(w) for w in re.findall(r'<line [^>]*stroke="(?:#E69F00|#999999)" stroke-width="([\d.]+)"', svg)]
    assert len(widths) == 3 and widths[0] > widths[1] == widths[2]
    assert svg.count("<line") == 4  # three edges and one outline
    assert svg == plots.graph_svg(graph, explained(graph, [1.0, 1.0, 0.0, 0.6]), "a <b>")


@pytest.mark.parametrize(
    "nodes, edges",
    [(1, []), (3, []), (2, [[0, 1], [1, 0]]), (4, [[0, 1], [1, 0], [2, 3], [3, 2]]), (3, [[0, 0], [0, 1], [1, 0]])],
)
def test_drawing_of_odd_graphs(nodes, edges):
    graph = Data(edge_index=torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T, num_nodes=nodes)
    svg = plots.graph_svg(graph, explained(graph, [0.3] * nodes))
    places = [float(value) for value in re.findall(r'c[xy]="([\d.-]+)"', svg)]
    assert len(places) == 2 * nodes and all(0 <= value <= 320 for value in places) and "nan" not in svg


def test_graph_svg_draws_what_draw_graph_draws():
    graph = Data(
        edge_index=torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]),
        num_nodes=4,
        edge_mask=torch.tensor([1.0, 1, 0, 0, 0, 0]),
    )
    weights = [1.0, 0.75, 0.0, 0.5]
    svg = plots.graph_svg(graph, explained(graph, weights), "path", (200, 100))
    assert svg == plots.draw_graph(PATH, weights, true_nodes=(0, 1), true_edges=[(1, 0)], title="path", size=(200, 100))
    strict = plots.graph_svg(graph, explained(graph, weights, 0.8), "path", (200, 100))
    assert strict == plots.draw_graph(
        PATH, weights, 0.8, true_nodes=(0, 1), true_edges=[(0, 1)], title="path", size=(200, 100)
    )


def test_color_and_width():
    svg = plots.draw_graph(PATH, [1, 0.8, 0.6, 0.5])
    assert drawn_lines(svg) == [
        (plots.ORANGE, pytest.approx(1 + 4 * 0.8, abs=0.05)),
        (plots.ORANGE, pytest.approx(1 + 4 * 0.48, abs=0.05)),
        (plots.GRAY, pytest.approx(1 + 4 * 0.3, abs=0.05)),
    ]  # .5 is not above .5
    assert [width for _, width in drawn_lines(plots.draw_graph(PATH, [1] * 4, edge_weights=[0, 0.5, 1]))] == [1, 3, 5]
    assert {color for color, _ in drawn_lines(plots.draw_graph(PATH, [1] * 4, 1.0))} == {plots.GRAY}


@pytest.mark.parametrize(
    "edges",
    [
        np.array(PATH),
        [(j, i) for i, j in PATH],
        PATH + [(j, i) for i, j in PATH],
        [(3, 3), *PATH, (0, 1)],
        torch.tensor(PATH),
    ],
)
def test_an_edge_is_drawn_once(edges):
    assert plots.draw_graph(edges, [0.2, 1, 1, 0.4]) == plots.draw_graph(PATH, [0.2, 1, 1, 0.4])


def test_edge_weights_belong_to_the_first_row_of_an_edge():
    svg = plots.draw_graph([(1, 1), (1, 0), (0, 1), (1, 2)], [1] * 3, edge_weights=[0.1, 0.5, 0.9, 0])
    assert [width for _, width in drawn_lines(svg)] == [3, 1]


def test_given_places_are_scaled_alike_in_both_directions():
    positions = np.array([[0, 0], [2, 0], [2, 1], [0, 1]])
    found = places(plots.draw_graph(PATH, [0] * 4, positions=positions, size=(320, 260)))
    steps = np.diff(found, axis=0)
    assert (
        steps[0, 0] == pytest.approx(2 * steps[1, 1], abs=0.2)
        and steps[0, 1] == steps[1, 0] == 0
        and steps[0, 0] == pytest.approx(320 - 24, abs=0.2)
    )
    assert found.mean(0) == pytest.approx([160, 130], abs=0.1)
    moved = plots.draw_graph(PATH, [0] * 4, positions=positions * 7 - 100, size=(320, 260))
    assert moved == plots.draw_graph(PATH, [0] * 4, positions=positions)


def test_letters_are_text_in_the_nodes():
    svg = plots.draw_graph(PATH, [0, 0.3, 0.6, 1], letters=["C", "Cl", "", "<&>"])
    root = xml.etree.ElementTree.fromstring(svg)
    texts = [
        (text.text, float(text.get("x")), float(text.get("font-size")), text.get("fill")) for text in root.iter("text")
    ]
    assert [text for text, *_ in texts] == ["C", "Cl", "<&>"] and {color for *_, color in texts} == {plots.BLACK}
    assert [x for _, x, *_ in texts] == places(svg)[[0, 1, 3], 0].tolist()
    assert texts[0][2] >= 12 and texts[1][2] >= 12  # pixels
    assert "node 1 (Cl): 0.30" in [title.text for title in root.iter("title")]
    assert "<text" not in plots.draw_graph(PATH, [0] * 4)


def luminance(red, green, blue):
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in (red / 255, green / 255, blue / 255)]
    return np.dot(linear, (0.2126, 0.7152, 0.0722))


@pytest.mark.parametrize("weight", [0, 0.25, 0.5, 0.75, 1])
def test_letters_are_readable_on_every_shade(weight):
    ink = luminance(*(int(plots.BLACK[i : i + 2], 16) for i in (1, 3, 5)))
    assert (luminance(*map(int, re.findall(r"\d+", plots.shade(weight)))) + 0.05) / (
        ink + 0.05
    ) > 4.5  # the contrast that WCAG asks for


@given(
    st.integers(0, 12).flatmap(
        lambda n: st.tuples(
            st.lists(st.floats(0, 1), min_size=n, max_size=n),
            st.lists(st.tuples(*[st.integers(0, max(n - 1, 0))] * 2), max_size=20 if n else 0),
            st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=n, max_size=n),
        )
    )
)
def test_every_graph_is_drawn_inside_the_picture(case):
    weights, edges, positions = case
    svg = plots.draw_graph(edges, weights, positions=np.reshape(positions, (-1, 2)), size=(200, 150))
    xml.etree.ElementTree.fromstring(svg)
    found = places(svg).reshape(-1, 2)
    assert len(found) == len(weights) and ((found >= 0) & (found <= (200, 150))).all()
    assert len(drawn_lines(svg)) == len({frozenset(edge) for edge in edges if edge[0] != edge[1]})


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"edges": np.array(PATH).T}, r"transpose an edge_index \(got int64 \[2, 3\]\)"),
        ({"edges": [(0, 4)]}, "nodes 0 to 3"),
        ({"edges": [(-1, 2)]}, "nodes 0 to 3"),
        ({"edges": [(0.0, 1.0)]}, "as integers"),
        ({"edges": [0, 1]}, "pair of nodes per row"),
        ({"weights": [0, 1, 1.1, 0]}, "weights.*0 to 1"),
        ({"weights": [0, 1, float("nan"), 0]}, "weights.*0 to 1"),
        ({"weights": [[0], [1], [1], [0]]}, r"weights \[4\].*\[4, 1\]"),
        ({"positions": [(0, 1)]}, r"positions \[4, 2\]"),
        ({"positions": [(0, float("inf"))] * 4}, "finite"),
        ({"edge_weights": [1, 1]}, r"edge_weights \[3\].*\[2\]"),
        ({"edge_weights": [1, 1, -1]}, "edge_weights.*0 to 1"),
        ({"letters": "CC"}, "4 letters.*got 2"),
        ({"true_nodes": [4]}, "got 4"),
        ({"true_edges": [(0, 2)]}, r"got \(0, 2\)"),
        ({"size": (20, 200)}, "size above 24"),
    ],
)
def test_what_cannot_be_drawn(changed, said):
    with pytest.raises(ValueError, match=f"expected.*{said}"):
        plots.draw_graph(**{"edges": PATH, "weights": [0, 1, 1, 0]} | changed)


# ---- layout


@pytest.mark.parametrize(
    "edges, nodes", [(PATH, 4), ([], 0), ([], 1), ([], 5), ([(i, i + 1) for i in range(70)], 71), ([(0, 1), (2, 3)], 4)]
)
def test_layout_is_the_same_each_time_and_lies_across(edges, nodes):
    first = plots.graph_layout(edges, nodes)
    assert (
        first.shape == (nodes, 2)
        and np.isfinite(first).all()
        and (first == plots.graph_layout(np.array(edges), nodes)).all()
    )
    deviation = first.std(0) if nodes else np.zeros(2)
    assert deviation[0] >= deviation[1]
    assert len(np.unique(first.round(6), axis=0)) == nodes


def test_layout_leaves_the_global_generator_alone():
    np.random.seed(0)
    plots.graph_layout([], 5)
    after = np.random.random()
    np.random.seed(0)
    assert after == np.random.random()


# ---- figures

LINE = {"type": "scatter", "x": [1, 2], "y": [3, 4]}


def test_figure_has_the_common_look():
    found = plots.figure([LINE], "β", "nats").layout
    assert (found.height, found.width, found.autosize, found.font.size, found.uirevision, found.hovermode) == (
        300,
        None,
        True,
        12,
        "keep",
        "closest",
    )
    assert found.xaxis.title.text == "β" and found.yaxis.title.text == "nats" and found.title.text is None
    assert {found[axis].gridcolor for axis in ("xaxis", "yaxis")} == {"#eee"} and not found.xaxis.zeroline
    assert found.legend.orientation == "h" and found.legend.y >= 1 and found.template.layout.to_plotly_json() == {}


@pytest.mark.parametrize(
    "names, shown",
    [([None, None], False), (["a", None], False), (["a", "b"], True), (["a", "b", None], True), ([], False)],
)
def test_a_legend_is_for_more_than_one_name(names, shown):
    assert plots.figure([LINE | ({"name": name} if name else {}) for name in names]).layout.showlegend is shown


def test_hidden_names_need_no_legend():
    assert plots.figure([LINE | {"name": "a"}, LINE | {"name": "b", "showlegend": False}]).layout.showlegend is False


def test_layout_entries_win_and_dicts_are_merged():
    shapes = [{"type": "line", "x0": 0, "x1": 1, "y0": 0, "y1": 1}]
    found = plots.figure(
        [LINE, LINE | {"xaxis": "x2"}],
        "β",
        "nats",
        "title",
        xaxis={"type": "log", "title": {"font": {"size": 20}}},
        yaxis={"title": "bits"},
        xaxis2={"domain": [0.5, 1]},
        margin={"l": 5},
        shapes=shapes,
        height=99,
        hovermode=False,
        showlegend=True,
    ).layout
    assert (
        found.xaxis.type == "log"
        and found.xaxis.title.text == "β"
        and found.xaxis.title.font.size == 20
        and found.xaxis.gridcolor == "#eee"
    )
    assert found.yaxis.title.text == "bits" and found.xaxis2.gridcolor == "#eee" and found.xaxis2.title.text is None
    assert (
        found.margin.l == 5
        and found.margin.b > 0
        and len(found.shapes) == 1
        and found.height == 99
        and found.hovermode is False
        and found.showlegend
    )
    again = plots.figure([LINE], "β").layout  # nothing stayed from the call before
    assert again.xaxis.type is None and again.margin.l > 5


def test_arguments_are_not_changed():
    traces, axis = [dict(LINE)], {"title": {"font": {"size": 20}}}
    plots.figure(traces, "β", xaxis=axis)
    assert traces == [LINE] and axis == {"title": {"font": {"size": 20}}}


def test_probability_figure_counts_all_nodes():
    graphs = [
        Data(num_nodes=3, node_mask=torch.tensor([1.0, 0, 0])),
        Data(num_nodes=2, node_mask=torch.tensor([1.0, 1])),
    ]
    predictions = types.SimpleNamespace(node_mask=torch.tensor([0.99, 0.01, 0.5, 1.0, 0.98]))
    trainer = types.SimpleNamespace(
        apply=lambda graphs, whole: predictions, config=types.SimpleNamespace(threshold=0.4)
    )
    found = plots.probability_figure(trainer, graphs)
    assert [(bar.name, bar.y.sum(), bar.y[-1]) for bar in found.data] == [("true nodes", 3, 3), ("other nodes", 2, 0)]
    assert found.data[1].y[[0, 12]].tolist() == [1, 1] and found.layout.shapes[0].x0 == 0.4 and found.layout.showlegend
    del graphs[0].node_mask
    (bar,) = plots.probability_figure(trainer, graphs).data
    assert bar.y.sum() == 5


def test_a_training_shows_the_mean_node_mask_and_says_so():
    "The curve of mean probabilities was once called nodes kept, which is another number."
    epochs = [
        {"epoch": 0, "classification": 0.7, "score": 0.5, "selected_fraction": 0.9},
        {"epoch": 1, "classification": 0.6, "score": 0.75, "selected_fraction": 0.8},
    ]
    steps = [
        {
            "epoch": epoch,
            "classification": 1.0,
            "connectivity": 0.5,
            "mutual_information": information,
            "mean_node_mask": p,
        }
        for epoch, information, p in (
            (0, float("nan"), 0.25),
            (0, float("nan"), 0.75),
            (1, 0.125, 0.25),
            (1, 0.375, 0.5),
        )
    ]
    figure = plots.history_figure({"steps": steps, "epochs": epochs, "best_epoch": 1})
    curves = {curve.name: list(curve.y) for curve in figure.data}
    assert (
        curves["mean node mask"] == [0.5, 0.375]
        and curves["L_MI (estimate)"] == [None, 0.25]
        and curves["score, validation"] == [0.5, 0.75]
    )
    assert curves["L_cls, validation"] == [0.7, 0.6] and curves["L_cls, training"] == [1.0, 1.0] and len(curves) == 6
    assert [title.text for title in figure.layout.annotations] == [
        "losses",
        "score, mean node mask, nats",
    ] and "kept" not in figure.to_json()
    assert [line.x0 for line in figure.layout.shapes] == [2, 2] and figure.layout.width <= 640
    plotly.graph_objects.Figure(figure.to_dict())  # valid for plotly


def test_sweep_figure_has_a_curve_for_each_value():
    import pandas

    table = pandas.DataFrame(
        {"beta": [0, 0, 1, 1] * 2, "T": [1] * 4 + [5] * 4, "score": [0.2, 0.4, 1.0, 1.0, 0.5, 0.5, 0.6, 0.8]}
    )
    figure = plots.sweep_figure(table, "beta", by="T")
    assert (
        [trace.name for trace in figure.data] == ["T 1", "T 5"]
        and np.allclose(figure.data[0].y, [0.3, 1.0])
        and np.allclose(figure.data[1].error_y.array, [0, 0.2 / 2**0.5])
    )
    with pytest.raises(ValueError, match="one of the columns beta, T, score .got 'accuracy'"):
        plots.sweep_figure(table, "beta", "accuracy")
