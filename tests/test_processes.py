"Training in two processes: the losses of one."

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import torch

from gib_nb.train.processes import Processes
from tests.two_processes import CASES, graphs, trained

fabric_of = pytest.importorskip("lightning_fabric").Fabric
EXACT = [name for name in CASES if name != "batch norm"]


def run(folder: pathlib.Path, devices: int) -> dict:
    "What the script finds."
    folder.mkdir(exist_ok=True)
    root = pathlib.Path(__file__).parents[1]
    words = [sys.executable, str(root / "tests" / "two_processes.py"), str(folder), str(devices)]
    environment = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr.count("0/4 [00:00<?, ?it/s]") == len(CASES), "one bar for each training"
    return json.loads((folder / "found.json").read_text())


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    return folder, run(folder / "one", 1), run(folder / "two", 2)


def numbers(rows: list[dict]) -> np.ndarray:
    return np.array([list(row.values()) for row in rows], float)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXACT)
def test_losses_and_weights_are_those_of_one_process(both, name):
    _, one, two = both
    for each in ("steps", "epochs"):
        expected, found = (numbers(run[name]["history"][each]) for run in (one, two))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(two[name]["weights"], one[name]["weights"], atol=1e-5)


@pytest.mark.slow
def test_all_processes_end_with_the_same_model(both):
    "Also where each draws its own dropout, and has its own statistics in training."
    _, one, two = both
    assert all(len(set(each["hashes"])) == 1 and len(each["hashes"]) == 2 for each in two.values())
    steps = [numbers(each["batch norm"]["history"]["steps"]) for each in (one, two)]
    assert np.nanmax(np.abs(steps[0] - steps[1])) > 1e-3, "two processes normalize other graphs together than one"


@pytest.mark.slow
def test_one_process_writes(both):
    folder, one, two = both
    for name in CASES:
        logs = [(folder / each / f"{name}.csv").read_text().splitlines() for each in ("one", "two")]
        assert len(logs[0]) == len(logs[1]) == 1 + len(one[name]["history"]["epochs"])
        assert (folder / "two" / f"{name}.ckpt").is_file()


def test_a_fabric_of_one_device_changes_nothing(tmp_path):
    names = ("alone", "fabric")
    found = []
    for name, fabric in zip(names, (None, fabric_of(accelerator="cpu", devices=1))):
        (tmp_path / name).mkdir()
        found.append(trained("critic", tmp_path / name, fabric))
    for each in ("steps", "epochs"):
        np.testing.assert_array_equal(*(numbers(trainer.history[each]) for trainer in found))
    assert all(torch.equal(a, b) for a, b in zip(found[0].model.parameters(), found[1].model.parameters()))


def test_mixed_precision(tmp_path):
    "The layers compute in bfloat16, the losses in single precision; weights stay in it."
    fabric = fabric_of(accelerator="cpu", devices=1, precision="bf16-mixed")
    for name in "ab":
        (tmp_path / name).mkdir()
    plain, mixed = (trained("critic", tmp_path / name, each) for name, each in (("a", None), ("b", fabric)))
    first, second = numbers(plain.history["steps"]), numbers(mixed.history["steps"])
    assert np.isfinite(second[:, 0]).all()
    assert 1e-6 < np.abs(first[0, 0] - second[0, 0]) < 0.05
    assert all(each.dtype == torch.float32 for each in mixed.model.parameters())
    with pytest.raises(ValueError, match="precision 32-true or bf16-mixed .got 64-true"):
        Processes(fabric_of(accelerator="cpu", devices=1, precision="64-true"))


def test_a_part_for_each_process():
    class Second:
        strategy = type("Strategy", (), {"precision": type("Precision", (), {"precision": "32-true"})})
        global_rank, world_size = 1, 2

    second, rows = Processes(Second()), torch.arange(10, 17)
    assert second.share(rows).tolist() == [14, 15, 16] and Processes().share(rows).tolist() == rows.tolist()
    assert second.share(rows[:3]).tolist() == [10, 11, 12], "too few to be divided"
    assert not second.is_main and Processes().is_main


def test_graphs_of_the_script():
    assert len(graphs()) == 39 and graphs()[5].edge_index.size(1) == 0
