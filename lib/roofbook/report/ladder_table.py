"""The book's tables of times: the ladder, sweeps, what each optimisation is worth. No number comes from an unverified row."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..analysis import format as show
from ..analysis.case_data import CaseData, peers_on
from ..analysis.readings import (
    Home,
    Reading,
    Speedup,
    faster,
    fastest,
    home_of,
    newest,
    number_field,
    points_in_order,
    text_field,
)
from ..analysis.roofline import Bound, work_unit
from ..errors import UsageError
from ..measure.stats import CONFIDENCE
from .cell_format import (
    ABOVE_REASON,
    INTERVAL_WORDS,
    absence_reason,
    bound_of,
    check_cell,
    device_note,
    host_notes,
    is_above_bound,
    native_notes,
    ratio_cell,
    ratio_head,
    run_notes,
    samples_cell,
    share_cell,
    time_cell,
    usual_how,
)  # fmt: skip
from .columns import Column, Line, by_columns, ratio_column
from .html import Cell, Standing, Table

if TYPE_CHECKING:
    import pandas as pd

TIME_NOTE = Standing(f"Times are medians with the {CONFIDENCE} interval of the median.")
RATIO_NOTE = Standing(f"Ratios: how many times as fast, with the {CONFIDENCE} interval; {INTERVAL_WORDS}.")
FEW_NOTE = Standing(
    f"'range': fewer than 6 samples in each run give no {CONFIDENCE} interval, so the brackets hold the shortest and the"
    " longest sample."
)
ROUND_NOTE = Standing("Ratios pair samples of the same round of a run; unpaired ratios are marked.")
CONTROL = "A/A control: the same step, measured again"


def ladder(data: CaseData, caption: str = "") -> Table:
    """One line a variant, in ladder order: time, ratio to the step before and to the library, share, what changed.

    The ratio to the base, the rate, the error and the samples are further columns; where no library has a time the ratio to
    the base takes its place. A line's library is the fastest one of its precision. The newest row of a variant counts; its A/A
    control follows it. `Table.frame` has seconds per unit, ratios and shares. Errors: UsageError for an unknown case or a
    sample that is no time.
    """
    found, base = data.readings, data.base
    names = _with_controls(data.order, found)
    good = data.verified(names)
    unit = data.unit(names)
    scale = show.time_unit(reading.median for reading in good if reading.role != "probe")
    to_base = {name: faster(found.get(base), found[name]) for name in names if name in found and name != base}
    to_parent = {name: faster(found.get(found[name].parent or ""), found[name]) for name in names if name in found}
    home = home_of(good)
    libraries = _libraries(data, good, home)
    to_library = {each.variant: faster(_library(data, each, libraries), each) for each in good}
    base_how, parent_how, library_how = map(usual_how, (to_base.values(), to_parent.values(), to_library.values()))

    def over_base(reading: Reading) -> Cell:
        if reading.variant == base:
            return Cell("base", "num base")
        return ratio_cell(to_base[reading.variant], head_how=base_how)

    def over_library(reading: Reading) -> Cell:
        if reading is _library(data, reading, libraries):
            return Cell("library", "num base")
        return ratio_cell(to_library[reading.variant], head_how=library_how)

    lines_of_steps = [name for name in names if name not in found or found[name].role != "again"]
    before = dict(zip(lines_of_steps[1:], lines_of_steps, strict=False))

    def changed(name: str) -> Cell:
        reading = found.get(name)
        if reading and reading.role == "again":
            return Cell(data.changes.get(name, CONTROL), "change")
        parent = reading.parent if reading else None
        aside = f"(over {parent})" if parent and before.get(name) != parent else ""
        return Cell(data.changes.get(name, ""), "change", small=aside)

    columns = [
        time_column(unit, scale),
        ratio_column(
            "vs_parent",
            ratio_head("vs step before", parent_how),
            lambda each: ratio_cell(to_parent[each.variant], head_how=parent_how),
            lambda each: to_parent[each.variant],
        ),
    ]
    vs_base = ratio_column(
        "vs_base",
        ratio_head(f"vs {base}", base_how),
        over_base,
        lambda each: to_base.get(each.variant),
        more=bool(libraries),
    )
    if libraries:
        only = {each.variant for each in libraries.values()}
        head = ratio_head(f"vs {only.pop()}" if len(only) == 1 else "vs library", library_how)
        columns.append(ratio_column("vs_library", head, over_library, lambda each: to_library[each.variant]))
    else:
        columns.append(vs_base)
    if data.bounds is not None:
        columns.append(_share(data.bounds))
    columns.append(Column(Cell("What changed", "below"), lambda each: changed(each.variant), always=changed))
    columns += [vs_base] * bool(libraries)
    columns += [_rate(*data.rate)] if data.rate else []
    columns += [
        Column(
            Cell("Error / allowed", "num"), check_cell, ("error", "bound"),
            lambda each: (number_field(each.row, "error"), number_field(each.row, "bound")), more=True,
        ),
        samples_column(),
    ]  # fmt: skip
    first = fastest(each for each in good if each.role in ("step", "base", "peer"))
    lines = []
    for name in names:
        reading = found.get(name)
        role = {"step": "", "base": "", "again": "control"}.get(reading.role, reading.role) if reading else ""
        marks = " ".join(filter(None, [role, "best" if reading and reading is first else ""]))
        head = Cell(name, small=device_note(reading, home))
        lines.append(Line(head, name, reading, absence_reason(name, data.skip_reasons), marks))
    notes = [
        *notes_of(good),
        *_which(data, libraries, good, home),
        *data.stands_in,
        *_cache(data),
        *_same_code(data, names),
    ]
    if data.bounds is not None:
        notes += _bound_notes(data.bounds, [each for each in good if each.role != "probe"], unit)
    notes += [*native_notes(good), *host_notes(good, home)]
    return by_columns(caption or f"The ladder on {data.case}", "Variant", columns, lines, notes, "ladder")


def notes_of(readings: Sequence[Reading], ratios: str = RATIO_NOTE) -> list[str]:
    """What a table with times and ratios of these readings says below itself. ratios: what its ratios are."""
    few = [FEW_NOTE] * any(reading.few for reading in readings)
    return [TIME_NOTE, ratios, ROUND_NOTE, *run_notes(readings), *few]


def time_column(unit: str, scale: tuple[str, float], head: str = "Time") -> Column:
    """Median with its interval. scale: the column's unit and its seconds."""
    return Column(
        Cell(f"{head} per {unit} ({scale[0]})", "num"),
        lambda each: time_cell(each, scale[1]),
        ("seconds", "low", "high"),
        lambda each: (each.median, each.low, each.high),
        unit=f"s per {unit}",
    )


