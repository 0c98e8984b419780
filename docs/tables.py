"""Write the tables of docs/results.md from the committed results, and the list of docs/notebooks.md from the notebooks: `python docs/tables.py`."""

import functools
import json
import pathlib
import re

import numpy as np

from gib_nb.utils.migrate import migrate

ROOT = pathlib.Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- written by docs/tables.py -->", "<!-- end -->"
GROUPS = {
    "tutorials": "Tutorials",
    "lessons": "Lessons",
    "explorers": "Explorers",
    "": "Modules",
    "methods": "Methods",
    "experiments": "Experiments",
}


@functools.cache
def rows_of(name):
    return migrate(json.loads((ROOT / "nbs" / "experiments" / "results" / f"{name}.json").read_text()))["rows"]


def table(head, lines):
    return "\n".join(["| " + " | ".join(map(str, line)) + " |" for line in (head, ["---"] * len(head), *lines)])


def number(value):
    return "–" if value is None else f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}"


def mean(values):
    values = [value for value in values if value is not None]
    return float(np.mean(values)) if values else None


def classification():
    "Accuracy over ten folds, the paper's in parentheses."
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
        ["accuracy (paper)", *DATASETS],
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

    line = lambda method, words: [words, *(cell(method, dataset) for dataset in DATASETS)]
    methods = {"random fragment": "random connected fragment"} | {
        name: name for name in ("GCN+Att05", "GCN+GIB", "sampled GIB")
    }
    best = table(
        ["bias at half of the atoms, small molecules only", *DATASETS],
        [line("every fragment", "best connected fragment by exhaustive search")],
    )
    return "\n\n".join(
        [table(["bias at half of the atoms", *DATASETS], [line(*each) for each in methods.items()]), best]
    )


def components():
    "Connected components of the subgraph that each method selects, the paper's in parentheses."
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
    "Means over twenty seeds, the paper's in parentheses."
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
        ["denoising (paper)", *scores.values()],
        [[method, *(cell(method, score) for score in scores)] for method in methods],
    )


def explanation():
    "Edge ROC-AUC where the true subgraph is known, and the accuracy of the explained network."
    from gib_nb.report.tables import mean_text

    rows, datasets = rows_of("explanation"), ("motif", "Mutagenicity")
    of = lambda method, dataset, score: mean_text([row[method][score] for row in rows if row["dataset"] == dataset])
    methods = [name for name, value in rows[0].items() if isinstance(value, dict)]
    return table(
        ["edge ROC-AUC", *datasets, "accuracy on Mutagenicity"],
        [
            [method, *(of(method, dataset, "auc") for dataset in datasets), of(method, "Mutagenicity", "accuracy")]
            for method in methods
        ],
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
        "frozen encoder": "pre-trained encoder, frozen, and a kernel model",
        "random forest": "random forest, Morgan counts",
        "chemprop": "chemprop",
        "constant": "constant",
    }
    names = {"rmse": "RMSE", "roc_auc": "ROC-AUC"}
    return table(
        ["own molecules", *(f"{dataset}, {names[metric]}" for dataset, metric in known.items())],
        [[words, *(cell(method, dataset) for dataset in known)] for method, words in methods.items()],
    )


def information_term():
    "Edge ROC-AUC and mean mask without the information term, and with its usual weight."
    from gib_nb.experiments.information_term import METHODS
    from gib_nb.train.recipes import TITLES

    rows = rows_of("information_term")
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))

    def cell(method, dataset, score):
        of = lambda weight: [
            row["scores"][score]
            for row in rows
            if (row["dataset"], row["method"], row["weight"]) == (dataset, method, weight)
        ]
        return f"{mean(of(0.0)):.2f} → {mean(of(1.0)):.2f}"

    names = {"auc": "edge ROC-AUC", "mean_mask": "mean mask"}
    return table(
        ["β = 0 → usual β", *(f"{dataset}, {name}" for dataset in datasets for name in names.values())],
        [
            [TITLES[method], *(cell(method, dataset, score) for dataset in datasets for score in names)]
            for method in METHODS
        ],
    )


def notebooks():
    "A table for each group of notebooks: title, module, and the line below the title."
    return "\n\n".join(f"## {caption}\n\n{group_table(group)}" for group, caption in GROUPS.items())


def group_table(group):
    lines = []
    for path in sorted((ROOT / "nbs" / group).glob("*.ipynb")):
        cells = json.loads(path.read_text())["cells"]
        text = "".join(cells[0]["source"])
        title, words = re.search(r"^# (.*)", text, re.M), re.search(r"^> (.*)", text, re.M)
        module = re.search(r"#\| default_exp ([\w.]+)", path.read_text())
        if words and (module or group):
            name = f"{path.stem[:2]} {title[1]}" if re.match(r"\d\d_", path.stem) and not group else title[1]
            lines.append(
                [f"[{name}](../nbs/{path.relative_to(ROOT / 'nbs')})", f"`{module[1]}`" if module else "", words[1]]
            )
    if any(line[1] for line in lines):
        return table(["notebook", "module", "what is in it"], lines)
    return table(["notebook", "what is in it"], [[name, words] for name, _, words in lines])


def results():
    "The tables of results, one after the other."
    return "\n\n".join(
        each()
        for each in (own_data, explanation, information_term, classification, interpretation, components, denoising)
    )


PAGES = {"results.md": results, "notebooks.md": notebooks}


def written(page):
    "A page with the tables of today."
    text = (ROOT / "docs" / page).read_text()
    return "\n\n".join([text.split(BEGIN)[0] + BEGIN, PAGES[page](), END + text.split(END)[1]])


if __name__ == "__main__":
    for page in PAGES:
        (ROOT / "docs" / page).write_text(written(page))
