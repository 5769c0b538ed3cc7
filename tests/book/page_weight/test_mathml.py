"""Formulas that become MathML when the site is built."""

import logging
from types import SimpleNamespace

import pytest
from docutils import nodes

from roofbook.book.page_weight import mathml


def mathml_of(latex: str) -> str:
    writer = SimpleNamespace(body=[])
    with pytest.raises(nodes.SkipNode):
        mathml.inline(writer, nodes.math(latex, latex))
    return "".join(writer.body)


def test_letters_are_marked_and_words_are_not() -> None:
    text = mathml_of(r"1/\sqrt{r_{\mathrm{above}} + b}")
    assert '<mi class="letter">r</mi><mi>above</mi>' in text and '<mi class="letter">b</mi>' in text
    assert "<msqrt>" in text and "\n" not in text and "\\" not in text


def test_a_formula_that_cannot_be_set_is_a_warning_and_stays_readable(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("sphinx").propagate = True
    assert mathml_of(r"\nosuchcommand < 1") == '<span class="math"><code>\\nosuchcommand &lt; 1</code></span>'
    assert "no MathML for" in caplog.text
