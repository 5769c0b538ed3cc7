"""Messages of processes that run kernels to their parents, one line of JSON each: how they are sent, and their validation.

A kernel shares its process with the code that writes the messages, so it may write anything. Used by case_process,
side_by_side, cluster and sanitize.
"""

import json
import math
import os
import reprlib
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ..store.schema import CONTROL, SLUG
from .checked_runnable import plain_text

MOST_TEXT = 20_000
"""Largest number of characters of a text in a message."""

Shape = Any
"""Shape of a value: a type, `[shape]` for a list, `{name: shape}` for an object with exactly these names, a tuple of
alternative shapes, or a function that returns whether a value is valid."""


def messages_to_parent() -> Callable[..., None]:
    """Return a function that sends the parent a message, one line of JSON, from any thread. Call this once.

    From then on standard output goes to standard error. A process that a plan forked ends when it calls the function.
    """
    messages_out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of a driver is no message
    lock, process_id = threading.Lock(), os.getpid()

    def tell(**message: Any) -> None:
        if os.getpid() != process_id:  # a plan forked and the child returned: it must not measure
            os._exit(0)
        with lock:
            print(json.dumps(message), file=messages_out)

    return tell


class BadMessage(Exception):
    """An invalid message; the text says why in a few words."""


def parse(line: bytes) -> dict[str, Any]:
    """Return the JSON object of a line. Raises BadMessage."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise BadMessage(f"no JSON: {plain_text(line[:80].decode(errors='replace'))!r}") from None
    if not isinstance(message, dict):
        raise BadMessage(f"no object: {plain_text(line[:80].decode(errors='replace'))!r}")
    return message


def expect(message: Mapping[str, Any], *shapes: Mapping[str, Shape]) -> dict[str, Any]:
    """Return a message if it has one of these shapes. Raises BadMessage otherwise."""
    for shape in shapes:
        if has_shape(message, dict(shape)):
            return dict(message)
    raise BadMessage(f"not expected: {_shown(dict(message))}")


def _shown(value: Any) -> str:
    """Return a value as one short line, however large it is."""
    return plain_text(reprlib.repr(value))[:200]


def has_shape(value: Any, shape: Shape) -> bool:
    """Return whether a value has a shape. Numbers must be finite, a bool is no number, and texts have no lone surrogates.

    >>> has_shape({"seconds": 1.5}, {"seconds": float}), has_shape({"seconds": float("nan")}, {"seconds": float})
    (True, False)
    """
    if isinstance(shape, tuple):
        return any(has_shape(value, alternative) for alternative in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(has_shape(inner, shape[0]) for inner in value)
    if isinstance(shape, dict):
        return (
            isinstance(value, dict)
            and value.keys() == shape.keys()
            and all(has_shape(value[name], inner) for name, inner in shape.items())
        )
    if shape is None:
        return value is None
    if shape is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if shape is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63
    if shape is str:
        return isinstance(value, str) and len(value) <= MOST_TEXT and not any("\ud800" <= c <= "\udfff" for c in value)
    if isinstance(shape, type):
        return isinstance(value, shape)
    return bool(shape(value))


def one_of(names: Collection[str]) -> Callable[[Any], bool]:
    """Return the shape of a text that is one of these names."""
    return lambda value: isinstance(value, str) and value in names


def above_zero(value: Any) -> bool:
    """Return whether a value is a finite number above 0."""
    return has_shape(value, float) and value > 0


def not_below_zero(value: Any) -> bool:
    """Return whether a value is a finite number that is not below 0."""
    return has_shape(value, float) and value >= 0


def whole_above_zero(value: Any) -> bool:
    """Return whether a value is a whole number above 0."""
    return has_shape(value, int) and value > 0


def slug(value: Any) -> bool:
    """Return whether a value can name a run."""
    return has_shape(value, str) and bool(SLUG.fullmatch(value))


def stored_rows(case: str, variants: Collection[str], devices: int = 1) -> Callable[[Any], bool]:
    """Return the shape of the rows that a process reports as stored: of this case and these variants, none twice.

    A row is [case, variant, role, status, run]. A variant has one row on each device, and may have one more as the A/A control.
    """
    columns = (one_of([case]), one_of(variants), slug, one_of(["ok", "failed"]), slug)

    def is_row(value: Any) -> bool:
        return isinstance(value, list) and len(value) == len(columns) and all(map(has_shape, value, columns))

    def are_rows(value: Any) -> bool:
        if not has_shape(value, [is_row]):
            return False
        counts = Counter((row[1], row[2] == CONTROL) for row in value)
        return max(counts.values(), default=0) <= devices

    return are_rows
