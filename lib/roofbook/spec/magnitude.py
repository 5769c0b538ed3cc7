"""Magnitudes: the sum of the absolute terms of each output, by which rounding errors are bounded. Serves `KernelLab.check`.

A value that is computed by sums, differences and products is off by at most k u M: k operations, each rounded by a relative
error of the unit roundoff u at most, and M the same expression of absolute values, with a sum for each difference (Higham,
Accuracy and Stability of Numerical Algorithms, chapter 3; terms of second order are left out).
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..errors import UsageError

_SAME_SIGN: Mapping[np.ufunc, np.ufunc] = {
    np.add: np.add,
    np.subtract: np.add,
    np.multiply: np.multiply,
    np.matmul: np.matmul,
    np.square: np.square,
    np.negative: np.positive,
    np.positive: np.positive,
    np.absolute: np.positive,
    np.conjugate: np.positive,
    np.maximum: np.maximum,
    np.minimum: np.maximum,
    np.fmax: np.maximum,
    np.fmin: np.maximum,
}
"""Function of NumPy -> function that bounds the magnitude of its result by the magnitudes of its operands."""


class Magnitudes(np.ndarray):
    """Array of magnitudes: results of its sums, differences and products are the largest that any signs could give."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: Any, *operands: Any, **options: Any) -> Any:
        by_constant = ufunc is np.true_divide and not isinstance(operands[1], Magnitudes)
        bound = np.true_divide if by_constant else _SAME_SIGN.get(ufunc)
        if bound is None:
            raise UsageError(f"no magnitude of {ufunc.__name__}")
        if "out" in options:
            options["out"] = tuple(array.view(np.ndarray) for array in options["out"])
        result = getattr(bound, method)(*map(_plain, operands), **options)
        return np.asarray(result).view(Magnitudes)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        if function is np.where:
            return np.maximum(*arguments[1:])
        arguments = tuple(_plain(a).view(Magnitudes) if _is_float(a) else a for a in arguments)
        result = super().__array_function__(function, types, arguments, options)
        return _plain(result).view(Magnitudes) if _is_float(result) else result


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def _plain(operand: Any) -> Any:
    """Return the absolute values of a number or an array, as a plain array; a row of integers, such as indices, as it is."""
    array = np.asarray(operand)
    return array if array.dtype.kind == "b" else np.abs(array.view(np.ndarray))


def magnitudes(compute: Callable[..., Mapping[str, Any]], arguments: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the magnitude of each element of the outputs of `compute` that are floats, by the outputs' names.

    Raise UsageError if it computes more than sums, differences, products, and quotients by constants.
    """
    absolute = {
        name: np.abs(value).view(Magnitudes) if _is_float(value) else value for name, value in arguments.items()
    }
    outputs = compute(**absolute)
    floats = {name: output for name, output in outputs.items() if np.asarray(output).dtype.kind == "f"}
    if lost := [name for name, output in floats.items() if not isinstance(output, Magnitudes)]:
        raise UsageError(f"no magnitude of {', '.join(lost)}")
    return {name: output.view(np.ndarray) for name, output in floats.items()}
