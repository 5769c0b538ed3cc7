"""Achieved bandwidth as bars: bytes over time, the stream for comparison, and variants that are left out."""

import pytest

from roofbook.analysis import format
from roofbook.analysis.readings import newest
from roofbook.errors import UsageError

from ...report.inspection import axes, bandwidths
from ...report.rows import bandwidth_rows


def test_bandwidth_is_the_variant_s_bytes_over_its_time_against_the_fastest_stream_of_this_size() -> None:
    thin, cached = format.THIN, newest(bandwidth_rows())["cached"]
    figure = bandwidths()
    ax = axes(figure)
    assert [patch.get_width() for patch in ax.patches] == pytest.approx([2000, 3000, 6 / cached.median, 4000])
    words = [text.get_text() for text in ax.texts]
    assert [label for label in words if label and "failed" not in label] == [
        "plain", f"2{thin}000{thin}GB/s \u00b7 50.0{thin}%", "wide", f"3{thin}000{thin}GB/s \u00b7 75.0{thin}%",
        "cached", f"{format.number(6 / cached.median)}{thin}GB/s \u00b7 {format.percent(6 / cached.median / 4000)}",
        "broken", "library", f"4{thin}000{thin}GB/s \u00b7 100{thin}%", f"fastest stream at this size: 4{thin}000{thin}GB/s",
    ]  # fmt: skip
    whiskers = [line for line in ax.lines if line.get_marker() == "|"][2]
    assert list(whiskers.get_xdata()) == pytest.approx([6 / cached.high, 6 / cached.low])
    (strong,) = (lines for lines in ax.collections if lines.get_linewidth() == 2.2)
    assert [segment[0][0] for segment in strong.get_segments()] == [4000] * 4, "beside each bar, none by a failure"
    assert f">stream up to 8{thin}MiB: 9{thin}000{thin}GB/s<" in figure.svg
    ax = axes(bandwidths(working_set=2**22))
    assert f"2{thin}000{thin}GB/s \u00b7 23.0{thin}%" in [text.get_text() for text in ax.texts]


def test_bandwidth_chart_says_what_it_leaves_out_and_what_a_bar_over_the_line_means() -> None:
    notes = bandwidths().notes
    assert "modelled, not counted" in notes[0]
    assert "exceeds that line (here cached), a cache served" in notes[1] and "not the fastest" in notes[1]
    assert notes[2:] == (
        "Streams beyond the axis: up to 32\u202fKiB 90\u202f000\u202fGB/s.",
        "Measured on another device, so not drawn: cpu.",
        "Moves no modelled bytes, so not drawn: idle.",
        "elsewhere – no fp64.",
        "missing – not measured.",
    )
    assert "failed: wrong result: error 7.77" in bandwidths().svg and "777" not in bandwidths().svg
    assert "(here" not in bandwidths(order=["plain", "library"]).notes[1], "at the line is not over it"
    with pytest.raises(UsageError, match="no variant of broken, idle has a verified time and bytes on 256x256"):
        bandwidths(order=["broken", "idle"])
