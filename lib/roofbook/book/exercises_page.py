"""Exercises of a lab as HTML, with data from the store and the kernels. Everything can be read without a script.

book/_assets/exercises.js compares a reader's answers with data in the page.
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ..analysis import format as show
from ..analysis.readings import Reading, Speedup, faster
from ..analysis.recorded import RecordedData, recorded
from ..analysis.sentences import ratio_words
from ..escaping import escape, file_name
from ..escaping import page_json as _json
from ..measure.stats import EQUAL
from ..report.html import Cell, Html, Row, Table, html_source, with_code
from ..spec.exercise import Predict, Turn, Write, exercises, holed, missing_lines
from ..spec.lab import Lab
from ..spec.plan import Variant
from ..store.parquet import Store
from .run_buttons import HOLED, buttons_of

PARTS = ("predict", "turn", "write")
RANGES = (0, 1 / EQUAL, EQUAL, 1.5, 3, 8, math.inf)
"""Bounds of the ranges that a reader picks from."""
NO_RUNS: Mapping[str, Any] = MappingProxyType({})
"""Index of a lab that does not run in a browser."""
LONG_KERNEL = 60
"""Number of lines from which on a kernel with a hole is folded."""
SCRIPT = '<script src="../_static/exercises.js" defer></script>\n'


def parts(lab: Lab, store: Store, index: Mapping[str, Any] = NO_RUNS) -> tuple[str, str, str]:
    """Return the three sections of a lab's page, in the order of PARTS; '' for a section without recorded data.

    index: the steps and kernels to write that run in a browser, as `run_index` returns them.
    """
    records, lab_exercises = recorded(lab, store), exercises(lab)
    predict = "".join(
        _predict(exercise, lab, records, number, index) for number, exercise in enumerate(lab_exercises.predict)
    )
    turn = "".join(_turn(exercise, lab, records, number) for number, exercise in enumerate(lab_exercises.turn))
    write = "".join(_write(exercise, lab, index) for exercise in lab_exercises.write)
    buttons = buttons_of(index, lab.name, "../")
    predict, turn = predict + SCRIPT * bool(predict), turn + SCRIPT * bool(turn and not predict)
    return predict + buttons * bool(predict), turn, write + buttons * bool(write and not predict)


# -- predict -----------------------------------------------------------------------------------------------------------


def ranges() -> list[tuple[float, float, str]]:
    """Return (lower bound, upper bound, words) of the ranges that a reader picks from.

    >>> [words for _, _, words in ranges()][:3]
    ['slower', 'as fast, within 5 %', 'up to 1.5 times']
    """
    within = f"as fast, within {show.number(100 * (EQUAL - 1), digits=1)} %"
    in_words = []
    for low, high in itertools.pairwise(RANGES):
        words = f"{low:g} to {high:g} times"
        words = "slower" if not low else within if low < 1 else f"up to {high:g} times" if low == EQUAL else words
        in_words.append((low, high, f"more than {low:g} times" if math.isinf(high) else words))
    return in_words


def _predict(
    exercise: Predict, lab: Lab, records: Sequence[RecordedData], number: int, index: Mapping[str, Any]
) -> str:
    comparisons = [(data, case, ratio) for data in records for case, ratio in _ratio(exercise, data)]
    if not comparisons:
        return ""
    comparisons.sort(key=lambda comparison: (comparison[0].store_device.kind != "gpu", -comparison[2].runs))
    data, case, ratio = comparisons[0]
    step, against = lab.variant(exercise.step), lab.variant(exercise.against)
    name = f"predict-{number}"
    radios = "".join(
        f'<label><input type="radio" name="{name}" data-from="{low:.4g}" data-to="{"" if math.isinf(high) else f"{high:.4g}"}">'
        f" {escape(words)}</label>\n"
        for low, high, words in ranges()
    )
    where_first = f"{data.store_device}, {case}"
    devices = [
        {
            "place": str(record.store_device),
            "there": f"{record.store_device}, {case_name}",
            "estimate": record_ratio.estimate,
            "low": record_ratio.low,
            "high": record_ratio.high,
            "said": show.factor(record_ratio.estimate, record_ratio.low, record_ratio.high),
            "measured": _measured(exercise, record_ratio),
        }
        for record, case_name, record_ratio in comparisons
    ]
    heads = [
        Cell("Device"),
        Cell("Case"),
        *(Cell(head, "num") for head in (exercise.against, exercise.step, "Times as fast")),
    ]
    table = Table(
        f"How many times as fast as {exercise.against} is {exercise.step}?",
        [*heads, Cell("Runs")],
        [_compared(exercise, *comparison) for comparison in comparisons],
    )  # fmt: skip
    return (
        f'<section class="exercise" data-estimate="{ratio.estimate:.6g}" data-low="{ratio.low:.6g}" '
        f'data-high="{ratio.high:.6g}" data-said="{escape(show.factor(ratio.estimate, ratio.low, ratio.high))}">\n'
        f'<script type="application/json" class="exercise-data">{_json(devices)}</script>\n'
        f"{_steps(lab, against, step)}"
        f'<fieldset><legend>On <span class="exercise-there">{escape(where_first)}</span>: how many times as fast as '
        f"<code>{escape(exercise.against)}</code> is "
        f"<code>{escape(exercise.step)}</code>?</legend>\n{radios}</fieldset>\n"
        '<p class="exercise-said" role="status"></p>\n'
        f'<details><summary>The measurement</summary>\n<p><span class="exercise-there">{escape(where_first)}</span>: '
        f'<span class="exercise-measured">{_measured(exercise, ratio)}</span> {escape(exercise.explanation)}</p>\n'
        f"{table.html}</details>\n{_run_both(exercise, index)}</section>\n"
    )


def _run_both(exercise: Predict, index: Mapping[str, Any]) -> str:
    """Return the place of a button that measures both steps in the browser; '' if one of them does not run there."""
    if not {exercise.step, exercise.against} <= {*index.get("steps", ())}:
        return ""
    return f'<div class="run-here" data-kernel="{escape(exercise.step)}" data-against="{escape(exercise.against)}"></div>\n'


def _measured(exercise: Predict, ratio: Speedup) -> str:
    """Return a sentence such as '`fused` is 2.50 times as fast as `soa`, in 6 runs.'"""
    code = "<code>{}</code>".format
    step, against = code(escape(exercise.step)), code(escape(exercise.against))
    return f"{step} is <strong>{ratio_words(ratio)}</strong> {against}, {escape(_runs(ratio))}."


def _steps(lab: Lab, *steps: Variant) -> str:
    """Return the changes of two steps; their names link to the lab's page."""
    page = f"../labs/{lab.name}.html"
    items = "".join(
        f'<dt><a href="{page}"><code>{escape(variant.name)}</code></a></dt><dd>{with_code(variant.change)}</dd>'
        for variant in steps
    )
    return f'<dl class="exercise-steps">{items}</dl>\n'


