"""The convolution layer (UCLA CS133): bias, 5x5 convolution, ReLU and pooling, from one loop nest to the tensor cores.

The ladder follows the report's five knobs. Local memory, an implicit matrix product and tensor cores come after them.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from itertools import product
from typing import Any

import numpy as np

from ...devices.backends import OPENCL
from ...devices.contract import Device
from ...devices.find import open_device
from ...errors import UsageError
from ...spec.lab import NamedCases, Sweep, Work
from ...spec.plan import Case, Variant
from ...spec.rounding import worst
from . import plans
from .ladder import LADDER, NO_ADDRESS, PEERS
from .problem import (
    Arithmetic,
    Layer,
    course_wrong,
    error_over_bound,
    inputs,
    mean_of_filters,
    mean_square,
    reference,
)

# The report's 3x3 table: (filters a work-item, work-items of a group along the filters) by its name "work-groups x work-items".
SPLITS = {
    f"{groups}x{items}": (256 * 112 // (groups * along), along)
    for groups, (items, along) in product((896, 1792, 3584), ((32, 2), (64, 4), (128, 8)))
}
SUBS = ((4, 2, 14), (2, 2, 14), (8, 2, 14), (16, 2, 14), (4, 2, 28), (4, 4, 14), (8, 2, 8), (16, 2, 2), (16, 4, 14))
GROUPS = ((4, 8, 2), (1, 1, 1), (2, 4, 2), (8, 8, 2), (32, 2, 1), (1, 8, 8), (1, 4, 16), (16, 16, 8))
QUICK_SPACE = (
    *(f"64x112x16/{group}" for group in ("1x1x1", "2x4x2", "4x8x2", "1x8x8")),
    "16x112x112/2x4x2",
)  # fmt: skip

CASES = {
    "quick": ("32ch-112x112-k5",),
    "published": ("256ch-224x224-k5",),
    "large": ("256ch-448x448-k5",),
    "test": ("16ch-16x28-k5", "3to5ch-7x34-k3"),
}


class ConvolutionLayer(NamedCases):
    """The lab. A case has the name of its layer; its params are the layer's sizes."""

    name = "cnn"
    title = "Convolution layer"
    preferred_backend = OPENCL.name
    unit = "layer"
    timed = "kernels"
    bases = ("sequential-c", "sequential")
    best = "fissioned"
    ladder = LADDER
    peers = PEERS
    awkward = ("5to130ch-9x33-k5", "3to32ch-32x56-k2", "3to5ch-7x34-k3")
    """Layers with more filters than a tile and odd sizes; and, for steps that need whole tiles, a layer of several tiles."""
    case_names = CASES
    name_pattern = ".*ch-.*"
    other_sizes = "any layer such as 64to128ch-56x56-k3"

    def __init__(self) -> None:
        best = self.variant(self.best)
        self.sweeps = (
            Sweep("without", "What is each optimisation worth in the best kernel?", _without(best)),
            Sweep(
                "split", "How many work-groups, how many work-items?",
                tuple(best.at("split", name, **_split(*split)) for name, split in SPLITS.items()),
                ("work-groups, at the published size", "work-items per group"),
                ("896x128", "1792x128", "3584x32", "3584x128"),
                tunes=True,
            ),
            Sweep(
                "space", "Which global and local size?",
                tuple(
                    best.at("space", f"{_sizes(sub)}/{'x'.join(map(str, group))}", sub=sub, group=group)
                    for sub, group in product(SUBS, GROUPS)
                ),
                ("global size, at the published size", "local size"),
                QUICK_SPACE,
                tunes=True,
            ),
            Sweep(
                "twice", "What does each part of the fastest step on tensor cores cost?",
                tuple(_twice(self.variant("tensor-turns"), part) for part in ("LOADS", "STORES", "PRODUCTS")),
            ),
            Sweep(
                "report", "What is each optimisation worth in the report's own kernel, with operands in constant memory?",
                _as_reported(self.variant("as-reported")), quick=("unrolling", "alignment"),
            ),
        )  # fmt: skip

    def named_case(self, name: str, scale: str) -> Case:
        return Case(name, scale, {"layer": asdict(Layer.named(name))}, 1)

    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]:
        """Draw `x`, `weight` and `bias` from N(0, 1): float32 in the layer's shapes."""
        return inputs(plans.layer(case), seed)

    def reference(self, case: Case, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        return reference(plans.layer(case), inputs["x"], inputs["weight"], inputs["bias"])

    def check(
        self, case: Case, variant: Variant, outputs: Mapping[str, np.ndarray], reference: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        out, layer = outputs["out"], plans.layer(case)
        arithmetic = Arithmetic.of(variant.options, variant.dtype, variant.role == "peer")
        ratio, error_name = worst({
            "largest error of an output": error_over_bound(out, reference, layer, arithmetic.operand_roundoff),
            "root mean square error of the outputs": mean_square(out, reference, layer, arithmetic),
            "mean error of a filter's outputs": mean_of_filters(out, reference, layer, arithmetic),
        })  # fmt: skip
        wrong = course_wrong(out, reference["out"])
        return ratio, 1.0, f"{error_name}, over its tolerance; by the course's check {wrong} are wrong"

    def work(self, case: Case) -> Work:
        """Return the convolution's multiply-adds, and the bytes of each input, weight and output once."""
        layer = plans.layer(case)
        return Work(layer.flops, layer.bytes, layer.bytes)

    def output_arrays(self, case: Case) -> Mapping[str, tuple[type[np.generic], tuple[int, ...]]]:
        return {"out": (np.float32, plans.layer(case).out_shape)}

    def sizes(self, case: Case) -> Mapping[str, int]:
        layer = plans.layer(case)
        sides = {"HEIGHT": layer.height, "WIDTH": layer.width}
        return {"CHANNELS": layer.channels, "FILTERS": layer.filters, "TAPS": layer.kernel} | sides


def _split(filters: int, along: int) -> dict[str, Any]:
    """Return the options of a point of the 3x3 table: filters a work-item, and work-items of a group along them."""
    return {"sub": (filters, *plans.PUBLISHED_SUB[1:]), "group": (along, *plans.PUBLISHED_GROUP[1:])}


def _sizes(sub: tuple[int, ...]) -> str:
    """Return the global size of the published layer with sub-tiles of these sides, as the report writes it: `64x112x16`."""
    return "x".join(str(side // part) for side, part in zip((256, 224, 224), sub, strict=True))


def _twice(fastest: Variant, part: str) -> Variant:
    """Return a variant of the fastest step on tensor cores that does one part of its work twice."""
    return fastest.at("twice", part.lower(), fastest.text.with_knobs(TWICE=part))


def _without(best: Variant) -> tuple[Variant, ...]:
    """Return variants of the best step, each without one of its optimisations."""
    undone = {
        "global number": {"START": "GROUP_NUMBER"},
        "permutation": {"ORDER": "INNERMOST"},
        "unrolling": {"UNROLL": "ROLLED"},
        "fission": {"STAGES": "FUSED"},
        "bias as start value": {"STAGES": "ZEROED"},
        "alignment": {"ALIGN": "NATURAL"},
    }
    points = (best.at("without", name, best.text.with_knobs(**knobs)) for name, knobs in undone.items())
    return tuple(replace(variant, same_code=NO_ADDRESS if variant.point == "alignment" else {}) for variant in points)


def _as_reported(best: Variant) -> tuple[Variant, ...]:
    """Return variants of the report's best kernel, each without one of its optimisations.

    As in the report, sums that do not begin with the bias begin with zeros of their declaration, and the alignment is measured
    with them too.
    """
    fused = {"STAGES": "FUSED", "ZEROS": "DECLARED"}
    undone = {
        "global number": {"START": "GROUP_NUMBER"},
        "permutation": {"ORDER": "INNERMOST"},
        "unrolling": {"UNROLL": "ROLLED"},
        "fission": fused,
        "bias as start value": {"STAGES": "ZEROED", "ZEROS": "DECLARED"},
        "alignment": {"ALIGN": "NATURAL"},
        "fission and alignment": fused | {"ALIGN": "NATURAL"},
    }
    return tuple(best.at("report", name, best.text.with_knobs(**knobs)) for name, knobs in undone.items())


def forward(
    device_spec: str, variant: str | None, layer: Layer, x: np.ndarray, weight: np.ndarray, bias: np.ndarray
) -> np.ndarray:
    """Run a layer once: float32 arrays in the layer's shapes -> out, layer.out_shape, float32.

    Raises UsageError if the device or variant is unknown, or the variant cannot run this layer on this device.
    """
    device = open_device(device_spec, LAB.preferred_backend)
    case = Case(layer.name, "course", {"layer": asdict(layer)}, 1)
    chosen = LAB.variant(variant) if variant else _quickest(device, case)
    reason = LAB.skip_reason(chosen, case) or (
        None if chosen.is_for(device.backend, device.kind) else f"not on {device.spec}"
    )
    if reason or chosen not in LAB.ladder:
        raise UsageError(f"variant {chosen.name!r} cannot run this: {reason or 'it is not a step of the ladder'}")
    run = chosen.plan(device, chosen, case, {"x": x, "weight": weight, "bias": bias})
    run.reset()
    run.run()
    out = run.outputs()["out"]
    run.close()
    return out.astype(np.float32)


def _quickest(device: Device, case: Case) -> Variant:
    """Return the fastest known step for a user who names none."""
    names = ("four-rows", "vectors", "implicit-gemm") if device.kind == "cpu" else ("implicit-gemm",)
    candidates = [LAB.variant(name) for name in (*names, "sequential")]
    return next(variant for variant in candidates if not LAB.skip_reason(variant, case))


LAB = ConvolutionLayer()
