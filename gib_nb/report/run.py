"""The measures of one training run: scores of the model and of baselines, the test subgraphs, their information, and warnings.

`run_metrics` measures a trained model and returns plain JSON. The other functions turn that record into rows and
sentences for the terminal and for the HTML report.
"""

import math
import warnings

from gib_nb.report.baselines import baseline_predictions, score_of
from gib_nb.report.comparison import compare_outcomes, comparison_text
from gib_nb.report.evaluate import COLUMNS, evaluate
from gib_nb.report.tables import align, mean_text

PARTS = ("train", "valid", "test")
AUDITED = 100  # the mask of a run is audited on at most this many graphs


def baselines(
    data,  # `GraphDataset`
    predictions: dict | None = None,  # from `baseline_predictions`; None: those of the constant and of the linear model
) -> dict:  # name → part → accuracy or R²
    "Scores of the baselines, which have no bottleneck."
    found = baseline_predictions(data) if predictions is None else predictions
    return {
        name: {part: score_of(outcomes, data, rows) for part, rows in data.split.items()}
        for name, outcomes in found.items()
    }


def test_metrics(
    trainer,  # fitted `GIBTrainer`
    data,  # `GraphDataset` it was trained on
    predictions: dict,  # of baselines, as from `baseline_predictions`
) -> dict:  # "metrics": name → metric → {"value", "low", "high"}; "comparison": from `compare_outcomes`
    "Every metric on the test graphs, of the model and of the baselines, with 95% bootstrap intervals over the graphs, and the paired comparison."
    from gib_nb.train.metrics import MAIN_METRIC, METRICS, metric_table

    rows, several = data.split["test"], data.targets is not None
    model = trainer.spec.outcomes(trainer._logits(data.test))
    others = {name: outcomes[rows] for name, outcomes in predictions.items()}
    y, chosen = data.labels[rows], trainer.config.metric
    chosen = chosen if chosen in METRICS else MAIN_METRIC[data.task]
    return {
        "metrics": {
            name: metric_table(y, outcomes, data.task, several)
            for name, outcomes in ({"model": model} | others).items()
        },
        "comparison": compare_outcomes(chosen, y, model, others, several),
    }


