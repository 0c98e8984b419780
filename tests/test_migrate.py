"Old records are read with the names of today."

import copy
import gzip
import json
import pathlib
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gib_nb.utils.migrate import BY_CONTEXT, KEYS, VALUES, migrate

ROOT = pathlib.Path(__file__).parents[1]
WORDS = st.sampled_from(
    [
        *KEYS,
        *BY_CONTEXT,
        *KEYS.values(),
        *(new for rules in BY_CONTEXT.values() for new, _ in rules),
        *(sign for rules in BY_CONTEXT.values() for _, signs in rules for sign in signs),
        *VALUES,
        "dataset",
        "0",
    ]
)
RECORDS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=5)),
    max_leaves=12,
)


@given(RECORDS)
def test_migrating_twice_is_migrating_once(record):
    before = copy.deepcopy(record)
    once = migrate(record)
    assert migrate(once) == once and record == before


@pytest.mark.parametrize(
    "old, new",
    [
        (
            {"nodes_kept": 0.2, "one_piece": 1.0, "empty": 0.0, "true_nodes": 0.2, "pieces": 1.0},
            {
                "selected_fraction": 0.2,
                "connected_fraction": 1.0,
                "empty_fraction": 0.0,
                "true_fraction": 0.2,
                "components": 1.0,
            },
        ),
        ({"true_nodes": [1, 2], "places": []}, {"true_nodes": [1, 2], "places": []}),  # of a picture: numbers of nodes
        (
            {"subgraph": 1.0, "empty": 0.5, "full": 1.0, "random": 0.5},
            {"subgraph": 1.0, "empty": 0.5, "full": 1.0, "random": 0.5},
        ),  # the audit of the masks
        (
            {"steps": [{"loss": 1.0, "classification": 1.0, "kept": 0.5, "factor": 0.0, "epoch": 0}]},
            {"steps": [{"loss": 1.0, "classification": 1.0, "mean_node_mask": 0.5, "loss_weight": 0.0, "epoch": 0}]},
        ),
        (
            {"epochs": [{"classification": 1.0, "kept": 0.5, "kept_nodes": 0.4}]},
            {"epochs": [{"classification": 1.0, "mean_node_mask": 0.5, "selected_fraction": 0.4}]},
        ),
        (
            {"bias": 0.1, "kept": 0.5, "invalid": 0.0, "frontier": [{"share": 0.5, "bias": 0.2, "kept": 0.4}]},
            {
                "bias": 0.1,
                "fragment_fraction": 0.5,
                "invalid": 0.0,
                "bias_vs_size": [{"ratio": 0.5, "bias": 0.2, "fragment_fraction": 0.4}],
            },
        ),
        (
            {"recall": 1.0, "kept": 0.5, "examples": [{"real": [True], "kept": [False]}]},
            {"recall": 1.0, "selected_fraction": 0.5, "examples": [{"real": [True], "selected": [False]}]},
        ),
        (
            {"kept": 0.2, "empty": [0.0, 0.1], "curves": {"accuracy": [1.0], "kept": [0.4]}},
            {
                "selected_fraction": 0.2,
                "empty_fraction": [0.0, 0.1],
                "curves": {"accuracy": [1.0], "mean_node_mask": [0.4]},
            },
        ),
        (
            {"config": {}, "form": {"task": "regression", "in_channels": 3, "mean": 1.0, "spread": 2.0}},
            {"config": {}, "spec": {"task": "regression", "in_channels": 3, "y_mean": 1.0, "y_std": 2.0}},
        ),
        ({"mean": 1.0, "std": 0.5}, {"mean": 1.0, "std": 0.5}),
        (
            {"method": "structure-blind", "network": "structure_blind"},
            {"method": "no-edges baseline", "network": "no_edges"},
        ),
        ({"structure-blind": {"r2": 0.1}}, {"no-edges baseline": {"r2": 0.1}}),
        (3, 3),
        ("kept", "kept"),
        ([], []),
        ({"gamma": 1}, {"gamma": 1}),
    ],
)
def test_by_hand(old, new):
    assert migrate(old) == new and migrate(new) == new


def committed():
    "Every record that the project keeps, as it was written."
    for path in sorted((ROOT / "nbs" / "experiments" / "results").glob("*.json")):
        yield path, json.loads(path.read_text())
    for path in sorted((ROOT / "gib_nb" / "assets").glob("*.json.gz")):
        yield path, json.loads(gzip.decompress(path.read_bytes()))
    for path in sorted((ROOT / "gib_nb" / "assets").glob("*.safetensors")):
        content = path.read_bytes()
        yield (
            path,
            json.loads(json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]["record"]),
        )


def keys(record):
    if isinstance(record, dict):
        yield from record
    for entry in record.values() if isinstance(record, dict) else record if isinstance(record, list) else ():
        yield from keys(entry)


@pytest.mark.parametrize("path, record", [pytest.param(path, record, id=path.name) for path, record in committed()])
def test_no_old_name_is_left_in_what_is_committed(path, record):
    found = migrate(record)
    assert migrate(found) == found
    assert not (set(keys(found)) & (KEYS.keys() | {"kept", "share", "form", "spread", "factor"}))


def test_it_loads_nothing_heavy():
    code = "import gib_nb.utils.migrate, sys; print([name for name in ('numpy', 'torch', 'pandas') if name in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


@pytest.mark.parametrize(
    "name",
    [
        "atoms",
        "audit",
        "cut_fragments",
        "explanation",
        "own_data",
        "toxicophores",
        "trials",
        "bottleneck_cost",
        "information_term",
    ],
)
def test_tables_of_today_have_the_names_of_today(name):
    "A trial is read through `migrate` when a table is continued, so it must not rename what a report asks for."
    record = json.loads((ROOT / "nbs" / "experiments" / "results" / f"{name}.json").read_text())
    assert migrate(record) == record
