"""Shared by several commands: the parser, types of options, workers, and output files that appear only when complete."""

import argparse
import contextlib
import os
import pathlib
import sys

PLAIN = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
CHECKPOINT = "checkpoint.safetensors"  # of an interrupted training, in its result folder


class Parser(argparse.ArgumentParser):
    "A parser that prints an error on one line."

    def error(self, message):
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


class Renamed(argparse.Action):
    "An option of earlier versions; using it is an error that names the present option."

    def __init__(self, option_strings, dest, new, **settings):
        super().__init__(option_strings, dest, nargs="*", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        self.new = new

    def __call__(self, parser, namespace, values, option_string=None):
        parser.error(f"expected {self.new} (got {option_string}, its former name)")


def add_renamed(parser, renamed: dict[str, str]):
    "Add former options, each with the option that has replaced it."
    for old, new in renamed.items():
        parser.add_argument(old, action=Renamed, new=new)


def count(text: str) -> int:
    "An integer ≥ 1 as an option; ArgumentTypeError for another text."
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected an integer ≥ 1 (got {text})")
    return int(text)


def probability(text: str) -> float:
    "A number ≥ 0 and < 1 as an option; ArgumentTypeError or ValueError for another text."
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"expected a number ≥ 0 and < 1 (got {text})")
    return value


def add_data_option(parser):
    "Add the option for the folder of published data."
    parser.add_argument(
        "--data", metavar="DIR", help="folder with published data sets (default: the environment variable GIB_NB_DATA)"
    )


def add_worker_options(parser):
    "Add the options for the number of processes and for a cluster."
    parser.add_argument("--jobs", type=int, metavar="N", help="number of processes, -1 for all cores (default: 1)")
    parser.add_argument(
        "--dask", metavar="ADDRESS", help="address of the scheduler of a Dask cluster, whose workers do the work"
    )


@contextlib.contextmanager
def workers(args):
    "A context in which joblib's tasks run on the Dask cluster at --dask, if one is given."
    if args.dask is None:
        yield
        return
    try:
        from dask.distributed import Client
    except ImportError:
        raise OSError("expected Dask for --dask; install it with: pip install 'gib-nb[cluster]'") from None
    from joblib import parallel_config

    with Client(args.dask) as client, parallel_config("dask", client=client):
        yield


def report_progress(text: str, args):
    "Print a line on the standard error, unless --no-progress was given."
    if args.progress:
        print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def output(path):
    "A text file that appears under its name only when it is complete; the standard output for None."
    if path is None:
        yield sys.stdout
        return
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with open(part, "w", encoding="utf-8", newline="") as file:
            yield file
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def report_skipped(file, explained: int, total: int, why: str):
    "Report how many lines were skipped; ValueError if all of them were."
    if not explained:
        raise ValueError(
            f"expected at least one molecule that can be explained in {file} "
            f"(got none in {total:,} line{'s'[: total > 1]}: {why})"
        )
    if explained < total:
        print(f"explained {explained:,} of {total:,} lines; {total - explained:,} skipped: {why}", file=sys.stderr)


class Tally:
    "Records from `explain_records`, counted as they pass."

    def __init__(self, found):
        self.found, self.total, self.explained, self.empty, self.first = found, 0, 0, 0, None

    def __iter__(self):
        for self.total, (line, smiles, e, reason) in enumerate(self.found, 1):
            self.explained += e is not None
            self.empty += e is None and not smiles
            if e is None and smiles and self.first is None:
                short = reason if len(reason) < 300 else f"{reason[:150]} … {reason[-150:]}"
                self.first = f"line {line}: {short}"
            yield line, smiles, e, reason

    def why(self) -> str:
        "Why lines were skipped, as text."
        broken = self.total - self.explained - self.empty
        parts = [f"{self.empty:,} empty"] if self.empty else []
        return "; ".join(parts + ([f"{broken:,} without a molecule, the first is {self.first}"] if broken else []))
