"""How a step on several devices gains on one, and a model that says where it breaks.

A step takes a time that goes with the rows, which the devices share, and one that does not: launches, waits and the halos,
which are as wide however many rows there are. Both are read from measured times, on one device and on the smallest grid. What
the model says of all other grids is a prediction.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

Times = Mapping[tuple[int, int], float]
"""(devices, rows) -> seconds a step."""


@dataclass(frozen=True)
class Model:
    """Seconds a step = `fixed` of so many devices + `row` x rows / devices."""

    fixed: Mapping[int, float]
    """By the number of devices."""
    row: float
    """Of a row, on one device."""
    read: frozenset[tuple[int, int]]
    """The (devices, rows) whose times it was read from: there it is no prediction."""

    def seconds(self, devices: int, rows: int) -> float:
        """Of a step. KeyError for a number of devices that was not measured."""
        return self.fixed[devices] + self.row * rows / devices

    def pays_from(self, devices: int) -> float:
        """Rows from which on so many devices are faster than one; 0 where they always are."""
        return max(0.0, (self.fixed[devices] - self.fixed[1]) / (self.row * (1 - 1 / devices)))

    def weak_from(self, devices: int, efficiency: float) -> float:
        """Rows of each device from which on a step takes at most 1 / efficiency of one device's with as many rows."""
        return max(0.0, (efficiency * self.fixed[devices] - self.fixed[1]) / ((1 - efficiency) * self.row))


def model(times: Times) -> Model | None:
    """From the times of one device on the smallest and the largest grid, and of each other number on the smallest.

    The rows of a small grid lie in a cache and may take less time than those of the largest: the fixed time is then taken for
    0. None where one device has fewer than two grids, or more rows take it no longer.
    """
    alone = sorted(rows for devices, rows in times if devices == 1)
    if len(alone) < 2:
        return None
    least, most = alone[0], alone[-1]
    row = (times[1, most] - times[1, least]) / (most - least)
    if not (math.isfinite(row) and row > 0):
        return None
    known = sorted({devices for devices, rows in times if rows == least})
    fixed = {devices: max(0.0, times[devices, least] - row * least / devices) for devices in known}
    return Model(fixed, row, frozenset({(1, most), *((devices, least) for devices in known)}))


def strong(times: Times, devices: int, rows: int) -> float | None:
    """How many times as fast as one device on the same grid; None where one of both has no time."""
    return _ratio(times.get((1, rows)), times.get((devices, rows)))


def weak(times: Times, devices: int, rows: int) -> float | None:
    """The time of one device on its share of the grid over that of all on the whole; None where one of both has no time."""
    return None if rows % devices else _ratio(times.get((1, rows // devices)), times.get((devices, rows)))


def _ratio(one: float | None, several: float | None) -> float | None:
    return one / several if one and several else None
