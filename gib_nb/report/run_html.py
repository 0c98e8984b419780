"""The report of a training run as one HTML file: predictions, subgraphs, the training, and pictures of test graphs."""

import html as text

from gib_nb.explain.molecule import explain_molecules, oracle_for_dataset
from gib_nb.report import html
from gib_nb.report.audit import audit_figure, audit_rows
from gib_nb.report.comparison import comparison_text
from gib_nb.report.figures import graph_svg, history_figure, probability_figure
from gib_nb.report.molecules import components_text, molecule_figure
from gib_nb.report.run import (
    all_warnings,
    fold_summary,
    metric_rows,
    score_rows,
    spread_rows,
    subgraph_rows,
    trained_with_critic,
    undefined_metrics,
)
from gib_nb.train.metrics import METRICS
from gib_nb.utils.text import label_text

PARTS = ("training", "validation", "test")
TRAINING = """<h2>Training</h2><p>The left panel shows the losses of each epoch. The right panel shows the score on the
validation graphs, the mean probability that a node is in the subgraph, and L_MI, {information}. L_cls is the
classification loss and L_con the connectivity loss, which is used with the weight α. The dashed line
marks the epoch whose model was kept: the one with {best} among those with the full weights α and β.</p>"""
PROBABILITIES = """<h2>Node probabilities</h2><p>Probabilities near 0 and 1 are clear decisions. If most of them are
near the threshold (dashed line), the subgraph depends more on the threshold than on the graph.</p>"""
AUDIT = """<h2>Does the prediction depend on the mask?</h2><p>An audit on test graphs: <strong>{verdict}</strong> Parts of
each graph are removed, as chosen by the mask or at random, and the model predicts again from the rest. The prediction
should change when the selection is removed. It should not change when only the selection is kept, or when other parts
are added to it. The output of the classifier should depend on which nodes or edges are selected.</p>"""
BASELINES = (
    "The no-edges baseline is a linear model of the mean node features. A model that is not clearly better "
    "than these two has learned nothing from the edges."
)
INTERVALS = (
    "The 95% bootstrap intervals over the test graphs are in brackets. They do not include the variation that another "
    "seed or another split would cause."
)
SPREAD = (
    "The predictions are means over the models, which differ in their seed. Where the models disagree more, the ensemble "
    "should be wrong more often. A ROC-AUC of 0.5, or a correlation of 0, means that the spread does not predict errors."
)
FOLDS = (
    "The last row is the mean ± standard deviation over the folds. Everything else on this page is about the "
    "first fold."
)


def gallery_choice(
    graphs,  # PyG `Data` with y
    number: int = 12,
    largest: int = 100,  # nodes; if all graphs are larger, the smallest ones are shown
) -> list[int]:  # positions in graphs
    "Which graphs to show: evenly spaced in the order of their labels."
    import numpy as np

    readable = [i for i, graph in enumerate(graphs) if graph.num_nodes <= largest]
    readable = readable or sorted(range(len(graphs)), key=lambda i: graphs[i].num_nodes)[:number]
    readable.sort(key=lambda i: graphs[i].y.nan_to_num(nan=-1.0).reshape(-1).tolist())
    places = np.linspace(0, len(readable) - 1, min(number, len(readable))).round().astype(int)
    return [readable[place] for place in places]


def _label_words(data, graph, prediction) -> str:
    "The label of a graph and its prediction, as text."
    label = "class" if data.task == "classification" and data.targets is None else "value"
    label = "labels" if data.targets is not None else label
    value = graph.y.reshape(-1).tolist() if data.targets is not None else graph.y.item()
    if label == "class" and data.classes is not None:
        value = data.classes[value]
    return f"{label} {label_text(value)}, predicted {label_text(prediction)}"


