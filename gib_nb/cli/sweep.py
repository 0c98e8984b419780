"""`gib-nb sweep`: train every combination of settings, or search among them."""

import argparse
import functools
import pathlib
import shlex

from gib_nb.cli.common import PLAIN, add_data_option, add_worker_options, count, output, workers
from gib_nb.cli.options import add_config_options, flag_of, given_settings, method_of, method_settings

EPILOG = """Each option may have several values, and every combination is trained. --fold uses folds of a ten-fold
cross-validation as test sets. Finished trials are stored in --out/trials. After an interruption, or when called again
with more values, the command computes only the missing trials.

With --search N, the values of the settings define a space in which Optuna chooses N trials, one after the other.
Two numbers are the ends of a range, which is logarithmic if both are > 0 and their ratio is 10 or more. Three or more
numbers, or words, are choices. Trials are compared by --metric on validation graphs, never on test graphs. By default
the metric is the validation loss, or only its classification part if alpha, beta, or the losses that they weight are
searched. A trial that falls behind the median of the others is pruned. At the end, the command that trains the best
settings is printed.

examples:
  gib-nb sweep motif --beta 0 0.1 1 --seed 0 1 2 --epochs 40 --jobs 2
  gib-nb sweep MUTAG PROTEINS --num-steps 1 5 50 --fold 0 1 2 3 4 5 6 7 8 9
  gib-nb sweep motif --beta 0.01 1 --lr 1e-4 1e-2 --search 20
  gib-nb sweep MUTAG --beta 0 0.01 0.1 --seed 0 1 2 3 --dask tcp://scheduler:8786
"""
MEASURES = (
    "score",
    "label_mi_bound",
    "graph_mi",
    "selected_fraction",
    "components",
    "edge_auc",
)  # columns that are printed


def add_parser(commands) -> list:
    "Add the command, and return its parser in a list."
    parser = commands.add_parser(
        "sweep",
        help="train every combination of settings",
        epilog=EPILOG,
        usage="gib-nb sweep DATASET [DATASET ...] [options]",
        description="Train every combination of settings, and write a table with one row for each.",
        **PLAIN,
    )
    parser.add_argument("datasets", nargs="+", metavar="DATASET", help="names of data sets, as in gib-nb train --help")
    parser.add_argument(
        "--fold",
        type=int,
        nargs="+",
        metavar="N",
        default=argparse.SUPPRESS,
        help="folds of a ten-fold cross-validation to test on, 0 to 9 (default: an 80/10/10 split)",
    )
    parser.add_argument(
        "--out", default="sweep", metavar="DIR", help="folder for the table and finished trials (default: sweep)"
    )
    parser.add_argument(
        "--search",
        type=count,
        metavar="N",
        help="train N trials that Optuna chooses instead of every combination, see below",
    )
    add_data_option(parser)
    add_worker_options(parser)
    add_config_options(parser, several=True)
    parser.set_defaults(run=sweep_command)
    return [parser]


def sweep_command(args) -> int:
    "Train the missing trials, write sweep.csv, and print the means over seeds and folds; returns the exit code."
    from gib_nb.experiments.sweep import grid, sweep
    from gib_nb.report.tables import mean_text

    if args.search:
        return search_command(args)
    given, folds = given_settings(args), {"fold": args.fold} if hasattr(args, "fold") else {}
    trials = [fold | method_settings(method_of(args), settings) for settings in grid(**given) for fold in grid(**folds)]
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
        + (f"; {failed} trials failed, see the column error" if failed else "")
    )
    return 1 if failed else 0


def search_command(args) -> int:
    "Search the space of the options, write sweep.csv, and print the best settings; returns the exit code."
    from gib_nb.experiments.search import search

    if args.jobs not in (None, 1) or args.dask is not None:
        got = f"--dask {args.dask}" if args.dask is not None else f"--jobs {args.jobs}"
        raise argparse.ArgumentTypeError(
            f"expected --search without workers, since each trial is chosen from those before it (got {got})"
        )
    if len(args.datasets) > 1:
        raise argparse.ArgumentTypeError(f"expected one data set with --search (got {' '.join(args.datasets)})")
    space = given_settings(args) | ({"fold": args.fold} if hasattr(args, "fold") else {})
    folder, table = pathlib.Path(args.out), None
    settings_of = lambda chosen: (
        {name: value for name, value in chosen.items() if name == "fold"}
        | method_settings(method_of(args), {name: value for name, value in chosen.items() if name != "fold"})
    )
    more = {"settings_of": settings_of, "progress": args.progress, "root": args.data}
    rows = functools.partial(search, space, args.datasets[0], folder, args.search, **more)
    rows(compute=False)  # an invalid space is an error before a table is written
    try:
        table = rows()
    finally:
        with output(folder / "sweep.csv") as file:
            (rows(compute=False) if table is None else table).to_csv(file, index=False)
    print("\n".join(search_lines(table, args)))
    print(f"every row is in {folder / 'sweep.csv'}, with the history of complete trials in {folder / 'trials'}")
    return 1 if (table["state"] == "failed").any() else 0


def search_lines(table, args) -> list[str]:
    "How the trials ended, the best one, and the command that trains it."
    from gib_nb.experiments.search import best_trial

    states, best = table["state"].value_counts(), best_trial(table)
    lines = [f"{len(table)} trials, of which {states.get('pruned', 0)} were pruned"]
    if failed := states.get("failed", 0):
        lines[0] += f" and {failed} failed, see the column error"
    if best is None:
        return lines
    objective = table.attrs["objective"]
    what = {"loss": "loss", "classification": "classification loss"}.get(objective, objective)
    lines.append(f"best on validation graphs: trial {best.trial}, with the {what} {best.objective:.4g}")
    if isinstance(best.get("collapse"), str):
        lines.append(f"every completed trial collapsed; the best one: {best.collapse}")
    where = " on the data's own split" if hasattr(args, "fold") else ""
    return [*lines, f"train it{where} with: {shlex.join(train_words(best.to_dict(), args))}"]


def train_words(row: dict, args) -> list[str]:
    "The words of the command that trains the settings of a row, as far as they are not defaults."
    words = ["gib-nb", "train", args.datasets[0]]
    words += ["--method", args.method] if args.method else []
    words += ["--data", args.data] if args.data else []
    for name, given in given_settings(args).items():
        value, flag = row[name], flag_of(name)
        if isinstance(given, bool):
            words.append(flag if value else flag.replace("--", "--no-", 1))
            continue
        kind = type(next((each for each in given if each is not None), None))
        missing = value is None or value != value
        words += [flag, "none" if missing else str(kind(value))]
    return words
