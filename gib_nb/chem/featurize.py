"""Graphs of many molecules: computed in several processes, with a progress bar, and stored in a cache."""

import hashlib
import os
import pathlib

CHUNK = 1000  # molecules per task and per cache file
SMALL = 2000  # up to this many: one process, no bar, and no cache


def featurize_molecules(
    smiles: list,  # valid SMILES
    workers: int = 1,  # processes; −1: all cores
    cache: bool = True,  # store the graphs of many molecules in the cache folder
    progress: bool = True,  # show a progress bar for many molecules
) -> list:  # of PyG `Data`, as from `molecule_to_data`
    "The graphs of the molecules, in the same order."
    from joblib import Parallel, delayed
    from tqdm.auto import tqdm

    chunks = [smiles[start : start + CHUNK] for start in range(0, len(smiles), CHUNK)]
    many = len(smiles) > SMALL
    tasks = Parallel(n_jobs=workers if many else 1, return_as="generator")(
        delayed(_chunk_of_graphs)(chunk, _cache_file(chunk) if cache and many else None) for chunk in chunks
    )
    bar = tqdm(tasks, total=len(chunks), desc="graphs", unit_scale=CHUNK, leave=False, disable=not (progress and many))
    return [graph for part in bar for graph in part]


class MoleculeGraphs:
    "Graphs of molecules that are computed on access, for sets that do not fit into memory; can be used like a torch `Dataset`."

    def __init__(
        self,
        smiles: list,  # valid SMILES
        y: list,  # of tensors, one for each molecule
    ):
        self.smiles, self.y = smiles, y

    def __len__(self) -> int:
        return len(self.smiles)

    def __getitem__(self, i: int):
        from gib_nb.chem.smiles import molecule_to_data

        graph = molecule_to_data(self.smiles[i])
        graph.y = self.y[i]
        return graph

    @property
    def labels(self):
        "y of every molecule, [N] or [N, T]."
        import torch

        return torch.cat(list(self.y)).numpy()


def _cache_file(chunk) -> pathlib.Path:
    "The cache file for the graphs of these SMILES; its name also depends on the names of the atom and bond features."
    import pooch

    from gib_nb.chem.smiles import ATOM_FEATURES, BOND_FEATURES

    content = "\n".join([*ATOM_FEATURES, *BOND_FEATURES, "", *chunk])
    folder = os.environ.get("GIB_NB_CACHE") or pooch.os_cache("gib_nb")
    return pathlib.Path(folder) / "molecules" / f"{hashlib.sha256(content.encode()).hexdigest()}.safetensors"


def _chunk_of_graphs(chunk, file):
    "The graphs of some SMILES, read from a cache file or computed and written to it."
    from gib_nb.chem.smiles import molecule_to_data
    from gib_nb.utils.files import save_safetensors, write_atomically

    if file is not None and (found := _read_chunk(chunk, file)):
        return found
    graphs = [molecule_to_data(smiles) for smiles in chunk]
    if file is not None:
        write_atomically(file, save_safetensors(_joined(graphs), {"molecules": len(graphs)}))
    return graphs


def _joined(graphs) -> dict:
    "The concatenated tensors of all graphs."
    import torch

    count = lambda name, axis: torch.tensor([graph[name].size(axis) for graph in graphs])
    return {
        "x": torch.cat([graph.x for graph in graphs]),
        "edge_index": torch.cat([graph.edge_index for graph in graphs], 1),
        "edge_attr": torch.cat([graph.edge_attr for graph in graphs]),
        "nodes": count("x", 0),
        "edges": count("edge_index", 1),
    }


def _read_chunk(chunk, file):
    "The graphs in a cache file; None if it is missing or broken."
    from torch_geometric.data import Data

    from gib_nb.utils.files import load_safetensors

    try:
        tensors, _ = load_safetensors(file) if file.is_file() else (None, None)
    except ValueError:
        return None
    if tensors is None:
        return None
    nodes, edges = tensors["nodes"].tolist(), tensors["edges"].tolist()
    parts = zip(
        chunk, tensors["x"].split(nodes), tensors["edge_index"].split(edges, 1), tensors["edge_attr"].split(edges)
    )
    return [
        Data(x=x.clone(), edge_index=edge_index.clone(), edge_attr=edge_attr.clone(), smiles=smiles)
        for smiles, x, edge_index, edge_attr in parts
    ]
