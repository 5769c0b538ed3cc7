"""Figures of a lesson: the count of a lab's work, a step's change and its effect on each device, the ladder, the answer.

Serves the page of a lesson and its slides. Numbers come from recorded rows.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from .. import report
from ..analysis import format as show
from ..analysis.conclusions import finding_of_measured
from ..analysis.lab_data import LabData, Measured
from ..analysis.publication import publication
from ..analysis.readings import Reading, Speedup, faster
from ..analysis.recorded import RecordedData, recorded
from ..analysis.roofline import work_unit
from ..analysis.sentences import effect_text
from ..analysis.store_devices import card_of
from ..errors import UsageError
from ..escaping import escape
from ..report.figure import STEP_LINK, Figure
from ..report.html import Cell, Row, Table, html_source, number_of, with_code
from ..report.steps import excerpt_html, medians_note, step_bars
from ..spec.lab import Lab
from ..spec.lesson import ANSWER, COUNT, LADDER, ROOFLINE, Lesson, lesson
from ..spec.plan import Variant
from ..store.parquet import Store
from .front_page import on_one_device
from .page import change_of_step


@dataclass(frozen=True)
class LessonData:
    """A lab's lesson with its recorded data."""

    lab: Lab
    lesson: Lesson
    records: Sequence[RecordedData]
    """The lab on each recorded device at the published sizes."""
    data: RecordedData | None
    """The lab on the device with which all pages open; None without records."""


def lesson_data(lab: Lab, lesson: Lesson, store: Store, ranks: Mapping[str, int]) -> LessonData:
    """Read the data of a lesson. ranks: number of measurements by device, as `by_extent`."""
    records = recorded(lab, store)
    chosen = on_one_device(records, ranks)
    return LessonData(lab, lesson, records, chosen[0] if chosen else None)


def drawn(data: RecordedData, name: str, *, wide: bool = False) -> str:
    """Return a figure of an act by its name, as HTML; '' if it cannot be drawn. wide: for a slide, without links to files."""
    draw: Callable[[], str] = {
        COUNT: lambda: count_table(data).html,
        LADDER: lambda: _ladder(data, wide),
        ROOFLINE: lambda: _figure(report.roofline_chart(data.on().alone()), data.lab, wide),
        ANSWER: lambda: answer(data, linked=not wide),
    }[name]
    try:
        return draw()
    except UsageError:
        return ""


def _ladder(data: RecordedData, wide: bool) -> str:
    case = data.on().alone()
    if wide:  # the caption has it in words; its points lead nowhere
        html = re.sub(r'(<a class="[^"]*")[^>]*>', r"\1>", str(report.opening(case).html))
        return re.sub(r"<ol\b[^>]*>", '<ol aria-hidden="true">', html)
    return _figure(report.descent(case, title=f"The ladder on {case.case}, {data.store_device}"), data.lab, wide)


def _figure(figure: Figure, lab: Lab, wide: bool) -> str:
    if wide:  # its points lead nowhere
        html = replace(figure, records=(), notes=(), more=None).html
        return re.sub(r"<(/?)a\b[^>]*>", r"<\1g>", html)
    return _linked_steps(figure.html, lab)


def _linked_steps(html: str, lab: Lab) -> str:
    """Return HTML of a figure whose points lead to the steps on the lab's story."""
    return html.replace(f'href="{STEP_LINK}', f'href="../{lab.name}.html{STEP_LINK}')


def count_table(data: LabData) -> Table:
    """Return the operations and bytes of the main case beside the measured peaks, and the least time by each of them.

    They are those of the program that the lesson counts, otherwise the least of the problem.

    The peaks of arithmetic are that of the type of most steps, and the highest of the other types in the ladder.

    Errors: UsageError without measured peaks.
    """
    lab, case, peaks = data.lab, data.case(), data.peaks
    if peaks is None:
        raise UsageError("a peak of this device has no verified time; `roofbook run peaks` measures it")
    described = lesson(lab)
    work = described.work(case) if described and described.work else lab.work(case)
    main = lab.variant(lab.best).dtype
    dtypes = {variant.dtype for variant in lab.ladder} & peaks.flops.keys()
    fastest = sorted(dtypes - {main}, key=lambda dtype: (-peaks.flops[dtype], dtype))[:1]
    flops = {dtype: peaks.flops[dtype] for dtype in (main, *fastest) if dtype in peaks.flops}
    bandwidth, operation = peaks.bandwidth_for(work.footprint), work_unit(main)
    lines = [
        ("Operations, at least", show.quantity(work.flops, operation)),
        ("Bytes, at least", show.quantity(work.bytes, "B")),
        ("Operations for each byte", show.number(work.flops / work.bytes)),
        ("Measured memory bandwidth at this size", show.quantity(bandwidth, "B/s")),
        *((f"Measured peak in {dtype}", show.quantity(rate, f"{work_unit(dtype)}/s")) for dtype, rate in flops.items()),
        *((f"Ridge point in {dtype}", show.number(rate / bandwidth)) for dtype, rate in flops.items()),
        ("Least time by memory", show.duration(work.bytes / bandwidth)),
        *((f"Least time by {dtype}", show.duration(work.flops / rate)) for dtype, rate in flops.items()),
    ]
    rows = [Row([Cell(name), Cell(text, "num")]) for name, text in lines]
    caption = f"The count for one {lab.unit} on {case.name}"
    return Table(caption, [Cell("Quantity"), Cell("Value", "num")], rows)


