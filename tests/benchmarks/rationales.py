"""Fragments that keep a prediction: our search against the published Monte Carlo tree search, with the same predictor and the same number of calls; and 100,000 fragments in a row."""

import itertools
import time

import numpy as np

from gib_nb.chem.properties import property_oracle
from gib_nb.chem.rationales import FragmentScores, Pieces, beam_search, rationales, tree_search
from gib_nb.chem.smiles import read_molecule
from gib_nb.data.datasets import read_smiles

THRESHOLD = 0.5  # probability of a rationale, as in chemprop's example
UNLIMITED = 10**9


def best(scores: dict, least: float) -> tuple | None:
    "(atoms, −value) of the smallest fragment with a value of at least `least`, of equal ones the best."
    good = [(len(atoms), -value) for atoms, value in scores.items() if value >= least - 1e-9]
    return min(good, default=None)


def compare(smiles: str, f) -> dict:
    "Sizes of the smallest fragments found for one molecule; None where none was found."
    mol = read_molecule(smiles)
    pieces = Pieces(mol)
    published = FragmentScores(mol, pieces, f, "high", UNLIMITED)
    tree_search(pieces, published)
    budget = len(published.values)
    found = best(published.found(), THRESHOLD)
    least = THRESHOLD if found is None else -found[1]  # compare at the score that was published
    beam = FragmentScores(mol, pieces, f, "high", budget)
    beam_search(pieces, beam)
    opened = {n: rationales(mol, f, goal="high", open_rings=True, budget=n * budget, search="beam") for n in (1, 4)}
    exact = rationales(mol, f, goal="high", budget=20_000)
    return {
        "smiles": smiles,
        "atoms": mol.GetNumAtoms(),
        "calls": budget,
        "fragments": len(exact.values) if exact.exact else None,
        "tree": found and found[0],
        "beam": (best(beam.found(), THRESHOLD) or (None,))[0],
        "beam_at_the_same_score": (best(beam.found(), least) or (None,))[0],
        "open_rings": (best(opened[1].values, THRESHOLD) or (None,))[0],
        "open_rings_4": (best(opened[4].values, THRESHOLD) or (None,))[0],
        "bound": (best(exact.values, THRESHOLD) or (None,))[0] if exact.exact else None,
        "bound_at_the_same_score": (best(exact.values, least) or (None,))[0] if exact.exact else None,
    }


def shares(rows: list[dict], ours: str, other: str) -> dict:
    "How often ours is smaller, equal, or larger; a search that found nothing is larger."
    size = lambda value: UNLIMITED if value is None else value
    sign = np.array([np.sign(size(row[ours]) - size(row[other])) for row in rows])
    return {name: float((sign == value).mean()) for name, value in (("smaller", -1), ("equal", 0), ("larger", 1))}


def many_fragments(smiles: list, f, number: int = 100_000) -> dict:
    "Score so many fragments, with all rings open, one molecule after the other."
    start, scored, calls, molecules = time.perf_counter(), 0, 0, 0
    for text in itertools.takewhile(lambda _: scored < number, smiles):
        found = rationales(text, f, goal="high", open_rings=True, budget=20_000)
        scored, calls, molecules = scored + len(found.values), calls + found.calls, molecules + 1
    return {"molecules": molecules, "fragments": scored, "calls": calls, "seconds": round(time.perf_counter() - start)}


def run(number: int = 200, seed: int = 0) -> dict:
    smiles, values = read_smiles("DRD2")
    binders = np.array(smiles)[np.asarray(values) >= THRESHOLD]
    chosen = np.random.default_rng(seed).choice(binders, number, replace=False).tolist()
    f = property_oracle("DRD2")
    rows = [compare(text, f) for text in chosen]
    known = [row for row in rows if row["fragments"] is not None]
    return {
        "molecules": len(rows),
        "calls": {
            name: float(np.quantile([row["calls"] for row in rows], q)) for name, q in (("median", 0.5), ("90%", 0.9))
        },
        "fragments": {q: float(np.quantile([row["fragments"] for row in known], q)) for q in (0.5, 0.9)},
        "enumerated": len(known) / len(rows),
        "tree found none": float(np.mean([row["tree"] is None for row in rows])),
        "beam and tree, probability 0.5": shares(rows, "beam", "tree"),
        "beam and tree, at the score of the tree": shares(rows, "beam_at_the_same_score", "tree"),
        "beam with open rings and tree": shares(rows, "open_rings", "tree"),
        "beam with open rings, four times the calls, and tree": shares(rows, "open_rings_4", "tree"),
        "beam and bound": shares(known, "beam", "bound"),
        "beam and bound, at the score of the tree": shares(known, "beam_at_the_same_score", "bound_at_the_same_score"),
        "tree and bound": shares(known, "tree", "bound"),
        "many": many_fragments(chosen, f),
        "rows": rows,
    }
