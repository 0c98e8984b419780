"""What each method costs: an epoch of every recipe against one of the plain network, and its explanations against a forward pass."""

import warnings

import torch

from gib_nb.data.datasets import load_dataset
from gib_nb.nn.backbones import GraphClassifier
from gib_nb.train.phases import TrainState
from gib_nb.train.recipes import recipe
from gib_nb.train.trainer import GIBTrainer

from .common import explain, forward, milliseconds
from .cost import PlainGIN

METHODS = ("gib", "two_stage", "vgib", "gsat", "pgib")
SIZES = {"PROTEINS": 15, "Mutagenicity": 7}  # data set → rounds
SHARED = dict(hidden_channels=32, num_layers=2, batch_size=128, max_restarts=0)


def epoch_of(state):
    "One epoch of a phase, as the loop does it."

    def run():
        for rows, batch in state.batches():
            state.step(state.losses(rows, batch)["loss"])

    return run


def states(graphs) -> dict:
    "Name → training in a phase: the bottleneck of each recipe, and the first stage of the two-stage one."
    found = {}
    for method in METHODS:
        if method == "two_stage":
            config = recipe(method, epochs=30, **SHARED)
            first, found[method] = (TrainState(config, graphs, graphs[:10]) for _ in range(2))
            found[f"{method}, classifiers"] = first
            found[method].load_classifier(first.model.classifier)  # which skips the phase in which they are trained
        else:
            config = recipe(method, epochs=30, pretrain_epochs=0, rampup_epochs=0, **SHARED)
            found[method] = TrainState(config, graphs, graphs[:10])
    for state in found.values():
        state.begin_epoch()
    return found


def plain_epoch(graphs, spec):
    "One epoch of a GIN of the same width, with a mean readout and the same batches."
    state = TrainState(recipe("gib", epochs=30, pretrain_epochs=0, rampup_epochs=0, **SHARED), graphs, graphs[:10])
    model = PlainGIN(state.config, spec)
    optimizer = torch.optim.Adam(model.parameters(), state.config.optim.lr, fused=True)

    def run():
        for _, batch in state.batches():
            loss = spec.loss(model(batch), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return run


def training(name: str) -> dict:
    "Milliseconds of an epoch, interleaved, one thread."
    from gib_nb.data.spec import DataSpec

    graphs = load_dataset(name).graphs
    spec = DataSpec.of(graphs)
    graphs = spec.prepare(graphs)
    work = {"plain": plain_epoch(graphs, spec)} | {method: epoch_of(state) for method, state in states(graphs).items()}
    times = milliseconds(work, SIZES[name], 1)
    return {"milliseconds": times, "ratios": {method: value / times["plain"] for method, value in times.items()}}


def explaining(name: str, rounds: int = 9) -> dict:
    "Milliseconds of the masks and both predictions of 1,000 graphs, in tensors, against the forward pass of the plain network."
    data = load_dataset(name)
    graphs, trainers = data.train[:1000], {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method in METHODS:
            trainer = GIBTrainer(recipe(method, epochs=6, **SHARED))
            trainers[method] = trainer.fit(data.train[::5], valid=data.valid, progress=False)
    batches = list(trainers["gib"].spec.prepare(graphs, labels=False).batches(128))
    plain = GraphClassifier(batches[0].num_features, 2, "gin", 32, 2).eval()
    work = {method: lambda each=each: explain(each, batches) for method, each in trainers.items()}
    times = milliseconds({"plain": lambda: forward(plain, batches)} | work, rounds, 2)
    return {"milliseconds": times, "ratios": {method: value / times["plain"] for method, value in times.items()}}


def run() -> dict:
    torch.set_num_threads(1)
    epochs = {name: training(name) for name in SIZES}
    return {
        "epoch": epochs,
        "bar": 1.5,
        "met": epochs["PROTEINS"]["ratios"]["gib"] <= 1.5,
        "explaining": {name: explaining(name) for name in SIZES},
        "bar_explaining": 1.3,
    }
