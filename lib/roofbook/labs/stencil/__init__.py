"""The rsqrt stencil (Parallel Architectures): twenty-three passes over three grids, from one loop to one pass over memory.

The ladder follows the report's hints; past its end stand one flat range, wide types and all passes in one kernel.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...devices.backends import OPENCL
from ...devices.contract import Device
from ...errors import UsageError
from ...peers import missing, one_thread
from ...spec.lab import ONE_WORK_ITEM, Case, Lab, Sweep, Variant, Work
from ...spec.prediction import FASTER, NO_GAIN, SAME, SEVERAL, SLOWER, up_to
from ...spec.rounding import TIMES_ACCURATE, native_functions, worst
from ...spec.source import Source
from . import peers, plans, streams
from .problem import bound, error_over_bound, inputs, mean_square, native_losses, reference

HERE = Path(__file__).parent

CHECKED = Source.of(HERE / "passes.k")
"""The straight port: a work-item an element, and every one asks where it is."""
NO_IFS = CHECKED.with_knobs(BOUNDS="NONE")
COMPILED = NO_IFS.with_knobs(SIZES="COMPILED", HEIGHT=8192, WIDTH=8192)
"""The sizes that a text shows are the published ones; a plan sets the case's own."""
ACCURATE = COMPILED.with_knobs(ROOT="ACCURATE")
NATIVE = ACCURATE.with_knobs(ROOT="NATIVE")
FLAT = Source.of(HERE / "flat.k", WIDTH=8192, COUNT=8190 * 8192)


def wide(lanes: int, source: Source = FLAT) -> Source:
    """The flat range with so many elements a work-item."""
    return source.with_knobs(VECTOR=f"float{lanes}" if lanes > 1 else "float", LANES=lanes)


PUBLISHED_PASSES = 23
FUSED = FLAT.with_knobs(PASSES=PUBLISHED_PASSES)

SEQUENTIAL = Source.of(HERE / "sequential.k")

