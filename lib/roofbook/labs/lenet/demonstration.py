"""What its check lets pass. Every number is computed."""

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
"""Of which the demonstration computes the scores."""
ROUNDED = 2.0**-11
"""The unit roundoff of TF32 and fp16."""


class Outcome(NamedTuple):
    """How one way to compute the network fares: errors over the bound of fp32 by map, then whether the check takes it.

    `passes_rounded` is the check of operands with 11 bits; `moved` are images whose class is another than the right one's.
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
    """`conv1`, `conv2` and `scores` in float32, with `operand` of what is multiplied by the convolutions.

    `first` and `second` are done to a convolution's output, `last` to the pooled maps that the dense layers read.
    """
    conv1 = first(network.convolve(operand(images), operand(weights["conv1"])))
    pooled = network.pool(np.maximum(conv1, 0), POOL1)
    conv2 = second(network.convolve(operand(pooled), operand(weights["conv2"])))
    flat = last(network.pool(np.maximum(conv2, 0), POOL2)).reshape(len(images), -1)
    hidden = np.maximum(flat @ weights["fc1"].T + weights["fc1_bias"], 0)
    return {"conv1": conv1, "conv2": conv2, "scores": hidden @ weights["fc2"].T + weights["fc2_bias"]}


def put(value: float, *at: int | slice | EllipsisType) -> Step:
    """Sets `value` at this place of a copy."""

    def changed(array: Array) -> Array:
        array = array.copy()
        array[at] = value
        return array

    return changed


def cut_off(maps: Array) -> Array:
    """Maps of a pool whose last windows, cut off by the edge, are left out."""
    return put(0, ..., -1)(put(0, ..., -1, slice(None))(maps))


def exchanged(maps: Array) -> Array:
    """One image's maps are another's. The check compares neither value by value."""
    maps = maps.copy()
    maps[2] = maps[3]
    return maps


def ways(weights: Weights, images: Array) -> Iterator[tuple[str, dict[str, Array]]]:
    """Right and wrong ways to compute the network, by name."""
    yield "fp32", forward(weights, images)
    yield "TF32 operands", forward(weights, images, lambda array: rounded(array, 11).astype(np.float32))
    yield "fp16 operands", forward(weights, images, lambda array: array.astype(np.float16).astype(np.float32))
    yield "bf16 operands", forward(weights, images, lambda array: rounded(array, 8).astype(np.float32))
    for name, layer, place in (
        ("one tap of one filter of layer 2 forgotten", "conv2", (0, 0, 0, 0)),
        ("the last row of layer 1's taps forgotten", "conv1", (..., -1, slice(None))),
        ("one input channel of layer 2 forgotten", "conv2", (slice(None), 0)),
    ):
        yield f"fp32, {name}", forward({**weights, layer: put(0, *place)(weights[layer])}, images)
    yield "fp32, the last column of layer 1 left empty", forward(weights, images, first=put(0, ..., -1))
    yield "fp32, without the pooling windows that the edge cuts off", forward(weights, images, last=cut_off)
    yield (
        "fp32, layer 2 a thousandth too large",
        forward(weights, images, second=lambda array: array * np.float32(1.001)),
    )
    yield "fp32, one image taken for another", forward(weights, images, last=exchanged)
    yield "fp32, one NaN", forward(weights, images, second=put(np.nan, -1, 0, 0, 0))


def check_outcomes(seed: int = 0) -> tuple[str, list[Outcome]]:
    """Which images they are, and what the check says of right and wrong ways to compute the network on them."""
    given = inputs(IMAGES, data.at_hand(), seed)
    right, labels, chosen = reference(given), given["labels"], sampled(IMAGES)
    classes = right["scores"].value.argmax(axis=1)
    outcomes = []
    for computed, maps in ways(given["weights"], given["x"]):
        own, found = (
            maps["scores"].argmax(axis=1),
            {**maps, **{name: maps[name][chosen] for name in ("conv1", "conv2")}},
        )
        over, rough = ({name: error_over_bound(found[name], right[name], d) for name in maps} for d in (0.0, ROUNDED))
        mean_squares = [
            max(mean_square(found[name], right[name], right["variances"][name], d) for name in ("conv1", "conv2"))
            for d in (0.0, ROUNDED)
        ]
        passes, passes_rounded = (
            all(ratio <= 1 for ratio in (*each.values(), mean))
            for each, mean in zip((over, rough), mean_squares, strict=True)
        )
        moved, accuracy = int((own != classes).sum()), float((own == labels).mean())
        outcomes.append(
            Outcome(computed, **over, passes=passes, passes_rounded=passes_rounded, moved=moved, accuracy=accuracy)
        )
    return given["source"], outcomes


def demonstration(device: Device) -> Demonstration:
    """What the check lets pass and what accuracy would. Computed on the host: precisions and mistakes are emulated."""
    import pandas as pd

    from ...analysis import format as show

    source, found = check_outcomes()
    lines = [
        [
            each.computed,
            *("NaN" if math.isnan(over) else show.number(over, 2) for over in (each.conv1, each.conv2, each.scores)),
            "passes" if each.passes else "refused",
            "passes" if each.passes_rounded else "refused",
            show.number(each.moved, places=0),
            show.number(each.accuracy, 4),
        ]
        for each in found
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
    wrong = [each for each in found if not each.passes_rounded]
    unseen = sum(each.moved <= IMAGES / 100 for each in wrong)
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
        pd.DataFrame(found),
        notes,
    )
