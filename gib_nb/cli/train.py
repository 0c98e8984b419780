"""`gib-nb train`: train a model on a file or a named data set, and write its metrics and a report."""

import argparse
import dataclasses
import datetime
import json
import pathlib
import shutil
import sys
import time
import warnings

from gib_nb.cli.common import CHECKPOINT, PLAIN, add_data_option, add_renamed, report_progress
from gib_nb.cli.options import add_config_options, config_of, method_of, methods_text
from gib_nb.data.registry import dataset_names, is_path
from gib_nb.report.folder import run_record, write_results
from gib_nb.report.run import PARTS, fold_summary, results_text
from gib_nb.utils.files import write_json

RESULTS = ("model.safetensors", "config.json", "history.json", "report.html", "metrics.json")
LOGS = {"csv": "log.csv", "tensorboard": "tensorboard"}  # --log → file or folder of a run
EPILOG = (
    """files:
  .csv .tsv .parquet .smi .sdf     molecules with labels; each also with .gz at the end
  .pt, or a folder of them         a list of torch_geometric Data, saved by torch.save
Columns are detected if only one is possible. Labels may be words or numbers, and may be missing. Rows that cannot be
used are listed in rejected.csv in the result folder, with their lines and the reasons.

data sets:
  motif                    generated graphs; the true subgraph is known
  molecules                generated from fragments of known drugs; the value is QED, drug-likeness
  QED, DRD2, HLM, MLM      molecules with a property, from the paper
  MUTAG, PTC_MR, COX2, NCI1, Mutagenicity   molecules in two classes
  PROTEINS, ENZYMES, DD    proteins;  IMDB-BINARY  actors who appeared together in films
{others}Published data sets are searched for in --data and in the cache folder, and otherwise downloaded once.

methods:
"""
    + methods_text()
    + """

With fewer than 100 epochs, --pretrain-epochs and --rampup-epochs are at most 15% of them each, unless they are given.
--seed is also the seed of the split, and of the graphs that are generated.

examples:
  gib-nb train activity.csv
  gib-nb train tox21.csv.gz --target NR-AR NR-ER SR-p53 --split scaffold --class-weight balanced --metric roc_auc
  gib-nb train motif
  gib-nb train motif --beta 0.3 --out runs/strict
  gib-nb train activity.csv --ensemble 5 --log csv
  gib-nb train MUTAG --folds --epochs 60 --classifier reencode
  gib-nb train Mutagenicity --method two_stage
  gib-nb train QED --max-graphs 5000 --epochs 30 --data /path/to/data

The result folder holds report.html to read, metrics.json with all numbers, and the model,
which gib-nb explain --model FOLDER and GIBTrainer.load(FOLDER) load.
"""
)


def help_text() -> str:
    "The text after the options: data sets including registered ones, methods, and examples."
    others = [name for name in dataset_names() if name not in EPILOG]
    return EPILOG.replace("{others}", f"  {', '.join(others)}\n" if others else "")


def add_parser(commands) -> list:
    "Add the command, and return its parser in a list."
    parser = commands.add_parser(
        "train",
        help="train on your file or on a data set, and write a report",
        epilog=help_text(),
        usage="gib-nb train FILE|DATASET [options]",
        description="Train a graph information bottleneck and write a folder with model, numbers, and report.",
        **PLAIN,
    )
    parser.add_argument("dataset", metavar="FILE|DATASET", help="your file, or the name of a data set, see below")
    add_file_options(parser)
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="result folder (default: runs/DATASET-date-time); an interrupted run in it is continued",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue an interrupted run: the one in --out, or the newest of DATASET in runs/; "
        "the other options must be the same",
    )
    parser.add_argument("--force", action="store_true", help="overwrite a finished run in --out")
    add_data_option(parser)
    parser.add_argument("--no-download", dest="download", action="store_false", help="never download anything")
    parser.add_argument(
        "--max-graphs",
        type=int,
        metavar="N",
        help="use at most N graphs, for a first try; for motif and molecules, generate N",
    )
    parser.add_argument(
        "--folds",
        type=int,
        nargs="?",
        const=10,
        metavar="K",
        help="cross-validation in K folds (10 when K is left out)",
    )
    parser.add_argument(
        "--ensemble",
        type=int,
        metavar="N",
        help="train N models with the seeds --seed, --seed + 1, ...; predictions are means over the models, with a standard deviation",
    )
    parser.add_argument(
        "--log",
        choices=tuple(LOGS),
        metavar="{" + ",".join(LOGS) + "}",
        help="log every epoch in the result folder: to log.csv, or for TensorBoard to the folder tensorboard",
    )
    add_config_options(parser)
    add_renamed(parser, {"--limit": "--max-graphs"})
    parser.set_defaults(run=train_command)
    return [parser]


