"""The exercises of a lab as HTML: what its page takes from the store and from the kernels. All is readable without a script.

What the reader picks and turns is compared by book/_assets/exercises.js with data that stands in the page.
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..analysis import format as show
from ..analysis.readings import Reading, Speedup, faster
from ..analysis.recorded import RecordedData, recorded
from ..analysis.sentences import ratio_words
from ..escaping import escape
from ..escaping import page_json as _json
from ..measure.stats import EQUAL
from ..report.html import Cell, Row, Table, html_source, with_code
from ..spec.exercise import Predict, Turn, Write, exercises, holed, missing_lines
from ..spec.lab import Lab, Variant
from ..store.parquet import Store

if TYPE_CHECKING:
    import pandas as pd

PARTS = ("predict", "turn", "write")
RANGES = (0, 1 / EQUAL, EQUAL, 1.5, 3, 8, math.inf)
"""Where the ranges begin and end that a reader picks from."""
SCRIPT = '<script src="../_static/exercises.js" defer></script>\n'


def parts(lab: Lab, store: Store) -> tuple[str, str, str]:
    """The three sections of the page of a lab, as PARTS names them; '' where nothing is recorded that they need."""
    found, own = recorded(lab, store), exercises(lab)
    predict = "".join(_predict(each, lab, found, at) for at, each in enumerate(own.predict))
    turn = "".join(_turn(each, lab, found, at) for at, each in enumerate(own.turn))
    return predict + SCRIPT * bool(predict), turn + SCRIPT * bool(turn and not predict), "".join(
        _write(each, lab) for each in own.write
    )  # fmt: skip


# -- predict -----------------------------------------------------------------------------------------------------------


def ranges() -> list[tuple[float, float, str]]:
    """(from, to, in words) of the ranges that a reader picks from.

    >>> [words for _, _, words in ranges()][:3]
    ['slower', 'as fast, within 5 %', 'up to 1.5 times']
    """
    within = f"as fast, within {show.number(100 * (EQUAL - 1), digits=1)} %"
    said = []
    for low, high in itertools.pairwise(RANGES):
        words = f"{low:g} to {high:g} times"
        words = "slower" if not low else within if low < 1 else f"up to {high:g} times" if low == EQUAL else words
        said.append((low, high, f"more than {low:g} times" if math.isinf(high) else words))
    return said


def _predict(it: Predict, lab: Lab, found: Sequence[RecordedData], number: int) -> str:
    compared = [(data, case, ratio) for data in found for case, ratio in _ratio(it, data)]
    if not compared:
        return ""
    compared.sort(key=lambda each: (each[0].store_device.kind != "gpu", -each[2].runs))
    data, case, ratio = compared[0]
    step, against = lab.variant(it.step), lab.variant(it.against)
    name = f"predict-{number}"
    radios = "".join(
        f'<label><input type="radio" name="{name}" data-from="{low:.4g}" data-to="{"" if math.isinf(high) else f"{high:.4g}"}">'
        f" {escape(words)}</label>\n"
        for low, high, words in ranges()
    )
    there = f"{data.store_device}, {case}"
    places = [
        {
            "place": str(each.store_device),
            "there": f"{each.store_device}, {on}",
            "estimate": of.estimate,
            "low": of.low,
            "high": of.high,
            "said": show.factor(of.estimate, of.low, of.high),
            "measured": _measured(it, of),
        }
        for each, on, of in compared
    ]
    heads = [Cell("Device"), Cell("Case"), *(Cell(head, "num") for head in (it.against, it.step, "Times as fast"))]
    table = Table(
        f"How many times as fast as {it.against} is {it.step}?",
        [*heads, Cell("Runs")],
        [_compared(it, *each) for each in compared],
        _frame(),
    )  # fmt: skip
    return (
        f'<section class="exercise" data-estimate="{ratio.estimate:.6g}" data-low="{ratio.low:.6g}" '
        f'data-high="{ratio.high:.6g}" data-said="{escape(show.factor(ratio.estimate, ratio.low, ratio.high))}">\n'
        f'<script type="application/json" class="exercise-data">{_json(places)}</script>\n'
        f"{_steps(lab, against, step)}"
        f'<fieldset><legend>On <span class="exercise-there">{escape(there)}</span>: how many times as fast as '
        f"<code>{escape(it.against)}</code> is "
        f"<code>{escape(it.step)}</code>?</legend>\n{radios}</fieldset>\n"
        '<p class="exercise-said" role="status"></p>\n'
        f'<details><summary>The measurement</summary>\n<p><span class="exercise-there">{escape(there)}</span>: '
        f'<span class="exercise-measured">{_measured(it, ratio)}</span> {escape(it.explanation)}</p>\n'
        f"{table.html}</details>\n</section>\n"
    )


def _measured(it: Predict, ratio: Speedup) -> str:
    """'`fused` is 2.50 times as fast as `soa`, in 6 runs.'"""
    named = "<code>{}</code>".format
    step, against = named(escape(it.step)), named(escape(it.against))
    return f"{step} is <strong>{ratio_words(ratio)}</strong> {against}, {escape(_runs(ratio))}."


def _steps(lab: Lab, *steps: Variant) -> str:
    """What the two are; their names lead to the lab's page."""
    page = f"../labs/{lab.name}.html"
    said = "".join(
        f'<dt><a href="{page}"><code>{escape(each.name)}</code></a></dt><dd>{with_code(each.change)}</dd>'
        for each in steps
    )
    return f'<dl class="exercise-steps">{said}</dl>\n'


