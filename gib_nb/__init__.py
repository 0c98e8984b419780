"""Learn and use the graph information bottleneck in Jupyter.

Importing the package loads no large library: a public name is imported from its module when it is first used.
"""

import sys

__version__ = "0.1.0"

_PUBLIC = {
    "information.exact": (
        "entropy",
        "kl_divergence",
        "mutual_information",
        "gaussian_mutual_information",
        "sign_channel_mutual_information",
        "information_bottleneck",
    ),
    "information.bounds": ("dv_bound",),
    "information.critic": ("MemoryBank", "InnerLoop", "StatisticsNetwork"),
    "information.critic_estimate": ("critic_estimate", "CriticEstimate"),
    "information.estimate": ("estimate_mi", "conditional_mi", "MIEstimate"),
    "information.enumerate": ("enumerable_graph_channel",),
    "information.case_study": ("CaseStudy",),
    "utils.drawing": ("Drawing", "draw_grid"),
    "chem.smiles": ("molecule_to_data",),
    "chem.fragments": ("cut_fragment",),
    "chem.properties": ("property_oracle",),
    "chem.draw": ("draw_molecule",),
    "chem.rationales": ("rationales", "Rationales"),
    "data.graph_dataset": ("GraphDataset",),
    "data.synthetic": ("motif_dataset", "to_line_graph"),
    "data.datasets": ("load_dataset", "denoising_dataset"),
    "nn.backbones": ("make_backbone", "readout", "GraphClassifier"),
    "nn.connectivity": ("connectivity_loss", "num_connected_components", "largest_component_mask"),
    "nn.gib": ("GIB", "GIBOutput"),
    "nn.classifiers": ("ReencodingGIB", "PostHocGIB"),
    "train.parts": (
        "Encoder",
        "NodeMask",
        "EdgeMask",
        "Pooled",
        "Noisy",
        "Prototypes",
        "Shared",
        "Reencode",
        "Frozen",
        "Critic",
        "Prior",
        "Noise",
        "Pretrain",
        "Bottleneck",
        "Finetune",
        "Optim",
    ),
    "train.config": ("configure",),
    "train.recipes": ("GIBConfig", "recipe"),  # which give the class its method `recipe`
    "train.callbacks": ("Callback",),
    "train.loggers": ("CSVLogger", "TensorBoardLogger"),
    "train.trainer": ("GIBTrainer",),
    "train.ensemble": ("GIBEnsemble",),
    "train.estimators": ("GIBClassifier", "GIBRegressor"),
    "train.classifier_trainer": ("ClassifierTrainer",),
    "train.predictions": ("Predictions", "SubgraphExplanation"),
    "explain.metrics": ("edge_auc",),
    "explain.attention": ("TopKAttentionExplainer",),
    "explain.molecule": ("explain_smiles", "shipped_model", "MoleculeExplanation"),
    "explain.audit": ("audit",),
    "explain.pyg": ("GIBExplainer", "GraphPredictor"),
    "report.evaluate": ("evaluate",),
    "report.folder": ("write_report",),
    "report.figures": ("draw_graph", "history_figure"),
}
_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names}
__all__ = ["__version__", *_MODULE_OF]


def __getattr__(name):
    import importlib

    if name not in _MODULE_OF:
        raise AttributeError(f"module 'gib_nb' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"gib_nb.{_MODULE_OF[name]}"), name)
    except ModuleNotFoundError as error:
        from .utils.missing import missing

        words = missing((error.name or "").partition(".")[0])
        raise ModuleNotFoundError(f"{error}. {words}" if words else str(error), name=error.name) from error


def __dir__():
    return sorted(__all__)


if sys.platform == "emscripten":  # a page that runs Python in the browser
    from .explorers.browser import draw_figures

    draw_figures()
