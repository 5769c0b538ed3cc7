"""Tables of what runs tell besides their time: the parts of it, such as copies, and what the kernels take of the device."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..analysis.readings import Reading, home_device, newest
from ..devices.backends import BACKENDS
from ..errors import UsageError
from ..measure import stats
from . import format as show
from .cells import absence, fact_cell, hosts, no_time, part_cell, where
from .html import Cell, Row, Table

if TYPE_CHECKING:
    import pandas as pd

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

RESOURCES_NOTE = "Registers, spilled and private memory are those of a work-item, local memory is that of a group."


@dataclass(frozen=True)
class Column:
    """name: of the column in `Table.frame`. cell, value: what the table and the frame say of a verified reading."""

    name: str
    head: Cell
    cell: Callable[[Reading], Cell]
    value: Callable[[Reading], Any]


def parts(
    rows: "pd.DataFrame",
    order: Sequence[str],
    *,
    case: str,
    parts: Sequence[str],
    facts: Mapping[str, str] | None = None,
    elsewhere: Collection[str] | Mapping[str, str] = (),
    caption: str = "",
) -> Table:
    """One line a variant in ladder order: the median of each part of its run, per unit, then facts of the run.

    parts: names of `Runnable.parts`. facts: name in `extra` -> head of its column. elsewhere: variants that this backend
    cannot run, or each with the words for it. `Table.frame` has the parts in seconds. UsageError for no parts and no
    facts, an unknown case or a part that is no time.
    """
    facts = facts or {}
    if not parts and not facts:
        raise UsageError("no parts to show: this lab tells a run's time alone")
    found = newest(rows, case)
    mine = [found[name] for name in order if name in found and found[name].ok]
    medians = [_median(each, part) for each in mine for part in parts]
    scale = show.time_unit(seconds for seconds in medians if seconds is not None)
    unit = next((str(each.row["unit"]) for each in mine), "unit")
    columns = [_part(part, scale) for part in parts] + [_fact(fact, head, mine) for fact, head in facts.items()]
    notes = [f"Parts are medians per {unit}; the 95 % interval of each is in its tooltip."] * bool(parts)
    return by_variant(found, order, columns, elsewhere, caption or f"Parts of a run on {case}", notes, "parts")


def resources(
    rows: "pd.DataFrame",
    order: Sequence[str],
    *,
    case: str,
    elsewhere: Collection[str] | Mapping[str, str] = (),
    caption: str = "",
) -> Table:
    """One line a variant in ladder order: its group, what its kernel takes, and how many groups fit at once.

    What no variant tells has no column. UsageError where none tells anything, or for an unknown case.
    """
    found = newest(rows, case)
    mine = [found[name] for name in order if name in found and found[name].ok]
    columns = [_fact(fact, head, mine) for fact, head in RESOURCES if any(fact in each.facts for each in mine)]
    if not columns:
        raise UsageError(f"no verified variant on {case} tells what its kernel takes")
    backends = dict.fromkeys(str(each.row["backend"]) for each in mine)
    notes = [RESOURCES_NOTE] + [each.reports for name, each in BACKENDS.items() if name in backends]
    caption = caption or f"What each kernel takes on {case}"
    return by_variant(found, order, columns, elsewhere, caption, notes, "resources")


def _median(reading: Reading, part: str) -> float | None:
    """Seconds per unit."""
    return stats.median_ci(reading.parts[part]).estimate if part in reading.parts else None


def _part(part: str, scale: tuple[str, float]) -> Column:
    head = Cell(f"{part} ({scale[0]})", "num")
    return Column(part, head, lambda each: part_cell(each, part, scale[1]), lambda each: _median(each, part))


def _fact(fact: str, head: str, readings: Sequence[Reading]) -> Column:
    words = any(isinstance(reading.facts.get(fact), str) for reading in readings)
    cell = _occupancy if fact == "occupancy" else lambda each: fact_cell(each, fact)
    return Column(fact, Cell(head, "" if words else "num"), cell, lambda each: each.facts.get(fact))


def _occupancy(reading: Reading) -> Cell:
    """Occupancy in per cent."""
    told = fact_cell(reading, "occupancy")
    return told if told.title else Cell(show.percent(reading.facts["occupancy"]), "num")


def by_variant(
    found: Mapping[str, Reading],
    order: Sequence[str],
    columns: Sequence[Column],
    elsewhere: Collection[str] | Mapping[str, str],
    caption: str,
    notes: Sequence[str],
    css: str,
) -> Table:
    """One line a variant of `order`: the columns of its reading, else why there are none."""
    import pandas as pd

    home = home_device(reading for reading in found.values() if reading.ok)
    lines, records = [], []
    for name in order:
        reading = found.get(name)
        head = Cell(name, small=where(reading, home))
        if reading is None or not reading.ok:
            lack = absence(name, elsewhere)
            lines.append(no_time([head], reading, len(columns), lack))
            records.append({
                "variant": name, "status": "failed" if reading else "missing", "reason": reading.why if reading else lack
            })  # fmt: skip
            continue
        lines.append(Row([head, *(column.cell(reading) for column in columns)]))
        records.append({"variant": name, "status": "ok"} | {column.name: column.value(reading) for column in columns})
    frame = pd.DataFrame(records, columns=["variant", "status", "reason", *(column.name for column in columns)])
    told = [*notes, *hosts((found[name] for name in order if name in found), home)]
    return Table(caption, [Cell("Variant"), *(column.head for column in columns)], lines, frame, told, css)
