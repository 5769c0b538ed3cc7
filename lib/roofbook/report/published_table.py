"""Published figures beside our measurements, each marked as one or the other."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ..analysis import format as show
from ..analysis.published_figures import PublishedFigures
from ..analysis.readings import Reading, Speedup, cases_of, faster, newest, text_field
from .columns import Column, table
from .html import ASIDE, Cell, Fold, Table

if TYPE_CHECKING:
    import pandas as pd


def published(figures: PublishedFigures, rows: "pd.DataFrame") -> Table:
    """Return a table of all published figures with their devices, and of our measurements of the same.

    Trials of one measurement share a row; ours is compared with their median. If a published time covers more units than we
    ran, ours is scaled up and marked as extrapolated. A page shows each of the report's tables as a part. rows: store rows of
    the lab.
    """
    lines = _lines(figures, rows)
    return replace(_table(figures, lines, "Published figures beside measured ones"), parts=_folds(lines))


class Unlike(NamedTuple):
    """Published times that ours are slower than, or differ from more than twofold."""

    table: Table
    """Slower ones first, then those that differ most; at most MOST_LISTED."""
    slower: int
    faster: int
    """Number of times that are more than twice as fast as published."""
    ratio_count: int
    """Number of published times with a ratio."""


def unlike_published(figures: PublishedFigures, rows: "pd.DataFrame") -> Unlike:
    """Return the lines of `published` whose times are unlike ours, each with the reason."""
    lines = [line for line in _lines(figures, rows) if not math.isnan(line.ours.published_over_ours)]
    unlike = sorted((line for line in lines if line.is_unlike()), key=_published_over_ours)
    slower = [line for line in unlike if line.ours.published_over_ours < 1]
    others = [line for line in reversed(unlike) if line.ours.published_over_ours > 1]
    listed = [*slower, *others][:MOST_LISTED]
    caption = "Times that are slower than published, or differ more than twofold"
    return Unlike(_table(figures, listed, caption), len(slower), len(others), len(lines))


def _published_over_ours(line: "_Line") -> float:
    return line.ours.published_over_ours


def _lines(figures: PublishedFigures, rows: "pd.DataFrame") -> "list[_Line]":
    readings_by_case = {case: newest(rows, case) for case in cases_of(rows)}
    return [_line(trials, figures, readings_by_case) for trials in _trials(figures.table)]


def _table(figures: PublishedFigures, lines: "Sequence[_Line]", caption: str) -> Table:
    columns: list[Column[_Line]] = [
        Column("Variant", _Line.variant_cell),
        Column("Case", lambda line: line.figure["case"]),
        Column("Figure", _Line.metric),
        Column("Published", _Line.value, "num published"),
        Column("Measured here", lambda line: line.ours.cell, "num"),
        Column("Published / measured", _Line.ratio_cell, "num"),
        Column(Cell("Published on", f"published {ASIDE}"), lambda line: Cell(line.figure["device"], "published")),
        Column(Cell("Measured on", ASIDE), lambda line: Cell(line.our_device)),
    ]
    notes = [
        "Columns marked published were not measured here.",
        "The devices differ: published / measured compares whole systems, not the code alone.",
    ]
    if any(trials["case"] in figures.unsized for trials in figures.table.to_dict("records")):
        notes.append(
            "Where the report states no size, there is no published / measured: ours may be a larger or a smaller one."
        )
    if any(line.ours.extrapolated for line in lines):
        notes.append(
            "'extrapolated': fewer units were run than were published; the measured time per unit is scaled up."
        )
    units = dict.fromkeys(("ours", "ours_low", "ours_high"), "s where a time, else the unit of the value")
    records = [record for line in lines for record in line.records()]
    return table(caption, columns, lines, notes, "published-beside-ours", records=records, units=units)


MOST_ALIKE = 2.0
"""Largest ratio of a published time to ours that the table leaves without a reason."""
MOST_LISTED = 40
"""Largest number of unlike times that a list has."""
NOTICED = 1.1
"""Least ratio of a time from Python to the one from C that counts as a cost of Python's launches."""


@dataclass(frozen=True)
class _Ours:
    """Our cell for a published figure, and its fields in the frame."""

    cell: Cell
    status: str = "missing"
    ours: float | str = math.nan
    ours_low: float = math.nan
    ours_high: float = math.nan
    published_over_ours: float = math.nan
    extrapolated: bool | None = None