def _ratio(it: Predict, data: RecordedData) -> Iterator[tuple[str, Speedup]]:
    """The case and the ratio, where both steps have a verified time there."""
    case = data.case().name if it.case is None else it.case
    if case not in {each.name for each in data.cases}:
        return
    read = data.on(case).readings
    if it.step in read and (ratio := faster(read.get(it.against), read[it.step])):
        yield case, ratio


def _compared(it: Predict, data: RecordedData, case: str, ratio: Speedup) -> Row:
    read = data.on(case).readings
    times = [Cell(show.duration(read[name].median), "num") for name in (it.against, it.step)]
    factor = Cell(show.factor(ratio.estimate, ratio.low, ratio.high), "num", small=ratio.word if ratio.same else "")
    return Row([Cell(str(data.store_device)), Cell(case), *times, factor, Cell(_runs(ratio))])


def _runs(ratio: Speedup) -> str:
    """'in 3 runs', or as the ratio says it of few, and in what else the two differ."""
    return (
        ratio.how
        if "run" in ratio.how or not ratio.runs
        else ", ".join(filter(None, [f"in {ratio.runs} runs", ratio.how]))
    )


# -- turn a knob -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Swept:
    """A stored sweep on a device: what was measured of its points."""

    data: RecordedData
    case: str
    read: Mapping[str, Reading]
    """By the variant's name."""

    def verified(self, points: Sequence[Variant]) -> list[tuple[str, Reading]]:
        """(point, its reading) of those that have a time."""
        return [(str(each.point), self.read[each.name]) for each in points if self.time(each) is not None]

    def time(self, point: Variant) -> float | None:
        """Seconds a unit; None without a verified time."""
        return self.read[point.name].median if point.name in self.read and self.read[point.name].ok else None

    def text(self, point: Variant) -> str:
        """The same with its interval as a table has it, or why there is none."""
        if point.name not in self.read:
            return self.data.skip_reason(point, self.data.case(self.case)) or "not measured"
        it = self.read[point.name]
        if not it.ok:
            return it.reason
        name, size = show.time_unit([it.median])
        return f"{show.interval(it.median / size, it.low / size, it.high / size)}{show.THIN}{name}"