def add_file_options(parser):
    "Add the options that say what a file contains and how it is split."
    group = parser.add_argument_group("your file")
    group.add_argument("--smiles", metavar="COLUMN", help="column with the SMILES (default: detected)")
    group.add_argument("--target", nargs="+", metavar="COLUMN", help="columns with labels (default: detected)")
    group.add_argument(
        "--task",
        choices=("auto", "classification", "regression"),
        default="auto",
        metavar="{auto,classification,regression}",
        help="what the labels are (default: auto; words and few different whole numbers are classes)",
    )
    group.add_argument(
        "--positive",
        metavar="CLASS",
        help="which of two classes F1 and average precision are about (default: the last in ascending order)",
    )
    group.add_argument(
        "--split",
        default="random",
        metavar="{random,scaffold,COLUMN}",
        help="random (stratified), by scaffold, or a column with train, valid, and test (default: random)",
    )
    group.add_argument(
        "--standardize", action="store_true", help="take the largest fragment of each molecule, and neutralize it"
    )
    group.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="number of processes that read molecules, -1 for all cores (default: 1)",
    )
    group.add_argument(
        "--no-baselines",
        dest="baselines",
        action="store_false",
        help="do not train a random forest and the same network without a bottleneck for comparison",
    )


def train_command(args) -> int:
    "Train one split, or all folds, and write the result folder; returns the exit code."
    config, folder = config_of(args), run_folder(args)
    if args.ensemble is not None and args.ensemble < 2:
        raise argparse.ArgumentTypeError(f"expected --ensemble of at least 2 (got {args.ensemble})")
    args.folder = folder  # for the message after an interruption
    data = load_data(args)
    waiting = prepare_run_dir(folder, args.force)
    if args.resume and not waiting:
        raise ValueError(f"expected an interrupted run in {folder} (got nothing to resume)")
    report_source(data, folder, args)
    if args.method is None and method_of(args):
        report_progress(
            "a file of molecules: using the settings of --method molecules (for those of the paper: --method gib)", args
        )
    report_progress(
        f"{data.name}: {len(data)} graphs, {data.task}; results are written to {folder}"
        + ("; continuing an interrupted run" if waiting else ""),
        args,
    )
    if args.folds is None:
        trainer, metrics = train_run(data, config, folder, args)
        found, folds = metrics, []
    else:
        trainer, data, metrics, folds = train_folds(data, config, folder, args)
        found = metrics | {"folds": [fold["scores"] for fold in folds]}
    report_progress("writing the report", args)
    write_results(folder, trainer, data, metrics, found, folds)
    remove_checkpoints(folder)
    print((f"the first of {len(folds)} folds\n\n" if folds else "") + results_text(metrics))
    if folds:
        means = ", ".join(f"{part} {text}" for part, text in zip(PARTS, fold_summary(folds)))
        print(f"\nall {len(folds)} folds, {metrics['scores']['measure']}, mean ± standard deviation: {means}")
    print(f"report: {folder / 'report.html'}")
    return 0


def load_data(args):
    "The data set of the arguments with at most `--max-graphs` graphs; a generated data set has exactly this many."
    from gib_nb.chem.registry import PROPERTIES
    from gib_nb.data.datasets import load_dataset, molecule_dataset
    from gib_nb.data.synthetic import motif_dataset

    seed, name, number = getattr(args, "seed", 0), args.dataset.lower(), args.max_graphs
    if is_path(args.dataset):
        return load_own(args, seed)
    if number is None:
        return load_dataset(args.dataset, args.data, args.download, seed)
    if number < 10:
        raise argparse.ArgumentTypeError(f"expected --max-graphs of at least 10 (got {number})")
    if name == "motif":
        return motif_dataset(number, seed=seed)
    if name in {known.lower() for known in (*PROPERTIES, "molecules")}:
        return molecule_dataset(args.dataset, args.data, args.download, seed, number)
    return subsample(load_dataset(args.dataset, args.data, args.download, seed), number, seed)


def load_own(args, seed: int):
    "The data set of a file, with at most `--max-graphs` graphs."
    from gib_nb.data.from_file import load_file

    data = load_file(
        args.dataset,
        args.smiles,
        args.target,
        task=args.task,
        positive=args.positive,
        split=args.split,
        seed=seed,
        standardize=args.standardize,
        workers=args.workers,
        progress=args.progress,
    )
    return data if args.max_graphs is None else subsample(data, args.max_graphs, seed)


