"""The book's tables: the ladder, sweeps, what each optimisation is worth. No number comes from an unverified row."""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from roofbook.errors import UsageError
from roofbook.report import units as show
from roofbook.report.cells import (
    SAME,
    absence,
    check_cell,
    floor_of,
    hosts,
    no_time,
    ratio_cell,
    samples_cell,
    share_cell,
    time_cell,
    where,
)
from roofbook.report.html import Cell, Row, Table
from roofbook.report.readings import Ratio, Reading, faster, fastest, home_device, newest, points_in_order, said, value
from roofbook.roofline import Bound, work_unit

if TYPE_CHECKING:
    import pandas as pd

TIME_NOTE = "Times are medians with the 95 % interval of the median."
RATIO_NOTE = f"Ratios: how many times as fast, with the 95 % interval; {SAME}."
FEW_NOTE = (
    "'range': fewer than 6 samples give no 95 % interval, so the brackets hold the shortest and the longest sample."
)
ROUND_NOTE = "Ratios pair samples of the same round of one run; unpaired ratios are marked."
COLUMNS = (
    "variant",
    "parent",
    "role",
    "status",
    "reason",
    "device",
    "run",
    "n",
    "units",
    "seconds",
    "low",
    "high",
    "vs_parent",
    "vs_parent_low",
    "vs_parent_high",
    "vs_parent_same",
    "vs_parent_how",
    "vs_base",
    "vs_base_low",
    "vs_base_high",
    "vs_base_same",
    "vs_base_how",
    "rate",
    "rate_unit",
    "share",
    "error",
    "bound",
)


def ladder(
    rows: "pd.DataFrame",
    order: Sequence[str],
    *,
    case: str,
    base: str = "sequential",
    bound: Mapping[str, Bound] | None = None,
    changes: Mapping[str, str] | None = None,
    rate: tuple[float, str] | None = None,
    elsewhere: Collection[str] | Mapping[str, str] = (),
    caption: str = "",
) -> Table:
    """One line a variant, in ladder order: what changed, time, ratio to the parent and to the base, rate, share.

    rows: store rows of one lab (any cases); the newest of a variant counts. order: names of the ladder, peers included;
    the A/A twin of a variant follows it as a control. bound: the floor in seconds per unit by
    dtype, and by the name of a variant that has one of its own; None for no such column.
    rate: (amount of one unit, name of the rate), the rate being amount / seconds. elsewhere: variants that this backend
    cannot run, or each with the words for it. Errors: UsageError for an unknown case or a sample that is no time.
    """
    found = newest(rows, case)
    names = _with_controls(order, found)
    good = [found[name] for name in names if name in found and found[name].ok]
    unit = next((str(found[name].row["unit"]) for name in names if name in found), "unit")
    scale = show.time_unit(reading.median for reading in good if reading.role != "probe")
    to_base = {name: faster(found.get(base), found[name]) for name in names if name in found and name != base}
    how = {ratio.how for ratio in to_base.values() if ratio}
    base_how = how.pop() if len(how) == 1 else ""  # said once in the head where it holds for every line
    columns = [
        Cell("Variant"),
        Cell(f"Time per {unit} ({scale[0]})", "num"),
        Cell("vs parent", "num"),
        Cell(f"vs {base}", "num", small=f"({base_how})" if base_how else ""),
    ]
    columns += [Cell(rate[1], "num")] if rate else []
    columns += [Cell("Of the bound", "num")] if bound is not None else []
    columns += [Cell("Error / allowed", "num"), Cell("Samples", "num"), Cell("What changed")]
    home = home_device(good)
    first = fastest(each for each in good if each.role in ("step", "peer"))
    lines, records = [], []
    for name in names:
        reading = found.get(name)
        change = (changes or {}).get(
            name, "A/A control: the same step, measured again" if reading and reading.role == "again" else ""
        )
        head, tail = [Cell(name, small=where(reading, home))], [Cell(change, "change")]
        if reading is None or not reading.ok:
            lack = absence(name, elsewhere)
            row = no_time(head, reading, len(columns) - 2, lack)
            lines.append(Row([*row.cells, *tail], row.css))
            records.append(_record(name, reading, lack))
            continue
        to_parent = faster(found.get(reading.parent or ""), reading)
        floor = floor_of(bound, reading)
        cells = [
            *head,
            time_cell(reading, scale[1]),
            ratio_cell(to_parent, _lack(reading, found)),
            Cell("base", "num base")
            if name == base
            else ratio_cell(to_base[name], f"{base} has no time here", base_how),
        ]
        cells += [Cell(show.number(rate[0] / reading.median), "num")] if rate else []
        cells += [share_cell(floor, reading)] if bound is not None else []
        cells += [check_cell(reading), samples_cell(reading), *tail]
        role = {"step": "", "again": "control"}.get(reading.role, reading.role)
        lines.append(Row(cells, " ".join(filter(None, [role, "best" if reading is first else ""]))))
        records.append(
            _record(name, reading, "")
            | _ratio_fields("vs_parent", to_parent)
            | _ratio_fields("vs_base", to_base.get(name))
            | {
                "rate": rate[0] / reading.median if rate else math.nan,
                "rate_unit": rate[1] if rate else None,
                "share": floor.seconds / reading.median if floor else math.nan,
            }
        )
    notes = [TIME_NOTE, RATIO_NOTE, ROUND_NOTE] + [FEW_NOTE] * any(reading.few for reading in good)
    if bound is not None:
        held = [reading for reading in good if reading.role != "probe"]
        notes += _roofs(
            bound, [str(said(reading.row, "dtype")) for reading in held], [one.variant for one in held], unit
        )
    notes += hosts(good, home)
    return Table(caption or f"The ladder on {case}", columns, lines, _frame(records, COLUMNS), notes, "ladder")


