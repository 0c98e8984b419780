"""The program `gib-nb`: parser, warnings, errors, and exit codes."""

import argparse
import contextlib
import csv
import os
import shlex
import sys
import warnings

from gib_nb.cli import app, audit, course, explain, predict, reproduce, sweep, train
from gib_nb.cli.common import CHECKPOINT, PLAIN, Parser

WELCOME = "Find the part of a graph that determines its label, with a graph information bottleneck."
FIRST_STEPS = """first steps, without an internet connection:
  gib-nb train motif                          trees with a house or a ring; about a minute
  gib-nb explain "CCOC(=O)C1=C(COCCN)NC(C)=C(C(=O)OC)C1c1ccccc1Cl"
                                              from which atoms of amlodipine is its drug-likeness predicted?

your own molecules:
  gib-nb train activity.csv                   a model, a comparison with baselines, and a report
  gib-nb predict library.csv --model RUN      predictions for other molecules; RUN is the result folder of gib-nb train
  gib-nb explain library.csv --model RUN      the atoms that each prediction depends on
  gib-nb app --model RUN                      the same in a browser, for any molecule that you type

next steps:
  gib-nb train MUTAG --folds                  ten-fold cross-validation
  gib-nb train QED --max-graphs 5000 --epochs 30   a first look at a large set of molecules
  gib-nb sweep motif --beta 0 0.1 1           every combination of settings
  gib-nb audit RUN                            do the predictions depend on what the mask selects?
  gib-nb course export homework --lessons 1   exercises as homework; gib-nb course grade homework grades a class
  gib-nb COMMAND --help                       all options of a command
"""


def build_parser() -> argparse.ArgumentParser:
    "The parser of `gib-nb`; making it loads no large library."
    from gib_nb import __version__

    parser = Parser(prog="gib-nb", description=WELCOME, epilog=FIRST_STEPS, **PLAIN)
    parser.add_argument("--version", action="version", version=f"gib-nb {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    for module in (train, predict, explain, audit, sweep, app, reproduce, course):
        for command in module.add_parser(commands):
            command.add_argument("--no-progress", dest="progress", action="store_false", help="do not show progress")
            command.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def main(
    argv: list | None = None,  # arguments; None: those of the process
) -> int:  # 0 done, 1 error, 2 wrong use, 130 interrupted
    "The program `gib-nb`. An error is one line on the standard error; --debug shows the traceback."
    argv = sys.argv[1:] if argv is None else list(argv)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):  # a notebook's streams have no encoding that could be set
            stream.reconfigure(errors="replace")
    parser = build_parser()
    try:
        args = parser.parse_args(argv)
    except SystemExit as stop:
        return stop.code
    if args.command is None:
        parser.print_help()
        return 2
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *rest, **more: print(f"gib-nb: warning: {message}", file=sys.stderr)
        return _run(args, argv)


def _run(args, argv) -> int:
    "Run a command; errors that a user can correct are printed on one line."
    try:
        return args.run(args)
    except KeyboardInterrupt:
        print(f"\ninterrupted{_resume_words(args, argv)}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the program that reads our output, such as head, has stopped
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (argparse.ArgumentTypeError, ValueError, OSError, csv.Error) as error:
        if args.debug:
            raise
        wrong_use = isinstance(error, argparse.ArgumentTypeError)
        hint = f" (see gib-nb {args.command} --help)" if wrong_use else ""
        print(f"gib-nb {args.command}: {' '.join(str(error).split())}{hint}", file=sys.stderr)
        return 2 if wrong_use else 1


def _resume_words(args, argv) -> str:
    "How to continue an interrupted run, if it has written anything."
    if args.command in ("sweep", "reproduce") or str(getattr(args, "out", "")).endswith(".parquet"):
        return "; finished work is kept, and the same command continues"
    folder = getattr(args, "folder", None)
    if folder is None or not (any(folder.glob(f"**/{CHECKPOINT}")) or any(folder.glob("fold-*"))):
        return "; nothing was kept"
    again = [word for word in argv if word not in ("--resume", "--force")]
    return f"; continue with: {shlex.join(['gib-nb', *again, *([] if args.out else ['--out', str(folder)])])}"
