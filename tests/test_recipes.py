"""The recipes of CONTRIBUTING on a copy of the project: one line each, and the thing is everywhere."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.S)


def register(path, call):
    "Add the line of CONTRIBUTING that begins so to a registry; returns the block of Python that shows the thing."
    text = (ROOT / "CONTRIBUTING.md").read_text()
    path.write_text(path.read_text() + re.search(re.escape(call) + r', "[\w.:]+"\)', text)[0] + "\n")
    return next(block for block in BLOCKS if call in block)


def add_cell(path, code):
    "Append an exported cell to a notebook."
    notebook = json.loads(path.read_text())
    notebook["cells"].append(
        {
            "cell_type": "code",
            "id": "0" * 8,
            "metadata": {},
            "outputs": [],
            "execution_count": None,
            "source": "#| export\n" + code,
        }
    )
    path.write_text(json.dumps(notebook))


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    "A copy with a backbone, a property and a data set more, each added as CONTRIBUTING says, and exported."
    folder = tmp_path_factory.mktemp("project")
    for name in ("nbs", "gib_nb"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
    for name in ("settings.ini", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder / name)
    register(folder / "gib_nb" / "nn" / "registry.py", 'BACKBONES.register("edge_cnn"')
    block = register(folder / "gib_nb" / "chem" / "registry.py", 'PROPERTIES.register("logP"')
    add_cell(
        folder / "nbs" / "14_properties.ipynb", block[block.index("def log_p") : block.index("PROPERTIES.register")]
    )
    block = register(folder / "gib_nb" / "data" / "registry.py", 'DATASETS.register("rings"')
    add_cell(
        folder / "nbs" / "25_datasets.ipynb",
        "import torch\nfrom torch_geometric.data import Data\n\n"
        + block[block.index("def rings") : block.index("DATASETS.register")],
    )
    subprocess.run(
        [str(pathlib.Path(sys.executable).with_name("nbdev_export"))], cwd=folder, check=True, capture_output=True
    )
    return folder


CLI = ["-c", "import sys; from gib_nb.cli.main import main; sys.exit(main(sys.argv[1:]))"]


def run(folder, *arguments):
    environment = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


SHORT = [
    "--epochs",
    "2",
    "--pretrain-epochs",
    "0",
    "--rampup-epochs",
    "0",
    "--max-restarts",
    "0",
    "--hidden-channels",
    "8",
    "--num-steps",
    "2",
    "--no-progress",
]


@pytest.mark.slow
def test_a_backbone_is_an_option_a_network_a_method_and_a_row(copied):
    assert "edge_cnn" in run(copied, *CLI, "train", "--help")
    run(copied, *CLI, "train", "motif", "--max-graphs", "40", "--encoder", "edge_cnn", *SHORT, "--out", "run")
    assert json.loads((copied / "run" / "config.json").read_text())["config"]["encoder"]["name"] == "edge_cnn"
    code = (
        "from gib_nb.experiments.classification import METHODS; from gib_nb.nn.pooling import NETWORKS; "
        "assert {'edge_cnn', 'edge_cnn, sum', 'edge_cnn+GIB'} <= set(METHODS) and {'edge_cnn', 'edge_cnn_sum'} <= set(NETWORKS)"
    )
    run(copied, "-c", code)


@pytest.mark.slow
def test_a_property_is_a_data_set_an_oracle_and_a_label(copied):
    run(copied, *CLI, "train", "logP", "--max-graphs", "60", *SHORT, "--out", "logp")
    code = (
        "from gib_nb import explain_smiles, property_oracle; from gib_nb.train.trainer import GIBTrainer; "
        "e = explain_smiles('CCO', GIBTrainer.load('logp'), 'logp'); assert e.oracle.startswith('logP (exact)') and e.value == property_oracle('logP')('CCO')"
    )
    run(copied, "-c", code)


@pytest.mark.slow
def test_a_data_set_has_a_name_everywhere(copied):
    assert "rings" in run(copied, *CLI, "train", "--help")
    run(copied, *CLI, "sweep", "RINGS", "--beta", "0", *SHORT, "--out", "swept")
    assert "rings" in (copied / "swept" / "sweep.csv").read_text().lower()
