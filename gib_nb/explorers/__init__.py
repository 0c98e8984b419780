"""Explorers: sliders, figures and training, in a notebook, in a browser page, and as one HTML file.

Each explorer is fetched from its room when it is first used.
"""
_ROOM_OF = {
    "BetaExplorer": "beta",
    "InnerStepsExplorer": "inner_steps",
    "CaseStudyExplorer": "case_study",
    "ConnectivityExplorer": "connectivity",
    "InformationBottleneckExplorer": "information_bottleneck",
    "MoleculeExplorer": "molecule",
    "StabilityExplorer": "stability",
    "BitsExplorer": "bits",
    "EdgesExplorer": "edges",
    "LuckExplorer": "luck",
    "Explorer": "base",
    "Control": "base",
    "page": "app",
}
__all__ = list(_ROOM_OF)


def __getattr__(name):
    import importlib
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'gib_nb.explorers' has no attribute {name!r}")
    return getattr(importlib.import_module(f"gib_nb.explorers.{_ROOM_OF[name]}"), name)


def __dir__():
    return sorted(__all__)
