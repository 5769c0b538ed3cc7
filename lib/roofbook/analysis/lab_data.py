"""A lab on one device at one scale, from its rows: peaks, bounds, and for each case the data of reports and sentences."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any

from ..devices.backends import CUDA, ON_REQUEST, label
from ..devices.contract import Device
from ..errors import one_of
from ..escaping import markdown
from ..measure.placement import lacking_instructions, target_of
from ..measure.stats import ENOUGH_RUNS
from ..spec.lab import DEVICE_CLOCK, Lab, Series, Sweep
from ..spec.plan import Case, Variant
from ..spec.step_marks import marks
from ..store.schema import PROFILE
from .answers import Mattered, Rival, answer, shorter_elsewhere, way
from .case_data import CaseData
from .machines import machine_count
from .readings import FEW_RUNS, NEAR, Reading, Speedup, cases_of, faster, fastest, newest, text_field
from .roofline import Bound, Peaks, bound, memory, read_peaks
from .sentences import ratio_text, time_text

if TYPE_CHECKING:
    import pandas as pd


def compiler_of(device: Device) -> str:
    """Return a device's kernel compiler by its name in `Variant.same_code`; '' for other compilers."""
    if device.backend == CUDA.name:
        return "NVRTC"
    return "PoCL" if "Portable Computing Language" in device.identity().get("platform", "") else ""


