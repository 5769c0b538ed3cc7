"""Published figures beside our measurements, each marked as one or the other."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..analysis import format as show
from ..analysis.published_figures import PublishedFigures
from ..analysis.readings import Reading, cases_of, faster, newest, text_field
from .html import ASIDE, Cell, Fold, Row, Table

if TYPE_CHECKING:
    import pandas as pd


def published(figures: PublishedFigures, rows: "pd.DataFrame", caption: str = "") -> Table:
    """Return a table of all published figures with their devices, and of our measurements of the same.

    Trials of one measurement share a row; ours is compared with their median. If a published time covers more units than we
    ran, ours is scaled up and marked as extrapolated. A page shows each of the report's tables as a part. rows: store rows of
    the lab.
    """
    import pandas as pd

    readings_by_case = {case: newest(rows, case) for case in cases_of(rows)}
    lines, records = list[Row](), list[dict[str, Any]]()
    tables: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for trials in _trials(figures.table):
        figure = sorted(trials, key=lambda trial: trial["value"])[len(trials) // 2]
        case = figures.cases.get(figure["case"], figure["case"])
        target = figures.ours(figure["variant"], figure["device"])
        name, reference = target if isinstance(target, tuple) else (target, None)
        readings = readings_by_case.get(case, {})
        reading = readings.get(name) if name else None
        key = figure["variant"], figure["case"], figure["metric"]
        cell, record = _our_cell(
            figure, reading, readings, reference, figures.units.get(case), figures.part(*key), figures.fact(*key)
        )
        if (measured_text := figures.measured.get(key)) is not None:
            cell, record = Cell(measured_text, "num"), {"ours": measured_text, "status": "ok"}
        elif lack := figures.lack(*key):
            cell, record = Cell(lack, "absent"), {"status": "missing"}
        elif reading is not None and record["status"] == "ok":
            cell = replace(cell, card_id=reading.id)
        if figure["case"] in figures.unsized:
            record = {**record, "published_over_ours": math.nan}
        our_device = _device(reading.row) if reading is not None and reading.ok and cell.css != "absent" else show.DASH
        trial = f", {len(trials)} trials" if len(trials) > 1 else ""
        value = ", ".join(f"{trial['value']:.10g}" for trial in trials) + f"{show.THIN}{figure['unit']}".rstrip()
        tables.setdefault(figure["table"], []).append((len(lines), record))
        lines.append(
            Row(
                [
                    Cell(
                        figure["variant"],
                        small=f"(table {figure['table']})" if figure["table"].isdigit() else f"({figure['table']})",
                    ),
                    Cell(figure["case"]),
                    Cell(figure["metric"] + trial),
                    Cell(value, "num published"),
                    cell,
                    _ratio_cell(record),
                    Cell(figure["device"], "published"),
                    Cell(our_device),
                ]
            )
        )
        records += [
            {key: trial[key] for key in ("table", "variant", "case", "metric", "unit", "trial", "value")}
            | {"published_device": figure["device"], "our_variant": name, "our_device": our_device}
            | record
            for trial in trials
        ]
    columns = [
        Cell("Variant"),
        Cell("Case"),
        Cell("Figure"),
        Cell("Published", "num published"),
        Cell("Measured here", "num"),
        Cell("Published / measured", "num"),
        Cell("Published on", f"published {ASIDE}"),
        Cell("Measured on", ASIDE),
    ]
    notes = [
        "Columns marked published were not measured here.",
        "The devices differ: published / measured compares whole systems, not the code alone.",
    ]
    if any(trials["case"] in figures.unsized for trials in figures.table.to_dict("records")):
        notes.append(
            "Where the report states no size, there is no published / measured: ours may be a larger or a smaller one."
        )
    if any(record.get("extrapolated") for record in records):
        notes.append(
            "'extrapolated': fewer units were run than were published; the measured time per unit is scaled up."
        )
    order = (
        "table",
        "variant",
        "case",
        "metric",
        "trial",
        "unit",
        "value",
        "published_device",
        "our_variant",
        "our_device",
        "ours",
        "ours_low",
        "ours_high",
        "published_over_ours",
        "extrapolated",
        "status",
    )
    return Table(
        caption or "Published figures beside measured ones",
        columns,
        lines,
        pd.DataFrame(records, columns=list(order)),
        notes,
        "published-beside-ours",
        dict.fromkeys(("ours", "ours_low", "ours_high"), "s where a time, else the unit of the value"),
        _folds(tables),
    )


def _folds(tables: Mapping[str, Sequence[tuple[int, Mapping[str, Any]]]]) -> list[Fold]:
    """Return a collapsible part for each of the report's tables; none if there is only one.

    tables: name -> rows, each with its number and record.
    """
    if len(tables) == 1:
        return []
    folds = []
    for table, lines in tables.items():
        name = f"Table {table}" if table[:1].isdigit() else table.capitalize()
        figures, ok = len(lines), sum(record["status"] == "ok" for _, record in lines)
        ratios = [ratio for _, record in lines if not math.isnan(ratio := record.get("published_over_ours", math.nan))]
        summary = (
            f"{name}: {figures} figure{'s' * (figures > 1)}, {'all' if ok == figures else ok or 'none'} measured here"
        )
        ends = [show.number(end) for end in (min(ratios), max(ratios))] if ratios else []
        summary += f", published / measured {' to '.join(dict.fromkeys(ends))}" if ends else ""
        folds.append(Fold(name, summary, [number for number, _ in lines]))
    return folds


def _trials(table: "pd.DataFrame") -> list[list[dict[str, Any]]]:
    """Return the figures in order, in groups of the trials of one measurement."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for figure in table.to_dict("records"):
        key = tuple(str(figure[key]) for key in ("table", "variant", "case", "device", "metric", "unit"))
        groups.setdefault(key if figure["trial"] else (*key, str(len(groups))), []).append(figure)
    return list(groups.values())