def samples_column() -> Column:
    """How many samples in how many runs, and how many units each of them repeats."""
    return Column(
        Cell("Samples", "num"), samples_cell, ("n", "units", "runs"),
        lambda each: (each.samples, each.units, len(each.runs)), more=True,
    )  # fmt: skip


def _rate(amount: float, name: str) -> Column:
    return Column(
        Cell(name, "num"),
        lambda each: Cell(show.number(amount / each.median), "num", of=each.id),
        ("rate", "rate_unit"),
        lambda each: (amount / each.median, name),
        more=True,
    )


def _libraries(data: CaseData, readings: Sequence[Reading], home: Home) -> dict[str, Reading]:
    """Return by precision the fastest library on this device, whichever backend calls it."""
    peers = peers_on(home.device, readings)
    kinds = dict.fromkeys(map(data.precision, peers))
    fastest_of = {kind: fastest(each for each in peers if data.precision(each) == kind) for kind in kinds}
    return {kind: found for kind, found in fastest_of.items() if found}


def _library(data: CaseData, reading: Reading, libraries: Mapping[str, Reading]) -> Reading | None:
    """The one that a line is compared with: like with like, so of its own precision; a probe computes nothing to compare."""
    return None if reading.role == "probe" else libraries.get(data.precision(reading))


def _which(data: CaseData, libraries: Mapping[str, Reading], readings: Sequence[Reading], home: Home) -> list[str]:
    """A note that says which library each precision is compared with, and which precisions have none."""
    if not libraries:
        return []
    named = [
        f"{dtype} {' '.join(filter(None, (each.variant, device_note(each, home))))}"
        for dtype, each in libraries.items()
    ]
    lacking = sorted({data.precision(each) for each in readings if each.role != "probe"} - libraries.keys())
    none = f" None has a time in {', '.join(lacking)}." * bool(lacking)
    split = [each.variant for each in readings if data.exact_as.get(str(each.row["variant"]))]
    exact = f" As exact as float32, and so compared with it: {', '.join(split)}." * bool(split)
    return [f"Library: the fastest of the same precision on this device, {'; '.join(named)}.{none}{exact}"]


