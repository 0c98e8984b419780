"What a process of `tests/processes.py` starts from: everything is imported and nothing has begun, so that it is copied in a moment."

import joblib  # noqa: F401
import pyarrow.parquet  # noqa: F401
import pytest  # noqa: F401
import rdkit.Chem  # noqa: F401
import torch
import torch_geometric.nn  # noqa: F401
import tqdm.auto  # noqa: F401

import gib_nb.data.datasets  # noqa: F401
import gib_nb.experiments.screening  # noqa: F401
import gib_nb.explain.molecule  # noqa: F401
import gib_nb.train.trainer  # noqa: F401
from gib_nb.experiments.sweep import code_version

torch.set_num_threads(1)
code_version("gib_nb")
code_version("gib_nb.experiments.screening")
