"""Exceptions of this lab's page, for the tests of the executed book."""

DIGITS = {
    "$9 \\times 4 \\times 2$": "nine floats of four bytes, read and written: the counting is the point of the sentence",
}
"""Words with digits in the page's prose -> the reason: every other figure comes from the store."""
