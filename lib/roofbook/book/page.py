"""What a notebook shows of a lab: each table and figure of `report` as a method, made from the page's rows.

A figure that cannot be drawn, since part of the ladder was left out or failed, is a note that says why: the rest still shows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from .. import report
from ..analysis import predictions
from ..analysis.answers import answer
from ..analysis.lab_data import LabData, Measured
from ..analysis.publication import publication
from ..analysis.published_figures import PublishedFigures
from ..analysis.readings import newest
from ..devices.backends import BACKENDS, C, has, label
from ..errors import UsageError, one_of
from ..paths import project_root
from ..report.html import Html, Table, number_of, with_code
from ..spec import registry
from ..spec.lab import Series, Sweep
from ..store.parquet import Store
from ..store.published_results import figures
from .case_markup import marked, of_each_case

if TYPE_CHECKING:
    import pandas as pd
    from IPython.display import Markdown

    from ..analysis.case_data import CaseData
    from ..report.figure import Figure

More = ParamSpec("More")
Shown = TypeVar("Shown")


class Note:
    """Why there is no figure or table."""

    def __init__(self, why: str) -> None:
        self.text = f"{why[:1].upper()}{why[1:]}."

    def _repr_html_(self) -> str:
        return self.html

    @property
    def html(self) -> str:
        return f'<p class="table-note">{with_code(self.text)}</p>'

    def __repr__(self) -> str:
        return self.text


def noted(draw: Callable[More, Shown]) -> Callable[More, Shown | Note]:
    """What `draw` gives, or a note that says why it cannot. Errors: UsageError for a name that does not exist."""

    @wraps(draw)
    def shown(*given: More.args, **named: More.kwargs) -> Shown | Note:
        try:
            return draw(*given, **named)
        except UsageError as why:
            if why.is_unknown_name:
                raise
            return Note(str(why))

    return shown


def of_case(draw: "Callable[[CaseData], Shown]") -> Callable[..., Shown | Note]:
    """A method that draws a case, by default the largest. Errors: UsageError for a case that the page does not have."""

    def shown(page: "Page", case: str | None = None) -> Shown | Note:
        data = page.data.on(case).alone()
        return page.keep(draw.__name__, data.case, data, partial(noted(draw), data))

    shown.__doc__ = draw.__doc__
    return of_each_case(shown)


class Page(ABC):
    """A lab on a device at a scale, as a notebook shows it."""

    @property
    @abstractmethod
    def data(self) -> LabData: ...

    @property
    @abstractmethod
    def store(self) -> Store: ...

    def keep(self, name: str, of: str, made_from: object, draw: Callable[[], Shown]) -> Shown:
        """What `draw` draws; one page may know it from before, as that by this name of a case, made from the same."""
        return draw()

    def answer(self) -> Html:
        """What the lab comes to on each case: the fastest kernel, what stands beside it, and the steps that mattered most."""
        data, main = self.data, self.data.case().name

        def told(of: "CaseData", counted: "pd.DataFrame") -> Html:
            return Html(report.answer(of, answer(data.lab, of), of.case == main, counted))

        found = []
        for of in (data.on(case.name).alone() for case in data.cases):
            counted = data.profiles[data.profiles["case"] == of.case]
            found.append(self.keep("answer", of.case, (of, main, counted), partial(told, of, counted)))
        return Html("".join(each.html for each in found))

    @marked
    def ladder(self, case: str | None = None) -> Table:
        """The ladder on a case, libraries and controls included."""
        data = self.data.on(case).alone()
        return self.keep("ladder", data.case, data, partial(report.ladder, data))

    ladder_chart = of_case(report.ladder_chart)
    descent = of_case(report.descent)
    peers = of_case(report.peers)
    resources = of_case(report.resources)
    roofline = of_case(report.roofline_chart)
    bandwidth_chart = of_case(report.bandwidth_chart)

    @of_each_case
    @noted
    def parts(self, case: str | None = None) -> Table | Note:
        """The parts of each variant's run on a case, such as copies, and what else the lab shows of it."""
        lab, data = self.data.lab, self.data.on(case).alone()
        told = (data, lab.parts, lab.facts_shown)
        return self.keep("parts", data.case, told, partial(noted(report.parts), *told))

    @of_each_case
    @noted
    def counters(self, case: str | None = None) -> Table:
        """What hardware counters counted of each variant on a case, beside the bytes modelled and the measured time."""
        data, lab, chosen = self.data, self.data.lab, self.data.case(case)
        counted = set(data.profiles[data.profiles["case"] == chosen.name]["variant"])
        if not counted:
            wanted = f"{lab.name} all {chosen.name}{'' if data.scale == 'quick' else f' --scale {data.scale}'}"
            raise UsageError(f"no counters yet: `roofbook profile {wanted}` reads them if ncu is installed")
        asked = {
            each.name
            for each in (*lab.ladder, *lab.peers)
            if each.role != "probe" and not lab.skip_reason(each, chosen)
            if any(has(backend, "counters") for backend in each.backends)
        }
        order = [each.name for each in lab.all_variants() if each.name in asked | counted]
        return report.counters(data.on(case).with_order(order), data.profiles)

    @marked
    @noted
    def timeline(self, *variants: str, case: str | None = None) -> "Figure":
        """What the queues of these variants did when, in one run of each on a case."""
        return report.timeline(self.data.on(case), [self.data.lab.variant(name).name for name in variants])

    @noted
    def pairs(self) -> Table:
        """What the changes of the lab's story are worth: steps compared with each other, all cases side by side."""
        data = self.data
        return report.pairs(data.rows, publication(data.lab).pairs, cases=[case.name for case in data.cases])

    def steps(self, *names: str) -> Html:
        """Each step: what changes, what was expected, what it brought on every case, and its diff to open."""
        return Html("".join(self._step(name) for name in names))

    def _step(self, name: str) -> str:
        from ..report.steps import step

        data, lab = self.data, self.data.lab
        variant = lab.variant(name)
        parent = lab.variant(variant.parent) if variant.parent else None
        diff, case = "", data.case()
        if parent and parent.source and variant.source and parent.source != variant.source:
            shown = set(parent.languages) & set(variant.languages)
            language = next((each for each in (data.device.backend, *BACKENDS) if each in shown), None)
            before, after = (each.of_size(lab.sizes(case)) for each in (parent.source, variant.source))
            diff = after.diff(before, (parent.name, variant.name), language)
        skipped = {case.name: data.skip_reason(variant, case) for case in data.cases}
        size = case.name if lab.sizes(case) else ""
        return step(
            variant, data.rows, skipped, diff, lab.name, size, predictions.of_step(data, variant), data.profiles
        )

    def source(self, variant: str, dialect: str | None = None) -> Html:
        """A variant's kernel as plain OpenCL C or CUDA C++, by default in the language of this device, or else as C.

        Sizes that it has as constants are those of the page's largest case.
        """
        data = self.data
        chosen = data.lab.variant(variant)
        if chosen.source is None:
            raise UsageError(f"variant {variant!r} has no kernel: it is a program of the host")
        own = next(each for each in (C.name, data.device.backend, *BACKENDS) if each in chosen.languages)
        return report.html_source(chosen.source.of_size(data.lab.sizes(data.case())).render(dialect or own), "c")

    @marked
    @noted
    def sweep_table(self, axis: str, case: str | None = None) -> Table:
        """Time of each point of a sweep, compared with the variant it starts from and with the best point."""
        sweep = self._swept_on(axis, self.data.case(case).name)
        table = report.sweep(self.data.on(case), sweep.axis)
        return replace(table, notes=[*table.notes, *self._left_out(sweep)])

    @noted
    def line_sweep(self, axis: str) -> "Figure | Note":
        """Time by the point of a sweep, a line for each case."""
        data, sweep = self.data, self.data.sweep(axis)
        rows = data.rows[data.rows["case"].isin([case.name for case in data.cases])]
        if sweep.axis not in set(rows["axis"]):
            self._swept_on(axis, data.lab.sweep_cases(data.cases)[0].name)
        told = {"title": sweep.question, "notes": self._left_out(sweep)}
        rows = rows[rows["axis"] == sweep.axis]
        return self.keep("line_sweep", axis, (rows, told), partial(noted(report.line_sweep), rows, sweep.axis, **told))

    @marked
    @noted
    def heat_map(self, axis: str, case: str | None = None) -> "Figure":
        """Time by the two numbers of each point of a sweep, such as the two sides of a work-group."""
        data, chosen = self.data, self.data.case(case)
        sweep = self._swept_on(axis, chosen.name)
        why = {str(point.point): data.skip_reason(point, chosen) for point in sweep.at_scale(data.scale)}
        skipped = {point: reason for point, reason in why.items() if reason}
        grid, reasons = report.sweep_grid(data.on(case), sweep.axis, skipped)
        across, down = sweep.sides
        title = f"{sweep.question} On {chosen.name}"
        notes = self._left_out(sweep)
        return report.heat_map(grid, reasons=reasons, xlabel=across, ylabel=down, title=title, notes=notes)

    def _swept_on(self, axis: str, case: str) -> Sweep:
        """The sweep over `axis`. Errors: UsageError that says why where no point of it was measured on the case."""
        data, sweep = self.data, self.data.sweep(axis)
        if case not in set(data.rows[data.rows["axis"] == sweep.axis]["case"]):
            if case not in {each.name for each in data.lab.sweep_cases(data.cases)}:
                raise UsageError(self._swept_alone()[0].removesuffix("."))
            why = [data.skip_reason(point, data.case(case)) for point in sweep.at_scale(data.scale)]
            reasons = "; ".join(dict.fromkeys(why)) if all(why) else "it was not measured"
            raise UsageError(f"{sweep.question} On {case}: {reasons}")
        return sweep

    def _left_out(self, sweep: Sweep) -> list[str]:
        """A note where the scale measures some points of a sweep alone."""
        scale, few, all_of_it = self.data.scale, len(sweep.at_scale(self.data.scale)), len(sweep.variants)
        said = f"At the scale {scale} {few} of its {all_of_it} points are measured, unless others are asked for."
        return [said] * (few < all_of_it) + self._swept_alone()

    def _swept_alone(self) -> list[str]:
        """A note where the scale has sweeps on one of its cases alone."""
        data, swept = self.data, self.data.lab.sweep_cases(self.data.cases)
        said = f"At the scale {data.scale} sweeps are measured on {swept[0].name} alone, unless variants are asked for."
        return [said] * (len(swept) < len(data.cases))

    @marked
    @noted
    def leave_one_out(self, case: str | None = None) -> Table:
        """What each optimisation is worth in the best step, by leaving it out."""
        sweep = self._swept_on("without", self.data.case(case).name)
        without = {variant.point or "": variant.name for variant in sweep.variants}
        return report.leave_one_out(self.data.on(case), without, self.data.lab.best)

    @noted
    def series_chart(self, axis: str) -> "Figure | Note":
        """Time of some variants over something of the case, such as its sparsity."""
        data, series = self.data, self.data.series(axis)
        rows = self._rows_of(series)
        told = {"skipped": self._skipped(series), "lab_order": data.order}
        return self.keep(
            "series_chart", axis, (rows, series, told), partial(noted(report.series), rows, series, **told)
        )

    @noted
    def crossings(self, axis: str) -> Table:
        """From which point of a series on one variant is faster than another."""
        series = self.data.series(axis)
        return report.crossings(self._rows_of(series), series, skipped=self._skipped(series))

    def _rows_of(self, series: Series) -> "pd.DataFrame":
        """The rows of a series. Errors: UsageError where the host alone was measured, which says nothing of the device."""
        data, cases = self.data, {name for _, name in series.points}
        rows = data.rows[data.rows["case"].isin(cases) & data.rows["variant"].isin(series.variants)]
        if len(rows) and not (rows["backend"] == data.device.backend).any():
            raise UsageError(f"{series.question} It was not measured on this device")
        return rows

    @noted
    def scaling(self, axis: str, devices: str) -> Table:
        """What several devices gain on one along a series, beside a model of it. devices: the sweep over their number."""
        data, series = self.data, self.data.series(axis)
        counts = {each.name: int(str(each.point)) for each in data.sweep(devices).variants}
        rows = data.rows[data.rows["variant"].isin(counts)]
        found = {
            (counts[name], int(x)): reading
            for x, case in series.points
            if (rows["case"] == case).any()
            for name, reading in newest(rows, case).items()
        }
        if not any(reading.ok for reading in found.values()):
            raise UsageError(f"no point of the series over {axis} has a verified time")
        return report.scaling(found, series)

    def _skipped(self, series: Series) -> dict[tuple[str, str], str]:
        """(variant, case) -> why a point of a series cannot be measured here."""
        data = self.data
        points = [(data.lab.variant(name), case) for name in series.variants for case in data.cases_of(series)]
        return {(each.name, case.name): why for each, case in points if (why := data.skip_reason(each, case))}

    def peak_table(self, *groups: str) -> Table:
        """What the device was measured to do, the figures on paper beside it: of some groups of peaks, or of all."""
        ladder = registry.get(registry.PEAKS).ladder
        known = list(dict.fromkeys(variant.options["group"] for variant in ladder))
        for group in groups:
            if group not in known:
                raise one_of("group of peaks", group, known)
        mine = {each.name for each in ladder if not groups or each.options["group"] in groups}
        rows, changes = self.data.peak_rows, {variant.name: variant.change for variant in ladder}
        return report.peaks(rows[rows["variant"].isin(mine)], self.data.device.name, changes)

    @noted
    def bandwidths(self) -> "Figure":
        """Bandwidth by working set: each level of the device's memory is a step."""
        return report.bandwidths(self.data.peak_rows, self.data.device.name)

    def summary(self) -> "Markdown":
        """The lab's conclusions in sentences, and what came of its predictions; each number is read from the store, and a time
        or a ratio is marked with the measurement that it is of.
        """
        from IPython.display import Markdown

        said = publication(self.data.lab).summary(Measured(self.data, number_of))
        return Markdown("\n\n".join(filter(None, [said, predictions.sentence(predictions.counted(self.data))])))

    @noted
    def published(self) -> Table:
        """Every published figure of the lab, what was measured beside it."""
        return published_of(self.data, self.store)

    def failed(self) -> Table:
        """What failed on this device at this scale, and why."""
        data = self.data
        return report.failed(
            data.rows, origin=f"{data.device.name} by {label(data.device.backend)}, scale {data.scale}"
        )


def published_of(data: LabData, store: Store) -> Table:
    """Every published figure of a lab beside what these rows have measured of it."""
    own = (store.root / "published").is_dir()
    results = store.root if own else project_root() / "results"
    if not (results / "published" / f"{data.lab.name}.csv").is_file():
        raise UsageError(
            f"{data.lab.name} has no published figures: its report, if it has one, is not in results/published"
        )
    table = figures(data.lab.name, results)
    return report.published(PublishedFigures.of(data, table), data.rows)