class LabData(ABC):
    """A lab's data on one device, from rows that fit today's code or from recorded ones."""

    lab: Lab
    device: Device
    scale: str
    cases: Sequence[Case]

    @property
    @abstractmethod
    def rows(self) -> "pd.DataFrame":
        """Rows of the lab on this device and its host."""

    @property
    @abstractmethod
    def peer_rows(self) -> "pd.DataFrame":
        """Rows of the peers that another backend runs on this very device; see `store_devices.peers_by_other_backends`."""

    @cached_property
    def rows_with_peers(self) -> "pd.DataFrame":
        """Rows among which times are compared: `rows`, then `peer_rows`."""
        import pandas as pd

        return pd.concat([self.rows, self.peer_rows], ignore_index=True) if len(self.peer_rows) else self.rows

    @property
    @abstractmethod
    def peak_rows(self) -> "pd.DataFrame":
        """The device's rows of the lab `peaks`: for each variant and case all runs of the newest measurement, in order."""

    @property
    @abstractmethod
    def profiles(self) -> "pd.DataFrame":
        """Rows of hardware counters on this device, at any scale, of kernels as they are today."""

    @cached_property
    def peaks(self) -> Peaks | None:
        """The device's measured peaks; None if a peak has no verified time."""
        try:
            return read_peaks(self.peak_rows)
        except ValueError:
            return None

    def bounds(self, case: Case) -> dict[str, Bound]:
        """Return the least time of a unit by dtype, for dtypes of the lab's variants whose peak was measured on this device.

        Also by variant, if the variant moves less than the problem needs in fp32, such as one that stores fp16, if it computes
        less, or if it runs on several GPUs, each of which has its share. Parts of a CPU have no more than that CPU.
        """
        peaks, work = self.peaks, self.lab.work(case)
        if peaks is None:
            return {}
        variants = [variant for variant in self.lab.all_variants() if variant.dtype in peaks.flops]
        launch = peaks.launch(alone=self.lab.clock == DEVICE_CLOCK and case.units == 1)
        bounds = {variant.dtype: bound(work, peaks, work.footprint, variant.dtype, launch) for variant in variants}
        for variant in variants:
            part = self.lab.traffic(case, variant) / work.bytes if work.bytes else 1
            gpus = int(variant.options.get("devices", 1)) if self.device.kind == "gpu" else 1
            operations = variant.plan.operations(case, variant, work.flops)
            less = part < 1 or gpus > 1 or operations < work.flops
            # This machine may lack a library that a recorded row used.
            if less and not variant.plan.refusal(case, variant):
                share = replace(work, flops=operations / gpus, bytes=part * work.bytes / gpus)
                of_variant = bound(share, peaks, part * work.footprint / gpus, variant.dtype, launch)
                if of_variant.seconds < bounds[variant.dtype].seconds:
                    bounds[variant.name] = of_variant
        slug, backend = self.device.slug, self.device.backend
        return {name: replace(floor, device=slug, backend=backend) for name, floor in bounds.items()}

    def case(self, name: str | None = None) -> Case:
        """Return the case of that name, which may be of a series; by default the largest case outside series."""
        if name is None:
            return max(self.cases, key=lambda case: self.lab.work(case).footprint)
        cases = {case.name: case for case in self.cases}
        if name not in cases:
            cases |= {case.name: case for series in self.lab.series(self.scale) for case in self.cases_of(series)}
        if name in cases:
            return cases[name]
        raise one_of("case of this experiment", name, list(cases))

    def on(self, name: str | None = None) -> CaseData:
        """Return the data for tables and figures of a case; by default of the largest."""
        case = self.case(name)
        if case.name not in self._cases_data:
            self._cases_data[case.name] = self._on(case)
        return self._cases_data[case.name]

    @cached_property
    def _cases_data(self) -> "dict[str, CaseData]":
        """Cached results of `on` by case name."""
        return {}

    def _on(self, case: Case) -> CaseData:
        lab, compiler, order = self.lab, compiler_of(self.device), self.order
        exact_as = lab.exact_as()
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
            [variant.name for variant in lab.peers if variant.role == "peer"],
            self.peaks,
            lab.work(case).footprint,
            cache_note=lab.cache_note,
            same_code={v.name: v.same_code[compiler] for v in lab.all_variants() if compiler in v.same_code},
            compiler=compiler,
            counted_bytes=self._counted_bytes(case.name),
            exact_as={v.name: exact_as[v.name] for v in lab.all_variants() if exact_as[v.name] != v.dtype},
            conditions={v.name: conditions for v in lab.all_variants() if (conditions := lab.conditions(v))},
            parents={v.name: v.parent for v in lab.all_variants() if v.parent},
            marks={v.name: needs for v in lab.ladder if (needs := marks(v))},
        )

    @property
    def order(self) -> list[str]:
        """Names of the ladder's variants in its order, then the peers."""
        return [variant.name for variant in (*self.lab.ladder, *self.lab.peers)]

    def skip_reasons(self, case: Case) -> dict[str, str]:
        """Return the reasons why variants are not measured here, by variant: not on this device, or not on this case."""
        variants = self.lab.all_variants()
        return {variant.name: reason for variant in variants if (reason := self.skip_reason(variant, case))}

    def skip_reason(self, variant: Variant, case: Case) -> str:
        """Return the reason why a variant is not measured on a case here; '' if it is."""
        if target_of(variant, self.device) is None:
            has_reason = variant.source is not None and self.device.backend in ON_REQUEST
            if variant.is_for(self.device.backend, self.device.kind) and (
                reason := lacking_instructions(variant, self.device)
            ):
                return reason
            lacking = variant.lacking(self.device.backend) if has_reason else ""
            return f"{label(self.device.backend)} lacks: {lacking}" if lacking else "not on this device"
        return self.lab.skip_reason(variant, case) or ""

    def sweep(self, axis: str) -> Sweep:
        """Return the lab's sweep over `axis`. Errors: UsageError if there is none."""
        for sweep in self.lab.sweeps:
            if sweep.axis == axis:
                return sweep
        raise one_of("sweep", axis, [sweep.axis for sweep in self.lab.sweeps])

    def series(self, axis: str) -> Series:
        """Return the lab's series over `axis` at this scale. Errors: UsageError if there is none."""
        all_series = self.lab.series(self.scale)
        for series in all_series:
            if series.axis == axis:
                return series
        raise one_of("series", axis, [series.axis for series in all_series])

    def cases_of(self, series: Series) -> list[Case]:
        """Return the cases of a series, in its order."""
        return [self.lab.case(name, self.scale) for _, name in series.points]

    def _counted_bytes(self, case: str) -> dict[str, float]:
        """Return bytes a unit to and from DRAM on a case, by variant, from hardware counters; variants without them are left
        out.
        """
        profiles = self.profiles
        readings = newest(profiles[profiles["case"] == case], roles=[PROFILE])
        moved = {name: reading.facts["counters"]["dram_bytes"] for name, reading in readings.items() if reading.ok}
        return {name: n_bytes for name, n_bytes in moved.items() if n_bytes is not None}

    @cached_property
    def measured(self) -> "Measured":
        """This data formatted for sentences."""
        return Measured(self)


