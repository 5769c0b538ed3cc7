"""Tables of what runs tell besides their time: the parts of it, such as copies, and what the kernels take of the device."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..analysis import format as show
from ..analysis.case_data import CaseData
from ..analysis.readings import Reading, home_of
from ..devices.backends import BACKENDS
from ..errors import UsageError
from ..measure.stats import CONFIDENCE
from .cell_format import absence, fact_cell, hosts, part_cell, where
from .columns import Column, Line, by_columns
from .html import Cell, Standing, Table

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
"""Facts of a run, as `Kernel.resources` and `occupancy` name them, and the heads of their columns."""
FIRST = ("group", "registers", "local_bytes", "spill_bytes", "occupancy")
"""Those that a page shows at once."""

AT_ONCE = 4
"""Columns of parts and facts that a page shows at once."""
RESOURCES_NOTE = Standing("Registers, spilled and private memory are per work-item, local memory is per group.")
COUNTED_BY = {"driver": "as the driver counts", "rule": "by the rule of cuda_occupancy.h"}


def parts(data: CaseData, parts: Sequence[str], facts: Mapping[str, str] | None = None, caption: str = "") -> Table:
    """One line a variant in ladder order: the median of each part of its run, per unit, then facts of the run.

    parts: names of `Runnable.parts`. facts: name in `extra` -> head of its column. `Table.frame` has the parts in seconds.
    Errors: UsageError for no parts and no facts, an unknown case or a part that is no time.
    """
    facts = facts or {}
    if not parts and not facts:
        raise UsageError("no parts to show: this lab reports only a run's time")
    mine = data.verified(data.order)
    medians = [_median(each, part) for each in mine for part in parts]
    scale = show.time_unit(seconds for seconds in medians if seconds is not None)
    unit = next((str(each.row["unit"]) for each in mine), "unit")
    columns = [_part(part, scale, unit) for part in parts] + [_fact(fact, head, mine) for fact, head in facts.items()]
    columns = [replace(column, more=at >= AT_ONCE) for at, column in enumerate(columns)]
    notes = [f"Parts are medians per {unit} with the {CONFIDENCE} interval of the median."] * bool(parts)
    return by_variant(data, columns, caption or f"Parts of a run on {data.case}", notes, "parts")


def resources(data: CaseData, caption: str = "") -> Table:
    """One line a variant in ladder order: its group, what its kernel takes, and how many groups fit at once.

    What no variant tells has no column. Errors: UsageError where none tells anything, or for an unknown case.
    """
    mine = data.verified(data.order)
    told = [(fact, head) for fact, head in RESOURCES if any(fact in each.facts for each in mine)]
    told.sort(key=lambda each: each[0] not in FIRST)
    columns = [_fact(fact, head, mine, fact not in FIRST) for fact, head in told]
    if not columns:
        raise UsageError(f"no verified variant on {data.case} reports the resources of its kernel")
    backends = dict.fromkeys(str(each.row["backend"]) for each in mine)
    reports = (Standing(each.reports) for name, each in BACKENDS.items() if name in backends)
    notes: list[str] = [RESOURCES_NOTE, *reports]
    older = [each.variant for each in mine if "occupancy" in each.facts and "occupancy_by" not in each.facts]
    notes += _counted(mine)
    notes += [
        f"By an older rule, which took all registers for one pool: the groups by registers of {', '.join(older)}."
    ] * bool(older)
    return by_variant(data, columns, caption or f"What each kernel takes on {data.case}", notes, "resources")


def _median(reading: Reading, part: str) -> float | None:
    """Seconds per unit."""
    return reading.parts_together([part]).median if part in reading.parts else None


def _part(part: str, scale: tuple[str, float], unit: str) -> Column:
    head = Cell(f"{part} ({scale[0]})", "num")
    return Column.of(
        part, head, lambda each: part_cell(each, part, scale[1]), lambda each: _median(each, part), unit=f"s per {unit}"
    )


def _fact(fact: str, head: str, readings: Sequence[Reading], more: bool = False) -> Column:
    words = any(isinstance(reading.facts.get(fact), str) for reading in readings)
    cell = _occupancy if fact == "occupancy" else lambda each: fact_cell(each, fact)
    return Column.of(fact, Cell(head, "" if words else "num"), cell, lambda each: each.facts.get(fact), more)


def _occupancy(reading: Reading) -> Cell:
    """Occupancy in per cent; a note says whose count it is."""
    if "occupancy" not in reading.facts:
        return fact_cell(reading, "occupancy")
    return Cell(show.percent(reading.facts["occupancy"]), "num")


def _counted(readings: Sequence[Reading]) -> list[str]:
    """Whose count of the occupancy it is."""
    by = {each.variant: COUNTED_BY.get(each.facts.get("occupancy_by", ""), "") for each in readings}
    names = {
        words: [name for name, told in by.items() if told == words]
        for words in dict.fromkeys(filter(None, by.values()))
    }
    if len(names) == 1:
        return [f"Occupancy is {words}." for words in names]
    return [f"Occupancy {words}: {', '.join(those)}." for words, those in names.items()]


def by_variant(data: CaseData, columns: Sequence[Column], caption: str, notes: Sequence[str], css: str) -> Table:
    """One line a variant of `data.order`: the columns of its reading, else why there are none."""
    home = home_of(reading for reading in data.found.values() if reading.ok)
    lines = [
        Line(Cell(name, small=where(reading, home)), name, reading, absence(name, data.skip_reasons))
        for name in data.order
        for reading in [data.found.get(name)]
    ]
    noted = [*notes, *hosts((data.found[name] for name in data.order if name in data.found), home)]
    return by_columns(caption, "Variant", columns, lines, noted, css)