@dataclass(frozen=True)
class _Line:
    """A line of the table: the trials of a published figure, its middle one, and ours."""

    trials: Sequence[Mapping[str, Any]]
    figure: Mapping[str, Any]
    ours: _Ours
    our_variant: str | None
    our_device: str
    in_c: float = math.nan
    """Seconds of the same from a host program in C, for as many units as were published; NaN if it was not measured."""

    def is_unlike(self) -> bool:
        """Return whether our time is slower than the published one, or differs more than twofold."""
        ratio = self.ours.published_over_ours
        return not math.isnan(ratio) and not 1 <= ratio <= MOST_ALIKE

    def ratio_cell(self) -> Cell:
        """Return published over measured, with the reason where `is_unlike`."""
        ratio = self.ours.published_over_ours
        if not self.is_unlike():
            return Cell(show.number(ratio), "num")
        device = self.figure["device"]
        there = f"theirs is of a {device}" if device else "the report names no device"
        seconds, reasons = self.figure["seconds"], [there]
        if not math.isnan(self.in_c):
            factor = show.number(seconds / self.in_c)
            reasons.insert(0, f"from a loop in C, as in the report, {show.duration(self.in_c)}, that is {factor}")
            python = float(self.ours.ours) / self.in_c
            if python > NOTICED and ratio < 1:
                reasons.insert(0, "our launches come from Python")
        if ratio < 1 and len(reasons) == 1:
            reasons.append("we do not know why ours is slower; a profile of both would tell")
        return Cell(show.number(ratio), "num differs", small=f"({'; '.join(reasons)})")

    def variant_cell(self) -> Cell:
        name = self.figure["table"]
        return Cell(self.figure["variant"], small=f"(table {name})" if name.isdigit() else f"({name})")

    def metric(self) -> str:
        return f"{self.figure['metric']}{f', {len(self.trials)} trials' * (len(self.trials) > 1)}"

    def value(self) -> str:
        values = ", ".join(f"{trial['value']:.10g}" for trial in self.trials)
        return values + f"{show.THIN}{self.figure['unit']}".rstrip()

    def records(self) -> list[dict[str, Any]]:
        """Return the lines of the frame, one for each trial."""
        names_of_ours = ("ours", "ours_low", "ours_high", "published_over_ours", "extrapolated", "status")
        ours = {name: getattr(self.ours, name) for name in names_of_ours}
        own = {
            "published_device": self.figure["device"],
            "our_variant": self.our_variant,
            "our_device": self.our_device,
        }
        names = ("table", "variant", "case", "metric", "trial", "unit", "value")
        return [{name: trial[name] for name in names} | own | ours for trial in self.trials]


