"""Tuned spaces of the store: all points of a step that were measured on one device and case, and replays of searches there."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..measure.search_strategy import evaluations_until, in_order
from ..measure.space_search import seconds_of
from ..spec import registry
from ..spec.plan import Variant
from ..spec.search_space import Point, text_of_value
from .readings import records, text_field

if TYPE_CHECKING:
    import pandas as pd

REPLAYS = 20
"""Number of seeds with which a search is replayed."""


@dataclass(frozen=True)
class TunedSpace:
    """Results of the points of a step on one device and case."""

    lab: str
    step: str
    case: str
    device: str
    unit: str
    results: Sequence[tuple[Point, float | None]]
    """Each point with its seconds per unit; None if it failed."""

    @property
    def values(self) -> dict[str, list[str]]:
        """Values of each knob: numbers by size, other values by their texts."""
        return {knob: in_order({point[knob] for point, _ in self.results}) for knob in self.results[0][0]}

    @property
    def timed(self) -> list[tuple[Point, float]]:
        """Verified points with their seconds, the fastest first."""
        timed = [(point, seconds) for point, seconds in self.results if seconds is not None]
        return sorted(timed, key=lambda pair: pair[1])

    def evaluations(self, strategy: str) -> list[int]:
        """Return, for each seed, how many points a strategy measures until one is within 1 % of the fastest."""
        known = {tuple(point.values()): seconds for point, seconds in self.results}
        points = [point for point, _ in self.results]
        return [evaluations_until(strategy, known, points, seed) for seed in range(REPLAYS)]

    def median_evaluations(self, strategy: str) -> float:
        """Return the median of `evaluations`."""
        return float(statistics.median(self.evaluations(strategy)))


def tuned_spaces(rows: "pd.DataFrame") -> list[TunedSpace]:
    """Return the spaces of rows of a store of points, those with most points first. Steps that are gone are left out.

    A knob that a point's name leaves out has the step's own value.
    """
    groups: dict[tuple[str, str, str, str, str], dict[str, Mapping[str, Any]]] = {}
    for row in records(rows):
        name = str(row["variant"]).partition("@")[0]
        key = str(row["lab"]), name, str(row["case"]), str(row["device_name"]), str(row["unit"])
        groups.setdefault(key, {})[str(row["variant"])] = row
    spaces = []
    for key, newest in groups.items():
        turned = {name: dict(_turned(row)) for name, row in newest.items()}
        knobs = sorted({knob for point in turned.values() for knob in point})
        try:
            step: Variant = registry.get(key[0]).variant(key[1])
        except UsageError:
            continue
        own: dict[str, Any] = {**dict(step.text.settings), **step.options} if step.source else {}
        if len(knobs) < 2 or len(newest) < 3:
            continue
        results = [
            ({knob: point.get(knob, text_of_value(own.get(knob, ""))) for knob in knobs}, seconds_of(newest[name]))
            for name, point in turned.items()
        ]
        if any(seconds is not None for _, seconds in results):
            spaces.append(TunedSpace(*key, results))
    return sorted(spaces, key=lambda space: -len(space.results))


def _turned(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (knob, value) of each knob that a point's name has."""
    knobs, values = ((text_field(row, name) or "").split(",") for name in ("axis", "point"))
    return [(knob, value) for knob, value in zip(knobs, values, strict=True) if knob]
