"Small graphs, short trainings, and models of known behavior, for the tests of everything that trains."

import json
import warnings

import torch
from torch import nn
from torch_geometric.data import Data

from gib_nb.data.spec import DataSpec, prepare_training
from gib_nb.train.collapse import CollapseWarning
from gib_nb.train.config import configure
from gib_nb.train.parts import Bottleneck
from gib_nb.train.phases import TrainState, build_model
from gib_nb.train.trainer import GIBTrainer
from gib_nb.utils.reproducible import LocalRandomness

NONE = torch.zeros(2, 0, dtype=torch.long)
QUICK = dict(
    epochs=4,
    pretrain_epochs=1,
    rampup_epochs=1,
    num_steps=3,
    hidden_channels=8,
    critic_hidden_channels=8,
    critic_batch_size=8,
    max_restarts=0,
    batch_size=8,
    lr=3e-3,
)
TWO_STAGE = dict(
    hidden_channels=8,
    batch_size=8,
    max_restarts=0,
    classifier="reencode",
    num_classifiers=2,
    two_stage=True,
    mask_on="edges",
    sample_mask=True,
    generator_num_layers=1,
    prior_prob=0.3,
    beta=1.0,
    alpha=0.0,
    dropout=0.1,
    lr=0.02,
    lr_schedule="cosine",
    pretrain_epochs=3,
    rampup_epochs=0,
    finetune_epochs=3,
    epochs=9,
)
CRITIC = {"num_steps", "critic_hidden_channels", "critic_batch_size"}  # settings that mean nothing with a prior


def quick(**settings):
    "`QUICK` with other settings."
    prior = "prior_prob" in settings or settings.get("information") == "prior"
    return {name: value for name, value in QUICK.items() if not (prior and name in CRITIC)} | settings


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def ring(n, chord=False):
    i = torch.arange(n)
    ends = torch.stack([torch.cat([i, torch.tensor([0])]), torch.cat([(i + 1) % n, torch.tensor([2])])])[:, : n + chord]
    return torch.cat([ends, ends.flip(0)], 1)


def make_graphs(N=24, d=3, y=lambda label: torch.tensor([label])):
    "Rings, half of them with a chord; with d columns of features, or with none."
    graphs = []
    for i in range(N):
        n, label = 4 + i % 3, i % 2
        x = None
        if d:
            x = torch.randn(n, d, generator=seeded(i))
            x[:, 0] += 2 * label
        graphs.append(Data(x=x, edge_index=ring(n, label), y=y(label), num_nodes=n))
    return graphs


def bond_graphs(N=120, seed=0):
    "Stars with three leaves of each of two kinds and one marked edge: the label is the kind of the leaf at it, and nothing but edge_attr knows it."
    generator, graphs, leaves, center = seeded(seed), [], torch.arange(1, 7), torch.zeros(6, dtype=torch.long)
    edge_index = torch.stack([torch.cat([center, leaves]), torch.cat([leaves, center])])
    for i in range(N):
        leaf = 1 + 3 * (i % 2) + int(torch.randint(3, (1,), generator=generator))
        marked = (edge_index == leaf).any(0).long()
        x = torch.eye(3)[[0, 1, 1, 1, 2, 2, 2]]
        graphs.append(Data(x=x, edge_index=edge_index, edge_attr=torch.eye(2)[marked], y=torch.tensor([i % 2])))
    return graphs


def real(label):
    return torch.tensor([100.0 + 10 * label])


def fitted(graphs=None, valid=None, checkpoint=None, callbacks=None, model=None, **settings):
    "A quick fit, without its remark on collapse."
    graphs = make_graphs() if graphs is None else graphs
    if valid is None:
        graphs, valid = graphs[:18], graphs[18:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)
        return GIBTrainer(model=model, **quick(**settings)).fit(
            graphs, valid=valid, checkpoint=checkpoint, progress=False, callbacks=callbacks
        )


def in_bottleneck(state, epoch=None):
    "The state, moved to an epoch of its bottleneck phase; to the first with the full loss by default."
    state.phase_index = next(i for i, phase in enumerate(state.config.phases) if isinstance(phase, Bottleneck))
    state.phase_epoch = state.phase.rampup if epoch is None else epoch
    return state


def quick_state(graphs=None, seed=0, **settings):
    "An attempt that has not begun, on 18 graphs for training and the others for validation."
    graphs = make_graphs() if graphs is None else graphs
    _, train, valid = prepare_training(graphs[:18], valid=graphs[18:])
    return TrainState(configure(**quick(**settings)), train, valid, seed)


def outer_step(state, rows, batch):
    "One step of everything but the critic, after those of the critic; the losses as scalars."
    losses = state.losses(rows, batch)
    state.step(losses["loss"])
    return losses


def caught(function, *arguments, **options):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = function(*arguments, **options)
    return result, found


def same_state(first, second):
    first, second = first.state_dict(), second.state_dict()
    return list(first) == list(second) and all(torch.equal(value, second[name]) for name, value in first.items())


def same(first, second):
    "Equal to the last bit, with nan equal to nan."
    return json.dumps(first) == json.dumps(second)


# --- models of known behavior


class Features(nn.Module):
    "A backbone that hands the node features on."

    def __init__(self, channels):
        super().__init__()
        self.out_channels = channels

    def forward(self, x, edge_index):
        return x


class Selects(nn.Module):
    "A generator that selects each node with the probability that a function of its features says."

    def __init__(self, probability):
        super().__init__()
        self.probability = probability

    def forward(self, x):
        return self.probability(x)


SELECTS = {
    "motif": lambda x: x[:, 0],
    "all": lambda x: torch.ones(len(x)),
    "none": lambda x: torch.zeros(len(x)),
    "complement": lambda x: 1 - x[:, 0],
    "softly": lambda x: 0.2 + 0.6 * x[:, 0],
    "undecided": lambda x: 0.5 + 1e-3 * x[:, 1].abs(),
    "by label": lambda x: (x[:, 2] > 0).float(),
}


def constructed(selects, task="classification", **settings):
    "A trainer whose model selects a known part of each graph: x[:, 0] marks the motif."
    trainer = GIBTrainer(encoder=Features, **settings)
    trainer.spec = DataSpec(task, 2 if task == "classification" else 1, 3)
    with LocalRandomness(0):
        trainer.model = build_model(trainer.config, trainer.spec).eval()
    trainer.model.generator = Selects(SELECTS[selects])
    return trainer


def marked_graphs(N=24, task="classification"):
    "Rings of six: nodes 0 to 2 are the motif and carry the label in column 1; column 2 knows the label everywhere, faintly."
    graphs = []
    for i in range(N):
        x = torch.randn(6, 3, generator=seeded(i)) * 0.3
        label = i % 2 if task == "classification" else float(i % 5)
        x[:, 0] = torch.tensor([1.0, 1, 1, 0, 0, 0])
        x[:3, 1] += 2 * label
        x[3:, 1] = x[3:, 1] * 3
        x[:, 2] = 1 if i % 2 else -1
        graphs.append(Data(x=x, edge_index=ring(6), y=torch.tensor([label])))
    return graphs
