"Results that are committed: whole, with all seeds, and with what they were made with."
import json
import math
import os
import pathlib
import re

import pytest

RESULTS = pathlib.Path(__file__).parents[1] / "nbs" / "experiments" / "results"


@pytest.mark.parametrize("table, datasets, seeds, score", [("explanation", ["motif", "Mutagenicity"], 10, "auc"), ("ablation", ["Mutagenicity"], 2, "auc_test")])
def test_every_seed_of_every_data_set_is_there(table, datasets, seeds, score):
    record = json.loads((RESULTS / f"{table}.json").read_text())
    assert {"versions", "machine"} <= set(record)
    assert sorted((row["dataset"], row["seed"]) for row in record["rows"]) == sorted((dataset, seed) for dataset in datasets for seed in range(seeds))
    for row in record["rows"]:
        methods = {name: value for name, value in row.items() if isinstance(value, dict)}
        assert methods.keys() == {name for name, value in record["rows"][0].items() if isinstance(value, dict)}
        assert all(0 <= value[score] <= 1 and all(math.isfinite(number) for number in value.values()) for value in methods.values())


def test_the_papers_numbers_are_those_of_its_tables():
    from gib_nb import classification, denoising, interpretation

    text = pathlib.Path(os.environ.get("GIB_NB_DATA", ""), "..", "paper", "gib-iclr2021.tex")
    if not text.is_file():
        pytest.skip("the paper's text is not here (../paper/gib-iclr2021.tex beside the folder in GIB_NB_DATA)")
    clean = lambda cell: re.sub(r"\\textbf|\\mathcal|[{}$\\ ]", "", cell)
    lines = [[clean(cell) for cell in line.split("&")] for line in text.read_text().splitlines() if "&" in line]
    found = {}
    for name, *cells in lines:
        found.setdefault(name, []).append([tuple(float(value) for value in re.findall(r"\d+\.\d+", cell)) for cell in cells])
    spell = lambda method: method.replace(" ", "")
    for method, values in classification.PAPER.items():
        assert list(values.values()) in found[method]
    for method, values in interpretation.PAPER.items():
        assert list(values.values()) in found[spell(method)]
    for method, values in interpretation.PAPER_PIECES.items():
        assert [(value,) for value in values] in found[method]
    for score, name in (("recall", "Recall"), ("precision", "Precision"), ("accuracy", "Acc")):
        assert [values.get(score, ()) for values in denoising.PAPER.values()] in found[name]
