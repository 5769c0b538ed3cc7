"""Checks what a plan and a lab return, where they return it: a mistake of one variant fails that variant, and is named.

Outputs, facts, parts and check results become values that a row of the store can hold. Serves all who run variants.
"""

import contextlib
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..spec.lab import Runnable
from .measurement import Check

MOST_FACTS = 1 << 16
"""Bytes that facts may take as JSON."""
MOST_TEXT = 500
"""Characters of a text that a lab, a driver or a process tells."""
RESERVED = ("rate_amount", "rate_unit", "footprint", "error_is", "checks", "parts")
"""Names in a row's `extra` that are no facts."""


class BadValue(Exception):
    """A plan or a lab returned what its contract does not allow; the message says what would be right."""


def plain_text(text: str) -> str:
    """Return one line that every file and terminal takes: no lone surrogates, no control characters, not too long.

    >>> plain_text("no such file: \\udcff\\x1b[2J")
    'no such file: ? [2J'
    """
    whole = text[: 2 * MOST_TEXT].encode("utf-8", "replace").decode()
    line = " ".join("".join(c if c.isprintable() else " " for c in whole).split())
    return line if len(line) <= MOST_TEXT else f"{line[: MOST_TEXT - 3]}..."


def number_of(value: Any, what: str) -> float:
    """Return a real number as a float, also NaN or infinity. Raises BadValue for what is none."""
    if isinstance(value, np.ndarray) and value.shape == ():
        value = value[()]
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise BadValue(f"{what} is {_shown(value)}, not a number")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def seconds_of(value: Any, what: str, *, may_be_zero: bool = False) -> float:
    """Return a time that was told or read from a clock. Raises BadValue unless it is finite and above 0."""
    seconds = number_of(value, what)
    if not math.isfinite(seconds) or seconds < 0 or (seconds == 0 and not may_be_zero):
        raise BadValue(f"{what} is {seconds:g} s; a time is finite and {'not below' if may_be_zero else 'above'} 0")
    return seconds


def parts_of(value: Any) -> dict[str, float]:
    """Return the seconds of parts by name. Raises BadValue."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise BadValue(f"parts are {_shown(value)}, not seconds by name")
    return {plain_text(name): seconds_of(part, f"part {name!r}", may_be_zero=True) for name, part in value.items()}


def outputs_of(value: Any) -> dict[str, np.ndarray]:
    """Return arrays of numbers by name. Raises BadValue."""
    if not isinstance(value, Mapping) or not value or not all(isinstance(name, str) for name in value):
        raise BadValue(f"outputs() returned {_shown(value)}, not arrays by name")
    for name, array in value.items():
        if not isinstance(array, np.ndarray | np.generic) or array.dtype.kind not in "biufV":
            raise BadValue(f"output {name!r} is {_shown(array)}, not an array of real numbers")
    return {name: np.asarray(array) for name, array in value.items()}


def facts_of(value: Any) -> dict[str, Any]:
    """Return facts as JSON has them; numbers and arrays of NumPy become Python's. Raises BadValue."""
    if not isinstance(value, Mapping):
        raise BadValue(f"facts() returned {_shown(value)}, not facts by name")
    facts: dict[str, Any] = _as_json(value, "facts()", 0)
    if taken := [name for name in RESERVED if name in facts]:
        raise BadValue(f"facts() has {taken[0]!r}, a name that every row uses for something else")
    if (size := len(json.dumps(facts))) > MOST_FACTS:
        raise BadValue(f"facts() takes {size} bytes as JSON; {MOST_FACTS} are allowed")
    return facts


def _as_json(value: Any, what: str, depth: int) -> Any:
    if depth > 8:
        raise BadValue(f"{what} is nested more than 8 deep")
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, int):
        if abs(value) >= 1 << 63:
            raise BadValue(f"{what} is an integer of more than 64 bits")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BadValue(f"{what} is {value:g}, which JSON does not have")
        return float(value)
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise BadValue(f"{what} has a name that is no text")
        return {plain_text(name): _as_json(inner, f"fact {name!r}", depth + 1) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(inner, what, depth + 1) for inner in value]
    raise BadValue(f"{what} is {_shown(value)}, which JSON does not have")


def check_of(value: Any) -> Check:
    """Return what a lab's check returned: error, tolerance and what was compared. Raises BadValue.

    An error may be NaN or infinite, which is wrong; a tolerance that is infinite would accept everything.
    """
    if not isinstance(value, tuple | list) or len(value) != 3 or not isinstance(value[2], str):
        raise BadValue(f"the lab's check returned {_shown(value)}, not (error, tolerance, what was compared)")
    error, tolerance = number_of(value[0], "the error"), number_of(value[1], "the tolerance")
    if error < 0:
        raise BadValue(f"the error is {error:g}; an error is not below 0")
    if math.isinf(tolerance) or tolerance < 0:
        raise BadValue(f"the tolerance is {tolerance:g}; a tolerance is finite and not below 0")
    return Check(error, tolerance, plain_text(value[2]))


def same_shapes(outputs: Mapping[str, np.ndarray], reference: Mapping[str, Any]) -> None:
    """Compare shapes of outputs with those of a reference, where it has arrays of these names. Raises BadValue."""
    for name, array in outputs.items():
        right = reference.get(name)
        if isinstance(right, np.ndarray) and right.shape != array.shape:
            raise BadValue(f"output {name!r} has the shape {array.shape}; right is {right.shape}")


def _shown(value: Any) -> str:
    """Name a value by its type, and say what it is where that is short."""
    kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
    if value is None or isinstance(value, bool | int | float | complex | str):
        with_value = plain_text(repr(value))
        return f"{with_value[:60]}"
    return kind


def checked_runnable(made: Any, announce: Callable[[str], Any] = lambda stage: None) -> Runnable:
    """Return the runnable that a plan made: from now on it announces what it is at, and what it returns is checked.

    announce: takes `outputs`, `facts` or `close` before that is done. Runs stay as they are, and cost no time more. Raises
    BadValue for what no plan makes.
    """
    if not isinstance(made, Runnable):
        raise BadValue(f"its plan made {_shown(made)}, not a Runnable")
    units = getattr(made, "units", None)
    if isinstance(units, bool) or not isinstance(units, int | np.integer) or units < 1:
        raise BadValue(f"units of a run are {_shown(units)}, not a whole number above 0")
    made.units = int(units)
    plain_outputs, plain_facts, plain_close = made.outputs, made.facts, made.close

    def outputs() -> dict[str, np.ndarray]:
        announce("outputs")
        return outputs_of(plain_outputs())

    def facts() -> dict[str, Any]:
        announce("facts")
        return facts_of(plain_facts())

    def close() -> None:
        announce("close")
        plain_close()

    vars(made).update(outputs=outputs, facts=facts, close=close)
    return made


def close_silently(made: Runnable | None) -> None:
    """Close a runnable that failed. Where it failed is known: nothing is announced, and no error hides that."""
    if made:
        with contextlib.suppress(Exception):
            type(made).close(made)
