"""The program `gib-nb`: one module for each command, and nothing heavy until a command runs."""

from gib_nb.cli.main import main as main
