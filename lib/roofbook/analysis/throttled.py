"""Samples of a device that slowed itself down: which they are, and the row without them. Serves readings."""

from collections.abc import Mapping, Sequence
from typing import Any

from .. import strict_json
from ..devices import provenance
from ..escaping import read_json
from ..store.schema import REASONS

LEAST = 6
"""Samples that must remain for others to be left out: with fewer the median has no interval."""


def slowed(row: Mapping[str, Any]) -> list[int]:
    """The places among a row's samples of those that were taken while the device slowed itself down."""
    column: Any = row.get("sample_throttle")
    reasons: Sequence[str] = column if hasattr(column, "__len__") else ()  # a null reads as None or NaN
    return [at for at, each in enumerate(reasons) if provenance.slowed((each or "").split(REASONS))]


def left_out(row: Mapping[str, Any]) -> list[int]:
    """Those of the `slowed` that do not count: all, or none where fewer than LEAST others would remain; a table says so."""
    found = slowed(row)
    return found if found and len(row["samples_s"]) - len(found) >= LEAST else []


def without_slowed(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row as it counts: samples, rounds and parts without those `left_out`, each with its like at one place."""
    gone = set(left_out(row))
    if not gone:
        return row

    def rest(values: Any) -> Any:
        return [each for at, each in enumerate(values) if at not in gone] if hasattr(values, "__len__") else values

    told = read_json(row.get("extra") or "{}")
    if "parts" in told:
        told["parts"] = {name: rest(values) for name, values in told["parts"].items()}
    cut = {name: rest(row[name]) for name in ("samples_s", "wall_s", "rounds") if name in row}
    return {**row, **cut, "extra": strict_json.dumps(told)}
