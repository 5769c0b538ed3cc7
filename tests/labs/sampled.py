"""Points of a sweep that stand for all of it: the ends, and of the rest so many that each value of each knob is there."""

from __future__ import annotations

import random
from collections.abc import Iterator

from roofbook.spec.lab import Lab, Sweep, Variant


def values(variant: Variant) -> set[tuple[str, str]]:
    """What a point chooses: its knobs, and its plan's options."""
    knobs = variant.source.knobs if variant.source else ()
    return {
        *((f"knob {name}", str(value)) for name, value in knobs),
        *((k, str(v)) for k, v in variant.options.items()),
    }


def points(sweep: Sweep) -> list[Variant]:
    """In the sweep's own order, the same ones each time. A sweep along one knob is taken whole."""
    first, *rest = sweep.variants
    random.Random(sweep.axis).shuffle(rest)
    rest.sort(key=lambda variant: variant is not sweep.variants[-1])
    chosen, seen = [first], values(first)
    for variant in rest:
        if variant is sweep.variants[-1] or not values(variant) <= seen:
            chosen.append(variant)
            seen |= values(variant)
    return [variant for variant in sweep.variants if variant in chosen]


def variants(lab: Lab) -> Iterator[Variant]:
    """Every step and peer, and the points of the sweeps that stand for them, each once."""
    swept = {variant.name: variant for sweep in lab.sweeps for variant in sweep.variants}
    taken = {variant.name for sweep in lab.sweeps for variant in points(sweep)}
    yield from (variant for variant in lab.all_variants() if variant.name not in swept or variant.name in taken)
