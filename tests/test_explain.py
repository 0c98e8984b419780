import dataclasses
import types
import warnings
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gib_nb
from gib_nb import explain
from gib_nb.data import motif_dataset
from gib_nb.molecules import ATOM_FEATURES, molecule_dataset, molecule_to_data, property_oracle
from gib_nb.trainer import GIBConfig, GIBTrainer

TINY = dict(hidden_channels=8, epochs=6, warmup=1, ramp=1, inner_steps=2, batch_size=24, learning_rate=.01, restarts=0)


def fitted(data, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GIBTrainer(GIBConfig(**TINY | settings)).fit(data.train, data.valid, progress=False)


@pytest.fixture(scope="module")
def chemist():
    return fitted(molecule_dataset(limit=60), epochs=20, beta=.01)


# ---- scores

def test_edge_auc_equals_all_pairs():
    rng = np.random.default_rng(0)
    graphs = [Data(edge_mask=torch.tensor(truth)) for truth in ([1., 0, 1, 0, 0], [0., 1, 1], [1., 1], [0., 0])] + [Data(num_nodes=2)]
    masks = [types.SimpleNamespace(edge_mask=torch.tensor(rng.integers(0, 4, 5 if i == 0 else 3 if i == 1 else 2) / 4)) for i in range(5)]
    truth, score = [np.concatenate([x[i].edge_mask.numpy() for i in (0, 1)]) for x in (graphs, masks)]
    pairs = [(a > b) + .5 * (a == b) for a in score[truth == 1] for b in score[truth == 0]]
    assert explain.edge_auc(graphs, masks) == pytest.approx(np.mean(pairs))
    assert explain.edge_auc(graphs[2:], masks[2:]) is None


def test_subgraph_numbers_by_hand():
    whole = lambda selected, pieces, p: types.SimpleNamespace(num_nodes=len(selected), selected=torch.tensor(selected), components=pieces,
                                                              node_mask=torch.tensor(p)[:, None], edge_mask=torch.tensor([.9, .2]))
    explanations = [whole([True, False, True], 2, [.8, .1, .6]), whole([False, False], 0, [.2, .3]), whole([True], 1, [1.])]
    graphs = [Data(node_mask=torch.tensor([1., 0, 0]), edge_mask=torch.tensor([1., 0])), Data(node_mask=torch.tensor([1., 1])), Data(num_nodes=1)]
    found = explain.subgraph_numbers(graphs, explanations, .5)
    assert found == pytest.approx({"graphs": 3, "threshold": .5, "nodes_kept": 3 / 6, "mean_probability": 3 / 6, "pieces": 1., "one_piece": 1 / 3,
                                   "empty": 1 / 3, "true_nodes": (1 / 3 + 1) / 2, "edge_auc": 1.})
    assert all(type(value) in (int, float) for value in found.values())
    unknown = explain.subgraph_numbers(graphs[2:], explanations[2:], .5)
    assert unknown["true_nodes"] is None and unknown["edge_auc"] is None


def test_oracle_of_a_data_set():
    assert explain.oracle_of("MUTAG") is None and explain.oracle_of(None) is None
    assert explain.oracle_of("molecules").name == "QED" and explain.oracle_of("QED").name == "QED"


# ---- molecules

def test_explain_smiles_agrees_with_the_trainer(chemist):
    smiles = "CCN(CC)CC(=O)Nc1c(C)cccc1C"
    e = explain.explain_smiles(smiles, chemist, "QED")
    graph = molecule_to_data(smiles)
    truth = chemist.subgraph(graph)
    assert e.weights == tuple(truth.node_mask.flatten().tolist()) and e.prediction == pytest.approx(chemist.predict([graph])[0])
    assert e.pieces == truth.components and e.value == property_oracle("QED")(smiles)
    assert all(e.weights[i] > .5 for i in e.fragment.atoms) and e.share == len(e.fragment.atoms) / 17
    assert e.fragment_value is None or e.fragment_value == property_oracle("QED")(e.fragment.smiles)
    shown = e._repr_mimebundle_()
    assert set(shown) == {"text/plain", "image/svg+xml", "image/png"} and shown["text/plain"] == str(e) and "xmlns" in e.svg()
    assert "".join(smiles.split()) in "".join(text.text for text in ElementTree.fromstring(shown["image/svg+xml"]).iter("{http://www.w3.org/2000/svg}text"))
    assert len(str(e).splitlines()) >= 17 and "QED (exact)" in str(e)
    with pytest.raises(dataclasses.FrozenInstanceError):
        e.smiles = "C"


def test_threshold_and_empty_fragment(chemist):
    whole, none = (explain.explain_smiles("CCO", chemist, "QED", threshold=t) for t in (0., .9999999))
    assert whole.fragment.atoms == (0, 1, 2) and whole.share == 1 and whole.fragment_value == pytest.approx(whole.value)
    assert none.fragment.smiles is None and none.fragment_value is None and none.share == 0 and none.pieces == 0
    assert "no atom is selected" in str(none) and "largest weight" in str(none) and "fragment -" in str(none)


def test_the_fragment_is_the_largest_piece():
    trainer = types.SimpleNamespace(
        form=None, config=types.SimpleNamespace(threshold=.5), predict=lambda graphs: np.zeros(len(graphs)),
        subgraph=lambda graphs: [types.SimpleNamespace(node_mask=torch.tensor([[.9], [.1], [.8], [.9], [.2], [.7]]))])
    (e,) = explain.explain_molecules([molecule_to_data("CCOCCN")], trainer)
    assert e.pieces == 3 and e.fragment.atoms == (2, 3) and e.fragment.smiles == "CO" and e.oracle is None


@pytest.mark.parametrize("smiles", ["C1CC", "", "not a molecule", "<script>"])
def test_what_is_no_molecule(smiles, chemist):
    with pytest.raises(ValueError, match="expected"):
        explain.explain_smiles(smiles, chemist)


def test_a_model_of_other_graphs_is_refused():
    with pytest.raises(ValueError, match=r"expected a model trained on molecules.*got one for 10 features"):
        explain.explain_smiles("CCO", fitted(motif_dataset(60, base_nodes=5)))


def test_many_molecules_are_explained_as_each_alone(chemist):
    smiles = ["CCO", "c1ccccc1O", "CC(=O)[O-].[Na+]"]
    together = explain.explain_molecules([molecule_to_data(one) for one in smiles], chemist)
    for e, one in zip(together, smiles):
        alone = explain.explain_smiles(one, chemist)
        assert e.smiles == one and e.fragment.atoms == alone.fragment.atoms and e.weights == pytest.approx(alone.weights, abs=1e-5)
    assert explain.explain_molecules([], chemist) == []


def test_text_stays_text():
    fragment = types.SimpleNamespace(smiles=None, atoms=(), reason="<script>")
    e = explain.MoleculeExplanation("C", (.2,), .5, 0, fragment, 1.)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explain.MoleculeExplanation, "svg", lambda self: "<svg xmlns='a' xmlns:b=\"c\" id='d' width='300' height='200'/>")
        picture = e._repr_mimebundle_()["image/svg+xml"]
        assert "<svg x=\"0\" y=\"0\" id='d'" in picture and "&lt;script&gt;" in picture and "<script>" not in picture


