"""Exceptions of this lab's page, for the tests of the executed book."""

DIGITS = {
    "$2 C F H W k^2$": "a multiplication and an addition a tap",
    "$4 (C H W + C F k^2 + F H W / 4)$": "four bytes each, of which the pool leaves a quarter",
    "$2 C k^2$": "the same, of one output",
    "/ 2^{11}": "the bits of an fp16 significand",
    "= {{{0}}}": "the report's own code",
    "add up 64\nchannels of one tap": "DEPTH in the text of the step",
}
"""Words with digits in the page's prose -> the reason: every other figure comes from the store."""
