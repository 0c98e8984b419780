"""The molecule explorer: any text is answered, what is typed stays text, and the models are worth something."""

import copy
import html
import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gib_nb.explorers.molecule_models as models
import gib_nb.train.trainer  # the models load at once, not on a thread
from gib_nb.chem.builtin import builtin_molecules
from gib_nb.chem.fragments import cut_fragment
from gib_nb.chem.properties import property_oracle
from gib_nb.chem.smiles import molecule_to_data, read_molecule
from gib_nb.data.graph_dataset import make_dataset
from gib_nb.explain.molecule import shipped_model
from gib_nb.explorers.molecule import EXAMPLES, OWN, PROPERTIES, MoleculeExplorer


def html_of(explorer):
    return "".join(panel for panel in explorer.panels().values() if isinstance(panel, str))


# --- the models ---------------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROPERTIES)
def test_shipped_model(name):
    record = shipped_model(name).record
    model, blind, mean = (record["predictions"][method] for method in ("model", "no-edges baseline", "training mean"))
    assert model["r2"] > blind["r2"] + 0.2 and model["spearman"] > blind["spearman"] + 0.2 and abs(mean["r2"]) < 0.02
    assert record["fragments"]["rank"] > record["fragments"]["random_rank"] + 0.05
    assert (
        record["collapse"] is None
        and 0.2 < record["fragments"]["selected_fraction"] < 0.8
        and record["fragments"]["empty_fraction"] < 0.05
        and record["fragments"]["whole"] < 0.1
    )
    assert (
        set(record) >= {"config", "spec", "data", "versions", "machine", "seeds", "label"} and len(record["seeds"]) >= 2
    )
    assert record["label"] == property_oracle(name).label


def test_figures_of_the_build_are_those_of_the_files():
    from gib_nb.train.config import flat_settings

    asset = MoleculeExplorer().data
    assert asset["settings"] == models.SETTINGS
    for name in PROPERTIES:
        record, settings = shipped_model(name).record, flat_settings(shipped_model(name).config)
        assert asset["models"][name] == {key: record[key] for key in asset["models"][name]}
        assert (
            all(settings[key] == value for key, value in models.SETTINGS.items())
            and str(settings["seed"]) == record["seed"]
        )


def test_files_are_small():
    assert sum(models.model_path(name).stat().st_size for name in PROPERTIES) < 500_000


def test_every_weight_is_finite():
    for name in PROPERTIES:
        assert all(bool(tensor.isfinite().all()) for tensor in shipped_model(name).model.state_dict().values())


def test_half_precision_changes_little(tmp_path):
    graphs = [molecule_to_data(smiles, float(i)) for i, smiles in enumerate(builtin_molecules(60))]
    trainer = gib_nb.train.trainer.GIBTrainer(
        epochs=3, pretrain_epochs=1, rampup_epochs=1, max_restarts=0, hidden_channels=8, seed=1
    )
    with pytest.warns(UserWarning):  # a model of three epochs is collapsed
        trainer.fit(graphs[:40], valid=graphs[40:], progress=False)
    models.write_model(tmp_path / "model.safetensors", trainer, {"note": 1})
    again = gib_nb.train.trainer.GIBTrainer.from_file(tmp_path / "model.safetensors")
    assert np.allclose(again.predict(graphs), trainer.predict(graphs), atol=1e-2 * trainer.spec.y_std)
    assert again.record["note"] == 1 and again.config == trainer.config and not again.model.training


def test_foreign_files(tmp_path):
    (tmp_path / "text").write_text("no model")
    (tmp_path / "half").write_bytes(models.model_path("QED").read_bytes()[:3000])
    (tmp_path / "other").write_bytes(gib_nb.utils.files.save_safetensors({"a": torch.zeros(2)}, {"config": {}}))
    for name in ("text", "half", "other"):
        with pytest.raises(ValueError, match="expected"):
            gib_nb.train.trainer.GIBTrainer.from_file(tmp_path / name)
    with pytest.raises(ValueError, match="expected one of QED"):
        shipped_model("logP")


