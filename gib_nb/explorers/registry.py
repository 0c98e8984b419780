"""All explorers: one `register` call puts one into the page, the command `python -m gib_nb.explorers`, the package's names and the tests.

Nothing is imported here but the registry; a class is fetched from its module when it is first used.
"""

from ..utils.registry import Registry

EXPLORERS = Registry("explorer")  # name → class
TITLES = {}  # name → title of its tab on the page
CLASSES = {}  # name of the class → name


def register(
    name: str,  # short, such as "beta"; also the name of its shipped result, where it has one
    title: str,  # of its tab
    where: str,  # "module:Class"
):
    "Add an explorer; ValueError for a name that is taken."
    EXPLORERS.register(name, where)
    TITLES[name], CLASSES[where.partition(":")[2]] = title, name


register("beta", "β", "gib_nb.explorers.beta:BetaExplorer")
register("inner_steps", "T, inner steps", "gib_nb.explorers.inner_steps:InnerStepsExplorer")
register("case_study", "Case study", "gib_nb.explorers.case_study:CaseStudyExplorer")
register("connectivity", "Connectivity", "gib_nb.explorers.connectivity:ConnectivityExplorer")
register(
    "information_bottleneck",
    "Classical bottleneck",
    "gib_nb.explorers.information_bottleneck:InformationBottleneckExplorer",
)
register("molecule", "Molecules", "gib_nb.explorers.molecule:MoleculeExplorer")
register("stability", "Stability", "gib_nb.explorers.stability:StabilityExplorer")
register("bits", "A bit", "gib_nb.explorers.bits:BitsExplorer")
register("edges", "Real bonds", "gib_nb.explorers.edges:EdgesExplorer")
register("model_selection", "Model selection", "gib_nb.explorers.model_selection:ModelSelectionExplorer")
register("cheating", "A mask that cheats", "gib_nb.explorers.cheating:CheatingExplorer")
