"""What an audit of a mask found: as lines of text, and as a picture."""

from statistics import fmean

from gib_nb.report.figures import GRAY, ORANGE
from gib_nb.report.tables import align

MEANING = {
    "necessity": "cut the selection out",
    "sufficiency": "leave nothing else",
    "extension": "add half of the rest",
    "use": "ask the classifier alone",
}
HEADING = ["change of the prediction", "", "mask", "random", "better by"]


def audit_rows(
    found,  # `Audit`
) -> list[list[str]]:
    "Test, what is done, mean change by the mask and by a random one, and how much better the mask is."
    mean = lambda test, kind: f"{fmean(found.curves[test][kind].values()):.2f}"
    interval = lambda each: "{difference:+.2f} [{low:+.2f}, {high:+.2f}]".format(**each)
    return [
        [test, MEANING[test], mean(test, "mask"), mean(test, "random"), interval(each)]
        for test, each in found.differences.items()
    ]


def audit_text(
    found,  # `Audit`
) -> str:
    "The verdict, and the table of the tests."
    again, random = (found.consistency[kind] for kind in ("mask", "random"))
    lines = [
        f"audit on {found.graphs} graphs: {found.verdict}",
        "",
        align([HEADING, *audit_rows(found)]),
        "",
        f"of a selection, {again:.0%} is selected again in the better half of the graph (at random {random:.0%})",
        f"scores change by at most {found.permutation:.1e} when nodes are numbered anew",
    ]
    if found.mask_alone is not None:
        lines.append(
            "from masks without their graphs a random forest reads the predicted class in {accuracy:.0%} of them (the largest class: {constant:.0%})".format(
                **found.mask_alone
            )
        )
    if found.retrained is not None:
        lines.append(f"rank correlation with the scores of the other training: {found.retrained:.2f}")
    return "\n".join(lines)


def audit_figure(
    found,  # `Audit`
):  # plotly Figure
    "Change of the prediction against the fraction that is selected, for each test; the mask in orange, a random one in gray."
    from plotly.subplots import make_subplots

    titles = [f"{test}<br><sup>{MEANING[test]}</sup>" for test in found.curves]
    panels = make_subplots(1, len(titles), subplot_titles=titles, shared_yaxes=True, horizontal_spacing=0.03)
    for column, curves in enumerate(found.curves.values(), 1):
        for kind, color in (("random", GRAY), ("mask", ORANGE)):
            fractions, line = [float(each) for each in curves[kind]], {"color": color, "width": 2.5}
            trace = dict(x=fractions, y=list(curves[kind].values()), name=kind, line=line, mode="lines+markers")
            panels.add_scatter(**trace, showlegend=column == 1, row=1, col=column)
    panels.update_xaxes(title_text="fraction selected", rangemode="tozero", gridcolor="#eee", zeroline=False)
    panels.update_yaxes(rangemode="tozero", gridcolor="#eee")
    panels.update_yaxes(title_text="change of the prediction", col=1)
    panels.update_annotations(font_size=13)
    margin, legend = dict(l=55, r=10, t=50, b=70), dict(orientation="h", y=-0.35, x=0.5, xanchor="center")
    return panels.update_layout(template="none", height=300, margin=margin, legend=legend)
