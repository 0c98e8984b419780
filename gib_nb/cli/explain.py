"""`gib-nb explain`: the atoms that carry a predicted property, for one molecule or a file of them, or the nodes of graphs."""

import argparse
import csv
import os
import pathlib

from gib_nb.cli import explain_predictor
from gib_nb.cli.common import (
    PLAIN,
    Tally,
    add_renamed,
    add_worker_options,
    output,
    probability,
    report_progress,
    report_skipped,
    workers,
)
from gib_nb.cli.explain_graphs import explain_graphs, holds_graphs
from gib_nb.data.records import FILES, MOLECULE_FILES, numbered_molecules, smiles_column
from gib_nb.experiments.screening import explain_records
from gib_nb.explain.molecule import SHIPPED_MODELS, explain_smiles, load_run, oracle_for_dataset, shipped_model
from gib_nb.report.evaluate import COLUMNS
from gib_nb.report.molecules import MOLECULE_COLUMNS, explanations_html, molecule_row
from gib_nb.report.run import all_warnings

EPILOG = (
    """A file is a list of SMILES (.smi, .smiles, .txt: the first word of each line) or a table (.csv, .tsv, .tab,
separated by , ; tab or |), an SDF (.sdf), or a Parquet table (.parquet). It may be compressed, with .gz at the end. The
column with the SMILES is found by its name, such as smiles, or by its values. If neither is clear, the command stops
and asks for --smiles. For an SDF, the column line holds the number of the record.
--jobs and --dask apply only to --out FILE.parquet.

Without --out, the results for a file are printed as CSV, with these columns:
"""
    + "\n".join(f"  {name:<18} {COLUMNS[name].help}" for name in MOLECULE_COLUMNS)
    + """
For a line that is not a molecule, only the reason is filled in. If no line is a molecule, the exit code is 1.

Without --model, the model that the package contains for the property is used, as in the lessons and explorers. The
printed text and the HTML page say how well the model predicts test molecules, and whether the property of the
fragment is closer to that of the molecule than the property of random connected fragments of the same size.

With --predictor FILE.py:FUNCTION no model of this package is needed. The function gets a list of SMILES and returns
one number for each. If a molecule has at most --budget connected fragments, all of them are scored, so that no better
one exists; the column exact says so. Rings stay whole, and hydrogens take the place of bonds that were cut.

Graphs are read from a .pt file with a list of torch_geometric Data, or a folder of such files, as in gib-nb train.
Each row lists the numbers of the selected nodes and edges. Without --model, a model is first trained on the labels.

examples:
  gib-nb explain "CCOC(=O)C1=C(COCCN)NC(C)=C(C(=O)OC)C1c1ccccc1Cl"
  gib-nb explain "O=C(CCCN1CCC(O)(c2ccc(Cl)cc2)CC1)c1ccc(F)cc1" --property MLM
  gib-nb explain "CCN(CC)CC(=O)Nc1c(C)cccc1C" --out lidocaine.svg
  gib-nb explain library.smi --model runs/QED-20260101-120000 --out library.csv
  gib-nb explain library.smi.gz --out library.parquet --jobs -1
  gib-nb explain graphs.pt --out graphs.html
  gib-nb explain library.csv --predictor forest.py:probability --goal high --out fragments.html
"""
)


def add_parser(commands) -> list:
    "Add the command, and return its parser in a list."
    parser = commands.add_parser(
        "explain",
        help="show which atoms of molecules, or nodes of graphs, a prediction depends on",
        epilog=EPILOG,
        usage="gib-nb explain SMILES|FILE|GRAPHS [options]",
        description="Show which atoms of molecules, or nodes of graphs, a prediction depends on.",
        **PLAIN,
    )
    parser.add_argument(
        "smiles",
        metavar="SMILES|FILE|GRAPHS",
        help="a molecule in quotes, a file with one molecule per line, or a .pt file of graphs, see below",
    )
    parser.add_argument(
        "--smiles",
        dest="smiles_column",
        metavar="COLUMN",
        help="column of a file that holds the SMILES, by its name or by its number from 1 "
        "(default: detected from names and values)",
    )
    parser.add_argument(
        "--model",
        metavar="RUN",
        help="result folder of gib-nb train on molecules, or on graphs (default: a shipped model)",
    )
    parser.add_argument(
        "--property",
        type=str.upper,
        choices=SHIPPED_MODELS,
        metavar="NAME",
        help=f"property of the shipped model: {', '.join(SHIPPED_MODELS)} (default: {SHIPPED_MODELS[0]})",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="for a molecule: also write a picture or page (.svg, .html) or a table (.csv); for a "
        "file: write .csv, .html, or .parquet, which can be interrupted and continued",
    )
    parser.add_argument(
        "--threshold",
        type=probability,
        metavar="X",
        help="atoms with a probability above X are in the subgraph (default: the threshold of the model)",
    )
    add_worker_options(parser)
    explain_predictor.add_options(parser)
    add_renamed(parser, {"--smiles-column": "--smiles"})
    parser.set_defaults(run=explain_command)
    return [parser]


