"""Table of several devices beside one: the gain on the same grid, weak scaling, and a model of both."""

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
"""Weak scaling for which the note on the model says how many rows it takes."""
LARGEST_ERROR = 0.25
"""Largest error of a model, as a share of the measured time, at which it may speak of other grids."""


def scaling(readings: Mapping[tuple[int, int], Reading], series: "Series", caption: str = "") -> Table:
    """Return a table with a line for each number of devices and rows with a verified time.

    readings: (devices, rows) -> reading. `Table.frame` has times in seconds per unit, and the model's.
    """
    import pandas as pd

    good = {grid: reading for grid, reading in sorted(readings.items(), key=lambda entry: entry[0][::-1]) if reading.ok}
    times = {grid: reading.median for grid, reading in good.items()}
    model = measured.model(times)
    name, size = show.time_unit(times.values())
    gains = {grid: faster(good.get((1, grid[1])), reading) if grid[0] > 1 else None for grid, reading in good.items()}
    how = usual_how(gains.values())
    lines, records, errors = [], [], dict[int, float]()
    for (devices, rows), reading in good.items():
        weak = measured.weak(times, devices, rows) if devices > 1 else None
        modelled = model.seconds(devices, rows) if model and devices in model.fixed else None
        is_input = model is not None and (devices, rows) in model.read
        error = None if modelled is None or is_input else modelled / reading.median - 1
        errors[devices] = max(errors.get(devices, 0.0), abs(error or 0.0))
        lines.append(
            Row([
                Cell(show.number(rows, places=0), "num"),
                Cell(str(devices), "num"),
                Cell(show.number(reading.median / size), "num"),
                ratio_cell(gains[devices, rows], head_how=how),
                _percent_cell(weak),
                Cell(show.DASH if modelled is None else show.number(modelled / size), "num"),
                Cell("read from it" if is_input else show.DASH)
                if error is None
                else Cell(f"{100 * error:+.0f}{show.THIN}%", "num"),
            ])
        )  # fmt: skip
        gain = gains[devices, rows]
        records.append({
            "rows": rows, "devices": devices, "seconds": reading.median,
            "over_one": gain.estimate if gain else math.nan, "over_one_low": gain.low if gain else math.nan,
            "over_one_high": gain.high if gain else math.nan,
            "strong": _number_or_nan(measured.strong(times, devices, rows)), "weak": _number_or_nan(weak),
            "model_seconds": _number_or_nan(modelled), "model_error": _number_or_nan(error),
        })  # fmt: skip
    heads = [
        Cell("Rows", "num"), Cell("Devices", "num"), Cell(f"Time, {name}", "num"), ratio_head("Over one device", how),
        Cell("Weak scaling", "num"), Cell(f"Model, {name}", "num"), Cell("Model is off by", "num"),
    ]  # fmt: skip
    frame = pd.DataFrame(records, columns=list(records[0]) if records else ["rows", "devices"])
    notes = [
        "Weak scaling: the time of one device on its share of the rows, over the time of all on the whole grid.",
        *(
            _model_notes(model, size, name, errors)
            if model
            else ["No model: it takes one device on two grids, the larger one slower."]
        ),
        *run_notes(good.values()),
    ]
    return Table(caption or series.question, heads, lines, frame, notes, "scaling")


def _number_or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _percent_cell(share: float | None) -> Cell:
    return Cell(show.DASH if share is None else show.percent(share), "num")


def _rounded_text(value: float) -> str:
    """Return a number with two digits, since a model of two times gives no more."""
    return show.number(float(f"{value:.1e}"), places=0) if math.isfinite(value) else show.number(value, places=0)


def _model_notes(model: measured.Model, size: float, name: str, errors: Mapping[int, float]) -> list[str]:
    """Return notes: how the model was fitted, and from how many rows on several devices pay, if its error is small enough.

    errors: number of devices -> largest error, as a share of the measured time.
    """
    rows = f"{show.number(model.row / size)} {name} a row, shared by the devices"
    fixed = ", ".join(f"{show.number(seconds / size)} {name} on {devices}" for devices, seconds in model.fixed.items())
    sentences: list[Any] = [
        f"The model: {rows}, and a fixed time: {fixed}. Read from one device on the largest grid, and from the smallest grid."
    ]
    for devices in (number for number in model.fixed if number > 1):
        if errors.get(devices, 0.0) > LARGEST_ERROR:
            error = show.percent(errors[devices])
            sentences.append(
                f"With {devices} devices it is off by up to {error}, so it cannot say from how many rows on they pay."
            )
            continue
        pays, weak = model.pays_from(devices), model.weak_from(devices, EFFICIENCY)
        sentences.append(
            f"By the model {devices} devices are faster than one from about {_rounded_text(pays)} rows on, and weak scaling "
            f"reaches {show.percent(EFFICIENCY)} from about {_rounded_text(weak)} rows a device on."
        )
    return sentences
