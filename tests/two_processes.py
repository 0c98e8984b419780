"A script that trains short GIBs in this process, or with `fabric` in two, and writes their histories and weights."

import json
import pathlib
import sys
import warnings

import torch
from torch_geometric.data import Data

from gib_nb.data.synthetic import motif_dataset
from gib_nb.train.checkpoint import weights_hash
from gib_nb.train.loggers import CSVLogger
from gib_nb.train.trainer import GIBTrainer
from tests.training import quick

SAME = dict(norm="layer_norm", beta=0.5, alpha=1.0)  # nothing that depends on who embeds which graph
STAGES = dict(classifier="reencode", num_classifiers=2, finetune_epochs=1)
CASES = {
    "critic": dict(SAME),
    "critic of a batch": dict(SAME, memory_bank=False),
    "all pairs": dict(SAME, negatives="all"),
    "prior": dict(SAME, information="prior", prior_prob=0.3),
    "edges": dict(SAME, information="prior", prior_prob=0.3, mask_on="edges"),
    "stages": dict(SAME, **STAGES, information="prior", prior_prob=0.3),
    "fine-tuned": dict(SAME, finetune_epochs=1),
    "batch norm": dict(beta=0.5, alpha=1.0, information="prior", prior_prob=0.3, dropout=0.2),
}


def graphs():
    "39 graphs, in batches of 8 and a last one of 3, which is too small to be divided; graph 5 has no edge."
    found = list(motif_dataset(50, seed=0).graphs)[:39]
    found[5] = Data(x=found[5].x[:3], edge_index=torch.zeros(2, 0, dtype=torch.long), y=found[5].y)
    return [Data(x=graph.x, edge_index=graph.edge_index, y=graph.y) for graph in found]


def trained(name: str, folder: pathlib.Path, fabric=None, epochs=None) -> GIBTrainer:
    "A case, with a checkpoint and a log."
    settings = CASES[name] | ({} if epochs is None else {"epochs": epochs})
    stop = lambda losses: epochs is not None and losses["epoch"] >= epochs
    trainer, all_graphs = GIBTrainer(**quick(**settings)), graphs()
    more = dict(checkpoint=folder / f"{name}.ckpt", callbacks=[CSVLogger(folder / f"{name}.csv"), stop])
    return trainer.fit(all_graphs[:35], valid=all_graphs[35:], progress=True, fabric=fabric, **more)


def main(folder: pathlib.Path, devices: int):
    from lightning_fabric import Fabric

    fabric = None
    if devices > 1:
        fabric = Fabric(accelerator="cpu", devices=devices)
        fabric.launch()
    warnings.simplefilter("ignore")
    found = {}
    for name in CASES:
        trainer = trained(name, folder, fabric)
        hashes = [weights_hash(trainer.model)]
        if fabric is not None:
            hashes = [fabric.broadcast(hashes[0], src=rank) for rank in range(devices)]
        vector = torch.nn.utils.parameters_to_vector(trainer.model.parameters())
        found[name] = {"history": trainer.history, "weights": vector.tolist(), "hashes": hashes}
    if fabric is None or fabric.global_rank == 0:
        (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
