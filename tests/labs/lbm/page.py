"""What the tests of the executed book know of this lab's page alone."""

DIGITS = {
    "$9 \\times 4 \\times 2$": "nine floats of four bytes, read and written: the counting is the point of the sentence",
}
"""The digits in its prose, each with its reason: every other figure comes from the store."""