@pytest.mark.slow
def test_models_agree_with_their_records_on_new_molecules(data_root):
    smiles = models.candidate_molecules("HLM", data_root, random=1500, published=400, seed=99)
    data = models.level_dataset("HLM", smiles, 400)
    trainer = shipped_model("HLM")
    assert abs(trainer.score(data.graphs) - trainer.record["predictions"]["model"]["r2"]) < 0.15


# --- how they are made ----------------------------------------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=200), st.integers(1, 100))
@settings(max_examples=60)
def test_level_choice(values, number):
    chosen = models.level_choice(values, number)
    assert len(chosen) == min(number, len(values)) == len(set(chosen)) and (np.diff(chosen) > 0).all()


def test_level_choice_prefers_scarce_values():
    values = np.concatenate([np.linspace(0, 0.1, 900), np.linspace(0.5, 1, 100)])
    assert (values[models.level_choice(values, 200)] > 0.5 - 1e-9).sum() >= 99


def test_random_piece_is_connected():
    graph, generator = molecule_to_data(EXAMPLES["haloperidol"]), np.random.default_rng(0)
    edges = {tuple(edge) for edge in graph.edge_index.T.tolist()}
    for size in (1, 5, 12, 26, 40):
        piece = models.random_connected_subset(graph, size, generator)
        reached = {piece[0]}
        for _ in piece:
            reached |= {j for i in reached for j in piece if (i, j) in edges}
        assert reached == set(piece) and len(piece) == min(size, graph.num_nodes)


def test_random_piece_of_a_salt_ends_with_its_component():
    graph = molecule_to_data("[Na+].CC(=O)[O-]")
    assert {len(models.random_connected_subset(graph, 5, np.random.default_rng(seed))) for seed in range(12)} == {1, 4}


@pytest.mark.slow
def test_small_build_repeats(tmp_path):
    first = MoleculeExplorer.build(small=True, progress=False, folder=tmp_path)
    record = first["models"]["HLM"]
    trainer = gib_nb.train.trainer.GIBTrainer.from_file(tmp_path / "model_hlm.safetensors")
    assert trainer.record["predictions"] == record["predictions"] and [path.name for path in tmp_path.iterdir()] == [
        "model_hlm.safetensors"
    ]
    before = {name: models.model_path(name).read_bytes() for name in PROPERTIES}
    again = MoleculeExplorer.build(small=True, progress=False)
    assert json.dumps(again, allow_nan=False) == json.dumps(first)
    assert {name: models.model_path(name).read_bytes() for name in PROPERTIES} == before


