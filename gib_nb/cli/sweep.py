"""`gib-nb sweep`: every combination of some settings."""

import argparse
import functools
import pathlib

from gib_nb.cli.common import PLAIN, add_data_option, add_worker_options, output, workers
from gib_nb.cli.options import add_config_options, given_settings, method_settings

EPILOG = """Each option may have several values; every combination is trained, and --fold takes folds of ten as test
sets. Finished trials are kept in --out/trials: interrupted, or called again with more values, the command computes only
what is missing.

examples:
  gib-nb sweep motif --beta 0 0.1 1 --seed 0 1 2 --epochs 40 --jobs 2
  gib-nb sweep MUTAG PROTEINS --num-steps 1 5 50 --fold 0 1 2 3 4 5 6 7 8 9
  gib-nb sweep MUTAG --beta 0 0.01 0.1 --seed 0 1 2 3 --dask tcp://scheduler:8786
"""
MEASURES = ("score", "label_mi_bound", "graph_mi", "selected_fraction", "components", "edge_auc")  # that are printed


def add_parser(commands) -> list:
    "Add the command, and return its parser in a list."
    parser = commands.add_parser(
        "sweep",
        help="train every combination of some settings",
        epilog=EPILOG,
        usage="gib-nb sweep DATASET [DATASET ...] [options]",
        description="Train every combination of settings, and write a table with a row for each.",
        **PLAIN,
    )
    parser.add_argument("datasets", nargs="+", metavar="DATASET", help="names of data sets, as in gib-nb train --help")
    parser.add_argument(
        "--fold",
        type=int,
        nargs="+",
        metavar="N",
        default=argparse.SUPPRESS,
        help="folds of ten to test on, 0 to 9 (default: an 80/10/10 split)",
    )
    parser.add_argument(
        "--out", default="sweep", metavar="DIR", help="folder for the table and finished trials (default: sweep)"
    )
    add_data_option(parser)
    add_worker_options(parser)
    add_config_options(parser, several=True)
    parser.set_defaults(run=sweep_command)
    return [parser]


def sweep_command(args) -> int:
    "Train what is missing, write sweep.csv, and print the means over seeds and folds; the result is the exit code."
    from gib_nb.experiments.sweep import grid, sweep
    from gib_nb.report.tables import mean_text

    given, folds = given_settings(args), {"fold": args.fold} if hasattr(args, "fold") else {}
    trials = [fold | method_settings(args.method, settings) for settings in grid(**given) for fold in grid(**folds)]
    folder = pathlib.Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    rows = functools.partial(sweep, trials, args.datasets, folder / "trials", args.jobs, args.progress, root=args.data)
    table = None
    try:
        with workers(args):
            table = rows()
    finally:
        with output(folder / "sweep.csv") as file:
            (rows(compute=False) if table is None else table).drop(columns="history").to_csv(file, index=False)
    swept = [name for name, values in given.items() if isinstance(values, list) and len(values) > 1 and name != "seed"]
    measures = [name for name in MEASURES if name in table and table[name].notna().any()]
    if measures:
        groups = table.groupby(["dataset", *swept], dropna=False)
        print(groups[measures].agg(mean_text).to_string())
    failed = int(table.error.notna().sum()) if "error" in table else 0
    print(
        f"every row is in {folder / 'sweep.csv'}, with its history in {folder / 'trials'}"
        + (f"; {failed} trials failed, for the reason in the column error" if failed else "")
    )
    return 1 if failed else 0
