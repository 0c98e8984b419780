"""`gib-nb reproduce`: a table of results, trained and measured again."""

import importlib
import pathlib
from typing import NamedTuple

from gib_nb.cli.common import PLAIN, add_data_option, add_renamed, add_worker_options, count, report_progress, workers


class Table(NamedTuple):
    "What the command needs to know about a table of results."

    module: str  # of its trials
    minutes: dict[str, float]  # default data set → measured minutes of a trial on one core
    options: tuple  # those that only some tables have
    epochs: int  # default
    seeds: int | None = 10  # default; None: the module has its own
    max_explained: int = 100  # default

    @property
    def datasets(self) -> list[str]:
        return list(self.minutes)


TABLES = {
    "classification": Table(
        "experiments.classification",
        {"MUTAG": 0.05, "PROTEINS": 0.5, "IMDB-BINARY": 0.4, "DD": 2.7},
        ("methods", "folds", "num_layers", "hidden_channels", "seeds"),
        60,
        None,
    ),
    "interpretation": Table(
        "experiments.interpretation",
        {"QED": 1.3, "DRD2": 0.7, "HLM": 0.8, "MLM": 0.8},
        ("methods", "seeds", "max_explained", "max_graphs"),
        30,
        3,
        200,
    ),
    "cut-fragments": Table(
        "experiments.cut_fragments",
        {"QED": 2, "DRD2": 5, "HLM": 2, "MLM": 2},
        ("methods", "seeds", "max_explained", "max_graphs"),
        20,
        3,
        200,
    ),
    "denoising": Table("experiments.denoising", {"MUTAG": 0.1}, ("methods", "seeds"), 100, 20),
    "explanation": Table(
        "experiments.explainers", {"motif": 1, "Mutagenicity": 5}, ("methods", "seeds", "max_explained"), 60
    ),
    "own-data": Table(
        "experiments.own_data",
        {
            "ESOL": 0.6,
            "FreeSolv": 0.3,
            "Lipophilicity": 4,
            "BBBP": 1.4,
            "BACE": 1.3,
            "ClinTox": 1.4,
            "Tox21": 9,
            "HIV": 30,
        },
        ("methods", "seeds"),
        60,
        5,
    ),
    "atoms": Table("experiments.contributions", {"Lipophilicity": 6}, ("seeds", "max_explained"), 60, 5, 200),
    "toxicophores": Table("experiments.toxicophores", {"Mutagenicity": 4}, ("methods", "seeds"), 90, 5),
    "ablation": Table("experiments.explainers", {"Mutagenicity": 15}, ("seeds",), 60, 3),
    "recipe-choice": Table(
        "experiments.recipe_choice",
        {"motif": 1.5, "Mutagenicity": 5, "colored motif": 1.5},
        ("methods", "seeds", "max_explained"),
        90,
        2,
        200,
    ),
    "audit": Table(
        "experiments.cheats", {"motif": 2, "Mutagenicity": 4}, ("methods", "seeds", "max_explained"), 90, 10, 150
    ),
    "information-term": Table(
        "experiments.information_term",
        {"motif": 0.5, "spurious motif": 0.5, "colored motif": 0.5, "Mutagenicity": 1},
        ("methods", "seeds"),
        60,
    ),
    "bottleneck-cost": Table(
        "experiments.bottleneck_cost",
        {"MUTAG": 0.06, "PROTEINS": 0.3, "IMDB-BINARY": 0.35, "DD": 1.5},
        ("methods", "folds", "seeds"),
        60,
        3,
    ),
}
EPILOG = """Before it starts, the command says how many trials are left and about how long they take.

tables, with published data from --data or GIB_NB_DATA:
  classification   as in the paper: poolings, plain networks, and GIBs on ten folds of four data sets
  interpretation   as in the paper: how far the property of a fragment is from that of its molecule, against the
                   fraction of selected atoms
  cut-fragments    a predictor of fragments chooses among random ones: how close does it come to the property function?
  denoising        as in the paper: which edges of MUTAG are real? 20 seeds
  explanation      a GIB and related methods, compared with PyG's GNNExplainer, PGExplainer, attention, integrated
                   gradients, and random edges, on motif graphs and on Mutagenicity
  own-data         eight data sets of molecules from files: a GIB, the same network without a bottleneck, a random
                   forest, a constant, and chemprop if it is installed
  atoms            how well atom weights agree with known atomic contributions to logP: a GIB, integrated
                   gradients, and GNNExplainer
  toxicophores     which of six known groups of atoms do masks find in mutagens without explicit hydrogens?
  ablation         the two-stage GIB on Mutagenicity, complete and with one part left out at a time
  recipe-choice    can variants of a recipe be compared without knowing the true edges?
  audit            trained models, and masks that are wrong on purpose: which of them does the audit detect?
  information-term every method with beta set to zero, and with beta varied over two orders of magnitude
  bottleneck-cost  a GIB from at most half of each graph, paired with the same network without a bottleneck on ten
                   folds of four data sets

examples:
  gib-nb reproduce TABLE --help                               options of a table
  gib-nb reproduce classification --datasets MUTAG --methods GIN GIN+GIB
  gib-nb reproduce explanation --seeds 2 --datasets motif     a first look
  gib-nb reproduce explanation --jobs 2                       the whole table; can be interrupted and continued
"""


