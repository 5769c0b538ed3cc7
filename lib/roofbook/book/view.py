"""A lab on a device at a scale, as tables and figures: of whatever rows, measured here or on record.

Every number that a page shows comes through here, from verified rows of the store.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

from .. import report
from ..devices.backends import has
from ..devices.contract import Device
from ..errors import UsageError, one_of
from ..labs import peaks
from ..measure.placement import target_of
from ..paths import project_root
from ..spec.lab import Case, Lab, Series, Sweep, Variant
from ..store.current import matching_source
from ..store.files import Where
from ..store.parquet import Store
from ..store.schema import PROFILE

if TYPE_CHECKING:
    import pandas as pd
    from IPython.display import Markdown

    from ..analysis.readings import Reading
    from ..analysis.roofline import Bound, Peaks
    from ..report.figure import Figure
    from ..report.html import Html, Table


class View(ABC):
    """What is shown of a lab. An Experiment measures first; a Record is of a device that need not be here."""

    lab: Lab
    device: Device
    store: Store
    scale: str
    cases: Sequence[Case]
    variants: Sequence[Variant]
    parts_of_store: Sequence[Where] = ("recorded", "local")
    """Those whose rows count."""

    @property
    @abstractmethod
    def rows(self) -> "pd.DataFrame":
        """The rows of the lab on this device and its host that count."""

    @property
    @abstractmethod
    def _ceilings(self) -> "pd.DataFrame":
        """The device's rows of lab `peaks`: the newest of each variant and case, in their order."""

    def _cases_of(self, series: Series) -> list[Case]:
        return [self.lab.case(name, self.scale) for _, name in series.points]

    @cached_property
    def _profiles(self) -> "pd.DataFrame":
        """What hardware counters counted on this device, at any scale, of kernels as they are today."""
        rows = self.store.rows(self.lab.name, where=self.parts_of_store, role=PROFILE, device=self.device.slug)
        return matching_source(self.lab, rows)

    @property
    def peaks(self) -> "Peaks | None":
        """None where a ceiling has no verified time."""
        try:
            return peaks.read(self._ceilings)
        except ValueError:
            return None

    def bound(self, case: Case) -> "Bound | None":
        """The least time of a unit in float32 on this device; None where its ceilings have no verified time."""
        return self.bounds(case).get("float32")

    def bounds(self, case: Case) -> "dict[str, Bound]":
        """The least time of a unit by dtype of the lab's variants, those dtypes whose roof was measured on this device.

        By its name also that of a variant that moves less than the problem needs in fp32, such as one that keeps fp16.
        """
        from ..analysis.roofline import bound

        ceilings, work = self.peaks, self.lab.work(case)
        if ceilings is None:
            return {}
        known = [variant for variant in self.lab.all_variants() if variant.dtype in ceilings.flops]
        found = {variant.dtype: bound(work, ceilings, work.footprint, variant.dtype) for variant in known}
        for variant in known:
            part = self.lab.traffic(case, variant) / work.bytes if work.bytes else 1
            if part < 1 and not self.lab.skip_reason(variant, case):
                less = replace(work, bytes=part * work.bytes)
                own = bound(less, ceilings, part * work.footprint, variant.dtype)
                if own.seconds < found[variant.dtype].seconds:
                    found[variant.name] = own
        return found

    def case(self, name: str | None = None) -> Case:
        """The case of that name, those of series included; by default the largest of the others."""
        if name is None:
            return max(self.cases, key=lambda case: self.lab.work(case).footprint)
        series = self.lab.series(self.scale)
        known = [*self.cases, *(case for each in series for case in self._cases_of(each))]
        for case in known:
            if case.name == name:
                return case
        raise one_of("case of this experiment", name, list(dict.fromkeys(case.name for case in known)))

    def order(self) -> list[str]:
        return [variant.name for variant in (*self.lab.ladder, *self.lab.peers)]

    def _rungs(self) -> list[str]:
        return [name for name in self.order() if self.lab.variant(name).role != "probe"]

    def elsewhere(self, case: Case) -> dict[str, str]:
        """Why a variant is not measured here: not on this device, or not on this case."""
        return {variant.name: why for variant in self.lab.all_variants() if (why := self._excuse(variant, case))}

    def _excuse(self, variant: Variant, case: Case) -> str:
        return (
            "not on this device"
            if target_of(variant, self.device) is None
            else self.lab.skip_reason(variant, case) or ""
        )

    def source(self, variant: str, dialect: str | None = None) -> "Html":
        """A variant's kernel as plain OpenCL C or CUDA C++, by default in the language of this device."""
        source = self.lab.variant(variant).source
        if source is None:
            raise UsageError(f"variant {variant!r} has no kernel: it is a program of the host")
        return report.html_source(source.render(dialect or self.device.backend), "c")

    def steps(self, *names: str) -> "Html":
        """Each step: what changes, what was expected, its effect on every case, and its diff to open."""
        from ..report.html import Html
        from ..report.steps import step

        return Html("".join(self._step(name, step) for name in names))

    def _step(self, name: str, step: Any) -> str:
        variant = self.lab.variant(name)
        parent = self.lab.variant(variant.parent) if variant.parent else None
        diff = ""
        if parent and parent.source and variant.source and parent.source != variant.source:
            diff = variant.source.diff(parent.source, (parent.name, variant.name))
        cases = {case.name: self._excuse(variant, case) for case in self.cases}
        return str(step(variant, self.rows, cases, diff))

    def ladder(self, case: str | None = None) -> "Table":
        """The ladder on a case, peers and controls included."""
        chosen = self.case(case)
        changes = {variant.name: variant.change for variant in self.lab.all_variants()}
        return report.ladder(
            self.rows, self.order(), case=chosen.name, base=self.lab.base, bound=self.bounds(chosen) or None,
            changes=changes, rate=self.lab.rate(chosen), elsewhere=self.elsewhere(chosen),
        )  # fmt: skip

    def peers(self, case: str | None = None) -> "Table | Note":
        """How far the best rung of its precision, and the fastest of all, are from each peer on a case."""
        chosen, changes = self.case(case), {variant.name: variant.change for variant in self.lab.peers}
        return _or_note(
            lambda: report.peers(
                self.rows, list(changes), case=chosen.name, elsewhere=self.elsewhere(chosen), changes=changes
            )
        )

    def ladder_chart(self, case: str | None = None) -> "Figure | Note":
        """Time of each rung on a case, and the speedup over the base."""
        chosen = self.case(case)
        return _or_note(
            lambda: report.ladder_chart(
                self.rows, self._rungs(), case=chosen.name, base=self.lab.base, elsewhere=self.elsewhere(chosen)
            )
        )

    def descent(self, case: str | None = None, title: str = "") -> "Figure | Note":
        """Time of each rung on a case, down to the bound of the fastest."""
        chosen = self.case(case)
        return _or_note(
            lambda: report.descent(self.rows, self.order(), case=chosen.name, bounds=self.bounds(chosen), title=title)
        )

    def parts(self, case: str | None = None) -> "Table | Note":
        """The parts of each variant's run on a case, such as copies, and what else the lab shows of it."""
        chosen = self.case(case)
        return _or_note(
            lambda: report.parts(
                self.rows, self.order(), case=chosen.name, parts=self.lab.parts, facts=self.lab.facts_shown,
                elsewhere=self.elsewhere(chosen),
            )
        )  # fmt: skip

    def resources(self, case: str | None = None) -> "Table | Note":
        """What the kernels of each variant take of the device, and how many of their groups fit at once."""
        chosen = self.case(case)
        return _or_note(
            lambda: report.resources(self.rows, self.order(), case=chosen.name, elsewhere=self.elsewhere(chosen))
        )

    def counters(self, case: str | None = None) -> "Table | Note":
        """What hardware counters counted of each variant on a case, beside the bytes modelled and the time of ours."""
        chosen, scale = self.case(case), self.scale
        mine = self._profiles[self._profiles["case"] == chosen.name]
        if mine.empty:
            wanted = f"{self.lab.name} all {chosen.name}{'' if scale == 'quick' else f' --scale {scale}'}"
            return Note(f"no counters yet: `roofbook profile {wanted}` takes them where ncu is")
        rungs = [self.lab.variant(name) for name in self._rungs()]
        counted = [each for each in rungs if any(has(name, "counters") for name in each.backends)]
        here = [each.name for each in counted if not self.lab.skip_reason(each, chosen)]
        asked = {*here, *mine["variant"]}
        order = [each.name for each in self.lab.all_variants() if each.name in asked]
        return report.counters(mine, self.rows, order, case=chosen.name)

    def counted_bytes(self, case: str | None = None) -> dict[str, float]:
        """Bytes a unit to and from DRAM that hardware counters counted on a case, by variant; of those that they did."""
        chosen = self.case(case).name
        told = {name: self.counted(name, chosen) for name in dict.fromkeys(self._profiles["variant"])}
        found = {name: each["counters"]["dram_bytes"] for name, each in told.items() if each}
        return {name: moved for name, moved in found.items() if moved is not None}

    def timeline(self, *variants: str, case: str | None = None) -> "Figure | Note":
        """What the queues of these variants did when, in one run of each on a case."""
        chosen, names = self.case(case), [self.lab.variant(name).name for name in variants]
        return _or_note(lambda: report.timeline(self.rows, names, case=chosen.name, elsewhere=self.elsewhere(chosen)))

    def series_chart(self, axis: str) -> "Figure | Note":
        """Time of some variants over something of the case, such as its sparsity."""
        series = self.series(axis)
        return _or_note(lambda: report.series(self.rows, series, excused=self._excused(series)))

    def crossings(self, axis: str) -> "Table":
        """From which point of a series on one variant is faster than another."""
        series = self.series(axis)
        return report.crossings(self.rows, series, excused=self._excused(series))

    def series(self, axis: str) -> Series:
        known = self.lab.series(self.scale)
        for series in known:
            if series.axis == axis:
                return series
        raise one_of("series", axis, [series.axis for series in known])

    def _excused(self, series: Series) -> dict[tuple[str, str], str]:
        """(variant, case) -> why a cell of a series cannot be measured here."""
        cells = [(self.lab.variant(name), case) for name in series.variants for case in self._cases_of(series)]
        return {(each.name, case.name): why for each, case in cells if (why := self._excuse(each, case))}

    def ceilings(self, *groups: str) -> "Table":
        """What the device was measured to do, the figures on paper beside it: of some groups of ceilings, or of all."""
        from ..report.peaks_table import ceilings

        changes = {variant.name: variant.change for variant in peaks.LAB.ladder}
        known = list(dict.fromkeys(variant.options["group"] for variant in peaks.LAB.ladder))
        for group in groups:
            if group not in known:
                raise one_of("group of ceilings", group, known)
        mine = {each.name for each in peaks.LAB.ladder if not groups or each.options["group"] in groups}
        rows = self._ceilings
        return ceilings(rows[rows["variant"].isin(mine)], self.device.name, changes)

    def bandwidths(self) -> "Figure | Note":
        """Bandwidth by working set: each level of the device's memory is a step."""
        from ..report.peaks_table import bandwidths

        return _or_note(lambda: bandwidths(self._ceilings, self.device.name))

    def leave_one_out(self, case: str | None = None) -> "Table":
        """What each optimisation is worth in the best rung, by leaving it out."""
        without = {variant.point or "": variant.name for variant in self.sweep("without").variants}
        return report.leave_one_out(self.rows, without, case=self.case(case).name, best=self.lab.best)

    def summary(self) -> "Markdown":
        """The lab's conclusions in sentences, each number read from the store."""
        from IPython.display import Markdown

        return Markdown(self.lab.summary(self))

    def pairs(self) -> "Table | Note":
        """What the changes of the lab's story are worth: rungs against each other, all cases side by side."""
        cases = [case.name for case in self.cases]
        return _or_note(lambda: report.pairs(self.rows, self.lab.pairs, cases=cases))

    def published(self) -> "Table":
        """Every published figure of the lab, ours beside it."""
        from ..store.published import figures

        own = (self.store.root / "published").is_dir()
        table = figures(self.lab.name, self.store.root if own else project_root() / "results")
        mapping = self.lab.published_mapping(self.device)
        units = {case.name: int(case.params.get("iterations", 1)) for case in self.lab.cases("published")}
        return report.published_beside_ours(
            table, self.rows, mapping, cases=self.lab.published_cases, units=units, measured=self.lab.counted(self),
            parts=self.lab.published_part, facts=self.lab.published_fact, lacks=self.lab.published_lack,
        )  # fmt: skip

    def sweep(self, axis: str) -> Sweep:
        for sweep in self.lab.sweeps:
            if sweep.axis == axis:
                return sweep
        raise one_of("sweep", axis, [sweep.axis for sweep in self.lab.sweeps])

    def sweep_table(self, axis: str, case: str | None = None) -> "Table | Note":
        """Time of each point of a sweep, against the variant it starts from and against the best point."""
        sweep, chosen = self.sweep(axis), self.case(case)
        return _or_note(lambda: report.sweep(self.rows, sweep.axis, case=chosen.name))

    def line_sweep(self, axis: str) -> "Figure | Note":
        """Time by the point of a sweep, a line for each case."""
        sweep = self.sweep(axis)
        rows = self.rows[self.rows["case"].isin([case.name for case in self.cases])]
        return _or_note(lambda: report.line_sweep(rows, sweep.axis, title=sweep.question))

    def heat_map(self, axis: str, case: str | None = None) -> "Figure | Note":
        """Time by the two numbers of each point of a sweep, such as the two sides of a work-group."""
        sweep, chosen = self.sweep(axis), self.case(case)

        def drawn() -> "Figure":
            why = {str(point.point): self._excuse(point, chosen) for point in sweep.variants}
            excused = {point: reason for point, reason in why.items() if reason}
            grid, reasons = report.sweep_grid(self.rows, sweep.axis, case=chosen.name, excused=excused)
            title = f"{sweep.question} On {chosen.name}"
            across, down = sweep.sides
            return report.heat_map(grid, reasons=reasons, xlabel=across, ylabel=down, title=title)

        return _or_note(drawn)

    def roofline(self, case: str | None = None) -> "Figure | Note":
        """The rungs under the device's measured roofs."""
        chosen, ceilings = self.case(case), self.peaks
        if ceilings is None:
            return Note("no roofline: a ceiling of this device has no verified time")
        footprint = self.lab.work(chosen).footprint
        return _or_note(
            lambda: report.roofline_chart(
                self.rows, ceilings, case=chosen.name, working_set=footprint, order=self.order(),
                counted=self.counted_bytes(chosen.name),
            )
        )  # fmt: skip

    def bandwidth_chart(self, case: str | None = None) -> "Figure | Note":
        """Bandwidth that each rung reaches, by the bytes of its data flow, against the device's measured copy."""
        chosen, ceilings = self.case(case), self.peaks
        if ceilings is None:
            return Note("no bandwidths: a ceiling of this device has no verified time")
        return _or_note(
            lambda: report.bandwidth_chart(
                self.rows, ceilings, case=chosen.name, working_set=self.lab.work(chosen).footprint,
                order=self._rungs(), elsewhere=self.elsewhere(chosen),
            )
        )  # fmt: skip

    def fastest(self, case: str) -> str:
        """The rung with the shortest verified median on a case; the lab's best where none was measured."""
        return self._fastest(case, "step") or self.lab.best

    def fastest_peer(self, case: str) -> str | None:
        """The same of the peers; None where none was measured."""
        return self._fastest(case, "peer")

    def _fastest(self, case: str, role: str) -> str | None:
        from ..analysis.readings import fastest, newest

        found = fastest(newest(self.rows, case, roles=(role,)).values())
        return found.variant if found else None

    def seconds(self, variant: str, case: str) -> float | None:
        """Median time per unit of a variant on any case whose cells this experiment has; None without a verified one."""
        reading = self._reading(variant, case)
        return reading.median if reading and reading.ok else None

    def fact(self, variant: str, case: str, name: str) -> Any:
        """What a verified run of a variant told besides its time, by its name; None where it told no such thing."""
        reading = self._reading(variant, case)
        return reading.facts.get(name) if reading else None

    def counted(self, variant: str, case: str) -> Mapping[str, Any] | None:
        """What hardware counters counted of a variant, as `counters.counted` has it; None where they did not."""
        from ..analysis.readings import newest

        cell = (self._profiles["case"] == case) & (self._profiles["variant"] == variant)
        reading = newest(self._profiles[cell], roles=[PROFILE]).get(variant)
        return reading.facts if reading and reading.ok else None

    def _reading(self, variant: str, case: str) -> "Reading | None":
        from ..analysis.readings import newest

        cell = (self.rows["case"] == case) & (self.rows["variant"] == variant)
        return newest(self.rows[cell]).get(variant)

    def fastest_point(self, axis: str, case: str) -> str | None:
        """The point of a sweep with the shortest verified median on a case; None where none has one."""
        times = {str(each.point): self.seconds(each.name, case) for each in self.sweep(axis).variants}
        found = {point: seconds for point, seconds in times.items() if seconds is not None}
        return min(found, key=lambda point: found[point], default=None)

    def failed(self) -> "Table":
        return report.failed(self.rows)

    def value(self, variant: str, case: str | None = None) -> str:
        """Median time per unit with its interval, as text for prose."""
        from ..report.prose import time_text

        return time_text(self.rows, variant, self.case(case).name)

    def times(self, variant: str, reference: str, case: str | None = None) -> str:
        """How fast `variant` is against `reference`, as text for prose: '3.14 times as fast as'."""
        from ..report.prose import ratio_text

        return ratio_text(self.rows, variant, reference, self.case(case).name)


class Note:
    """Why there is no figure or table: part of the ladder was left out, or failed."""

    def __init__(self, why: str) -> None:
        self.text = f"{why[:1].upper()}{why[1:]}."

    def _repr_html_(self) -> str:
        return self.html

    @property
    def html(self) -> str:
        return f'<p class="table-note">{escape(self.text)}</p>'

    def __repr__(self) -> str:
        return self.text


Shown = TypeVar("Shown")


def _or_note(draw: Callable[[], Shown]) -> Shown | Note:
    """What `draw` returns, or why it cannot: a page whose ladder was cut short still shows the rest."""
    try:
        return draw()
    except UsageError as why:
        return Note(str(why))
