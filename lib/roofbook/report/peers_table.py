"""How far the best steps of the book are from what a user would pick instead: a line a peer."""

from collections.abc import Mapping, Sequence

from ..analysis import format as show
from ..analysis.case_data import CaseData
from ..analysis.readings import Reading, Speedup, faster, fastest, text_field
from ..analysis.sentences import joined
from ..measure.stats import CONFIDENCE
from .cell_format import INTERVAL_WORDS, ratio_cell, ratio_head, usual_how
from .columns import Column, ratio_column
from .html import Cell, Standing, Table
from .ladder_table import notes_of, time_column
from .run_parts import by_variant

NOTE = Standing(
    "Best step like it: of the steps in the peer's precision those that differ least from it in what is done and timed, "
    "and of them the fastest; what differs all the same stands beside what the peer is. "
    f"vs peer: how many times as fast as the peer the step is, with its {CONFIDENCE} interval; {INTERVAL_WORDS}."
)


def peers(data: CaseData, caption: str = "") -> Table:
    """One line a library: its time, the fastest step of those most like it, the fastest of all, and both ratios.

    Only a verified row has a time. `Table.frame` has the time in seconds and each ratio as library / step, above 1 where the
    step is faster. Errors: UsageError for an unknown case or a sample that is no time.
    """
    mine = data.verified(data.peers)
    steps = [each for each in data.readings.values() if each.ok and each.role == "step"]
    alike, quickest = {each.variant: data.nearest(each, steps) for each in mine}, fastest(steps)
    scale = show.time_unit(reading.median for reading in mine)
    columns = [
        time_column(data.unit([each.variant for each in mine]), scale),
        Column.of("dtype", Cell("Precision"), lambda peer: _precision(data, peer), _dtype),
        *_beside(data, mine, alike, "step", "ratio", "Best step like it", "no step in this precision has a time here"),
        *_beside(
            data, mine, dict.fromkeys(alike, quickest), "fastest", "ratio_of_fastest", "Fastest step",
            "no step has a time here", more=True,
        ),
    ]  # fmt: skip

    def what(peer: Reading) -> Cell:
        return Cell(data.changes.get(peer.variant, ""), "change", small=_unlike(data, peer, alike[peer.variant]))

    if data.changes or any(what(peer).small for peer in mine):
        columns.insert(-2, Column(Cell("What it is", "below"), what))
    notes = notes_of(mine, NOTE)
    return by_variant(data.with_order(data.peers), columns, caption or f"Peers on {data.case}", notes, "peers")


def _beside(
    data: CaseData,
    peers: Sequence[Reading],
    of: Mapping[str, Reading | None],
    name: str,
    ratio: str,
    head: str,
    lack: str,
    more: bool = False,
) -> list[Column]:
    """Two columns: by the names of the libraries the step that stands beside each, and how much faster it is."""

    def named(peer: Reading) -> Cell:
        chosen = of[peer.variant]
        if not chosen:
            return Cell(show.DASH, small=f"({lack})")
        return Cell(chosen.variant, small=_unlike(data, peer, chosen) if more else "")

    def times(peer: Reading) -> Speedup | None:
        chosen = of[peer.variant]
        return faster(peer, chosen) if chosen else None

    how = usual_how(map(times, peers))
    return [
        Column.of(name, Cell(head), named, lambda peer: getattr(of[peer.variant], "variant", None), more),
        ratio_column(
            ratio, ratio_head("vs peer", how), lambda peer: ratio_cell(times(peer), head_how=how), times, more
        ),
    ]


def _unlike(data: CaseData, peer: Reading, step: Reading | None) -> str:
    """'(the peer leaves results channels-last; the step ...)' of what differs; '' where nothing does."""
    sides = data.unlike(peer.variant, step.variant) if step else ([], [])
    told = [f"the {who} {joined(what)}" for who, what in zip(("peer", "step"), sides, strict=True) if what]
    return f"({'; '.join(told)})" if told else ""


def _precision(data: CaseData, peer: Reading) -> Cell:
    """What it multiplies, and as exact as which precision it is where that is another: as split operands are."""
    dtype, exact_as = _dtype(peer), data.precision(peer)
    return Cell(dtype, small=f"(as exact as {exact_as})" if exact_as != dtype else "")


def _dtype(reading: Reading) -> str:
    return text_field(reading.row, "dtype") or "float32"
