"""Table of peers: each library beside the best steps of the book."""

from collections.abc import Mapping, Sequence

from ..analysis import format as show
from ..analysis.case_data import CaseData
from ..analysis.readings import Reading, Speedup, faster, fastest, text_field
from ..analysis.sentences import joined
from ..measure.stats import CONFIDENCE
from .cell_format import INTERVAL_WORDS
from .columns import Column, attributes, ratio_column, time_column
from .html import Cell, StandingNote, Table
from .ladder_table import notes_of
from .run_parts import table_by_variant

NOTE = StandingNote(
    "Best step like it: the fastest of those steps in the peer's precision that differ least from it in work and timing. "
    "The last column names the differences that remain. "
    f"vs peer: how many times as fast as the peer the step is, with its {CONFIDENCE} interval; {INTERVAL_WORDS}."
)


def peers(data: CaseData) -> Table:
    """Return a table with a line for each library: its time, the step nearest to it, the fastest step, and both ratios.

    Only a verified row has a time. `Table.frame` has the time in seconds and each ratio as library / step, above 1 if the
    step is faster. Errors: UsageError for an unknown case or a sample that is no time.
    """
    timed = data.verified(data.peers)
    steps = [reading for reading in data.readings.values() if reading.ok and reading.role == "step"]
    nearest, fastest_step = {peer.variant: data.nearest(peer, steps) for peer in timed}, fastest(steps)
    scale = show.time_unit(reading.median for reading in timed)
    columns = [
        time_column(data.unit([peer.variant for peer in timed]), scale),
        Column("Precision", lambda peer: _precision(data, peer), fields={"dtype": _dtype}),
        *_step_columns(data, timed, nearest, "step", "ratio"),
        *_step_columns(
            data, timed, dict.fromkeys(nearest, fastest_step), "fastest", "ratio_of_fastest", on_demand=True
        ),
    ]

    def description(peer: Reading) -> Cell:
        return Cell(
            data.changes.get(peer.variant, ""), "change", small=_differences_text(data, peer, nearest[peer.variant])
        )

    if data.changes or any(description(peer).small for peer in timed):
        columns.insert(-2, Column(Cell("What it is", "below"), description))
    notes = notes_of(timed, NOTE)
    return table_by_variant(data.with_order(data.peers), columns, f"Peers on {data.case}", notes, "peers")


STEP_HEADS = {
    "step": ("Best step like it", "(no step in this precision has a time here)"),
    "fastest": ("Fastest step", "(no step has a time here)"),
}
"""Field of a step -> head of its column, and small print for a library without one."""


def _step_columns(
    data: CaseData,
    peers: Sequence[Reading],
    steps_by_peer: Mapping[str, Reading | None],
    name: str,
    ratio: str,
    on_demand: bool = False,
) -> list[Column[Reading]]:
    """Return two columns: the step of `steps_by_peer` for each library, and how many times as fast it is."""
    head, lack = STEP_HEADS[name]

    def step_of(peer: Reading) -> Reading | None:
        return steps_by_peer[peer.variant]

    def step_cell(peer: Reading) -> Cell:
        step = step_of(peer)
        if not step:
            return Cell(show.DASH, small=lack)
        return Cell(step.variant, small=_differences_text(data, peer, step) if on_demand else "")

    def times(peer: Reading) -> Speedup | None:
        step = step_of(peer)
        return faster(peer, step) if step else None

    return [
        Column(head, step_cell, fields=attributes(step_of, {name: "variant"}), on_demand=on_demand),
        ratio_column(ratio, "vs peer", peers, times, on_demand=on_demand),
    ]


def _differences_text(data: CaseData, peer: Reading, step: Reading | None) -> str:
    """Return '(the peer leaves results channels-last; the step ...)': the conditions in which they differ; '' for none."""
    sides = data.unlike(peer.variant, step.variant) if step else ([], [])
    clauses = [
        f"the {side} {joined(conditions)}"
        for side, conditions in zip(("peer", "step"), sides, strict=True)
        if conditions
    ]
    return f"({'; '.join(clauses)})" if clauses else ""


def _precision(data: CaseData, peer: Reading) -> Cell:
    """Return the cell of a peer's precision; small print names another one that it is as exact as (split operands)."""
    dtype, exact_as = _dtype(peer), data.precision(peer)
    return Cell(dtype, small=f"(as exact as {exact_as})" if exact_as != dtype else "")


def _dtype(reading: Reading) -> str:
    return text_field(reading.row, "dtype") or "float32"