LADDER = (
    Variant(
        "sequential", None, SEQUENTIAL, plans.Sequential,
        "One work-item walks all passes, rows and columns.",
        "The baseline: one core, one element at a time.",
        frozenset({"cpu"}), options={"device": "host"}, said=ONE_WORK_ITEM,
    ),
    Variant(
        "sequential-c", "sequential", SEQUENTIAL, plans.SequentialC,
        "The same loops in C, by the host's compiler with -O3; it may not re-order a sum either.",
        "Roots and divisions take most of the time, and vectors do many at once: several times faster.",
        frozenset({"host"}), options={"device": "host"}, differs=("plan",), role="base", said=one_thread.WORDS,
        predicts=SEVERAL,
    ),
    Variant(
        "checked", "sequential", CHECKED, plans.Passes,
        "One work-item per element; each checks whether it lies inside.",
        "All cores work. A pass reads three floats and writes one: memory bounds it, not the roots.",
        differs=("source", "plan", "options"), predicts=FASTER,
    ),
    Variant(
        "no-ifs", "checked", NO_IFS, plans.Passes,
        "No bounds check: the range covers the inner rows, and the width is a multiple of the work-group's.",
        "One of the most effective steps, says the report. Two comparisons beside three loads should hardly show on a GPU.",
        predicts={"gpu": SAME},
    ),
    Variant(
        "compiled-sizes", "no-ifs", COMPILED, plans.Passes,
        "Height and width are constants of the kernel, not arguments.",
        "Saves an integer multiplication or two: no effect where memory bounds it.", predicts={"gpu": SAME},
    ),
    Variant(
        "rsqrt", "compiled-sizes", ACCURATE, plans.Passes,
        "rsqrt(x) instead of 1/sqrt(x).",
        "One special-function instruction instead of a root and a division: helps where arithmetic shows at all.",
        shows={"one_pass": r"\A(?![\s\S]*(sqrt\.rn|div\.rn))[\s\S]*rsqrt\.approx"},
        same_code={"PoCL": "its rsqrt is a root and a division, as is 1/sqrt"}, predicts={"gpu": SAME},
    ),
    Variant(
        "native-rsqrt", "rsqrt", NATIVE, plans.Passes,
        "native_rsqrt(x): its accuracy is up to the device.",
        "On NVIDIA both are the same instruction, so the time is the same. The table of errors shows the loss of accuracy.",
        shows={"one_pass": r"rsqrt\.approx\.ftz\.f32"}, published="work-group 128x1, 1 task per work-item",
        same_code={"PoCL": "its native_rsqrt is its rsqrt"}, predicts={"cuda": SAME},
    ),
    Variant(
        "local-memory", "native-rsqrt", NATIVE.with_knobs(STAGING="LOCAL_COPY", GROUP_SIZE=128), plans.Passes,
        "r, g and b go through local memory.",
        "No element is read twice, so there is nothing to share. A barrier and two more copies make it slower.",
        shows={"one_pass": r"bar\.sync|barrier\.sync"}, predicts=SLOWER,
    ),
    Variant(
        "tasks-2", "native-rsqrt", NATIVE.with_knobs(TASKS=2), plans.Passes,
        "Two elements per work-item: column j and column j + width/2.",
        "Half the work-items, twice the loads in flight for each: as fast, says the report.",
        published="work-group 128x1, 2 tasks per work-item", predicts=SAME,
    ),
    Variant(
        "tasks-4", "tasks-2", NATIVE.with_knobs(TASKS=4), plans.Passes,
        "Four elements per work-item.", "As before: enough loads are in flight already.", predicts=SAME,
    ),
    Variant(
        "tasks-8", "tasks-4", NATIVE.with_knobs(TASKS=8), plans.Passes,
        "Eight elements per work-item.", "No gain, and fewer work-items to hide latency with.", predicts=NO_GAIN,
    ),
    Variant(
        "tasks-16", "tasks-8", NATIVE.with_knobs(TASKS=16), plans.Passes,
        "Sixteen elements per work-item.", "No gain: the loads of eight elements already fill the memory's queue.",
        predicts=NO_GAIN,
    ),
    Variant(
        "flat", "native-rsqrt", FLAT, plans.Flat,
        "The inner rows are one range: one index, one comparison, any width.",
        "Nothing to gain on a GPU, but any width works.",
        differs=("source", "plan"), predicts={"gpu": NO_GAIN},
    ),
    Variant(
        "float2", "flat", wide(2), plans.Flat,
        "Two neighbouring elements per work-item, as one float2.", "Half the load instructions.",
        shows={"flat": r"ld\.global\.(nc\.)?v2\.(f32|b32|u32)"}, predicts=FASTER,
    ),
    Variant(
        "float4", "float2", wide(4), plans.Flat,
        "float4: 16 bytes per load.", "The widest load of a GPU thread: the fewest instructions for the same bytes.",
        shows={"flat": r"ld\.global\.(nc\.)?v4\.(f32|b32|u32)"}, predicts={"gpu": FASTER},
    ),
    Variant(
        "float8", "float4", wide(8), plans.Flat,
        "float8: two such loads in a row.", "On a GPU a warp's loads now have gaps, which the cache must close.",
        predicts={"gpu": NO_GAIN},
    ),
    Variant(
        "float16", "float8", wide(16), plans.Flat,
        "float16: a whole vector register of a CPU, a whole cache line.",
        "For a CPU whose compiler does not vectorise by itself, this step counts most.",
    ),
    Variant(
        "fused", "float4", wide(4, FUSED), plans.Flat,
        "All passes in one kernel: r and b do not change, so the root is computed once and added 23 times in order.",
        "One pass over memory instead of 23, and no bit of the result differs.", predicts={"gpu": up_to(23), "cpu": FASTER},
    ),
    Variant(
        "fused-float16", "fused", wide(16, FUSED), plans.Flat,
        "The same, on float16.", "The best of both for a CPU.", predicts={"cpu": FASTER},
    ),
    *streams.STEPS,
)  # fmt: skip

