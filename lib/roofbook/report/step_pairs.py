"""What the changes that a page tells of are worth: steps against each other, all cases side by side."""

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


def pairs(rows: "pd.DataFrame", told: "Pairs", *, cases: Sequence[str], caption: str = "") -> Table:
    """One line a pair: the step, what it is compared with, how many times as fast it is on each case, and what changes.

    rows: store rows of one lab; the newest of a variant counts, and only a verified one. Pairs that no case has both of are
    left out. `Table.frame` has a line for each ratio. Errors: UsageError where there is none, or for a sample that is no time.
    """
    import pandas as pd

    known = cases_of(rows)
    found = {case: newest(rows, case) if case in known else {} for case in cases}
    compared = {
        (one, other): {case: faster(of.get(other), of[one]) if one in of else None for case, of in found.items()}
        for _, each in told
        for one, other in each
    }
    hows = {case: usual_how(ratios[case] for ratios in compared.values()) for case in cases}
    lines, records = [], []
    for what, each in told:
        for one, other in each:
            ratios = compared[one, other]
            if any(ratios.values()):
                cells = [ratio_cell(ratio, known=hows[case]) for case, ratio in ratios.items()]
                lines.append(Row([Cell(one), Cell(other), *cells, Cell(what)]))
            records += [(what, one, other, case, ratio.estimate, ratio.low, ratio.high, ratio.same)
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
    named = dict.fromkeys(name for pair in compared for name in pair)
    notes = [RATIO_NOTE, ROUND_NOTE, *run_notes(of[name] for of in found.values() for name in named if name in of)]
    return Table(caption or "Steps compared", columns, lines, frame, notes, "pairs")
