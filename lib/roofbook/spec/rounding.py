"""The mean square of rounding errors: what it should be, and how far chance may take it. Serves the checks of all labs.

A bound that no right result exceeds is set by the unluckiest element, so a mistake that touches all elements a little
hides below it. A mean over all elements has no room for that: rounding errors behave like independent random variables of
mean zero (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41, 2019), so
their mean square is known to a few per cent, and their mean is close to zero.
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
"""Standard deviations from what is expected to what is allowed."""
CLEARANCE = 1.5
"""From the root mean square that a model of the roundings gives to what is allowed: for what the model leaves out."""

TIMES_ACCURATE = "as a multiple of what is allowed with accurate functions"
"""How a check ends what its error is where that exceeds the usual tolerance: a kernel with `native_functions` may lose more."""


def native_functions(source: "Source | None") -> frozenset[str]:
    """The native functions of OpenCL C that a kernel calls, such as native_rsqrt: the device decides how accurate they are."""
    return frozenset(re.findall(r"\bnative_\w+", source.resolve().lower())) if source else frozenset()


def mean_square_over(squares: float, expected: float, independent: float) -> float:
    """Root mean square of errors over what is allowed: right where it is <= 1; 0 where there is no error, NaN for a NaN.

    squares: mean square of the errors. expected: the same, of rounding alone. independent: how many of the errors are
    independent of each other; the mean square of so many normal ones strays by sqrt(2 / independent) of itself.
    """
    chance = 1 + DEVIATIONS * math.sqrt(2 / independent)
    return 0.0 if squares == 0 else float(np.sqrt(np.divide(squares, expected * chance)) / CLEARANCE)


def worst(ratios: Mapping[str, float]) -> tuple[float, str]:
    """The largest of several errors over their tolerances, and its name. A NaN is the largest."""
    name = max(ratios, key=lambda each: (np.isnan(ratios[each]), ratios[each]))
    return float(ratios[name]), name