def sweep(rows: "pd.DataFrame", axis: str, *, case: str, variant: str | None = None, caption: str = "") -> Table:
    """One line a point of the sweep over `axis`: time, ratio to the variant that was swept and to the fastest point.

    variant: the swept one, needed where several have this axis. Every point that is 'same' as the fastest is marked.
    """
    readings, parent = swept(rows, axis, case, variant)
    parents = newest(rows, case)
    good = [reading for reading in readings.values() if reading.ok]
    first = fastest(good)
    unit = next((str(reading.row["unit"]) for reading in readings.values()), "unit")
    scale = show.time_unit(reading.median for reading in good)
    columns = [
        Cell(axis),
        Cell(f"Time per {unit} ({scale[0]})", "num"),
        Cell("Samples", "num"),
        Cell(f"vs {parent}", "num"),
        Cell("vs fastest", "num"),
    ]
    lines, records = [], []
    for point, reading in readings.items():
        if not reading.ok:
            lines.append(no_time([Cell(point)], reading, len(columns) - 1))
            records.append(_record(reading.variant, reading, "") | {"point": point})
            continue
        to_parent, to_best = faster(parents.get(parent), reading), faster(first, reading)
        best = reading is first or (to_best is not None and to_best.same)
        lines.append(
            Row(
                [
                    Cell(point),
                    time_cell(reading, scale[1]),
                    samples_cell(reading),
                    ratio_cell(to_parent, f"{parent} has no time here"),
                    Cell("fastest", "num base") if reading is first else ratio_cell(to_best),
                ],
                "best" if best else "",
            )
        )
        records.append(
            _record(reading.variant, reading, "")
            | {"point": point}
            | _ratio_fields("vs_parent", to_parent)
            | _ratio_fields("vs_base", to_best)
        )
    notes = [TIME_NOTE, RATIO_NOTE, ROUND_NOTE] + [FEW_NOTE] * any(reading.few for reading in good)
    return Table(
        caption or f"{parent}: sweep of {axis} on {case}",
        columns,
        lines,
        _frame(records, ("point", *COLUMNS)),
        notes,
        "sweep",
    )


def swept(rows: "pd.DataFrame", axis: str, case: str, variant: str | None = None) -> tuple[dict[str, Reading], str]:
    """Newest reading by point of one variant's sweep over `axis`, points in order, and the name of that variant."""
    points = [reading for reading in newest(rows, case, ["sweep"]).values() if said(reading.row, "axis") == axis]
    parents = list(dict.fromkeys(str(reading.parent) for reading in points))
    if variant is None and len(parents) == 1:
        variant = parents[0]
    mine = {str(reading.row["point"]): reading for reading in points if reading.parent == variant}
    if not mine:
        have = ", ".join(
            f"{reading.parent} over {said(reading.row, 'axis')}" for reading in newest(rows, case, ["sweep"]).values()
        )
        one = "; ".join(dict.fromkeys(have.split(", "))) or "none"
        raise UsageError(f"no single sweep of {variant or 'a variant'} over {axis!r} on {case}; measured sweeps: {one}")
    return {point: mine[point] for point in points_in_order(mine)}, str(variant)


