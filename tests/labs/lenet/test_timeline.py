"""Timeline of queues: a lane for each, spans that are left out or cut short, and the share of copying that kernels hide."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofbook import report
from roofbook.analysis import format
from roofbook.analysis.case_data import CaseData
from roofbook.devices.contract import Span
from roofbook.errors import UsageError
from roofbook.labs.lenet.timeline import MOST_BARS, overlap_share, timeline_chart
from roofbook.report.figure import COLOURS

from ...report.inspection import axes
from ...report.rows import frame, row_with_facts, spans, traced_rows


def bars(figure: report.Figure) -> dict[tuple[float, str], list[tuple[float, float]]]:
    """(height in the figure, colour) -> the bars there, start and end in ms."""
    from matplotlib.colors import to_hex

    bars_by_lane = {}
    for patch in axes(figure).patches:
        ends = patch.get_path().vertices
        key = round(float(ends[0, 1]), 6), to_hex(patch.get_edgecolor())
        bars_by_lane[key] = list(zip(ends[0::2, 0].tolist(), ends[1::2, 0].tolist(), strict=True))
    return bars_by_lane


def test_a_timeline_has_a_lane_for_each_queue_on_one_axis() -> None:
    figure = timeline_chart(CaseData(traced_rows(), ["serial", "streams"], "256x256"), ["serial", "streams"])
    kernels = [lane_bars for (_, colour), lane_bars in sorted(bars(figure).items()) if colour == COLOURS["kernel"]]
    assert [len(lane_bars) for lane_bars in kernels] == [10, 4, 3, 3]
    assert kernels[0][:2] == [pytest.approx((1, 2)), pytest.approx((4, 5))]
    assert [lane_bars[0] for lane_bars in kernels[1:]] == [pytest.approx((at, at + 1)) for at in (1, 2, 3)]
    assert len(bars(figure)) == 3 * 4 and axes(figure).get_xlim() == pytest.approx((0, 30))
    words = [text.get_text() for text in axes(figure).texts]
    lanes = ["queue 0", "queue 1", "queue 2"]
    assert [word for word in words if word.startswith("queue")] == ["queue 0", *lanes]
    thin = format.THIN
    assert words[:2] == ["serial", f"30.0{thin}ms \u00b7 kernels during 0.00{thin}% of the copying"]
    assert "12.0" in words[4] and words[3] == "streams"
    assert [text.get_text() for text in axes(figure).get_legend().get_texts()][1] == "kernel"


def test_a_timeline_says_what_it_leaves_out() -> None:
    names = ["streams", "plain", "wrong", "absent", "elsewhere"]
    figure = timeline_chart(
        CaseData(traced_rows(), names, "256x256", skip_reasons={"elsewhere": "not on this device"}), names
    )
    assert figure.notes[1:] == (
        "No timeline: plain.",
        "wrong failed: not verified: error 2e-06, allowed 1e-06.",
        "elsewhere – not on this device.",
        "absent – not measured.",
    )
    with pytest.raises(UsageError, match="no verified run of plain, wrong on 256x256 has a timeline"):
        timeline_chart(CaseData(traced_rows(), ["plain", "wrong"], "256x256"), ["plain", "wrong"])


def test_of_a_long_run_the_beginning_is_drawn_and_said() -> None:
    figure = timeline_chart(CaseData(traced_rows(500), ["serial", "streams"], "256x256"), ["serial", "streams"])
    drawn = bars(figure)
    assert len(figure.svg) < 150_000 and sum(map(len, drawn.values())) <= 2 * MOST_BARS
    streams = sorted(start for start, *_ in (span[2:] for span in spans(3, 500)))
    assert axes(figure).get_xlim()[1] == pytest.approx(1e3 * streams[MOST_BARS])
    assert figure.notes[1].startswith("Only the first ") and "serial and streams went on" in figure.notes[1]
    assert f"1.50{format.THIN}s" in [text.get_text() for text in axes(figure).texts][1], "the whole run's time"
    assert "Drawn" not in " ".join(timeline_chart(CaseData(traced_rows(), ["serial"], "256x256"), ["serial"]).notes)


@pytest.mark.parametrize(
    "bad", [[0, "memset", 0, 1], [0, "kernel", 2, 1], [0, "kernel", -1, 1], [0, "kernel", 0, math.inf]]
)
def test_a_span_that_is_none_is_refused(bad: list[Any]) -> None:
    with pytest.raises(
        UsageError, match=r"odd on 256x256: timeline holds \[0, '.*what one of to device, kernel, to host"
    ):
        timeline_chart(CaseData(frame(row_with_facts("odd", facts={"timeline": [bad]})), ["odd"], "256x256"), ["odd"])


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["to device", "kernel", "to host"]), st.integers(0, 20),
                          st.integers(0, 9)), max_size=9))  # fmt: skip
def test_hidden_copies_are_those_with_a_kernel_at_the_same_time(drawn: list[tuple[int, str, int, int]]) -> None:
    listed = [Span(queue, kind, start, start + length) for queue, kind, start, length in drawn]
    ticks = [{span.what for span in listed if span.start <= at < span.end} for at in range(30)]
    copying = [now for now in ticks if now - {"kernel"}]
    share = sum("kernel" in now for now in copying) / len(copying) if copying else math.nan
    assert overlap_share(listed) == pytest.approx(share, nan_ok=True)
