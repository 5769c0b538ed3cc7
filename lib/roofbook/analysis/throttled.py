"""Samples taken while the device throttled: their positions, and the row without them. Serves readings."""

from collections.abc import Mapping, Sequence
from typing import Any

from .. import strict_json
from ..devices import provenance
from ..escaping import read_json
from ..store.schema import REASONS

LEAST = 6
"""Number of samples that must remain if throttled ones are dropped: with fewer the median has no interval."""


def slowed(row: Mapping[str, Any]) -> list[int]:
    """Return the positions of a row's samples that were taken while the device slowed itself down."""
    column: Any = row.get("sample_throttle")
    reasons: Sequence[str] = column if hasattr(column, "__len__") else ()  # a null reads as None or NaN
    return [position for position, names in enumerate(reasons) if provenance.slowed((names or "").split(REASONS))]


def left_out(row: Mapping[str, Any]) -> list[int]:
    """Return the positions of throttled samples to drop: all, unless fewer than LEAST samples would remain. Tables say so."""
    positions = slowed(row)
    return positions if positions and len(row["samples_s"]) - len(positions) >= LEAST else []


def without_slowed(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the row without its `left_out` samples: times, rounds and parts lose the same positions."""
    dropped = set(left_out(row))
    if not dropped:
        return row

    def remaining(column: Any) -> Any:
        return [v for at, v in enumerate(column) if at not in dropped] if hasattr(column, "__len__") else column

    extra = read_json(row.get("extra") or "{}")
    if "parts" in extra:
        extra["parts"] = {name: remaining(seconds) for name, seconds in extra["parts"].items()}
    cut = {name: remaining(row[name]) for name in ("samples_s", "wall_s", "rounds") if name in row}
    return {**row, **cut, "extra": strict_json.dumps(extra)}
