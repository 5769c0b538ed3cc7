"""The convolution layer (UCLA CS133): bias, 5x5 convolution, ReLU and pooling, from one loop nest to the tensor cores.

The ladder follows the report's five knobs; past its end stand local memory, an implicit matrix product and tensor cores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ...devices.backends import OPENCL
from ...devices.contract import Device
from ...devices.find import open_device
from ...errors import UsageError
from ...peers import missing
from ...spec.lab import CHANNELS_LAST, LAID_OUT, PRECISIONS, ROUNDS_OPERANDS, Case, Lab, Sweep, Variant, Work
from ...spec.rounding import worst
from . import boxes, peers, plans, tensor, tuned
from .ladder import LADDER, LARGEST, NO_ADDRESS, PEERS
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

# The 3x3 table: how many filters a work-item and how many work-items along the filters, by the published numbers of both.
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


class ConvolutionLayer(Lab):
    """The lab. A case goes by its layer's name; its params are the layer's sizes."""

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
    """More filters than a tile has, and odd numbers of all else; and for steps that need whole tiles, several of them."""
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
            ),
            Sweep(
                "space", "Which global and local size?",
                tuple(
                    best.at("space", f"{_sizes(sub)}/{'x'.join(map(str, group))}", sub=sub, group=group)
                    for sub, group in product(SUBS, GROUPS)
                ),
                ("global size, at the published size", "local size"),
                QUICK_SPACE,
            ),
            Sweep(
                "twice", "What does each part of the fastest step on tensor cores cost?",
                tuple(_twice(self.variant("tensor-turns"), part) for part in ("LOADS", "STORES", "PRODUCTS")),
            ),
        )  # fmt: skip

    def cases(self, scale: str) -> Sequence[Case]:
        return [_case(name, scale) for name in CASES[scale]]

    def sized(self, name: str, scale: str) -> Case | None:
        return _case(name, scale) if "ch-" in name else None

    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]:
        """`x`, `weight` and `bias`, N(0, 1): float32 in the layer's shapes."""
        return inputs(plans.layer(case), seed)

    def reference(self, case: Case, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        return reference(plans.layer(case), inputs["x"], inputs["weight"], inputs["bias"])

    def check(
        self, case: Case, variant: Variant, outputs: Mapping[str, np.ndarray], reference: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        out, layer = outputs["out"], plans.layer(case)
        by = Arithmetic.of(variant.options, variant.dtype, variant.role == "peer")
        over, what = worst({
            "largest error of an output": error_over_bound(out, reference, layer, by.operand_roundoff),
            "root mean square error of the outputs": mean_square(out, reference, layer, by),
            "mean error of a filter's outputs": mean_of_filters(out, reference, layer, by),
        })  # fmt: skip
        wrong = course_wrong(out, reference["out"])
        return over, 1.0, f"{what}, over its tolerance; by the course's check {wrong} are wrong"

    def work(self, case: Case) -> Work:
        """The convolution's multiply-adds, and each input, weight and output once."""
        layer = plans.layer(case)
        return Work(layer.flops, layer.bytes, layer.bytes)

    def conditions(self, variant: Variant) -> tuple[str, ...]:
        options = variant.options
        found = [f"{ROUNDS_OPERANDS} {PRECISIONS[variant.dtype]}"] if "operand_roundoff" in options else []
        if options.get("precision") in ("fp16", "bf16"):
            found.append(f"rounds results to {PRECISIONS[variant.dtype]}")
        if variant.plan is peers.Product:
            return (*found, *["finds the input unfolded beforehand"] * bool(options.get("prepared")))
        last = bool(options.get("channels_last")) and not getattr(variant.plan, "as_steps", False)
        return (*found, *[LAID_OUT] * (last or bool(options.get("prepared"))), *[CHANNELS_LAST] * last)

    def sizes(self, case: Case) -> Mapping[str, int]:
        one = plans.layer(case)
        sides = {"HEIGHT": one.height, "WIDTH": one.width}
        return {"CHANNELS": one.channels, "FILTERS": one.filters, "TAPS": one.kernel} | sides

    def traffic(self, case: Case, variant: Variant) -> float:
        """Input, weights and output once, in the type that is multiplied; what a call lays out it writes and reads."""
        layer = plans.layer(case)
        weight, conv = 4 * prod(layer.weight_shape), 4 * prod(layer.conv_shape)
        given = 4 * prod(layer.x_shape) + weight
        if variant.plan in (tensor.Tensor, tensor.Columns, tensor.Window):
            assert variant.source is not None
            parts = (int(variant.source.settings.get("PRODUCTS", 1)) + 1) // 2
            laid = given * parts // 2
            return layer.bytes - given + (laid if variant.options.get("prepared") else given + 2 * laid)
        if variant.plan in (boxes.Tf32, boxes.Split):  # one part of 4 bytes, two of 2
            return layer.bytes if variant.options.get("prepared") else layer.bytes + 2 * given
        if variant.plan in (plans.Gemm, plans.Vectors):
            return layer.bytes + 2 * weight
        if variant.plan is tuned.SplitConvolution:
            return layer.bytes + 3 * given + 2 * conv
        if variant.plan in (tuned.FusedConvolution, tuned.Autotuned):
            precision = variant.options["precision"]
            part = 0.5 if precision == "fp16" else 1.0
            passed = 0.0 if precision == "fp32" else 2 * part * given
            begins = part * given if variant.options.get("prepared") else given + passed
            return layer.bytes - given + begins + 2 * part * conv
        if variant.plan is peers.Product:
            matrix = 4 * layer.terms * layer.height * layer.width
            unfolded = weight + matrix if variant.options.get("prepared") else given + 2 * matrix
            return layer.bytes - given + unfolded + 2 * conv
        return layer.bytes / 2 if variant.options.get("precision") in ("fp16", "bf16") else layer.bytes

    def skip_reason(self, variant: Variant, case: Case) -> str | None:
        layer = plans.layer(case)
        if variant.role == "peer":
            odd = variant.plan in (tuned.FusedConvolution, tuned.SplitConvolution) and (
                layer.channels % 8 or layer.filters % 8
            )
            return missing(variant) or ("not on this case: cuDNN takes channels and filters by eight" if odd else None)
        if variant.plan in (plans.Tiled, plans.LocalTile):
            sides = {"sub": plans.PUBLISHED_SUB, "group": plans.PUBLISHED_GROUP, **variant.options}
            why = plans.misfit(layer, sides["sub"], sides["group"])
            return f"not on this case: {why}" if why else None
        if variant.plan is plans.Vectors and layer.width < 32:
            return "not on this case: narrower than 32 columns"
        if variant.plan is plans.Gemm and layer.kernel > 5:
            return "not on this case: filters larger than 5x5"
        largest = LARGEST.get(variant.plan, layer.kernel)
        if layer.kernel > largest:
            return f"not on this case: filters larger than {largest}x{largest}, whose box of pixels leaves no room for weights"
        return missing(variant)


def _case(name: str, scale: str) -> Case:
    return Case(name, scale, {"layer": asdict(Layer.named(name))}, 1)


def _split(filters: int, along: int) -> dict[str, Any]:
    """The options of a point of the 3x3 table: filters a work-item, and work-items of a group along them."""
    return {"sub": (filters, *plans.PUBLISHED_SUB[1:]), "group": (along, *plans.PUBLISHED_GROUP[1:])}


def _sizes(sub: tuple[int, ...]) -> str:
    """The global size of the published layer with sub-tiles of these sides, as the report writes it: `64x112x16`."""
    return "x".join(str(side // part) for side, part in zip((256, 224, 224), sub, strict=True))


def _twice(fastest: Variant, part: str) -> Variant:
    """The fastest step on tensor cores that does one part of its work twice."""
    assert fastest.source is not None
    return fastest.at("twice", part.lower(), fastest.source.with_knobs(TWICE=part))


def _without(best: Variant) -> tuple[Variant, ...]:
    """The best step with each of its optimisations undone."""
    assert best.source is not None
    undone = {
        "global number": {"START": "GROUP_NUMBER"},
        "permutation": {"ORDER": "INNERMOST"},
        "unrolling": {"UNROLL": "ROLLED"},
        "fission": {"STAGES": "FUSED"},
        "bias as start value": {"STAGES": "ZEROED"},
        "alignment": {"ALIGN": "NATURAL"},
    }
    points = (best.at("without", name, best.source.with_knobs(**knobs)) for name, knobs in undone.items())
    return tuple(replace(each, same_code=NO_ADDRESS if each.point == "alignment" else {}) for each in points)


def forward(
    device_spec: str, variant: str | None, layer: Layer, x: np.ndarray, weight: np.ndarray, bias: np.ndarray
) -> np.ndarray:
    """Run a layer once: float32 arrays in the layer's shapes -> out, layer.out_shape, float32.

    Raises UsageError for an unknown device or variant, or one that is not for this layer or device.
    """
    device = open_device(device_spec, LAB.preferred_backend)
    case = Case(layer.name, "course", {"layer": asdict(layer)}, 1)
    chosen = LAB.variant(variant) if variant else _quickest(device, case)
    why = LAB.skip_reason(chosen, case) or (
        None if chosen.is_for(device.backend, device.kind) else f"not on {device.spec}"
    )
    if why or chosen not in LAB.ladder:
        raise UsageError(f"variant {chosen.name!r} cannot run this: {why or 'it is not a step of the ladder'}")
    run = chosen.plan(device, chosen, case, {"x": x, "weight": weight, "bias": bias})
    run.reset()
    run.run()
    out = run.outputs()["out"]
    run.close()
    return out.astype(np.float32)


def _quickest(device: Device, case: Case) -> Variant:
    """The step for a user who names none."""
    names = ("four-rows", "vectors", "implicit-gemm") if device.kind == "cpu" else ("implicit-gemm",)
    candidates = [LAB.variant(name) for name in (*names, "sequential")]
    return next(variant for variant in candidates if not LAB.skip_reason(variant, case))


LAB = ConvolutionLayer()
