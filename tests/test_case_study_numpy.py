"""The case study with NumPy does what the one with PyTorch does."""

import numpy as np
import pytest
import torch

from gib_nb.explorers.case_study_numpy import SIGNS, case_study, dv_and_gradients, new_weights
from gib_nb.information.case_study import case_study as with_torch


@pytest.mark.parametrize("sent", [[0, 1, 1, 0, 1, 0, 0], [1, 1, 0, 1, 1], [1, 1, 1], [0, 1]])
def test_value_and_derivatives_are_those_of_autograd(sent):
    rng, sent = np.random.default_rng(0), np.array(sent)
    weights, y = new_weights(rng, 5) + 0.1 * rng.normal(size=(4, 5)), SIGNS[sent] + rng.normal(size=len(sent))
    value, by_weights, by_y = dv_and_gradients(weights, sent, y)
    parameters, received = torch.tensor(weights, requires_grad=True), torch.tensor(y, requires_grad=True)
    u, v, b, w = parameters
    x = torch.tensor(SIGNS[sent])
    scores = (x[:, None, None] * u + received[:, None] * v + b).relu() @ w  # [N, N], all ordered pairs
    expected = scores.diagonal().mean() - scores[~torch.eye(len(y), dtype=bool)].exp().mean().log()
    expected.backward()
    assert value == pytest.approx(expected.item(), abs=1e-12)
    assert np.allclose(by_weights, parameters.grad, atol=1e-12) and np.allclose(by_y, received.grad, atol=1e-12)


def test_both_studies_go_the_same_way():
    settings = dict(epochs=12, samples=4000, inner_steps=40)
    ours, theirs = case_study(**settings), with_torch(**settings)
    assert np.allclose(ours.variance, theirs.variance, rtol=0.15) and ours.variance[-1] > 0.3
    assert np.abs(ours.L_MI - ours.plug_in).max() < 0.05
    assert np.array_equal(ours.L_MI, case_study(**settings).L_MI)


def test_a_new_critic_with_one_step_measures_nothing():
    study = case_study(epochs=20, samples=2000, inner_steps=1, reset=True)
    assert abs(study.L_MI.mean()) < 0.05 and study.exact.mean() > 0.4
