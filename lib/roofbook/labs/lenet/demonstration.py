"""The lab's demonstration: right and wrong results that its check accepts. Every number is computed."""

import math
from collections.abc import Callable, Iterator
from types import EllipsisType
from typing import NamedTuple

import numpy as np

from ...analysis.publication import Demonstration
from ...devices.contract import Device
from ..cnn.problem import rounded
from . import data, network
from .network import POOL1, POOL2, Array, Weights
from .problem import error_over_bound, inputs, mean_square, reference, sampled

IMAGES = 100
"""Number of images whose scores the demonstration computes."""
ROUNDED = 2.0**-11
"""The unit roundoff of TF32 and fp16."""


class Outcome(NamedTuple):
    """The errors of one way to compute the network, over the bound of fp32, and whether the check accepts them.

    `passes_rounded` is the check for operands with 11 bits; `moved` counts the images with another class than the right one.
    """

    computed: str
    conv1: float
    conv2: float
    scores: float
    passes: bool
    passes_rounded: bool
    moved: int
    accuracy: float


Step = Callable[[Array], Array]


def same(array: Array) -> Array:
    return array


def forward(
    weights: Weights, images: Array, operand: Step = same, first: Step = same, second: Step = same, last: Step = same
) -> dict[str, Array]:
    """Compute `conv1`, `conv2` and `scores` in float32, with `operand` applied to the operands of the convolutions.

    `first` and `second` are applied to a convolution's output, `last` to the pooled maps that the dense layers read.
    """
    conv1 = first(network.convolve(operand(images), operand(weights["conv1"])))
    pooled = network.pool(np.maximum(conv1, 0), POOL1)
    conv2 = second(network.convolve(operand(pooled), operand(weights["conv2"])))
    flat = last(network.pool(np.maximum(conv2, 0), POOL2)).reshape(len(images), -1)
    hidden = np.maximum(flat @ weights["fc1"].T + weights["fc1_bias"], 0)
    return {"conv1": conv1, "conv2": conv2, "scores": hidden @ weights["fc2"].T + weights["fc2_bias"]}


def put(value: float, *at: int | slice | EllipsisType) -> Step:
    """Return a function that copies an array and sets `value` at an index."""

    def changed(array: Array) -> Array:
        array = array.copy()
        array[at] = value
        return array

    return changed


def cut_off(maps: Array) -> Array:
    """Return pooled maps with zeros for the last windows, those that the edge cuts off."""
    return put(0, ..., -1)(put(0, ..., -1, slice(None))(maps))


def exchanged(maps: Array) -> Array:
    """Return maps in which one image has another's. The check compares neither value by value."""
    maps = maps.copy()
    maps[2] = maps[3]
    return maps


def ways(weights: Weights, images: Array) -> Iterator[tuple[str, dict[str, Array]]]:
    """Yield the results of right and wrong ways to compute the network, with their names."""
    yield "fp32", forward(weights, images)
    yield "TF32 operands", forward(weights, images, lambda array: rounded(array, 11).astype(np.float32))
    yield "fp16 operands", forward(weights, images, lambda array: array.astype(np.float16).astype(np.float32))
    yield "bf16 operands", forward(weights, images, lambda array: rounded(array, 8).astype(np.float32))
    for name, layer, index in (
        ("one tap of one filter of layer 2 forgotten", "conv2", (0, 0, 0, 0)),
        ("the last row of layer 1's taps forgotten", "conv1", (..., -1, slice(None))),
        ("one input channel of layer 2 forgotten", "conv2", (slice(None), 0)),
    ):
        yield f"fp32, {name}", forward({**weights, layer: put(0, *index)(weights[layer])}, images)
    yield "fp32, the last column of layer 1 left empty", forward(weights, images, first=put(0, ..., -1))
    yield "fp32, without the pooling windows that the edge cuts off", forward(weights, images, last=cut_off)
    yield (
        "fp32, layer 2 a thousandth too large",
        forward(weights, images, second=lambda array: array * np.float32(1.001)),
    )
    yield "fp32, one image taken for another", forward(weights, images, last=exchanged)
    yield "fp32, one NaN", forward(weights, images, second=put(np.nan, -1, 0, 0, 0))


def check_outcomes() -> tuple[str, list[Outcome]]:
    """Return the source of the images, and the check's verdicts on right and wrong ways to compute the network on them."""
    drawn = inputs(IMAGES, data.at_hand(), seed=0)
    right, labels, chosen = reference(drawn), drawn["labels"], sampled(IMAGES)
    right_classes = right["scores"].value.argmax(axis=1)
    outcomes = []
    for computed, maps in ways(drawn["weights"], drawn["x"]):
        computed_classes, compared = (
            maps["scores"].argmax(axis=1),
            {**maps, **{name: maps[name][chosen] for name in ("conv1", "conv2")}},
        )
        fp32_ratios, rounded_ratios = (
            {name: error_over_bound(compared[name], right[name], d) for name in maps} for d in (0.0, ROUNDED)
        )
        mean_squares = [
            max(mean_square(compared[name], right[name], right["variances"][name], d) for name in ("conv1", "conv2"))
            for d in (0.0, ROUNDED)
        ]
        passes, passes_rounded = (
            all(ratio <= 1 for ratio in (*ratios.values(), mean))
            for ratios, mean in zip((fp32_ratios, rounded_ratios), mean_squares, strict=True)
        )
        moved, accuracy = int((computed_classes != right_classes).sum()), float((computed_classes == labels).mean())
        outcomes.append(
            Outcome(
                computed, **fp32_ratios, passes=passes, passes_rounded=passes_rounded, moved=moved, accuracy=accuracy
            )
        )
    return drawn["source"], outcomes


def demonstration(device: Device) -> Demonstration:
    """Tabulate the results that the check accepts, and those that accuracy would. The host emulates precisions and mistakes."""
    import pandas as pd

    from ...analysis import format as show

    source, outcomes = check_outcomes()
    lines = [
        [
            row.computed,
            *("NaN" if math.isnan(over) else show.number(over, 2) for over in (row.conv1, row.conv2, row.scores)),
            "passes" if row.passes else "refused",
            "passes" if row.passes_rounded else "refused",
            show.number(row.moved, places=0),
            show.number(row.accuracy, 4),
        ]
        for row in outcomes
    ]
    heads = [
        "Computed with",
        "Error / tolerance, layer 1",
        "layer 2",
        "scores",
        "The check for fp32",
        "for operands of 11 bits",
        "Images in another class",
        "Accuracy",
    ]
    wrong = [row for row in outcomes if not row.passes_rounded]
    unseen = sum(row.moved <= IMAGES / 100 for row in wrong)
    notes = [
        f"{IMAGES} of {source}. Errors are the largest, over the tolerance for fp32: for all scores, and for the maps "
        f"of {len(sampled(IMAGES))}. The checks look at the mean square of the errors as well.",
        f"Of the {len(wrong)} ways that both checks refuse, {unseen} change the class of at most one image in a hundred.",
        "Emulated by NumPy; sums are in fp32 throughout.",
    ]
    return Demonstration(
        "What the check accepts, and what accuracy alone would",
        heads,
        lines,
        frozenset({"Error / tolerance, layer 1", "layer 2", "scores", "Images in another class", "Accuracy"}),
        pd.DataFrame(outcomes),
        notes,
    )
