"""The program `gib-nb`: one module for each command; large libraries are loaded only when a command runs."""

from gib_nb.cli.main import main as main
