"""Tables of times: the ladder, sweeps, and the worth of each optimisation. No number comes from an unverified row."""

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
from .columns import Column, Line, ratio_column, table_of_columns
from .html import Cell, StandingNote, Table

if TYPE_CHECKING:
    import pandas as pd

TIME_NOTE = StandingNote(f"Times are medians with the {CONFIDENCE} interval of the median.")
RATIO_NOTE = StandingNote(f"Ratios: how many times as fast, with the {CONFIDENCE} interval; {INTERVAL_WORDS}.")
FEW_NOTE = StandingNote(
    f"'range': fewer than 6 samples in each run give no {CONFIDENCE} interval, so the brackets hold the shortest and the"
    " longest sample."
)
ROUND_NOTE = StandingNote("Ratios pair samples of the same round of a run; unpaired ratios are marked.")
CONTROL = "A/A control: the same step, measured again"


def ladder(data: CaseData, caption: str = "") -> Table:
    """Return a table with a line for each variant in ladder order: time, ratios to parent and library, share, change.

    More columns hold the ratio to the base, the rate, the error and the samples; if no library has a time, the ratio to the
    base takes its place. A line's library is the fastest one of its precision. The newest row of a variant counts; its A/A
    control follows it. `Table.frame` has seconds per unit, ratios and shares. Errors: UsageError for an unknown case or a
    sample that is no time.
    """
    readings, base = data.readings, data.base
    names = _with_controls(data.order, readings)
    good = data.verified(names)
    unit = data.unit(names)
    scale = show.time_unit(reading.median for reading in good if reading.role != "probe")
    to_base = {name: faster(readings.get(base), readings[name]) for name in names if name in readings and name != base}
    to_parent = {
        name: faster(readings.get(readings[name].parent or ""), readings[name]) for name in names if name in readings
    }
    home = home_of(good)
    libraries = _libraries(data, good, home)
    to_library = {reading.variant: faster(_library(data, reading, libraries), reading) for reading in good}
    base_how, parent_how, library_how = map(usual_how, (to_base.values(), to_parent.values(), to_library.values()))

    def over_base(reading: Reading) -> Cell:
        if reading.variant == base:
            return Cell("base", "num base")
        return ratio_cell(to_base[reading.variant], head_how=base_how)

    def over_library(reading: Reading) -> Cell:
        if reading is _library(data, reading, libraries):
            return Cell("library", "num base")
        return ratio_cell(to_library[reading.variant], head_how=library_how)

    lines_of_steps = [name for name in names if name not in readings or readings[name].role != "again"]
    before = dict(zip(lines_of_steps[1:], lines_of_steps, strict=False))

    def changed(name: str) -> Cell:
        reading = readings.get(name)
        if reading and reading.role == "again":
            return Cell(data.changes.get(name, CONTROL), "change")
        parent = reading.parent if reading else None
        small = f"(over {parent})" if parent and before.get(name) != parent else ""
        return Cell(data.changes.get(name, ""), "change", small=small)

    columns = [
        time_column(unit, scale),
        ratio_column(
            "vs_parent",
            ratio_head("vs step before", parent_how),
            lambda reading: ratio_cell(to_parent[reading.variant], head_how=parent_how),
            lambda reading: to_parent[reading.variant],
        ),
    ]
    vs_base = ratio_column(
        "vs_base",
        ratio_head(f"vs {base}", base_how),
        over_base,
        lambda reading: to_base.get(reading.variant),
        on_demand=bool(libraries),
    )
    if libraries:
        names_of_libraries = {library.variant for library in libraries.values()}
        head = ratio_head(
            f"vs {names_of_libraries.pop()}" if len(names_of_libraries) == 1 else "vs library", library_how
        )
        columns.append(ratio_column("vs_library", head, over_library, lambda reading: to_library[reading.variant]))
    else:
        columns.append(vs_base)
    if data.bounds is not None:
        columns.append(_share_column(data.bounds))
    columns.append(Column(Cell("What changed", "below"), lambda reading: changed(reading.variant), always=changed))
    columns += [vs_base] * bool(libraries)
    columns += [_rate_column(*data.rate)] if data.rate else []
    columns += [
        Column(
            Cell("Error / allowed", "num"), check_cell, ("error", "bound"),
            lambda reading: (number_field(reading.row, "error"), number_field(reading.row, "bound")), on_demand=True,
        ),
        samples_column(),
    ]  # fmt: skip
    first = fastest(reading for reading in good if reading.role in ("step", "base", "peer"))
    lines = []
    for name in names:
        reading = readings.get(name)
        role = {"step": "", "base": "", "again": "control"}.get(reading.role, reading.role) if reading else ""
        marks = " ".join(filter(None, [role, "best" if reading and reading is first else ""]))
        head = Cell(name, small=device_note(reading, home))
        lines.append(Line(head, name, reading, absence_reason(name, data.skip_reasons), marks))
    notes = [
        *notes_of(good),
        *_library_note(data, libraries, good, home),
        *data.stands_in,
        *_cache_note(data),
        *_same_code_note(data, names),
    ]
    if data.bounds is not None:
        notes += _bound_notes(data.bounds, [reading for reading in good if reading.role != "probe"], unit)
    notes += [*native_notes(good), *host_notes(good, home)]
    return table_of_columns(caption or f"The ladder on {data.case}", "Variant", columns, lines, notes, "ladder")


