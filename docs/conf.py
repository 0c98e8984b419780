"""Sphinx: notebooks by MyST-NB, formulae as MathML, nothing from the network."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

project, author, copyright = "gib_nb", "gib-nb developers", "2026 onwards, gib-nb developers"
extensions = ["myst_nb", "mathml"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
nb_execution_mode = "off"
nb_merge_streams = True
nb_mime_priority_overrides = [("html", "text/html", 10), ("html", "image/svg+xml", 20), ("html", "image/png", 30)]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "attrs_inline"]
myst_dmath_double_inline = True  # $$ within a paragraph, as Jupyter allows it
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # lessons have headings of one level below their title
html_theme = "furo"
html_title = "gib_nb"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["gib.css"]
html_js_files = [("plotly.min.js", {"priority": 100}), "frames.js"]
html_extra_path = ["extra"]
html_show_sourcelink = False
html_copy_source = False


def hide_answers(app, doctree):
    "Answers to the exercises are not found by searching."
    if app.env.docname.startswith("nbs/exercises/"):
        app.env.metadata[app.env.docname]["nosearch"] = True


def setup(app):
    app.connect("doctree-read", hide_answers)
