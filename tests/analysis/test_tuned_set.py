"""The answer of a tuning is a set: the fastest with those that paired rounds cannot tell from it."""

from __future__ import annotations

import pytest

from roofbook.analysis.tuned_set import command_of, tuned_set
from roofbook.errors import Failed
from roofbook.spec import registry

from ..report.rows import frame, row

POINTS = ("a", "a@GROUP=32", "a@GROUP=64", "a@GROUP=96", "a@GROUP=128")


class Named:
    """A variant of which only the name matters."""

    def __init__(self, name: str) -> None:
        self.name = name


VARIANTS = [Named(name) for name in POINTS]


def test_those_within_the_noise_of_the_fastest_are_of_the_answer() -> None:
    rows = frame(
        row("a", 2e-5),
        row("a@GROUP=32", 1.0e-5, "a", role="sweep"),
        row("a@GROUP=64", 1.001e-5, "a", role="sweep"),
        row("a@GROUP=96", 1.3e-5, "a", role="sweep"),
        row("a@GROUP=128", 1e-6, "a", role="sweep", status="failed", reason="wrong result", samples_s=[], rounds=[]),
    )
    answer = tuned_set(rows, VARIANTS, "a", "256x256")  # type: ignore[arg-type]
    assert answer.fastest.variant == "a@GROUP=32", "a wrong point is none, however fast"
    assert [reading.variant for reading in answer.equal] == ["a@GROUP=64"]
    assert [reading.variant for reading in answer.slower] == ["a@GROUP=96", "a"]
    first, equal, slower, _, last = (line.replace("\u202f", " ") for line in answer.lines())
    assert first == "a@GROUP=32: 10.0 µs per step, the fastest, within the noise of one other"
    assert equal.startswith("a@GROUP=64: 10.0 µs, within the noise (1.00")
    assert slower.startswith("a@GROUP=96: 13.0 µs, 1.30 [") and slower.endswith("] of that time")
    assert last.startswith("a@GROUP=32 is 2.00 [") and last.endswith(
        "times as fast as a, the step as it is, in one run"
    )


def test_pairs_of_samples_decide_where_medians_say_otherwise() -> None:
    drift = [1e-5 * (1 + 0.3 * (number % 7)) for number in range(20)]
    rows = frame(
        row("a", 1, samples_s=[100 * seconds for seconds in drift]),
        row("a@GROUP=32", 1, "a", role="sweep", samples_s=[97 * seconds for seconds in drift[:16]], n=16),
    )
    answer = tuned_set(rows, VARIANTS, "a", "256x256")  # type: ignore[arg-type]
    assert answer.fastest.variant == "a@GROUP=32" and answer.slower[0].variant == "a"


def test_without_a_right_point_the_reason_is_named() -> None:
    rows = frame(row("a", 1e-5, status="failed", reason="does not build", samples_s=[], rounds=[]))
    with pytest.raises(Failed, match="none of the best points was right again: does not build"):
        tuned_set(rows, VARIANTS, "a", "256x256")  # type: ignore[arg-type]


def test_the_command_that_measures_a_point_again_names_one_that_exists() -> None:
    text = command_of(
        "convpool", "strips", "64x64x32x32-k3", "strips@CHUNK=16,TOGETHER=4", "quick", "opencl:0", "results"
    )
    assert text == (
        "roofbook rerun convpool strips 64x64x32x32-k3 --knob CHUNK=16 --knob TOGETHER=4 --scale quick --device opencl:0"
    )
    assert registry.get("convpool").variant("strips@CHUNK=16,TOGETHER=4").role == "sweep"
    text = command_of("convpool", "strips", "c", "strips", "test", "auto", "/of mine/rows")
    assert text == "roofbook rerun convpool strips c --scale test --device auto --results '/of mine/rows'"
