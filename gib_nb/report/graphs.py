"""Explanations of graphs as rows of a table and as an HTML page."""

from gib_nb.report import html
from gib_nb.report.figures import graph_svg
from gib_nb.report.molecules import components_text
from gib_nb.utils.text import label_text

GRAPH_COLUMNS = ("graph", "prediction", "nodes", "edges", "fraction", "components")


def selected_edges(
    explanation,  # `SubgraphExplanation`
) -> list[tuple[int, int]]:  # pairs (i, j), i < j
    "Edges above the threshold between selected nodes."
    ends, inside = explanation.edge_index, explanation.selected_nodes
    chosen = inside[ends].all(0) & (explanation.edge_mask > explanation.selected_threshold)
    return sorted({(min(i, j), max(i, j)) for i, j in ends[:, chosen].T.tolist()})


def graph_row(
    number: int,  # of the graph in its file, from 1
    explanation,  # `SubgraphExplanation`
    prediction,  # class or value; a list for several targets
) -> list:
    "The values of `GRAPH_COLUMNS` for one graph; nodes are numbered from 0, as in edge_index."
    nodes = explanation.selected_nodes.nonzero().flatten().tolist()
    edges = " ".join(f"{i}-{j}" for i, j in selected_edges(explanation))
    fraction = len(nodes) / max(explanation.num_nodes, 1)
    said = label_text(prediction)
    return [number, said, " ".join(map(str, nodes)), edges, f"{fraction:.4f}", explanation.components]


def graph_figure(number: int, graph, explanation, prediction) -> str:  # HTML
    "A graph for a gallery, with its prediction and the size of its subgraph."
    size = f"{int(explanation.selected_nodes.sum())} of {explanation.num_nodes} nodes, {components_text(explanation.components)}"
    first = f"graph {number}: predicted {label_text(prediction)}"
    return html.picture(graph_svg(graph, explanation, f"{first}; {size}"), [first, size])


def graphs_html(
    found,  # (number, graph, `SubgraphExplanation`, prediction) of each graph
    model: str,  # a description of the model that explained them
    max_drawn: int = 100,  # draw at most this many graphs
    largest: int = 200,  # draw only graphs with at most this many nodes
) -> str:  # a complete HTML document
    "A page with pictures of the graphs and a table of all of them."
    figures, rows, left_out, truth = [], [], 0, False
    for number, graph, explanation, prediction in found:
        rows.append(graph_row(number, explanation, prediction))
        if len(figures) < max_drawn and graph.num_nodes <= largest:
            figures.append(graph_figure(number, graph, explanation, prediction))
            truth |= "node_mask" in graph or "edge_mask" in graph
        else:
            left_out += 1
    why = f"{left_out} graphs are not drawn. Only the first {max_drawn} graphs with at most {largest} nodes are."
    body = [
        "<h1>Subgraphs that carry the prediction</h1>",
        html.paragraph(f"Explained by {model}.", "model"),
        html.legend(False, truth),
        html.paragraph(why) if left_out else "",
        html.gallery(figures),
        "<h2>Table of all graphs</h2>",
        html.table(rows, GRAPH_COLUMNS),
    ]
    return html.page("gib-nb: graphs", "\n".join(body))
