"""A small network on small images (UIUC ECE408, milestone 3): its two convolutions, from one thread an output to joint tiling.

The ladder begins with the report's numbered optimisations and their published combinations, launched as in the report. This
project's own kernels for the same ideas follow, and after the published end registers, tensor cores and the whole pass.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ...devices.backends import CUDA
from ...spec.lab import NamedCases, Sweep, Work
from ...spec.plan import Case, Variant
from ...spec.prediction import SMALL
from ...spec.rounding import TRANSFORMS_CLEARANCE, worst
from . import data, problem
from .ladder import LADDER, PEERS, TILED_CONSTANT
from .network import CLASSES

CASES = {
    "quick": ("batch-10",),
    "published": ("batch-100", "batch-1000", "batch-10000"),
    "large": ("batch-20000",),
    "test": ("batch-3",),
}
SHAPES = {
    "conv1": ("1x4x4/2x1", "2x4x4/2x1", "4x4x4/2x1", "4x2x8", "4x2x4/5x3", "4x2x5/4x3", "4x1x10/2x2"),
    "conv2": ("2x4x4", "4x4x4", "4x2x4", "8x2x4", "8x1x5", "16x1x4", "16x1x5"),
}
"""Shapes of work-items to try, by layer; after the stroke, groups an image and groups on a multiprocessor."""


class LeNet(NamedCases):
    """The lab. A case has the name of its number of images; the data set of the images is part of it."""

    name = "lenet"
    title = "A small network"
    preferred_backend = CUDA.name
    unit = "batch"
    timed = "kernels of both convolutions"
    cache_note = (
        "Op time is warm: the cache is overwritten before each sample, but a sample is a whole batch with its copies, and the "
        "launches that are timed repeat identical ones of the same sample, so their data is in the cache. With "
        "streams each kernel is launched once, after the copy of its input."
    )
    bases = ("linear", "baseline")
    headline = ("sequential-c", *bases)
    best = "joint"
    ladder = LADDER
    peers = PEERS
    parts = (
        "op 1", "layer 1", "op 2", "layer 2", "layer", "copy", "kernels", "copies and kernels", "allocate", "free",
        "copy to constant memory", "clear", "op 1 as published", "pass",
    )  # fmt: skip
    facts_shown = MappingProxyType({"accuracy": "Accuracy"})
    awkward = ("batch-7",)
    """A batch that is no multiple of the images of a work-group or a segment."""
    case_names = CASES
    name_pattern = "batch-(0|[1-9][0-9]{0,17})"
    other_sizes = f"any batch from batch-1 to batch-{problem.MOST_IMAGES}"

    def __init__(self) -> None:
        unrolled, tiled = self.variant("unrolled-constant"), self.variant("tiled-constant")
        segments, overlapped, shaped = (self.variant(name) for name in ("streams", "pinned", "registers"))
        self.sweeps = (
            Sweep("minibatch", "How many images unrolled at a time?",
                  tuple(unrolled.at("minibatch", images, minibatch=images) for images in (100, 250, 500, 1000)), tunes=True),
            Sweep("tile", "How wide a tile (TILE_WIDTH)?",
                  tuple(tiled.at("tile", width, TILED_CONSTANT.with_knobs(TILE_WIDTH=width)) for width in (8, 10, 14, 17, 20)),
                  quick=("8", "14", "20"), tunes=True),
            Sweep("segment", "How many images per segment?",
                  tuple(segments.at("segment", images, segment=images) for images in (60, 100, 125)), tunes=True),
            Sweep("queues", "How many queues?",
                  tuple(overlapped.at("queues", queues, queues=queues) for queues in (1, 2, 3, 4)), quick=("1", "2", "4"),
                  tunes=True),
            Sweep("conv1", "Which shape of a work-item in layer 1, filters by rows by columns?",
                  tuple(shaped.at("conv1", shape, conv1=shape) for shape in SHAPES["conv1"]),
                  quick=("1x4x4/2x1", "4x4x4/2x1", "4x2x5/4x3"), tunes=True),
            Sweep("conv2", "Which shape of a work-item in layer 2, filters by rows by columns?",
                  tuple(shaped.at("conv2", shape, conv2=shape) for shape in SHAPES["conv2"]),
                  quick=("2x4x4", "4x4x4", "8x2x4"), tunes=True),
        )  # fmt: skip

    def prepare(self) -> None:
        data.fetch()

    def named_case(self, name: str, scale: str) -> Case:
        return Case(name, scale, {"batch": problem.batch_of(name), "data": data.at_hand()}, 1)

    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]:
        return problem.inputs(case.params["batch"], case.params["data"], seed)

    def verification_inputs(self, case: Case, name: str, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return noise instead of the images of a small batch."""
        return problem.noisy(inputs) if case.params["batch"] <= problem.SAMPLED else inputs

    def reference(self, case: Case, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        return problem.reference(inputs)

    def check(
        self, case: Case, variant: Variant, outputs: Mapping[str, np.ndarray], reference: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        roundoff, mean = problem.roundoff(variant.options), problem.root_mean_square_roundoff(variant.options)
        names = sorted({"scores", *outputs})
        transforms, peer = bool(variant.options.get("transformed")), variant.role == "peer"
        clearance = TRANSFORMS_CLEARANCE if transforms else 1.0
        ratios = {
            f"largest error of {name}": problem.error_over_bound(
                outputs[name], reference[name], roundoff, peer or transforms
            )
            for name in names
        }
        for name, varies in reference["variances"].items():
            if name in outputs and not peer:
                ratio = problem.mean_square(outputs[name], reference[name], varies, mean)
                ratios[f"root mean square error of {name}"] = ratio / clearance
        largest, error_name = worst(ratios)
        return largest, 1.0, f"{error_name}, over its tolerance; compared: {', '.join(names)}"

    def work(self, case: Case) -> Work:
        """Return the multiply-adds of both convolutions, and the least bytes of any step: batch, weights, last pooled maps."""
        batch, (first, last) = int(case.params["batch"]), problem.LAYERS
        least = 4.0 * (batch * (first.x_values + last.pooled_values) + first.weights + last.weights)
        return Work(batch * sum(layer.flops for layer in problem.LAYERS), least, least)

    def output_arrays(self, case: Case) -> Mapping[str, tuple[type[np.generic], tuple[int, ...]]]:
        return {"scores": (np.float32, (case.params["batch"], CLASSES))}

    def case_class(self, case: Case) -> str:
        """Return SMALL for at most the images of the report's smallest batch."""
        return SMALL if case.params["batch"] <= 100 else ""


LAB = LeNet()
