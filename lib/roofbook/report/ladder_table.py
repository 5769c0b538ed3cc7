"""Tables of times: the ladder, sweeps, and the worth of each optimisation. No number comes from an unverified row."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
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
    launch_notes,
    native_notes,
    run_notes,
    share_cell,
    time_cell,
    time_ratio_notes,
)  # fmt: skip
from .columns import Column, Fields, Line, ratio_column, samples_column, table_of_readings, time_column
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
MARK = " \u00b7 "
"""Sign between the marks of a step."""
CONTROL = "A/A control: the same step, measured again"


def ladder(data: CaseData) -> Table:
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
    home = home_of(good)
    libraries = _libraries(data, good, home)
    lines_of_steps = [name for name in names if name not in readings or readings[name].role != "again"]
    before = dict(zip(lines_of_steps[1:], lines_of_steps, strict=False))

    def changed(name: str) -> Cell:
        reading = readings.get(name)
        if reading and reading.role == "again":
            return Cell(data.changes.get(name, CONTROL), "change")
        parent = reading.parent if reading else None
        small = f"(over {parent})" if parent and before.get(name) != parent else ""
        return Cell(data.changes.get(name, ""), "change", small=small)

    def references(reading: Reading) -> list[Reading | None]:
        return [readings.get(reading.parent or ""), _library(data, reading, libraries), readings.get(base)]

    columns = [
        time_column(unit, scale),
        ratio_column(
            "vs_parent",
            "vs step before",
            good,
            lambda reading: faster(readings.get(reading.parent or ""), reading),
        ),
    ]
    vs_base = ratio_column(
        "vs_base",
        f"vs {base}",
        good,
        lambda reading: None if reading.variant == base else faster(readings.get(base), reading),
        lambda reading: "base" * (reading.variant == base),
        on_demand=bool(libraries),
    )
    columns.append(_library_column(data, good, libraries) if libraries else vs_base)
    if data.bounds is not None:
        columns.append(_share_column(data.bounds))
    columns.append(Column(Cell("What changed", "below"), lambda reading: changed(reading.variant), always=changed))
    columns += [vs_base] * bool(libraries)
    columns += [_rate_column(*data.rate)] if data.rate else []
    columns += [_error_column(), samples_column()]
    first = fastest(reading for reading in good if reading.role in ("step", "base", "peer", "dsl"))
    lines = []
    for name in names:
        reading = readings.get(name)
        role = {"step": "", "base": "", "again": "control"}.get(reading.role, reading.role) if reading else ""
        marks = " ".join(filter(None, [role, "best" if reading and reading is first else ""]))
        head = Cell(
            name, small=" ".join(filter(None, [device_note(reading, home), MARK.join(data.marks.get(name, ()))]))
        )
        lines.append(Line(head, name, reading, absence_reason(name, data.skip_reasons), marks))
    notes = [
        *notes_of(good, pairs=((reference, reading) for reading in good for reference in references(reading))),
        *_library_note(data, libraries, good, home),
        *data.stands_in,
        *_cache_note(data),
        *_same_code_note(data, names),
    ]
    if data.bounds is not None:
        notes += _bound_notes(data.bounds, [reading for reading in good if reading.role != "probe"], unit)
    notes += [*native_notes(good), *host_notes(good, home)]
    return table_of_readings(f"The ladder on {data.case}", "Variant", columns, lines, notes, "ladder")


def notes_of(
    readings: Sequence[Reading], ratios: str = RATIO_NOTE, pairs: Iterable[tuple[Reading | None, Reading | None]] = ()
) -> list[str]:
    """Return the notes of a table with times and ratios of these readings.

    ratios: the note that explains the ratios. pairs: reference and reading of each ratio of which the table shows both times.
    """
    few = [FEW_NOTE] * any(reading.few for reading in readings)
    return [TIME_NOTE, ratios, ROUND_NOTE, *run_notes(readings), *time_ratio_notes(pairs), *few]


def _rate_column(amount: float, name: str) -> Column[Reading]:
    return Column(
        name,
        lambda reading: Cell(show.number(amount / reading.median), "num", card_id=reading.id),
        "num",
        {"rate": lambda reading: amount / reading.median, "rate_unit": lambda _: name},
        on_demand=True,
    )


def _error_column() -> Column[Reading]:
    fields: Fields[Reading] = {
        "error": lambda reading: number_field(reading.row, "error"),
        "bound": lambda reading: number_field(reading.row, "bound"),
    }
    return Column("Error / allowed", check_cell, "num", fields, on_demand=True)


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


def _library_column(data: CaseData, readings: Sequence[Reading], libraries: Mapping[str, Reading]) -> Column[Reading]:
    """Return the column of the ratios to the library of each reading's precision; its head names it if there is only one."""
    names = {library.variant for library in libraries.values()}
    return ratio_column(
        "vs_library",
        f"vs {names.pop()}" if len(names) == 1 else "vs library",
        readings,
        lambda reading: faster(_library(data, reading, libraries), reading),
        lambda reading: "library" * (reading is _library(data, reading, libraries)),
    )


