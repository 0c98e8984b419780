"""Graph data sets: checks, splits, downloads, and synthetic graphs."""
