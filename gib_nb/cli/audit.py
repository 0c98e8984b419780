"""`gib-nb audit`: does the prediction of a trained model depend on what its mask selects?"""

import argparse
import json

from gib_nb.cli.common import PLAIN, add_data_option, count
from gib_nb.data.registry import is_path

EPILOG = """A self-explaining model may show a subgraph that its prediction does not depend on. The audit cuts graphs by the mask
and by random masks, lets the model predict again from what is left, and compares how often the prediction changes.
Use graphs that the model was not trained on.

examples:
  gib-nb audit runs/MUTAG-20260101-120000                     the audit of the test graphs, made after the training
  gib-nb audit runs/motif-20260101-120000 --graphs motif      on the test graphs of a data set of the package
  gib-nb audit runs/activity-20260101-120000 --graphs library.csv --other runs/activity-20260102-120000
"""


def add_parser(commands) -> list:
    "Add the command, and return its parser in a list."
    parser = commands.add_parser(
        "audit",
        help="check whether the predictions of a trained model depend on its mask",
        usage="gib-nb audit RUN [options]",
        description="Check whether the predictions of a trained model depend on what its mask selects.",
        epilog=EPILOG,
        **PLAIN,
    )
    parser.add_argument("model", metavar="RUN", help="result folder of gib-nb train")
    parser.add_argument(
        "--graphs",
        dest="file",
        metavar="FILE|DATASET",
        help="molecules or graphs of a file, or the test part of a data set (default: show the audit made after the training)",
    )
    parser.add_argument(
        "--other",
        metavar="RUN",
        help="result folder of another training run, whose masks are compared with those of RUN",
    )
    parser.add_argument(
        "--max-graphs", type=count, default=200, metavar="N", help="audit at most N graphs (default: 200)"
    )
    parser.add_argument("--smiles", metavar="COLUMN", help="column with the SMILES (default: detected)")
    parser.add_argument("--json", action="store_true", help="print all numbers as JSON")
    add_data_option(parser)
    parser.set_defaults(run=audit_command, workers=1)
    return [parser]


def audit_command(args) -> int:
    "Audit a run, and print the results; returns 0 if no test speaks against the mask, and 1 otherwise."
    from gib_nb.explain.audit import LEAST, Audit, audit
    from gib_nb.explain.molecule import load_run
    from gib_nb.report.audit import audit_text

    trainer = load_run(args.model)
    if args.file is None:
        record = trainer.record["metrics"].get("faithfulness")
        if args.other:
            raise argparse.ArgumentTypeError("expected --graphs with --other (got none)")
        if record is None:
            raise argparse.ArgumentTypeError(
                f"expected --graphs, since this run was not audited: fewer than {LEAST} of its graphs were held out (got none); "
                "give molecules or graphs that it was not trained on"
            )
        found = Audit.from_dict(record)
    else:
        graphs = audited_graphs(args, trainer)[: args.max_graphs]
        found = audit(trainer, graphs, other=None if args.other is None else load_run(args.other))
    print(json.dumps(found.to_dict(), indent=1) if args.json else audit_text(found))
    return 0 if found.faithful else 1


def audited_graphs(args, trainer) -> list:
    "The graphs of a file, or of the test part of a data set with the seed of the run."
    from gib_nb.cli.predict import check_features, read_inputs
    from gib_nb.data.datasets import load_dataset

    if not is_path(args.file):
        return list(load_dataset(args.file, args.data, seed=trainer.config.seed).test)
    source = trainer.record["metrics"].get("source") or {}
    graphs = read_inputs(args, bool(source.get("standardize"))).graphs
    check_features(trainer, graphs)
    return graphs
