"""What the cells of a table say about one reading: its time, its ratios, its share of the bound, its check."""

import math

from roofbook.report import units as show
from roofbook.report.html import Cell
from roofbook.report.readings import TOO_FEW, Ratio, Reading, said, value
from roofbook.roofline import Bound


def time_cell(reading: Reading, unit: float) -> Cell:
    """Median and interval in the column's unit; small print where the samples are few."""
    return Cell(
        show.interval(reading.median / unit, reading.low / unit, reading.high / unit),
        "num",
        title=f"run {reading.row['run']}",
        small=f"({reading.few})" if reading.few else "",
    )


def samples_cell(reading: Reading) -> Cell:
    """How many samples, and how many units each of them repeats."""
    title = f"{len(reading.times)} samples of {reading.units} x {reading.row['unit']}"
    return Cell(f"{len(reading.times)} \u00d7 {show.number(reading.units, places=0)}", "num", title)


def ratio_cell(ratio: Ratio | None, lack: str = "not both were measured", known: str = "") -> Cell:
    """A ratio with its interval, or 'same', or a dash whose tooltip says what is missing.

    known: how the ratio was taken, where the column's head says so already.
    """
    if ratio is None:
        return Cell(show.DASH, "num", lack)
    if TOO_FEW in ratio.how:
        return Cell(show.number(ratio.estimate), "num same", "one or two samples cannot tell", small=f"({ratio.how})")
    text, small = show.factor(ratio.estimate, ratio.low, ratio.high), f"({ratio.how})" if ratio.how != known else ""
    if ratio.same:
        return Cell("same", "num same", f"ratio {text}", small=" ".join(filter(None, [text[text.find("[") :], small])))
    return Cell(text, "num faster" if ratio.estimate > 1 else "num slower", small=small)


def share_cell(floor: Bound | None, reading: Reading) -> Cell:
    """Bound over time; a share above 1 is marked, since then the bound is wrong."""
    if floor is None or reading.role == "probe":
        return Cell(show.DASH, "num", "no bound for this variant")
    if floor.roof not in ("memory", own := said(reading.row, "dtype")):
        return Cell(
            show.DASH, "num", f"the bound is of {floor.roof}; this one multiplies {own}, whose roof was not measured"
        )
    share = floor.seconds / reading.median
    title = f"bound {show.duration(floor.seconds)} by {floor.roof}"
    return Cell(
        show.percent(share), "num above-bound" if share > 1 else "num", title, small="(above)" if share > 1 else ""
    )


def check_cell(reading: Reading) -> Cell:
    """The error as a part of what is allowed, which for a verified reading is at most 1."""
    error, limit = value(reading.row, "error"), value(reading.row, "bound")
    if math.isnan(limit):
        return Cell("nothing to check", "unchecked", "a probe that computes nothing")
    part = error / limit if limit else 0.0
    return Cell(f"✓ {show.number(part, 2)}", "num verified", f"error {error:.3g}, allowed {limit:.3g}")
