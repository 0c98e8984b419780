import dataclasses
import types
import warnings
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gib_nb
from gib_nb.chem.fragments import cut_fragment
from gib_nb.chem.properties import property_oracle
from gib_nb.chem.smiles import ATOM_FEATURES, molecule_to_data
from gib_nb.data.datasets import molecule_dataset
from gib_nb.data.spec import DataSpec
from gib_nb.data.synthetic import motif_dataset
from gib_nb.explain.metrics import edge_auc
from gib_nb.explain.molecule import (
    DRAWS,
    LARGEST_COMPARED,
    SHIPPED_MODELS,
    ModelCard,
    MoleculeExplanation,
    best_examples,
    explain_molecules,
    explain_smiles,
    model_card,
    model_fingerprint,
    oracle_for_dataset,
    random_biases,
    shipped_model,
    verdict,
)
from gib_nb.report.molecules import MOLECULE_COLUMNS, molecule_figure, molecule_row
from gib_nb.train.config import configure
from gib_nb.train.trainer import GIBTrainer

TINY = dict(
    hidden_channels=8, epochs=6, pretrain_epochs=1, rampup_epochs=1, num_steps=2, batch_size=24, lr=0.01, max_restarts=0
)


def fitted(data, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GIBTrainer(configure(**TINY | settings)).fit(data.train, valid=data.valid, progress=False)


@pytest.fixture(scope="module")
def chemist():
    return fitted(molecule_dataset(limit=60), epochs=20, beta=0.01)


# ---- scores


def test_edge_auc_equals_all_pairs():
    rng = np.random.default_rng(0)
    graphs = [Data(edge_mask=torch.tensor(truth)) for truth in ([1.0, 0, 1, 0, 0], [0.0, 1, 1], [1.0, 1], [0.0, 0])] + [
        Data(num_nodes=2)
    ]
    masks = [
        types.SimpleNamespace(edge_mask=torch.tensor(rng.integers(0, 4, 5 if i == 0 else 3 if i == 1 else 2) / 4))
        for i in range(5)
    ]
    truth, score = [np.concatenate([x[i].edge_mask.numpy() for i in (0, 1)]) for x in (graphs, masks)]
    pairs = [(a > b) + 0.5 * (a == b) for a in score[truth == 1] for b in score[truth == 0]]
    assert edge_auc(graphs, masks) == pytest.approx(np.mean(pairs))
    assert edge_auc(graphs[2:], masks[2:]) is None


def test_oracle_of_a_data_set():
    assert oracle_for_dataset("MUTAG") is None and oracle_for_dataset(None) is None
    assert oracle_for_dataset("molecules").name == "QED" and oracle_for_dataset("QED").name == "QED"


# ---- molecules


def test_explain_smiles_agrees_with_the_trainer(chemist):
    smiles = "CCN(CC)CC(=O)Nc1c(C)cccc1C"
    e = explain_smiles(smiles, chemist, "QED")
    graph = molecule_to_data(smiles)
    truth = chemist.explain(graph)
    assert e.weights == tuple(truth.node_mask.flatten().tolist()) and e.prediction == pytest.approx(
        chemist.predict([graph])[0]
    )
    assert e.components == truth.components and e.value == property_oracle("QED")(smiles)
    assert all(e.weights[i] > 0.5 for i in e.fragment.atoms) and e.fragment_fraction == len(e.fragment.atoms) / 17
    assert e.fragment_value is None or e.fragment_value == property_oracle("QED")(e.fragment.smiles)
    shown = e._repr_mimebundle_()
    assert (
        set(shown) == {"text/plain", "image/svg+xml", "image/png"}
        and shown["text/plain"] == str(e)
        and "xmlns" in e.svg()
    )
    assert "".join(smiles.split()) in "".join(
        text.text for text in ElementTree.fromstring(shown["image/svg+xml"]).iter("{http://www.w3.org/2000/svg}text")
    )
    assert len(str(e).splitlines()) >= 17 and "QED (exact)" in str(e)
    with pytest.raises(dataclasses.FrozenInstanceError):
        e.smiles = "C"


def test_threshold_and_empty_fragment(chemist):
    whole, none = (explain_smiles("CCO", chemist, "QED", threshold=t) for t in (0.0, 0.9999999))
    assert (
        whole.fragment.atoms == (0, 1, 2)
        and whole.fragment_fraction == 1
        and whole.fragment_value == pytest.approx(whole.value)
    )
    assert (
        none.fragment.smiles is None
        and none.fragment_value is None
        and none.fragment_fraction == 0
        and none.components == 0
    )
    assert "no atom is selected" in str(none) and "largest weight" in str(none) and "fragment -" in str(none)


def test_the_fragment_is_the_largest_piece():
    predictions = types.SimpleNamespace(
        node_mask=torch.tensor([0.9, 0.1, 0.8, 0.9, 0.2, 0.7]), prediction=torch.zeros(1, 1)
    )
    trainer = types.SimpleNamespace(
        spec=DataSpec("regression", 1, len(ATOM_FEATURES)),
        collapse=None,
        _fitted=lambda: torch.nn.Linear(1, 1),
        config=types.SimpleNamespace(threshold=0.5),
        apply=lambda graphs, whole: predictions,
    )
    (e,) = explain_molecules([molecule_to_data("CCOCCN")], trainer)
    assert e.components == 3 and e.fragment.atoms == (2, 3) and e.fragment.smiles == "CO" and e.oracle is None


@pytest.mark.parametrize("smiles", ["C1CC", "", "not a molecule", "<script>"])
def test_what_is_no_molecule(smiles, chemist):
    with pytest.raises(ValueError, match="expected"):
        explain_smiles(smiles, chemist)


def test_a_model_of_other_graphs_is_refused():
    with pytest.raises(ValueError, match=r"expected a model trained on molecules.*got one for 10 features"):
        explain_smiles("CCO", fitted(motif_dataset(60, base_nodes=5)))


def test_many_molecules_are_explained_as_each_alone(chemist):
    smiles = ["CCO", "c1ccccc1O", "CC(=O)[O-].[Na+]"]
    together = explain_molecules([molecule_to_data(one) for one in smiles], chemist)
    for e, one in zip(together, smiles):
        alone = explain_smiles(one, chemist)
        assert (
            e.smiles == one
            and e.fragment.atoms == alone.fragment.atoms
            and e.weights == pytest.approx(alone.weights, abs=1e-5)
        )
    assert explain_molecules([], chemist) == []


def test_text_stays_text():
    fragment = types.SimpleNamespace(smiles=None, atoms=(), reason="<script>", pattern=None)
    e = MoleculeExplanation("C", (0.2,), 0.5, 0, fragment, 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            MoleculeExplanation, "svg", lambda self: "<svg xmlns='a' xmlns:b=\"c\" id='d' width='300' height='200'/>"
        )
        picture = e._repr_mimebundle_()["image/svg+xml"]
        assert '<svg x="0" y="0" id=\'d\'' in picture and "&lt;script&gt;" in picture and "<script>" not in picture


# ---- one model per property

HEADLINE = "CCOC(=O)C1=C(COCCN)NC(C)=C(C(=O)OC)C1c1ccccc1Cl"  # amlodipine


def test_without_a_model_the_shipped_one_of_the_property_explains():
    for name in SHIPPED_MODELS:
        e, trainer = explain_smiles("CCOc1ccccc1N", property=name), shipped_model(name)
        assert (
            e.prediction == pytest.approx(trainer.predict([molecule_to_data("CCOc1ccccc1N")])[0])
            and e.oracle == property_oracle(name).label
        )
        assert e.model.shipped == name and e.model.fingerprint == model_fingerprint(trainer)
    assert explain_smiles("CCO").model.shipped == "QED" and explain_smiles("CCO").oracle.startswith("QED")
    by_oracle = explain_smiles("CCO", oracle="HLM")  # the property decides the model, too
    assert by_oracle.model.shipped == "HLM" and by_oracle.oracle.startswith("HLM")
    assert gib_nb.explain_smiles is explain_smiles


@pytest.mark.parametrize(
    "given, words",
    [
        ({"property": "logP"}, "expected one of QED"),
        ({"property": "QED", "oracle": "HLM"}, "expected values of the property that the model predicts, QED"),
        ({"property": "QED", "trainer": GIBTrainer()}, "got both"),
    ],
)
def test_a_property_without_its_model_is_refused(given, words):
    with pytest.raises(ValueError, match=words):
        explain_smiles("CCO", **given)


@pytest.mark.parametrize(
    "ask",
    [
        lambda trainer: explain_smiles("CCO", trainer),
        lambda trainer: explain_molecules([], trainer),
        model_fingerprint,
        model_card,
    ],
)
def test_an_untrained_model_is_refused(ask):
    with pytest.raises(ValueError, match="expected a trained model"):
        ask(GIBTrainer())


def test_command_function_explorer_and_lesson_give_one_answer(tmp_path, capsys):
    import html
    import json
    import pathlib

    from gib_nb import cli
    from gib_nb.explorers.molecule import MoleculeExplorer

    for name, smiles in (("QED", "CC(=O)Oc1ccccc1C(=O)O"), ("DRD2", "O=C(CCCN1CCC(O)(c2ccc(Cl)cc2)CC1)c1ccc(F)cc1")):
        e = explain_smiles(smiles, property=name)
        explorer = MoleculeExplorer(smiles=smiles, property=name)
        assert (
            str(explorer.explain()) == str(e)
            and explorer.explain().weights == e.weights
            and explorer.explain().random_biases == e.random_biases
        )
        assert (
            cli.main(
                ["explain", smiles, "--property", name.lower(), "--out", str(tmp_path / "page.html"), "--no-progress"]
            )
            == 0
        )
        assert capsys.readouterr().out == f"{e}\n"
        page = html.unescape((tmp_path / "page.html").read_text())
        assert str(e.model) in page and verdict(e) in page and e.fragment.smiles in page
        assert (
            e.model.name in html.unescape(explorer.panel_numbers())
            and verdict(e) in explorer.panel_numbers()
            and e.model.name in e.svg()
        )
        assert (
            cli.main(["explain", smiles, "--property", name, "--out", str(tmp_path / "row.csv"), "--no-progress"]) == 0
        )
        assert (tmp_path / "row.csv").read_text().strip().endswith(f",{e.model.fingerprint}")
        capsys.readouterr()
    lesson = json.loads((pathlib.Path(__file__).parents[1] / "nbs" / "lessons" / "08_molecules.ipynb").read_text())
    shown = [
        "".join(output["data"].get("text/plain", ""))
        for cell in lesson["cells"]
        for output in cell.get("outputs", [])
        if "data" in output
    ]
    assert str(explain_smiles("CC(=O)Oc1ccccc1C(=O)O")) in shown


def test_the_fingerprint_is_of_the_weights(chemist, tmp_path):
    mark = model_fingerprint(chemist)
    assert len(mark) == 8 and int(mark, 16) >= 0
    chemist.save(tmp_path)
    again = GIBTrainer.load(tmp_path)
    assert model_fingerprint(again) == mark and model_card(again).shipped is None
    with torch.no_grad():
        next(again.model.parameters()).view(-1)[0] += 1e-3
    assert model_fingerprint(again) != mark


def test_the_card_says_whose_model_it_is(chemist):
    shipped = model_card(shipped_model("MLM"))
    record = shipped_model("MLM").record
    assert shipped.score == record["predictions"]["model"]["r2"] and (shipped.bias, shipped.random_bias) == (
        record["fragments"]["bias"],
        record["fragments"]["random_bias"],
    )
    assert (
        "MLM model shipped" in str(shipped)
        and f"R² {shipped.score:.2f}" in str(shipped)
        and f"{shipped.random_bias:.3f}" in str(shipped)
    )
    own = model_card(chemist)
    assert (
        own.shipped is None
        and "a model trained here, fingerprint" in str(own)
        and "no score on test molecules" in str(own)
    )
    assert own.name in str(explain_smiles("CCO", chemist)) and "R²" not in str(own)


def test_a_shipped_model_that_was_changed_is_no_shipped_model():
    import copy

    changed = copy.deepcopy(shipped_model("QED"))
    with torch.no_grad():
        next(changed.model.parameters()).view(-1)[0] += 1
    assert model_card(changed).shipped is None and model_card(shipped_model("QED")).shipped == "QED"


# ---- what an explanation is worth


def test_random_biases_by_hand():
    "Propanol: two connected pairs of atoms are CC, one is CO; the share of oxygen is ¼, 0 and ½."
    from gib_nb.chem.properties import PropertyOracle

    share = PropertyOracle(
        "oxygen",
        "exact",
        "share",
        lambda molecules: [sum(a.GetSymbol() == "O" for a in m.GetAtoms()) / m.GetNumAtoms() for m in molecules],
    )
    assert set(random_biases("CCCO", 2, share)) == {0.25} and set(random_biases("CCCO", 4, share)) == {0.0}
    assert sorted(set(np.round(random_biases("CCCO", 3, share), 3))) == [0.083, 0.25]
    assert set(np.round(random_biases("CCO.[Na+]", 3, share), 6)) == {
        round(1 / 3 - 1 / 4, 6)
    }  # sodium alone is no piece of three
    first, again, other = (
        random_biases("CCN(CC)CC(=O)Nc1c(C)cccc1C", 8, property_oracle("QED"), seed=seed) for seed in (0, 0, 1)
    )
    assert first == again != other and len(first) == DRAWS


def explained(bias, biases, share=0.5, atoms=10):
    fragment = types.SimpleNamespace(smiles="C", atoms=tuple(range(int(share * atoms))), reason=None, pattern=None)
    e = MoleculeExplanation(
        "C" * atoms,
        (0.9,) * atoms,
        0.5,
        1,
        fragment,
        0.5,
        "QED (exact), drug likeness",
        0.5,
        None if bias is None else 0.5 + bias,
    )
    e.__dict__["random_biases"] = tuple(biases)
    return e


@pytest.mark.parametrize(
    "e, words",
    [
        (explained(0.1, [0.2] * 64), "closer to the molecule than all 64 random fragments"),
        (explained(0.1, [0.2] * 9 + [0.05]), "closer to the molecule than 9 of 10 random fragments"),
        (
            explained(0.1, [0.2] * 7 + [0.05] * 3),
            "hardly better than a random fragment of the same size (closer than 7 of 10)",
        ),
        (
            explained(0.1, [0.2] * 5 + [0.05] * 5),
            "no better than a random fragment of the same size (closer than 5 of 10)",
        ),
        (
            explained(0.1, [0.1] * 10),
            "no better than a random fragment of the same size (closer than 0 of 10)",
        ),  # a tie is no gain
        (explained(0.0, [], share=1), "the fragment is the whole molecule"),
        (explained(0.1, []), "not compared"),
    ],
)
def test_the_verdict_in_words(e, words):
    assert words in verdict(e) and words in str(e) and verdict(explained(None, [])) == ""


def test_a_molecule_kept_whole_and_a_huge_one_are_not_compared():
    whole = explain_smiles("CC(=O)Nc1ccc(O)cc1")
    assert (
        whole.fragment_fraction == 1
        and whole.bias == 0
        and whole.random_biases == ()
        and "nothing is explained" in str(whole)
    )
    huge = explain_smiles("C" * (LARGEST_COMPARED + 1), threshold=explain_smiles("C" * 20).threshold)
    assert huge.random_biases == ()


@pytest.mark.slow
def test_the_first_example_is_the_best_by_the_stated_figures():
    "Help, start page and the page on using the package show the drug that `best_examples` puts first, far enough from the threshold for any processor."
    import pathlib

    from gib_nb.chem.builtin import DRUGS
    from gib_nb.cli.explain import EPILOG
    from gib_nb.cli.main import FIRST_STEPS

    found = explain_molecules(
        [molecule_to_data(smiles) for smiles in DRUGS.values()], shipped_model("QED"), property_oracle("QED")
    )
    best = best_examples(found)
    assert best[0].smiles == HEADLINE == DRUGS["amlodipine"] and best[0].closer_than == 1 and best[0].bias < 0.01
    assert (
        all(e.components == 1 and e.fragment_fraction <= 2 / 3 for e in best)
        and best[-1].closer_than < 0.5 < 1 == best[0].closer_than
    )
    root = pathlib.Path(__file__).parents[1]
    for text in (
        EPILOG,
        FIRST_STEPS,
        *((root / page).read_text() for page in ("docs/using.md", "nbs/0_start_here.ipynb")),
    ):
        assert HEADLINE in text
    page, card = (root / "docs" / "using.md").read_text(), best[0].model
    for figure in (
        f"{len(best[0].fragment.atoms)} of the {len(best[0].weights)} atoms is closer than all {DRAWS} random fragments.",
        f"from that of their molecules as much ({card.bias:.3f})",
        f"the property of random fragments does ({card.random_bias:.3f})",
    ):
        assert figure in page


def test_molecules_are_explained_in_one_pass(monkeypatch):
    "Masks and predictions come from the same pass over the model; nothing is predicted a second time."
    trainer, passes = shipped_model("QED"), []
    explain = trainer.model.explain
    monkeypatch.setattr(trainer.model, "explain", lambda *arguments: passes.append(arguments) or explain(*arguments))
    monkeypatch.setattr(trainer.model, "forward", lambda *arguments: pytest.fail("a second pass"))
    found = explain_molecules([molecule_to_data(smiles) for smiles in ("CCO", "c1ccccc1", "CC(=O)N")], trainer)
    assert len(passes) == 1 and len(found) == 3


def test_all_components_of_a_subgraph_are_shown():
    "Of lidocaine: the ring with its methyl groups is the fragment; an ethyl group and an oxygen are selected besides."
    lidocaine, ring = "CCN(CC)CC(=O)Nc1c(C)cccc1C", range(9, 17)
    weights = tuple(float(atom in (0, 1, 7, *ring)) for atom in range(17))
    e = MoleculeExplanation(lidocaine, weights, 0.5, 3, cut_fragment(lidocaine, ring), 0.8, model=ModelCard("0" * 8))
    assert e.others == ("*CC", "*=O")
    assert "the largest of 3 connected components\n            also *CC\n            also *=O" in str(e)
    assert molecule_row(1, lidocaine, e, None)[MOLECULE_COLUMNS.index("others")] == "*CC.*=O"
    assert "also selected: *CC, *=O" in molecule_figure(e)
