"Trainings that end in everything, nothing, the complement, or a mask without effect: found, said, and tried again."

import pytest
import torch

from gib_nb.train import collapse as room
from gib_nb.train.collapse import CollapseWarning, detect_collapse
from gib_nb.train.phases import TrainState
from gib_nb.train.trainer import GIBTrainer
from tests.training import QUICK, caught, constructed, fitted, make_graphs, marked_graphs, seeded


def collapse_of(trainer, graphs):
    prepared = trainer.spec.prepare(graphs)
    return detect_collapse(trainer.apply(prepared, whole=False), prepared)


@pytest.mark.parametrize(
    "selects, text",
    [
        ("motif", None),
        ("softly", None),
        ("all", "all nodes selected"),
        ("none", "no node selected"),
        ("complement", "complement selected"),
    ],
)
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_collapse_is_found(selects, text, task):
    "All in, none in, or the complement chosen, on models that are built to do so."
    trainer, graphs = constructed(selects, task), marked_graphs(40, task)
    for graph in graphs:
        graph.x[:, 2] = 0
    found = collapse_of(trainer, graphs)
    assert found is None if text is None else text in found


def test_a_label_in_both_sides_together_is_no_collapse():
    "Neither the subgraph nor what is left out knows the label alone: the complement is not to blame."
    trainer, graphs = constructed("motif"), marked_graphs(40)
    for i, graph in enumerate(graphs):
        secret = 20 * torch.randn(1, generator=seeded(i + 100))
        graph.x[:, 1:] = 0
        graph.x[:3, 1], graph.x[3:, 1] = secret + float(graph.y), -secret
    assert collapse_of(trainer, graphs) is None


def test_few_graphs_have_no_probe():
    trainer = constructed("complement")
    assert collapse_of(trainer, marked_graphs(4)) is None
    trainer = constructed("all")
    assert "all nodes" in collapse_of(trainer, marked_graphs(4))


def test_a_collapse_is_never_returned_in_silence():
    "After all restarts: a warning, an attribute, and a record of every attempt."
    with pytest.warns(CollapseWarning, match="all nodes selected .*best of 3 attempts"):
        trainer = GIBTrainer(**(QUICK | dict(threshold=0.0, max_restarts=2))).fit(make_graphs(), progress=False)
    attempts = trainer.history["attempts"]
    assert "all nodes selected" in trainer.collapse and len(attempts) == 3 and len({a["seed"] for a in attempts}) == 3
    assert all("all nodes selected" in a["collapse"] for a in attempts)
    best = min(attempts, key=lambda a: a["loss"])
    assert min(e["loss"] for e in trainer.history["epochs"][2:]) == best["loss"]


def test_no_node_selected_is_a_collapse():
    assert "no node selected" in fitted(threshold=0.999).collapse


def test_restarts_are_used_until_one_does_not_collapse(monkeypatch):
    "The attempt that did not collapse is taken, though another had a smaller loss."
    answers, losses = iter(["broken", None]), iter([1.0] * 4 + [2.0] * 4)
    monkeypatch.setattr(room, "detect_collapse", lambda *arguments: next(answers))
    monkeypatch.setattr(
        TrainState, "validate", lambda self: {"loss": next(losses), "score": 0.0, "mean_node_mask": 0.0}
    )
    trainer, found = caught(
        GIBTrainer(**(QUICK | dict(max_restarts=2))).fit, make_graphs()[:18], valid=make_graphs()[18:], progress=False
    )
    assert [(a["collapse"], a["loss"]) for a in trainer.history["attempts"]] == [
        ("broken", 1.0),
        (None, 2.0),
    ] and trainer.collapse is None
    assert not [w for w in found if w.category is CollapseWarning]
    assert trainer.history["epochs"][0]["loss"] == 2.0


def test_restarts_can_be_switched_off():
    assert len(fitted(threshold=0.0, max_restarts=0).history["attempts"]) == 1


def test_without_its_two_terms_nothing_is_judged():
    assert fitted(alpha=0.0, beta=0.0, threshold=0.0, max_restarts=2).collapse is None
