"Results that are committed: whole, with all seeds, and with what they were made with."

import json
import math
import os
import pathlib
import re

import pytest

from gib_nb.utils.migrate import migrate

RESULTS = pathlib.Path(__file__).parents[1] / "nbs" / "experiments" / "results"


@pytest.mark.parametrize(
    "table, datasets, seeds, score",
    [
        ("explanation", ["motif", "plain motif", "Mutagenicity"], 10, "auc"),
        ("ablation", ["Mutagenicity"], 2, "auc_test"),
    ],
)
def test_every_seed_of_every_data_set_is_there(table, datasets, seeds, score):
    record = migrate(json.loads((RESULTS / f"{table}.json").read_text()))
    assert {"versions", "machine"} <= set(record)
    assert sorted((row["dataset"], row["seed"]) for row in record["rows"]) == sorted(
        (dataset, seed) for dataset in datasets for seed in range(seeds)
    )
    for row in record["rows"]:
        methods = {name: value for name, value in row.items() if isinstance(value, dict)}
        first = next(each for each in record["rows"] if each["dataset"] == row["dataset"])
        assert methods.keys() == {name for name, value in first.items() if isinstance(value, dict)} and len(methods) > 4
        assert all(
            0 <= value[score] <= 1 and all(math.isfinite(number) for number in value.values())
            for value in methods.values()
        )


def test_the_papers_numbers_are_those_of_its_tables():
    from gib_nb.experiments import classification, denoising, interpretation

    text = pathlib.Path(os.environ.get("GIB_NB_DATA", ""), "..", "paper", "gib-iclr2021.tex")
    if not text.is_file():
        pytest.skip("the paper's text is not here (../paper/gib-iclr2021.tex beside the folder in GIB_NB_DATA)")
    clean = lambda cell: re.sub(r"\\textbf|\\mathcal|[{}$\\ ]", "", cell)
    lines = [[clean(cell) for cell in line.split("&")] for line in text.read_text().splitlines() if "&" in line]
    found = {}
    for name, *cells in lines:
        found.setdefault(name, []).append(
            [tuple(float(value) for value in re.findall(r"\d+\.\d+", cell)) for cell in cells]
        )
    spell = lambda method: method.replace(" ", "")
    for method, values in classification.PAPER.items():
        assert list(values.values()) in found[method]
    for method, values in interpretation.PAPER.items():
        assert list(values.values()) in found[spell(method)]
    for method, values in interpretation.PAPER_PIECES.items():
        assert [(value,) for value in values] in found[method]
    for score, name in (("recall", "Recall"), ("precision", "Precision"), ("accuracy", "Acc")):
        assert [values.get(score, ()) for values in denoising.PAPER.values()] in found[name]


def rows_of(table):
    record = migrate(json.loads((RESULTS / f"{table}.json").read_text()))
    assert {"versions", "machine", "configs"} <= set(record) and all(
        0 <= row["config"] < len(record["configs"]) for row in record["rows"] if "config" in row
    )
    return record["rows"]


def test_classification_has_all_folds_of_every_method():
    from gib_nb.experiments.classification import DATASETS, METHODS, RELATED, classification_grid, select_configs

    cells = select_configs(rows_of("classification"))  # the same folds in all sizes
    of_paper = {(dataset, method) for dataset in DATASETS for method in METHODS if method not in RELATED}
    assert of_paper <= cells.keys() <= {(dataset, method) for dataset in DATASETS for method in METHODS}
    for (dataset, method), found in cells.items():
        assert all(0 <= row["accuracy"] <= 1 and math.isfinite(row["loss"]) for row in found)
    same = lambda cell: tuple(
        cell[name] for name in ("dataset", "method", "fold", "num_layers", "hidden_channels", "seed")
    )
    asked = [cell for cell in classification_grid(DATASETS) if (cell["dataset"], cell["method"]) in cells]
    assert sorted(map(same, rows_of("classification"))) == sorted(map(same, asked))  # no more and no less


def test_denoising_has_all_seeds_of_every_method():
    from gib_nb.experiments.denoising import METHODS

    rows = rows_of("denoising")
    assert sorted((row["seed"], row["method"]) for row in rows) == sorted(
        (seed, method) for seed in range(20) for method in METHODS
    )
    assert all(
        0 <= row[score] <= 1 for row in rows for score in ("recall", "precision", "auc", "accuracy") if score in row
    )


def test_interpretation_has_every_method_of_every_property():
    from gib_nb.experiments.interpretation import DATASETS, DETERMINISTIC, METHODS

    rows = rows_of("interpretation")
    seeds = {row["seed"] for row in rows}
    assert seeds == set(range(len(seeds)))
    assert sorted((row["dataset"], row["method"], row["seed"]) for row in rows) == sorted(
        (dataset, method, seed)
        for dataset in DATASETS
        for method in METHODS
        for seed in ([0] if method in DETERMINISTIC else seeds)
    )
    for row in rows:  # nothing is better than the best of all fragments, molecule by molecule
        half = [point["each"] for point in row.get("bias_vs_size", ()) if point["ratio"] == 0.5]
        bound = next(
            point["each"]
            for other in rows
            if (other["dataset"], other["method"]) == (row["dataset"], "every fragment")
            for point in other["bias_vs_size"]
            if point["ratio"] == 0.5
        )
        assert all(
            least is None or bias is None or bias >= least - 1e-3 * (1 + least)
            for each in half
            for bias, least in zip(each, bound)
        )
