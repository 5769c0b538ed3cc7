"""Table of several devices beside one: the gain on the same grid, weak scaling, and a model of both."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...analysis import format as show
from ...analysis.lab_data import LabData
from ...analysis.readings import Reading, Speedup, faster, newest
from ...errors import UsageError
from ...report.cell_format import ratio_cell, ratio_head, run_notes, usual_how
from ...report.columns import Column, table
from ...report.html import Cell, Table
from .scaling import Model, model, strong, weak

if TYPE_CHECKING:
    from ...spec.lab import Series

EFFICIENCY = 0.97
"""Weak scaling for which the note on the model says how many rows it takes."""
LARGEST_ERROR = 0.25
"""Largest error of a model, as a share of the measured time, at which it may speak of other grids."""


@dataclass(frozen=True)
class Scaled:
    """A time on a number of devices, with what it is compared with."""

    devices: int
    rows: int
    reading: Reading
    gain: Speedup | None
    """Speedup over one device on the same grid."""
    strong: float | None
    weak: float | None
    modelled: float | None
    """Seconds by the model; None if it says nothing of this grid."""
    is_input: bool
    """Whether the model was read from this time."""

    @property
    def error(self) -> float | None:
        """Error of the model, as a share of the measured time."""
        return None if self.modelled is None or self.is_input else self.modelled / self.reading.median - 1


def scaling(data: LabData, axis: str, devices: str) -> Table:
    """Return the gain of several devices over one along a series, with a model of it.

    axis: of the series. devices: axis of the sweep over their number. Errors: UsageError if nothing was measured.
    """
    series = data.series(axis)
    counts = {variant.name: int(str(variant.point)) for variant in data.sweep(devices).variants}
    rows = data.rows[data.rows["variant"].isin(counts)]
    readings = {
        (counts[name], int(x)): reading
        for x, case in series.points
        if (rows["case"] == case).any()
        for name, reading in newest(rows, case).items()
    }
    if not any(reading.ok for reading in readings.values()):
        raise UsageError(f"no point of the series over {axis} has a verified time")
    return scaling_table(readings, series)


def scaling_table(readings: Mapping[tuple[int, int], Reading], series: "Series") -> Table:
    """Return a table with a line for each number of devices and rows with a verified time.

    readings: (devices, rows) -> reading. `Table.frame` has times in seconds per unit, and the model's.
    """
    good = {grid: reading for grid, reading in sorted(readings.items(), key=lambda entry: entry[0][::-1]) if reading.ok}
    times = {grid: reading.median for grid, reading in good.items()}
    fitted = model(times)
    name, size = show.time_unit(times.values())

    def scaled(devices: int, rows: int, reading: Reading) -> Scaled:
        is_modelled = fitted is not None and devices in fitted.fixed
        return Scaled(
            devices, rows, reading,
            gain=faster(good.get((1, rows)), reading) if devices > 1 else None,
            strong=strong(times, devices, rows),
            weak=weak(times, devices, rows) if devices > 1 else None,
            modelled=fitted.seconds(devices, rows) if fitted and is_modelled else None,
            is_input=fitted is not None and (devices, rows) in fitted.read,
        )  # fmt: skip

    lines = [scaled(devices, rows, reading) for (devices, rows), reading in good.items()]
    how = usual_how(line.gain for line in lines)
    columns = [
        Column[Scaled]("Rows", lambda line: show.number(line.rows, places=0), "num", {"rows": lambda line: line.rows}),
        Column[Scaled]("Devices", lambda line: str(line.devices), "num", {"devices": lambda line: line.devices}),
        Column[Scaled](
            f"Time, {name}", lambda line: show.number(line.reading.median / size), "num",
            {"seconds": lambda line: line.reading.median},
        ),
        Column[Scaled](
            ratio_head("Over one device", how), lambda line: ratio_cell(line.gain, head_how=how), "num",
            {
                "over_one": lambda line: line.gain.estimate if line.gain else math.nan,
                "over_one_low": lambda line: line.gain.low if line.gain else math.nan,
                "over_one_high": lambda line: line.gain.high if line.gain else math.nan,
                "strong": lambda line: _number_or_nan(line.strong),
            },
        ),
        Column[Scaled](
            "Weak scaling", lambda line: _text(line.weak, show.percent), "num",
            {"weak": lambda line: _number_or_nan(line.weak)},
        ),
        Column[Scaled](
            f"Model, {name}", lambda line: _text(line.modelled, lambda seconds: show.number(seconds / size)), "num",
            {"model_seconds": lambda line: _number_or_nan(line.modelled)},
        ),
        Column[Scaled](
            "Model is off by", _error_cell, "num", {"model_error": lambda line: _number_or_nan(line.error)},
        ),
    ]  # fmt: skip
    errors = {
        devices: max(abs(line.error or 0.0) for line in lines if line.devices == devices)
        for devices in {line.devices for line in lines}
    }
    notes = [
        "Weak scaling: the time of one device on its share of the rows, over the time of all on the whole grid.",
        *(
            _model_notes(fitted, size, name, errors)
            if fitted
            else ["No model: it takes one device on two grids, the larger one slower."]
        ),
        *run_notes(good.values()),
    ]
    return table(series.question, columns, lines, notes, "scaling")


def _number_or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _text(value: float | None, write: Callable[[float], str]) -> str:
    return show.DASH if value is None else write(value)


def _error_cell(line: Scaled) -> str | Cell:
    if line.error is None:
        return Cell("read from it" if line.is_input else show.DASH)
    return f"{100 * line.error:+.0f}{show.THIN}%"


def _rounded_text(value: float) -> str:
    """Return a number with two digits, since a model of two times gives no more."""
    return show.number(float(f"{value:.1e}"), places=0) if math.isfinite(value) else show.number(value, places=0)


def _model_notes(model: Model, size: float, name: str, errors: Mapping[int, float]) -> list[str]:
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
