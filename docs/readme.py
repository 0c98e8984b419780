"""Write the result tables of the README from the committed results: `python docs/readme.py`."""

import functools
import json
import pathlib

import numpy as np

from gib_nb.utils.migrate import migrate

ROOT = pathlib.Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- results: written by docs/readme.py -->", "<!-- end of results -->"


@functools.cache
def rows_of(name):
    return migrate(json.loads((ROOT / "nbs" / "experiments" / "results" / f"{name}.json").read_text()))["rows"]


def table(head, lines):
    return "\n".join(["| " + " | ".join(map(str, line)) + " |" for line in (head, ["---"] * len(head), *lines)])


def number(value):
    return "–" if value is None else f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.2f}"


def mean(values):
    values = [value for value in values if value is not None]
    return float(np.mean(values)) if values else None


def classification():
    "Accuracy over ten folds, the paper's in brackets."
    from gib_nb.experiments.classification import DATASETS, PAPER, select_configs

    found = select_configs(rows_of("classification"))

    def cell(method, dataset):
        ours = mean([row["accuracy"] for row in found.get((dataset, method), ())])
        paper = PAPER.get(method, {}).get(dataset)
        return number(ours) + (f" ({number(paper[0])})" if paper else "")

    methods = [
        "GCN+GIB",
        "GraphSAGE+GIB",
        "GIN+GIB",
        "GAT+GIB",
        "GIN+GIB, β = 0",
        "GIN",
        "GIN, sum",
        "no-edges baseline",
        "majority class",
    ]
    return table(
        ["accuracy (the paper's)", *DATASETS],
        [[method, *(cell(method, dataset) for dataset in DATASETS)] for method in methods],
    )


def interpretation():
    "Bias at half of the atoms, mean over the seeds."
    from gib_nb.experiments.interpretation import DATASETS

    rows = rows_of("interpretation")

    def cell(method, dataset):
        return number(
            mean(
                [
                    point["bias"]
                    for row in rows
                    if (row["dataset"], row["method"]) == (dataset, method)
                    for point in row.get("bias_vs_size", ())
                    if point["ratio"] == 0.5
                ]
            )
        )

    methods = {
        "GCN+Att05": "GCN+Att05",
        "GCN+GIB": "GCN+GIB",
        "random fragment": "random connected fragment",
        "sampled GIB": "sampled GIB",
        "every fragment": "best of all fragments (of small molecules)",
    }
    return table(
        ["bias at half of the atoms", *DATASETS],
        [[words, *(cell(method, dataset) for dataset in DATASETS)] for method, words in methods.items()],
    )


def components():
    "Connected components of the subgraph that each method selects, the paper's in brackets."
    from gib_nb.experiments.interpretation import DATASETS, PAPER_PIECES

    rows = rows_of("interpretation")

    def cell(method, place):
        ours = mean(
            [row.get("components") for row in rows if (row["dataset"], row["method"]) == (DATASETS[place], method)]
        )
        return number(ours) + (f" ({number(PAPER_PIECES[method][place])})" if method in PAPER_PIECES else "")

    return table(
        ["connected components of the selected subgraph", *DATASETS],
        [
            [method, *(cell(method, place) for place in range(len(DATASETS)))]
            for method in (*PAPER_PIECES, "sampled GIB")
        ],
    )


def denoising():
    "Means over twenty seeds, the paper's in brackets."
    from gib_nb.experiments.denoising import PAPER

    rows = rows_of("denoising")
    scores = {"recall": "recall", "precision": "precision", "auc": "ROC-AUC", "accuracy": "accuracy"}

    def cell(method, score):
        paper = PAPER.get(method, {}).get(score)
        return number(mean([row.get(score) for row in rows if row["method"] == method])) + (
            f" ({number(paper[0])})" if paper else ""
        )

    methods = ["GCN+Att05", "GCN+GIB", "keep all", "low degree", "link predictor", "GIN+GIB, edge prior"]
    return table(
        ["denoising (the paper's)", *scores.values()],
        [[method, *(cell(method, score) for score in scores)] for method in methods],
    )


def own_data():
    "Test scores on molecules from files."
    from gib_nb.experiments.own_data import SETS
    from gib_nb.report.tables import mean_text

    rows = rows_of("own_data")
    known = {name: each.metric for name, each in SETS.items() if any(row["dataset"] == name for row in rows)}

    def cell(method, dataset):
        scores = [row["scores"] for row in rows if (row["dataset"], row["method"]) == (dataset, method)]
        return mean_text([each[known[dataset]] for each in scores]) if scores else "–"

    methods = {
        "GIB": "GIB",
        "network": "the same network without a bottleneck",
        "random forest": "random forest, Morgan counts",
        "chemprop": "chemprop",
        "constant": "constant",
    }
    names = {"rmse": "RMSE", "roc_auc": "ROC-AUC"}
    return table(
        ["own molecules", *(f"{dataset}, {names[metric]}" for dataset, metric in known.items())],
        [[words, *(cell(method, dataset) for dataset in known)] for method, words in methods.items()],
    )


def written(text):
    "The README with the tables of today."
    before, rest = text.split(BEGIN)
    return "\n\n".join(
        [
            before + BEGIN,
            *(each() for each in (own_data, classification, interpretation, components, denoising)),
            END + rest.split(END)[1],
        ]
    )


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(written(readme.read_text()))
