"""Explorers: sliders, figures, and training, in a notebook, in a browser page, and as one HTML file.

`registry` lists them. Each is fetched from its module when it is first used.
"""

from .registry import CLASSES, EXPLORERS

_OTHERS = {"Explorer": "explorer", "Control": "control"}  # public name → module
__all__ = [*CLASSES, *_OTHERS]


def __getattr__(name):
    import importlib

    if name in CLASSES:
        return EXPLORERS[CLASSES[name]]
    if name in _OTHERS:
        return getattr(importlib.import_module(f"gib_nb.explorers.{_OTHERS[name]}"), name)
    raise AttributeError(f"module 'gib_nb.explorers' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