def _ratio(exercise: Predict, data: RecordedData) -> Iterator[tuple[str, Speedup]]:
    """Yield (case, ratio) if both steps have a verified time on the case."""
    case = data.case().name if exercise.case is None else exercise.case
    if case not in {known_case.name for known_case in data.cases}:
        return
    read = data.on(case).readings
    if exercise.step in read and (ratio := faster(read.get(exercise.against), read[exercise.step])):
        yield case, ratio


def _compared(exercise: Predict, data: RecordedData, case: str, ratio: Speedup) -> Row:
    read = data.on(case).readings
    times = [Cell(show.duration(read[name].median), "num") for name in (exercise.against, exercise.step)]
    factor = Cell(show.factor(ratio.estimate, ratio.low, ratio.high), "num", small=ratio.word if ratio.same else "")
    return Row([Cell(str(data.store_device)), Cell(case), *times, factor, Cell(_runs(ratio))])


def _runs(ratio: Speedup) -> str:
    """Return 'in 3 runs', or the ratio's own words if there are few, and further differences between the two."""
    return (
        ratio.how
        if "run" in ratio.how or not ratio.runs
        else ", ".join(filter(None, [f"in {ratio.runs} runs", ratio.how]))
    )


# -- turn a knob -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Swept:
    """A stored sweep on a device, with the readings of its points."""

    data: RecordedData
    case: str
    readings: Mapping[str, Reading]
    """Readings by the variant's name."""

    def verified(self, points: Sequence[Variant]) -> list[tuple[str, Reading]]:
        """Return (point, reading) for the points with a verified time."""
        return [(str(point.point), self.readings[point.name]) for point in points if self.time(point) is not None]

    def time(self, point: Variant) -> float | None:
        """Return seconds per unit; None without a verified time."""
        return (
            self.readings[point.name].median if point.name in self.readings and self.readings[point.name].ok else None
        )

    def text(self, point: Variant) -> str:
        """Return the time with its interval as in a table, or the reason why there is none."""
        if point.name not in self.readings:
            return self.data.skip_reason(point, self.data.case(self.case)) or "not measured"
        reading = self.readings[point.name]
        if not reading.ok:
            return reading.reason
        name, size = show.time_unit([reading.median])
        return f"{show.interval(reading.median / size, reading.low / size, reading.high / size)}{show.THIN}{name}"


