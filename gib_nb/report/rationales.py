"""The fragments that are best for a predictor, as rows of a table and as an HTML page."""

from gib_nb.report import html

RATIONALE_COLUMNS = (
    "line",
    "smiles",
    "prediction",
    "rank",
    "fragment",
    "pattern",
    "atoms",
    "value",
    "exact",
    "calls",
    "reason",
)


def rationale_rows(
    line: int,  # its number in the file, from 1
    smiles: str,
    found,  # `Rationales`, or None
    reason: str | None,  # why there are none
) -> list[list]:
    "The values of `RATIONALE_COLUMNS` for each fragment of a molecule, or one row with the reason why there is none."
    if found is None:
        return [[line, smiles, *[""] * 8, reason]]
    whole = [line, smiles, f"{found.value:.6g}"]
    searched = ["yes" if found.exact else "no", found.calls]
    if not found.best:
        reason = f"no fragment has at most {found.max_atoms} atoms"
        return [[*whole, *[""] * 5, *searched, reason]]
    return [
        [*whole, rank, r.fragment.smiles, r.fragment.pattern, len(r.fragment.atoms), f"{r.value:.6g}", *searched, ""]
        for rank, r in enumerate(found, 1)
    ]


def rationales_html(
    predictor: str,
    found,  # (line, SMILES, Rationales or None, reason or None)
    max_drawn: int = 100,  # draw the fragments of at most this many molecules
) -> str:  # a complete HTML document
    "A page with pictures of the fragments of each molecule and a table of all lines."
    from gib_nb.chem.draw import draw_molecule

    body, rows, drawn = [], [], 0
    for line, smiles, rationales, reason in found:
        rows += rationale_rows(line, smiles, rationales, reason)
        if rationales is None or drawn == max_drawn:
            continue
        drawn += 1
        pictures = [
            html.picture(
                draw_molecule(smiles, fragment=r.fragment, size=(280, 220)),
                [f"fragment: {r.fragment.smiles}", f"value {r.value:.3f}, {len(r.fragment.atoms)} atoms"],
            )
            for r in rationales
        ]
        body += [
            f"<h2>Line {line}: predicted {rationales.value:.3f}</h2>",
            html.paragraph(f"{smiles}: {rationales.certificate}."),
            html.gallery(pictures),
        ]
    head = [
        "<h1>Fragments that keep the prediction</h1>",
        html.paragraph(
            f"Predicted by {predictor}. The value of a fragment is the prediction for the fragment as a molecule of its "
            "own, with hydrogens where bonds were cut."
        ),
        html.paragraph(f"Only the first {max_drawn} molecules are drawn.") if drawn == max_drawn else "",
    ]
    return html.page(
        "gib-nb: fragments",
        "\n".join([*head, *body, "<h2>Table of all lines</h2>", html.table(rows, RATIONALE_COLUMNS)]),
    )