SHAPES = ("32x1", "64x1", "128x1", "256x1", "512x1", "1024x1", "64x2", "32x4", "16x8", "8x16", "4x32", "1x128")


def torch_peer(
    name: str, change: str, needs: str, plan: type[peers.TorchStencil] = peers.TorchStencil, **options: Any
) -> Variant:
    """PyTorch on the host's CPU, or on the GPU of a backend that it knows."""
    return Variant(
        name, None, None, plan, change, "What a user of PyTorch would write.",
        needs=frozenset({needs}), role="peer", options=options,
    )  # fmt: skip


PEERS = (
    torch_peer("torch-cpu", "PyTorch on the CPU, eager.", "host", compile=False),
    torch_peer("torch-cpu-compiled", "PyTorch on the CPU, torch.compile of one pass.", "host", compile=True),
    torch_peer("torch-cpu-fused", "PyTorch on the CPU, torch.compile of all passes.", "host", peers.Fused, compile=True),
    Variant(
        "openmp", None, None, peers.OpenMP, "A page of C + OpenMP: all passes while an element is in a register, all cores.",
        "What a CPU can do without OpenCL.", needs=frozenset({"host"}), role="peer",
    ),
    torch_peer("torch", "PyTorch, eager.", "pytorch", compile=False),
    torch_peer("torch-compiled", "PyTorch, torch.compile of one pass.", "pytorch", compile=True),
    torch_peer("torch-fused", "PyTorch, torch.compile of all passes.", "pytorch", peers.Fused, compile=True),
)  # fmt: skip

BYTES_AN_ELEMENT = 16
"""r, b and g read, g written: float32."""
FLOPS_AN_ELEMENT = 2
"""Once for all passes: the sum r + b, and the root. Each pass adds one more operation."""

CASES = {
    "quick": ("1024x1024",),
    "published": ("8192x8192",),
    "large": ("16384x16384",),
    "test": ("6x1024", "7x48", "5x13"),
}


