"""The line that shows the progress of a measurement: on terminals only, seldom enough not to disturb, and gone at the end."""

from __future__ import annotations

import io
import time

import pytest

from roofbook.measure import progress
from roofbook.measure.progress import PlanShare, ProgressLine, Reporter


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_is_renewed_in_place_fits_the_terminal_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    screen = Terminal()
    line = ProgressLine("lbm", screen)
    line.start -= 61
    line("fused: sample 1")
    line("a variant with a very long name: sample 1")
    line.end()
    assert screen.getvalue() == "\r\x1b[Klbm 1:01  fused: sample 1\r\x1b[Klbm 1:01  a variant with a ve\r\x1b[K"


def test_the_share_of_a_plan_says_what_is_left_once_something_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([100.0, 160.0, 160.0 + 60])
    monkeypatch.setattr(time, "monotonic", lambda: next(moments))
    share = PlanShare(8)
    assert str(share) == "0 of 8, 0 %"
    share.done = 2
    assert str(share) == "2 of 8, 25 %, 3 min left"
    share.done = 7
    assert str(share) == "7 of 8, 87 %, less than a minute left"


def test_no_progress_is_written_without_a_terminal() -> None:
    pipe = io.StringIO()
    line = ProgressLine("lbm", pipe)
    line("fused")
    line.end()
    assert pipe.getvalue() == ""


def test_the_reporter_shows_the_first_word_at_once_and_then_not_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([10.0, 10.0 + progress.INTERVAL_S / 2, 10.0 + progress.INTERVAL_S])
    show = Reporter()
    seen: list[str] = []
    monkeypatch.setattr(show, "show", seen.append)
    monkeypatch.setattr(time, "monotonic", lambda: next(moments))
    for number in range(3):
        show("fused", f"sample {number}")
    assert seen == ["fused: sample 0", "fused: sample 2"]


def test_the_reporter_costs_next_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Terminal())
    show = Reporter()
    start = time.process_time()
    for _ in range(10_000):
        show("fused", "sample 1")
    assert (time.process_time() - start) / 10_000 < 20e-6


def test_outside_a_notebook_the_reporter_speaks_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    show = Reporter()
    show.end()
    assert screen.getvalue() == "", "nothing was measured: nothing to take away"
    show("fused", "check")
    show.end()
    assert screen.getvalue() == "\r\x1b[Kmeasuring 0:00  fused: check\r\x1b[K"
