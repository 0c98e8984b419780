"""The explorers that the course adds: a bit, real bonds, luck."""

import numpy as np
import pytest
from sklearn.metrics import precision_score, recall_score, roc_auc_score

from gib_nb.explorers.bits import TWENTIETHS, BitsExplorer, informations, table
from gib_nb.explorers.edges import METHODS, SEEDS, SHOWN, EdgesExplorer, build_judgments, judgment
from gib_nb.explorers.model_selection import CHOSEN, FOLDS, SIZES, ModelSelectionExplorer, Tables, tables


def slow(joint):
    "Entropies and information of a 2×2 table in bits, cell by cell."
    log = lambda p: np.log2(p) if p > 0 else 0.0
    p_x, p_y = [sum(row) for row in joint], [sum(column) for column in zip(*joint)]
    mutual = sum(p * (log(p) - log(p_x[i]) - log(p_y[j])) for i, row in enumerate(joint) for j, p in enumerate(row))
    return {"H(X)": -sum(p * log(p) for p in p_x), "H(Y)": -sum(p * log(p) for p in p_y), "I(X;Y)": mutual}


@pytest.mark.parametrize(
    "values", [(0.5, 0.1, 0.1), (0.3, 0.2, 0.05), (0.0, 0.5, 0.5), (1.0, 1.0, 0.0), (0.5, 1.0, 1.0), (0.25, 0.0, 1.0)]
)
def test_bits(values):
    found = informations(table(*values))
    for name, value in slow(table(*values).tolist()).items():
        assert found[name] == pytest.approx(value, abs=1e-9)
    assert found["H(X|Y)"] + found["I(X;Y)"] == pytest.approx(found["H(X)"]) and found["H(Y|X)"] + found[
        "I(X;Y)"
    ] == pytest.approx(found["H(Y)"])
    nats = informations(table(*values), "nats")
    assert all(nats[name] == pytest.approx(found[name] * np.log(2)) for name in found)


def test_bits_bars_lie_as_they_add_up():
    explorer = BitsExplorer(sent=0.3, wrong_zero=0.2, wrong_one=0.05)
    found, both = explorer.informations, explorer.figure("bars").data[2]
    assert (
        both.y[0] == "H(Y)"
        and both.base[0] == pytest.approx(found["H(X|Y)"], abs=0.002)
        and both.x[0] == pytest.approx(found["H(Y)"], abs=0.002)
    )
    curve = explorer.figure("curves").data[2]
    assert curve.y[TWENTIETHS.index(0.2)] == pytest.approx(found["I(X;Y)"], abs=0.002)
    assert explorer.restore({"sent": 0.0}).informations["I(X;Y)"] == 0 and "nan" not in explorer.panel_table()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("method", METHODS)
def test_edges_agree_with_scikit_learn(method, seed):
    explorer = EdgesExplorer(method=method, seed=seed, ratio=0.6)
    value, real = (
        np.concatenate(explorer.run[name] if name == "real" else explorer.run["values"][method])
        for name in ("values", "real")
    )
    found = explorer.judgment(method)
    selected = np.concatenate(found["edge"]) < explorer.number
    assert (
        selected.sum() == explorer.number == round(0.6 * len(real)) and value[selected].min() >= value[~selected].max()
    )
    assert found["precision"][explorer.number - 1] == pytest.approx(precision_score(real, selected)) and found[
        "recall"
    ][explorer.number - 1] == pytest.approx(recall_score(real, selected))
    assert found["auc"] == pytest.approx(roc_auc_score(real, value))
    assert f"{found['auc']:.3f}" in explorer.panel_words()


def test_edges_are_counted_in_the_picture():
    explorer = EdgesExplorer(ratio=1.0)
    for number in range(SHOWN):
        explorer.molecule = number
        names = [trace.name for trace in explorer.figure("graph").data[:4]]
        real, every = sum(explorer.run["real"][number]), len(explorer.run["real"][number])
        assert (
            f"real, selected: {real}" in names
            and f"added, selected: {every - real}" in names
            and "real, missed: 0" in names
        )
    assert {len(run["real"]) for run in explorer.data["runs"].values()} == {
        len(explorer.run["real"])
    } and explorer.data["config"]["added"] == 0.3


@pytest.mark.slow
def test_edges_are_built_anew():
    content = build_judgments(seeds=(0,), graphs=40, epochs=2, methods=("low degree", "random"), progress=False)
    assert (
        set(content["runs"]["0"]["values"]) == {"low degree", "random"} and len(content["runs"]["0"]["graphs"]) == SHOWN
    )


def test_ties_count_half_and_order_is_stable():
    found = judgment([np.array([0.5, 0.5]), np.array([0.5, 0.1])], [[1, 0], [0, 1]])
    assert found["auc"] == roc_auc_score([1, 0, 0, 1], [0.5, 0.5, 0.5, 0.1]) and found["edge"][0].tolist() == [0, 1]


@pytest.mark.parametrize("size", SIZES)
def test_luck_all_methods_are_equal(size):
    found = tables(size, 0.75, "beforehand")
    spread = np.sqrt(0.75 * 0.25 / size)
    assert found.means.mean() == pytest.approx(0.75, abs=4 * spread / np.sqrt(found.means.shape[0]))
    assert found.means[:, 0].std() == pytest.approx(spread, rel=0.15)
    assert np.allclose(found.means.mean(0), 0.75, atol=6 * spread / np.sqrt(400))


def test_luck_leads():
    lead = {
        (methods, size): ModelSelectionExplorer(methods=methods, graphs=size).usual_lead
        for methods in (2, 20)
        for size in SIZES
    }
    assert all(lead[20, size] > lead[2, size] for size in SIZES) and lead[20, 188] > lead[20, 1113] > lead[20, 5000] > 0
    assert all(
        ModelSelectionExplorer(chosen=CHOSEN[1], graphs=size, methods=13).usual_lead
        > ModelSelectionExplorer(graphs=size, methods=13).usual_lead + 0.004
        for size in SIZES
    )


def test_luck_paired_test_is_right_where_nobody_is_picked():
    "Of two methods, the second against the first: 5 % of tables below 5 %; picking the winner keeps that."
    found = Tables(tables(5000, 0.75, "beforehand").folds[:, :2], 0.75)
    assert (found.p_values < 0.05).mean() == pytest.approx(0.025, abs=0.02)  # only where the second wins
    assert found.folds.shape[2] == FOLDS
