"""Formulas as MathML, converted when the site is built: pages with mathematics load no script for it, and need none.

A letter is an italic of the text's own font, by its class: few systems have a font for mathematics.
"""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.util import logging

NAME = "mathml"


def inline(writer: Any, node: nodes.math) -> None:
    """Write a formula within a line of text."""
    writer.body.append(f'<span class="math">{_set(node, block=False)}</span>')
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    """Write a displayed formula."""
    writer.body.append(writer.starttag(node, "div", CLASS="math") + _set(node, block=True) + "</div>\n")
    raise nodes.SkipNode


def _set(node: nodes.Element, *, block: bool) -> str:
    """Return the formula as MathML. If it cannot be converted, return its LaTeX and log a warning, which fails the build."""
    latex = node.astext()
    try:
        text: str = latex2mathml.tex2mathml(latex, as_block=block)
    except (SyntaxError, ValueError, LookupError) as error:
        logging.getLogger(__name__).warning("no MathML for %r: %s", latex, " ".join(str(error).split()), location=node)
        return f"<code>{latex.replace('&', '&amp;').replace('<', '&lt;')}</code>"
    text = "".join(line.strip() for line in text.splitlines())
    return re.sub(r"<mi>([^\W\d_])</mi>", r'<mi class="letter">\1</mi>', text)
