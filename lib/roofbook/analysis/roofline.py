"""The roofline: from the measured peaks of a device and the work of an algorithm, the least time that the work can take.

Serves the reports and notebooks: `bound` is the floor under a time.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..errors import UsageError, one_of
from ..escaping import read_json
from ..spec import registry

if TYPE_CHECKING:
    import pandas as pd

    from ..spec.lab import Lab, Work
    from ..spec.plan import Variant


@dataclass(frozen=True)
class Level:
    """One level of the memory: it delivers `bandwidth` bytes/s for working sets of up to `size` bytes."""

    size: float
    bandwidth: float


EMPTY_KERNEL, GRAPH_NODE = "empty-kernel", "graph-node"
"""Names of the peaks that are a launch: of an empty kernel alone, by the device's clock, and of one in a graph."""

LAUNCHES = {EMPTY_KERNEL: "an empty kernel by the device's clock", GRAPH_NODE: "an empty kernel in a graph"}
"""Peaks that are the least time of a launch -> their names in sentences. A loop of the host is none: a faster host beats it."""


@dataclass(frozen=True)
class LeastLaunch:
    """The launch that is the floor of a kernel's time. `peak`: its name in LAUNCHES."""

    peak: str
    seconds: float

    @property
    def words(self) -> str:
        """Name of this launch in a sentence."""
        return LAUNCHES[self.peak]


@dataclass(frozen=True)
class Bound:
    """The floor of a time: no implementation takes less than `seconds` per unit. `roof` names the peak that sets it."""

    seconds: float
    roof: str
    bandwidth: float = math.nan
    flops: float = math.nan
    launch: LeastLaunch | None = None
    """The least time of a launch on the device; None if it was not measured."""
    device: str = ""
    """Slug of the device whose peaks these are; '' for any."""
    backend: str = ""
    """Backend by which the peaks were measured: another may reach more, or less."""

    @property
    def is_below_launch(self) -> bool:
        """Whether a launch takes longer: then it, not the bound, is the floor of a kernel that is launched for each unit."""
        return self.launch is not None and self.seconds < self.launch.seconds

    def share_of(self, seconds: float) -> float | None:
        """Return this bound as a share of a unit's time; None if a launch, not the bound, is the floor of that time.

        If a unit takes less time than a launch, the kernel does several units in one, and a launch is no floor.
        """
        is_floor = self.launch is not None and self.seconds < self.launch.seconds <= seconds
        return None if is_floor else self.seconds / seconds


@dataclass(frozen=True)
class Peaks:
    """Measured peaks of one device.

    bandwidth: (working set in bytes, bytes/s) pairs, in any order. flops: dtype -> operations/s, as far as measured:
    {"float32": 6.1e13, "int8": 1.5e15}; those of an integer are no FLOP but count alike, two a multiply-add.
    """

    bandwidth: Sequence[tuple[float, float]]
    flops: Mapping[str, float] = field(default_factory=dict)
    launches: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each of LAUNCHES, as far as measured."""

    def __post_init__(self) -> None:
        if not self.bandwidth:
            raise UsageError("peaks: no bandwidth measured; at least one (working set, bytes/s) pair is needed")
        for name, number in [
            *((f"bandwidth at {size:g} B", rate) for size, rate in self.bandwidth),
            *((f"working set {size:g}", size) for size, _ in self.bandwidth),
            *((f"{work_unit(dtype)}/s of {dtype}", rate) for dtype, rate in self.flops.items()),
            *((f"seconds of {name}", seconds) for name, seconds in self.launches.items()),
        ]:
            if not (math.isfinite(number) and number > 0):
                raise UsageError(f"peaks: {name} is {number}; a positive finite number is needed")

    def _held(self) -> list[tuple[float, float]]:
        """Return the pairs by size, each at least as fast as any larger one: memory that holds the larger set holds it too.

        The measured rate of a small working set is often lower, as starting the kernel takes part of the time.
        """
        pairs: list[tuple[float, float]] = []
        for size, rate in sorted(self.bandwidth, reverse=True):
            pairs.append((size, max([rate, *(faster for _, faster in pairs[-1:])])))
        return pairs[::-1]

    def bandwidth_for(self, working_set: float) -> float:
        """Return the best bytes/s measured at any working set of at least this size; beyond the largest, the largest one's."""
        if not (math.isfinite(working_set) and working_set > 0):
            raise UsageError(f"working set is {working_set} bytes; a positive number is needed")
        pairs = self._held()
        return next((rate for size, rate in pairs if size >= working_set), pairs[-1][1])

    def levels(self, tolerance: float = 0.25) -> list[Level]:
        """Return the levels of the memory, smallest first.

        Neighbouring working sets are one level if none is slower than the first by more than `tolerance` (relative). The
        level's bandwidth is the best of them.
        """
        groups: list[list[tuple[float, float]]] = []
        for size, rate in self._held():
            if groups and rate >= (1 - tolerance) * groups[-1][0][1]:
                groups[-1].append((size, rate))
            else:
                groups.append([(size, rate)])
        return [Level(group[-1][0], max(rate for _, rate in group)) for group in groups]

    def launch(self, *, alone: bool) -> LeastLaunch | None:
        """Return the least time of a launch; None if none was measured.

        alone: whether the device's clock times one unit at a time. Then the launch is an empty kernel that was timed alike.
        Otherwise launches may follow each other in a graph, so it is the cheapest of LAUNCHES.
        """
        if alone and EMPTY_KERNEL in self.launches:
            return LeastLaunch(EMPTY_KERNEL, self.launches[EMPTY_KERNEL])
        return min(
            (LeastLaunch(*pair) for pair in self.launches.items()), key=lambda launch: launch.seconds, default=None
        )