# --- what is shown --------------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROPERTIES)
@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.8])
def test_explanation_by_hand(name, threshold):
    explorer = MoleculeExplorer(example="risperidone", property=name, threshold=threshold)
    e, graph = explorer.explain(), molecule_to_data(EXAMPLES["risperidone"])
    trainer = shipped_model(name)
    weights = trainer.explain([graph])[0].node_mask.flatten().tolist()
    assert np.allclose(e.weights, weights) and e.prediction == pytest.approx(trainer.predict([graph])[0])
    left, pieces = {i for i, weight in enumerate(weights) if weight > threshold}, []
    bonds = {(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in read_molecule(e.smiles).GetBonds()}
    while left:
        piece = {left.pop()}
        while more := {j for i in piece for j in left if (i, j) in bonds or (j, i) in bonds}:
            piece, left = piece | more, left - more
        pieces.append(tuple(sorted(piece)))
    assert e.components == len(pieces) and len(e.fragment.atoms) == max(map(len, pieces), default=0)
    assert e.fragment.atoms in pieces and e.fragment.smiles == cut_fragment(e.smiles, e.fragment.atoms).smiles
    oracle = property_oracle(name)
    assert e.value == oracle(e.smiles) and (e.fragment.mol is None or e.fragment_value == oracle(e.fragment.mol))
    text = explorer.panel_numbers()
    assert f"{e.value:.3f}" in text and oracle.kind in text and f"{len(e.fragment.atoms)} of {len(weights)}" in text
    if e.fragment.mol is not None:
        assert f"<td>{abs(e.value - e.fragment_value):.3f}</td>" in text


def test_controls_of_the_view_move_the_panels():
    explorer = MoleculeExplorer()
    view = explorer.view
    before = view.panels["numbers"].value, view.panels["drawing"].value
    view.controls["property"].value = 1
    assert explorer.property == "DRD2" and "DRD2" in view.panels["numbers"].value != before[0]
    view.controls["example"].value = list(EXAMPLES).index("aspirin")
    assert view.controls["smiles"].value == EXAMPLES["aspirin"] and "<svg" in view.panels["drawing"].value != before[1]
    view.controls["smiles"].value = "CCO"
    assert explorer.example == OWN and view.controls["example"].value == len(EXAMPLES)
    bars = view.panels["atoms"].figure
    assert sorted(x for trace in bars.data for x in trace.x) == [0, 1, 2]
    explorer.close()


def test_state_round_trip():
    explorer = MoleculeExplorer(smiles="CCN", property="MLM", threshold=0.3)
    state = explorer.state
    assert state == {"smiles": "CCN", "example": OWN, "property": "MLM", "threshold": 0.3}
    assert MoleculeExplorer().restore(json.loads(json.dumps(state))).state == state
    for name, value in (("property", "logP"), ("threshold", 0.33), ("smiles", 3), ("example", "water")):
        with pytest.raises(ValueError, match="expected"):
            setattr(explorer, name, value)
    assert explorer.state == state


def test_threshold_cuts_without_the_model(monkeypatch):
    explorer = MoleculeExplorer(example="sildenafil")
    explorer.panels()
    monkeypatch.setattr(gib_nb.train.trainer.GIBTrainer, "_pass", lambda *_: pytest.fail("the model ran again"))
    sizes = []
    for threshold in explorer.control("threshold").options:
        explorer.threshold = threshold
        explorer.panels()
        sizes.append(sum(weight > threshold for weight in explorer.explain().weights))
    assert sizes == sorted(sizes, reverse=True)


# --- any text -------------------------------------------------------------------------------------------------------------------------------------------------

BAD = {
    "": "Type the SMILES",
    "  ": "Type the SMILES",
    "CC(=O": "parenthes",
    "CC(C)(C)(C)C": "valence",
    "c1cccc1C(": "syntax error",
    "C C": "blanks",
    "n1cccc1": "kekulize",
    "CC(=O)Oc1ccccc1C(=O)O aspirin": "blanks",
    "C" * 151: "at most 150 atoms",
    "C" * 3000: "at most 2000 characters",
    "water": "syntax error",
    "\u00e9\u6c34": "xpected",
    "C\ud800": "",
    "C\x00C": "",
    "<b>C</b>": "&lt;b&gt;",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_text_gets_a_reason(text):
    explorer = MoleculeExplorer()
    view = explorer.view
    good = view.panels["drawing"].value
    view.controls["smiles"].value = text
    assert len(explorer.problem("smiles")) > 20 and BAD[text].lower() in view.problems["smiles"].value.lower()
    assert "<svg" not in view.panels["drawing"].value and not view.message.value and view.panels["numbers"].value == ""
    assert (
        "Nothing to show for this text." in view.panels["drawing"].value
        and html.escape(explorer.problem("smiles")) not in view.panels["drawing"].value
    )  # the reason stands once
    assert html.escape(explorer.problem("smiles")) in copy.copy(explorer).panel_drawing()  # where there is no field
    with pytest.raises(ValueError):
        explorer.explain()
    view.controls["smiles"].value = EXAMPLES["lidocaine"]
    assert view.panels["drawing"].value == good and "svg" in good and explorer.problem("smiles") == ""
    explorer.close()


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "C<img src=x onerror=alert(1)>",
        '"><script>alert(1)</script>',
        "C</script><script>alert(1)</script>",
    ],
)
def test_typed_markup_stays_text(text):
    explorer = MoleculeExplorer(smiles=text)
    shown = html_of(explorer) + explorer.view.problems["smiles"].value
    page = explorer.to_html(over=())
    start = page.index('<script type="application/json"')
    data, rest = page[start:].split(">", 1)[1].split("</script>", 1)
    assert json.loads(data)["fixed"][0]["text"] == text
    for markup in ("<script>alert", "<img"):
        assert markup not in shown + rest + page[:start].split("</script>", 1)[1]
    explorer.close()


