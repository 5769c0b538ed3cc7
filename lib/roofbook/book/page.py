"""Page of a lab in a notebook: one method for each table and figure of `report`, made from the page's rows.

A figure that cannot be drawn, because part of the ladder was left out or failed, becomes a note with the reason.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from .. import report
from ..analysis import predictions
from ..analysis.answers import answer, main_steps
from ..analysis.conclusions import finding_of_measured
from ..analysis.lab_data import LabData, Measured
from ..analysis.publication import publication
from ..analysis.published_figures import PublishedFigures
from ..analysis.readings import cases_of
from ..devices.backends import BACKENDS, C, has, label
from ..errors import UsageError, one_of
from ..escaping import escape
from ..report.html import Html, Table, number_of, with_code
from ..spec import registry
from ..spec.lab import Series, Sweep
from ..store.parquet import Store
from ..store.published_results import figures, results_of
from .case_markup import embed_cases, mark_case

if TYPE_CHECKING:
    import pandas as pd
    from IPython.display import Markdown
    from ipywidgets import VBox

    from ..analysis.case_data import CaseData
    from ..report.figure import Figure
    from ..report.steps import StepFold
    from ..spec.changed_lines import Excerpt
    from ..spec.plan import Variant

More = ParamSpec("More")
Shown = TypeVar("Shown")


class Note:
    """Reason that stands in place of a figure or table that cannot be drawn."""

    def __init__(self, reason: str) -> None:
        self.text = f"{reason[:1].upper()}{reason[1:]}."

    def _repr_html_(self) -> str:
        return self.html

    @property
    def html(self) -> str:
        return f'<p class="table-note">{with_code(self.text)}</p>'

    def __repr__(self) -> str:
        return self.text


def noted(draw: Callable[More, Shown]) -> Callable[More, Shown | Note]:
    """Wrap `draw` to return a Note with the reason if it raises UsageError. An unknown name still raises."""

    @wraps(draw)
    def draw_or_note(*args: More.args, **kwargs: More.kwargs) -> Shown | Note:
        try:
            return draw(*args, **kwargs)
        except UsageError as error:
            if error.is_unknown_name:
                raise
            return Note(str(error))

    return draw_or_note


def case_method(draw: "Callable[[CaseData], Shown]") -> Callable[..., Shown | Note]:
    """Return a page method that draws one case, by default the largest. It raises UsageError for a case that the page lacks."""

    def draw_case(page: "Page", case: str | None = None) -> Shown | Note:
        data = page.data.on(case).alone()
        return page.keep(draw.__name__, data.case, data, partial(noted(draw), data))

    draw_case.__doc__ = draw.__doc__
    return embed_cases(draw_case)


class Page(ABC):
    """A lab on a device at a scale, as a notebook shows it."""

    @property
    @abstractmethod
    def data(self) -> LabData: ...

    @property
    @abstractmethod
    def store(self) -> Store: ...

    def keep(self, name: str, subject: str, made_from: object, draw: Callable[[], Shown]) -> Shown:
        """Return the drawing of `draw`. A subclass may cache it by name, subject (a case or an axis) and inputs."""
        return draw()

    def answer(self) -> Html:
        """Return the lab's result on each case: the fastest kernel, its comparisons, and the steps that mattered most."""
        data, main = self.data, self.data.case().name

        def draw_answer(case_data: "CaseData", profiles: "pd.DataFrame") -> Html:
            return Html(report.answer(case_data, answer(data.lab, case_data), case_data.case == main, profiles))

        boxes = []
        for case_data in (data.on(case.name).alone() for case in data.cases):
            profiles = data.profiles[data.profiles["case"] == case_data.case]
            boxes.append(
                self.keep(
                    "answer", case_data.case, (case_data, main, profiles), partial(draw_answer, case_data, profiles)
                )
            )
        return Html("".join(box.html for box in boxes))

    @mark_case
    def ladder(self, case: str | None = None) -> Table:
        """Return the ladder on a case, with libraries and controls."""
        data = self.data.on(case).alone()
        return self.keep("ladder", data.case, data, partial(report.ladder, data))

    ladder_chart = case_method(report.ladder_chart)
    opening = case_method(report.opening)
    descent = case_method(report.descent)
    peers = case_method(report.peers)
    resources = case_method(report.resources)
    roofline = case_method(report.roofline_chart)

    @embed_cases
    @noted
    def parts(self, case: str | None = None) -> Table | Note:
        """Return the parts of each variant's run on a case, such as copies, and the lab's other facts about it."""
        lab, data = self.data.lab, self.data.on(case).alone()
        inputs = (data, lab.parts, lab.facts_shown)
        return self.keep("parts", data.case, inputs, partial(noted(report.parts), *inputs))

    @embed_cases
    @noted
    def counters(self, case: str | None = None) -> Table:
        """Return the hardware counters of each variant on a case, with the modelled bytes and the measured time."""
        data, lab, chosen = self.data, self.data.lab, self.data.case(case)
        counted = set(data.profiles[data.profiles["case"] == chosen.name]["variant"])
        if not counted:
            arguments = f"{lab.name} all {chosen.name}{'' if data.scale == 'quick' else f' --scale {data.scale}'}"
            raise UsageError(f"no counters yet: `roofbook profile {arguments}` reads them if ncu is installed")
        countable = {
            variant.name
            for variant in (*lab.ladder, *lab.peers)
            if variant.role != "probe" and not lab.skip_reason(variant, chosen)
            if any(has(backend, "counters") for backend in variant.backends)
        }
        order = [variant.name for variant in lab.all_variants() if variant.name in countable | counted]
        return report.counters(data.on(case).with_order(order), data.profiles)

    def draw(self, draw: Callable[..., Shown], *args: str) -> Shown | Note:
        """Return a table or figure of the lab's own: `draw(data, *args)`, where data is the page's `LabData`.

        If it raises UsageError, return a note with the reason.
        """
        return noted(draw)(self.data, *args)

    @mark_case
    def draw_case(self, draw: Callable[..., Shown], *args: str, case: str | None = None) -> Shown | Note:
        """Return a table or figure of the lab's own on a case: `draw(data, *args)`, where data is the case's `CaseData`."""
        data = self.data.on(case).alone()
        subject = " ".join([data.case, *args])
        return self.keep(draw.__name__, subject, (data, args), partial(noted(draw), data, *args))

    @noted
    def pairs(self) -> Table:
        """Return the effect of each change in the lab's story: pairs of steps, with all cases in columns."""
        data = self.data
        return report.pairs(data.rows, publication(data.lab).pairs, cases=[case.name for case in data.cases])

    def steps(self, *names: str, aside: str = "") -> Html:
        """Return each step: its change, the prediction, the measured effect on every case, and its diff in a fold.

        Steps that gained little on the way to the fastest one, and those beside it, are each below a line. Steps that this
        device cannot run are in a fold of their own. aside: summary of a fold that holds all of them, for a side road of the
        story.
        """
        steps_here, steps_elsewhere = list[str](), list[str]()
        for name in names:
            (steps_here if self._runs_here(name) else steps_elsewhere).append(name)
        main_of_case = {} if aside else self._main_steps()
        parts = [self._step(name, self._fold(name, main_of_case)) for name in steps_here]
        if steps_elsewhere:
            listed = ", ".join(f"<code>{escape(name)}</code>" for name in steps_elsewhere)
            parts.append(_folded("not-here", f"Without a time here: {listed}", map(self._step, steps_elsewhere)))
        if not aside:
            return Html("".join(parts))
        listed = ", ".join(f"<code>{escape(name)}</code>" for name in steps_here)
        return Html(_folded("aside", f"{escape(aside)}{': ' * bool(listed)}{listed}", parts))

    def _fold(self, name: str, main_of_case: Mapping[str, Sequence[str]]) -> "StepFold | None":
        """Return the fold of a step; None for one that the story shows in full on its main case."""
        from ..report.steps import StepFold

        main = main_of_case.get(self.data.case().name)
        return (
            StepFold([case for case, steps in main_of_case.items() if name in steps])
            if main and name not in main
            else None
        )

    def _main_steps(self) -> dict[str, list[str]]:
        """Return the steps that the story shows in full, by case that was measured."""
        data, measured = self.data, cases_of(self.data.rows)
        return {case.name: main_steps(data.lab, data.on(case.name)) for case in data.cases if case.name in measured}

    def _runs_here(self, name: str) -> bool:
        rows, cases = self.data.rows, [case.name for case in self.data.cases]
        return bool(((rows["variant"] == name) & rows["case"].isin(cases)).any())

    def _step(self, name: str, fold: "StepFold | None" = None) -> str:
        from ..report.steps import step

        data, lab = self.data, self.data.lab
        variant = lab.variant(name)
        parent = lab.variant(variant.parent) if variant.parent else None
        diff, excerpt = change_of_step(data, variant, parent) if parent else ("", None)
        case = data.case()
        skipped = {case.name: data.skip_reason(variant, case) for case in data.cases}
        size = case.name if lab.sizes(case) else ""
        tuned = [v.name for sweep in lab.sweeps if sweep.tunes for v in sweep.variants if v.name != variant.name]
        tuned_parents = [name for name in tuned if name.partition("@")[0] == variant.parent]
        predicted = predictions.of_step(data, variant)
        whys = predictions.whys_of_step(data, variant, publication(lab).whys)
        return step(
            variant,
            data.rows,
            skipped,
            diff,
            lab.name,
            size,
            predicted,
            data.profiles,
            tuned_parents,
            excerpt,
            whys,
            fold,
        )

    def source(self, variant: str, dialect: str | None = None) -> Html:
        """Return a variant's kernel in a fold: plain OpenCL C or CUDA C++, by default in the device's language, otherwise C.

        Sizes that it has as constants are those of the page's largest case.
        """
        data = self.data
        chosen = data.lab.variant(variant)
        if chosen.source is None:
            raise UsageError(f"variant {variant!r} has no kernel: it is a program of the host")
        default = next(
            candidate for candidate in (C.name, data.device.backend, *BACKENDS) if candidate in chosen.languages
        )
        text = chosen.source.of_size(data.lab.sizes(data.case())).render(dialect or default)
        summary = f"The kernel <code>{escape(variant)}</code>, {len(text.splitlines())} lines"
        return Html(_folded("source", summary, [report.html_source(text, "c")]))

    @mark_case
    @noted
    def sweep(self, axis: str, case: str | None = None) -> "Figure":
        """Return a sweep as a figure, with the table of its points in a fold: a line, a map, or a bar for each point."""
        chosen = self.data.case(case).name
        sweep = self._swept_on(axis, chosen)
        table = report.sweep(self.data.on(chosen), axis)
        kind = report.sweep_kind([row.cells[0].text for row in table.rows])
        if kind == "map":
            figure = self._heat_map(sweep, chosen)
        elif kind == "line":
            rows = self.data.rows[(self.data.rows["axis"] == axis) & (self.data.rows["case"] == chosen)]
            title = f"{sweep.question} On {chosen}"
            figure = report.line_sweep(rows, axis, title=title, notes=self._left_out(sweep))
        else:
            title = f"{sweep.question} On {chosen}"
            figure = report.point_bars(self.data.on(chosen), axis, title=title, notes=self._left_out(sweep))
        return replace(figure, more=("All points as a table", table))

    @mark_case
    @noted
    def sweep_table(self, axis: str, case: str | None = None) -> Table:
        """Return the time at each point of a sweep, compared with the variant it starts from and with the best point."""
        sweep = self._swept_on(axis, self.data.case(case).name)
        table = report.sweep(self.data.on(case), sweep.axis)
        return replace(table, notes=[*table.notes, *self._left_out(sweep)])

    @noted
    def turned_knobs(self) -> Table:
        """Return the steps that a reader measured with other knobs, on all cases; see `roofbook rerun --knob`."""
        lab = self.data.lab
        return report.turned_knobs(self.data.rows, {variant.name for variant in lab.all_variants()}, lab.name)

    def controls(self) -> "VBox | Note":
        """Return fields and a button that measure a step again, where the notebook runs in JupyterLab."""
        return Note(
            "in JupyterLab, fields and a button stand here: they measure a step, with knobs of your choice, beside its parent"
        )

    @noted
    def line_sweep(self, axis: str) -> "Figure | Note":
        """Return a chart of time by the points of a sweep, with one line for each case."""
        data, sweep = self.data, self.data.sweep(axis)
        rows = data.rows[data.rows["case"].isin([case.name for case in data.cases])]
        if sweep.axis not in set(rows["axis"]):
            self._swept_on(axis, data.lab.sweep_cases(data.cases)[0].name)
        options = {"title": sweep.question, "notes": self._left_out(sweep)}
        rows = rows[rows["axis"] == sweep.axis]
        return self.keep(
            "line_sweep", axis, (rows, options), partial(noted(report.line_sweep), rows, sweep.axis, **options)
        )

    @mark_case
    @noted
    def heat_map(self, axis: str, case: str | None = None) -> "Figure":
        """Return the time by the two numbers of each sweep point, such as the two sides of a work-group."""
        chosen = self.data.case(case).name
        return self._heat_map(self._swept_on(axis, chosen), chosen)

    def _heat_map(self, sweep: Sweep, case: str) -> "Figure":
        """Draw the map of a sweep whose points are pairs of numbers."""
        data, chosen = self.data, self.data.case(case)
        reasons_by_point = {str(point.point): data.skip_reason(point, chosen) for point in sweep.at_scale(data.scale)}
        skipped = {point: reason for point, reason in reasons_by_point.items() if reason}
        grid, reasons = report.sweep_grid(data.on(case), sweep.axis, skipped)
        across, down = sweep.sides
        title = f"{sweep.question} On {chosen.name}"
        readings, _ = report.sweep_readings(data.on(case).rows, sweep.axis, case)
        notes = [*report.median_notes(readings), *self._left_out(sweep)]
        return report.heat_map(grid, reasons=reasons, xlabel=across, ylabel=down, title=title, notes=notes)

    def _swept_on(self, axis: str, case: str) -> Sweep:
        """Return the sweep over `axis`. Raise UsageError with the reason if no point of it was measured on the case."""
        data, sweep = self.data, self.data.sweep(axis)
        if case not in set(data.rows[data.rows["axis"] == sweep.axis]["case"]):
            if case not in {swept.name for swept in data.lab.sweep_cases(data.cases)}:
                raise UsageError(self._swept_alone()[0].removesuffix("."))
            point_reasons = [data.skip_reason(point, data.case(case)) for point in sweep.at_scale(data.scale)]
            reason = "; ".join(dict.fromkeys(point_reasons)) if all(point_reasons) else "it was not measured"
            raise UsageError(f"{sweep.question} On {case}: {reason}")
        return sweep

    def _left_out(self, sweep: Sweep) -> list[str]:
        """Return a note if the scale measures only some points of a sweep."""
        scale, few, total = self.data.scale, len(sweep.at_scale(self.data.scale)), len(sweep.variants)
        note = f"At the scale {scale} {few} of its {total} points are measured, unless others are asked for."
        return [note] * (few < total) + self._swept_alone()

    def _swept_alone(self) -> list[str]:
        """Return a note if the scale runs sweeps on only one of its cases."""
        data, swept = self.data, self.data.lab.sweep_cases(self.data.cases)
        note = f"At the scale {data.scale} sweeps are measured on {swept[0].name} alone, unless variants are asked for."
        return [note] * (len(swept) < len(data.cases))

    @mark_case
    @noted
    def leave_one_out(self, case: str | None = None) -> "Figure":
        """Return the effect of each optimisation of the best step, measured by leaving it out; the table is in a fold."""
        sweep = self._swept_on("without", self.data.case(case).name)
        without = {variant.point or "": variant.name for variant in sweep.variants}
        data, best = self.data.on(case), self.data.lab.best
        figure = report.worth_bars(data, without, best)
        return replace(figure, more=("All as a table", report.leave_one_out(data, without, best)))

    @noted
    def series_chart(self, axis: str) -> "Figure | Note":
        """Return a chart of the time of some variants over a property of the case, such as its sparsity.

        The table of its crossings is in a fold.
        """
        series = self.data.series(axis)
        rows = self._rows_of(series)
        skipped = self._skipped(series)
        draw = partial(noted(_series_figure), rows, series, skipped)
        return self.keep("series_chart", axis, (rows, series, skipped), draw)

    @noted
    def crossings(self, axis: str) -> Table:
        """Return from which point of a series on one variant is faster than another."""
        series = self.data.series(axis)
        return report.crossings(self._rows_of(series), series, skipped=self._skipped(series))

    def _rows_of(self, series: Series) -> "pd.DataFrame":
        """Return the rows of a series. Raise UsageError if only the host was measured: that does not describe the device."""
        data, cases = self.data, {name for _, name in series.points}
        rows = data.rows[data.rows["case"].isin(cases) & data.rows["variant"].isin(series.variants)]
        if len(rows) and not (rows["backend"] == data.device.backend).any():
            raise UsageError(f"{series.question} It was not measured on this device")
        return rows

    def _skipped(self, series: Series) -> dict[tuple[str, str], str]:
        """Return (variant, case) -> reason why a point of a series cannot be measured here."""
        data = self.data
        points = [(data.lab.variant(name), case) for name in series.variants for case in data.cases_of(series)]
        return {
            (variant.name, case.name): reason for variant, case in points if (reason := data.skip_reason(variant, case))
        }

    def peak_table(self, *groups: str) -> Table:
        """Return the measured peaks of the device, with the figures of its data sheet: some groups of peaks, or all."""
        ladder = registry.get(registry.PEAKS).ladder
        group_names = list(dict.fromkeys(variant.options["group"] for variant in ladder))
        for group in groups:
            if group not in group_names:
                raise one_of("group of peaks", group, group_names)
        chosen = {variant.name for variant in ladder if not groups or variant.options["group"] in groups}
        rows, changes = self.data.peak_rows, {variant.name: variant.change for variant in ladder}
        return report.peaks(rows[rows["variant"].isin(chosen)], self.data.device.name, changes)

    @noted
    def bandwidths(self) -> "Figure":
        """Return a chart of bandwidth by working set: each level of the device's memory is a step."""
        return report.bandwidths(self.data.peak_rows, self.data.device.name)

    def summary(self) -> "Markdown":
        """Return the answer to the lab's question, its conclusions, and the result of its predictions, in sentences.

        Each number is read from the store; each time or ratio links to its measurement.
        """
        from IPython.display import Markdown

        measured, published = Measured(self.data, number_of), publication(self.data.lab)
        answer_text = finding_of_measured(published.finding(measured), measured)
        parts = [
            f"**The answer.** {answer_text}" * bool(answer_text),
            published.summary(measured),
            predictions.sentence(predictions.counted(self.data)),
        ]
        return Markdown("\n\n".join(filter(None, parts)))

    @noted
    def published(self) -> Table:
        """Return every published figure of the lab, with our measurement of it."""
        return published_of(self.data, self.store)

    def failed(self) -> Table:
        """Return the measurements that failed on this device at this scale, with reasons."""
        data = self.data
        return report.failed(
            data.rows, origin=f"{data.device.name} by {label(data.device.backend)}, scale {data.scale}"
        )


