"""The roofline: measured peaks of a device and the work of an algorithm give the least time that work can take.

Serves the reports and notebooks: `bound` is the floor under a time, `share` how close a variant came to it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ..errors import UsageError, one_of
from ..escaping import read_json
from ..spec import registry

if TYPE_CHECKING:
    import pandas as pd

    from ..spec.lab import Lab, Variant


class HasWork(Protocol):
    """FLOPs and bytes that the algorithm needs at least for one unit (one step, one layer); a `lab.Work` is one."""

    @property
    def flops(self) -> float: ...
    @property
    def bytes(self) -> float: ...


@dataclass(frozen=True)
class Level:
    """One level of the memory: up to `size` bytes of working set it delivers `bandwidth` bytes/s."""

    size: float
    bandwidth: float


@dataclass(frozen=True)
class Bound:
    """The floor: no implementation takes less than `seconds` per unit; `roof` says which peak sets it."""

    seconds: float
    roof: str
    bandwidth: float = math.nan
    flops: float = math.nan


@dataclass(frozen=True)
class Peaks:
    """Measured peaks of one device.

    bandwidth: (working set in bytes, bytes/s) pairs, in any order. flops: dtype -> operations/s, as far as measured:
    {"float32": 6.1e13, "int8": 1.5e15}; those of an integer are no FLOP but count alike, two a multiply-add.
    """

    bandwidth: Sequence[tuple[float, float]]
    flops: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.bandwidth:
            raise UsageError("peaks: no bandwidth measured; at least one (working set, bytes/s) pair is needed")
        for what, value in [
            *((f"bandwidth at {size:g} B", rate) for size, rate in self.bandwidth),
            *((f"working set {size:g}", size) for size, _ in self.bandwidth),
            *((f"{work_unit(dtype)}/s of {dtype}", rate) for dtype, rate in self.flops.items()),
        ]:
            if not (math.isfinite(value) and value > 0):
                raise UsageError(f"peaks: {what} is {value}; a positive finite number is needed")

    def _held(self) -> list[tuple[float, float]]:
        """The pairs by size, none slower than a larger one: what holds that holds this too. The measured rate of a small
        working set is often lower, as starting the kernel takes part of the time."""
        held: list[tuple[float, float]] = []
        for size, rate in sorted(self.bandwidth, reverse=True):
            held.append((size, max([rate, *(faster for _, faster in held[-1:])])))
        return held[::-1]

    def bandwidth_for(self, working_set: float) -> float:
        """The best bytes/s measured at a working set that holds this one; beyond the largest, that of the largest."""
        if not (math.isfinite(working_set) and working_set > 0):
            raise UsageError(f"working set is {working_set} bytes; a positive number is needed")
        pairs = self._held()
        return next((rate for size, rate in pairs if size >= working_set), pairs[-1][1])

    def levels(self, tolerance: float = 0.25) -> list[Level]:
        """Levels of the memory, smallest first: neighbouring working sets of which none has less than the first's bandwidth
        by more than `tolerance` (relative) are one level, and its bandwidth is the best of them."""
        groups: list[list[tuple[float, float]]] = []
        for size, rate in self._held():
            if groups and rate >= (1 - tolerance) * groups[-1][0][1]:
                groups[-1].append((size, rate))
            else:
                groups.append([(size, rate)])
        return [Level(group[-1][0], max(rate for _, rate in group)) for group in groups]


def bound(work: HasWork, peaks: Peaks, working_set: float, dtype: str = "float32") -> Bound:
    """The least seconds one unit of `work` can take on a device with these `peaks`.

    working_set: bytes the case touches again and again; it picks the level of the memory. Work without FLOPs (a copy)
    needs no peak of its dtype. Errors: UsageError for a dtype without a measured peak, or work that is not positive.
    """
    if not (work.flops >= 0 and work.bytes >= 0 and 0 < work.flops + work.bytes < math.inf):
        raise UsageError(f"work of {work.flops} FLOP and {work.bytes} B per unit; both must be finite and one above 0")
    bandwidth = peaks.bandwidth_for(working_set)
    memory = work.bytes / bandwidth
    if work.flops == 0:
        return Bound(memory, "memory", bandwidth)
    if dtype not in peaks.flops:
        raise one_of("dtype of a peak", dtype, list(peaks.flops))
    compute = work.flops / peaks.flops[dtype]
    roof = "memory" if memory >= compute else dtype
    return Bound(max(memory, compute), roof, bandwidth, peaks.flops[dtype])


def work_unit(dtype: str) -> str:
    """What the work in a dtype is counted in: FLOP, or OP for integers."""
    return "OP" if dtype.startswith(("int", "uint")) else "FLOP"


def share(floor: Bound, seconds: float) -> float:
    """Bound over time: 1 means the variant runs at the roof; above 1 the peaks or the work are wrong."""
    return floor.seconds / seconds


def intensity(work: HasWork) -> float:
    """Arithmetic intensity in FLOP/B, by the work the algorithm needs at least; inf without any bytes."""
    return work.flops / work.bytes if work.bytes else math.inf


MEMORY, ARITHMETIC, COSTS = "memory", "registers", "costs"
"""Groups of the lab `peaks`: bandwidths, operations a second, and what a launch or a barrier costs."""


def needed_peaks(lab: "Lab") -> tuple["Variant", ...]:
    """The peaks that the bounds and rooflines of `lab` come from: streams, and the arithmetic of its variants."""
    dtypes = {"float32", *(variant.dtype for variant in lab.all_variants())}
    return tuple(
        peak for peak in registry.get(registry.PEAKS).ladder
        if peak.options["group"] == MEMORY or (peak.options["group"] == ARITHMETIC and peak.dtype in dtypes)
    )  # fmt: skip


def read_peaks(rows: "pd.DataFrame") -> Peaks:
    """The peaks in the store's rows of the lab `peaks` for one device and backend. Errors: ValueError where one is missing.

    A peak is what the device can do, so the fastest sample counts: what disturbs a sample only makes it slower. Of several
    streams through one working set, and of several ways to compute in one dtype, the fastest is the peak.
    """
    good = rows[(rows["status"] == "ok") & (rows["units"] > 0)]
    group = {variant.name: variant.options["group"] for variant in registry.get(registry.PEAKS).ladder}
    streams, flops = dict[float, float](), dict[str, float]()
    for row in good.itertuples():
        rate = read_json(row.extra)["amount"] * row.units / min(row.samples_s)
        if group.get(row.variant) == MEMORY:
            streams[row.bytes] = max(rate, streams.get(row.bytes, 0))
        elif group.get(row.variant) == ARITHMETIC and row.dtype != "root":
            flops[row.dtype] = max(rate, flops.get(row.dtype, 0))
    if not streams or "float32" not in flops:
        raise ValueError("no peaks of this device in the store yet")
    return Peaks(bandwidth=sorted(streams.items()), flops=flops)
