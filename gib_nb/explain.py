from gib_nb.cli import _subgraph_numbers as subgraph_numbers, edge_auc, explain_molecules, explain_smiles, MoleculeExplanation, starter_model
