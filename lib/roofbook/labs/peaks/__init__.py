"""Measured peaks of a device: memory by working set, arithmetic by precision, the cost of a launch, a barrier and a copy.

They are measured, verified and stored like the variants of any lab, so that a share of a bound is a fair comparison.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...analysis.roofline import ARITHMETIC, COSTS, MEMORY
from ...devices.backends import CUDA
from ...spec.lab import Lab, Work
from ...spec.plan import Case, Plan, Variant
from ...spec.source import Source
from . import dots, plans

HERE = Path(__file__).parent
HOPPER = range(90, 91)
KIB = plans.KIB
TRANSFER = "transfer"
"""A group of peaks that are not in the roofline. Like the others, it has its own cases."""

TENSOR_TYPES = {"f16": "float16", "bf16": "bfloat16", "tf32": "tfloat32", "s8": "int8", "e4m3": "float8"}


def _peak(
    name: str, group: str, source: Source | None, plan: type[Plan], change: str, *, dtype: str = "float32",
    needs: frozenset[str] = frozenset(), architectures: range = range(80, 1000), **options: Any,
) -> Variant:  # fmt: skip
    return Variant(
        name, None, source, plan, change, "", needs, role="peak", options={"group": group, **options}, dtype=dtype,
        architectures=architectures,
    )  # fmt: skip


def _stream(action: str, change: str) -> Variant:
    source = Source.of(HERE / "memory.k", ACTION=action.upper())
    return _peak(action, MEMORY, source, plans.Stream, change, action=action)


def _chains(kind: str, scalar: str, change: str, *needs: str) -> Variant:
    operation = {"root": "ROOT", "float16": "PAIRS"}.get(kind, "MULTIPLY_ADD")
    source = Source.of(HERE / "chains.k", OPERATION=operation, SCALAR=scalar)
    name = "root" if kind == "root" else f"fma-{kind}"
    dtype = "root" if kind == "root" else kind
    return _peak(name, ARITHMETIC, source, plans.Chains, change, dtype=dtype, needs=frozenset(needs), kind=kind)


def _mma(element: str) -> Variant:
    source = Source.of(HERE / "mma.cu", ELEMENT=element.upper())
    return _peak(
        f"mma-{element}", ARITHMETIC, source, plans.Tensor, f"Tensor cores by mma.sync, {element}.",
        dtype=TENSOR_TYPES[element], needs=frozenset({"mma"}), element=element, rows=16, columns=8, bytes=32, times=1,
        sums=8 * 16, work_items=512, swizzled=False,
    )  # fmt: skip


def _ptx(element: str) -> Variant:
    """Return the peak of `_mma` from OpenCL."""
    return replace(
        _mma(element), name=f"ptx-{element}", source=Source.of(HERE / "ptx.k", ELEMENT=element.upper()),
        plan=plans.TensorByPtx, change=f"Tensor cores by mma.sync from OpenCL, {element}.",
        needs=frozenset({"ptx", "opencl-c"}), kind="gpu",
    )  # fmt: skip


def _dots(element: str, types: str, feature: str, change: str, plan: type[dots.Dots] = dots.Dots) -> Variant:
    source = Source.of(HERE / f"{plan.kernel_name}.k", TYPES=types)
    peak = _peak(
        f"{plan.kernel_name}-{element}", ARITHMETIC, source, plan, change, dtype=TENSOR_TYPES[element],
        needs=frozenset({"cpu", "vector-types", feature}), element=element, feature=feature,
    )  # fmt: skip
    return replace(peak, kind="cpu")


def _wgmma(element: str) -> Variant:
    source = Source.of(HERE / "wgmma.cu", ELEMENT=element.upper())
    return _peak(
        f"wgmma-{element}", ARITHMETIC, source, plans.Tensor, f"Hopper's tensor cores by wgmma, {element}.",
        dtype=TENSOR_TYPES[element], needs=frozenset({"wgmma"}), architectures=HOPPER, element=element, rows=64,
        columns=256, bytes=128, times=2, sums=2, work_items=256, swizzled=True,
    )  # fmt: skip


def _meeting(name: str, over: str, change: str, **options: Any) -> Variant:
    source = Source.of(HERE / "barrier.cu", OVER=over)
    needs, first = ("cooperative", 80) if over == "GRID" else ("clusters", 90)
    return _peak(
        name, COSTS, source, plans.Barriers, change, needs=frozenset({needs}), architectures=range(first, 1000),
        kernel="barrier", **options,
    )  # fmt: skip


def _normal(peak: Variant) -> Variant:
    """Return a peak on normally distributed numbers: how far the clock falls may depend on the numbers."""
    change = f"{peak.change.removesuffix('.')}, on normally distributed numbers."
    return replace(peak, name=f"{peak.name}-normal", plan=plans.TensorOfNormals, change=change)


COUNT = Source.of(HERE / "count.k")
LADDER = (
    _stream("copy", "Copies float32; the working set is both buffers."),
    _stream("read", "Sums float32."),
    _stream("write", "Writes float32."),
    _chains("float32", "float", "Multiply-adds in fp32."),
    _chains("float64", "double", "Multiply-adds in fp64."),
    _chains("float16", "int", "Multiply-adds in fp16, two per register.", "half2"),
    _chains("int32", "int", "Multiply-adds of 32-bit integers."),
    _chains("root", "float", "Reciprocal square roots in fp32, with the device's own accuracy."),
    *(_mma(element) for element in TENSOR_TYPES if element != "e4m3"),
    *(_ptx(element) for element in TENSOR_TYPES if element != "e4m3"),
    _dots("s8", "BYTES", "vnni", "Dot products of four bytes a lane, on a CPU with AVX-512 VNNI."),
    _dots("bf16", "BF16", "avx512-bf16", "Dot products of two bf16 a lane, on a CPU with AVX-512 BF16."),
    _dots("s8", "BYTES", "amx-int8", "Products of tiles of bytes, on a CPU with AMX.", dots.Tiles),
    _dots("bf16", "BF16", "amx-bf16", "Products of tiles of bf16, on a CPU with AMX.", dots.Tiles),
    *(_wgmma(element) for element in TENSOR_TYPES),
    _normal(_wgmma("f16")),
    _peak("launch", COSTS, COUNT, plans.Launches, "An empty kernel, until it has run.", how="wait"),
    _peak("queue", COSTS, COUNT, plans.Launches, "An empty kernel, until it is in the queue.", how="submit"),
    _peak(
        "graph-node", COSTS, COUNT, plans.Launches, "An empty kernel, as a node of a graph.",
        needs=frozenset({"graphs"}), how="graph",
    ),
    _peak(
        "empty-kernel", COSTS, COUNT, plans.EmptyKernels,
        "One empty kernel, timed by the device's clock. The fastest of a sample counts.", how="alone",
    ),
    _meeting("grid-barrier", "GRID", "One block on every multiprocessor; all wait for all."),
    _meeting("cluster-barrier", "CLUSTER", "The eight blocks of a cluster wait for each other.", blocks=8),
    _meeting("cluster-barrier-relaxed", "RELAXED", "The barrier of a cluster, without ordering accesses to memory.", blocks=8),
    _peak(
        "fence", COSTS, Source.of(HERE / "fence.cu"), plans.Barriers,
        "Eight blocks order their accesses to memory for the whole device.", kernel="fence", blocks=8,
        needs=frozenset({"cooperative"}),
    ),
    *(
        _peak(
            f"to-{to}-{memory}", TRANSFER, None, plans.Transfer, f"From {start} to {end}, {memory} memory of the host.",
            needs=frozenset({"pinned"} if memory == "pinned" else ()), to=to, pinned=memory == "pinned",
        )
        for to, start, end in (("device", "host", "device"), ("host", "device", "host"))
        for memory in ("pageable", "pinned")
    ),
)  # fmt: skip

SIZES = {
    "test": (256,),
    "quick": (256, 2048, 16384, 98304, 262144),
    "published": (1024, 4096, 16384, 32768, 65536, 131072, 524288, 1048576, 2097152),
}
"""KiB of the working sets by scale; `large` has those of `published`."""


class PeaksLab(Lab):
    """The lab. Cases are working sets for the streams, and one each for arithmetic, costs and transfers. Caches stay warm."""

    name = "peaks"
    title = "Measured peaks of a device"
    preferred_backend = CUDA.name
    unit = "pass"
    timed = "kernel, launches or copies"
    bases = ("copy",)
    best = "copy"
    cache = "warm"
    ladder = LADDER

    def cases(self, scale: str) -> Sequence[Case]:
        sizes = SIZES["published" if scale == "large" else scale]
        small = scale in ("quick", "test")
        other_cases = (
            Case("registers", scale, {"kib": 0, "group": ARITHMETIC}, 2000 if small else 20000),
            Case("costs", scale, {"kib": 0, "group": COSTS}, 200 if small else 2000),
            Case("transfer", scale, {"kib": KIB if scale == "test" else 64 * KIB, "group": TRANSFER}, 1),
        )
        return [*(self.working_set(scale, kib) for kib in sizes), *other_cases]

    def working_set(self, scale: str, kib: int) -> Case:
        """Return the case of a working set; larger ones have fewer passes."""
        moved = 64 * KIB if scale == "test" else 512 * KIB if scale == "quick" else 16 * KIB * KIB
        label = f"{kib} KiB" if kib < KIB else f"{kib // KIB} MiB" if kib < KIB * KIB else f"{kib // KIB // KIB} GiB"
        return Case(label, scale, {"kib": kib, "group": MEMORY}, max(1, moved // kib))

    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]:
        random = np.random.default_rng(seed)
        data = np.empty(case.params["kib"] * KIB // 4, np.float32)
        drawn = random.random(min(data.size, 1_299_709), np.float32)  # a prime: no size is its multiple
        for start in range(0, data.size, max(1, drawn.size)):
            data[start : start + drawn.size] = drawn[: data.size - start]
        return {
            "data": data,
            # About 0 or 1, in the same places of all rows: wrongly paired operands have another sum of products.
            "numbers": random.integers(0, 2, 128) + 0.5 * random.standard_normal((320, 128)),
            "normal": random.standard_normal((320, 128)),
        }

    def verification_case(self, case: Case, variant: Variant) -> Case:
        """Return a case with fewer rounds, except for peaks that count their rounds."""
        return replace(case, units=min(case.units, _plan_of(variant).checked_units(case)))

    def reference(self, case: Case, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        return inputs

    def check(
        self, case: Case, variant: Variant, outputs: Mapping[str, np.ndarray], reference: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        return _plan_of(variant).judge(case, variant, outputs, reference)

    def check_timed(
        self,
        case: Case,
        variant: Variant,
        outputs: Mapping[str, np.ndarray],
        right: Callable[[Case], Mapping[str, Any]],
    ) -> tuple[float, float, str]:
        """Check a timed run like `check`, if the result of so many rounds is known exactly or closely.

        Sums that lose digits (a stream's beyond 2**24, products on tensor cores) must only be numbers that are not all zero.
        """
        verdict = _plan_of(variant).judge_lossy(case, variant, outputs)
        return verdict or super().check_timed(case, variant, outputs, right)

    def work(self, case: Case) -> Work:
        nbytes = case.params["kib"] * KIB
        return Work(flops=0, bytes=nbytes, footprint=nbytes)


def _plan_of(variant: Variant) -> type[plans.Peak]:
    """Return the plan of a peak."""
    assert issubclass(variant.plan, plans.Peak)
    return variant.plan


LAB = PeaksLab()
