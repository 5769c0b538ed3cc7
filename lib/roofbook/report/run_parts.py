"""Tables of a run besides its time: its parts, such as copies, and the device's resources that its kernels take."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from ..analysis import format as show
from ..analysis.case_data import CaseData
from ..analysis.readings import Reading, home_of
from ..devices.backends import BACKENDS
from ..errors import UsageError
from ..measure.stats import CONFIDENCE
from .cell_format import absence_reason, device_note, fact_cell, host_notes, part_cell
from .columns import Column, Fields, Line, table_of_readings
from .html import Cell, StandingNote, Table

RESOURCES = (
    ("group", "Group"),
    ("groups", "Groups"),
    ("registers", "Registers"),
    ("local_bytes", "Local memory (B)"),
    ("constant_bytes", "Constant memory (B)"),
    ("spill_bytes", "Spilled (B)"),
    ("private_bytes", "Private memory (B)"),
    ("groups_by_registers", "Groups by registers"),
    ("groups_by_local_memory", "by local memory"),
    ("groups_by_work_items", "by work-items"),
    ("occupancy", "Occupancy"),
    ("work_group_limit", "Largest group"),
)
"""Facts of a run, by their names in `Kernel.resources` and `occupancy`, and the heads of their columns."""
SHOWN_FACTS = ("group", "registers", "local_bytes", "spill_bytes", "occupancy")
"""Facts that a page shows without being asked for all columns."""

SHOWN_COLUMNS = 4
"""Number of columns of parts and facts that a page shows without being asked for all columns."""
RESOURCES_NOTE = StandingNote("Registers, spilled and private memory are per work-item, local memory is per group.")
COUNTED_BY = {"driver": "as the driver counts", "rule": "by the rule of cuda_occupancy.h"}


def parts(data: CaseData, parts: Sequence[str], facts: Mapping[str, str] | None = None) -> Table:
    """Return a table with a line for each variant in ladder order: the median of each part of its run, then facts of the run.

    parts: names of `Runnable.parts`. facts: name in `extra` -> head of its column. Times are per unit; `Table.frame` has them
    in seconds. Errors: UsageError for no parts and no facts, for an unknown case, and for a part that is no time.
    """
    facts = facts or {}
    if not parts and not facts:
        raise UsageError("no parts to show: this lab reports only a run's time")
    readings = data.verified(data.order)
    medians = [_median(part, reading) for reading in readings for part in parts]
    scale = show.time_unit(seconds for seconds in medians if seconds is not None)
    unit = next((str(reading.row["unit"]) for reading in readings), "unit")
    columns = [_part_column(part, scale, unit) for part in parts] + [
        _fact_column(fact, head, readings) for fact, head in facts.items()
    ]
    columns = [replace(column, on_demand=index >= SHOWN_COLUMNS) for index, column in enumerate(columns)]
    notes = [f"Parts are medians per {unit} with the {CONFIDENCE} interval of the median."] * bool(parts)
    return table_by_variant(data, columns, f"Parts of a run on {data.case}", notes, "parts")


def resources(data: CaseData) -> Table:
    """Return a table with a line for each variant in ladder order: its group, the resources of its kernel, its occupancy.

    A fact that no variant reports has no column. Errors: UsageError if no variant reports any, and for an unknown case.
    """
    readings = data.verified(data.order)
    reported = [(fact, head) for fact, head in RESOURCES if any(fact in reading.facts for reading in readings)]
    reported.sort(key=lambda fact_head: fact_head[0] not in SHOWN_FACTS)
    columns = [_fact_column(fact, head, readings, fact not in SHOWN_FACTS) for fact, head in reported]
    if not columns:
        raise UsageError(f"no verified variant on {data.case} reports the resources of its kernel")
    backends = dict.fromkeys(str(reading.row["backend"]) for reading in readings)
    reports = (StandingNote(backend.reports) for name, backend in BACKENDS.items() if name in backends)
    notes: list[str] = [RESOURCES_NOTE, *reports]
    old_rule = [
        reading.variant for reading in readings if "occupancy" in reading.facts and "occupancy_by" not in reading.facts
    ]
    notes += _occupancy_note(readings)
    notes += [
        f"By an older rule, which took all registers for one pool: the groups by registers of {', '.join(old_rule)}."
    ] * bool(old_rule)
    return table_by_variant(data, columns, f"What each kernel takes on {data.case}", notes, "resources")


def _median(part: str, reading: Reading) -> float | None:
    """Return the median of a part in seconds per unit; None if the run has no such part."""
    return reading.parts_together([part]).median if part in reading.parts else None


def _part_column(part: str, scale: tuple[str, float], unit: str) -> Column[Reading]:
    head, fields = f"{part} ({scale[0]})", {part: partial(_median, part)}
    return Column(head, lambda reading: part_cell(reading, part, scale[1]), "num", fields, f"s per {unit}")


def _fact_column(fact: str, head: str, readings: Sequence[Reading], on_demand: bool = False) -> Column[Reading]:
    words = any(isinstance(reading.facts.get(fact), str) for reading in readings)
    cell = _occupancy_cell if fact == "occupancy" else partial(fact_cell, fact=fact)
    fields: Fields[Reading] = {fact: lambda reading: reading.facts.get(fact)}
    return Column(head, cell, "" if words else "num", fields, on_demand=on_demand)


def _occupancy_cell(reading: Reading) -> Cell:
    """Return the cell of the occupancy in per cent. A note says who counted it."""
    if "occupancy" not in reading.facts:
        return fact_cell(reading, "occupancy")
    return Cell(show.percent(reading.facts["occupancy"]), "num")


def _occupancy_note(readings: Sequence[Reading]) -> list[str]:
    """Return the note that says who counted the occupancy."""
    counted_by = {reading.variant: COUNTED_BY.get(reading.facts.get("occupancy_by", ""), "") for reading in readings}
    names = {
        words: [name for name, counted in counted_by.items() if counted == words]
        for words in dict.fromkeys(filter(None, counted_by.values()))
    }
    if len(names) == 1:
        return [f"Occupancy is {words}." for words in names]
    return [f"Occupancy {words}: {', '.join(variants)}." for words, variants in names.items()]


def table_by_variant(
    data: CaseData, columns: Sequence[Column[Reading]], caption: str, notes: Sequence[str], css: str
) -> Table:
    """Return a table with a line for each variant of `data.order`: the columns of its reading, or why it has none."""
    home = home_of(reading for reading in data.readings.values() if reading.ok)
    lines = [
        Line(Cell(name, small=device_note(reading, home)), name, reading, absence_reason(name, data.skip_reasons))
        for name in data.order
        for reading in [data.readings.get(name)]
    ]
    noted = [*notes, *host_notes((data.readings[name] for name in data.order if name in data.readings), home)]
    return table_of_readings(caption, "Variant", columns, lines, noted, css)
