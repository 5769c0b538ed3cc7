"""The rsqrt stencil (Parallel Architectures): twenty-three passes over three grids, from one loop to one pass over memory.

The ladder follows the report's hints. Three ideas of our own come after them: one flat range, wide types, and all passes in
one kernel.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...devices.backends import OPENCL
from ...devices.contract import Device
from ...errors import UsageError
from ...spec.kernel_constants import constants
from ...spec.lab import NamedCases, Sweep, Work
from ...spec.plan import Case, Variant
from ...spec.rounding import TIMES_ACCURATE, native_functions, worst
from .ladder import CHECKED, FUSED, LADDER, NATIVE, PEERS, wide
from .native_root import RootLoss, native_root_loss
from .problem import PUBLISHED_PASSES, ROOT_ULPS, bound, error_over_bound, inputs, mean_square, reference, widened

SHAPES = ("32x1", "64x1", "128x1", "256x1", "512x1", "1024x1", "64x2", "32x4", "16x8", "8x16", "4x32", "1x128")
LENGTHS = ("64x1", "128x1", "256x1")
"""Shapes of work-groups with two elements per work-item."""

BYTES_AN_ELEMENT = 16
"""r, b and g read, g written: float32."""
FLOPS_AN_ELEMENT = 2
"""Operations done once for all passes: the sum r + b, and the root. Each pass adds one more operation."""

CASES = {
    "quick": ("1024x1024",),
    "published": ("8192x8192",),
    "large": ("16384x16384",),
    "test": ("6x1024", "7x48", "5x13"),
}


class RsqrtStencil(NamedCases):
    """The lab. A case is height x width; its params are these two and the number of passes of a run."""

    name = "stencil"
    title = "Rsqrt stencil"
    preferred_backend = OPENCL.name
    unit = "pass"
    timed = "kernels"
    bases = ("sequential-c", "sequential")
    best = "fused"
    ladder = LADDER
    peers = PEERS
    awkward = ("5x129", "7x48", "9x384", "5x4096")
    """Sizes with several work-groups, the last of them partly filled: for scalars, wide types, groups and tasks."""
    case_names = CASES
    name_pattern = "[0-9]{1,6}x[0-9]{1,6}"
    other_sizes = "any HEIGHTxWIDTH from 3x3 to 999999x999999"

    def __init__(self) -> None:
        names = ("native-rsqrt", "tasks-2", "local-memory-tasks-2", "checked", "fused")
        scalar, two, staged, checked, fused = map(self.variant, names)
        walks = {"rows": CHECKED, "columns": CHECKED.with_knobs(WALK="COLUMNS")}
        self.sweeps = (
            Sweep("without", "What is each optimisation worth in the best kernel?", _without(fused)),
            Sweep("wg", "Which shape of work-group?",
                  tuple(scalar.at("wg", shape, NATIVE.with_knobs(BOUNDS="CHECKED"), group=_sides(shape)) for shape in SHAPES),
                  quick=("32x1", "128x1", "1024x1", "16x8", "1x128"), tunes=True),
            Sweep("wg2", "Which length of work-group, with two elements per work-item?",
                  tuple(two.at("wg2", shape, group=_sides(shape)) for shape in LENGTHS), tunes=True),
            Sweep("staged", "And with both elements through local memory, as in the report?",
                  tuple(staged.at("staged", shape, group=_sides(shape)) for shape in LENGTHS), tunes=True),
            Sweep("lanes", "What does a work-group cost that is not a multiple of 32?",
                  tuple(checked.at("lanes", lanes, group=(lanes, 1)) for lanes in (96, 100, 128))),
            Sweep("misaligned", "What does it cost to start rows so many floats off the alignment?",
                  tuple(scalar.at("misaligned", floats, NATIVE.with_knobs(OFFSET=floats)) for floats in range(32)),
                  quick=("0", "1", "4", "8", "16")),
            Sweep("walk", "Neighbouring work-items along rows or along columns?",
                  tuple(checked.at("walk", walk, source) for walk, source in walks.items())),
            Sweep("vector", "How wide, with all passes in one kernel?",
                  tuple(fused.at("vector", lanes, wide(lanes, FUSED)) for lanes in (1, 2, 4, 8, 16))),
        )  # fmt: skip

    def named_case(self, name: str, scale: str) -> Case:
        height, width = sides = _sides(name)
        if min(sides) < 3:
            raise UsageError(f"case {name} is too small: height and width must be 3 or more")
        return Case(name, scale, {"height": height, "width": width, "iterations": PUBLISHED_PASSES}, PUBLISHED_PASSES)

    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]:
        """Draw `r` and `b` uniformly from [0.25, 4), and `g` from N(0, 1): float32 (height, width)."""
        return inputs(case.params["height"], case.params["width"], seed)

    def reference(self, case: Case, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        right = reference(inputs["r"], inputs["b"], inputs["g"], case.units)
        return {**right, "start": inputs["g"], "bound": bound(right, inputs["g"], case.units)}

    def check(
        self, case: Case, variant: Variant, outputs: Mapping[str, np.ndarray], reference: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        g, start, passes = outputs["g"], reference["start"], case.units

        def errors(limit: Any, root_rms: float) -> dict[str, float]:
            return {
                "largest error of an element of g": error_over_bound(g, reference, limit),
                "root mean square error of g": mean_square(g, reference, start, passes, root_rms),
            }

        ratios = errors(reference["bound"], ROOT_ULPS / 2)
        ratio, error_name = worst(ratios)
        native: RootLoss | None = reference.get("native_root")
        if ratio <= 1 or native is None or native.ulps <= ROOT_ULPS:
            return ratio, 1.0, f"{error_name}, over its tolerance"
        ratio, error_name = worst(errors(bound(reference, start, passes, native.ulps), native.rms))
        return ratios[error_name], ratios[error_name] / ratio, f"{error_name}, {TIMES_ACCURATE}"

    def device_losses(self, device: Device, variant: Variant) -> Mapping[str, Any]:
        """Return the error of this device's native root, for a kernel that calls it."""
        if not native_functions(variant.source):
            return {}
        lanes = int(constants(variant.text).get("LANES", 1))
        return {"native_root": native_root_loss(device, lanes)}

    def verified_on(self, variant: Variant) -> str:
        return "wide"

    def verification_inputs(self, case: Case, name: str, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return r and b of many magnitudes, unless the grid is large."""
        return widened(inputs)

    def work(self, case: Case) -> Work:
        """Return the least work of all passes together, divided by their number: one walk over memory, one root an element."""
        elements = (case.params["height"] - 2) * case.params["width"]
        flops = elements * (FLOPS_AN_ELEMENT / PUBLISHED_PASSES + 1)
        return Work(flops, elements * BYTES_AN_ELEMENT / PUBLISHED_PASSES, elements * BYTES_AN_ELEMENT * 3 / 4)

    def output_arrays(self, case: Case) -> Mapping[str, tuple[type[np.generic], tuple[int, ...]]]:
        return {"g": (np.float32, (case.params["height"], case.params["width"]))}

    def sizes(self, case: Case) -> Mapping[str, int]:
        height, width = case.params["height"], case.params["width"]
        return {"HEIGHT": height, "WIDTH": width, "COUNT": (height - 2) * width}

    def rate(self, case: Case) -> tuple[float, str]:
        return (case.params["height"] - 2) * case.params["width"] / 1e9, "billion elements/s"


def _sides(name: str) -> tuple[int, int]:
    """Return the two numbers of a text such as `1024x512`."""
    first, _, second = name.partition("x")
    return int(first), int(second)


def _without(best: Variant) -> tuple[Variant, ...]:
    """Return variants of the best step, each without one of its optimisations."""
    return (
        best.at("without", "one launch", wide(4)),
        best.at("without", "wide types", wide(1, FUSED)),
    )


LAB = RsqrtStencil()
