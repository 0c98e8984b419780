"""`gib-nb predict`: predict labels or values for the molecules or graphs of a file."""

import argparse
import pathlib
import sys
from typing import NamedTuple

from gib_nb.cli.common import PLAIN, output, report_progress

EPILOG = """FILE has one of the formats that gib-nb train reads. Labels in it are ignored. RUN is the result folder of gib-nb train.

The table has a row for each row of the file, with these columns:
  line          line in the file, or number of the graph
  smiles        the molecule as it was read
  prediction    class or value; one column per target if there are several
  P(CLASS)      probability of each class; with several targets of two classes, that of the second class
  std           for an ensemble: standard deviation over its models, of the value or of the probability of the
                predicted class; with several targets, a column std(TARGET) for each
  reason        why there is no prediction; otherwise empty
  ...           the other columns of the file, unchanged

examples:
  gib-nb predict library.csv --model runs/activity-20260101-120000 --out predictions.csv
  gib-nb predict library.sdf.gz --model runs/activity-20260101-120000
"""


def add_parser(commands) -> list:
    "Add the command, and return its parser in a list."
    parser = commands.add_parser(
        "predict",
        help="predict the labels of a file with a trained model",
        usage="gib-nb predict FILE --model RUN [options]",
        description="Predict the labels or values of molecules or graphs.",
        epilog=EPILOG,
        **PLAIN,
    )
    parser.add_argument("file", metavar="FILE", help="molecules or graphs, as for gib-nb train")
    parser.add_argument("--model", metavar="RUN", required=True, help="result folder of gib-nb train")
    parser.add_argument("--smiles", metavar="COLUMN", help="column with the SMILES (default: detected)")
    parser.add_argument("--out", metavar="FILE", help="CSV file to write (default: print the table)")
    parser.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="number of processes that read molecules, -1 for all cores (default: 1)",
    )
    parser.set_defaults(run=predict_command)
    return [parser]


def predict_command(args) -> int:
    "Predict every row of a file; returns the exit code."
    from gib_nb.explain.molecule import load_run

    if args.out and pathlib.Path(args.out).suffix.lower() != ".csv":
        raise argparse.ArgumentTypeError(f"expected --out with the ending .csv (got {args.out})")
    trainer = load_run(args.model)
    source = trainer.record["metrics"].get("source") or {}
    inputs = read_inputs(args, bool(source.get("standardize")))
    check_features(trainer, inputs.graphs)
    table = prediction_table(trainer, inputs)
    with output(args.out) as file:
        table.to_csv(file, index=False, lineterminator="\n")
    if args.out:
        report_progress(f"wrote {args.out}", args)
    if inputs.rejected:
        print(
            f"{len(inputs.rejected):,} of {len(table):,} rows have no prediction; the column reason says why",
            file=sys.stderr,
        )
    return 0


class Inputs(NamedTuple):
    "What a file holds."

    lines: list  # [n] line in the file, or number of the graph
    graphs: list  # [n]
    rejected: list  # of `Rejected`
    columns: object = None  # pandas.DataFrame [n, all columns of the file but that of the SMILES]; None for graphs


def read_inputs(args, standardize: bool) -> Inputs:
    "The content of a file; molecules are standardized if those of training were."
    from gib_nb.chem.featurize import featurize_molecules
    from gib_nb.data.files import read_graphs, read_molecules
    from gib_nb.data.registry import is_graph_file

    if not pathlib.Path(args.file).exists():
        raise FileNotFoundError(f"expected a file (got {args.file}, which does not exist)")
    if is_graph_file(args.file):
        graphs = read_graphs(args.file)
        return Inputs(list(range(1, len(graphs) + 1)), graphs, [])
    table = read_molecules(args.file, args.smiles, standardize=standardize, labels=False, progress=args.progress)
    for note in table.notes:
        report_progress(note, args)
    graphs = featurize_molecules(table.smiles, args.workers, progress=args.progress)
    others = (
        table.table if table.smiles_column is None else table.table.drop(columns=table.smiles_column, errors="ignore")
    )
    return Inputs(table.lines, graphs, table.rejected, others)


def check_features(trainer, graphs):
    "ValueError if the model was trained on another number of features than the file has."
    wanted = trainer.spec.in_channels
    if trainer.spec.max_degree is None and graphs and (graphs[0].x is None or graphs[0].x.size(1) != wanted):
        got = "none" if graphs[0].x is None else graphs[0].x.size(1)
        raise ValueError(f"expected a model for graphs with {got} features per node (got one for {wanted} features)")


def prediction_table(trainer, inputs: Inputs):
    "A row for each row of the file, as a pandas DataFrame, with the other columns of the file at the end."
    import pandas

    lines, graphs, rejected, others = inputs
    found = {"line": lines, "smiles": [graph.get("smiles", "") for graph in graphs]}
    found |= named_predictions(trainer.spec, trainer._logits(graphs))
    if hasattr(trainer, "predict_std"):
        std, targets = trainer.predict_std(graphs), trainer.spec.targets
        found |= {"std": std} if targets is None else {f"std({name})": each for name, each in zip(targets, std.T)}
    table = pandas.DataFrame(found).assign(reason="")
    if others is not None:
        clash = {name: f"{name} (file)" for name in others if name in table}
        table = pandas.concat([table, others.rename(columns=clash)], axis=1)
    if rejected:
        missing = {"line": [row.line for row in rejected], "smiles": [row.text for row in rejected]}
        missing = pandas.DataFrame(missing | {"reason": [row.reason for row in rejected]})
        table = pandas.concat([table, missing], ignore_index=True).sort_values("line", kind="stable")
    return table if table.smiles.astype(bool).any() else table.drop(columns="smiles")


def named_predictions(spec, logits) -> dict:
    "Columns of predictions and probabilities."
    predicted, classes = spec.decode(logits), spec.task == "classification"
    labels = [str(label) for label in spec.labels] if classes else []
    if spec.targets is None:
        found = {"prediction": predicted}
        if classes:
            found |= {f"P({label})": column for label, column in zip(labels, spec.probabilities(logits).T)}
        return found
    found = dict(zip(spec.targets, predicted.T))
    if classes:
        columns = spec.probabilities(logits).T
        found |= {f"P({name}={labels[1]})": column for name, column in zip(spec.targets, columns)}
    return found
