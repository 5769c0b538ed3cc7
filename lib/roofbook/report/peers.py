"""How far the best rungs of the book are from what a user would pick instead: a line a peer."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from roofbook.report import units as show
from roofbook.report.cells import SAME, ratio_cell, time_cell
from roofbook.report.html import Cell, Table
from roofbook.report.parts import Column, by_variant
from roofbook.report.readings import Ratio, Reading, faster, fastest, newest, said
from roofbook.report.tables import FEW_NOTE, ROUND_NOTE, TIME_NOTE

if TYPE_CHECKING:
    import pandas as pd

NOTE = f"vs peer: how many times as fast as the peer the kernel is, with the 95 % interval; {SAME}."


def peers(
    rows: "pd.DataFrame",
    names: Sequence[str],
    *,
    case: str,
    elsewhere: Collection[str] | Mapping[str, str] = (),
    changes: Mapping[str, str] | None = None,
    caption: str = "",
) -> Table:
    """One line a peer: its time, the fastest rung that multiplies the same dtype, the fastest of all, and both ratios.

    rows: store rows of one lab (any cases); the newest of a variant counts, and only a verified one has a time. names: of the
    peers, in order. elsewhere: peers that cannot run here, or each with the words for it. changes: peer -> what it is, for a
    last column. `Table.frame` has the time in seconds and each ratio as peer / rung, above 1 where the rung is faster.
    Errors: UsageError for an unknown case or a sample that is no time.
    """
    found = newest(rows, case)
    mine = [found[name] for name in names if name in found and found[name].ok]
    rungs = [each for each in found.values() if each.ok and each.role == "step"]
    alike = {dtype: fastest(each for each in rungs if _dtype(each) == dtype) for dtype in map(_dtype, mine)}
    first = fastest(rungs)
    name, seconds = show.time_unit(reading.median for reading in mine)
    unit = next((str(reading.row["unit"]) for reading in mine), "unit")

    def beside(of: Mapping[str, Reading | None], rung: str, ratio: str, head: str, lack: str) -> list[Column]:
        """Two columns: the rung that stands beside the peers of a dtype, and how much faster it is."""

        def named(peer: Reading) -> Cell:
            chosen = of[_dtype(peer)]
            return Cell(chosen.variant) if chosen else Cell(show.DASH, title=lack)

        def times(peer: Reading) -> Ratio | None:
            chosen = of[_dtype(peer)]
            return faster(peer, chosen) if chosen else None

        return [
            Column(rung, Cell(head), named, lambda peer: getattr(of[_dtype(peer)], "variant", None)),
            Column(ratio, Cell("vs peer", "num"), lambda peer: ratio_cell(times(peer), lack),
                   lambda peer: getattr(times(peer), "estimate", None)),
        ]  # fmt: skip

    columns = [
        Column(
            "seconds",
            Cell(f"Time per {unit} ({name})", "num"),
            lambda peer: time_cell(peer, seconds),
            lambda peer: peer.median,
        ),
        Column("dtype", Cell("Precision"), lambda peer: Cell(_dtype(peer)), _dtype),
        *beside(alike, "rung", "ratio", "Fastest in this precision", "no step in this precision has a time here"),
        *beside(
            dict.fromkeys(alike, first), "fastest", "ratio_of_fastest", "Fastest kernel", "no step has a time here"
        ),
    ]
    if told := changes:
        columns.append(Column("what", Cell("What it is"), lambda peer: Cell(told[peer.variant]), lambda _: None))
    notes = [TIME_NOTE, NOTE, ROUND_NOTE] + [FEW_NOTE] * any(reading.few for reading in mine)
    return by_variant(found, names, columns, elsewhere, caption or f"Peers on {case}", notes, "peers")


def _dtype(reading: Reading) -> str:
    return said(reading.row, "dtype") or "float32"
