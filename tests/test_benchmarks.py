"""The stored figures of the benchmarks are what they are called."""

import json
import pathlib
import statistics

import pytest

from tests.benchmarks.common import RESULTS, mean_std


def spreads(node):
    "All records of mean, standard deviation and values in a result."
    if isinstance(node, dict):
        yield from [node] if {"mean", "std", "values"} <= set(node) else []
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            yield from spreads(part)


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: pathlib.Path(path).stem)
def test_a_stored_standard_deviation_is_that_of_a_sample(path):
    for found in spreads(json.loads(path.read_text())):
        assert found["mean"] == pytest.approx(statistics.fmean(found["values"]))
        assert found["std"] == pytest.approx(statistics.stdev(found["values"]))


def test_there_are_standard_deviations_to_check():
    counts = [len(list(spreads(json.loads(path.read_text())))) for path in RESULTS.glob("*.json")]
    assert len(counts) >= 10 and sum(count > 0 for count in counts) >= 3


def test_a_spread_needs_two_values():
    assert mean_std([1]) == {"mean": 1, "std": None, "values": [1]}
    assert mean_std([1, 3])["std"] == pytest.approx(2**0.5)
