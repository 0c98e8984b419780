"""What a page that runs Python in the browser does not have: some libraries, and threads."""

import functools
import importlib.util
import threading

INSTALL = "https://github.com/gib-nb/gib-nb#install"
TITLES = {"torch": "PyTorch", "torch_geometric": "PyTorch Geometric", "rdkit": "RDKit"}


def missing(
    *libraries,  # names of packages as they are imported, such as "torch"
) -> str:
    "A sentence with the libraries that cannot be imported, and where to get them; empty if all can be."
    names = [TITLES.get(name, name) for name in libraries if importlib.util.find_spec(name) is None]
    if not names:
        return ""
    listed = ", ".join(names[:-2] + [f"{',' if len(names) > 2 else ''} and ".join(names[-2:])])
    return f"This needs {listed}, which cannot be imported here. To use it, install gib_nb on a computer: {INSTALL}"


@functools.cache
def has_threads() -> bool:
    "Whether a thread can be started here."
    try:
        threading.Thread(target=int).start()
    except RuntimeError:
        return False
    return True