class RsqrtStencil(Lab):
    """The lab. A case is height x width; its params are those two, the passes of a run and nothing else."""

    name = "stencil"
    title = "Rsqrt stencil"
    preferred_backend = OPENCL.name
    unit = "pass"
    timed = "kernels"
    bases = ("sequential-c", "sequential")
    best = "fused"
    ladder = LADDER
    peers = PEERS
    other_sizes = "any HEIGHTxWIDTH from 3x3 on"

    def __init__(self) -> None:
        scalar, two, checked, fused = (self.variant(name) for name in ("native-rsqrt", "tasks-2", "checked", "fused"))
        walks = {"rows": CHECKED, "columns": CHECKED.with_knobs(WALK="COLUMNS")}
        self.sweeps = (
            Sweep("without", "What is each optimisation worth in the best kernel?", _without(fused)),
            Sweep("wg", "Which shape of work-group?",
                  tuple(scalar.at("wg", shape, NATIVE.with_knobs(BOUNDS="CHECKED"), group=_sides(shape)) for shape in SHAPES),
                  quick=("32x1", "128x1", "1024x1", "16x8", "1x128")),
            Sweep("wg2", "Which length of work-group, with two elements per work-item?",
                  tuple(two.at("wg2", shape, group=_sides(shape)) for shape in ("64x1", "128x1", "256x1"))),
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

    def cases(self, scale: str) -> Sequence[Case]:
        return [_case(name, scale) for name in CASES[scale]]

    def sized(self, name: str, scale: str) -> Case | None:
        if not re.fullmatch(r"[0-9]{1,6}x[0-9]{1,6}", name):
            return None
        if min(_sides(name)) < 3:
            raise UsageError(f"case {name} is too small: height and width must be 3 or more")
        return _case(name, scale)

    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]:
        """`r`, `b` uniform on [0.25, 4) and `g` N(0, 1): float32 (height, width)."""
        return inputs(case.params["height"], case.params["width"], seed)

    def reference(self, case: Case, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        right = reference(inputs["r"], inputs["b"], inputs["g"], case.units)
        return {**right, "start": inputs["g"], "bound": bound(right, inputs["g"], case.units)}

    def check(
        self, case: Case, variant: Variant, outputs: Mapping[str, np.ndarray], reference: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        g, right = outputs["g"], dict(reference)
        errors = {
            "largest error of an element of g": error_over_bound(g, right, reference["bound"]),
            "root mean square error of g": mean_square(g, right, reference["start"], case.units),
        }
        over, what = worst(errors)
        if over <= 1 or not native_functions(variant.source):
            return over, 1.0, f"{what}, over its tolerance"
        lost = dict(zip(errors, native_losses(case.units), strict=True))
        _, what = worst({name: error / lost[name] for name, error in errors.items()})
        return errors[what], lost[what], f"{what}, {TIMES_ACCURATE}"

    def work(self, case: Case) -> Work:
        """Per pass: what all passes together need at least, one sweep over memory and a root an element, over their number."""
        elements = (case.params["height"] - 2) * case.params["width"]
        flops = elements * (FLOPS_AN_ELEMENT / PUBLISHED_PASSES + 1)
        return Work(flops, elements * BYTES_AN_ELEMENT / PUBLISHED_PASSES, elements * BYTES_AN_ELEMENT * 3 / 4)

    def traffic(self, case: Case, variant: Variant) -> float:
        """16 B an element and pass; once for all passes where they are fused, twice where PyTorch keeps what lies between."""
        fused = PUBLISHED_PASSES if variant.plan in (peers.Fused, peers.OpenMP) else 1
        passes = variant.source.settings.get("PASSES", 1) if variant.source else fused
        kept = variant.plan is peers.TorchStencil and not variant.options["compile"]
        return self.work(case).bytes * PUBLISHED_PASSES / int(passes) * (2 if kept else 1)

    def units(self, case: Case, variant: Variant, device: Device) -> int:
        if (
            variant.name in ("sequential", "sequential-c") and case.scale != "test"
        ):  # one core: a pass says as much as 23
            return 1
        return case.units

    def sizes(self, case: Case) -> Mapping[str, int]:
        height, width = case.params["height"], case.params["width"]
        return {"HEIGHT": height, "WIDTH": width, "COUNT": (height - 2) * width}

    def rate(self, case: Case) -> tuple[float, str]:
        return (case.params["height"] - 2) * case.params["width"] / 1e9, "billion elements/s"

    def skip_reason(self, variant: Variant, case: Case) -> str | None:
        if variant.role == "peer":
            return missing(variant)
        width, knobs = case.params["width"], variant.source.settings if variant.source else {}
        if variant.plan is plans.Flat and width % int(knobs["LANES"]):
            return f"not on this case: the width is not a multiple of {knobs['LANES']}"
        if variant.plan is plans.Passes and knobs["BOUNDS"] == "NONE":
            group = variant.options.get("group", (128, 1))
            across, down = group[0] * int(knobs["TASKS"]), group[1]
            if width % across:
                return f"not on this case: the width is not a multiple of {across}"
            if (case.params["height"] - 2) % down:
                return f"not on this case: the inner rows are not a multiple of {down}"
        return missing(variant)


def _case(name: str, scale: str) -> Case:
    height, width = _sides(name)
    return Case(name, scale, {"height": height, "width": width, "iterations": PUBLISHED_PASSES}, PUBLISHED_PASSES)


def _sides(name: str) -> tuple[int, int]:
    """`1024x512` as two numbers."""
    first, _, second = name.partition("x")
    return int(first), int(second)


def _without(best: Variant) -> tuple[Variant, ...]:
    """The best step with each of its optimisations undone."""
    assert best.source is not None
    return (
        best.at("without", "one launch", wide(4)),
        best.at("without", "wide types", wide(1, FUSED)),
    )


LAB = RsqrtStencil()