# ---- the starter model

def test_without_a_model_the_starter_and_its_property_are_used(chemist, monkeypatch):
    monkeypatch.setattr(explain, "starter_model", lambda: chemist)
    assert explain.explain_smiles("CCO").oracle.startswith("QED") and explain.explain_smiles("CCO", oracle="HLM").oracle.startswith("HLM")
    assert gib_nb.explain_smiles is explain.explain_smiles


def test_starter_model_is_trained_once(tmp_path, monkeypatch):
    monkeypatch.setattr("gib_nb.data.cache_folder", lambda: tmp_path)
    make, settings = explain.starter_model.__wrapped__, dict(progress=False, molecules=40, **TINY)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = make(**settings)
        (folder,) = (tmp_path / "models").iterdir()
        (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:500])  # cut off: made again
        make(**settings)
        monkeypatch.setattr(GIBTrainer, "fit", lambda *a, **k: pytest.fail("trained again"))
        second = make(**settings)
    assert all(torch.equal(a, b) for a, b in zip(first.model.state_dict().values(), second.model.state_dict().values()))
    assert second.form.in_channels == len(ATOM_FEATURES)


def test_starter_model_without_a_place_to_keep_it(tmp_path, monkeypatch):
    (tmp_path / "models").write_text("a file where a folder should be")
    monkeypatch.setattr("gib_nb.data.cache_folder", lambda: tmp_path)
    with pytest.warns(UserWarning, match="could not be kept"):
        trainer = explain.starter_model.__wrapped__(progress=False, molecules=40, **TINY)
    assert trainer.model is not None
