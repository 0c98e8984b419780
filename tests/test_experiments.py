"Results that are committed: whole, with all seeds, and with what they were made with."
import json
import math
import pathlib

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