def leave_one_out(
    rows: "pd.DataFrame", without: Mapping[str, str], *, case: str, best: str, caption: str = ""
) -> Table:
    """What each optimisation is worth in the best version: its time without it over its time with it.

    without: optimisation -> name of the variant that is `best` without it. Above 1: the optimisation helps.
    """
    found = newest(rows, case)
    whole = found.get(best)
    shown = [found[name] for name in without.values() if name in found and found[name].ok]
    known = [each for each in (whole, *shown) if each is not None and each.ok]
    scale = show.time_unit(reading.median for reading in known)
    unit = next((str(reading.row["unit"]) for reading in found.values()), "unit")
    columns = [
        Cell("Optimisation"),
        Cell(f"With, per {unit} ({scale[0]})", "num"),
        Cell(f"Without ({scale[0]})", "num"),
        Cell("Samples", "num"),
        Cell("Worth", "num"),
    ]
    lines, records = [], []
    for label, name in without.items():
        reading = found.get(name)
        if reading is None or not reading.ok or whole is None or not whole.ok:
            broken = whole if whole is not None and not whole.ok else reading
            lines.append(no_time([Cell(label)], broken, len(columns) - 1))
            records.append(_record(name, reading, "not measured") | {"optimisation": label})
            continue
        worth = faster(reading, whole)
        lines.append(
            Row(
                [
                    Cell(label),
                    time_cell(whole, scale[1]),
                    time_cell(reading, scale[1]),
                    samples_cell(reading),
                    ratio_cell(worth),
                ]
            )
        )
        records.append(_record(name, reading, "") | {"optimisation": label} | _ratio_fields("worth", worth))
    notes = [
        TIME_NOTE,
        f"Worth: the time without it over the time with it, with its 95 % interval; {SAME}.",
        ROUND_NOTE,
    ] + [FEW_NOTE] * any(reading.few for reading in known)
    worth_columns = ("worth", "worth_low", "worth_high", "worth_same", "worth_how")
    return Table(
        caption or f"{best} without one optimisation, on {case}",
        columns,
        lines,
        _frame(records, ("optimisation", *COLUMNS[:12], *worth_columns)),
        notes,
        "leave-one-out",
    )


def _with_controls(order: Sequence[str], found: Mapping[str, Reading]) -> list[str]:
    """The ladder's names, each followed by its A/A twin where one was measured."""
    twins: dict[str | None, list[str]] = {}
    for name, reading in found.items():
        if reading.role == "again" and name not in order:
            twins.setdefault(reading.parent, []).append(name)
    return [each for name in order for each in (name, *twins.get(name, []))]


def _lack(reading: Reading, found: Mapping[str, Reading]) -> str:
    """Why there is no ratio to the parent."""
    if reading.parent is None:
        return "it has no parent"
    parent = found.get(reading.parent)
    return f"{reading.parent} was not measured" if parent is None else f"{reading.parent}: {parent.why}"


def _record(name: str, reading: Reading | None, lack: str) -> dict[str, Any]:
    """What `Table.frame` says about a line; only a verified reading brings numbers."""
    if reading is None:
        return {"variant": name, "status": "missing", "reason": lack}
    record = {
        "variant": name,
        "parent": reading.parent,
        "role": reading.role,
        "device": reading.row["device"],
        "run": reading.row["run"],
        "status": "ok" if reading.ok else "failed",
        "reason": reading.why or None,
    }
    if not reading.ok:
        return record
    return record | {
        "n": len(reading.times),
        "units": reading.units,
        "seconds": reading.median,
        "low": reading.low,
        "high": reading.high,
        "error": value(reading.row, "error"),
        "bound": value(reading.row, "bound"),
    }


def _ratio_fields(name: str, ratio: Ratio | None) -> dict[str, Any]:
    if ratio is None:
        return {}
    return {
        name: ratio.estimate,
        f"{name}_low": ratio.low,
        f"{name}_high": ratio.high,
        f"{name}_same": ratio.same,
        f"{name}_how": ratio.how,
    }


def _roofs(bounds: Mapping[str, Bound], dtypes: Sequence[str], variants: Sequence[str], unit: str) -> list[str]:
    """Which roof bounds the lines of each dtype and the variants with a bound of their own, and those without one."""

    def roof(floor: Bound) -> str:
        memory = floor.roof == "memory"
        rate = (
            show.quantity(floor.bandwidth, "B/s")
            if memory
            else show.quantity(floor.flops, f"{work_unit(floor.roof)}/s")
        )
        return f"{show.duration(floor.seconds)}, by {'memory' if memory else 'arithmetic'} ({rate})"

    used, own = list(dict.fromkeys(dtypes)), defaultdict[str, list[str]](list)
    for name in (each for each in dict.fromkeys(variants) if each in bounds):
        own[roof(bounds[name])].append(name)
    roofs = [f"{dtype} {roof(bounds[dtype])}" for dtype in used if dtype in bounds]
    fewer = [f"{', '.join(names)} {text}" for text, names in own.items()]
    lacking = [dtype for dtype in used if dtype not in bounds]
    return [
        *[f"Bound per {unit}: {'; '.join(roofs)}."] * bool(roofs),
        *[f"Bound of variants that move fewer bytes: {'; '.join(fewer)}."] * bool(fewer),
        *[f"No bound, because the peak was not measured: {', '.join(lacking)}."] * bool(lacking),
    ]


def _frame(records: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame([dict(record) for record in records], columns=list(columns))
