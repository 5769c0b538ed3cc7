"""JSON that every reader takes alike: without NaN and infinities, halves of characters, and names that an object has twice."""

import json
import math
from collections.abc import Mapping
from typing import Any


class RepeatedName(ValueError):
    """An object of a JSON text has a name twice: one reader takes its first value, another one its last."""


def unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object's names and values, as `object_pairs_hook` of `json.loads`. Raise RepeatedName.

    >>> json.loads('{"wrong": "race", "wrong": null}', object_pairs_hook=unique_pairs)
    Traceback (most recent call last):
    roofbook.strict_json.RepeatedName: an object in it has a name twice
    """
    members = dict(pairs)
    if len(members) < len(pairs):
        raise RepeatedName("an object in it has a name twice")
    return members


def dumps(value: Any, **options: Any) -> str:
    """Write a value as JSON: a number that is none becomes null, half a surrogate pair a question mark.

    >>> dumps({"error": float("nan"), "limit": 1e-3, "name": chr(0xDC80)})
    '{"error": null, "limit": 0.001, "name": "?"}'
    """
    return json.dumps(_strict(value), allow_nan=False, **options)


def _strict(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, Mapping):
        return {_strict(name) if isinstance(name, str) else name: _strict(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(inner) for inner in value]
    return value
