"""Sparse convolution and pooling in integers (NCTU, computer architecture): from a loop nest to lists of what is not zero.

The ladder follows the report, its failed attempts included.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ...device import Device
from ...lab import Case, Lab, Sweep, Variant, Work
from ...source import Source
from . import plans
from .problem import PUBLISHED, PUBLISHED_CASES, Layer, check, inputs, reference

HERE = Path(__file__).parent
LAYER = {"DEPTH": 512, "FILTERS": 512, "SIZE": 32, "TAPS": 3}
"""The published layer: what a kernel's text shows; a plan sets the case's own."""
ROWS = Source.of(
    HERE / "dense.k", GRID="ROW_GROUPS", POOL="SEPARATE", UNROLL="ROLLED", INDEX="OWN", **LAYER,
)  # fmt: skip
PIXELS = ROWS.turn(GRID="FILTER_GROUPS")
UNROLLED = PIXELS.turn(UNROLL="UNROLLED")
SHARED = UNROLLED.turn(INDEX="SHARED")
LISTS = Source.of(HERE / "lists.k", LAYERS=128, STAGING="DIRECT", **LAYER)

LADDER = (
    Variant(
        "sequential", None, Source.of(HERE / "sequential.k", **LAYER), plans.Sequential,
        "One work-item does the whole layer, zeros and all.",
        "The base: one core, eight of nine products by zero.",
        frozenset({"opencl"}), options={"device": "host"},
    ),
    Variant(
        "row-groups", "sequential", ROWS, plans.Pooled,
        "A group a row of a filter, a work-item a column; pooling is a second kernel.",
        "Groups of 32 fill a quarter of a multiprocessor's places: too few to hide its memory.",
        differs=("source", "plan", "options"),
    ),
    Variant(
        "filter-groups", "row-groups", PIXELS, plans.Pooled,
        "A group a filter, a work-item a pixel.",
        "Groups of 1024 fill every place; each input that a group loads serves a whole map.",
    ),
    Variant(
        "atomic-pool", "filter-groups", PIXELS.turn(POOL="ATOMIC"), plans.Pooled,
        "Pooling inside the kernel, by atomic maximum: a failed attempt of the report.",
        "Saves a map written and read again, costs four atomic operations an output: a millisecond or two more, it says.",
        shows={"dense": r"red\.(global\.)?max|atom\.(global\.)?max"},
    ),
    Variant(
        "uncached", "filter-groups", PIXELS, plans.Pooled,
        "Global loads pass the first cache by, as on the report's GPU before it set the architecture flag.",
        "Every work-item of a group reads the same weight and its neighbours' inputs: the first cache serves most of them.",
        frozenset({"cuda"}), options={"build": ("--ptxas-options=-dlcm=cg",)}, differs=("options",),
    ),
    Variant(
        "fast-math", "filter-groups", PIXELS, plans.Pooled,
        "Compiled for fast arithmetic.",
        "Nothing: there is no floating point in it.",
        options={"fast_math": True}, differs=("options",),
    ),
    Variant(
        "unrolled", "filter-groups", UNROLLED, plans.Pooled,
        "The loops over the taps are unrolled.",
        "Fewer comparisons and indices for the same products.",
    ),
    Variant(
        "shared-index", "unrolled", SHARED, plans.Pooled,
        "The first work-item computes where the filter begins, for the whole group.",
        "Compilers keep what is the same for a group in one place anyway; a barrier is new.",
        shows={"dense": r"bar\.sync|barrier\.sync"},
    ),
    Variant(
        "lists", "filter-groups", LISTS, plans.Lists,
        "The group turns 128 channels of its filter into sparse lists in local memory, and walks those.",
        "One product in nine is left: several times as fast.",
        differs=("source", "plan"),
    ),
    Variant(
        "input-in-local", "lists", LISTS.turn(STAGING="LOCAL_COPY"), plans.Lists,
        "The input comes to local memory as well, a channel at a time: a failed attempt of the report.",
        "With one product a pixel and channel there is nothing to share: two barriers a channel, slower.",
    ),
    Variant(
        "built-lists", "lists", Source.of(HERE / "built.k", **LAYER), plans.Built,
        "Lists are built once by a kernel of its own; a work-item owns a window of the pool.",
        "Each entry serves four products, pooling needs no memory, and no group looks for zeros again.",
        differs=("source", "plan"),
    ),
    Variant(
        "both-sparse", "built-lists", Source.of(HERE / "both.k", TOGETHER=1, **LAYER), plans.Both,
        "Inputs as lists too: only what is not zero on both sides is multiplied, and added to a map in local memory.",
        "A fifth of the products is left. They no longer lie side by side, and each weight needs a barrier.",
        differs=("source", "plan"), shows={"scatter": r"bar\.sync|barrier\.sync"},
    ),
)  # fmt: skip

CASES = {
    "quick": ("64x64x32x32-k3",),
    "published": tuple(layer.name for layer in PUBLISHED),
    "large": ("1024x1024x32x32-k3",),
    "test": ("5x7x9x9-k3", "3x2x7x7-k5"),
}


class SparseConvolution(Lab):
    """The lab. A case goes by its layer's name; its params are the layer's sizes."""

    name = "convpool"
    title = "Sparse convolution and pooling"
    home = "cuda"
    unit = "layer"
    timed = "kernels"
    base = "sequential"
    best = "lists"
    ladder = LADDER
    published_cases = PUBLISHED_CASES
    other_sizes = "any layer such as 64x64x32x32-k3"

    def __init__(self) -> None:
        best, both = self.variant(self.best), self.variant("both-sparse")
        assert both.source is not None
        self.sweeps = (
            Sweep("layers", "How many channels of lists at a time (TILING_FACTOR)?",
                  tuple(best.at("layers", layers, LISTS.turn(LAYERS=layers)) for layers in (16, 32, 64, 128, 256))),
            Sweep("together", "How many filters a group, both sides sparse?",
                  tuple(both.at("together", many, both.source.turn(TOGETHER=many)) for many in (1, 2, 4, 8))),
        )  # fmt: skip

    def cases(self, scale: str) -> Sequence[Case]:
        return [_case(name, scale) for name in CASES[scale]]

    def sized(self, name: str, scale: str) -> Case | None:
        return _case(name, scale) if "-k" in name else None

    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]:
        """`x` and `weight`, int16 with the published sparsity, in the layer's shapes."""
        return inputs(plans.layer(case), seed)

    def reference(self, case: Case, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        return reference(plans.layer(case), inputs["x"], inputs["weight"])

    def check(
        self, case: Case, variant: Variant, outputs: Mapping[str, np.ndarray], reference: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        wrong, of = check(outputs["out"], reference["out"])
        return float(wrong), 0.0, f"outputs of {of} that are not exactly right"

    def published_mapping(self, device: Device) -> Mapping[str, str | tuple[str, str]]:
        return {
            "sequential CPU": "sequential",
            "conv+ReLU kernel and pool kernel": "lists",
            "both kernels, profiler": "lists",
            "speedup over CPU": ("lists", "sequential"),
            "sparse filter lists in shared memory vs dense (at least)": ("lists", "filter-groups"),
            "grid one block per filter row: speedup over CPU": ("row-groups", "sequential"),
            "grid one block per filter: speedup over CPU": ("filter-groups", "sequential"),
        }

    def work(self, case: Case) -> Work:
        """The products that the published sparsity leaves: one a slice of a filter; each byte of the layer once."""
        layer = plans.layer(case)
        return Work(layer.flops / layer.kernel**2, layer.bytes, layer.bytes)


def _case(name: str, scale: str) -> Case:
    return Case(name, scale, {"layer": asdict(Layer.named(name))}, 1)


LAB = SparseConvolution()
