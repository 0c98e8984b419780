"""Homework: assignments from exercises, and the grading of handed-in notebooks in confined processes."""
