"""The mean square of rounding errors: its expected value, and how far chance may take it. Serves the checks of all labs.

A bound that no right result exceeds is set by the unluckiest element, so a mistake that changes all elements a little hides
below it. A mean over all elements shows such a mistake. Rounding errors behave like independent random variables of mean zero
(Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41, 2019). So their mean
square is known to a few per cent, and their mean is close to zero.
"""

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .source import Source

ROUNDING = 1 / math.sqrt(8 * math.log(2))
"""Root mean square error, 0.42, of rounding to nearest, relative to the value and in unit roundoffs: errors uniform over one
spacing of the format, significands distributed by Benford's law."""
DEVIATIONS = 8
"""Standard deviations that the mean square may exceed its expected value by."""
CLEARANCE = 1.5
"""Factor that the root mean square may exceed a model's by, since the model leaves some roundings out."""
TRANSFORMS_CLEARANCE = 4
"""Factor that the root mean square may exceed that of plain sums by. It is for Winograd's algorithm, whose sums of transformed
operands are larger than their result, and for a library, which may use it and round between convolution and bias."""

TIMES_ACCURATE = "as a multiple of what is allowed with accurate functions"
"""End of a check's description of its error, if a kernel with `native_functions` may exceed the usual tolerance."""


def native_functions(source: "Source | None") -> frozenset[str]:
    """Return the native functions of OpenCL C that a kernel calls, such as native_rsqrt: their accuracy is the device's."""
    return frozenset(re.findall(r"\bnative_\w+", source.resolve().lower())) if source else frozenset()


def mean_square_over(squares: float, expected: float, independent: float) -> float:
    """Return the root mean square of errors as a multiple of the allowed one: a result is right if this is <= 1.

    squares: mean square of the errors. expected: mean square of the errors by rounding alone. independent: number of errors
    that are independent of each other; the mean square of so many normal errors has a standard deviation of
    sqrt(2 / independent) times its mean. The result is 0 without errors, and NaN if `squares` is NaN.
    """
    chance = 1 + DEVIATIONS * math.sqrt(2 / independent)
    return 0.0 if squares == 0 else float(np.sqrt(np.divide(squares, expected * chance)) / CLEARANCE)


def worst(ratios: Mapping[str, float]) -> tuple[float, str]:
    """Return the largest of several ratios of error to tolerance, and its name. A NaN counts as the largest."""
    name = max(ratios, key=lambda check: (np.isnan(ratios[check]), ratios[check]))
    return float(ratios[name]), name
