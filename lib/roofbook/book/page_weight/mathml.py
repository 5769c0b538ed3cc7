"""Formulas as MathML, set when the site is built: a page with mathematics loads no script for it, and needs none to be read.

A letter is italic of the text's own font, by its class: few systems have a font with letters for mathematics.
"""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.util import logging

NAME = "mathml"


def inline(writer: Any, node: nodes.math) -> None:
    """A formula in a line of text."""
    writer.body.append(f'<span class="math">{_set(node, block=False)}</span>')
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    """A formula of its own."""
    writer.body.append(writer.starttag(node, "div", CLASS="math") + _set(node, block=True) + "</div>\n")
    raise nodes.SkipNode


def _set(node: nodes.Element, *, block: bool) -> str:
    """The formula; its LaTeX with a warning where it cannot be set, which fails the build."""
    latex = node.astext()
    try:
        text: str = latex2mathml.tex2mathml(latex, as_block=block)
    except (SyntaxError, ValueError, LookupError) as why:
        logging.getLogger(__name__).warning("no MathML for %r: %s", latex, " ".join(str(why).split()), location=node)
        return f"<code>{latex.replace('&', '&amp;').replace('<', '&lt;')}</code>"
    text = "".join(line.strip() for line in text.splitlines())
    return re.sub(r"<mi>([^\W\d_])</mi>", r'<mi class="letter">\1</mi>', text)
