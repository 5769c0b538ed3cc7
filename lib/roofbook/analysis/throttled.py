"""Samples taken while the device throttled: their positions, and rows and tables without them. Serves readers of times."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import strict_json
from ..devices import provenance
from ..escaping import read_json
from ..store.row_rules import lists_of
from ..store.schema import REASONS

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

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


def times_of(table: "pa.Table") -> "tuple[NDArray[np.float64], NDArray[np.int64]]":
    """Return seconds per unit of the samples of all rows, one row after another, and the number of samples of each row.

    The table has timed rows of the store. Samples are dropped as by `left_out`.
    """
    import numpy as np

    lengths, samples, row_of = lists_of(table, "samples_s")
    times = samples.to_numpy() / table["units"].to_numpy()[row_of]
    throttle_lengths, names, throttled_row = lists_of(table, "sample_throttle")
    encoded = names.dictionary_encode()
    slows = [provenance.slowed((name or "").split(REASONS)) for name in (*encoded.dictionary.to_pylist(), None)]
    is_slow = np.array(slows)[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    slow_counts = np.bincount(throttled_row[is_slow], minlength=len(lengths))
    dropped = np.zeros(len(times), bool)
    dropped[np.repeat(throttle_lengths > 0, lengths)] = is_slow  # such lists are as long as those of the samples
    dropped &= (lengths - slow_counts >= LEAST)[row_of]
    return times[~dropped], lengths - np.bincount(row_of[dropped], minlength=len(lengths))
