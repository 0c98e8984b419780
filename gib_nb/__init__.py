"""Learn and use the graph information bottleneck in Jupyter.

Importing the package loads nothing heavy: a public name is fetched from its room when it is first used.
"""
__version__ = "0.1.0"

_PUBLIC = {
    "information": ("entropy", "kl_divergence", "mutual_information", "gaussian_mutual_information",
                    "sign_channel_mutual_information", "information_bottleneck"),
    "mi": ("dv_loss", "estimate_mi", "graph_task", "EmbeddingBank", "InnerLoop", "MIEstimate", "StatisticsNetwork"),
    "case_study": ("CaseStudy",),
    "data": ("load_dataset", "motif_dataset", "denoising_dataset", "to_line_graph", "GraphDataset"),
    "drawings": ("Drawing", "draw_grid"),
    "molecules": ("molecule_to_data", "cut_fragment", "property_oracle", "draw_molecule"),
    "backbones": ("make_backbone", "readout", "GraphClassifier"),
    "connectivity": ("connectivity_loss", "components", "largest_component"),
    "model": ("GIB", "GIBOutput"),
    "masked": ("EncodeAgainGIB", "PostHocGIB"),
    "trainer": ("GIBConfig", "GIBTrainer", "history_figure"),
    "explain": ("explain_smiles", "edge_auc", "shipped_model", "MoleculeExplanation"),
    "explainer": ("GIBExplainer", "GraphPredictor"),
    "baselines": ("NetworkTrainer", "TopAttention"),
    "comparison": ("apart_config",),
    "plots": ("draw_graph",),
}
_ROOM_OF = {name: room for room, names in _PUBLIC.items() for name in names}
__all__ = ["__version__", *_ROOM_OF]


def __getattr__(name):
    import importlib
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'gib_nb' has no attribute {name!r}")
    return getattr(importlib.import_module(f"gib_nb.{_ROOM_OF[name]}"), name)


def __dir__():
    return sorted(__all__)
