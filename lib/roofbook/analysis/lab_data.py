"""A lab on a device at a scale, as its rows have it: peaks, bounds and, case by case, what reports and sentences need."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..devices.backends import CUDA
from ..devices.contract import Device
from ..errors import one_of
from ..escaping import markdown
from ..measure.placement import target_of
from ..measure.stats import ENOUGH_RUNS
from ..spec.lab import Case, Lab, Series, Sweep, Variant
from ..store.schema import PROFILE
from .answers import Rival, answer
from .case_data import CaseData
from .readings import FEW_RUNS, Reading, cases_of, fastest, newest
from .roofline import Bound, Peaks, bound, read_peaks
from .sentences import ratio_text, time_text

if TYPE_CHECKING:
    import pandas as pd


def compiler_of(device: Device) -> str:
    """The compiler of a device's kernels by its name in `Variant.same_code`; '' for one that nothing is known of."""
    if device.backend == CUDA.name:
        return "NVRTC"
    return "PoCL" if "Portable Computing Language" in device.identity().get("platform", "") else ""


class LabData(ABC):
    """What is known of a lab on one device, from whichever rows count: those that fit today's code, or recorded ones."""

    lab: Lab
    device: Device
    scale: str
    cases: Sequence[Case]

    @property
    @abstractmethod
    def rows(self) -> "pd.DataFrame":
        """The rows of the lab on this device and its host that count."""

    @property
    @abstractmethod
    def peer_rows(self) -> "pd.DataFrame":
        """Rows of the peers that another backend runs on this very device; see `store_devices.peers_by_other_backends`."""

    @cached_property
    def rows_with_peers(self) -> "pd.DataFrame":
        """The rows that times are compared among: `rows`, and `peer_rows` behind them."""
        import pandas as pd

        return pd.concat([self.rows, self.peer_rows], ignore_index=True) if len(self.peer_rows) else self.rows

    @property
    @abstractmethod
    def peak_rows(self) -> "pd.DataFrame":
        """The device's rows of the lab `peaks`: of each variant and case all runs of the newest measurement, in their order."""

    @property
    @abstractmethod
    def profiles(self) -> "pd.DataFrame":
        """What hardware counters counted on this device, at any scale, of kernels as they are today."""

    @cached_property
    def peaks(self) -> Peaks | None:
        """None where a peak has no verified time."""
        try:
            return read_peaks(self.peak_rows)
        except ValueError:
            return None

    def bounds(self, case: Case) -> dict[str, Bound]:
        """The least time of a unit by dtype of the lab's variants, those dtypes whose peak was measured on this device.

        By its name also that of a variant that moves less than the problem needs in fp32, such as one that keeps fp16, and of
        one for several GPUs, each of which has its share. Parts of a CPU are no more than that CPU.
        """
        peaks, work = self.peaks, self.lab.work(case)
        if peaks is None:
            return {}
        known = [variant for variant in self.lab.all_variants() if variant.dtype in peaks.flops]
        found = {variant.dtype: bound(work, peaks, work.footprint, variant.dtype) for variant in known}
        for variant in known:
            part = self.lab.traffic(case, variant) / work.bytes if work.bytes else 1
            gpus = int(variant.options.get("devices", 1)) if self.device.kind == "gpu" else 1
            if (part < 1 or gpus > 1) and not self.lab.skip_reason(variant, case):
                less = replace(work, flops=work.flops / gpus, bytes=part * work.bytes / gpus)
                own = bound(less, peaks, part * work.footprint / gpus, variant.dtype)
                if own.seconds < found[variant.dtype].seconds:
                    found[variant.name] = own
        return found

    def case(self, name: str | None = None) -> Case:
        """The case of that name, those of series included; by default the largest of the others."""
        if name is None:
            return max(self.cases, key=lambda case: self.lab.work(case).footprint)
        known = {case.name: case for case in self.cases}
        if name not in known:
            known |= {case.name: case for each in self.lab.series(self.scale) for case in self.cases_of(each)}
        if name in known:
            return known[name]
        raise one_of("case of this experiment", name, list(known))

    def on(self, name: str | None = None) -> CaseData:
        """What tables and figures of a case are made from; by default of the largest."""
        case = self.case(name)
        if case.name not in self._cases_data:
            self._cases_data[case.name] = self._on(case)
        return self._cases_data[case.name]

    @cached_property
    def _cases_data(self) -> "dict[str, CaseData]":
        """What was asked of cases, by their names."""
        return {}

    def _on(self, case: Case) -> CaseData:
        lab, compiler, order = self.lab, compiler_of(self.device), self.order
        return CaseData(
            self.rows_with_peers,
            order,
            case.name,
            lab.bases,
            self.bounds(case) or None,
            {variant.name: variant.change for variant in lab.all_variants()},
            lab.rate(case),
            self.skip_reasons(case),
            frozenset(variant.name for variant in lab.ladder if variant.role == "probe"),
            [variant.name for variant in lab.peers],
            self.peaks,
            lab.work(case).footprint,
            cache_note=lab.cache_note,
            same_code={
                each.name: each.same_code[compiler] for each in lab.all_variants() if compiler in each.same_code
            },
            compiler=compiler,
            counted_bytes=self._counted_bytes(case.name),
            exact_as={each.name: lab.exact_as(each) for each in lab.all_variants() if lab.exact_as(each) != each.dtype},
            conditions={each.name: found for each in lab.all_variants() if (found := lab.conditions(each))},
            lab_order=order,
        )

    @property
    def order(self) -> list[str]:
        """Names of the ladder in its order, libraries behind it."""
        return [variant.name for variant in (*self.lab.ladder, *self.lab.peers)]

    def skip_reasons(self, case: Case) -> dict[str, str]:
        """Why variants are not measured here: not on this device, or not on this case."""
        return {variant.name: why for variant in self.lab.all_variants() if (why := self.skip_reason(variant, case))}

    def skip_reason(self, variant: Variant, case: Case) -> str:
        """The same of one variant; '' where it is measured."""
        return (
            "not on this device"
            if target_of(variant, self.device) is None
            else self.lab.skip_reason(variant, case) or ""
        )

    def sweep(self, axis: str) -> Sweep:
        """The lab's sweep over `axis`. Errors: UsageError for an axis that it has none over."""
        for sweep in self.lab.sweeps:
            if sweep.axis == axis:
                return sweep
        raise one_of("sweep", axis, [sweep.axis for sweep in self.lab.sweeps])

    def series(self, axis: str) -> Series:
        """The lab's series over `axis` at this scale. Errors: UsageError for an axis that it has none over."""
        known = self.lab.series(self.scale)
        for series in known:
            if series.axis == axis:
                return series
        raise one_of("series", axis, [series.axis for series in known])

    def cases_of(self, series: Series) -> list[Case]:
        """Those of a series, in its order."""
        return [self.lab.case(name, self.scale) for _, name in series.points]

    def _counted_bytes(self, case: str) -> dict[str, float]:
        """Bytes a unit to and from DRAM that hardware counters counted on a case, by variant; of those that they did."""
        profiles = self.profiles
        mine = newest(profiles[profiles["case"] == case], roles=[PROFILE])
        found = {name: each.facts["counters"]["dram_bytes"] for name, each in mine.items() if each.ok}
        return {name: moved for name, moved in found.items() if moved is not None}

    @cached_property
    def measured(self) -> "Measured":
        """The same, as sentences read it."""
        return Measured(self)