def _graph_figure(data, graph, explanation, number, prediction):
    label = _label_words(data, graph, prediction)
    selected = int(explanation.selected_nodes.sum())
    size = f"subgraph of {selected} of {explanation.num_nodes} nodes, {components_text(explanation.components)}"
    svg = graph_svg(graph, explanation, f"test graph {number}: {label}; {size}")
    return html.picture(svg, [f"test graph {number}: {label}", size])


def _graph_pictures(trainer, data, graphs, chosen):
    predictions = trainer.apply(graphs, whole=False)
    values = trainer.spec.decode(predictions.prediction).tolist()
    return [_graph_figure(data, graph, e, i, value) for i, graph, e, value in zip(chosen, graphs, predictions, values)]


def _molecule_pictures(trainer, data, graphs, oracle):
    return [
        molecule_figure(e, _label_words(data, graph, e.prediction))
        for graph, e in zip(graphs, explain_molecules(graphs, trainer, oracle))
    ]


def _gallery(trainer, data):
    "Some test graphs with their subgraphs, as HTML."
    chosen = gallery_choice(data.test)
    graphs = [data.test[i] for i in chosen]
    molecules = all("smiles" in graph for graph in graphs)
    oracle = oracle_for_dataset(data.name) if molecules else None
    pictures = (
        _molecule_pictures(trainer, data, graphs, oracle)
        if molecules
        else _graph_pictures(trainer, data, graphs, chosen)
    )
    truth = any("edge_mask" in graph or "node_mask" in graph for graph in graphs)
    return (
        f"<h2>Subgraphs of {len(pictures)} test graphs</h2>{html.legend(molecules, truth)}"
        f"{oracle_note(oracle, trainer.config.seed)}{html.gallery(pictures)}"
    )


def oracle_note(oracle, seed: int) -> str:
    "How far the values of a property can be trusted, as HTML; empty without a property."
    if oracle is None:
        return ""
    seen = (
        " It was fitted on the training part of the split with seed 0. With another seed, some of these molecules "
        "were among its training molecules."
        if oracle.kind == "surrogate" and seed
        else ""
    )
    return html.paragraph(f"Values of molecules and fragments: {oracle!r}.{seen}")


def at_most(width: int, plot: str) -> str:
    "A plot as wide as the page, up to so many pixels."
    return f'<div style="max-width: {width}px">{plot}</div>'


def _plots(trainer, data, metrics):
    "The plotly figures as HTML: the audit if there is one, the training, and the probabilities."
    from gib_nb.explain.audit import Audit

    found = Audit.from_dict(metrics["faithfulness"]) if metrics.get("faithfulness") else None
    figures = {} if found is None else {"audit": audit_figure(found)}
    figures |= {"training": history_figure(trainer.history), "probabilities": probability_figure(trainer, data.test)}
    *plots, training, probabilities = html.plots(figures)
    audit = "" if found is None else _audit_html(found, *plots)
    models = len(getattr(trainer, "members", ()))
    first = html.paragraph(f"The curves are those of the first of {models} models.") if models else ""
    metric = trainer.config.metric
    information = (
        "the critic's estimate of I(G;G_sub) in nats"
        if trained_with_critic(metrics)
        else "the bound on I(G;G_sub) that the training lowers, in nats"
    )
    best = (
        "the smallest validation loss" if metric == "loss" else f"the best {METRICS[metric].title} on validation graphs"
    )
    return (
        audit
        + TRAINING.format(best=best, information=information)
        + first
        + at_most(900, training)
        + PROBABILITIES
        + at_most(760, probabilities)
    )


def _metrics_html(metrics):
    "All metrics on the test graphs, as HTML; nothing for a record without them."
    if not (rows := metric_rows(metrics)):
        return []
    heading = ["test graphs", *metrics["metrics"]]
    return [html.table(rows, heading, "model"), html.paragraph(f"{undefined_metrics(metrics)} {INTERVALS}".strip())]


