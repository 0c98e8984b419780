"""Molecules: SMILES, fragments, properties, and drawings."""
