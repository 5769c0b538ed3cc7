"""Outputs that are wrong in standard ways, which the check of every lab must refuse."""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Outputs = Mapping[str, Array]
Check = Callable[[Outputs], tuple[float, float, str]]
STALE = -1.0
"""Values that stay where no kernel has written, in outputs that are not poisoned by NaN."""


def refused(check: Check, outputs: Outputs) -> bool:
    """Return whether a check refuses outputs: by its error, which may be NaN, or by a ValueError about their shape."""
    try:
        error, bound, _ = check(outputs)
    except ValueError as wrong:
        if not re.search(r"shapes differ|must be \(", str(wrong)):
            raise
        return True
    return not error <= bound


def of_an_array(right: Array, off_by: float) -> Iterator[tuple[str, Array]]:
    """Yield a name and an array for each standard way in which an array is wrong."""
    floating = right if right.dtype.kind == "f" else right.astype(np.float64)
    for place in dict.fromkeys((0, right.size // 2, right.size - 1)):
        for value in (np.nan, np.inf, -np.inf):
            wrong = floating.copy()
            wrong.flat[place] = value
            yield f"{value} at {place}", wrong
        for sign in (1, -1):
            wrong = right.copy()
            wrong.flat[place] = wrong.flat[place] + sign * off_by
            yield f"off by {sign * off_by} at {place}", wrong
    yield "all NaN", np.full_like(floating, np.nan)
    yield "zeros", np.zeros_like(right)
    yield "stale", np.full_like(right, STALE)
    last = floating.copy()
    last[..., -1] = np.nan
    yield "the last column not written", last
    for axis in range(right.ndim):
        yield f"one off along axis {axis}", np.roll(right, 1, axis)
        yield f"backwards along axis {axis}", np.flip(right, axis)
        yield f"short along axis {axis}", np.delete(right, -1, axis)
        yield (
            f"long along axis {axis}",
            np.concatenate([right, right[(slice(None),) * axis + (slice(-1, None),)]], axis),
        )
    for first_axis, second_axis in pairwise(range(right.ndim)):
        yield f"axes {first_axis} and {second_axis} exchanged", right.swapaxes(first_axis, second_axis)
    yield "one axis more", right[None]
    if right.ndim > 1:
        yield "flat", right.ravel()


def standard(right: Outputs, off_by: float) -> Iterator[tuple[str, Outputs]]:
    """Yield a name and outputs for each output and each standard way to be wrong; the other outputs are right."""
    for name, array in right.items():
        for how, wrong in of_an_array(array, off_by):
            if not np.array_equal(wrong, array):
                yield f"{name}: {how}", {**right, name: wrong}


def accepted_mistakes(check: Check, right: Outputs) -> list[str]:
    """Return the names of the standard wrong outputs that a check accepts. right: outputs that it accepts."""
    largest = max(float(np.abs(array).max(initial=0)) for array in right.values())
    return [name for name, wrong in standard(right, np.ceil(largest) + 1) if not refused(check, wrong)]
