"""The results of an audit as text and as a figure."""

from statistics import fmean

from gib_nb.report.figures import GRAY, ORANGE
from gib_nb.report.tables import align

MEANING = {
    "necessity": "cut the selection out",
    "sufficiency": "keep only the selection",
    "extension": "add half of the rest",
    "use": "run the classifier alone",
    "together": "necessity and sufficiency, added up",
}
HEADING = ["change of the prediction", "", "mask", "random", "difference"]


def audit_rows(
    found,  # `Audit`
) -> list[list[str]]:
    "For each test its name, what is done, the mean change with the mask and with a random one, and how much better the mask is; for use, how often the two differ."
    mean = lambda test, kind: f"{fmean(found.curves[test][kind].values()):.2f}" if test in found.curves else ""
    interval = lambda each: "{difference:+.2f} [{low:+.2f}, {high:+.2f}]".format(**each)
    return [
        [test, MEANING[test], mean(test, "mask"), mean(test, "random"), interval(each)]
        for test, each in found.differences.items()
    ]


def audit_text(
    found,  # `Audit`
) -> str:
    "The verdict, the table of the tests, and further results."
    again, random = (found.consistency[kind] for kind in ("mask", "random"))
    lines = [
        f"audit on {found.graphs} graphs: {found.verdict}",
        "",
        align([HEADING, *audit_rows(found)]),
        "",
        f"When only the top-scoring half of each graph is kept and the model runs again, it selects {again:.0%} of the same nodes or edges again (random: {random:.0%}).",
        f"Scores change by at most {found.permutation:.1e} when the nodes are renumbered.",
    ]
    if found.mask_alone is not None:
        lines.append(
            "A random forest identifies the predicted class from the masks alone, without the graphs, with an accuracy of {accuracy:.0%} (largest class: {constant:.0%}).".format(
                **found.mask_alone
            )
        )
    if found.retrained is not None:
        lines.append(f"The rank correlation with the scores of the other training run is {found.retrained:.2f}.")
    return "\n".join(lines)


def audit_figure(
    found,  # `Audit`
):  # plotly Figure
    "The change of the prediction against the selected fraction, for each test; the mask is orange, a random mask gray."
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