def add_parser(commands) -> list:
    "Add the command, and return the parsers of its tables."
    parser = commands.add_parser(
        "reproduce",
        help="recompute a table of results",
        usage="gib-nb reproduce TABLE [options]",
        epilog=EPILOG,
        description="Train and measure the models of a table of results, and write the table with every single value.",
        **PLAIN,
    )
    tables = parser.add_subparsers(prog="gib-nb reproduce", dest="table", metavar="TABLE", required=True)
    made = [tables.add_parser(table, usage=f"gib-nb reproduce {table} [options]", **PLAIN) for table in TABLES]
    for name, command in zip(TABLES, made):
        add_table_options(command, TABLES[name])
        command.set_defaults(run=reproduce_command)
    return made


def add_table_options(parser, table: Table):
    "Add the options of one table."
    seeds = (
        f"seeds 0 to N − 1 of split and weights (default: {table.seeds})"
        if table.seeds
        else "seeds 0 to N − 1 of the weights (default: 1; on MUTAG 3)"
    )
    explained = f"explain at most N test graphs (default: {table.max_explained})"
    special = {
        "methods": dict(
            nargs="+", metavar="NAME", help="methods to run, in quotes if they contain spaces (default: all)"
        ),
        "folds": dict(type=count, default=10, metavar="N", help="the first N of ten folds (default: 10)"),
        "num_layers": dict(
            type=count, nargs="+", metavar="N", help="depths to choose from by validation loss (default: 2 4; on DD 2)"
        ),
        "hidden_channels": dict(
            type=count,
            nargs="+",
            metavar="N",
            help="widths to choose from by validation loss (default: 32; on MUTAG 32 64)",
        ),
        "seeds": dict(type=count, default=table.seeds, metavar="N", help=seeds),
        "max_explained": dict(type=count, default=table.max_explained, metavar="N", help=explained),
        "max_graphs": dict(
            type=count, default=5000, metavar="N", help="use at most N molecules of each data set (default: 5000)"
        ),
    }
    parser.add_argument("--datasets", nargs="+", metavar="NAME", help=f"data sets; default: {' '.join(table.datasets)}")
    for name in table.options:
        parser.add_argument("--" + name.replace("_", "-"), **special[name])
    parser.add_argument(
        "--epochs",
        type=count,
        default=table.epochs,
        metavar="N",
        help=f"number of epochs of every training run (default: {table.epochs})",
    )
    add_worker_options(parser)
    add_data_option(parser)
    parser.add_argument(
        "--out", default="results", metavar="DIR", help="folder for the table and finished trials (default: results)"
    )
    renamed = {
        "max_explained": ("--limit", "--max-explained"),
        "max_graphs": ("--molecules", "--max-graphs"),
        "num_layers": ("--layers", "--num-layers"),
        "hidden_channels": ("--hidden", "--hidden-channels"),
    }
    add_renamed(parser, dict(pair for name, pair in renamed.items() if name in table.options))


def reproduce_command(args) -> int:
    "Compute the missing trials, write TABLE.json, and print the table; returns the exit code."
    from gib_nb.experiments.sweep import round_json, run_trials
    from gib_nb.utils.files import environment, write_json

    folder, table = pathlib.Path(args.out), TABLES[args.table]
    module, path = importlib.import_module(f"gib_nb.{table.module}"), folder / f"{table_name(args.table)}.json"
    trials = trials_of(args, module, args.datasets or table.datasets)
    earlier, trial = earlier_rows(path, trials, module), getattr(module, f"{table_name(args.table)}_trial")
    report_progress(expected_time(table, trial, trials, args.epochs, folder / "trials"), args)
    with workers(args):
        rows = run_trials(trial, trials, folder / "trials", args.jobs, args.progress)
    good = [
        {name: value for name, value in row.items() if name != "root"}  # root is a path on this computer
        for row in rows
        if "error" not in row
    ]
    if not good:
        raise ValueError(f"expected at least one trial to succeed (got {rows[0]['error']})")
    if args.table == "own-data":
        good = module.condense(good)
    order = {dataset: place for place, dataset in enumerate(table.datasets)}
    join = getattr(module, "join_methods", list)  # for tables whose rows hold all methods of a seed
    whole = sorted(join(earlier + good), key=lambda row: order.get(row["dataset"], len(order)))
    write_json(path, round_json(configs_apart(whole) | environment()))
    print(getattr(module, "report", method_tables)(whole) if hasattr(args, "methods") else method_tables(whole))
    failed = len(rows) - len(good)
    print(
        f"every value is in {path}"
        + (f", except for {failed} trials that failed; the same command tries them again" if failed else "")
    )
    return 1 if failed else 0