def answer(data: RecordedData, *, linked: bool) -> str:
    """Return the answer to the lab's question as HTML. linked: whether its numbers lead to the cards of their measurements."""
    from markdown_it import MarkdownIt

    def mark(text: str, measurement: str) -> str:
        card = card_of(data.lab.name, data.store_device.id, data.scale, measurement)
        return number_of(text, card) if linked else text

    measured = Measured(data, mark)
    text = finding_of_measured(publication(data.lab).finding(measured), measured)
    rendered: str = MarkdownIt().render(text)
    return f'<div class="lesson-answer">{rendered}</div>' if rendered else ""


class StepEffect(NamedTuple):
    """Effect of a step over its parent on a case of a device."""

    data: RecordedData
    case: str
    parent: Reading
    reading: Reading
    ratio: Speedup


def effects_of(records: Sequence[RecordedData], step: Variant, first: RecordedData | None) -> list[StepEffect]:
    """Return the effects of a step wherever both it and its parent have a time.

    These are all cases of the device `first`, the main one before the others, then the main case of each other device.
    """
    effects = []
    for data in sorted(records, key=lambda record: record is not first):
        main = data.case().name
        further_cases = [case.name for case in data.cases if case.name != main] if data is first else []
        for case in (main, *further_cases):
            readings = data.on(case).readings
            parent, reading = readings.get(step.parent or ""), readings.get(step.name)
            ratio = faster(parent, reading) if parent and reading else None
            if parent and reading and ratio:
                effects.append(StepEffect(data, case, parent, reading, ratio))
    return effects


def change(lesson: LessonData, step: Variant) -> str:
    """Return a step's change in a sentence, and its changed lines, as HTML."""
    parent = lesson.lab.variant(step.parent or "")
    intro = f"<p><code>{escape(step.name)}</code> over <code>{escape(parent.name)}</code>: {with_code(step.change)}</p>"
    excerpt = change_of_step(lesson.data, step, parent)[1] if lesson.data else None
    return intro + (excerpt_html(excerpt) if excerpt and excerpt.lines else "")


def effect(effects: Sequence[StepEffect], *, linked: bool) -> str:
    """Return two bars for the first effect, and a line with the ratio for each, as HTML; '' without effects."""
    if not effects:
        return ""
    first = effects[0]
    return (
        f'<div class="verdict {first.ratio.word}">{step_bars(first.reading, first.parent)}</div><ul class="effect">'
        f"{''.join(effect_line(effect_on, linked=linked) for effect_on in effects)}</ul>"
    )


def effect_line(effect_on: StepEffect, *, linked: bool) -> str:
    """Return '1.52 times as fast [1.50, 1.54], 18.0 us to 11.8 us, on a device' as an item of a list."""
    data, case, parent, reading, ratio = effect_on
    words, ends = effect_text(ratio)
    times = [show.duration(variant.median) for variant in (parent, reading)]
    if linked:
        cards = [card_of(data.lab.name, data.store_device.id, data.scale, variant.id) for variant in (parent, reading)]
        times = [number_of(text, card) for text, card in zip(times, cards, strict=True)]
    return (
        f'<li class="verdict {ratio.word}"><strong>{words[:1].upper()}{words[1:]}</strong> {escape(ends)}, '
        f'{times[0]} \u2192 {times[1]} <span class="on-case">on {escape(case)}, {escape(str(data.store_device))}</span>'
        f"{medians_note(ratio, parent, reading)}</li>"
    )


def code(text: str) -> str:
    """Return the shortened program of an act as highlighted C."""
    return html_source(f"{text}\n", "c")
