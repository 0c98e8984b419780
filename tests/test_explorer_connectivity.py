import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from gib_nb.explorers.connectivity import (
    GRAPHS,
    GRID,
    NODES,
    SOFTNESS,
    ConnectivityExplorer,
    all_choices,
    choice,
    code_of,
)
from gib_nb.nn.connectivity import (
    connectivity_loss,
    connectivity_loss_published,
    connectivity_matrix,
    num_connected_components,
    row_normalize,
)


@pytest.fixture
def explorer():
    explorer = ConnectivityExplorer()
    yield explorer
    explorer.close()


def symmetrize(name):
    edges = torch.tensor(GRAPHS[name][1]).T - 1
    return torch.cat([edges, edges.flip(0)], 1)


def two_columns(p):
    p = torch.as_tensor(p, dtype=torch.double)
    return torch.stack([p, 1 - p], 1)


def shown(explorer, panel):
    return json.loads(explorer.view.panels[panel].spec)


def test_by_hand():
    split = choice("joined", (1, 2, 3), 0.0)
    assert np.allclose(split.matrix, [[6, 1], [1, 6]]) and np.allclose(
        split.normalized, [[6 / 7, 1 / 7], [1 / 7, 6 / 7]]
    )
    assert split.loss == pytest.approx(2 / 7) and split.published == pytest.approx(1 / 49) and split.components == 1
    for name in GRAPHS:
        uniform, full = choice(name, (1,), 1.0), choice(name, NODES, 0.0)
        assert uniform.loss == pytest.approx(1) and uniform.published == pytest.approx(0.25) and uniform.components == 0
        assert full.loss == pytest.approx(1) and full.published == pytest.approx(0.5) and np.isfinite(full.pull).all()
        assert choice(name, NODES, 0.001).loss == pytest.approx(2**0.5, abs=0.002)
    apart = choice("separate", (1, 2, 3), 0.0)
    assert apart.loss == 0 and apart.published == 0 and (apart.pull == 0).all()
    assert choice("star", (2, 3, 4), 0.0).components == 3 and choice("star", (), 0.0).components == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_every_value_is_that_of_the_package_one_graph_at_a_time(name):
    edge_index, softest = symmetrize(name), [GRID.index(softness) for softness in SOFTNESS]
    found = all_choices(name)
    for code in range(0, 64, 3):
        for k in softest:
            p = np.array([1 - GRID[k] / 2 if code >> node & 1 else GRID[k] / 2 for node in range(6)])
            matrix = connectivity_matrix(two_columns(p), edge_index)
            assert np.allclose(found["matrix"][code, k], matrix[0]) and np.allclose(
                found["normalized"][code, k], row_normalize(matrix)[0]
            )
            assert found["loss"][code, k] == pytest.approx(
                connectivity_loss(two_columns(p), edge_index).item(), abs=1e-12
            )
            assert found["published"][code, k] == pytest.approx(
                connectivity_loss_published(two_columns(p), edge_index).item(), abs=1e-12
            )
            assert found["components"][code, k] == num_connected_components(two_columns(p), edge_index).item()


@pytest.mark.parametrize("name", GRAPHS)
def test_pull_is_minus_the_slope_of_the_loss(name):
    for selected in ((1, 2, 3), (1, 2, 4), (2, 5)):
        now, step = choice(name, selected, 0.4), 1e-6
        for node in range(6):
            ends = [
                connectivity_loss(two_columns(now.p + sign * step * np.eye(6)[node]), symmetrize(name)).item()
                for sign in (1, -1)
            ]
            assert now.pull[node] == pytest.approx(-(ends[0] - ends[1]) / 2 / step, abs=1e-5)


@pytest.mark.parametrize("name", GRAPHS)
def test_what_the_sentences_claim(name):
    found = all_choices(name)
    assert abs(found["pull"][:, -1]).max() < 1e-12
    assert np.allclose(found["loss"], found["loss"][::-1]) and np.allclose(found["published"], found["published"][::-1])
    whole = found["matrix"].sum(3).min(2) > 1e-9
    assert np.allclose(found["published"][whole], found["loss"][whole] ** 2 / 4)
    home = found["normalized"].diagonal(axis1=2, axis2=3)
    assert np.allclose(found["loss"][whole], np.sqrt(2 * ((1 - home[whole]) ** 2).sum(1)))


