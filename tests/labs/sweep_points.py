"""Points of a sweep that stand for all of it: the ends, and enough others that each value of each knob is there; and sweeps as
parameters of a test.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from roofbook.spec.lab import Lab, Sweep
from roofbook.spec.plan import Variant


def values(variant: Variant) -> set[tuple[str, str]]:
    """Return the choices of a point: its knobs, and its plan's options."""
    knobs = variant.source.knobs if variant.source else ()
    return {
        *((f"knob {name}", str(value)) for name, value in knobs),
        *((k, str(v)) for k, v in variant.options.items()),
    }


def points(sweep: Sweep) -> list[Variant]:
    """Return points that stand for a sweep, in its order, the same in each run. A sweep along one knob is taken whole."""
    first, *remaining = sweep.variants
    random.Random(sweep.axis).shuffle(remaining)
    remaining.sort(key=lambda variant: variant is not sweep.variants[-1])
    chosen, seen = [first], values(first)
    for variant in remaining:
        if variant is sweep.variants[-1] or not values(variant) <= seen:
            chosen.append(variant)
            seen |= values(variant)
    return [variant for variant in sweep.variants if variant in chosen]


def variants(lab: Lab) -> Iterator[Variant]:
    """Yield every step and peer, and the points that stand for the sweeps, each once."""
    swept = {variant.name: variant for sweep in lab.sweeps for variant in sweep.variants}
    taken = {variant.name for sweep in lab.sweeps for variant in points(sweep)}
    yield from (variant for variant in lab.all_variants() if variant.name not in swept or variant.name in taken)


def params(sweeps: Sequence[Sweep]) -> list[Any]:
    """Return the points of sweeps as parameters of a test; those that are not in `often_tried` are thorough."""
    return [
        pytest.param(
            variant,
            id=variant.name,
            marks=[] if variant.name in often_tried(sweeps) else [pytest.mark.thorough],
        )
        for sweep in sweeps
        for variant in sweep.variants
    ]


def often_tried(sweeps: Sequence[Sweep]) -> set[str]:
    """Return the names of each fourth point of those that a quick run of the book measures: they differ by a number."""
    names = [variant.name for sweep in sweeps for variant in sweep.at_scale("quick")]
    return set(names[::4])
