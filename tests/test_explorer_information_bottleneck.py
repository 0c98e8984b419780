import json
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from gib_nb.explorers.information_bottleneck import (
    BETAS,
    TABLES,
    InformationBottleneckExplorer,
    own_path,
    splits_of,
    table_path,
)
from gib_nb.information.exact import critical_beta, entropy, mutual_information


def slow_informations(joint, encoder):
    "I(X;T) and I(Y;T), cell by cell."
    p_x, p_y, p_t = joint.sum(1), joint.sum(0), joint.sum(1) @ encoder
    complexity = sum(
        p_x[x] * encoder[x, t] * np.log(encoder[x, t] / p_t[t])
        for x in range(len(p_x))
        for t in range(len(p_t))
        if encoder[x, t] * p_x[x] > 0
    )
    relevance = 0
    for y in range(len(p_y)):
        for t in range(len(p_t)):
            p = sum(joint[x, y] * encoder[x, t] for x in range(len(p_x)))
            relevance += p * np.log(p / (p_y[y] * p_t[t])) if p > 0 else 0
    return complexity, relevance


@pytest.fixture
def explorer():
    explorer = InformationBottleneckExplorer()
    yield explorer
    explorer.close()


def shown(explorer, panel):
    shown = explorer.view.panels[panel]
    return json.loads(shown.spec) if hasattr(shown, "spec") else shown.value


def encoder_of(explorer):
    "The rows of p(t|x) as the page shows them."
    lines = list(ElementTree.fromstring(explorer.panel("clusters"))[0])[1:-1]
    k = explorer.point.clusters
    cells = [[cell for cell in line if cell.tag == "td"][len(explorer.path.columns) + 1 :] for line in lines]
    assert all(
        cell.text in (None, f"{float(cell.get('title')[:-1]):.0f}")
        or abs(float(cell.get("title")[:-1]) % 1 - 0.5) < 0.06
        for line in cells
        for cell in line[:k]
    )
    return np.array([[float(cell.get("title")[:-1]) / 100 for cell in line[:k]] for line in cells])


def test_slider_moves_every_panel(explorer):
    before = {name: shown(explorer, name) for name in explorer.view.panels}
    explorer.view.controls["beta"].value = BETAS.index(0.7)
    assert explorer.beta == 0.7
    assert set(before) == {"clusters", "curve", "path", "numbers"} and all(
        shown(explorer, name) != before[name] for name in before
    )
    explorer.beta = 0.2
    assert explorer.view.controls["beta"].value == BETAS.index(0.2)


def test_table_changes_the_rows(explorer):
    explorer.view.controls["table"].value = list(TABLES).index("symptoms")
    assert (
        "<th>Koplik spots <i>0.4%</i></th>" in shown(explorer, "clusters")
        and "invented" in explorer.view.panels["numbers"].value
    )


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("beta", [0.0, 0.1, 0.3, 0.6, 1.0])
def test_shown_informations_are_those_of_the_encoder(name, beta):
    explorer = InformationBottleneckExplorer(table=name, beta=beta)
    point, joint = explorer.point, TABLES[name][3]
    complexity, relevance = slow_informations(joint, point.encoder)
    here = explorer.figure("curve").layout.shapes[-1]
    assert (
        here.type == "circle"
        and here.xanchor == pytest.approx(complexity, abs=1e-3)
        and here.yanchor == pytest.approx(relevance, abs=1e-3)
    )
    assert f"{point.relevance:.3f} nats" in explorer.panel_numbers() and point.relevance == pytest.approx(
        relevance, abs=1e-7
    )
    assert np.allclose(encoder_of(explorer), point.encoder, atol=6e-4)


def test_splits_of_independent_bits_lie_where_the_formula_puts_them():
    splits = table_path("bits").splits
    assert [(split.before, split.after) for split in splits] == [(1, 2), (2, 4), (4, 8)]
    assert [split.beta for split in splits] == pytest.approx([(1 - 2 * p) ** 2 for p in (0.05, 0.15, 0.3)], abs=0.0101)
    assert [split.beta for split in table_path("bit").splits] == pytest.approx([0.64], abs=0.0101)
    assert (splits[0].complexity, splits[0].relevance) == (0, 0)


def test_messages_for_the_same_thing_are_never_told_apart():
    for beta in BETAS:
        encoder = InformationBottleneckExplorer(table="bit", beta=beta).point.encoder
        assert np.allclose(encoder[:3], encoder[0]) and np.allclose(encoder[3:], encoder[3])


def test_a_rare_telling_row_splits_off_far_above_the_squared_maximal_correlation():
    path = table_path("symptoms")
    joint, first = path.curve.joint, path.splits[0]
    row, p_y = joint[-1] / joint[-1].sum(), joint.sum(0)
    by_hand = sum(p * np.log(p / q) for p, q in zip(row, p_y) if p > 0) / np.log(1 / joint[-1].sum())
    assert 0 <= first.beta - by_hand <= 0.0101 and first.beta > critical_beta(joint) + 0.2
    encoder = path.curve.at(first.beta - 0.05).encoder
    assert (encoder[:-1, 1] < 1e-6).all() and encoder[-1, 1] > 0.3


