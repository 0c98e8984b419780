"""All explorers: one `register` call puts one into the page, the command `python -m gib_nb.explorers`, the package's names, and the tests.

Nothing is imported here but the registry; a class is fetched from its module when it is first used.
"""

from ..utils.registry import Registry

EXPLORERS = Registry("explorer")  # name → class
TITLES = {}  # name → title of its tab on the page
QUESTIONS = {}  # name → the question that it answers
CLASSES = {}  # name of the class → name


def register(
    name: str,  # short, such as "beta"; also the name of its shipped result, if it has one
    title: str,  # of its tab
    where: str,  # "module:Class"
    question: str = "",  # one sentence: what can be found out with it
):
    "Add an explorer; ValueError for a name that is taken."
    EXPLORERS.register(name, where)
    TITLES[name], QUESTIONS[name], CLASSES[where.partition(":")[2]] = title, question, name


# in the order of the course
register("bits", "A bit", "gib_nb.explorers.bits:BitsExplorer", "How much information passes through a noisy channel?")
register(
    "information_bottleneck",
    "Classical bottleneck",
    "gib_nb.explorers.information_bottleneck:InformationBottleneckExplorer",
    "What does the best summary of a table keep at each β?",
)
register(
    "inner_steps",
    "T, inner steps",
    "gib_nb.explorers.inner_steps:InnerStepsExplorer",
    "How many training steps does the critic need?",
)
register(
    "case_study",
    "Case study",
    "gib_nb.explorers.case_study:CaseStudyExplorer",
    "Can information be minimized by following an estimate of it?",
)
register(
    "beta",
    "β",
    "gib_nb.explorers.beta:BetaExplorer",
    "How does the subgraph change with the weight of the information term?",
)
register(
    "connectivity",
    "Connectivity",
    "gib_nb.explorers.connectivity:ConnectivityExplorer",
    "Which subgraphs does the connectivity loss favor?",
)
register(
    "stability",
    "Stability",
    "gib_nb.explorers.stability:StabilityExplorer",
    "With which settings do all seeds find the motif?",
)
register(
    "molecule",
    "Molecules",
    "gib_nb.explorers.molecule:MoleculeExplorer",
    "Which atoms does a prediction depend on, and is their fragment like the whole molecule?",
)
register(
    "edges", "Real bonds", "gib_nb.explorers.edges:EdgesExplorer", "Which edges of a noisy molecule are real bonds?"
)
register(
    "model_selection",
    "Model selection",
    "gib_nb.explorers.model_selection:ModelSelectionExplorer",
    "How good does the best of several equally good methods look?",
)
register(
    "cheating",
    "A mask that cheats",
    "gib_nb.explorers.cheating:CheatingExplorer",
    "Which tests detect a mask that hides the label?",
)