def explain_command(args) -> int:
    "Explain one SMILES, or all molecules or graphs of a file; returns the exit code."
    explain_predictor.check_options(args)
    if holds_graphs(args.smiles):
        return explain_graphs(args)
    suffix = pathlib.Path(args.out).suffix.lower() if args.out else None
    many = args.smiles.lower().endswith(MOLECULE_FILES)
    last = ".parquet" if many else ".svg"
    if suffix not in (None, ".csv", ".html", last):
        raise argparse.ArgumentTypeError(f"expected --out with the ending .csv, .html, or {last} (got {args.out})")
    if args.smiles_column is not None and not many:
        raise argparse.ArgumentTypeError(f"expected a file for --smiles (got the SMILES {args.smiles})")
    (check_file if many else check_smiles)(args)  # before a model is loaded in vain
    if args.predictor:
        return explain_predictor.explain_with_predictor(args)
    explain = screen_file if suffix == ".parquet" else explain_file if many else explain_one
    return explain(args, suffix, *load_model(args))


def load_model(args) -> tuple:
    """The trainer and the property oracle that an explanation needs.

    The record of a model from a folder holds its location and its scores."""
    if args.model is None:
        name = args.property or SHIPPED_MODELS[0]
        return shipped_model(name), oracle_for_dataset(name)
    if args.property is not None:
        raise argparse.ArgumentTypeError(
            f"expected --model or --property, which names a shipped model (got both: {args.model} and {args.property})"
        )
    trainer = load_run(args.model)
    metrics = trainer.record["metrics"]
    for text in run_warnings(trainer):
        report_progress(f"warning from the training of this model: {text}", args)
    return trainer, oracle_for_dataset(metrics["data"]["name"] if metrics else None)


def run_warnings(trainer) -> list[str]:
    "The warnings of the training run of a model from a result folder."
    return all_warnings(trainer.record.get("metrics", {}))


def check_smiles(args):
    "ValueError for a text that is not a molecule, or for a file of another format."
    from gib_nb.chem.smiles import read_molecule

    if os.path.isfile(args.smiles):
        endings = ", ".join(ending for ending in MOLECULE_FILES if not ending.endswith(".gz"))
        raise ValueError(
            f"expected a file ending in {endings}, or one of these with .gz at the end (got {args.smiles}); "
            "export its molecules to such a file, or rename it if it is one"
        )
    try:
        read_molecule(args.smiles)
    except ValueError as error:
        also = "that is a folder" if os.path.isdir(args.smiles) else "there is no file with this name either"
        raise ValueError(f"{error}; {also}") from None


def check_file(args):
    "Report which column of a file holds the SMILES; ValueError if this is unclear, or for a file without records."
    if not os.path.isfile(args.smiles):
        raise FileNotFoundError(f"expected a SMILES or a file (got {args.smiles}, which does not exist)")
    records = numbered_molecules(args.smiles, args.smiles_column)
    if not args.smiles.lower().endswith(FILES):
        return  # SDF and Parquet are checked as they are read
    found = smiles_column(args.smiles, args.smiles_column)
    if next(records, None) is None:
        content = "has only the names of its columns" if found.heading else "is empty"
        raise ValueError(f"expected a file with at least one molecule (got {args.smiles}, which {content})")
    heading = ", below the names in the first line" if found.heading else ""
    report_progress(f"SMILES in column {found.name}{heading}", args)


def explain_one(args, suffix, trainer, oracle) -> int:
    "Print the explanation of one molecule, and write the file that was requested."
    e = explain_smiles(args.smiles, trainer, oracle, args.threshold)
    print(e)
    if args.out:
        with output(args.out) as file:
            if suffix == ".csv":
                csv.writer(file).writerows([MOLECULE_COLUMNS, molecule_row(1, e.smiles, e, e.fragment.reason)])
            else:
                one = [(1, e.smiles, e, e.fragment.reason)]
                file.write(e.svg() if suffix == ".svg" else explanations_html(one, run_warnings(trainer)))
        report_progress(f"wrote {args.out}", args)
    return 0


def explain_file(args, suffix, trainer, oracle) -> int:
    "Write a table or a page of all molecules of a file, or print the table."
    from tqdm.auto import tqdm

    records = numbered_molecules(args.smiles, args.smiles_column)
    records = tqdm(records, desc="molecules", unit="", disable=not args.progress)
    tally = Tally(explain_records(records, trainer, oracle if suffix == ".html" else None, args.threshold))
    with output(args.out) as file:
        if suffix == ".html":
            file.write(explanations_html(tally, run_warnings(trainer)))
        else:
            writer = csv.writer(file)
            writer.writerow(MOLECULE_COLUMNS)
            writer.writerows(molecule_row(*record) for record in tally)
    if args.out:
        report_progress(f"wrote {args.out}", args)
    report_skipped(args.smiles, tally.explained, tally.total, tally.why())
    return 0


def screen_file(args, suffix, trainer, oracle) -> int:
    "Write a Parquet table of all molecules of a file, in several processes."
    from gib_nb.experiments.screening import screen

    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise OSError("expected pyarrow for .parquet; install it with: pip install 'gib-nb[screen]'") from None
    with workers(args):
        found = screen(
            args.smiles, args.out, trainer, args.threshold, args.jobs, progress=args.progress, column=args.smiles_column
        )
    report_progress(f"wrote {args.out}", args)
    why = f"the column reason of {args.out} says why"
    report_skipped(args.smiles, found["explained"], found["lines"], why)
    return 0
