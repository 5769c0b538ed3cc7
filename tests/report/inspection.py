"""Parts of a report that several tests read: a line of a table, the axes of a figure, the chart of bandwidths."""

import re
from typing import Any

from roofbook import report
from roofbook.analysis.case_data import CaseData
from roofbook.analysis.roofline import Peaks
from roofbook.labs.stencil.bandwidth import bandwidth_chart

from .rows import bandwidth_rows


def line(table: report.Table, name: str) -> str:
    """Return the HTML of one line of a table."""
    match = re.search(rf'<tr[^>]*><th scope="row"[^>]*>{re.escape(name)}[ <].*?</tr>', table.html, re.DOTALL)
    assert match, name
    return match[0]


def axes(figure: report.Figure) -> Any:
    (only,) = figure.drawing.axes
    return only


COPY = Peaks([(2**20, 9e12), (2**23, 8.7e12), (2**27, 4e12), (2**15, 90e12)], {"float32": 6e13})
STEPS = ["cpu", "plain", "wide", "cached", "broken", "idle", "elsewhere", "missing", "library"]


def bandwidths(**settings: Any) -> report.Figure:
    defaults: dict[str, Any] = {
        "rows": bandwidth_rows(),
        "order": STEPS,
        "case": "256x256",
        "peaks": COPY,
        "working_set": 1e9,
        "skip_reasons": {"elsewhere": "no fp64"},
    }
    return bandwidth_chart(CaseData(**defaults | settings))
