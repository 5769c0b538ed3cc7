"""Exceptions of this lab's page, for the tests of the executed book."""

DIGITS = {
    "$1/\\sqrt{": "the formula of a stencil's term",
    "$4 \\times 4$": "three floats read and one written",
    "$3/16$": "three operations over those bytes",
    "$P + 2$": "an addition a pass, one sum and one root",
}
"""Words with digits in the page's prose -> the reason: every other figure comes from the store."""