def _turn(it: Turn, lab: Lab, found: Sequence[RecordedData], number: int) -> str:
    sweep = next(each for each in lab.sweeps if each.axis == it.axis)
    chosen = [each for each in sweep.variants if re.fullmatch(it.at or ".*", str(each.point))]
    columns = [column for data in found if (column := _swept(it, data, chosen))]
    if not columns:
        return ""
    points = [each for each in chosen if any(each.name in column.read for column in columns)]
    heads = [Cell(str(column.data.store_device), "num", small=column.case) for column in columns]
    rows = [
        Row([Cell(str(each.point)), *(Cell(column.text(each), "num") for column in columns)]) for each in points
    ]  # fmt: skip
    table = Table(f"Time per {lab.unit} by {it.axis}", [Cell(it.axis), *heads], rows, _frame())
    places = [
        {
            "name": f"{column.data.store_device}, {column.case}",
            "times": [column.time(each) for each in points],
            "texts": [show.duration(column.time(each) or math.nan) for each in points],
        }
        for column in columns
    ]
    data = _json({"points": [str(each.point) for each in points], "places": places})
    answers = "".join(f"<li>{_best(column, points)}</li>\n" for column in columns)
    base, ident = lab.variant(str(points[0].parent)), f"turn-{number}"
    return (
        f'<section class="exercise">\n<p>{escape(it.task)} The knob is turned in <code>{escape(base.name)}</code>: '
        f"{with_code(base.change)}</p>\n"
        f'<script type="application/json" class="exercise-data">{data}</script>\n'
        f'<div class="exercise-knob" hidden><label for="{ident}">{escape(it.axis)}</label>\n'
        f'<input type="range" id="{ident}" min="0" max="{len(points) - 1}" value="0" step="1">\n'
        f'<output for="{ident}"></output>\n<div class="exercise-bars"></div></div>\n'
        f'<details open class="exercise-table"><summary>All points as a table</summary>\n{table.html}</details>\n'
        f"<details><summary>The fastest point, and why</summary>\n<ul>{answers}</ul>\n"
        f"<p>{escape(it.explanation)}</p></details>\n"
        "</section>\n"
    )


def _swept(it: Turn, data: RecordedData, points: Sequence[Variant]) -> Swept | None:
    """The sweep on its case, by default the largest that has two points or more; None where there is none."""
    cases = sorted(data.cases, key=lambda case: data.lab.work(case).footprint, reverse=True)
    for case in (each.name for each in cases if it.case in (None, each.name)):
        read = data.on(case).readings
        column = Swept(data, case, {point.name: read[point.name] for point in points if point.name in read})
        if len(column.verified(points)) > 1:
            return column
    return None


def _best(column: Swept, points: Sequence[Variant]) -> str:
    """The fastest point of a device, and how many times as long the slowest takes."""
    good = sorted(column.verified(points), key=lambda each: each[1].median)
    (point, best), (other, worst) = good[0], good[-1]
    ratio = faster(worst, best)
    assert ratio is not None
    there = f"{escape(str(column.data.store_device))}, {escape(column.case)}"
    best_is = f"<code>{escape(point)}</code>, {show.duration(best.median)}"
    slow = f"<code>{escape(other)}</code>, {show.duration(worst.median)}"
    beside = f"{ratio_words(ratio)} that of {slow}, {escape(_runs(ratio))}"
    return f"{there}: the shortest median is that of {best_is}; it is {beside}."


# -- write -------------------------------------------------------------------------------------------------------------


def _write(it: Write, lab: Lab) -> str:
    command = f"roofbook exercise {lab.name} {it.name}"
    shell = f"{command} > my.k\n{command} --check my.k\n"
    step = lab.variant(it.step)
    return (
        f'<section class="exercise">\n<p>{escape(it.task)} The hole is in the kernel of <code>{escape(it.step)}</code>.</p>\n'
        f"{html_source(shell, 'console')}{html_source(holed(lab, it), 'opencl')}"
        f"<details><summary>The solution, which is <code>{escape(it.step)}</code> itself</summary>\n"
        f"<p>{with_code(step.change)} {with_code(step.expect)}</p>\n{html_source(missing_lines(lab, it), 'opencl')}</details>\n"
        "</section>\n"
    )


def _frame() -> "pd.DataFrame":
    """These tables have no export."""
    import pandas as pd

    return pd.DataFrame()
