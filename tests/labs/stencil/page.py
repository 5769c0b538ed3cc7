"""What the tests of the executed book know of this lab's page alone."""

DIGITS = {
    "$1/\\sqrt{": "the formula of a stencil's term",
    "$4 \\times 4$": "three floats read and one written",
    "$3/16$": "three operations over those bytes",
    "$P + 2$": "an addition a pass, one sum and one root",
}
"""The digits in its prose, each with its reason: every other figure comes from the store."""
