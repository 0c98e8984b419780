"""What the outputs of a committed notebook say about figures and explorers."""

import ast
import importlib
import re

PLOTLY = "application/vnd.plotly.v1+json"


def explorer_of(text, source):
    'The explorer that an output shows, from how it prints, such as "BetaExplorer(beta=0.1): run the cell …", and the source of its cell; None for other outputs, and for a model that was trained in the notebook.'
    if not re.match(r"\w+Explorer\(.*\)(: run the cell|$)", text, re.S):
        return None
    call = ast.parse(re.split(r": run the cell|\.select\(", text)[0], mode="eval").body
    if "model" in {keyword.arg for keyword in call.keywords}:
        return None
    explorer = getattr(importlib.import_module("gib_nb.explorers"), call.func.id)(**_keywords(call))
    if only := re.search(r"\.(select\([^)]*\))", source):
        shown = ast.parse(only[1], mode="eval").body
        explorer.select(*map(ast.literal_eval, shown.args), **_keywords(shown))
    return explorer


def _keywords(call):
    return {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
