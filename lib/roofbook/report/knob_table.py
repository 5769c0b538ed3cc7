"""Table of steps with other values of their knobs, as `roofbook rerun --knob` measures them."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from ..analysis import format as show
from ..analysis.readings import Reading, Speedup, cases_of, faster, newest
from ..errors import UsageError
from .columns import Column, Line, ratio_column, samples_column, table_of_readings, time_column
from .html import Cell, Table
from .ladder_table import notes_of

if TYPE_CHECKING:
    import pandas as pd


def turned_knobs(rows: "pd.DataFrame", listed: Collection[str], lab: str) -> Table:
    """Return a table with a line for each step with other knobs on each case: its time, and the ratio to the step itself.

    rows: store rows of the lab on a device. listed: variants of the lab, among them the points of its own sweeps, which are
    left out. Errors: UsageError, with the command that measures one, if there is none.
    """
    by_case = {case: newest(rows, case) for case in cases_of(rows)}
    lines_of = [
        (case, reading)
        for case, readings in by_case.items()
        for reading in readings.values()
        if reading.role == "sweep" and reading.variant not in listed
    ]
    if not lines_of:
        raise UsageError(
            f"no step with other knobs was measured here; `roofbook rerun {lab} STEP CASE --knob NAME=VALUE` measures one"
        )
    good = [reading for _, reading in lines_of if reading.ok]

    def ratio(reading: Reading) -> Speedup | None:
        return faster(by_case[str(reading.row["case"])].get(reading.parent or ""), reading)

    columns = [
        Column[Reading]("Case", lambda reading: str(reading.row["case"])),
        time_column(str(lines_of[0][1].row["unit"]), show.time_unit(reading.median for reading in good)),
        ratio_column("vs_parent", "vs the step", good, ratio),
        samples_column(),
    ]
    lines = [
        Line(
            Cell(reading.variant, small=f"({case})" * (not reading.ok)), reading.variant, reading, fields={"case": case}
        )
        for case, reading in lines_of
    ]
    return table_of_readings("Steps with other knobs", "Step", columns, lines, notes_of(good), "knobs")
