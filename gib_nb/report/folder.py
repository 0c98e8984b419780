"""The folder of a run: the model, its numbers, a report to read, and the rows of a file that cannot be used."""

import pathlib

from gib_nb.report.run import plain_json, run_metrics
from gib_nb.report.run_html import report_html
from gib_nb.utils.files import environment, write_atomically, write_json
from gib_nb.utils.text import label_text


def write_report(
    trainer,  # fitted `GIBTrainer` or `GIBEnsemble`
    data,  # `GraphDataset` it was trained on, with test graphs
    folder,  # which is made; what is in it is replaced
    compare: bool = True,  # with a random forest, for molecules, and with the same network without a bottleneck
    progress: bool = True,  # say what is computed
) -> pathlib.Path:  # of report.html
    "Write what `gib-nb train` writes: report.html, metrics.json, the model, and rejected.csv for a file with rows that cannot be used. `gib-nb predict`, `explain` and `app` take the folder as --model."
    if not len(data.test):
        raise ValueError(f"expected a data set with test graphs (got {len(data)} graphs, none for the test)")
    folder, say = pathlib.Path(folder), (lambda text: print(f"comparing: {text}", flush=True)) if progress else str
    trainer.save(folder)
    if getattr(data.source, "rejected", None):
        from gib_nb.data.files import write_rejected

        write_rejected(folder / "rejected.csv", data.source)
    metrics = run_record(trainer, data, compare, say)
    write_results(folder, trainer, data, metrics, metrics)
    return folder / "report.html"


def run_record(
    trainer,  # fitted
    data,  # `GraphDataset`
    compare: bool,  # also with models that have to be trained
    report=str,  # is told what begins
    standardize: bool = False,  # whether molecules were standardized when they were read
    **more,  # what is known of the training besides, such as seconds
) -> dict:  # plain JSON
    "All that a report says of a run, as metrics.json keeps it."
    from gib_nb.train.config import config_to_dict

    members, config = getattr(trainer, "members", [trainer]), trainer.config
    return plain_json(
        {
            "data": data.summary(),
            "task": data.task,
            "seed": config.seed,
            "source": source_record(data.source, standardize),
            **run_metrics(trainer, data, networks=compare, report=report),
            "ensemble": len(members) if hasattr(trainer, "members") else None,
            "epochs": sum(len(member.history["epochs"]) for member in members),
            "attempts": [attempt for member in members for attempt in member.history["attempts"]],
            "seconds": None,
            "resumed": False,
            "examples": example_molecules(data),
            "config": config_to_dict(config),
            **environment(config.device),
            **more,
        }
    )


def example_molecules(data, number: int = 12) -> list:
    "The first molecules of the test part with their labels as text, for those who look at the model later; [] for other graphs."
    names = lambda y: y if data.classes is None or y != y else data.classes[int(y)]
    found = {}
    for graph, y in zip(data.test, data.labels[data.split["test"]].tolist()):
        if graph.get("smiles") and len(found) < number:
            found.setdefault(graph.smiles, label_text([names(each) for each in y] if isinstance(y, list) else names(y)))
    return list(map(list, found.items()))


def source_record(source, standardize: bool) -> dict | None:
    "What became of a file, as JSON; None for a data set by name."
    if source is None:
        return None
    return {
        "file": str(source.path),
        "smiles": source.smiles_column,
        "targets": source.target_columns,
        "rejected": len(source.rejected),
        "duplicates": source.duplicates,
        "conflicts": len(source.conflicts),
        "standardize": standardize,
    }


def write_results(folder: pathlib.Path, trainer, data, metrics: dict, found: dict, folds=()):
    "Write the report, then metrics.json, which says that the run is finished."
    write_atomically(folder / "report.html", report_html(trainer, data, metrics, folds).encode())
    write_json(folder / "metrics.json", found)
