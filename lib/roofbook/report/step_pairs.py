"""Table of the changes that a page describes: one step against another, all cases side by side."""

from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

from ..analysis.readings import Speedup, cases_of, faster, newest
from ..errors import UsageError
from .cell_format import run_notes
from .columns import Column, ratio_column, table
from .html import Table
from .ladder_table import RATIO_NOTE, ROUND_NOTE

if TYPE_CHECKING:
    import pandas as pd

    from ..analysis.publication import Pairs


Pair = tuple[str, str, str]
"""Topic of a comparison, its step, and the step that it is compared with."""


def pairs(rows: "pd.DataFrame", topics: "Pairs", *, cases: Sequence[str]) -> Table:
    """Return a table with a line for each pair: the step, its reference, their ratio on each case, and the change.

    rows: store rows of one lab; the newest verified one of a variant counts. topics: what changes, and its pairs. Pairs that
    were not both measured on any case are left out. `Table.frame` has a line for each ratio. Errors: UsageError if no pair is
    left, or for a sample that is no time.
    """
    measured_cases = cases_of(rows)
    readings = {case: newest(rows, case) if case in measured_cases else {} for case in cases}

    def ratio(case: str, pair: Pair) -> Speedup | None:
        _, step, reference = pair
        by_variant = readings[case]
        return faster(by_variant.get(reference), by_variant[step]) if step in by_variant else None

    compared = [(topic, step, reference) for topic, step_pairs in topics for step, reference in step_pairs]
    ratios = {pair: {case: ratio(case, pair) for case in cases} for pair in compared}
    shown = [pair for pair in compared if any(ratios[pair].values())]
    if not shown:
        raise UsageError("no two steps that the page compares have a time here")
    columns: list[Column[Pair]] = [
        Column("Step", itemgetter(1)),
        Column("Compared with", itemgetter(2)),
        *(ratio_column(case, case, shown, partial(ratio, case)) for case in cases),
        Column("What changes", itemgetter(0)),
    ]
    records = [
        dict(zip(("what", "step", "reference"), pair, strict=True))
        | {"case": case, "ratio": ratio.estimate, "low": ratio.low, "high": ratio.high, "same": ratio.same}
        for pair in shown
        for case, ratio in ratios[pair].items()
        if ratio
    ]
    names = dict.fromkeys(name for pair in compared for name in pair[1:])
    notes = [
        RATIO_NOTE,
        ROUND_NOTE,
        *run_notes(by_variant[name] for by_variant in readings.values() for name in names if name in by_variant),
    ]
    return table("Steps compared", columns, shown, notes, "pairs", records=records)