def expected_time(table: Table, trial, trials: list[dict], epochs: int, folder: pathlib.Path) -> str:
    "How many trials are left to compute, and about how long that takes."
    from gib_nb.experiments.sweep import trial_key

    left = [settings for settings in trials if not (folder / f"{trial_key(trial, settings)}.json").exists()]
    if not left:
        return f"all {len(trials):,} trials have been computed before"
    mean = sum(table.minutes.values()) / len(table.minutes)
    minutes = sum(table.minutes.get(settings["dataset"], mean) for settings in left) * epochs / table.epochs
    length = f"{minutes / 60:.0f} hours" if minutes > 90 else f"{max(minutes, 1):.0f} minutes"
    return (
        f"{len(left):,} of {len(trials):,} trials are left: about {length} on one core, less with --jobs or --dask. "
        "The command can be stopped at any time. Run the same command again to resume."
    )


def table_name(option: str) -> str:
    "The name of a table in Python."
    return option.replace("-", "_")


def trials_of(args, module, datasets: list[str]) -> list[dict]:
    "Settings of the trials of a table; ValueError for an unknown method."
    from gib_nb.experiments.sweep import grid

    if args.table == "classification":
        return module.classification_grid(
            datasets,
            args.methods,
            args.folds,
            args.num_layers,
            args.hidden_channels,
            args.epochs,
            args.seeds,
            root=args.data,
        )
    more = {name: getattr(args, name) for name in ("max_explained", "max_graphs") if hasattr(args, name)}
    if hasattr(args, "methods"):
        known = {method.lower(): method for method in module.METHODS}
        if unknown := [method for method in args.methods or () if method.lower() not in known]:
            names = ", ".join(f'"{method}"' if "," in method else method for method in module.METHODS)
            raise ValueError(f"expected methods among {names} (got {', '.join(unknown)})")
        args.methods = args.methods and [known[method.lower()] for method in args.methods]
        more |= {"method": args.methods or list(module.METHODS)}
    if hasattr(args, "folds"):
        more |= {"fold": list(range(args.folds))}
    more |= getattr(module, "VARIED", {})  # settings that are combined with data sets, methods, and seeds
    trials = grid(dataset=datasets, seed=list(range(args.seeds)), root=args.data, **more)
    plain = lambda method, epochs: {"epochs": epochs}
    method_config = getattr(module, "method_config", plain) if hasattr(args, "methods") else plain
    once = getattr(module, "DETERMINISTIC", ())  # methods whose results are the same for every seed
    some = getattr(module, "DATASETS_OF", {})  # methods that apply only to some data sets
    return [
        trial | method_config(trial.get("method"), args.epochs)
        for trial in trials
        if (trial["seed"] == 0 or trial.get("method") not in once)
        and trial["dataset"] in some.get(trial.get("method"), datasets)
    ]


def earlier_rows(path: pathlib.Path, trials: list[dict], module=None) -> list[dict]:
    """Rows of the table in a file that are about other data sets or methods than the trials.

    ValueError for a table that was made with other versions or on another machine."""
    from gib_nb.experiments.sweep import read_trial
    from gib_nb.utils.files import environment

    record = read_trial(path) or {"rows": []}
    asked = {(trial["dataset"], trial.get("method")) for trial in trials}
    if all_methods := getattr(module, "METHODS", None):  # a row without a method holds all methods
        asked |= {(name, None) for name, _ in asked if all((name, each) in asked for each in all_methods)}
    rows = [
        row | ({"config": record["configs"][row["config"]]} if "config" in row else {})
        for row in record["rows"]
        if (row["dataset"], row.get("method")) not in asked
    ]
    now = environment() if rows else {}
    if other := [name for name in now if record.get(name) != now[name]]:
        raise ValueError(
            f"expected {path} to be of the same {' and '.join(other)} (got {record.get(other[0])} there, "
            f"{now[other[0]]} here); choose another --out, or compute everything that is in it again"
        )
    return rows


def configs_apart(rows: list[dict]) -> dict:
    "Rows with the index of their config, and the list of configs, in which settings that are the same in many trials occur once."
    configs, short = [], []
    for row in rows:
        if isinstance(row.get("config"), dict):
            own = ("seed", "hidden_channels", "num_layers")
            config = {name: value for name, value in row["config"].items() if name not in own}
            if config not in configs:
                configs.append(config)
            rest = {name: value for name, value in row.items() if name not in config}
            row = rest | {"config": configs.index(config)}
        short.append(row)
    return {"configs": configs, "rows": short} if configs else {"rows": short}


def method_tables(rows: list[dict]) -> str:
    "A table for each data set, for trials that measure all methods at once."
    from gib_nb.report.tables import method_table

    parts = {}
    for row in rows:
        parts.setdefault(row["dataset"], []).append(row)
    title = lambda dataset, part: f"{dataset}, {len(part)} seed{'s'[: len(part) > 1]}, mean ± standard deviation"
    return "\n".join(f"{title(dataset, part)}\n{method_table(part)}\n" for dataset, part in parts.items())