def test_arrows_point_where_the_loss_falls(explorer):
    explorer.restore({"graph": "joined", "softness": 0.2})
    explorer.selected = 1, 2, 4
    arrows, nodes = explorer.figure("graph").data[1], explorer.figure("graph").data[2]
    assert arrows.text == ("+0.69", "−0.69") and list(arrows.x) == [nodes.x[2], nodes.x[3]]
    assert arrows.y[0] > nodes.y[2] and arrows.y[1] < nodes.y[3] and list(arrows.marker.symbol) == [5, 6]
    assert np.allclose(nodes.marker.color, [0.9, 0.9, 0.1, 0.9, 0.1, 0.1])
    explorer.softness = 1.0
    assert not explorer.figure("graph").data[1].x


def test_click_flips_a_node(explorer):
    nodes = shown(explorer, "graph")["data"][2]
    assert nodes["customdata"] == [f"node_{node}" for node in NODES]
    explorer.view.panels["graph"].on_click("node_4")
    assert explorer.selected == (1, 2, 3, 4) and explorer.view.controls["node_4"].value is True
    explorer.view.panels["graph"].on_click("node_1")
    assert explorer.selected == (2, 3, 4) and shown(explorer, "graph")["data"][2]["marker"]["color"] == [
        0,
        1,
        1,
        1,
        0,
        0,
    ]


def test_controls_move_the_panels(explorer):
    assert "<b>0.286</b>" in explorer.view.panels["numbers"].value
    explorer.view.controls["softness"].value = SOFTNESS.index(1.0)
    assert "<b>1.000</b>" in explorer.view.panels["numbers"].value
    marks = [trace for trace in shown(explorer, "softness")["data"] if trace["x"] == [1.0]]
    assert [trace["y"] for trace in marks] == [[1.0], [0.25]]
    explorer.view.controls["graph"].value = list(GRAPHS).index("separate")
    explorer.softness = 0.0
    assert (
        "<b>0.000</b>" in explorer.view.panels["numbers"].value and len(shown(explorer, "graph")["data"][0]["x"]) == 18
    )


def test_the_jump_is_a_dot_apart_from_the_line(explorer):
    explorer.selected = NODES
    loss, dot = explorer.figure("softness").data[:2]
    assert loss.x[0] > 0 and loss.y[0] == pytest.approx(2**0.5, abs=0.005) and (dot.x, dot.y) == ((0,), (1.0,))
    assert "One side has no edges" in explorer.panel_numbers()
    explorer.selected = ()
    assert explorer.figure("softness").data[1].y == (1.0,)
    explorer.selected = (1,)
    assert "quarter" in explorer.panel_numbers() and explorer.figure("softness").data[0].x[0] == 0


def test_selected_is_read_and_set(explorer):
    explorer.selected = {5, 2}
    assert (
        explorer.selected == (2, 5)
        and explorer.state["node_5"]
        and not explorer.state["node_1"]
        and code_of((2, 5)) == 18
    )
    for wrong in ((0,), (7,), ("1",)):
        with pytest.raises(ValueError, match="node numbers"):
            explorer.selected = wrong
    with pytest.raises(ValueError, match="softness"):
        explorer.softness = 0.3
    assert explorer.selected == (2, 5)
    assert ConnectivityExplorer(selected=(6,), graph="ring").selected == (6,)


def test_state_round_trip(explorer):
    explorer.restore({"graph": "star", "node_2": False, "softness": 0.6})
    again = ConnectivityExplorer().restore(explorer.state)
    assert again.state == explorer.state and again.selected == (1, 3)
    assert again.panel_numbers() == explorer.panel_numbers()


def test_static_page_of_one_graph(explorer):
    page = explorer.to_html(over=[*(f"node_{node}" for node in NODES), "softness"])
    data = json.loads(page.split('id="gib-data">')[1].split("</script>")[0])
    assert len(data["states"]) == 384 and len(json.dumps(data)) < 1e6


def test_torch_comes_with_the_first_picture():
    program = "import sys; from gib_nb.explorers.connectivity import ConnectivityExplorer as E; E(); assert not {'torch', 'rdkit', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
