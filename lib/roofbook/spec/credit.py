"""Points of a class: for the sizes that are right, for the time against a step, and for the share of the bound.

A teacher may state them in a TOML file; each line can be left out:

    sizes = 60                         # points for all sizes right, in equal parts
    against = "float4"                 # the step that a kernel is timed beside
    step = [[0.5, 10], [0.9, 30]]      # at least so many times as fast as that step: so many points
    bound = [[0.5, 10]]                # at least such a share of the bound: so many points
"""

import itertools
import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UsageError, of_system
from ..paths import read_regular
from .answer_file import decoded

LARGEST = 1 << 16
"""Most bytes of the file."""
MOST_POINTS = 1e6

Thresholds = tuple[tuple[float, float], ...]
"""(least value, points), both rising."""


@dataclass(frozen=True)
class Credit:
    """Points that a submission can get."""

    sizes: float = 100.0
    """Points if all sizes are right."""
    step: Thresholds = ()
    """Points by how many times as fast as the step a kernel is."""
    bound: Thresholds = ()
    """Points by the share of the bound that a kernel reaches."""
    against: str | None = None
    """Name of the step; None for the fastest that is known."""

    @property
    def most(self) -> float:
        """Largest number of points."""
        return self.sizes + most_points(self.step) + most_points(self.bound)


def most_points(thresholds: Thresholds) -> float:
    """Return the points of the highest threshold."""
    return max((points for _, points in thresholds), default=0.0)


def points_for(value: float, thresholds: Thresholds) -> float:
    """Return the points of the highest threshold that a value reaches.

    >>> points_for(0.95, ((0.5, 10.0), (0.9, 30.0)))
    30.0
    """
    return max((points for least, points in thresholds if value >= least), default=0.0)


def read_credit(file: Path) -> Credit:
    """Return the points that a TOML file states. Raise UsageError for another file, an unknown name, or a wrong value."""
    try:
        text = decoded(read_regular(file, LARGEST), str(file))
        settings = tomllib.loads(text)
    except OSError as error:
        raise UsageError(of_system(OSError(error.errno, error.strerror, str(file)))) from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{file} is no TOML: {' '.join(str(error).split())[:200]}") from None
    valid = ("sizes", "against", "step", "bound")
    if unknown := sorted(set(settings) - set(valid)):
        raise UsageError(f"{file}: there is no setting {unknown[0]}; valid: {', '.join(valid)}")
    against = settings.get("against")
    if against is not None and not isinstance(against, str):
        raise UsageError(f"{file}: against is the name of a step")
    credit = Credit(
        _points(settings.get("sizes", Credit.sizes), f"{file}: sizes"),
        _thresholds(settings.get("step", []), f"{file}: step"),
        _thresholds(settings.get("bound", []), f"{file}: bound"),
        against,
    )
    if not credit.most:
        raise UsageError(f"{file}: nothing gives points; one of sizes, step and bound must")
    return credit


def _points(value: Any, label: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_POINTS:
        raise UsageError(f"{label}: points are a number from 0 to {MOST_POINTS:g}")
    return float(value)


def _thresholds(value: Any, label: str) -> Thresholds:
    form = f"{label} is a list such as [[0.5, 10], [0.9, 30]], both numbers of a pair rising"
    if not isinstance(value, list):
        raise UsageError(form)
    pairs: list[tuple[float, float]] = []
    for pair in value:
        if not isinstance(pair, list) or len(pair) != 2:
            raise UsageError(form)
        least, points = _points(pair[0], label), _points(pair[1], label)
        if math.isclose(least, 0) or (pairs and (least <= pairs[-1][0] or points <= pairs[-1][1])):
            raise UsageError(form)
        pairs.append((least, points))
    return tuple(pairs)


def rounded(values: Sequence[float], digits: int) -> list[float]:
    """Return numbers with so many digits, whose sum is the rounded sum.

    >>> rounded([100 / 3] * 3, 0)
    [33.0, 34.0, 33.0]
    """
    sums = [round(total, digits) for total in itertools.accumulate(values, initial=0.0)]
    return [round(after - before, digits) for before, after in itertools.pairwise(sums)]