def notes_of(readings: Sequence[Reading], ratios: str = RATIO_NOTE) -> list[str]:
    """Return the notes of a table with times and ratios of these readings. ratios: the note that explains the ratios."""
    few = [FEW_NOTE] * any(reading.few for reading in readings)
    return [TIME_NOTE, ratios, ROUND_NOTE, *run_notes(readings), *few]


def time_column(unit: str, scale: tuple[str, float], head: str = "Time") -> Column:
    """Return the column of the median with its interval. scale: name of the column's unit, and its seconds."""
    return Column(
        Cell(f"{head} per {unit} ({scale[0]})", "num"),
        lambda reading: time_cell(reading, scale[1]),
        ("seconds", "low", "high"),
        lambda reading: (reading.median, reading.low, reading.high),
        unit=f"s per {unit}",
    )


def samples_column() -> Column:
    """Return the column of the samples: how many in how many runs, and how many units each of them repeats."""
    return Column(
        Cell("Samples", "num"), samples_cell, ("n", "units", "runs"),
        lambda reading: (reading.samples, reading.units, len(reading.runs)), on_demand=True,
    )  # fmt: skip


def _rate_column(amount: float, name: str) -> Column:
    return Column(
        Cell(name, "num"),
        lambda reading: Cell(show.number(amount / reading.median), "num", card_id=reading.id),
        ("rate", "rate_unit"),
        lambda reading: (amount / reading.median, name),
        on_demand=True,
    )


def _libraries(data: CaseData, readings: Sequence[Reading], home: Home) -> dict[str, Reading]:
    """Return the fastest library of each precision on this device, whichever backend calls it."""
    peers = peers_on(home.device, readings)
    kinds = dict.fromkeys(map(data.precision, peers))
    fastest_of = {kind: fastest(peer for peer in peers if data.precision(peer) == kind) for kind in kinds}
    return {kind: library for kind, library in fastest_of.items() if library}


def _library(data: CaseData, reading: Reading, libraries: Mapping[str, Reading]) -> Reading | None:
    """Return the library of the reading's own precision; None for a probe, which computes nothing to compare."""
    return None if reading.role == "probe" else libraries.get(data.precision(reading))


def _library_note(
    data: CaseData, libraries: Mapping[str, Reading], readings: Sequence[Reading], home: Home
) -> list[str]:
    """Return the note that names the library of each precision, and the precisions without one."""
    if not libraries:
        return []
    by_precision = [
        f"{dtype} {' '.join(filter(None, (library.variant, device_note(library, home))))}"
        for dtype, library in libraries.items()
    ]
    lacking = sorted({data.precision(reading) for reading in readings if reading.role != "probe"} - libraries.keys())
    none = f" None has a time in {', '.join(lacking)}." * bool(lacking)
    split = [reading.variant for reading in readings if data.exact_as.get(str(reading.row["variant"]))]
    exact = f" As exact as float32, and so compared with it: {', '.join(split)}." * bool(split)
    return [f"Library: the fastest of the same precision on this device, {'; '.join(by_precision)}.{none}{exact}"]


