"""Scaling of a step over several devices: speedups over one device, and a model that shows where scaling breaks down.

A step's time has a part that grows with the rows, which the devices share, and a fixed part: launches, waits and the halos,
which have the same width for any number of rows. Both parts are read from measured times, on one device and on the smallest
grid. For all other grids the model is a prediction.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

Times = Mapping[tuple[int, int], float]
"""(devices, rows) -> seconds a step."""


@dataclass(frozen=True)
class Model:
    """Seconds a step = `fixed` of the number of devices + `row` x rows / devices."""

    fixed: Mapping[int, float]
    """Seconds that do not depend on the rows, by the number of devices."""
    row: float
    """Seconds of one row on one device."""
    read: frozenset[tuple[int, int]]
    """The (devices, rows) whose times the model was read from; there it is no prediction."""

    def seconds(self, devices: int, rows: int) -> float:
        """Return the seconds of a step. Errors: KeyError for a number of devices that was not measured."""
        return self.fixed[devices] + self.row * rows / devices

    def pays_from(self, devices: int) -> float:
        """Return the number of rows from which on this many devices are faster than one; 0 if they always are."""
        return max(0.0, (self.fixed[devices] - self.fixed[1]) / (self.row * (1 - 1 / devices)))

    def weak_from(self, devices: int, efficiency: float) -> float:
        """Return the rows of each device from which on weak scaling reaches `efficiency`.

        A step then takes at most 1 / efficiency of one device's time for as many rows.
        """
        return max(0.0, (efficiency * self.fixed[devices] - self.fixed[1]) / ((1 - efficiency) * self.row))


def model(times: Times) -> Model | None:
    """Return the model of one device's times on the smallest and largest grid, and of the other numbers' on the smallest.

    The rows of a small grid lie in a cache and may take less time than those of the largest: the fixed time is then taken for
    0. None if one device has fewer than two grids, or if more rows take it no longer.
    """
    alone = sorted(rows for devices, rows in times if devices == 1)
    if len(alone) < 2:
        return None
    least, most = alone[0], alone[-1]
    row = (times[1, most] - times[1, least]) / (most - least)
    if not (math.isfinite(row) and row > 0):
        return None
    numbers = sorted({devices for devices, rows in times if rows == least})
    fixed = {devices: max(0.0, times[devices, least] - row * least / devices) for devices in numbers}
    return Model(fixed, row, frozenset({(1, most), *((devices, least) for devices in numbers)}))


def strong(times: Times, devices: int, rows: int) -> float | None:
    """Return how many times as fast as one device this many are on the same grid; None if either has no time."""
    return _ratio(times.get((1, rows)), times.get((devices, rows)))


def weak(times: Times, devices: int, rows: int) -> float | None:
    """Return the time of one device on its share of the grid over the time of all on the whole; None if either has no time."""
    return None if rows % devices else _ratio(times.get((1, rows // devices)), times.get((devices, rows)))


def _ratio(one: float | None, several: float | None) -> float | None:
    return one / several if one and several else None