def _share(bounds: Mapping[str, Bound]) -> Column:
    def share(reading: Reading) -> float | None:
        floor = bound_of(bounds, reading)
        return floor.seconds / reading.median if floor else None

    return Column.of("share", Cell("Of the bound", "num"), lambda each: share_cell(bound_of(bounds, each), each), share)


def sweep(data: CaseData, axis: str, variant: str | None = None, caption: str = "") -> Table:
    """One line a point of the sweep over `axis`: time, ratio to the variant that was swept and to the fastest point.

    variant: the swept one, needed where several have this axis. Every point that is 'same' as the fastest is marked.
    """
    readings, parent = swept(data.rows, axis, data.case, variant)
    swept_one = data.readings.get(parent)
    good = [reading for reading in readings.values() if reading.ok]
    first = fastest(good)
    unit = next((str(reading.row["unit"]) for reading in readings.values()), "unit")

    to_first, to_swept = ({each.variant: faster(other, each) for each in good} for other in (first, swept_one))
    how_first, how_swept = usual_how(to_first.values()), usual_how(to_swept.values())

    def over_fastest(reading: Reading) -> Cell:
        if reading is first:
            return Cell("fastest", "num base")
        return ratio_cell(to_first[reading.variant], head_how=how_first)

    columns = [
        time_column(unit, show.time_unit(reading.median for reading in good)),
        samples_column(),
        ratio_column(
            "vs_parent",
            ratio_head(f"vs {parent}", how_swept),
            lambda each: ratio_cell(to_swept[each.variant], head_how=how_swept),
            lambda each: to_swept[each.variant],
        ),
        ratio_column("vs_base", ratio_head("vs fastest", how_first), over_fastest, lambda each: to_first[each.variant]),
    ]
    lines = []
    for point, reading in readings.items():
        ratio = to_first.get(reading.variant)
        best = reading is first or (ratio is not None and ratio.same)
        lines.append(Line(Cell(point), reading.variant, reading, css="best" if best else "", fields={"point": point}))
    untimed = [f"{parent} has no time here."] * (swept_one is None or not swept_one.ok)
    notes = [*notes_of(good), *untimed, *_cache(data)]
    return by_columns(caption or f"{parent}: sweep of {axis} on {data.case}", axis, columns, lines, notes, "sweep")


def swept(rows: "pd.DataFrame", axis: str, case: str, variant: str | None = None) -> tuple[dict[str, Reading], str]:
    """Newest reading by point of one variant's sweep over `axis`, points in order, and the name of that variant."""
    points = [reading for reading in newest(rows, case, ["sweep"]).values() if text_field(reading.row, "axis") == axis]
    parents = list(dict.fromkeys(str(reading.parent) for reading in points))
    if variant is None and len(parents) == 1:
        variant = parents[0]
    mine = {str(reading.row["point"]): reading for reading in points if reading.parent == variant}
    if not mine:
        have = ", ".join(
            f"{reading.parent} over {text_field(reading.row, 'axis')}"
            for reading in newest(rows, case, ["sweep"]).values()
        )
        one = "; ".join(dict.fromkeys(have.split(", "))) or "none"
        raise UsageError(f"no single sweep of {variant or 'a variant'} over {axis!r} on {case}; measured sweeps: {one}")
    return {point: mine[point] for point in points_in_order(mine)}, str(variant)