def _line(
    trials: Sequence[Mapping[str, Any]],
    figures: PublishedFigures,
    readings_by_case: Mapping[str, Mapping[str, Reading]],
) -> _Line:
    figure = sorted(trials, key=lambda trial: trial["value"])[len(trials) // 2]
    case = figures.cases.get(figure["case"], figure["case"])
    target = figures.ours(figure["variant"], figure["device"])
    readings = readings_by_case.get(case, {})
    names = target if isinstance(target, tuple) else (target, None)
    name, reference = (figures.stand_ins.get(n, n) if n and n not in readings else n for n in names)
    reading = readings.get(name) if name else None
    key = figure["variant"], figure["case"], figure["metric"]
    ours = _ours(figure, reading, readings, reference, figures.units.get(case), figures.part(*key), figures.fact(*key))
    lack = figures.lack(*key)
    if (measured_text := figures.measured.get(key)) is not None:
        ours = _Ours(Cell(measured_text, "num"), "ok", measured_text)
    elif lack and ours.status != "ok":
        ours = _Ours(Cell(lack, "absent"))
    elif reading is not None and ours.status == "ok":
        small = ", ".join(filter(None, (ours.cell.small, f"({name})" if name != names[0] else "")))
        ours = replace(ours, cell=replace(ours.cell, card_id=reading.id, small=small))
    if figure["case"] in figures.unsized:
        ours = replace(ours, published_over_ours=math.nan)
    is_measured = reading is not None and reading.ok and ours.cell.css != "absent"
    device = _device(reading.row) if reading and is_measured else show.DASH
    return _Line(trials, figure, ours, name, device, _seconds_in_c(name, readings, figures, case))


def _seconds_in_c(name: str | None, readings: Mapping[str, Reading], figures: PublishedFigures, case: str) -> float:
    reading = readings.get(figures.in_c(name) or "") if name else None
    return reading.median * figures.units.get(case, 1) if reading and reading.ok else math.nan


def _folds(lines: Sequence[_Line]) -> list[Fold]:
    """Return a collapsible part for each of the report's tables; none if there is only one."""
    numbers_by_table: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        numbers_by_table.setdefault(line.figure["table"], []).append(number)
    return [_fold(table, numbers, lines) for table, numbers in numbers_by_table.items()] * (len(numbers_by_table) > 1)


def _fold(table: str, numbers: Sequence[int], lines: Sequence[_Line]) -> Fold:
    name = f"Table {table}" if table[:1].isdigit() else table.capitalize()
    count, ok = len(numbers), sum(lines[number].ours.status == "ok" for number in numbers)
    summary = f"{name}: {count} figure{'s' * (count > 1)}, {'all' if ok == count else ok or 'none'} measured here"
    all_ratios = [lines[number].ours.published_over_ours for number in numbers]
    if ratios := [ratio for ratio in all_ratios if not math.isnan(ratio)]:
        ends = dict.fromkeys(show.number(end) for end in (min(ratios), max(ratios)))
        summary += f", published / measured {' to '.join(ends)}"
    return Fold(name, summary, numbers)


def _trials(table: "pd.DataFrame") -> list[list[dict[str, Any]]]:
    """Return the figures in order, in groups of the trials of one measurement."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for figure in table.to_dict("records"):
        key = tuple(str(figure[key]) for key in ("table", "variant", "case", "device", "metric", "unit"))
        groups.setdefault(key if figure["trial"] else (*key, str(len(groups))), []).append(figure)
    return list(groups.values())


NOT_MEASURED = _Ours(Cell("not measured", "absent"))


def _ours(
    figure: Mapping[str, Any],
    reading: Reading | None,
    readings: Mapping[str, Reading],
    reference: str | None,
    units: int | None,
    part: str | tuple[str, ...] | None,
    fact: str | None,
) -> _Ours:
    """Return ours for a published time, rate, speedup or number."""
    if reading is None:
        return NOT_MEASURED
    if not reading.ok:
        return _Ours(Cell(f"failed: {reading.reason}", "failed"), "failed")
    if fact is not None:
        return _our_fact(figure, reading, fact)
    names = (part,) if isinstance(part, str) else part or ()
    for name in names:
        if name not in reading.parts:
            return _Ours(replace(NOT_MEASURED.cell, small=f"({reading.variant} has no part {name!r})"))
    if figure["metric"] == "speedup":
        return _our_speedup(faster(readings.get(reference or reading.parent or ""), reading))
    if figure["metric"] == "rate":
        unit = figure["unit"]
        if reading.facts.get("rate_unit") != unit:
            return NOT_MEASURED
        rates = [reading.facts["rate_amount"] / time for time in (reading.median, reading.high, reading.low)]
        return _Ours(Cell(f"{show.interval(*rates)}{show.THIN}{unit}", "num", small=reading.few), "ok", *rates)
    if math.isnan(figure["seconds"]):
        return NOT_MEASURED
    return _our_time(figure["seconds"], reading, reading.parts_together(names) if names else reading, units or 1)


def _our_speedup(ratio: Speedup | None) -> _Ours:
    if ratio is None:
        return NOT_MEASURED
    text = show.factor(ratio.estimate, ratio.low, ratio.high)
    text = f"{ratio.word} {text[text.find('[') :]}" if ratio.same else f"{text}{show.THIN}x"
    cell = Cell(text, "num same" if ratio.same else "num", small=f"({ratio.how})" if ratio.how else "")
    return _Ours(cell, "ok", ratio.estimate, ratio.low, ratio.high)


def _our_time(published: float, reading: Reading, timed: Reading, units: int) -> _Ours:
    """Return our time for a published one. timed: the reading, or the sum of some of its parts. units: those published."""
    seconds, low, high = (units * time for time in (timed.median, timed.low, timed.high))
    unit, size = show.time_unit([seconds])
    extrapolated = units > reading.units
    scaled = f"(extrapolated from {show.number(reading.units, places=0)} x {reading.row['unit']})" * extrapolated
    text = f"{show.interval(seconds / size, low / size, high / size)}{show.THIN}{unit}"
    small = " ".join(filter(None, [scaled, reading.few]))
    cell = Cell(text, "num extrapolated" if extrapolated else "num", small=small)
    return _Ours(cell, "ok", seconds, low, high, published / seconds if seconds else math.nan, extrapolated)


def _our_fact(figure: Mapping[str, Any], reading: Reading, fact: str) -> _Ours:
    """Return ours for a published number that is compared with a fact of our run."""
    fact_value = reading.facts.get(fact)
    if isinstance(fact_value, bool) or not isinstance(fact_value, int | float) or not math.isfinite(fact_value):
        return _Ours(replace(NOT_MEASURED.cell, small=f"({reading.variant} does not report {fact!r})"))
    number = 100 * fact_value if figure["unit"] == "%" else fact_value
    text = show.number(number, 4) if isinstance(number, float) else show.number(number, places=0)
    return _Ours(Cell(f"{text}{show.THIN}{figure['unit']}".rstrip(), "num"), "ok", number)


def _device(row: Mapping[str, Any]) -> str:
    return text_field(row, "device_name") or str(row["device"])
