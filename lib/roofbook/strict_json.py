"""JSON that every reader takes: without NaN and infinities, which JSON does not have, and without halves of characters."""

import json
import math
from collections.abc import Mapping
from typing import Any


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