def memory(peaks: Peaks) -> float:
    """Return the bytes per second of the fastest stream through the largest working set."""
    return max(peaks.bandwidth)[1]


def bound(
    work: "Work", peaks: Peaks, working_set: float, dtype: str = "float32", launch: LeastLaunch | None = None
) -> Bound:
    """Return the least seconds that one unit of `work` can take on a device with these `peaks`.

    working_set: bytes that the case touches again and again; it chooses the level of the memory. launch: the least time
    of a launch, for `Bound.launch`. Work without FLOPs (a copy) needs no peak of its dtype. Errors: UsageError for a dtype
    without a measured peak, or work that is not positive.
    """
    if not (work.flops >= 0 and work.bytes >= 0 and 0 < work.flops + work.bytes < math.inf):
        raise UsageError(f"work of {work.flops} FLOP and {work.bytes} B per unit; both must be finite and one above 0")
    bandwidth = peaks.bandwidth_for(working_set)
    moving = work.bytes / bandwidth
    if work.flops == 0:
        return Bound(moving, "memory", bandwidth, launch=launch)
    if dtype not in peaks.flops:
        raise one_of("dtype of a peak", dtype, list(peaks.flops))
    compute = work.flops / peaks.flops[dtype]
    roof = "memory" if moving >= compute else dtype
    return Bound(max(moving, compute), roof, bandwidth, peaks.flops[dtype], launch)


def work_unit(dtype: str) -> str:
    """Return the unit of the work in a dtype: FLOP, or OP for integers."""
    return "OP" if dtype.startswith(("int", "uint")) else "FLOP"


MEMORY, ARITHMETIC, COSTS = "memory", "registers", "costs"
"""Groups of the lab `peaks`: bandwidths, operations per second, and the costs of launches and barriers."""


def needed_peaks(lab: "Lab") -> tuple["Variant", ...]:
    """Return the peaks that the bounds and rooflines of `lab` need: streams, the arithmetic of its variants, and launches."""
    dtypes = {"float32", *(variant.dtype for variant in lab.all_variants())}
    return tuple(
        peak for peak in registry.get(registry.PEAKS).ladder
        if peak.options["group"] == MEMORY or peak.name in LAUNCHES
        or (peak.options["group"] == ARITHMETIC and peak.dtype in dtypes)
    )  # fmt: skip


def read_peaks(rows: "pd.DataFrame") -> Peaks:
    """Return the peaks in the rows of the lab `peaks` of one device and backend. Errors: ValueError if one is missing.

    The fastest sample counts, since disturbances only slow a sample down. Of several streams through one working set, and of
    several ways to compute in one dtype, the fastest is the peak. Errors: UsageError for a sample that is no time.
    """
    good = rows[(rows["status"] == "ok") & (rows["units"] > 0)]
    group = {variant.name: variant.options["group"] for variant in registry.get(registry.PEAKS).ladder}
    streams, flops, launches = dict[float, float](), dict[str, float](), dict[str, float]()
    for row in good.itertuples():
        rate = read_json(row.extra)["amount"] * row.units / min(row.samples_s)
        if group.get(row.variant) == MEMORY:
            streams[row.bytes] = max(rate, streams.get(row.bytes, 0))
        elif group.get(row.variant) == ARITHMETIC and row.dtype != "root":
            flops[row.dtype] = max(rate, flops.get(row.dtype, 0))
        elif row.variant in LAUNCHES:
            launches[row.variant] = min(float(min(row.samples_s)) / row.units, launches.get(row.variant, math.inf))
    if not streams or "float32" not in flops:
        raise ValueError("no peaks of this device in the store yet")
    return Peaks(sorted(streams.items()), flops, launches)
