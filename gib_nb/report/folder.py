"""The result folder of a run: the model, its metrics, an HTML report, and the rows of a file that cannot be used."""

import pathlib

from gib_nb.report.run import plain_json, run_metrics
from gib_nb.report.run_html import report_html
from gib_nb.utils.files import environment, write_atomically, write_json
from gib_nb.utils.text import label_text


def write_report(
    trainer,  # fitted `GIBTrainer` or `GIBEnsemble`
    data,  # `GraphDataset` it was trained on, with test graphs
    folder,  # created if needed; results in it are replaced
    compare: bool = True,  # with the same network without a bottleneck and, for molecules, with a random forest
    progress: bool = True,  # print what is being computed
) -> pathlib.Path:  # of report.html
    "Write the result folder of `gib-nb train`: report.html, metrics.json, the model, and rejected.csv if a file has rows that cannot be used. `gib-nb predict`, `explain`, and `app` accept the folder as --model."
    if not len(data.test):
        raise ValueError(f"expected a data set with test graphs (got {len(data)} graphs, none for testing)")
    folder, say = (
        pathlib.Path(folder),
        (lambda text: print(f"training a baseline: {text}", flush=True)) if progress else str,
    )
    trainer.save(folder)
    (folder / "rejected.csv").unlink(missing_ok=True)  # of an earlier run
    if getattr(data.source, "rejected", None):
        from gib_nb.data.files import write_rejected

        write_rejected(folder / "rejected.csv", data.source)
    metrics = run_record(trainer, data, compare, say, progress)
    write_results(folder, trainer, data, metrics, metrics)
    return folder / "report.html"


def run_record(
    trainer,  # fitted
    data,  # `GraphDataset`
    compare: bool,  # also with a random forest and with a network without a bottleneck
    report=str,  # called with the name of each baseline before it is trained
    progress: bool = False,  # show a progress bar for the network
    **more,  # further entries about the training, such as seconds
) -> dict:  # plain JSON
    "The record of a run, from which its report is made and which metrics.json holds."
    from gib_nb.train.config import config_to_dict

    members, config = getattr(trainer, "members", [trainer]), trainer.config
    return plain_json(
        {
            "data": data.summary(),
            "task": data.task,
            "seed": config.seed,
            "source": source_record(data.source),
            **run_metrics(trainer, data, networks=compare, report=report, progress=progress),
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
    "The first test molecules with their labels as text, as examples for later use of the model; [] for other graphs."
    names = lambda y: y if data.classes is None or y != y else data.classes[int(y)]
    found = {}
    for graph, y in zip(data.test, data.labels[data.split["test"]].tolist()):
        if graph.get("smiles") and len(found) < number:
            found.setdefault(graph.smiles, label_text([names(each) for each in y] if isinstance(y, list) else names(y)))
    return list(map(list, found.items()))


def source_record(source) -> dict | None:
    "How a file was read, as JSON; None for a data set that was chosen by name."
    if source is None:
        return None
    return {
        "file": str(source.path),
        "smiles": source.smiles_column,
        "targets": source.target_columns,
        "rejected": len(source.rejected),
        "duplicates": source.duplicates,
        "conflicts": len(source.conflicts),
        "standardize": source.standardized,
    }


def write_results(folder: pathlib.Path, trainer, data, metrics: dict, found: dict, folds=()):
    "Write the report, then metrics.json, which marks the run as finished."
    write_atomically(folder / "report.html", report_html(trainer, data, metrics, folds).encode())
    write_json(folder / "metrics.json", found)
