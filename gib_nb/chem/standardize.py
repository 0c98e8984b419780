"""Standard forms of a molecule: parent, InChIKey, and scaffold"""

import functools

from .smiles import read_molecule

__all__ = ["standardize_molecule", "inchikey", "murcko_scaffold"]


@functools.cache
def _parent_steps():
    "RDKit's `LargestFragmentChooser`, which prefers organic fragments, and its `Uncharger`."
    from rdkit.Chem.MolStandardize import rdMolStandardize

    return rdMolStandardize.LargestFragmentChooser(True), rdMolStandardize.Uncharger()


def standardize_molecule(
    molecule,  # SMILES, or an RDKit Mol
):  # rdkit.Chem.Mol, as from `read_molecule`
    "The parent of a salt or solvate: its largest fragment, neutralized as far as adding or removing hydrogens can; tautomers are not changed."
    from rdkit import rdBase

    chooser, uncharger = _parent_steps()
    mol = read_molecule(molecule)
    with rdBase.BlockLogs():
        return read_molecule(uncharger.uncharge(chooser.choose(mol)))


def inchikey(
    molecule,  # SMILES, or an RDKit Mol
) -> str:
    "The standard InChIKey, the same for every way to write a molecule; the canonical SMILES if InChI cannot represent it, as with wildcard atoms."
    from rdkit import Chem, rdBase

    mol = read_molecule(molecule)
    with rdBase.BlockLogs():
        return Chem.MolToInchiKey(mol) or Chem.MolToSmiles(mol)


def murcko_scaffold(
    molecule,  # SMILES, or an RDKit Mol
) -> str:
    "SMILES of the Bemis–Murcko scaffold: rings and the chains between them, without stereochemistry; empty for a molecule without rings."
    from rdkit import rdBase
    from rdkit.Chem.Scaffolds import MurckoScaffold

    mol = read_molecule(molecule)
    if not mol.GetRingInfo().NumRings():
        return ""
    with rdBase.BlockLogs():
        return MurckoScaffold.MurckoScaffoldSmiles(mol=mol, includeChirality=False)
