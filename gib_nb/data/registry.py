"""The data sets that can be chosen by name."""

import os
import pathlib

from gib_nb.chem.registry import PROPERTIES
from gib_nb.utils.registry import Registry

GRAPH_FILES = (".pt", ".pth")

TU_NAMES = ("MUTAG", "PROTEINS", "IMDB-BINARY", "DD", "NCI1", "PTC_MR", "Mutagenicity", "ENZYMES", "COX2")
MOLECULE_NAMES = ("QED", "DRD2", "HLM", "MLM")  # published molecules with one of these properties

DATASETS = Registry("data set")  # name → function (name, root=None, download=True, seed=0) → `GraphDataset`
for _name in TU_NAMES:
    DATASETS.register(_name, "gib_nb.data.datasets:load_tu")
for _name in (*MOLECULE_NAMES, "molecules"):
    DATASETS.register(_name, "gib_nb.data.datasets:molecule_dataset")
DATASETS.register("motif", "gib_nb.data.datasets:load_motif")


def dataset_names() -> list[str]:
    "All names that `load_dataset` accepts: data sets, and properties with which the built-in molecules are labeled."
    return [*DATASETS, *(name for name in PROPERTIES if name not in DATASETS)]


def is_path(source) -> bool:
    "Whether this is the path of a file or folder, and not the name of a data set."
    if not isinstance(source, (str, os.PathLike)):
        return False
    text = os.fspath(source)
    known = text.lower() in {name.lower() for name in dataset_names()}
    return not known and (os.path.exists(text) or "." in text or "/" in text or os.sep in text)


def is_graph_file(path) -> bool:
    "Whether a path is that of graphs rather than of molecules."
    path = pathlib.Path(path)
    return path.is_dir() or path.suffix.lower() in GRAPH_FILES