class Measured:
    """A lab's data for sentences: times and facts of verified rows, as text or as numbers."""

    def __init__(self, data: LabData, mark: Callable[[str, str], str] = lambda text, id: text) -> None:
        """mark: from the text of a time or a ratio, and the measurement's `Reading.id`, to the text in the sentence."""
        self._data, self._mark = data, mark

    @property
    def cases(self) -> Sequence[Case]:
        """The cases of the conclusions."""
        return self._data.cases

    @property
    def main_case(self) -> str:
        """Name of the largest case."""
        return self._data.case().name

    def time_text(self, variant: str, case: str | None = None) -> str:
        """Return the median time per unit with its interval, as text for prose."""
        name = self._data.case(case).name
        return self._marked(time_text(self._data.rows_with_peers, variant, name), variant, name)

    def ratio_text(self, variant: str, reference: str, case: str | None = None) -> str:
        """Return how fast `variant` is compared with `reference`, as text for prose: '3.14 [3.10, 3.18] times as fast as'."""
        name = self._data.case(case).name
        return self._marked(ratio_text(self._data.rows_with_peers, variant, reference, name), variant, name)

    def runs_phrase(self, variant: str, case: str) -> str:
        """Return the runs for which a variant's time holds, as a sentence says it: 'here', or 'in one run' if there are few."""
        reading = self._reading(variant, case)
        runs = len(reading.runs) if reading else 0
        return f"in {FEW_RUNS[runs - 1]}" if 0 < runs < ENOUGH_RUNS else "here"

    def spread(self, variant: str, case: str) -> tuple[int, int]:
        """Return the number of runs behind a variant's time, and of the machines or GPUs that they ran on; zeros without."""
        reading = self._reading(variant, case)
        if not (reading and reading.ok):
            return 0, 0
        return len(reading.runs), machine_count(text_field(run.row, "provenance") for run in reading.runs)

    def near_fastest(self, case: str) -> list[str]:
        """Return the steps whose times are near the shortest one on a case, shortest first."""
        steps = [reading for reading in newest(self._data.rows, case, roles=("step",)).values() if reading.ok]
        ranked = sorted(steps, key=lambda reading: reading.median)
        return [reading.variant for reading in ranked if reading.median <= NEAR * ranked[0].median]

    def fastest(self, case: str) -> str:
        """Return the fastest step of a case, as `readings.fastest` chooses it; the lab's best if none was measured."""
        step = fastest(newest(self._data.rows, case, roles=("step",)).values())
        return step.variant if step else self._data.lab.best

    def fastest_by(self, kind: Callable[[Variant], str], case: str) -> dict[str, str]:
        """Return the fastest step of each kind on a case, chosen like `fastest`. kind: '' for a step that is left out."""
        by_kind: dict[str, list[Reading]] = {}
        for reading in newest(self._data.rows, case, roles=("step",)).values():
            by_kind.setdefault(kind(self._data.lab.variant(reading.variant)), []).append(reading)
        return {name: best.variant for name, readings in by_kind.items() if name and (best := fastest(readings))}

    def base(self, case: str) -> str:
        """Return the baseline of sentences: the first of `Lab.headline` with a time on a case, otherwise the first."""
        bases = self._data.lab.headline
        return next((name for name in bases if self.seconds(name, case) is not None), bases[0])

    def fastest_peer(self, case: str) -> str | None:
        """Return the name of the fastest peer on this device, whichever backend calls it; None if none was measured."""
        peer = self._data.on(case).ranked()[2]
        return peer.variant if peer else None

    def rivals(self, case: str) -> list[Rival]:
        """Return the peers that the fastest step of a case is compared with; none without a measured peer.

        The first is the one of fewest other conditions; the fastest peer follows, if that is another.
        """
        lab_answer = answer(self._data.lab, self._data.on(case))
        if lab_answer is None:
            return []
        return [rival for rival in (lab_answer.fastest.peer, lab_answer.fastest.faster_peer) if rival]

    def shorter_elsewhere(self, case: str) -> list[str]:
        """Return the steps with a shorter median on a case than the fastest one, which is faster where both ran."""
        steps = [step for step in newest(self._data.rows, case, roles=("step",)).values() if step.ok]
        best = fastest(steps)
        return [rival.reading.variant for rival in shorter_elsewhere(best, steps)] if best else []

    def steps_without_measurement(self, case: str) -> tuple[int, int]:
        """Return (steps without a measurement on a case, all steps that this device can run there); zeros without an answer."""
        lab_answer = answer(self._data.lab, self._data.on(case))
        return (len(lab_answer.lacking), len(lab_answer.steps)) if lab_answer else (0, 0)

    def seconds(self, variant: str, case: str) -> float | None:
        """Return the median time per unit of a variant on any case with rows; None without a verified one."""
        reading = self._reading(variant, case)
        return reading.median if reading and reading.ok else None

    def fact(self, variant: str, case: str, name: str) -> Any:
        """Return a fact of a variant's verified run by its name; None if the run did not record it.

        A number is returned as it is; all else as Markdown text, since sentences are Markdown.
        """
        reading = self._reading(variant, case)
        fact = reading.facts.get(name) if reading else None
        return fact if fact is None or isinstance(fact, int | float) else markdown(fact)

    def counted(self, variant: str, case: str) -> Mapping[str, Any] | None:
        """Return a variant's hardware counters as `counters.counters_of` returns them; None without a profiled run."""
        profiles = self._data.profiles
        rows = profiles[(profiles["case"] == case) & (profiles["variant"] == variant)]
        reading = newest(rows, roles=[PROFILE]).get(variant)
        return reading.facts if reading and reading.ok else None

    def ratio(self, variant: str, reference: str, case: str) -> Speedup | None:
        """Return how many times as fast a variant is as a reference; None if one of them has no time."""
        reading = self._reading(variant, case)
        return faster(self._reading(reference, case), reading) if reading else None

    def part(self, variant: str, case: str, name: str) -> float | None:
        """Return the median seconds of a part of a variant's run, such as its copies; None if the run has none."""
        reading = self._reading(variant, case)
        samples = (reading.facts.get("parts") or {}).get(name) if reading and reading.ok else None
        return float(median(samples)) if samples else None

    def ratio_of_parts(self, side: tuple[str, str], reference: tuple[str, str], case: str) -> Speedup | None:
        """Return how many times as fast a part of a run, (variant, part), is as a reference; None if one has no such part."""
        readings = []
        for variant, part in (reference, side):
            reading = self._reading(variant, case)
            if reading is None or not reading.ok or any(part not in run.parts for run in reading.runs):
                return None
            readings.append(reading.parts_together([part]))
        return faster(*readings)

    def way(self, case: str) -> list[Mattered]:
        """Return the gains on the way to the fastest step of a case, in order."""
        return way(self._data.lab, self.fastest(case), self._data.on(case).readings)

    def share_of_bound(self, variant: str, case: str) -> tuple[float | None, str] | None:
        """Return (bound over time, what sets the bound) of a variant; None without a time or a measured peak.

        A share above 1 is returned as 1. It is None where a launch is the floor of the time, see `Bound.share_of`.
        """
        seconds, bounds = self.seconds(variant, case), self._data.on(case).bounds or {}
        floor = bounds.get(variant) or bounds.get(self._data.lab.variant(variant).dtype)
        if seconds is None or floor is None:
            return None
        share = floor.share_of(seconds)
        return None if share is None else min(1.0, share), floor.roof

    def memory_bound(self, variant: str, case: str) -> float | None:
        """Return the seconds that a variant's own traffic takes at the device's measured bandwidth; None without one."""
        lab, peaks, chosen = self._data.lab, self._data.peaks, self._data.case(case)
        if peaks is None:
            return None
        return lab.traffic(chosen, lab.variant(variant)) / peaks.bandwidth_for(lab.work(chosen).footprint)

    def peak_bandwidth(self) -> float | None:
        """Return the bytes per second of the device's fastest stream through memory; None without measured peaks."""
        return memory(self._data.peaks) if self._data.peaks else None

    def fastest_point(self, axis: str, case: str) -> str | None:
        """Return the point of a sweep with the shortest verified median on a case; None if no point has one."""
        variants = self._data.sweep(axis).variants
        times = {str(variant.point): self.seconds(variant.name, case) for variant in variants}
        measured = {point: seconds for point, seconds in times.items() if seconds is not None}
        return min(measured, key=lambda point: measured[point], default=None)

    def _marked(self, text: str, variant: str, case: str) -> str:
        reading = self._reading(variant, case)
        return self._mark(text, reading.id) if reading and reading.ok else text

    def _reading(self, variant: str, case: str) -> Reading | None:
        rows = self._data.rows_with_peers
        return newest(rows, case).get(variant) if case in cases_of(rows) else None