@pytest.mark.parametrize(
    "smiles",
    [
        "C",
        "*",
        "[H][H]",
        "[H+]",
        "[Na+].[Cl-]",
        "[Na+].CC(=O)[O-]",
        "[2H]C([2H])[2H]",
        "C[C@H](N)C(=O)O",
        "[Fe+2]",
        "[U]",
        "F/C=C/F",
        "C1CC1",
        "CCO.",
        "[13CH4]",
        "C" * 150,
        " CCO ",
        "O=C=O",
        "C1=CC=CC=C1",
        "[O-][N+](=O)c1ccccc1",
        "OB(O)c1ccccc1",
        "C%10CC%10",
    ],
)
@pytest.mark.parametrize("name", PROPERTIES)
def test_odd_molecules(smiles, name):
    explorer = MoleculeExplorer(smiles=smiles, property=name, threshold=0.5)
    assert bool(explorer.problem("smiles")) == (smiles == "CCO.")
    assert ("<svg" in html_of(explorer)) == (smiles != "CCO.")
    assert isinstance(explorer.panel_atoms().to_json(), str)


@pytest.mark.slow
@given(st.one_of(st.text(max_size=30), st.text(alphabet="CNOFcnos()[]=#123+-@/\\.*H%", max_size=25)))
@settings(max_examples=80)
def test_no_text_raises(text):
    explorer = MoleculeExplorer(smiles=text)
    html_of(explorer), explorer.panel_atoms(), explorer.problem("smiles")


def test_a_molecule_of_unseen_size_is_named():
    assert "was not trained on molecules of that size" in MoleculeExplorer(smiles="C" * 120).panel_numbers()
    assert "was not trained on molecules of that size" not in MoleculeExplorer().panel_numbers()


# --- other methods --------------------------------------------------------------------------------------------------------------------------------------------


def test_methods_stand_beside_the_model():
    seen = []

    def ends(graph, name):
        seen.append((graph.smiles, name))
        return (torch.bincount(graph.edge_index[0], minlength=graph.num_nodes) == 1).float()

    explorer = MoleculeExplorer({"<b>ends</b>": ends}, smiles="CCO", property="HLM")
    text = html_of(explorer)
    assert "<th>&lt;b&gt;ends&lt;/b&gt;</th>" in text and "<b>ends" not in text and text.count("<svg") == 2
    e = explorer.explain("<b>ends</b>")
    assert e.components == 2 and e.weights == (1, 0, 1) and np.isnan(e.prediction) and seen == [("CCO", "HLM")]
    assert "<th>" not in MoleculeExplorer().panel_numbers().replace("<th></th>", "") and "Att0" not in html_of(
        MoleculeExplorer()
    )


def test_wrong_weights_are_shown():
    explorer = MoleculeExplorer({"short": lambda graph, name: [0.5]}, smiles="C")
    view = explorer.view
    with pytest.raises(ValueError, match="one weight per atom"):
        view.controls["smiles"].value = "CCO"
    assert "one weight per atom" in view.message.value
    view.controls["smiles"].value = "O"
    assert view.message.value == ""
    explorer.close()


# --- loading and pages ------------------------------------------------------------------------------------------------------------------------------------------


def test_static_page():
    explorer = MoleculeExplorer(example="aspirin", property="DRD2")
    page = explorer.to_html()
    data = json.loads(
        page.split('<script type="application/json" id="gib-data">')[1].split("</script>")[0].replace("<\\/", "</")
    )
    assert [control["name"] for control in data["controls"]] == ["property", "threshold"] and len(
        data["states"]
    ) == 4 * 17
    assert {"label": "SMILES", "text": EXAMPLES["aspirin"]} in data["fixed"] and len(data["contents"]) < 200
    assert "Loading" not in page.split("gib-data")[1] and explorer.property == "DRD2"