def _share_column(bounds: Mapping[str, Bound]) -> Column:
    def share(reading: Reading) -> float | None:
        floor = bound_of(bounds, reading)
        return floor.seconds / reading.median if floor else None

    return Column.of(
        "share", Cell("Of the bound", "num"), lambda reading: share_cell(bound_of(bounds, reading), reading), share
    )


def sweep(data: CaseData, axis: str, variant: str | None = None, caption: str = "") -> Table:
    """Return a table with a line for each point of a sweep over `axis`: its time, its ratios to the variant and the best point.

    variant: the swept one, needed if several were swept over this axis. Every point that is 'same' as the fastest is marked.
    """
    readings, parent = sweep_readings(data.rows, axis, data.case, variant)
    swept_reading = data.readings.get(parent)
    good = [reading for reading in readings.values() if reading.ok]
    first = fastest(good)
    unit = next((str(reading.row["unit"]) for reading in readings.values()), "unit")

    to_first, to_swept = (
        {reading.variant: faster(reference, reading) for reading in good} for reference in (first, swept_reading)
    )
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
            lambda reading: ratio_cell(to_swept[reading.variant], head_how=how_swept),
            lambda reading: to_swept[reading.variant],
        ),
        ratio_column(
            "vs_base", ratio_head("vs fastest", how_first), over_fastest, lambda reading: to_first[reading.variant]
        ),
    ]
    lines = []
    for point, reading in readings.items():
        ratio = to_first.get(reading.variant)
        best = reading is first or (ratio is not None and ratio.same)
        lines.append(Line(Cell(point), reading.variant, reading, css="best" if best else "", fields={"point": point}))
    untimed = [f"{parent} has no time here."] * (swept_reading is None or not swept_reading.ok)
    notes = [*notes_of(good), *untimed, *_cache_note(data)]
    return table_of_columns(
        caption or f"{parent}: sweep of {axis} on {data.case}", axis, columns, lines, notes, "sweep"
    )


def sweep_readings(
    rows: "pd.DataFrame", axis: str, case: str, variant: str | None = None
) -> tuple[dict[str, Reading], str]:
    """Return the newest reading of each point of one variant's sweep over `axis`, in order, and the name of that variant."""
    points = [reading for reading in newest(rows, case, ["sweep"]).values() if text_field(reading.row, "axis") == axis]
    parents = list(dict.fromkeys(str(reading.parent) for reading in points))
    if variant is None and len(parents) == 1:
        variant = parents[0]
    by_point = {str(reading.row["point"]): reading for reading in points if reading.parent == variant}
    if not by_point:
        measured = ", ".join(
            f"{reading.parent} over {text_field(reading.row, 'axis')}"
            for reading in newest(rows, case, ["sweep"]).values()
        )
        one = "; ".join(dict.fromkeys(measured.split(", "))) or "none"
        raise UsageError(f"no single sweep of {variant or 'a variant'} over {axis!r} on {case}; measured sweeps: {one}")
    return {point: by_point[point] for point in points_in_order(by_point)}, str(variant)


def leave_one_out(data: CaseData, without: Mapping[str, str], best: str, caption: str = "") -> Table:
    """Return a table of the worth of each optimisation in the best version: its time without it over its time with it.

    without: optimisation -> name of the variant that is `best` without it. Above 1: the optimisation helps.
    """
    readings = data.readings
    best_reading = readings.get(best)
    timed = data.verified([best, *without.values()])
    scale = show.time_unit(reading.median for reading in timed)
    unit = next((str(reading.row["unit"]) for reading in readings.values()), "unit")
    with_it = [time_cell(best_reading, scale[1])] if best_reading and best_reading.ok else []

    def worth(reading: Reading) -> Speedup | None:
        return faster(reading, best_reading) if best_reading else None

    how = usual_how(worth(reading) for reading in timed if reading is not best_reading)

    columns = [
        Column(Cell(f"With, per {unit} ({scale[0]})", "num"), lambda _: with_it[0]),
        Column(
            Cell(f"Without ({scale[0]})", "num"), lambda reading: time_cell(reading, scale[1]), ("seconds", "low", "high"),
            lambda reading: (reading.median, reading.low, reading.high), unit=f"s per {unit}",
        ),
        samples_column(),
        ratio_column("worth", ratio_head("Worth", how), lambda reading: ratio_cell(worth(reading), head_how=how), worth),
    ]  # fmt: skip
    lines = []
    for label, name in without.items():
        broken = best_reading is None or not best_reading.ok
        reading = best_reading if broken else readings.get(name)
        lines.append(Line(Cell(label), name, reading, fields={"optimisation": label}))
    worth_note = StandingNote(
        f"Worth: the time without it over the time with it, with its {CONFIDENCE} interval; {INTERVAL_WORDS}."
    )
    notes = [*notes_of(timed, worth_note), *_same_code_note(data, list(without.values()))]
    caption = caption or f"{best} without one optimisation, on {data.case}"
    return table_of_columns(caption, "Optimisation", columns, lines, notes, "leave-one-out")