class Measured:
    """What sentences are written from: times and facts of verified rows, as text or as numbers."""

    def __init__(self, data: LabData, mark: Callable[[str, str], str] = lambda text, of: text) -> None:
        """mark: what becomes of the text of a time or a ratio, by `Reading.id` of the measurement that it is of."""
        self._data, self._mark = data, mark

    @property
    def cases(self) -> Sequence[Case]:
        """Those that conclusions are drawn of."""
        return self._data.cases

    def value(self, variant: str, case: str | None = None) -> str:
        """Median time per unit with its interval, as text for prose."""
        name = self._data.case(case).name
        return self._marked(time_text(self._data.rows_with_peers, variant, name), variant, name)

    def times(self, variant: str, reference: str, case: str | None = None) -> str:
        """Return how fast `variant` is compared with `reference`, as text for prose: '3.14 [3.10, 3.18] times as fast as'."""
        name = self._data.case(case).name
        return self._marked(ratio_text(self._data.rows_with_peers, variant, reference, name), variant, name)

    def where(self, variant: str, case: str) -> str:
        """Where a variant's time holds, as a sentence says it: 'here', or of few runs 'in one run' and the like."""
        reading = self._reading(variant, case)
        runs = len(reading.runs) if reading else 0
        return f"in {FEW_RUNS[runs - 1]}" if 0 < runs < ENOUGH_RUNS else "here"

    def fastest(self, case: str) -> str:
        """The step with the shortest verified median on a case; the lab's best where none was measured."""
        step = fastest(newest(self._data.rows, case, roles=("step",)).values())
        return step.variant if step else self._data.lab.best

    def base(self, case: str) -> str:
        """What the speedups of sentences are over: of `Lab.headline` the first with a time on a case, else the first."""
        bases = self._data.lab.headline
        return next((name for name in bases if self.seconds(name, case) is not None), bases[0])

    def fastest_peer(self, case: str) -> str | None:
        """Return the name of the fastest peer on this device, whichever backend calls it; None where none was measured."""
        peer = self._data.on(case).ranked()[2]
        return peer.variant if peer else None

    def rivals(self, case: str) -> list[Rival]:
        """The peer that the fastest step of a case is compared with, like for like if there is one; and the fastest peer, where
        that is another. None without a peer."""
        found = answer(self._data.lab, self._data.on(case))
        return [each for each in (found.fastest.peer, found.fastest.faster_peer) if each] if found else []

    def seconds(self, variant: str, case: str) -> float | None:
        """Median time per unit of a variant on any case that has rows; None without a verified one."""
        reading = self._reading(variant, case)
        return reading.median if reading and reading.ok else None

    def fact(self, variant: str, case: str, name: str) -> Any:
        """Return a fact that a verified run of a variant told besides its time, by its name; None where it told no such thing.

        A number is one; all else is a text as Markdown has it, since sentences are Markdown.
        """
        reading = self._reading(variant, case)
        found = reading.facts.get(name) if reading else None
        return found if found is None or isinstance(found, int | float) else markdown(found)

    def counted(self, variant: str, case: str) -> Mapping[str, Any] | None:
        """What hardware counters counted of a variant, as `counters.counted` has it; None where they did not."""
        profiles = self._data.profiles
        mine = profiles[(profiles["case"] == case) & (profiles["variant"] == variant)]
        reading = newest(mine, roles=[PROFILE]).get(variant)
        return reading.facts if reading and reading.ok else None

    def fastest_point(self, axis: str, case: str) -> str | None:
        """The point of a sweep with the shortest verified median on a case; None where none has one."""
        times = {str(each.point): self.seconds(each.name, case) for each in self._data.sweep(axis).variants}
        found = {point: seconds for point, seconds in times.items() if seconds is not None}
        return min(found, key=lambda point: found[point], default=None)

    def _marked(self, text: str, variant: str, case: str) -> str:
        reading = self._reading(variant, case)
        return self._mark(text, reading.id) if reading and reading.ok else text

    def _reading(self, variant: str, case: str) -> Reading | None:
        rows = self._data.rows_with_peers
        return newest(rows, case).get(variant) if case in cases_of(rows) else None
