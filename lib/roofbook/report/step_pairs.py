"""Table of the changes that a page describes: one step against another, all cases side by side."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..analysis.readings import cases_of, faster, newest
from ..errors import UsageError
from .cell_format import ratio_cell, ratio_head, run_notes, usual_how
from .html import Cell, Row, Table
from .ladder_table import RATIO_NOTE, ROUND_NOTE

if TYPE_CHECKING:
    import pandas as pd

    from ..analysis.publication import Pairs


def pairs(rows: "pd.DataFrame", topics: "Pairs", *, cases: Sequence[str], caption: str = "") -> Table:
    """Return a table with a line for each pair: the step, its reference, their ratio on each case, and the change.

    rows: store rows of one lab; the newest verified one of a variant counts. topics: what changes, and its pairs. Pairs that
    were not both measured on any case are left out. `Table.frame` has a line for each ratio. Errors: UsageError if no pair is
    left, or for a sample that is no time.
    """
    import pandas as pd

    measured_cases = cases_of(rows)
    readings = {case: newest(rows, case) if case in measured_cases else {} for case in cases}
    compared = {
        (step, reference): {
            case: faster(by_variant.get(reference), by_variant[step]) if step in by_variant else None
            for case, by_variant in readings.items()
        }
        for _, step_pairs in topics
        for step, reference in step_pairs
    }
    hows = {case: usual_how(ratios[case] for ratios in compared.values()) for case in cases}
    lines, records = [], []
    for topic, step_pairs in topics:
        for step, reference in step_pairs:
            ratios = compared[step, reference]
            if any(ratios.values()):
                cells = [ratio_cell(ratio, head_how=hows[case]) for case, ratio in ratios.items()]
                lines.append(Row([Cell(step), Cell(reference), *cells, Cell(topic)]))
            records += [(topic, step, reference, case, ratio.estimate, ratio.low, ratio.high, ratio.same)
                        for case, ratio in ratios.items() if ratio]  # fmt: skip
    if not lines:
        raise UsageError("no two steps that the page compares have a time here")
    columns = [
        Cell("Step"),
        Cell("Compared with"),
        *(ratio_head(case, hows[case]) for case in cases),
        Cell("What changes"),
    ]
    frame = pd.DataFrame(records, columns=["what", "step", "reference", "case", "ratio", "low", "high", "same"])
    names = dict.fromkeys(name for pair in compared for name in pair)
    notes = [
        RATIO_NOTE,
        ROUND_NOTE,
        *run_notes(by_variant[name] for by_variant in readings.values() for name in names if name in by_variant),
    ]
    return Table(caption or "Steps compared", columns, lines, frame, notes, "pairs")
