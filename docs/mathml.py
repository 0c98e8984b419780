"""LaTeX to MathML with docutils: browsers show it without a script."""

import re

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

SIGNS = {
    "·": r"\cdot ",
    "≈": r"\approx ",
    "½": r"\frac{1}{2}",
    "¼": r"\frac{1}{4}",
    "⅛": r"\frac{1}{8}",
    r"\dots": r"\ldots",
}


def translate(text):
    "What docutils does not know, in terms that it does: bare fractions, sizes of brackets, and a few signs."
    for sign, command in SIGNS.items():
        text = text.replace(sign, command)
    text = re.sub(r"\\[dt]?frac\s*(\w)\s*(\w)", r"\\frac{\1}{\2}", text)
    return re.sub(r"\\[Bb]igg?[lr]?(?![a-z])", "", text)


def mathml(text, as_block):
    "LaTeX as MathML, with the words below a brace under it, where docutils puts them beside it."
    found = tex2mathml(translate(text), as_block=as_block).replace("<mo>⏟</mo>", '<mo stretchy="true">⏟</mo>')
    return re.sub(
        r"<msub>\s*(<munder>(?:(?!</munder>).)*⏟</mo>\s*</munder>\s*)(<mtext>[^<]*</mtext>)\s*</msub>",
        r"<munder>\1\2</munder>",
        found,
        flags=re.S,
    )


def inline(translator, node):
    translator.body.append(mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def block(translator, node):
    translator.body.append(f'<div class="math">{mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
