"""Graph data sets: checks, splits, downloads, and graphs made here."""
