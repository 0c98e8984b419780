"""`gib-nb explain --predictor`: the fragments that are best for a function of molecules."""

import argparse
import csv
import importlib
import importlib.util
import os
import pathlib
import sys

from gib_nb.cli.common import Tally, count, output, report_progress, report_skipped
from gib_nb.data.records import MOLECULE_FILES, Rejected, numbered_molecules
from gib_nb.report.rationales import RATIONALE_COLUMNS, rationale_rows, rationales_html

GOALS = ("same", "high", "low")  # those of `gib_nb.chem.rationales`
# options of the command that apply only here → how to read the value (None: a switch), and help
OPTIONS = {
    "top": (count, "number of fragments per molecule (default: 5)"),
    "goal": (str, "same: close to the value of the molecule; high or low: as high or low as possible (default: same)"),
    "max_atoms": (count, "largest number of atoms of a fragment (default: half of those of the molecule)"),
    "open_rings": (None, "also cut rings that are not aromatic"),
    "budget": (count, "predict at most N distinct fragments of a molecule (default: 2000)"),
}
ONLY_MODELS = ("model", "property", "threshold", "jobs", "dask")  # options that do not apply here


def add_options(parser):
    "Add --predictor and the options that apply only with it."
    group = parser.add_argument_group("fragments for a function of molecules")
    group.add_argument(
        "--predictor",
        metavar="MODULE:FUNCTION",
        help="a function from a list of SMILES to one number each, in an importable module or in a .py file; list the "
        "connected fragments that are best for it",
    )
    for name, (read, text) in OPTIONS.items():
        how = dict(action="store_true", default=None) if read is None else dict(type=read, metavar="N")
        how |= dict(choices=GOALS, metavar="GOAL") if name == "goal" else {}
        group.add_argument("--" + name.replace("_", "-"), help=text, **how)


def check_options(args):
    "ArgumentTypeError for options that do not fit together."
    unused = OPTIONS if args.predictor is None else ONLY_MODELS
    for name in unused:
        if getattr(args, name) is not None:
            with_or_without = "with" if args.predictor is None else "without"
            raise argparse.ArgumentTypeError(f"expected --{name.replace('_', '-')} only {with_or_without} --predictor")
    if args.predictor and args.out and pathlib.Path(args.out).suffix.lower() not in (".csv", ".html"):
        raise argparse.ArgumentTypeError(
            f"expected --out with the ending .csv or .html with --predictor (got {args.out})"
        )


def load_predictor(name: str):
    "The function that MODULE:FUNCTION or FILE.py:FUNCTION names; ArgumentTypeError if there is none."
    place, _, function = name.rpartition(":")
    if not place:
        raise argparse.ArgumentTypeError(f"expected --predictor MODULE:FUNCTION or FILE.py:FUNCTION (got {name})")
    try:
        if place.endswith(".py"):
            spec = importlib.util.spec_from_file_location(pathlib.Path(place).stem, place)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            sys.path.insert(0, os.getcwd())
            module = importlib.import_module(place)
        found = getattr(module, function)
    except (ImportError, FileNotFoundError, AttributeError) as error:
        raise argparse.ArgumentTypeError(f"expected a function for --predictor {name} ({error})") from None
    if not callable(found):
        raise argparse.ArgumentTypeError(f"expected a function for --predictor {name} (got {type(found).__name__})")
    return found


def explain_with_predictor(args) -> int:
    "List the fragments for one SMILES, or for all molecules of a file; returns the exit code."
    from tqdm.auto import tqdm

    from gib_nb.chem.rationales import rationales

    f = load_predictor(args.predictor)
    settings = {name: getattr(args, name) for name in OPTIONS if getattr(args, name) is not None}
    if args.smiles.lower().endswith(MOLECULE_FILES):
        records = numbered_molecules(args.smiles, args.smiles_column)
        records = tqdm(records, desc="molecules", unit="", disable=not args.progress)
        tally = Tally((line, str(smiles), *search(smiles, f, settings)) for line, smiles in records)
        write(args, tally)
        report_skipped(args.smiles, tally.explained, tally.total, tally.why())
        return 0
    found = rationales(args.smiles, f, **settings)
    print(found)
    if args.out:
        write(args, [(1, args.smiles, found, None)])
    return 0


def search(smiles: str | Rejected, f, settings: dict) -> tuple:
    "The fragments of a molecule and None, or None and the reason."
    from gib_nb.chem.rationales import rationales

    if isinstance(smiles, Rejected):
        return None, smiles.reason
    try:
        return rationales(smiles, f, **settings), None
    except ValueError as error:
        return None, str(error) if smiles.strip() else "empty line"


def write(args, found):
    "Write a table or a page, or print the table."
    with output(args.out) as file:
        if args.out and pathlib.Path(args.out).suffix.lower() == ".html":
            file.write(rationales_html(args.predictor, found))
        else:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(RATIONALE_COLUMNS)
            for record in found:
                writer.writerows(rationale_rows(*record))
    if args.out:
        report_progress(f"wrote {args.out}", args)
