"""The space that tuning searches: values of a step's knobs, and the restrictions that each point meets."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from ..errors import UsageError
from .lab import Lab
from .plan import Case, Variant
from .restriction import Restriction
from .submission import numbers_of

Point = Mapping[str, str]
"""Knob -> value as a user types it."""
MOST_POINTS = 1_000_000
"""Largest number of points before restrictions."""


def number_or_text(value: str) -> Any:
    """Return the value of a knob as restrictions and files have it: a number, sides such as (16, 4), or the text.

    >>> [number_or_text(value) for value in ("32", "16x4", "PAIRS", "0.5")]
    [32, (16, 4), 'PAIRS', 0.5]
    """
    if value.isdecimal():
        return int(value)
    if re.fullmatch(r"\d+(x\d+)+", value):
        return tuple(map(int, value.split("x")))
    return float(value) if re.fullmatch(r"-?\d+\.\d*|-\d+", value) else value


def text_of_value(value: object) -> str:
    """Return the value of a knob as a user types it: (16, 4) is `16x4`."""
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


@dataclass(frozen=True)
class SearchSpace:
    """Points of a step: all combinations of its knobs' values that meet all restrictions."""

    lab: Lab
    step: Variant
    case: Case
    values: Mapping[str, Sequence[str]]
    """Knob -> its values."""
    where: tuple[str, ...] = ()
    """Restrictions, as expressions of the knobs and of the case's sizes."""

    def __post_init__(self) -> None:
        """Raise UsageError for too many points, a value that the step cannot have, and a restriction of a wrong form."""
        if (count := prod(map(len, self.values.values()))) > MOST_POINTS:
            raise UsageError(f"the space has {count:,} points before restrictions; {MOST_POINTS:,} at most")
        for knob, values in self.values.items():
            for value in values:
                self.lab.turned(self.step, {knob: value})
        self._restrictions()

    def _restrictions(self) -> list[Restriction]:
        names = {*numbers_of(self.lab, self.case), *self.values}
        return [Restriction(expression, names) for expression in self.where]

    def points(self) -> list[Point]:
        """Return the points that meet all restrictions. Raise UsageError if there are none."""
        restrictions, sizes = self._restrictions(), numbers_of(self.lab, self.case)
        points: list[Point] = []
        for values in product(*self.values.values()):
            point = dict(zip(self.values, values, strict=True))
            names = {**sizes, **{knob: number_or_text(value) for knob, value in point.items()}}
            if all(restriction(names) for restriction in restrictions):
                points.append(point)
        if not points:
            raise UsageError(f"no point of the space meets `{'` and `'.join(self.where)}`")
        return points

    def variant(self, point: Point) -> Variant:
        """Return the variant of a point; for the step's own values the step."""
        return self.lab.turned(self.step, point)


def search_space(
    lab: Lab, step: Variant, case: Case, values: Mapping[str, Sequence[str]], where: Sequence[str] = ()
) -> SearchSpace:
    """Return the space of a step's knobs. values: of each knob; without any, those that the lab's sweeps of the step declare.

    Raise UsageError if there are none either, or as `SearchSpace` does.
    """
    if step.source is None or step not in lab.ladder:
        steps = [variant.name for variant in lab.ladder if variant.source]
        raise UsageError(f"{step.name} has no knobs to tune; steps that have a kernel: {', '.join(steps)}")
    declared = {knob: tuple(texts) for knob, texts in values.items()} or declared_values(lab, step, case)
    if not declared:
        knobs = sorted(set(step.text.settings) - set(lab.sizes(case)) | set(lab.turnable_options(step)))
        right = f"write --knob {knobs[0]}=VALUE,VALUE; its knobs: {', '.join(knobs)}" if knobs else "it has no knobs"
        raise UsageError(f"no sweep of {lab.name} declares values of the knobs of {step.name}: {right}")
    return SearchSpace(lab, step, case, declared, tuple(where))


def declared_values(lab: Lab, step: Variant, case: Case) -> dict[str, tuple[str, ...]]:
    """Return the values of a step's knobs, sizes left out, that the lab's sweeps of this step declare; its own value first."""
    own = {**dict(step.text.settings), **step.options}
    declared: dict[str, dict[str, None]] = {}
    for point in _points_of(lab, step):
        knobs = {knob: value for knob, value in point.text.knobs if knob in step.text.settings}
        options = {name: value for name, value in point.options.items() if name in lab.turnable_options(step)}
        for name, value in {**knobs, **options}.items():
            if own.get(name) != value and name not in lab.sizes(case):
                values = declared.setdefault(name, dict.fromkeys([text_of_value(own[name])] if name in own else []))
                values[text_of_value(value)] = None
    return {name: tuple(values) for name, values in declared.items()}


def values_of(points: Sequence[Point]) -> dict[str, tuple[str, ...]]:
    """Return the values of each knob that occur in some points; an empty dict for no points."""
    return {knob: tuple(dict.fromkeys(point[knob] for point in points)) for knob in (points[0] if points else ())}


def _points_of(lab: Lab, step: Variant) -> Iterator[Variant]:
    """Yield the points of all sweeps that turn knobs of the step's own file."""
    for sweep in lab.sweeps:
        for point in sweep.variants:
            if point.parent == step.name and point.plan is step.plan and point.text.path == step.text.path:
                yield point