def _turn(exercise: Turn, lab: Lab, records: Sequence[RecordedData], number: int) -> str:
    sweep = next(candidate for candidate in lab.sweeps if candidate.axis == exercise.axis)
    chosen = [point for point in sweep.variants if re.fullmatch(exercise.at or ".*", str(point.point))]
    columns = [column for data in records if (column := _swept(exercise, data, chosen))]
    if not columns:
        return ""
    points = [point for point in chosen if any(point.name in column.readings for column in columns)]
    heads = [Cell(str(column.data.store_device), "num", small=column.case) for column in columns]
    rows = [
        Row([Cell(str(point.point)), *(Cell(column.text(point), "num") for column in columns)]) for point in points
    ]  # fmt: skip
    table = Table(f"Time per {lab.unit} by {exercise.axis}", [Cell(exercise.axis), *heads], rows)
    devices = [
        {
            "name": f"{column.data.store_device}, {column.case}",
            "times": [column.time(point) for point in points],
            "texts": [show.duration(column.time(point) or math.nan) for point in points],
        }
        for column in columns
    ]
    data = _json({"points": [str(point.point) for point in points], "places": devices})
    answers = "".join(f"<li>{_best(column, points)}</li>\n" for column in columns)
    base, ident = lab.variant(str(points[0].parent)), f"turn-{number}"
    return (
        f'<section class="exercise">\n<p>{escape(exercise.task)} The knob is turned in <code>{escape(base.name)}</code>: '
        f"{with_code(base.change)}</p>\n"
        f'<script type="application/json" class="exercise-data">{data}</script>\n'
        f'<div class="exercise-knob" hidden><label for="{ident}">{escape(exercise.axis)}</label>\n'
        f'<input type="range" id="{ident}" min="0" max="{len(points) - 1}" value="0" step="1">\n'
        f'<output for="{ident}"></output>\n<div class="exercise-bars"></div></div>\n'
        f'<details open class="exercise-table"><summary>All points as a table</summary>\n{table.html}</details>\n'
        f"<details><summary>The fastest point, and why</summary>\n<ul>{answers}</ul>\n"
        f"<p>{escape(exercise.explanation)}</p></details>\n"
        "</section>\n"
    )


def _swept(exercise: Turn, data: RecordedData, points: Sequence[Variant]) -> Swept | None:
    """Return the sweep on the exercise's case, by default the largest with at least two points; None if there is none."""
    cases = sorted(data.cases, key=lambda case: data.lab.work(case).footprint, reverse=True)
    for case in (known_case.name for known_case in cases if exercise.case in (None, known_case.name)):
        read = data.on(case).readings
        column = Swept(data, case, {point.name: read[point.name] for point in points if point.name in read})
        if len(column.verified(points)) > 1:
            return column
    return None


def _best(column: Swept, points: Sequence[Variant]) -> str:
    """Return a sentence on the fastest point of a device, and how many times as long the slowest takes."""
    good = sorted(column.verified(points), key=lambda point_reading: point_reading[1].median)
    (point, best), (slowest, worst) = good[0], good[-1]
    ratio = faster(worst, best)
    assert ratio is not None
    device = f"{escape(str(column.data.store_device))}, {escape(column.case)}"
    best_is = f"<code>{escape(point)}</code>, {show.duration(best.median)}"
    slow = f"<code>{escape(slowest)}</code>, {show.duration(worst.median)}"
    comparison = f"{ratio_words(ratio)} that of {slow}, {escape(_runs(ratio))}"
    return f"{device}: the shortest median is that of {best_is}; it is {comparison}."


# -- write -------------------------------------------------------------------------------------------------------------


def _write(exercise: Write, lab: Lab, index: Mapping[str, Any]) -> str:
    command = f"roofbook exercise {lab.name} {exercise.name}"
    shell = f"{command} > my.k\n{command} --check my.k\n"
    step = lab.variant(exercise.step)
    text = holed(lab, exercise)
    kernel = html_source(text, "opencl")
    if text.count("\n") > LONG_KERNEL:
        summary = "<summary>The kernel with the hole</summary>"
        kernel = Html(f'<details class="exercise-kernel">{summary}\n{kernel}</details>\n')
    return (
        f'<section class="exercise">\n<p>{escape(exercise.task)} The hole is in the kernel of '
        f"<code>{escape(exercise.step)}</code>.</p>\n"
        f"{html_source(shell, 'console')}{kernel}"
        f"<details><summary>The solution, which is <code>{escape(exercise.step)}</code> itself</summary>\n"
        f"<p>{with_code(step.change)} {with_code(step.expect)}</p>\n"
        f"{html_source(missing_lines(lab, exercise), 'opencl')}</details>\n"
        f"{_write_here(exercise, index)}</section>\n"
    )


def _write_here(exercise: Write, index: Mapping[str, Any]) -> str:
    """Return the place of a button that opens the kernel with the hole in the page's editor; '' if it has no such kernel."""
    if exercise.name not in index.get("holed", ()):
        return ""
    attributes = {"kernel": exercise.step, "holed": exercise.name, "script": f"{HOLED}{file_name(exercise.name)}"}
    data = "".join(f' data-{name}="{escape(text)}"' for name, text in attributes.items())
    return f'<div class="run-here"{data}></div>\n'
