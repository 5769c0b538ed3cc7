"""The lab's demonstration: right and wrong sums that its guard and its check accept. Every number is computed."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from ...analysis.publication import Demonstration
from ...devices.contract import Device
from ...errors import UsageError
from .problem import PUBLISHED, Int16, Int32, Layer, check, guard, inputs

SMALL = Layer(PUBLISHED[0].depth, 8, 16, PUBLISHED[0].kernel)
"""A small layer whose outputs have as many products as those of the published layer."""
ROUNDED = 2.0**-11
"""Relative error that the check allows if a peer rounds results to fp16."""


class Outcome(NamedTuple):
    """The verdicts on one way to add up a layer: by the guard, by the check, and by the check of rounded results."""

    inputs: str
    sums: str
    wrong: int
    outputs: int
    guarded: bool
    passes: bool
    passes_rounded: bool


def products_of(x: Int16, weight: Int16) -> Int32:
    """Return the products of each output of the convolution, (depth * taps, filters, size, size), channel by channel."""
    filters, depth, taps, _ = weight.shape
    size, border = x.shape[1], taps // 2
    padded = np.pad(x.astype(np.int32), ((0, 0), (border, border), (border, border)))
    products = np.empty((depth * taps**2, filters, size, size), np.int32)
    for number, (j, p, q) in enumerate(np.ndindex(depth, taps, taps)):
        products[number] = weight[:, j, p, q, None, None] * padded[j, p : p + size, q : q + size]
    return products


def added(products: Int32, dtype: type) -> np.ndarray:
    """Add up products one after another in `dtype`, which wraps around or rounds."""
    sums: np.ndarray = np.zeros(products.shape[1:], dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        for terms in products:
            sums += terms.astype(dtype)
    return sums


def saturated(products: Int32) -> np.ndarray:
    """Add up products one after another in an int16 that saturates."""
    ends, sums = np.iinfo(np.int16), np.zeros(products.shape[1:], np.int32)
    for terms in products:
        sums = np.clip(sums + terms, ends.min, ends.max)
    return sums


def rounded(sums: np.ndarray) -> np.ndarray:
    """Round sums to fp16, whose largest number is 65504."""
    with np.errstate(over="ignore"):
        return sums.astype(np.float16)


def pooled(sums: np.ndarray) -> np.ndarray:
    """Apply ReLU and pool to sums (filters, size, size), `size` even."""
    filters, size, _ = sums.shape
    windows = sums.reshape(filters, size // 2, 2, size // 2, 2)
    return np.asarray(windows.max(axis=(2, 4), initial=0))


LIMITS: dict[str, Callable[[Int32], np.ndarray]] = {
    "int32": lambda products: added(products, np.int32),
    "fp32": lambda products: added(products, np.float32),
}
WAYS = {
    **LIMITS,
    "int32, from the last product to the first": lambda products: added(products[::-1], np.int32),
    "int32, one channel forgotten": lambda products: added(products[SMALL.kernel**2 :], np.int32),
    "int32, the results rounded to fp16": lambda products: rounded(added(products, np.int32)),
    "fp16": lambda products: added(products, np.float16),
    "int16 that wraps around": lambda products: added(products, np.int16),
    "int16 that saturates": saturated,
}
"""Right and wrong ways to add up the products of each output."""


def drawn() -> Iterator[tuple[str, Int16, Int16, dict[str, Callable[[Int32], np.ndarray]]]]:
    """Yield (description, x, weight, ways to try): the lab's inputs, and equal values at the limits of fp32 and int32."""
    for name, density in (("as published", None), ("without zeros", 1.0)):
        drawn_inputs = inputs(SMALL, 0, density, density)
        yield name, drawn_inputs["x"], drawn_inputs["weight"], WAYS
    products = SMALL.depth * SMALL.kernel**2
    for limit in (2**24, 2**31 - 1):
        largest = math.isqrt(limit // products)
        for value in (largest, largest + 1):
            x, weight = (np.full(shape, value, np.int16) for shape in (SMALL.x_shape, SMALL.weight_shape))
            yield f"{value} throughout", x, weight, LIMITS


def check_outcomes() -> list[Outcome]:
    """Return the verdicts of the guard and the check on right and wrong ways to add up a small layer of the published depth."""
    outcomes = []
    for name, x, weight, ways in drawn():
        try:
            guard(SMALL, x, weight)
            guarded = True
        except UsageError:
            guarded = False
        products = products_of(x, weight)
        right = pooled(products.sum(axis=0, dtype=np.int64))
        for way, sums in ways.items():
            out = pooled(sums(products)).astype(np.float64)
            (wrong, outputs), (too_far, _) = check(out, right), check(out, right, ROUNDED)
            outcomes.append(Outcome(name, way, wrong, outputs, guarded, guarded and not wrong, guarded and not too_far))
    return outcomes


def demonstration(device: Device) -> Demonstration:
    """Tabulate the sums that the guard and the check refuse. The host emulates a device's sums."""
    import pandas as pd

    outcomes = check_outcomes()
    lines = [
        [
            row.inputs,
            row.sums,
            f"{row.wrong} of {row.outputs}",
            "passes" if row.guarded else "refused",
            "passes" if row.passes else "refused" if row.guarded else "not asked",
            "passes" if row.passes_rounded else "refused" if row.guarded else "not asked",
        ]
        for row in outcomes
    ]
    heads = [
        "Input and weights",
        "Sums in",
        "Outputs wrong",
        "The guard",
        "The check",
        "The check of results rounded to fp16",
    ]
    notes = [
        "Before anything runs, the guard refuses inputs if an output's absolute products sum to more than int32 holds.",
        "The check accepts no wrong output. Peers in fp16 and bf16 are allowed the rounding of their results.",
        f"Emulated by NumPy on {SMALL.name}, whose outputs have as many products each as those of the published layer.",
    ]
    return Demonstration(
        "What the guard and the check let pass",
        heads,
        lines,
        frozenset({"Outputs wrong"}),
        pd.DataFrame(outcomes),
        notes,
    )
