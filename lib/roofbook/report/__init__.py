"""Tables and figures for the notebooks and pages: store rows in, HTML and inline SVG out.

Nothing here reads a store or asks a device. Figures import matplotlib only when drawn; tables need pandas alone.
"""

from .answer_box import answer
from .bars import ladder_chart
from .claims_table import claim_measurements, claims
from .counters_table import counters
from .demonstration import demonstration
from .failed_claims import failed_claims
from .figure import Figure
from .html import Html, Table, html_diff, html_source
from .ladder_descent import descent, glance
from .ladder_table import ladder, leave_one_out, sweep
from .peaks_table import bandwidths, peaks
from .peers_table import peers
from .published_table import published
from .roofs import roofline_chart
from .run_parts import parts, resources
from .series import crossings, series
from .status import card, failed, states
from .step_pairs import pairs
from .sweeps import heat_map, line_sweep, sweep_grid

__all__ = [
    "Figure",
    "Html",
    "Table",
    "answer",
    "bandwidths",
    "card",
    "claim_measurements",
    "claims",
    "counters",
    "crossings",
    "demonstration",
    "descent",
    "failed",
    "failed_claims",
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
    "peaks",
    "peers",
    "published",
    "resources",
    "roofline_chart",
    "series",
    "states",
    "sweep",
    "sweep_grid",
]
