"""Achieved bandwidth as a bar chart: the bytes that each variant moves over its time, beside the fastest measured stream."""

from ...analysis import format as show
from ...analysis.case_data import CaseData
from ...analysis.readings import Reading, home_of, number_field
from ...errors import UsageError
from ...report.bars import (
    MEDIAN_WHISKERS,
    absences,
    address_of,
    bar,
    cross,
    flag,
    heading,
    lanes,
    legend,
    vertical_line,
)
from ...report.effect_style import EFFECT_COLOURS, effect_of
from ...report.figure import INK, Figure, finish, style
from ...report.roofs import DASHES, binary_size

FARTHEST = 3.0  # times the longest bar: a memory level beyond it is named in a note, not drawn


def bandwidth_chart(data: CaseData, title: str = "") -> Figure:
    """Draw GB/s of each verified variant in ladder order: the `bytes` of its row over its time, with the interval.

    Bytes are per unit: the least that the variant's data flow moves. The working set picks the measured stream that is the
    peak, which is drawn strong; other levels of the memory are thin. Rows from another device or backend than most are left
    out. Errors: UsageError without measured peaks, or without a verified variant that has bytes.
    """
    from matplotlib.lines import Line2D

    if data.peaks is None:
        raise UsageError("no bandwidths: a peak of this device has no verified time; `roofbook run peaks` measures it")
    readings, case, order, peaks = data.readings, data.case, data.drawn, data.peaks
    ready = [
        name
        for name in order
        if name in readings and readings[name].ok and number_field(readings[name].row, "bytes") > 0
    ]
    home = home_of([readings[name] for name in ready])
    good = [name for name in ready if home.has(readings[name])]
    if not good:
        raise UsageError(f"no variant of {', '.join(order)} has a verified time and bytes on {case}")
    names = [name for name in order if name in good or (name in readings and not readings[name].ok)]
    reached = {name: _bandwidth(readings[name]) for name in good}
    peak = peaks.bandwidth_for(data.working_set) / 1e9
    longest = max(peak, *(high for _, _, high in reached.values()))
    rates = {f"up to {binary_size(level.size)}": level.bandwidth / 1e9 for level in peaks.levels()}
    levels = {label: rate for label, rate in rates.items() if abs(rate / peak - 1) > 0.05}
    near = {label: rate for label, rate in levels.items() if rate <= FARTHEST * longest}
    effects = {name: effect_of(readings[name], readings) for name in good}
    with style():
        ax = lanes(len(names), (0.0, 1.06 * max([longest, *near.values()])), flagged=True)
        for index, name in enumerate(names):
            if name not in good:
                heading(ax, index, name)
                cross(ax, index, name, readings[name].reason)
                continue
            estimate, low, high = reached[name]
            heading(ax, index, name, f"{_rate_text(estimate)} \u00b7 {show.percent(estimate / peak)}")
            tip = f"{name}: {_rate_text(estimate)}, {show.percent(estimate / peak)} of the fastest stream at this size"
            link = address_of(readings[name])
            bar(ax, index, estimate, EFFECT_COLOURS[effects[name]], readings[name].role, tip, (low, high), 0.0, link)
        lines, barred = [], [lane for lane, name in enumerate(names) if name in good]
        for index, (label, rate) in enumerate(near.items()):
            dashes = DASHES[index % len(DASHES)]
            vertical_line(ax, rate, barred, color=INK, lw=1.2, linestyles=[dashes])
            lines.append(Line2D([], [], color=INK, lw=1.2, ls=dashes, label=f"stream {label}: {_rate_text(rate)}"))
        flag(ax, peak, barred, f"fastest stream at this size: {_rate_text(peak)}", INK)
        ax.xaxis.set_major_formatter(lambda tick, _: show.tick(tick))
        ax.set_xlabel("bandwidth, GB/s")
        legend(ax, {readings[name].role for name in good}, lines, effects.values())
        above_peak = [name for name in good if reached[name][1] > peak]
        named = f" (here {', '.join(above_peak)})" if above_peak else ""
        notes = [
            "Bytes are the minimum that the variant's data flow moves: modelled, not counted. Per cent are of the fastest "
            f"stream at this size. {MEDIAN_WHISKERS}",
            f"Where the whole interval of a bar exceeds that line{named}, a cache served part of the bytes, or our streams are "
            "not the fastest.",
        ]
        far = [f"{label} {_rate_text(rate)}" for label, rate in levels.items() if label not in near]
        notes += [f"Streams beyond the axis: {', '.join(far)}."] * bool(far)
        away = [name for name in ready if name not in good]
        notes += [f"Measured on another device, so not drawn: {', '.join(away)}."] * bool(away)
        idle = [name for name in order if name in readings and readings[name].ok and name not in ready]
        notes += [f"Moves no modelled bytes, so not drawn: {', '.join(idle)}."] * bool(idle)
        notes += absences(order, readings, data.skip_reasons)
        records = [
            {"variant": name, "role": readings[name].role, "GB/s": rate, "low": low, "high": high}
            for name, (rate, low, high) in reached.items()
        ]
        heading_text = title or f"Bandwidth that each variant reaches on {case}"
        return finish(ax.figure, heading_text, notes, records=records)


def _bandwidth(reading: Reading) -> tuple[float, float, float]:
    """Return (estimate, low, high) in GB/s of a verified reading."""
    moved = number_field(reading.row, "bytes") / 1e9
    return moved / reading.median, moved / reading.high, moved / reading.low


def _rate_text(rate: float) -> str:
    return f"{show.number(rate)}{show.THIN}GB/s"
