"""The lab's demonstration, all of it computed: errors of three inverse roots, and bits that differ when passes are fused."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...analysis.publication import Demonstration
from ...devices.contract import Device
from ...spec.plan import Case
from ...spec.source import Source
from . import LAB
from .ladder import HERE
from .problem import PUBLISHED_PASSES, inputs

Floats = NDArray[np.float32]
Problem = dict[str, Floats]


class Compared(NamedTuple):
    """A comparison of two arrays: largest and mean difference in ulp, and how many values differ in any bit."""

    computed: str
    against: str
    values: int
    largest: float
    mean: float
    differing: int


ONE, FOUR = (int(np.float32(end).view(np.uint32)) for end in (1, 4))
CHUNK, GROUP = 1 << 22, 128
ULP = 2.0**-24
"""Spacing of float32 between 0.5 and 1, where the inverse roots of [1, 4) lie."""


def roots(device: Device) -> Iterator[Compared]:
    """Compare the three inverse roots of every float32 in [1, 4) with the exact one: a factor of 4 only shifts the exponent."""
    kernel = device.build(Source.of(HERE / "roots.k").render(device.backend)).kernel("roots")
    queue, buffers = device.queue(), [device.empty(4 * CHUNK) for _ in range(4)]
    names = ("1/sqrt", "rsqrt", "native_rsqrt")
    largest, total, differing = np.zeros(3), np.zeros(3), np.zeros(3, int)
    for start in range(ONE, FOUR, CHUNK):
        x = np.arange(start, start + CHUNK, dtype=np.uint32).view(np.float32)
        queue.write(buffers[0], x)
        queue.launch(kernel, (CHUNK,), (GROUP,), *buffers, np.int32(CHUNK))
        exact = 1 / np.sqrt(x.astype(np.float64))
        nearest = exact.astype(np.float32)
        for number, buffer in enumerate(buffers[1:]):
            root = queue.read(buffer, np.empty_like(x))
            error = np.abs(root - exact)
            largest[number] = np.maximum(largest[number], error.max() / ULP)
            total[number] += error.sum() / ULP
            differing[number] += np.count_nonzero(root != nearest)
    for buffer in buffers:
        buffer.release()
    count = FOUR - ONE
    for number, name in enumerate(names):
        yield Compared(name, "exact", count, largest[number], total[number] / count, int(differing[number]))


ODD = (37, 64)
SPECIAL = (0.0, 2.0**-149, 2.0**-127, 2.0**-126, 1.0, 2.0**127, (2 - 2.0**-23) * 2.0**127, np.inf, -1.0, np.nan)
"""Special sums r + b and values of g: zero, denormal, tiny, huge, infinite, without a root."""


def special() -> Problem:
    """Return r, b and g in which every special sum meets every special g."""
    values = np.array(SPECIAL, np.float32)
    b = np.zeros(ODD, np.float32)
    return {"r": np.resize(values, ODD), "b": b, "g": np.resize(values.repeat(len(values)), ODD)}


def passes(device: Device, name: str, problem: Problem) -> Floats:
    """Return g after the published number of passes by the step `name`."""
    variant = LAB.variant(name)
    run = variant.plan(device, variant, Case("demonstration", "test", {}, PUBLISHED_PASSES), problem)
    run.reset()
    run.run()
    g = run.outputs()["g"]
    run.close()
    return g


def in_order(values: Floats) -> NDArray[np.int64]:
    """Map float32 to whole numbers in the same order: neighbours, -0 and 0 too, are 1 apart. All NaN become one number."""
    bits = np.where(np.isnan(values), np.float32(np.nan), values).view(np.int32).astype(np.int64)
    return np.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


def fusions(device: Device) -> Iterator[Compared]:
    """Compare pass after pass with all passes in one kernel, on drawn numbers and on special ones."""
    drawn: Problem = inputs(*ODD, seed=0)
    for kind, problem in (("drawn", drawn), ("special", special())):
        fused = passes(device, "fused", problem)
        steps = [LAB.variant(name) for name in ("flat", "float4", "float16")]
        for name in (step.name for step in steps if step.is_for(device.backend, device.kind)):
            distance = np.abs(in_order(passes(device, name, problem)) - in_order(fused))
            computed, differing = f"{name}, {kind}", int(np.count_nonzero(distance))
            yield Compared(computed, "fused", distance.size, float(distance.max()), float(distance.mean()), differing)


def demonstration(device: Device) -> Demonstration:
    """Compute the errors of the three inverse roots over two binades, and the bits that differ when the passes are fused."""
    import pandas as pd

    from ...analysis import format as show

    comparisons = [*roots(device), *fusions(device)]
    lines = [
        [
            row.computed,
            row.against,
            show.number(row.values, places=0),
            show.number(row.largest),
            show.number(row.mean),
            show.number(row.differing, places=0),
            show.percent(1 - row.differing / row.values),
        ]
        for row in comparisons
    ]
    heads = [
        "Computed",
        "Compared with",
        *("Values", "Largest difference (ulp)", "Mean (ulp)", "Differing", "Same"),
    ]
    notes = [
        "Inverse roots of every float32 in [1, 4). Same: the result is the float32 nearest to the exact root.",
        f"{PUBLISHED_PASSES} passes on a grid of {' x '.join(map(str, ODD))}, one by one and fused. Same: no bit"
        " differs, or both are NaN. Special: zero, denormal, huge, infinite and NaN, as sums r + b and in g.",
    ]
    return Demonstration(
        f"Arithmetic on {device.name}", heads, lines, frozenset(heads[2:]), pd.DataFrame(comparisons), notes
    )
