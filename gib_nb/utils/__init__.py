"""Utilities for all packages: random numbers and threads, files, drawings, names."""