def report_source(data, folder: pathlib.Path, args):
    "Report what was found in a file, and write the rows that cannot be used into the result folder."
    if data.source is None:
        return
    from gib_nb.data.files import write_rejected

    for line in [*data.source.notes, *source_lines(data.source)]:
        print(line, file=sys.stderr, flush=True)
    if data.source.rejected:
        folder.mkdir(parents=True, exist_ok=True)
        write_rejected(folder / "rejected.csv", data.source)


def source_lines(source) -> list[str]:
    "What happened to the rows of a file, as sentences."
    lines, total = [], len({*source.lines, *(row.line for row in source.rejected)})
    if source.rejected:
        lines.append(f"{len(source.rejected):,} of {total:,} rows cannot be used; rejected.csv says why")
    if source.duplicates:
        lines.append(
            f"{source.duplicates:,} rows repeat an earlier molecule; all rows of a molecule are in the same part of the split"
        )
    if source.conflicts:
        key, places = source.conflicts[0]
        have = "1 molecule has" if len(source.conflicts) == 1 else f"{len(source.conflicts):,} molecules have"
        lines.append(f"{have} rows with different labels, such as {key} in lines {', '.join(map(str, places[:5]))}")
    if not source.standardized and (salts := sum("." in smiles for smiles in source.smiles)):
        have = "1 molecule has" if salts == 1 else f"{salts:,} molecules have"
        lines.append(f"{have} several components, such as salts; --standardize keeps the largest one")
    return lines


def subsample(
    data,  # `GraphDataset`
    max_graphs: int,
    seed: int = 0,  # of the choice
):  # GraphDataset; `data` itself if it has no more graphs
    "A stratified sample of each part of the split, at least one graph of each; ValueError for fewer than 10 graphs."
    import numpy as np

    from gib_nb.data.splits import split_indices

    if max_graphs < 10:
        raise ValueError(f"expected max_graphs of at least 10 (got {max_graphs})")
    if max_graphs >= len(data):
        return data
    taken, split = [], {}
    for part, rows in data.split.items():
        single = data.task == "classification" and data.targets is None
        strata = data.labels[rows] if single else np.zeros(len(rows), int)
        fraction = max(1, round(max_graphs * len(rows) / len(data))) / len(rows)
        chosen = split_indices(strata, fraction, 0.0, seed)["train"]
        split[part] = np.arange(len(taken), len(taken) + len(chosen))
        taken += rows[chosen].tolist()
    source = data.source.take(taken) if hasattr(data.source, "take") else data.source
    return dataclasses.replace(data, graphs=data[taken], split=split, source=source)


def run_folder(args) -> pathlib.Path:
    "Where results go: --out, or with --resume the newest interrupted run of this data set, or a new folder."
    if args.out:
        return pathlib.Path(args.out)
    if args.resume:
        found = pathlib.Path("runs").glob(f"{run_name(args.dataset)}-*")
        waiting = [path for path in found if not (path / "metrics.json").exists()]
        if not waiting:
            raise ValueError(
                f"expected an interrupted run runs/{run_name(args.dataset)}-... to resume (got none); name it with --out"
            )
        return max(waiting, key=lambda path: path.stat().st_mtime)
    return pathlib.Path("runs") / f"{run_name(args.dataset)}-{datetime.datetime.now():%Y%m%d-%H%M%S}"


def run_name(dataset: str) -> str:
    "The beginning of the names of the result folders of a data set or file."
    return pathlib.Path(dataset).name.removesuffix(".gz").rsplit(".", 1)[0] if is_path(dataset) else dataset


def prepare_run_dir(
    folder,  # of a run: new, empty, or interrupted
    force: bool = False,  # remove the results of an earlier run first; other files stay
) -> bool:  # whether there is something to resume
    "Prepare the folder of a run; FileExistsError if it holds a finished run or a saved model."
    folder = pathlib.Path(folder)
    places = run_places(folder)
    if force:
        for path in [place / name for place in places for name in (CHECKPOINT, *RESULTS, "rejected.csv", LOGS["csv"])]:
            path.unlink(missing_ok=True)
        for place in places:
            shutil.rmtree(place / LOGS["tensorboard"], ignore_errors=True)
    waiting = any((place / CHECKPOINT).is_file() for place in places)
    models = [place / "model.safetensors" for place in (folder, *folder.glob("member-*"))]
    if (folder / "metrics.json").exists() or (any(path.exists() for path in models) and not waiting):
        raise FileExistsError(
            f"expected a new folder (got {folder}, which holds a finished run); "
            "choose another --out, or overwrite it with --force"
        )
    return waiting or len(places) > 1