@pytest.mark.parametrize("name", TABLES)
def test_what_the_sentences_claim(name):
    curve = table_path(name).curve
    assert (
        curve.clusters[-1] == 1
        and (np.diff(curve.clusters) <= 0).all()
        and len(table_path(name).splits) == len(set(curve.clusters)) - 1
    )
    assert (np.diff(curve.relevance) <= 1e-12).all()
    assert (curve.relevance <= np.minimum(curve.complexity, mutual_information(curve.joint)) + 1e-12).all()
    steps = -np.diff(curve.complexity) > 1e-6
    slopes = np.diff(curve.relevance)[steps] / np.diff(curve.complexity)[steps]
    assert (np.diff(slopes) > -1e-6).all()
    assert splits_of(curve) == table_path(name).splits


def test_tangent_has_slope_beta_and_the_curve_stays_below(explorer):
    for beta in (0.1, 0.4, 0.8):
        explorer.beta = beta
        tangent, here, curve = explorer.figure("curve").layout.shapes[1], explorer.point, explorer.path.curve
        assert (tangent.y1 - tangent.y0) / (tangent.x1 - tangent.x0) == pytest.approx(beta, abs=0.005)
        assert (curve.relevance <= here.relevance + beta * (curve.complexity - here.complexity) + 1e-9).all()


def test_limits_are_marked(explorer):
    texts = " ".join(note.text for note in explorer.figure("curve").layout.annotations)
    joint = TABLES["bits"][3]
    assert f"H(X) = {entropy(joint.sum(1)):.2f}" in texts and f"I(X;Y) = {mutual_information(joint):.2f}" in texts


def test_table_of_ones_own():
    joint = np.array([[0.4, 0.1], [0.1, 0.4]])
    explorer = InformationBottleneckExplorer(joint=joint, rows=["<b>a</b>", "b"], beta=0.1)
    assert explorer.state == {"table": "own", "beta": 0.1} and explorer.point.clusters == 2
    assert explorer.path.splits[0].beta == pytest.approx(0.36, abs=0.0101)
    assert "<th>&lt;b&gt;a&lt;/b&gt; <i>50%</i></th>" in explorer.panel("clusters")
    explorer.table = "words"
    assert explorer.path.columns == ["sport", "politics", "science"]
    assert "own" not in InformationBottleneckExplorer().control("table").options
    with pytest.raises(ValueError, match="own"):
        InformationBottleneckExplorer().restore({"table": "own"})


@pytest.mark.parametrize("joint", [np.full((3, 4), 1 / 12), [[1.0]], [[0.5, 0.5], [0, 0]], np.eye(2) / 2])
def test_degenerate_tables_are_drawn(joint):
    explorer = InformationBottleneckExplorer(joint=joint)
    for beta in (0.0, 0.5, 1.0):
        explorer.beta = beta
        for name in ("curve", "path"):
            assert "NaN" not in explorer.figure(name).to_json() and "null" not in explorer.figure(name).to_json()
        assert "nan" not in explorer.panel("numbers") + explorer.panel("clusters")


@pytest.mark.parametrize(
    "arguments, words",
    [
        (dict(joint=[[3, 1], [1, 3]]), "divide a table of counts"),
        (dict(joint=[0.5, 0.5]), "shape"),
        (dict(joint=[[-0.5, 1.5]]), ">= 0"),
        (dict(joint=np.full((17, 2), 1 / 34)), "at most 16"),
        (dict(joint=[[0.5, 0.5]], rows=["a", "b"]), "names"),
        (dict(beta=0.123), "beta"),
        (dict(table="none"), "table"),
    ],
)
def test_what_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        InformationBottleneckExplorer(**arguments)
    assert own_path([[0.5, 0.5]]).rows == ["x1"]


def test_state_round_trip(explorer):
    explorer.restore({"table": "words", "beta": 0.06})
    again = InformationBottleneckExplorer(**explorer.state)
    assert again.state == explorer.state == {"table": "words", "beta": 0.06}
    assert again.panel("clusters") == explorer.panel("clusters")


def test_static_page_is_small(explorer):
    page = explorer.to_html(over=["beta"])
    data = json.loads(page.split('id="gib-data">')[1].split("</script>")[0])
    assert len(data["states"]) == len(BETAS) and len(json.dumps(data)) < 1e6


def test_torch_is_not_needed():
    program = (
        "import sys; from gib_nb.explorers.information_bottleneck import InformationBottleneckExplorer as E; E().panels(); "
        "assert not {'torch', 'torch_geometric', 'rdkit', 'sklearn', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
