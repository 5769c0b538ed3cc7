"""Validation of values that a plan or a lab returns: an invalid value fails the one variant, with a message that names it.

Outputs, facts, parts and check results become values that a row of the store can hold. Used wherever variants run.
"""

import contextlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ..spec.plan import Runnable
from .measurement import Check

MOST_FACTS = 1 << 16
"""Largest number of bytes of facts as JSON."""
MOST_TEXT = 500
"""Largest number of characters of a text from a lab, a driver or a process."""
RESERVED_FACTS = ("rate_amount", "rate_unit", "footprint", "error_is", "checks", "parts")
"""Names in a row's `extra` that facts must not have."""


class BadValue(Exception):
    """A plan or a lab returned a value that its contract does not allow; the message names a valid one."""


def plain_text(text: str) -> str:
    """Return text as one printable line of at most MOST_TEXT characters, without lone surrogates and control characters.

    >>> plain_text("no such file: \\udcff\\x1b[2J")
    'no such file: ? [2J'
    """
    prefix = text[: 2 * MOST_TEXT].encode("utf-8", "replace").decode()
    line = " ".join("".join(c if c.isprintable() else " " for c in prefix).split())
    return line if len(line) <= MOST_TEXT else f"{line[: MOST_TEXT - 3]}..."


def number_of(value: Any, name: str) -> float:
    """Return a real number as a float, also NaN or infinity. Raises BadValue for anything else."""
    if isinstance(value, np.ndarray) and value.shape == ():
        value = value[()]
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise BadValue(f"{name} is {_describe(value)}, not a number")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def seconds_of(value: Any, name: str, *, may_be_zero: bool = False) -> float:
    """Return a time in seconds. Raises BadValue unless it is finite and above 0, or 0 with `may_be_zero`."""
    seconds = number_of(value, name)
    if not math.isfinite(seconds) or seconds < 0 or (seconds == 0 and not may_be_zero):
        raise BadValue(f"{name} is {seconds:g} s; a time is finite and {'not below' if may_be_zero else 'above'} 0")
    return seconds


def parts_of(value: Any) -> dict[str, float]:
    """Return the seconds of parts by name. Raises BadValue."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise BadValue(f"parts are {_describe(value)}, not seconds by name")
    return {plain_text(name): seconds_of(part, f"part {name!r}", may_be_zero=True) for name, part in value.items()}


def outputs_of(value: Any) -> dict[str, np.ndarray]:
    """Return arrays of numbers by name. Raises BadValue."""
    if not isinstance(value, Mapping) or not value or not all(isinstance(name, str) for name in value):
        raise BadValue(f"outputs() returned {_describe(value)}, not arrays by name")
    for name, array in value.items():
        if not isinstance(array, np.ndarray | np.generic) or array.dtype.kind not in "biufV":
            raise BadValue(f"output {name!r} is {_describe(array)}, not an array of real numbers")
    return {name: np.asarray(array) for name, array in value.items()}


def facts_of(value: Any) -> dict[str, Any]:
    """Return facts as JSON values; NumPy's numbers and arrays become Python's. Raises BadValue."""
    if not isinstance(value, Mapping):
        raise BadValue(f"facts() returned {_describe(value)}, not facts by name")
    facts: dict[str, Any] = _as_json(value, "facts()", 0)
    if reserved_names := [name for name in RESERVED_FACTS if name in facts]:
        raise BadValue(f"facts() has {reserved_names[0]!r}, a name that every row uses for something else")
    if (size := len(json.dumps(facts))) > MOST_FACTS:
        raise BadValue(f"facts() takes {size} bytes as JSON; {MOST_FACTS} are allowed")
    return facts


def _as_json(value: Any, name: str, depth: int) -> Any:
    if depth > 8:
        raise BadValue(f"{name} is nested more than 8 deep")
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, int):
        if abs(value) >= 1 << 63:
            raise BadValue(f"{name} is an integer of more than 64 bits")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BadValue(f"{name} is {value:g}, which JSON does not have")
        return float(value)
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise BadValue(f"{name} has a name that is no text")
        return {plain_text(name): _as_json(inner, f"fact {name!r}", depth + 1) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(inner, name, depth + 1) for inner in value]
    raise BadValue(f"{name} is {_describe(value)}, which JSON does not have")


def check_of(value: Any) -> Check:
    """Return the result of a lab's check: error, tolerance and the name of the compared quantity. Raises BadValue.

    An error may be NaN or infinite, which is wrong. An infinite tolerance would accept everything, so it is invalid.
    """
    if not isinstance(value, tuple | list) or len(value) != 3 or not isinstance(value[2], str):
        raise BadValue(f"the lab's check returned {_describe(value)}, not (error, tolerance, what was compared)")
    error, tolerance = number_of(value[0], "the error"), number_of(value[1], "the tolerance")
    if error < 0:
        raise BadValue(f"the error is {error:g}; an error is not below 0")
    if math.isinf(tolerance) or tolerance < 0:
        raise BadValue(f"the tolerance is {tolerance:g}; a tolerance is finite and not below 0")
    return Check(error, tolerance, plain_text(value[2]))


def same_shapes(outputs: Mapping[str, np.ndarray], reference: Mapping[str, Any]) -> None:
    """Raise BadValue if an output has another shape than the reference array of its name."""
    for name, array in outputs.items():
        right = reference.get(name)
        if isinstance(right, np.ndarray) and right.shape != array.shape:
            raise BadValue(f"output {name!r} has the shape {array.shape}; right is {right.shape}")


def _describe(value: Any) -> str:
    """Return a value as text if it is short, else its type."""
    kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
    if value is None or isinstance(value, bool | int | float | complex | str):
        text = plain_text(repr(value))
        return f"{text[:60]}"
    return kind


def checked_runnable(runnable: Any, announce: Callable[[str], Any] = lambda stage: None) -> Runnable:
    """Return the runnable of a plan, changed to announce its stages and to validate its return values.

    announce: called with `outputs`, `facts` or `close` before each of them. Runs are unchanged and take no more time. Raises
    BadValue if it is no valid runnable.
    """
    if not isinstance(runnable, Runnable):
        raise BadValue(f"its plan made {_describe(runnable)}, not a Runnable")
    units = getattr(runnable, "units", None)
    if isinstance(units, bool) or not isinstance(units, int | np.integer) or units < 1:
        raise BadValue(f"units of a run are {_describe(units)}, not a whole number above 0")
    runnable.units = int(units)
    plain_outputs, plain_facts, plain_close = runnable.outputs, runnable.facts, runnable.close

    def outputs() -> dict[str, np.ndarray]:
        announce("outputs")
        return outputs_of(plain_outputs())

    def facts() -> dict[str, Any]:
        announce("facts")
        return facts_of(plain_facts())

    def close() -> None:
        announce("close")
        plain_close()

    vars(runnable).update(outputs=outputs, facts=facts, close=close)
    return runnable


@contextlib.contextmanager
def closed_after(runnable: Runnable) -> Iterator[Runnable]:
    """Close a runnable after the block; after an error in it without announcing it, so that the failed stage stays known."""
    try:
        yield runnable
    except BaseException:
        with contextlib.suppress(Exception):
            type(runnable).close(runnable)
        raise
    runnable.close()