def leave_one_out(data: CaseData, without: Mapping[str, str], best: str, caption: str = "") -> Table:
    """What each optimisation is worth in the best version: its time without it over its time with it.

    without: optimisation -> name of the variant that is `best` without it. Above 1: the optimisation helps.
    """
    found = data.readings
    whole = found.get(best)
    known = data.verified([best, *without.values()])
    scale = show.time_unit(reading.median for reading in known)
    unit = next((str(reading.row["unit"]) for reading in found.values()), "unit")
    with_it = [time_cell(whole, scale[1])] if whole and whole.ok else []

    def worth(reading: Reading) -> Speedup | None:
        return faster(reading, whole) if whole else None

    how = usual_how(worth(each) for each in known if each is not whole)

    columns = [
        Column(Cell(f"With, per {unit} ({scale[0]})", "num"), lambda _: with_it[0]),
        Column(
            Cell(f"Without ({scale[0]})", "num"), lambda each: time_cell(each, scale[1]), ("seconds", "low", "high"),
            lambda each: (each.median, each.low, each.high), unit=f"s per {unit}",
        ),
        samples_column(),
        ratio_column("worth", ratio_head("Worth", how), lambda each: ratio_cell(worth(each), head_how=how), worth),
    ]  # fmt: skip
    lines = []
    for label, name in without.items():
        broken = whole is None or not whole.ok
        reading = whole if broken else found.get(name)
        lines.append(Line(Cell(label), name, reading, fields={"optimisation": label}))
    worth_note = Standing(
        f"Worth: the time without it over the time with it, with its {CONFIDENCE} interval; {INTERVAL_WORDS}."
    )
    notes = [*notes_of(known, worth_note), *_same_code(data, list(without.values()))]
    caption = caption or f"{best} without one optimisation, on {data.case}"
    return by_columns(caption, "Optimisation", columns, lines, notes, "leave-one-out")


def _cache(data: CaseData) -> list[str]:
    return [Standing(data.cache_note)] * bool(data.cache_note)


def _same_code(data: CaseData, names: Sequence[str]) -> list[str]:
    """Which of these, where they were measured, are their parents in machine code by the device's compiler, and why."""
    told = "; ".join(
        f"{name} and {data.readings[name].parent}, since {data.same_code[name]}"
        for name in names
        if name in data.same_code and name in data.readings
    )
    same = f"In the tests of this book {data.compiler} makes one machine code of a variant and its parent, always or at times"
    return [f"{same}. Where it does, their times differ by noise alone: {told}."] * bool(told)


def _with_controls(order: Sequence[str], found: Mapping[str, Reading]) -> list[str]:
    """The ladder's names, each followed by its A/A control where one was measured."""
    controls: dict[str | None, list[str]] = {}
    for name, reading in found.items():
        if reading.role == "again" and name not in order:
            controls.setdefault(reading.parent, []).append(name)
    return [each for name in order for each in (name, *controls.get(name, []))]


def _bound_notes(bounds: Mapping[str, Bound], readings: Sequence[Reading], unit: str) -> list[str]:
    """What sets the bound of each dtype and of the variants with a bound of their own, and which dtypes have none."""

    def limit(floor: Bound) -> str:
        memory = floor.roof == "memory"
        rate = (
            show.quantity(floor.bandwidth, "B/s")
            if memory
            else show.quantity(floor.flops, f"{work_unit(floor.roof)}/s")
        )
        return f"{show.duration(floor.seconds)}, by {'memory' if memory else 'arithmetic'} ({rate})"

    used, own = (
        dict.fromkeys(str(text_field(each.row, "dtype")) for each in readings),
        defaultdict[str, list[str]](list),
    )
    for name in dict.fromkeys(each.variant for each in readings):
        if name in bounds:
            own[limit(bounds[name])].append(name)
    known = [f"{dtype} {limit(bounds[dtype])}" for dtype in used if dtype in bounds]
    fewer = [f"{', '.join(names)} {text}" for text, names in own.items()]
    more = " or run on several GPUs" * any(
        each.facts.get("devices", 1) > 1 and each.variant in bounds for each in readings
    )
    lacking = [dtype for dtype in used if dtype not in bounds]
    over = {
        each.variant: floor for each in readings if (floor := bound_of(bounds, each)) and is_above_bound(floor, each)
    }
    times = {each.variant: each.median for each in readings}
    beyond = ", ".join(f"{name} {show.number(floor.seconds / times[name])}\u00d7" for name, floor in over.items())
    return [
        *[f"Bound per {unit}: {'; '.join(known)}."] * bool(known),
        *[f"Bound of variants that move fewer bytes{more}: {'; '.join(fewer)}."] * bool(fewer),
        *[f"'above': faster than its bound, so the bound is wrong: {ABOVE_REASON}. How many times as fast: {beyond}."]
        * bool(over),
        *[f"No bound, because the peak was not measured: {', '.join(lacking)}."] * bool(lacking),
    ]
