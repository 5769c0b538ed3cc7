"""Tables and figures for the notebooks and pages: store rows in, HTML and inline SVG out.

Nothing here reads a store or asks a device. Figures import matplotlib only when drawn; tables need pandas alone.
"""

from .answer_box import answer as answer
from .bars import ladder_chart as ladder_chart
from .claims_table import claim_measurements as claim_measurements
from .claims_table import claims as claims
from .counters_table import counters as counters
from .demonstration import demonstration as demonstration
from .failed_claims import failed_claims as failed_claims
from .figure import Figure as Figure
from .html import Html as Html
from .html import Table as Table
from .html import html_diff as html_diff
from .html import html_source as html_source
from .knob_table import turned_knobs as turned_knobs
from .ladder_descent import descent as descent
from .ladder_descent import glance as glance
from .ladder_table import ladder as ladder
from .ladder_table import leave_one_out as leave_one_out
from .ladder_table import sweep as sweep
from .ladder_table import sweep_readings as sweep_readings
from .opening_figure import opening as opening
from .peaks_table import bandwidths as bandwidths
from .peaks_table import peaks as peaks
from .peers_table import peers as peers
from .published_table import published as published
from .published_table import unlike_published as unlike_published
from .roofs import roofline_chart as roofline_chart
from .run_parts import parts as parts
from .run_parts import resources as resources
from .series import crossings as crossings
from .series import series as series
from .status import card as card
from .status import failed as failed
from .status import states as states
from .step_pairs import pairs as pairs
from .sweeps import heat_map as heat_map
from .sweeps import line_sweep as line_sweep
from .sweeps import median_notes as median_notes
from .sweeps import point_bars as point_bars
from .sweeps import sweep_grid as sweep_grid
from .sweeps import sweep_kind as sweep_kind
from .sweeps import worth_bars as worth_bars
