"""Mutagens as molecules, and how well masks find the groups that make them mutagenic."""

import numpy as np
import pytest

from gib_nb.chem.smiles import read_molecule
from gib_nb.experiments import toxicophores
from gib_nb.experiments.toxicophores import (
    TOXICOPHORES,
    group_aucs,
    group_table,
    groups_of,
    molecule_of,
    mutagens,
    report,
)
from gib_nb.utils.migrate import migrate


@pytest.mark.parametrize("smiles", ["CCO", "C[N+](=O)[O-]", "c1ccccc1N", "C#N", "[Na+].[Cl-]", "CS(=O)(=O)C"])
def test_a_molecule_survives_being_written_as_a_graph(smiles):
    from rdkit import Chem

    mol = Chem.AddHs(read_molecule(smiles))
    Chem.Kekulize(mol, clearAromaticFlags=True)
    bonds = [(b.GetBeginAtomIdx(), b.GetEndAtomIdx(), b.GetBondTypeAsDouble()) for b in mol.GetBonds()]
    assert molecule_of([atom.GetSymbol() for atom in mol.GetAtoms()], bonds) == Chem.CanonSmiles(smiles)


def test_rdkit_prints_nothing_for_a_hydrogen_that_is_bound_to_nothing(capfd):
    assert molecule_of(["C", *"HHHHH"], [(0, i, 1) for i in range(1, 5)]) == "C.[H]"
    assert capfd.readouterr().err == ""


def test_groups_and_molecules_with_one_of_them():
    assert set(groups_of("O=NN1CCOCC1")) == {"nitroso"} and set(groups_of("c1ccccc1N=Nc1ccccc1")) == {"azo"}
    both = "Nc1ccc([N+](=O)[O-])cc1"
    found = group_aucs([both, "CCCBr"], [np.zeros(10), [0.1, 0.2, 0.3, 0.9]])
    assert found["nitro"] == found["aromatic amine"] == [] and found["alkyl halide"] == [1.0]
    assert set(found) == set(TOXICOPHORES)


def test_molecules_of_all_seeds_are_pooled():
    row = lambda auc, molecules: {
        "method": "robust",
        "groups": {"nitro": {"auc": auc, "molecules": molecules}},
        "accuracy": 0.8,
        "empty_fraction": 0,
        "selected_fraction": 0.3,
    }
    rows = [row(1.0, 3), row(0.6, 1)]
    assert group_table(rows, "robust") == {"nitro": (pytest.approx(0.9), 4)}
    assert [line.split() for line in report(rows).splitlines() if "nitro " in line] == [["nitro", "0.900", "4"]]


def test_all_mutagens_are_molecules(data_root):
    smiles, labels = mutagens(data_root)
    assert len(set(smiles)) == 4337 and labels.sum() == 2401


@pytest.mark.parametrize("method", ["gib", toxicophores.LESS_CONNECTED])
def test_one_trial_on_a_few_molecules(monkeypatch, method):
    groups = ["[N+](=O)[O-]", "N", "Br", "O"]
    smiles = [f"{'C' * n}c1ccc({group})cc1" for n in range(1, 16) for group in groups]
    labels = np.array([int(group == groups[0]) for _ in range(15) for group in groups])
    monkeypatch.setattr(toxicophores, "mutagens", lambda root: (smiles, labels))
    row = toxicophores.toxicophores_trial(method=method, epochs=9, hidden_channels=8, max_restarts=0)
    assert set(row["groups"]) == {"nitro"} and 0 <= row["groups"]["nitro"]["auc"] <= 1
    assert 0 <= row["empty_fraction"] <= 1 and 0 <= row["selected_fraction"] <= 1
    assert migrate(row) == row
