"""Published figures beside what was measured, each marked for what it is."""

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
    """Every published figure with its device, and what was measured beside it where it is the same thing.

    Trials of one measurement share a row; ours is compared with their median. A published time that covers more units than
    were run is marked as extrapolated. A page has a part for each of the report's tables. rows: store rows of the lab.
    """
    import pandas as pd

    ours = {case: newest(rows, case) for case in cases_of(rows)}
    lines, records = list[Row](), list[dict[str, Any]]()
    tables: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for trials in _trials(figures.table):
        figure = sorted(trials, key=lambda each: each["value"])[len(trials) // 2]
        case = figures.cases.get(figure["case"], figure["case"])
        target = figures.ours(figure["variant"], figure["device"])
        name, over = target if isinstance(target, tuple) else (target, None)
        found = ours.get(case, {})
        reading = found.get(name) if name else None
        key = figure["variant"], figure["case"], figure["metric"]
        cell, record = _ours(
            figure, reading, found, over, figures.units.get(case), figures.part(*key), figures.fact(*key)
        )
        if (noted := figures.measured.get(key)) is not None:
            cell, record = Cell(noted, "num"), {"ours": noted, "status": "ok"}
        elif lack := figures.lack(*key):
            cell, record = Cell(lack, "absent"), {"status": "missing"}
        elif reading is not None and record["status"] == "ok":
            cell = replace(cell, of=reading.id)
        if figure["case"] in figures.unsized:
            record = {**record, "published_over_ours": math.nan}
        where = _device(reading.row) if reading is not None and reading.ok and cell.css != "absent" else show.DASH
        trial = f", {len(trials)} trials" if len(trials) > 1 else ""
        value = ", ".join(f"{each['value']:.10g}" for each in trials) + f"{show.THIN}{figure['unit']}".rstrip()
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
                    _times(record),
                    Cell(figure["device"], "published"),
                    Cell(where),
                ]
            )
        )
        records += [
            {key: each[key] for key in ("table", "variant", "case", "metric", "unit", "trial", "value")}
            | {"published_device": figure["device"], "our_variant": name, "our_device": where}
            | record
            for each in trials
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
        _parts(tables),
    )


def _parts(tables: Mapping[str, Sequence[tuple[int, Mapping[str, Any]]]]) -> list[Fold]:
    """One for each of the report's tables; none where there is only one. tables: by name the rows, each with its record."""
    if len(tables) == 1:
        return []
    found = []
    for table, lines in tables.items():
        name = f"Table {table}" if table[:1].isdigit() else table.capitalize()
        figures, ok = len(lines), sum(record["status"] == "ok" for _, record in lines)
        ratios = [each for _, record in lines if not math.isnan(each := record.get("published_over_ours", math.nan))]
        said = (
            f"{name}: {figures} figure{'s' * (figures > 1)}, {'all' if ok == figures else ok or 'none'} measured here"
        )
        ends = [show.number(each) for each in (min(ratios), max(ratios))] if ratios else []
        said += f", published / measured {' to '.join(dict.fromkeys(ends))}" if ends else ""
        found.append(Fold(name, said, [number for number, _ in lines]))
    return found


def _trials(table: "pd.DataFrame") -> list[list[dict[str, Any]]]:
    """The figures in order, trials of one measurement together."""
    found: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for figure in table.to_dict("records"):
        what = tuple(str(figure[key]) for key in ("table", "variant", "case", "device", "metric", "unit"))
        found.setdefault(what if figure["trial"] else (*what, str(len(found))), []).append(figure)
    return list(found.values())


def _ours(
    figure: Mapping[str, Any],
    reading: Reading | None,
    found: Mapping[str, Reading],
    over: str | None,
    units: int | None,
    part: str | tuple[str, ...] | None,
    fact: str | None,
) -> tuple[Cell, dict[str, Any]]:
    """Our cell for a published time, rate, speedup or number, and what the frame says of it."""
    nothing: dict[str, Any] = {"status": "missing"}
    if reading is None:
        return Cell("not measured", "absent"), nothing
    if not reading.ok:
        return Cell(f"failed: {reading.reason}", "failed"), {"status": "failed"}
    if fact is not None:
        return _fact(figure, reading, fact)
    names = (part,) if isinstance(part, str) else part or ()
    for name in names:
        if name not in reading.parts:
            return Cell("not measured", "absent", small=f"({reading.variant} has no part {name!r})"), nothing
    if figure["metric"] == "speedup":
        ratio = faster(found.get(over or reading.parent or ""), reading)
        if ratio is None:
            return Cell("not measured", "absent"), nothing
        text = show.factor(ratio.estimate, ratio.low, ratio.high)
        text = f"{ratio.word} {text[text.find('[') :]}" if ratio.same else f"{text}{show.THIN}x"
        return (
            Cell(text, "num same" if ratio.same else "num", small=f"({ratio.how})" if ratio.how else ""),
            {"status": "ok", "ours": ratio.estimate, "ours_low": ratio.low, "ours_high": ratio.high},
        )
    if figure["metric"] == "rate":
        unit = figure["unit"]
        if reading.facts.get("rate_unit") != unit:
            return Cell("not measured", "absent"), nothing
        rates = [reading.facts["rate_amount"] / time for time in (reading.median, reading.high, reading.low)]
        return (
            Cell(f"{show.interval(*rates)}{show.THIN}{unit}", "num", small=reading.few),
            {"status": "ok", "ours": rates[0], "ours_low": rates[1], "ours_high": rates[2]},
        )
    if math.isnan(figure["seconds"]):
        return Cell("not measured", "absent"), nothing
    covers = units or 1
    own = reading.parts_together(names) if names else reading
    least, low, high = (covers * time for time in (own.median, own.low, own.high))
    unit, size = show.time_unit([least])
    extrapolated = covers > reading.units
    small = (
        f"(extrapolated from {show.number(reading.units, places=0)} x {reading.row['unit']})" if extrapolated else ""
    )
    text = f"{show.interval(least / size, low / size, high / size)}{show.THIN}{unit}"
    return (
        Cell(text, "num extrapolated" if extrapolated else "num", small=" ".join(filter(None, [small, reading.few]))),
        {
            "status": "ok",
            "ours": least,
            "ours_low": low,
            "ours_high": high,
            "extrapolated": extrapolated,
            "published_over_ours": figure["seconds"] / least if least else math.nan,
        },
    )


def _fact(figure: Mapping[str, Any], reading: Reading, fact: str) -> tuple[Cell, dict[str, Any]]:
    """Our cell for a published number that is compared with a fact of our run."""
    told = reading.facts.get(fact)
    if isinstance(told, bool) or not isinstance(told, int | float) or not math.isfinite(told):
        return Cell("not measured", "absent", small=f"({reading.variant} does not report {fact!r})"), {
            "status": "missing"
        }
    ours = 100 * told if figure["unit"] == "%" else told
    text = show.number(ours, 4) if isinstance(ours, float) else show.number(ours, places=0)
    return Cell(f"{text}{show.THIN}{figure['unit']}".rstrip(), "num"), {"status": "ok", "ours": ours}


def _times(record: Mapping[str, Any]) -> Cell:
    if math.isnan(record.get("published_over_ours", math.nan)):
        return Cell(show.DASH, "num")
    return Cell(show.number(record["published_over_ours"]), "num")


def _device(row: Mapping[str, Any]) -> str:
    return text_field(row, "device_name") or str(row["device"])
