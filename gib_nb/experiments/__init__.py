"""Sweeps, and the experiments whose tables the package reports."""