def source_text(data, metrics: dict) -> list[str]:
    "The classes, and what was found in the rows of a file, as sentences."
    source, found = metrics.get("source") or {}, []
    if data.classes and data.targets is None:
        found.append(f"Classes: {metrics['data']['classes']}.")
    if source.get("rejected"):
        found.append(f"Rows that cannot be used: {source['rejected']:,}; rejected.csv says why.")
    if source.get("duplicates"):
        found.append(f"Rows that repeat an earlier molecule: {source['duplicates']:,}, in the same part of the split.")
    if source.get("conflicts"):
        found.append(f"Molecules whose rows have different labels: {source['conflicts']:,}.")
    return [" ".join(found)] if found else []


def _spread_html(metrics):
    "The spread of an ensemble, as HTML; nothing for a single model."
    return [html.table(rows, ["test graphs", "", ""]), html.paragraph(SPREAD)] if (rows := spread_rows(metrics)) else []


def _audit_html(found, plot: str) -> str:
    "The audit of the mask with its plot, as HTML."
    heading = ["change of the prediction", "", "mask", "random mask", "better by (95% interval)"]
    return AUDIT.format(verdict=found.verdict) + html.table(audit_rows(found), heading) + at_most(1000, plot)


def _folds_html(folds):
    rows = [[f"fold {i}", *row[1:]] for i, metrics in enumerate(folds, 1) for row in score_rows(metrics)[:1]]
    rows.append(["all folds", *fold_summary(folds)])
    table = html.table(rows, [folds[0]["scores"]["measure"], *PARTS], "all folds")
    return f"<h2>All folds</h2>{table}{html.paragraph(FOLDS)}"


def _record_html(trainer, metrics):
    "What is needed to repeat the run, in sections that can be unfolded."
    from gib_nb.train.config import flat_settings

    training = {name: metrics[name] for name in ("epochs", "seconds", "resumed") if metrics[name] is not None}
    parts = {
        "data": metrics["data"],
        "settings": flat_settings(trainer.config),
        "versions and machine": metrics["versions"] | metrics["machine"],
        "training": training | {"attempts": len(metrics["attempts"])},
    }
    return "<h2>Data, settings, and environment</h2>" + "".join(
        f"<details><summary>{title}</summary>{html.record_table(record)}</details>" for title, record in parts.items()
    )


def report_html(
    trainer,  # fitted `GIBTrainer`
    data,  # `GraphDataset` it was trained on
    metrics: dict,  # of the run, as in metrics.json
    folds: tuple = (),  # metrics of all folds, if this run is one of them
) -> str:  # a complete HTML document of about 5 MB, nearly all of it the code of plotly
    "The report of a run: predictions, subgraphs, training, and pictures."
    classes = data.task == "classification"
    constant = (
        "The majority class is the most frequent class of the training graphs."
        if classes
        else "The training mean is the mean of the training values."
    )
    verdict = comparison_text(metrics.get("comparison"))
    body = [
        f"<h1>Graph information bottleneck on {text.escape(data.name)}</h1>",
        f"<p>The model was trained on {len(data.train)} of {len(data)} graphs. It predicts the "
        f"{'class' if classes else 'value'} of a graph from a part of it, the <em>subgraph</em>, and is penalized for "
        "the information that the subgraph carries about the whole graph.</p>",
        *map(html.paragraph, source_text(data, metrics)),
        *map(html.warning, all_warnings(metrics)),
        "<h2>Predictions</h2>",
        html.paragraph(verdict, "verdict") if verdict else "",
        html.table(score_rows(metrics), [metrics["scores"]["measure"], *PARTS], "model"),
        html.paragraph(f"{constant} {BASELINES}"),
        *_metrics_html(metrics),
        *_spread_html(metrics),
        "<h2>Selected subgraphs</h2>",
        html.table(subgraph_rows(metrics), ["test graphs", "", ""]),
        *([_folds_html(folds)] if folds else []),
        _plots(trainer, data, metrics),
        _gallery(trainer, data),
        _record_html(trainer, metrics),
    ]
    return html.page(f"gib-nb: {data.name}", "\n".join(body))