def run_places(folder: pathlib.Path) -> list[pathlib.Path]:
    "The folder of a run, and those of its folds and of the members of an ensemble."
    return [
        folder,
        *(place for name in ("fold-*", "member-*", "fold-*/member-*") for place in sorted(folder.glob(name))),
    ]


def new_trainer(config, args):
    "The unfitted trainer of the arguments."
    from gib_nb.train.ensemble import GIBEnsemble
    from gib_nb.train.trainer import GIBTrainer

    number = getattr(args, "ensemble", None)
    return GIBTrainer(config) if number is None else GIBEnsemble(config, number)


def loggers(folder: pathlib.Path, args) -> list:
    "The callbacks that --log asks for."
    from gib_nb.train.loggers import CSVLogger, TensorBoardLogger

    kind = getattr(args, "log", None)
    if kind is None:
        return []
    try:
        return [{"csv": CSVLogger, "tensorboard": TensorBoardLogger}[kind](folder / LOGS[kind])]
    except ImportError as error:
        raise OSError(str(error)) from None


def train_run(
    data,  # `GraphDataset`
    config,  # `GIBConfig`
    folder,  # for results, and for the checkpoint of an interrupted run
    args=None,  # of the command: progress, baselines
    compare: bool = True,  # with a random forest and the same network without a bottleneck, unless the arguments turn this off
) -> tuple:  # fitted `GIBTrainer`, metrics
    "Train, or resume, and measure one split; writes model, configuration, and history, and leaves the checkpoint."
    from gib_nb.train.collapse import CollapseWarning

    if not len(data.test):
        raise ValueError(f"expected a data set with test graphs (got {len(data)} graphs, none for testing)")
    progress = getattr(args, "progress", True)
    networks = compare and getattr(args, "baselines", False)
    start, trainer, folder = time.perf_counter(), new_trainer(config, args), pathlib.Path(folder)
    more = {"checkpoint": folder / CHECKPOINT, "progress": progress, "callbacks": loggers(folder, args)}
    resumed = any((place / CHECKPOINT).is_file() for place in run_places(folder))
    with warnings.catch_warnings():
        # a collapse is in the metrics, in the table, and in the report
        warnings.simplefilter("ignore", CollapseWarning)
        trainer.fit(data.train, valid=data.valid, **more)
    seconds = time.perf_counter() - start
    trainer.save(folder)
    metrics = run_record(
        trainer,
        data,
        networks,
        lambda text: report_progress(f"training a baseline: {text}", args),
        progress=networks and progress,
        seconds=round(seconds, 2),
        resumed=resumed,
    )
    return trainer, metrics


def train_folds(data, config, folder: pathlib.Path, args) -> tuple:
    """Train every fold in a folder of its own, except for those that are done.

    Returns trainer, data, and metrics of the first fold, and the metrics of all."""
    from gib_nb.train.ensemble import load_trainer

    folds, parts = [], data.folds(args.folds)
    for i, part in enumerate(parts):
        place = folder / f"fold-{i + 1:02d}"
        if (place / "metrics.json").is_file():
            metrics = read_fold(place, part, config, args.ensemble)
        else:
            report_progress(f"fold {i + 1} of {len(parts)}", args)
            _, metrics = train_run(part, config, place, args, compare=False)
            write_json(place / "metrics.json", metrics)
            remove_checkpoints(place)
        folds.append(metrics)
    return load_trainer(folder / "fold-01"), parts[0], folds[0], folds


def read_fold(place: pathlib.Path, data, config, ensemble: int | None = None) -> dict:
    "The metrics of a finished fold; ValueError if it was trained with other settings or on other data."
    from gib_nb.train.config import config_from_dict
    from gib_nb.train.migrate import migrate

    metrics = migrate(json.loads((place / "metrics.json").read_text(encoding="utf-8")))
    same = config_from_dict(metrics["config"]) == config and metrics.get("ensemble") == ensemble
    if not same or metrics["data"] != data.summary():
        raise ValueError(
            f"expected the settings and data of {place} (got others); "
            "choose another --out, or overwrite it with --force"
        )
    return metrics


def remove_checkpoints(folder: pathlib.Path):
    "Remove the checkpoints, from which an interrupted run would continue."
    for place in run_places(folder):
        (place / CHECKPOINT).unlink(missing_ok=True)
