"""Several devices beside one: the gain on the same grid, the efficiency at the same share, and what a model says of both."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..analysis import format as show
from ..analysis import scaling as measured
from ..analysis.readings import Reading, faster
from .cell_format import ratio_cell, ratio_head, run_notes, usual_how
from .html import Cell, Row, Table

if TYPE_CHECKING:
    from ..spec.lab import Series

EFFICIENCY = 0.97
"""What the note on the model asks of weak scaling."""
NEAR = 0.25
"""A model that misses a measured time by a larger share of it says nothing of other grids."""


def scaling(found: Mapping[tuple[int, int], Reading], series: "Series", caption: str = "") -> Table:
    """A line for each number of devices and rows with a verified time.

    found: (devices, rows) -> the reading. `Table.frame` has times in seconds per unit, and the model's.
    """
    import pandas as pd

    good = {at: reading for at, reading in sorted(found.items(), key=lambda item: item[0][::-1]) if reading.ok}
    times = {at: reading.median for at, reading in good.items()}
    model = measured.model(times)
    name, size = show.time_unit(times.values())
    gains = {at: faster(good.get((1, at[1])), reading) if at[0] > 1 else None for at, reading in good.items()}
    how = usual_how(gains.values())
    lines, records, errors = [], [], dict[int, float]()
    for (devices, rows), reading in good.items():
        weak = measured.weak(times, devices, rows) if devices > 1 else None
        said = model.seconds(devices, rows) if model and devices in model.fixed else None
        read = model is not None and (devices, rows) in model.read
        off = None if said is None or read else said / reading.median - 1
        errors[devices] = max(errors.get(devices, 0.0), abs(off or 0.0))
        lines.append(
            Row([
                Cell(show.number(rows, places=0), "num"),
                Cell(str(devices), "num"),
                Cell(show.number(reading.median / size), "num"),
                ratio_cell(gains[devices, rows], head_how=how),
                _percent(weak),
                Cell(show.DASH if said is None else show.number(said / size), "num"),
                Cell("read from it" if read else show.DASH) if off is None else Cell(f"{100 * off:+.0f}{show.THIN}%", "num"),
            ])
        )  # fmt: skip
        gain = gains[devices, rows]
        records.append({
            "rows": rows, "devices": devices, "seconds": reading.median,
            "over_one": gain.estimate if gain else math.nan, "over_one_low": gain.low if gain else math.nan,
            "over_one_high": gain.high if gain else math.nan,
            "strong": _figure(measured.strong(times, devices, rows)), "weak": _figure(weak),
            "model_seconds": _figure(said), "model_error": _figure(off),
        })  # fmt: skip
    heads = [
        Cell("Rows", "num"), Cell("Devices", "num"), Cell(f"Time, {name}", "num"), ratio_head("Over one device", how),
        Cell("Weak scaling", "num"), Cell(f"Model, {name}", "num"), Cell("Model is off by", "num"),
    ]  # fmt: skip
    frame = pd.DataFrame(records, columns=list(records[0]) if records else ["rows", "devices"])
    notes = [
        "Weak scaling: the time of one device on its share of the rows, over the time of all on the whole grid.",
        *(
            _of_model(model, size, name, errors)
            if model
            else ["No model: it takes one device on two grids, the larger one slower."]
        ),
        *run_notes(good.values()),
    ]
    return Table(caption or series.question, heads, lines, frame, notes, "scaling")


def _figure(value: float | None) -> float:
    return math.nan if value is None else value


def _percent(share: float | None) -> Cell:
    return Cell(show.DASH if share is None else show.percent(share), "num")


def _round(value: float) -> str:
    """In two digits: a model of two times knows no more."""
    return show.number(float(f"{value:.1e}"), places=0) if math.isfinite(value) else show.number(value, places=0)


def _of_model(model: measured.Model, size: float, name: str, errors: Mapping[int, float]) -> list[str]:
    """How the model was read, and where it says that several devices pay, if it is near enough to what was measured.

    errors: by the number of devices the largest, as a share of the measured time.
    """
    rows = f"{show.number(model.row / size)} {name} a row, shared by the devices"
    fixed = ", ".join(f"{show.number(seconds / size)} {name} on {devices}" for devices, seconds in model.fixed.items())
    said: list[Any] = [
        f"The model: {rows}, and a fixed time: {fixed}. Read from one device on the largest grid, and from the smallest grid."
    ]
    for devices in (each for each in model.fixed if each > 1):
        if errors.get(devices, 0.0) > NEAR:
            off = show.percent(errors[devices])
            said.append(
                f"With {devices} devices it is off by up to {off}: from how many rows on they pay, it cannot say."
            )
            continue
        pays, weak = model.pays_from(devices), model.weak_from(devices, EFFICIENCY)
        said.append(
            f"By it {devices} devices are faster than one from about {_round(pays)} rows on, and weak scaling reaches "
            f"{show.percent(EFFICIENCY)} from about {_round(weak)} rows a device on."
        )
    return said