@pytest.mark.slow
def test_first_use_shows_that_it_loads():
    code = """
import sys, threading, time
from gib_nb.explorers.molecule import MoleculeExplorer
explorer = MoleculeExplorer()
start = time.perf_counter()
view = explorer.view
quick = time.perf_counter() - start, view.panels["drawing"].value, view.panels["atoms"].drawn
assert "Loading the model" in quick[1], quick
assert "<svg" in "".join(p for p in __import__("copy").copy(explorer).panels().values() if isinstance(p, str))
for thread in threading.enumerate():
    if thread.name == "gib-molecule": thread.join()
assert "<svg" in view.panels["drawing"].value and "R²" in view.panels["numbers"].value and view.panels["atoms"].drawn != quick[2]
assert explorer._loader is None
assert not [thread for thread in threading.enumerate() if thread.name == "gib-molecule"]
print("ok")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=500)
    assert done.stdout.strip() == "ok", done.stderr[-2000:]


def test_import_loads_nothing_heavy():
    code = "import sys, gib_nb.explorers.molecule as m; m.MoleculeExplorer(); print(*[n for n in ('torch', 'rdkit', 'sklearn', 'pandas') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == ""


# --- a model of one's own ---------------------------------------------------------------------------------------------------------------------------------------

CHAINS = ["C" * n + end for n in range(1, 11) for end in ("O", "N", "F")]
FEW = dict(epochs=4, pretrain_epochs=1, rampup_epochs=1, hidden_channels=8, num_steps=2, max_restarts=0, seed=1)


def trained(graphs, y=None, **settings):
    trainer = gib_nb.train.trainer.GIBTrainer(**FEW | settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # after four epochs it has collapsed
        return trainer.fit(graphs, y, progress=False)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    "The result folder of a file in which alcohols are <b>active</b>."
    from gib_nb.cli import main

    folder = tmp_path_factory.mktemp("own")
    rows = [f"{smiles},{'<b>active</b>' if 'O' in smiles else 'inactive'}" for smiles in CHAINS]
    (folder / "activity.csv").write_text("\n".join(["smiles,activity", *rows]))
    words = [word for name, value in FEW.items() for word in ("--" + name.replace("_", "-"), str(value))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gib_nb.train.metrics.REPEATS", 10)
        made = ["train", str(folder / "activity.csv"), "--out", str(folder / "run"), "--no-baselines", "--no-progress"]
        assert main([*made, *words]) == 0
    return folder / "run"


def test_a_run_shows_its_label_its_test_molecules_and_its_scores(run):
    explorer, metrics = MoleculeExplorer(model=run), json.loads((run / "metrics.json").read_text())
    assert list(explorer.state) == ["smiles", "example", "threshold"] and explorer.title.endswith(
        "is activity predicted?"
    )
    smiles, label = metrics["examples"][0]
    assert explorer.smiles == smiles and explorer.example == f"test 1: {smiles} ({label})"
    text, e, trainer = explorer.panel_numbers(), explorer.explain(), gib_nb.train.trainer.GIBTrainer.load(run)
    graph = molecule_to_data(smiles)
    assert e.prediction == trainer.predict([graph])[0] and e.weights == pytest.approx(
        trainer.explain([graph])[0].node_mask.flatten().tolist()
    )
    chance = trainer.predict_proba([graph]).max()
    assert f"<td>{html.escape(e.prediction)}, probability {chance:.2f}</td>" in text
    assert f"<td>label in the data</td><td>{html.escape(label)}</td>" in text and "<b>active" not in html_of(explorer)
    assert "property of the" not in text and "bias" not in text and e.value is None and "QED" not in text
    assert f"accuracy {metrics['scores']['model']['test']:.2f}" in text and "majority class" in text
    assert "fingerprint" in text and f"{run}" in text
    explorer.smiles = "CCCCCCCCCCCCN"
    assert explorer.example == OWN and "label in the data" not in explorer.panel_numbers()


def test_a_run_in_the_view_and_on_a_page(run):
    explorer = MoleculeExplorer(model=str(run), example="aspirin")
    view = explorer.view
    assert list(view.controls) == ["smiles", "example", "threshold"] and "<svg" in view.panels["drawing"].value
    view.controls["example"].value = 1
    assert explorer.example.startswith("test 2") and view.controls["smiles"].value == explorer.smiles
    view.controls["smiles"].value = "CC(=O"
    assert "parenthes" in view.problems["smiles"].value and view.panels["numbers"].value == ""
    explorer.close()
    page = MoleculeExplorer(model=run).to_html()
    assert '"name":"threshold"' in page and '"name":"property"' not in page
    assert repr(explorer).startswith(f"MoleculeExplorer(model={str(run)!r}, smiles=")


def test_a_method_stands_beside_a_model_of_ones_own(run):
    explorer = MoleculeExplorer({"ends": lambda graph, name: graph.x[:, 2]}, model=run, smiles="CCO")
    assert explorer.explain("ends").weights == (0, 0, 1) and "<td>–</td>" in explorer.panel_numbers()


@pytest.mark.parametrize("kind", ["value", "targets", "values"])
def test_other_labels(kind):
    graphs = [molecule_to_data(smiles) for smiles in CHAINS]
    y = np.array([[len(smiles), "O" in smiles] for smiles in CHAINS], dtype=float)
    if kind == "targets":
        y[:, 0] = y[:, 0] > 5
    for graph, labels in zip(graphs, y):
        graph.y = torch.tensor(labels[:1] if kind == "value" else labels[None], dtype=torch.float)
    data = make_dataset("sizes", graphs, task="classification" if kind == "targets" else "regression")
    trainer = trained(data.train)
    text = MoleculeExplorer(model=trainer, smiles="CCCN").panel_numbers()
    prediction = trainer.predict([molecule_to_data("CCCN")])[0]
    expected = {
        "value": lambda: f"<td>{prediction:.3f}</td>",
        "targets": lambda: f"target 0 {prediction[0]} (",
        "values": lambda: f"target 1 {prediction[1]:.4g}<",
    }[kind]()
    assert expected in text and "No run of gib-nb train is on record" in text


def test_a_property_that_can_be_computed_is_computed(tmp_path):
    trained([molecule_to_data(smiles, float(len(smiles))) for smiles in CHAINS]).save(tmp_path)
    (tmp_path / "metrics.json").write_text(json.dumps({"data": {"name": "QED"}}))
    explorer = MoleculeExplorer(model=tmp_path, smiles=EXAMPLES["aspirin"])
    assert "property of the molecule" in explorer.panel_numbers() and explorer.property == "QED"
    assert explorer.explain().value == property_oracle("QED")(EXAMPLES["aspirin"])


def test_standardized_molecules_are_shown_as_the_model_gets_them(tmp_path):
    trained([molecule_to_data(smiles, float(len(smiles))) for smiles in CHAINS]).save(tmp_path)
    (tmp_path / "metrics.json").write_text(json.dumps({"source": {"standardize": True, "targets": ["size"]}}))
    assert MoleculeExplorer(model=tmp_path, smiles="CC(=O)[O-].[Na+]").explain().smiles == "CC(=O)O"


def test_the_threshold_is_that_of_the_model():
    graphs = [molecule_to_data(smiles, float(len(smiles))) for smiles in CHAINS]
    explorer = MoleculeExplorer(model=trained(graphs, threshold=0.33), smiles="CCO")
    assert explorer.threshold == 0.33 and 0.5 in explorer.control("threshold").options


def test_what_is_no_model_of_molecules(tmp_path):
    from gib_nb.data.synthetic import motif_dataset

    with pytest.raises(FileNotFoundError, match=r"result folder of gib-nb train \(got .*nowhere.*make one with"):
        MoleculeExplorer(model=tmp_path / "nowhere")
    motif = trained(motif_dataset(20).graphs)
    motif.save(tmp_path / "fold-01")
    with pytest.raises(FileNotFoundError, match="name one of its folds, such as .*fold-01"):
        MoleculeExplorer(model=tmp_path)
    for model in (motif, tmp_path / "fold-01"):
        with pytest.raises(ValueError, match="trained on molecules.*FILE has a column of SMILES"):
            MoleculeExplorer(model=model)
    with pytest.raises(ValueError, match="call fit"):
        MoleculeExplorer(model=gib_nb.train.trainer.GIBTrainer())
    with pytest.raises(TypeError, match="fitted GIBTrainer .got int"):
        MoleculeExplorer(model=3)