def _series_figure(rows: "pd.DataFrame", series: Series, skipped: Mapping[tuple[str, str], str]) -> "Figure":
    """Draw a series, with the table of its crossings in a fold if it has pairs that may cross."""
    figure = report.series(rows, series, skipped=skipped)
    if not series.against:
        return figure
    table = report.crossings(rows, series, skipped=skipped)
    return replace(figure, more=("Where the lines cross, as a table", table))


def change_of_step(data: LabData, variant: "Variant", parent: "Variant") -> "tuple[str, Excerpt]":
    """Return the difference of a step's kernel from its parent's, '' if only the host's code differs, and its changed lines."""
    from ..spec import changed_lines

    if not (parent.source and variant.source and parent.source != variant.source):
        return "", changed_lines.of_host(parent, variant)
    shared = set(parent.languages) & set(variant.languages)
    language = next((candidate for candidate in (data.device.backend, *BACKENDS) if candidate in shared), None)
    sizes = data.lab.sizes(data.case())
    before, after = (source.of_size(sizes) for source in (parent.source, variant.source))
    diff = after.diff(before, (parent.name, variant.name), language)
    return diff, changed_lines.excerpt(diff)


def _folded(css: str, summary: str, parts: Iterable[str]) -> str:
    """Return parts of a page below a summary that unfolds them. All are HTML."""
    return f'<details class="steps-{css}"><summary>{summary}</summary>{"".join(parts)}</details>'


def published_of(data: LabData, store: Store) -> Table:
    """Return every published figure of a lab, with its measurement in these rows."""
    results = results_of(data.lab.name, store.root)
    if not (results / "published" / f"{data.lab.name}.csv").is_file():
        raise UsageError(
            f"{data.lab.name} has no published figures: its report, if it has one, is not in results/published"
        )
    table = figures(data.lab.name, results)
    return report.published(PublishedFigures.of(data, table), data.rows)
