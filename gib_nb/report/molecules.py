"""Explanations of molecules as rows of a table and as an HTML page."""

from gib_nb.explain.molecule import fragment_text, worth_rows
from gib_nb.report import html
from gib_nb.utils.text import label_text

# in the order of a table; `gib_nb.report.evaluate.COLUMNS` explains them
MOLECULE_COLUMNS = (
    "line",
    "smiles",
    "prediction",
    "fragment",
    "pattern",
    "fragment_fraction",
    "components",
    "others",
    "reason",
    "model",
)


def molecule_row(
    line: int,  # its number in the file, from 1
    smiles: str,
    explanation,  # `MoleculeExplanation`, or None
    reason,  # why there is no explanation, or no fragment; None if there are both
) -> list:
    "The values of `MOLECULE_COLUMNS` for one record."
    e = explanation
    if e is None:
        return [line, smiles, *[""] * 6, reason, ""]
    return [
        line,
        smiles,
        label_text(e.prediction, 6),
        e.fragment.smiles or "",
        e.fragment.pattern or "",
        f"{e.fragment_fraction:.4f}",
        e.components,
        ".".join(e.others),
        reason or "",
        e.model.fingerprint,
    ]


def components_text(count: int) -> str:
    "The number of connected components as text."
    return f"{count} connected component{'' if count == 1 else 's'}"


def molecule_figure(
    explanation,  # `MoleculeExplanation`
    label: str | None = None,  # first line of the caption
) -> str:  # HTML
    "A molecule for a gallery, with its prediction, its fragment, and their values."
    e = explanation
    lines = [label] if label else []
    lines += [
        f"molecule: {e.smiles}",
        f"fragment: {fragment_text(e.fragment) if e.fragment.smiles else f'none: {e.fragment.reason}'}",
        f"{len(e.fragment.atoms)} of {len(e.weights)} atoms in the fragment; subgraph with {components_text(e.components)}"
        if len(e.fragment.atoms)
        else f"no atom is selected, of {len(e.weights)}",
    ]
    if e.others:
        lines.append(f"also selected: {', '.join(e.others)}")
    if e.oracle:
        value = "none" if e.fragment_value is None else f"{e.fragment_value:.3f}"
        lines.append(f"{e.oracle}: molecule {e.value:.3f}, fragment {value}")
    lines += [f"{name}: {text}" for name, text in worth_rows(e) if name in ("bias", "verdict")]  # the model is above
    return html.picture(e.svg(), lines)


def explanations_html(
    found,  # (line, SMILES, MoleculeExplanation or None, reason or None), as from `explain_records`
    warnings=(),  # sentences about the model, shown at the top
    max_drawn: int = 200,  # draw at most this many molecules
) -> str:  # a complete HTML document
    "A page that names the model and its scores, with pictures of the molecules and a table of all lines."
    figures, rows, models = [], [], {}
    for line, smiles, e, reason in found:
        rows.append(molecule_row(line, smiles, e, reason))
        models |= {} if e is None else {str(e.model): None}
        if e is not None and len(figures) < max_drawn:
            figures.append(molecule_figure(e, f"line {line}: predicted {label_text(e.prediction)}"))
    body = [
        "<h1>Fragments that carry the prediction</h1>",
        *(html.paragraph(f"Explained by {model}.", "model") for model in models),
        *map(html.warning, warnings),
        html.legend(True, False),
        html.paragraph(f"Only the first {max_drawn} molecules are drawn.") if len(figures) == max_drawn else "",
        html.gallery(figures),
        "<h2>Table of all lines</h2>",
        html.table(rows, MOLECULE_COLUMNS),
    ]
    return html.page("gib-nb: molecules", "\n".join(body))
