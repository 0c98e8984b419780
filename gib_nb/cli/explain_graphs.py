"""`gib-nb explain` for a file of graphs: the nodes and edges that carry a predicted label."""

import argparse
import csv
import dataclasses
import os
import pathlib
import sys

from gib_nb.cli.common import output, report_progress
from gib_nb.data.registry import GRAPH_FILES
from gib_nb.report.graphs import GRAPH_COLUMNS, graph_row, graphs_html

METHOD = "robust"  # the recipe of the model that is trained if none is given


def holds_graphs(path: str) -> bool:
    "Whether this is a file of graphs, or a folder with such files."
    if os.path.isdir(path):  # False, not an error, for a SMILES that is too long for a file name
        inside = [*pathlib.Path(path).iterdir(), pathlib.Path(path, "processed", "data.pt")]
        return any(each.suffix.lower() in GRAPH_FILES and each.is_file() for each in inside)
    return pathlib.Path(path).suffix.lower() in GRAPH_FILES


def explain_graphs(args) -> int:
    "Explain all graphs of a file; returns the exit code."
    from gib_nb.cli.predict import check_features
    from gib_nb.data.files import read_graphs

    check_options(args)
    graphs = read_graphs(args.smiles)
    trainer, model = train_model(args, graphs) if args.model is None else named_model(args)
    check_features(trainer, graphs)
    found = explanations(trainer, graphs, args.threshold)
    with output(args.out) as file:
        if args.out and pathlib.Path(args.out).suffix.lower() == ".html":
            file.write(graphs_html(found, model))
        else:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(GRAPH_COLUMNS)
            writer.writerows(graph_row(number, explanation, said) for number, _, explanation, said in found)
    if args.out:
        report_progress(f"wrote {args.out}", args)
    return 0


def check_options(args):
    "ArgumentTypeError for options that apply only to molecules."
    if args.out and pathlib.Path(args.out).suffix.lower() not in (".csv", ".html"):
        raise argparse.ArgumentTypeError(f"expected --out with the ending .csv or .html for graphs (got {args.out})")
    for option in ("property", "smiles_column", "predictor", "jobs", "dask"):
        if getattr(args, option) is not None:
            name = "--smiles" if option == "smiles_column" else f"--{option}"
            raise argparse.ArgumentTypeError(f"expected molecules for {name} (got the graphs in {args.smiles})")


def named_model(args) -> tuple:
    "The model of a result folder, and a description of it."
    from gib_nb.explain.molecule import load_run

    return load_run(args.model), f"the model in {args.model}"


def train_model(args, graphs) -> tuple:
    "A model that is trained on the labels of the graphs, and a description of it; ValueError for graphs without labels."
    from gib_nb.data.datasets import load_dataset
    from gib_nb.train.recipes import TITLES, recipe
    from gib_nb.train.trainer import GIBTrainer

    if any(graph.get("y") is None for graph in graphs):
        raise ValueError(
            f"expected --model RUN, or graphs with labels y on which a model can be trained (got {args.smiles} without labels)"
        )
    report_progress(
        f"training a {TITLES[METHOD]} on the labels of the graphs; to use a trained model, give --model RUN", args
    )
    data = load_dataset(graphs)
    trainer = GIBTrainer(recipe(METHOD)).fit(data.train, valid=data.valid, progress=args.progress)
    word = "R²" if data.task == "regression" else "accuracy"
    said = f"a {TITLES[METHOD]} trained on {len(data.train)} of these graphs, {word} {trainer.score(data.test):.3f} on {len(data.test)} others"
    print(said, file=sys.stderr)
    return trainer, said


def explanations(trainer, graphs, threshold=None):
    "Yields (number from 1, graph, explanation, prediction)."
    predictions = trainer.apply(graphs)
    if threshold is not None:
        predictions = dataclasses.replace(predictions, threshold=threshold)
    said = trainer.spec.decode(predictions.prediction).tolist()
    yield from zip(range(1, len(graphs) + 1), graphs, predictions, said)