def _our_cell(
    figure: Mapping[str, Any],
    reading: Reading | None,
    readings: Mapping[str, Reading],
    reference: str | None,
    units: int | None,
    part: str | tuple[str, ...] | None,
    fact: str | None,
) -> tuple[Cell, dict[str, Any]]:
    """Return our cell for a published time, rate, speedup or number, and its fields in the frame."""
    missing: dict[str, Any] = {"status": "missing"}
    if reading is None:
        return Cell("not measured", "absent"), missing
    if not reading.ok:
        return Cell(f"failed: {reading.reason}", "failed"), {"status": "failed"}
    if fact is not None:
        return _fact_cell(figure, reading, fact)
    names = (part,) if isinstance(part, str) else part or ()
    for name in names:
        if name not in reading.parts:
            return Cell("not measured", "absent", small=f"({reading.variant} has no part {name!r})"), missing
    if figure["metric"] == "speedup":
        ratio = faster(readings.get(reference or reading.parent or ""), reading)
        if ratio is None:
            return Cell("not measured", "absent"), missing
        text = show.factor(ratio.estimate, ratio.low, ratio.high)
        text = f"{ratio.word} {text[text.find('[') :]}" if ratio.same else f"{text}{show.THIN}x"
        return (
            Cell(text, "num same" if ratio.same else "num", small=f"({ratio.how})" if ratio.how else ""),
            {"status": "ok", "ours": ratio.estimate, "ours_low": ratio.low, "ours_high": ratio.high},
        )
    if figure["metric"] == "rate":
        unit = figure["unit"]
        if reading.facts.get("rate_unit") != unit:
            return Cell("not measured", "absent"), missing
        rates = [reading.facts["rate_amount"] / time for time in (reading.median, reading.high, reading.low)]
        return (
            Cell(f"{show.interval(*rates)}{show.THIN}{unit}", "num", small=reading.few),
            {"status": "ok", "ours": rates[0], "ours_low": rates[1], "ours_high": rates[2]},
        )
    if math.isnan(figure["seconds"]):
        return Cell("not measured", "absent"), missing
    covers = units or 1
    timed = reading.parts_together(names) if names else reading
    seconds, low, high = (covers * time for time in (timed.median, timed.low, timed.high))
    unit, size = show.time_unit([seconds])
    extrapolated = covers > reading.units
    small = (
        f"(extrapolated from {show.number(reading.units, places=0)} x {reading.row['unit']})" if extrapolated else ""
    )
    text = f"{show.interval(seconds / size, low / size, high / size)}{show.THIN}{unit}"
    return (
        Cell(text, "num extrapolated" if extrapolated else "num", small=" ".join(filter(None, [small, reading.few]))),
        {
            "status": "ok",
            "ours": seconds,
            "ours_low": low,
            "ours_high": high,
            "extrapolated": extrapolated,
            "published_over_ours": figure["seconds"] / seconds if seconds else math.nan,
        },
    )


def _fact_cell(figure: Mapping[str, Any], reading: Reading, fact: str) -> tuple[Cell, dict[str, Any]]:
    """Return our cell for a published number that is compared with a fact of our run."""
    fact_value = reading.facts.get(fact)
    if isinstance(fact_value, bool) or not isinstance(fact_value, int | float) or not math.isfinite(fact_value):
        return Cell("not measured", "absent", small=f"({reading.variant} does not report {fact!r})"), {
            "status": "missing"
        }
    number = 100 * fact_value if figure["unit"] == "%" else fact_value
    text = show.number(number, 4) if isinstance(number, float) else show.number(number, places=0)
    return Cell(f"{text}{show.THIN}{figure['unit']}".rstrip(), "num"), {"status": "ok", "ours": number}


def _ratio_cell(record: Mapping[str, Any]) -> Cell:
    if math.isnan(record.get("published_over_ours", math.nan)):
        return Cell(show.DASH, "num")
    return Cell(show.number(record["published_over_ours"]), "num")


def _device(row: Mapping[str, Any]) -> str:
    return text_field(row, "device_name") or str(row["device"])
