"Weights of atoms against contributions to logP that are known."

import gzip

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gib_nb.experiments.contributions import ATOMS, atom_effects, atoms_trial, correlations, crippen_contributions
from gib_nb.experiments.own_data import own_data
from gib_nb.train.recipes import recipe
from gib_nb.train.trainer import GIBTrainer

CHAINS = ["C" * n + end for n in range(1, 21) for end in ("O", "N", "F")]


@pytest.fixture
def root(tmp_path):
    "A folder of published data with a small table in place of the real one."
    (tmp_path / "moleculenet").mkdir()
    table = "\n".join(["smiles,logS", *(f"{smiles},{len(smiles)}" for smiles in CHAINS)])
    (tmp_path / "moleculenet" / "esol.csv.gz").write_bytes(gzip.compress(table.encode()))
    return tmp_path


@pytest.mark.parametrize("smiles", ["CCO", "c1ccncc1C(=O)NCCCl", "[NH3+]CC([O-])=O", "FC(F)(F)c1ccc(Br)cc1S(=O)(=O)N"])
def test_contributions_sum_to_the_log_p(smiles):
    from rdkit.Chem import Crippen, MolFromSmiles

    each = crippen_contributions(smiles)
    assert len(each) == MolFromSmiles(smiles).GetNumAtoms() and each.sum() == pytest.approx(
        Crippen.MolLogP(MolFromSmiles(smiles))
    )


def test_correlation_by_hand():
    "Ranks of weights against those of contributions, molecule by molecule; two atoms say nothing."
    of = lambda *values: Data(contributions=torch.tensor(values))
    graphs = [of(-3.0, 1, 2), of(0.1, -0.2, 0.3), of(1.0, 2)]
    weights = [np.array([0.9, 0.1, 0.5]), np.array([3.0, 2, 1]), np.array([0.0, 1])]
    assert correlations(weights, graphs) == {"spearman": pytest.approx((1 - 1) / 2)}
    signed = correlations([np.array([-9.0, 1, 5]), np.array([1.0, 0, 2]), np.zeros(2)], graphs, signed=True)
    assert signed == {"spearman": pytest.approx((1 + 0.5) / 2), "signed": pytest.approx(1.0)}
    assert correlations([np.ones(3)], [of(1.0, 2, 3)]) == {"spearman": 0}


def test_effects_are_differences_of_predictions(root):
    "Against one atom after the other, closed by hand."
    data = own_data("ESOL", 0, root)
    settings = ATOMS | dict(epochs=3, hidden_channels=8, max_restarts=0)
    trainer = GIBTrainer(recipe("molecules", **settings)).fit(data.train, valid=data.valid, progress=False)
    graph, model = data.test[0], trainer.model
    edges = {"edge_attr": graph.edge_attr}
    with torch.no_grad():
        _, p, mask = model.mask(graph.x, graph.edge_index, **edges)

    def predicted(closed=None):
        kept, between = p.clone(), mask.clone()
        if closed is not None:
            kept[closed] = 0
            between[(graph.edge_index == closed).any(0)] = 0
        zeros = torch.zeros(graph.num_nodes, dtype=torch.long)
        with torch.no_grad():
            found = model.predict_graph(graph.x, graph.edge_index, zeros, 1, between, kept, **edges)
        return float(trainer.spec.outcomes(found)[0, 0])

    by_hand = [predicted() - predicted(atom) for atom in range(graph.num_nodes)]
    assert max(map(abs, by_hand)) > 1e-4
    np.testing.assert_allclose(atom_effects(trainer, graph), by_hand, atol=1e-5)
    assert predicted() == pytest.approx(float(trainer.predict([graph])[0]), abs=1e-5)


@pytest.mark.slow
def test_atoms_are_explained_by_every_method(root):
    pytest.importorskip("captum")
    found = atoms_trial("ESOL", 0, 4, 3, root, hidden_channels=8, max_restarts=0)
    methods = ("GIB, mask", "GIB, effect", "random", "integrated gradients", "GNNExplainer")
    assert set(methods) <= set(found) and found["graphs"] == 4
    assert all(-1 <= found[name]["spearman"] <= 1 for name in methods)
    assert "signed" in found["GIB, effect"] and "signed" not in found["GIB, mask"]
