"Scores without ground truth, by which a recipe may be chosen."

import json
import math

import pytest

from gib_nb import motif_dataset
from gib_nb.data.synthetic import colored_motif_dataset
from gib_nb.experiments import recipe_choice
from gib_nb.experiments.recipe_choice import FIRST_SEED, METHODS, VARIANTS, choices, recipe_choice_trial
from gib_nb.methods.robust import ROBUST, robust_config
from gib_nb.methods.two_stage import decoupled_config
from gib_nb.train.config import flat_settings


def test_the_first_variant_is_two_stage_and_the_last_robust():
    settings = [flat_settings(decoupled_config(**VARIANTS[name])) for name in (METHODS[0], METHODS[-1])]
    assert settings == [flat_settings(decoupled_config()), flat_settings(robust_config())]
    assert VARIANTS[METHODS[-1]] == ROBUST


def test_a_loss_is_better_when_it_is_lower():
    rows = [
        {"dataset": "d", "method": name, "auc": {"test": auc}, "scores": {"classification loss": loss}}
        for name, auc, loss in (("A", 0.5, 0.9), ("B", 0.7, 0.1), ("C", 0.6, 0.5))
    ]
    (found,) = choices(rows)
    assert found["chosen"] == "B" and found["auc"] == found["best"] == 0.7
    assert found["correlation"] == pytest.approx(1)


def test_no_seed_is_that_of_a_table(monkeypatch):
    seen = []

    def graphs(dataset, seed, root):
        seen.append(seed)
        raise KeyError

    monkeypatch.setattr(recipe_choice, "_graphs", graphs)
    with pytest.raises(KeyError):
        recipe_choice_trial(seed=3)
    assert seen == [FIRST_SEED + 3] and FIRST_SEED >= 100


@pytest.mark.slow
@pytest.mark.parametrize("make", [motif_dataset, colored_motif_dataset])
def test_a_trial(make, monkeypatch):
    monkeypatch.setattr(recipe_choice, "_graphs", lambda dataset, seed, root: make(300, seed=seed))
    found = recipe_choice_trial(method=METHODS[-1], epochs=6, hidden_channels=8)
    assert json.loads(json.dumps(found)) == found
    assert all(math.isfinite(value) for value in found["scores"].values())
    assert all(0 <= value <= 1 for value in found["auc"].values()) and -1 <= found["scores"]["agreement"] <= 1
