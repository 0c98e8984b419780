"Hiding the label in a mask: every number counted again, graph by graph."

import itertools

import networkx
import numpy as np
import pytest

from gib_nb.explorers.cheating import CHEATS, CheatingExplorer, all_graphs, edges_of, masks_of, notices, scores_of


def graphs():
    for label, hangs in zip(*all_graphs()):
        graph = networkx.Graph(edges_of(label, hangs))
        graph.add_nodes_from(range(7))
        yield int(label), graph


def says_triangle(graph, kept):
    return int(bool(networkx.cycle_basis(graph.subgraph(kept))))


def test_the_label_is_whether_there_is_a_triangle():
    assert all(says_triangle(graph, range(7)) == label for label, graph in graphs())
    assert len({(label, frozenset(map(frozenset, graph.edges))) for label, graph in graphs()}) == 720


@pytest.mark.parametrize("cheat", CHEATS)
def test_cuts_by_asking_again(cheat):
    "Necessity and sufficiency of the masks and of all random ones of their size, with networkx."
    mask, counts = masks_of(cheat, 1.0)[-1][1], {"necessity": [], "sufficiency": []}
    random = {"necessity": [], "sufficiency": []}
    for (label, graph), keep in list(zip(graphs(), mask))[::24]:
        chosen = set(np.flatnonzero(keep).tolist())
        counts["necessity"].append(says_triangle(graph, set(range(7)) - chosen) != label)
        counts["sufficiency"].append(says_triangle(graph, chosen) != label)
        every = list(map(set, itertools.combinations(range(7), len(chosen))))
        random["necessity"].append(np.mean([says_triangle(graph, set(range(7)) - some) != label for some in every]))
        random["sufficiency"].append(np.mean([says_triangle(graph, some) != label for some in every]))
    found = scores_of(cheat, 1.0)
    for name in counts:
        assert found[name] == pytest.approx(np.mean(counts[name]))
        assert found[f"{name}, random"] == pytest.approx(np.mean(random[name]))


@pytest.mark.parametrize("cheat", CHEATS)
def test_an_extension_by_hand(cheat):
    "Each of the other nodes comes back with probability ½: all ways of it."
    mask = masks_of(cheat, 1.0)[-1][1]
    changed = []
    for (label, graph), keep in list(zip(graphs(), mask))[::60]:
        chosen = set(np.flatnonzero(keep).tolist())
        rest = sorted(set(range(7)) - chosen)
        ways = [chosen | set(itertools.compress(rest, way)) for way in itertools.product((0, 1), repeat=len(rest))]
        changed.append(np.mean([says_triangle(graph, way) != label for way in ways]))
    assert scores_of(cheat, 1.0)["extension"] == pytest.approx(np.mean(changed))


def test_a_code_that_is_used_in_half_of_the_graphs():
    "The mask tells the label in the half that cheats: half a bit, since whoever sees an honest mask knows nothing."
    found = scores_of("position", 0.5)
    assert found["I(Y;mask)"] == pytest.approx(0.5) and found["I(Y;content)"] == pytest.approx(0.5)
    assert found["I(Y;selection)"] == pytest.approx(1) and found["necessity"] == pytest.approx(0.25)


def test_who_notices():
    honest = scores_of("none", 0.0)
    seen = {cheat: {test for test, says in notices(scores_of(cheat, 1.0), honest).items() if says} for cheat in CHEATS}
    cuts = {"necessity", "sufficiency", "extension"}
    assert seen == {
        "none": set(),
        "position": cuts | {"I(Y;mask)", "I(Y;content)"},
        "number": cuts | {"I(Y;mask)"},
        "ignored": cuts | {"fidelity+", "I(Y;content)"},
        "beside": {"I(Y;mask)"},
    }


def test_the_panels_follow():
    explorer = CheatingExplorer(cheat="number", share=1.0, graph=4)
    assert "Label: triangle" in explorer.panel("graph") and "selects 4." in explorer.panel("graph")
    assert "selects 4, 5." in explorer.restore({"graph": 1}).panel("graph")
    bars = explorer.figure("cuts").data[1]
    assert list(bars.y) == pytest.approx([explorer.scores[name] for name in bars.x], abs=1e-3)
    assert explorer.panel("notices").count(">detects it<") == 4
    assert explorer.restore({"share": 0.0}).scores == explorer.honest
    assert explorer.panel("notices").count(">detects it<") == 0
