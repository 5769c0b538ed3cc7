"""Tables and figures for the notebooks and pages: store rows in, HTML and inline SVG out.

Nothing here reads a store or asks a device. Figures import matplotlib only when drawn; tables need pandas alone.
"""

from roofbook.report.bandwidth import bandwidth_chart
from roofbook.report.bars import ladder_chart
from roofbook.report.claims import behind, claims
from roofbook.report.counters import counters
from roofbook.report.glance import descent, glance
from roofbook.report.html import Html, Table, html_diff, html_source
from roofbook.report.pairs import pairs
from roofbook.report.parts import parts, resources
from roofbook.report.peers import peers
from roofbook.report.published import published_beside_ours
from roofbook.report.records import card, failed, states
from roofbook.report.roofs import roofline_chart
from roofbook.report.series import crossings, series
from roofbook.report.svg import Figure
from roofbook.report.sweeps import heat_map, line_sweep, sweep_grid
from roofbook.report.tables import ladder, leave_one_out, sweep
from roofbook.report.timeline import timeline

__all__ = [
    "Figure",
    "Html",
    "Table",
    "bandwidth_chart",
    "behind",
    "card",
    "claims",
    "counters",
    "crossings",
    "descent",
    "failed",
    "glance",
    "heat_map",
    "html_diff",
    "html_source",
    "ladder",
    "ladder_chart",
    "leave_one_out",
    "line_sweep",
    "pairs",
    "parts",
    "peers",
    "published_beside_ours",
    "resources",
    "roofline_chart",
    "series",
    "states",
    "sweep",
    "sweep_grid",
    "timeline",
]