def _cache_note(data: CaseData) -> list[str]:
    return [StandingNote(data.cache_note)] * bool(data.cache_note)


def _same_code_note(data: CaseData, names: Sequence[str]) -> list[str]:
    """Return the note on measured variants that the device's compiler makes the same machine code of as of their parents."""
    pairs = "; ".join(
        f"{name} and {data.readings[name].parent}, since {data.same_code[name]}"
        for name in names
        if name in data.same_code and name in data.readings
    )
    tested = f"In the tests of this book {data.compiler} makes one machine code of a variant and its parent, always or at times"
    return [f"{tested}. Where it does, their times differ by noise alone: {pairs}."] * bool(pairs)


def _with_controls(order: Sequence[str], readings: Mapping[str, Reading]) -> list[str]:
    """Return the ladder's names, each followed by its A/A control if one was measured."""
    controls: dict[str | None, list[str]] = {}
    for name, reading in readings.items():
        if reading.role == "again" and name not in order:
            controls.setdefault(reading.parent, []).append(name)
    return [listed for name in order for listed in (name, *controls.get(name, []))]


def _bound_notes(bounds: Mapping[str, Bound], readings: Sequence[Reading], unit: str) -> list[str]:
    """Return the notes on the bound of each dtype and of variants with a bound of their own, and on dtypes without one."""

    def limit(floor: Bound) -> str:
        memory = floor.roof == "memory"
        rate = (
            show.quantity(floor.bandwidth, "B/s")
            if memory
            else show.quantity(floor.flops, f"{work_unit(floor.roof)}/s")
        )
        return f"{show.duration(floor.seconds)}, by {'memory' if memory else 'arithmetic'} ({rate})"

    dtypes, names_by_limit = (
        dict.fromkeys(str(text_field(reading.row, "dtype")) for reading in readings),
        defaultdict[str, list[str]](list),
    )
    for name in dict.fromkeys(reading.variant for reading in readings):
        if name in bounds:
            names_by_limit[limit(bounds[name])].append(name)
    limits = [f"{dtype} {limit(bounds[dtype])}" for dtype in dtypes if dtype in bounds]
    fewer = [f"{', '.join(names)} {text}" for text, names in names_by_limit.items()]
    several_gpus = " or run on several GPUs" * any(
        reading.facts.get("devices", 1) > 1 and reading.variant in bounds for reading in readings
    )
    lacking = [dtype for dtype in dtypes if dtype not in bounds]
    above = {
        reading.variant: floor
        for reading in readings
        if (floor := bound_of(bounds, reading)) and is_above_bound(floor, reading)
    }
    times = {reading.variant: reading.median for reading in readings}
    beyond = ", ".join(f"{name} {show.number(floor.seconds / times[name])}\u00d7" for name, floor in above.items())
    return [
        *[f"Bound per {unit}: {'; '.join(limits)}."] * bool(limits),
        *[f"Bound of variants that move fewer bytes{several_gpus}: {'; '.join(fewer)}."] * bool(fewer),
        *[f"'above': faster than its bound, so the bound is wrong: {ABOVE_REASON}. How many times as fast: {beyond}."]
        * bool(above),
        *[f"No bound, because the peak was not measured: {', '.join(lacking)}."] * bool(lacking),
    ]