def _share_column(bounds: Mapping[str, Bound]) -> Column[Reading]:
    def share(reading: Reading) -> float | None:
        floor = bound_of(bounds, reading) if reading.role != "probe" else None
        return floor.share_of(reading.median) if floor else None

    def cell(reading: Reading) -> Cell:
        return share_cell(bound_of(bounds, reading), reading)

    return Column("Of the bound", cell, "num", {"share": share})


def sweep(data: CaseData, axis: str) -> Table:
    """Return a table with a line for each point of a sweep over `axis`: its time, its ratios to the variant and the best point.

    Every point that is 'same' as the fastest is marked.
    """
    readings, parent = sweep_readings(data.rows, axis, data.case)
    swept_reading = data.readings.get(parent)
    good = [reading for reading in readings.values() if reading.ok]
    first = fastest(good)
    unit = next((str(reading.row["unit"]) for reading in readings.values()), "unit")
    to_first = {reading.variant: faster(first, reading) for reading in good}

    def is_best(reading: Reading) -> bool:
        ratio = to_first.get(reading.variant)
        return reading is first or (ratio is not None and ratio.same)

    columns = [
        time_column(unit, show.time_unit(reading.median for reading in good)),
        samples_column(),
        ratio_column("vs_parent", f"vs {parent}", good, partial(faster, swept_reading)),
        ratio_column(
            "vs_base",
            "vs fastest",
            good,
            lambda reading: to_first[reading.variant],
            lambda reading: "fastest" * (reading is first),
        ),
    ]
    lines = [
        Line(Cell(point), reading.variant, reading, css="best" * is_best(reading), fields={"point": point})
        for point, reading in readings.items()
    ]
    untimed = [f"{parent} has no time here."] * (swept_reading is None or not swept_reading.ok)
    pairs = ((first, reading) for reading in good)
    notes = [*notes_of(good, pairs=pairs), *untimed, *_cache_note(data)]
    return table_of_readings(f"{parent}: sweep of {axis} on {data.case}", axis, columns, lines, notes, "sweep")


def sweep_readings(rows: "pd.DataFrame", axis: str, case: str) -> tuple[dict[str, Reading], str]:
    """Return the newest reading of each point of the sweep over `axis`, in order, and the name of the swept variant.

    Errors: UsageError if no variant was swept over it, or several.
    """
    readings = newest(rows, case, ["sweep"]).values()
    swept = dict.fromkeys((str(reading.parent), text_field(reading.row, "axis")) for reading in readings)
    parents = [parent for parent, swept_axis in swept if swept_axis == axis]
    if len(parents) != 1:
        measured = "; ".join(f"{parent} over {swept_axis}" for parent, swept_axis in swept) or "none"
        raise UsageError(f"no single sweep over {axis!r} on {case}; measured sweeps: {measured}")
    by_point = {str(reading.row["point"]): reading for reading in readings if text_field(reading.row, "axis") == axis}
    return {point: by_point[point] for point in points_in_order(by_point)}, parents[0]


def leave_one_out(data: CaseData, without: Mapping[str, str], best: str) -> Table:
    """Return a table of the worth of each optimisation in the best version: its time without it over its time with it.

    without: optimisation -> name of the variant that is `best` without it. Above 1: the optimisation helps.
    """
    readings = data.readings
    best_reading = readings.get(best)
    timed = data.verified([best, *without.values()])
    scale = show.time_unit(reading.median for reading in timed)
    unit = next((str(reading.row["unit"]) for reading in readings.values()), "unit")

    def worth(reading: Reading) -> Speedup | None:
        return faster(reading, best_reading) if best_reading and reading is not best_reading else None

    columns = [
        Column(f"With, per {unit} ({scale[0]})", lambda _: time_cell(readings[best], scale[1]), "num"),
        time_column(unit, scale, "Without ({name})"),
        samples_column(),
        ratio_column("worth", "Worth", timed, worth),
    ]
    lines = []
    for label, name in without.items():
        broken = best_reading is None or not best_reading.ok
        reading = best_reading if broken else readings.get(name)
        lines.append(Line(Cell(label), name, reading, fields={"optimisation": label}))
    worth_note = StandingNote(
        f"Worth: the time without it over the time with it, with its {CONFIDENCE} interval; {INTERVAL_WORDS}."
    )
    pairs = ((reading, best_reading) for reading in timed)
    notes = [*notes_of(timed, worth_note, pairs), *_same_code_note(data, list(without.values()))]
    caption = f"{best} without one optimisation, on {data.case}"
    return table_of_readings(caption, "Optimisation", columns, lines, notes, "leave-one-out")


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
    return [f"{tested}. Where it does, the two are the same program: {pairs}."] * bool(pairs)


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
    elsewhere = any(
        bound_of(bounds, reading) is None and str(text_field(reading.row, "dtype")) in bounds for reading in readings
    )
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
        *launch_notes("'launch'", bounds, readings),
        *[f"No bound, because the peak was not measured: {', '.join(lacking)}."] * bool(lacking),
        *["Variants on the host have no bound here, nor peers that another backend calls: the peaks are not theirs."]
        * elsewhere,
    ]
