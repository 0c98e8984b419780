"""`python -m tests.benchmarks [name ...]`: run the benchmarks and write tests/benchmarks/results/NAME.json."""

import importlib
import sys
import time

from .common import write

NAMES = (
    "case_study",
    "estimator",
    "mutual_information",
    "motif",
    "mutag",
    "cost",
    "methods",
    "explaining",
    "rationales",
    "sweeping",
    "threads",
    "explorers",
    "visitors",
    "in_browser",
)

for name in sys.argv[1:] or NAMES:
    if name not in NAMES:
        sys.exit(f"expected benchmarks among {', '.join(NAMES)} (got {name})")
    start = time.time()
    result = importlib.import_module(f"tests.benchmarks.{name}").run()
    write(name, result | {"seconds": round(time.time() - start)})
    print(f"{name}: {time.time() - start:.0f} s", flush=True)