def run_metrics(
    trainer,  # fitted `GIBTrainer` or `GIBEnsemble`
    data,  # `GraphDataset` it was trained on
    information_graphs: int = 4000,  # I(G;G_sub) is estimated on at most this many graphs of the whole data set
    networks: bool = False,  # compare also with the same network without a bottleneck, and for molecules with a random forest
    report=lambda text: None,  # called with the name of each baseline before it is trained
    progress: bool = False,  # show a progress bar for the network
    **settings,  # of `critic_estimate`
) -> dict:  # plain JSON
    """Measure a trained model.

    "scores": accuracy or R² of the model and of `baselines` on each part of the split; "subgraphs": `evaluate` on the
    test graphs; "metrics" and "comparison": `test_metrics`; "spread": `spread_measures` on the test graphs, None for a single model; "audit":
    `audit_masks` on the test graphs; "faithfulness": `audit` of the mask on test graphs, None if there are too few;
    "mutual_information": estimate of I(G;G_sub) in nats; "collapse", "warnings": texts.
    """
    import numpy as np

    subgraphs, test = evaluate(trainer, data.test), trainer.spec.prepare(data.test, labels=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = np.random.default_rng(trainer.config.seed).permutation(len(data))[:information_graphs]
        estimate = trainer.mutual_information(data[np.sort(rows)], **{"seed": trainer.config.seed} | settings)
    others = baseline_predictions(data, trainer if networks else None, report, progress)
    score = {
        part: subgraphs["score"] if part == "test" else trainer.score(data[rows]) for part, rows in data.split.items()
    }
    information = {name: value for name, value in vars(estimate).items() if name != "history"} | {"graphs": len(rows)}
    texts = dict.fromkeys(str(each.message) for each in caught if str(each.message) not in estimate.warnings)
    return plain_json(
        {
            "scores": {"measure": "accuracy" if data.task == "classification" else "R²", "model": score}
            | baselines(data, others),
            "classes": [str(name) for name in data.classes] if data.classes else None,
            **test_metrics(trainer, data, others),
            "subgraphs": subgraphs,
            "spread": spread_measures(trainer, data.test) if hasattr(trainer, "predict_std") else None,
            "audit": mean_audit(trainer, test),
            "faithfulness": faithfulness(trainer, data.test, data.valid),
            "mutual_information": information,
            "collapse": trainer.collapse,
            "warnings": [*_mask_warnings(subgraphs, trainer.collapse), *texts],
        }
    )


def mean_audit(
    trainer,  # fitted `GIBTrainer` or `GIBEnsemble`
    graphs,  # `PreparedGraphs` with labels
) -> dict:
    "`audit_masks` of a model, or its mean over the members of an ensemble."
    import numpy as np

    from gib_nb.train.collapse import audit_masks

    members = getattr(trainer, "members", [trainer])
    found = [audit_masks(member.model, graphs, member.config) for member in members]
    return {name: float(np.mean([audit[name] for audit in found])) for name in found[0]}


def faithfulness(
    trainer,  # fitted `GIBTrainer`, or `GIBEnsemble`, of which the first model is audited
    test,  # at most `AUDITED` of these graphs are used
    valid=(),  # used too if there are too few test graphs
) -> dict | None:
    "The result of `audit` as JSON; None if too few graphs can be cut."
    from gib_nb.explain.audit import LEAST, audit, can_be_cut

    usable = [graph for graph in test if can_be_cut(graph)][:AUDITED]
    if len(usable) < LEAST:
        usable += [graph for graph in valid if can_be_cut(graph)]
    if len(usable) < LEAST:
        return None
    return audit(trainer, usable, fractions=(0.1, 0.2, 0.3, 0.5), repeats=1).to_dict()


def spread_measures(
    trainer,  # fitted `GIBEnsemble`
    graphs,  # with labels
) -> dict:
    """The spread of the members' predictions, and whether it is larger where the ensemble is wrong.

    "models": number of members; "mean": mean standard deviation over the members; "measure" and "value": Spearman correlation
    with the absolute error, or ROC-AUC of the standard deviation for detecting wrong classes, None if it is not defined."""
    import numpy as np

    from gib_nb.data.labels import list_graphs
    from gib_nb.train.ensemble import combine_logits
    from gib_nb.train.metrics import METRICS, metric_value

    spec, logits = trainer.spec, trainer._member_logits(graphs)
    std, combined = trainer._std(logits), combine_logits(spec, logits)
    y = spec.read_outputs(list_graphs(graphs)).numpy()
    if spec.task == "regression":
        wrong, name = np.abs(spec.outcomes(combined).reshape(y.shape) - y), "spearman"
    else:
        found = (combined.argmax(1) if spec.targets is None else (combined > 0).double()).numpy()
        wrong, name = (found != y) + 0, "roc_auc"
    seen = ~np.isnan(y.astype(float))
    both = np.stack([-std[seen], std[seen]], 1) if name == "roc_auc" else std[seen][:, None]
    value = metric_value(name, wrong[seen], both)
    return {"models": len(logits), "mean": float(std.mean()), "measure": METRICS[name].title, "value": value}


def _mask_warnings(subgraphs, collapse):
    "Warnings about the masks of the test graphs; a collapse that was detected before is not reported twice."
    empty, full, threshold = subgraphs["empty_fraction"], subgraphs["full_fraction"], subgraphs["threshold"]
    if not collapse and empty + full == 1:
        yield (
            f"the threshold {threshold:g} selects all nodes or none in every test graph: the mask is undecided or "
            "collapsed; look at the probabilities themselves"
        )
    if 0.1 < empty < 1:
        yield (
            f"{empty:.0%} of the test subgraphs are empty at the threshold {threshold:g}: the model may encode a "
            "label by selecting nothing, and then its subgraphs do not explain its predictions"
        )


def plain_json(value):
    "A value as JSON returns it: lists in place of tuples, and None in place of numbers that are not finite."
    if isinstance(value, dict):
        return {key: plain_json(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def number_text(value, format: str) -> str:
    'A number as text; "unknown" for None.'
    return "unknown" if value is None else f"{value:{format}}"


def score_rows(metrics: dict) -> list[list[str]]:
    "A row for the model and for each baseline, with its scores on the three parts of the split as text."
    scores = metrics["scores"]
    return [[name, *(number_text(scores[name][part], ".3f") for part in PARTS)] for name in scores if name != "measure"]


def metric_rows(metrics: dict) -> list[list[str]]:
    "A row for each metric on the test graphs, with a column for the model and for each baseline; empty for an older record without metrics."
    table, (defined, _) = metrics.get("metrics") or {}, _metric_names(metrics)
    return [[metric_title(name, metrics), *(_interval_text(table[each][name]) for each in table)] for name in defined]


def _metric_names(metrics: dict) -> tuple[list[str], list[str]]:
    "The metrics that are defined on the test graphs, for the model or for a baseline, and those that are not."
    table = metrics.get("metrics") or {}
    names = list(next(iter(table.values()), {}))
    defined = [name for name in names if any(column[name]["value"] is not None for column in table.values())]
    return defined, [name for name in names if name not in defined]


def undefined_metrics(metrics: dict) -> str:
    "Which metrics are not in `metric_rows`, and why, as a sentence; empty if all are."
    from gib_nb.train.metrics import METRICS

    missing = [METRICS[name].title for name in _metric_names(metrics)[1]]
    if not missing:
        return ""
    why = "a class does not occur in the test graphs" if metrics["task"] == "classification" else "too few test graphs"
    return f"Not defined here, since {why}: {', '.join(missing)}."


def metric_title(name: str, metrics: dict) -> str:
    "The title of a metric, with the class that it is about, if it is about one of two."
    from gib_nb.train.metrics import METRICS

    classes = metrics.get("classes") or ()
    of_one = name in ("f1", "average_precision") and len(classes) == 2
    return METRICS[name].title + (f", class {classes[1]}" if of_one else "")


def _interval_text(cell: dict) -> str:
    if cell["value"] is None:
        return "-"
    low, high = (number_text(cell[end], ".3f") for end in ("low", "high"))
    return f"{cell['value']:.3f} [{low},\N{NO-BREAK SPACE}{high}]"


def spread_rows(metrics: dict) -> list[list[str]]:
    "The spread of an ensemble as rows: quantity, value, and how well it predicts errors; empty for a single model."
    if not (spread := metrics.get("spread")):
        return []
    of = "of the probability of the predicted class" if metrics["task"] == "classification" else "of the value"
    for_what = "with the absolute error" if metrics["task"] == "regression" else "for wrong predictions"
    text = f"{spread['measure']} {for_what}: {number_text(spread['value'], '.2f')}"
    return [
        [
            f"standard deviation over {spread['models']} models",
            f"{spread['mean']:.3g}",
            f"mean over graphs, {of}; {text}",
        ]
    ]


def subgraph_rows(metrics: dict) -> list[list[str]]:
    "The measures of the test subgraphs as rows: quantity, value, and what to compare it with."
    s, audit = metrics["subgraphs"], metrics.get("audit")
    title = lambda name: COLUMNS[name].title
    truth = "" if s["true_fraction"] is None else f"; {s['true_fraction']:.1%} of the nodes belong to the ground truth"
    rows = [
        [
            title("selected_fraction"),
            f"{s['selected_fraction']:.1%}",
            f"nodes with a probability above {s['threshold']:g}{truth}",
        ],
        [
            title("components"),
            f"{s['components']:.2f}",
            f"mean over graphs; {s['connected_fraction']:.0%} of the subgraphs are connected, "
            f"{s['empty_fraction']:.0%} are empty",
        ],
    ]
    if audit:
        rows.append(
            [
                f"{metrics['scores']['measure']} from the subgraph",
                f"{audit['subgraph']:.3f}",
                f"nodes weighted by their probability; from an empty subgraph {audit['empty']:.3f}, from a random one of the same size "
                f"{audit['random']:.3f}, from the whole graph {audit['full']:.3f}",
            ]
        )
    if s["edge_auc"] is not None:
        rows.append([title("edge_auc"), f"{s['edge_auc']:.3f}", "of the edge mask; 0.5 is chance"])
    return [*rows, _information_row(metrics["mutual_information"], trained_with_critic(metrics))]


def trained_with_critic(metrics: dict) -> bool:
    "Whether an estimate of I(G;G_sub) by a critic was part of the training loss; true for a record that does not tell."
    return metrics.get("config", {}).get("information", {}).get("kind", "Critic") == "Critic"


def _information_row(m, with_critic: bool):
    "The estimate of I(G;G_sub)."
    value, error, in_sample, ceiling = (
        number_text(m[name], ".2f") for name in ("value", "standard_error", "in_sample", "log_num_pairs")
    )
    doubt = "" if with_critic or not m["warnings"] else "too uncertain to use, and not part of the training; "
    return [
        COLUMNS["graph_mi"].title,
        f"{value} ± {error} nats",
        f"{doubt}held out; {in_sample} on the pairs that the critic was trained on; with this number of pairs no value above "
        f"{ceiling} can be certified",
    ]


def all_warnings(metrics: dict) -> list[str]:
    "All warnings about a run, as sentences; none for what an older record does not hold."
    collapse = [f"collapse: {metrics['collapse']}"] if metrics.get("collapse") else []
    doubts = metrics.get("mutual_information", {}).get("warnings", []) if trained_with_critic(metrics) else []
    information = [f"I(G;G_sub): {text}" for text in doubts]
    found = metrics.get("faithfulness")
    audit = [f"audit: {found['verdict']}"] if found and found["findings"] else []
    return collapse + metrics.get("warnings", []) + audit + information


def fold_summary(folds: list[dict]) -> list[str]:
    "For each part of the split, mean ± standard deviation of the score over the folds, as text."
    return [mean_text([metrics["scores"]["model"][part] for metrics in folds]) for part in PARTS]


def results_text(metrics: dict) -> str:
    "The tables and warnings that are printed at the end of a training run."
    from gib_nb.explain.audit import LEAST

    scores = align([[metrics["scores"]["measure"], *PARTS], *score_rows(metrics)])
    numbers = [*spread_rows(metrics), *subgraph_rows(metrics)]
    rows = [f"{name}: {value} ({compared})" for name, value, compared in numbers]
    table = metric_rows(metrics)
    heading = ["test graphs, 95% interval", *(metrics.get("metrics") or {})]
    notes = [text for text in (comparison_text(metrics.get("comparison")), undefined_metrics(metrics)) if text]
    measured = [align([heading, *table]), *notes, ""] if table else []
    found = metrics.get("faithfulness")
    audit = [f"audit of the mask: {found['verdict']}"] if found and not found["findings"] else []
    if "faithfulness" in metrics and not found:
        audit = [f"audit of the mask: not made, since fewer than {LEAST} test and validation graphs can be cut"]
    return "\n".join([scores, "", *measured, *rows, *audit, *(f"warning: {text}" for text in all_warnings(metrics))])
