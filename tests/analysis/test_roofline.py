"""The roofline: which peak rules, and that broken peaks or work are refused."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofbook.analysis.roofline import Level, Peaks, bound, work_unit
from roofbook.errors import UsageError
from roofbook.spec.lab import Work

PEAKS = Peaks([(2**30, 4e12), (2**20, 2e13), (2**24, 9e12)], {"float32": 6e13})


def test_the_smallest_measured_working_set_that_holds_the_case_rules() -> None:
    assert PEAKS.bandwidth_for(2**20) == 2e13
    assert PEAKS.bandwidth_for(2**20 + 1) == 9e12
    assert PEAKS.bandwidth_for(2**24 + 1) == 4e12
    assert PEAKS.bandwidth_for(2**40) == 4e12, "beyond the largest, that of the largest"


def test_bound_by_memory_and_by_arithmetic() -> None:
    streaming = bound(Work(flops=1e6, bytes=4e6, footprint=4e6), PEAKS, 2**30)
    assert streaming.roof == "memory" and streaming.seconds == pytest.approx(1e-6)
    dense = bound(Work(flops=6e9, bytes=4e6, footprint=4e6), PEAKS, 2**30)
    assert dense.roof == "float32" and dense.seconds == pytest.approx(1e-4)
    assert bound(Work(0, 4e6, 4e6), Peaks([(1.0, 4e12)]), 2**30).seconds == pytest.approx(1e-6), "a copy needs no peak"


def test_each_dtype_is_bounded_by_its_own_roof() -> None:
    peaks = Peaks(PEAKS.bandwidth, {"float32": 6e13, "int8": 1.5e15})
    work = Work(flops=6e9, bytes=4e6, footprint=4e6)
    assert bound(work, peaks, 2**30, "float32").seconds == pytest.approx(1e-4)
    int8 = bound(work, peaks, 2**30, "int8")
    assert int8.seconds == pytest.approx(4e-6) and int8.roof == "int8" and int8.flops == 1.5e15
    assert [work_unit(dtype) for dtype in ("float16", "tfloat32", "int8", "int32", "uint8")] == ["FLOP"] * 2 + [
        "OP"
    ] * 3


def test_levels_join_neighbours_of_like_bandwidth() -> None:
    peaks = Peaks([(1, 100.0), (2, 95.0), (4, 90.0), (8, 40.0), (16, 41.0)])
    assert peaks.levels() == [Level(4, 100.0), Level(16, 41.0)]
    slope = Peaks([(1, 100.0), (2, 80.0), (4, 64.0), (8, 50.0)])
    assert slope.levels() == [Level(2, 100.0), Level(8, 64.0)], (
        "a level is not as fast at 8 as at 1, however even the way there"
    )


def test_a_small_working_set_is_held_against_no_less_than_a_larger_one() -> None:
    """A copy of a megabyte takes as long as its launch: the bandwidth of the cache shows only at a larger size."""
    peaks = Peaks([(1, 40.0), (4, 78.0), (128, 102.0), (2048, 47.0)])
    assert [peaks.bandwidth_for(size) for size in (1, 3, 100, 129, 5000)] == [102.0, 102.0, 102.0, 47.0, 47.0]
    assert peaks.levels() == [Level(128, 102.0), Level(2048, 47.0)]


@given(st.lists(st.tuples(st.floats(1, 1e12), st.floats(1, 1e15)), min_size=1), st.floats(1, 1e12), st.floats(1, 1e12))
def test_bandwidth_never_grows_with_the_working_set(
    pairs: list[tuple[float, float]], first: float, second: float
) -> None:
    peaks = Peaks(pairs)
    assert peaks.bandwidth_for(min(first, second)) >= peaks.bandwidth_for(max(first, second))
    assert {peaks.bandwidth_for(first), *(level.bandwidth for level in peaks.levels())} <= {rate for _, rate in pairs}


@given(st.floats(1, 1e15), st.floats(1, 1e15), st.floats(1, 1e12))
def test_no_roof_is_beaten(flops: float, moved: float, working_set: float) -> None:
    floor = bound(Work(flops, moved, working_set), PEAKS, working_set)
    assert floor.seconds >= moved / PEAKS.bandwidth_for(working_set) * (1 - 1e-12)
    assert floor.seconds >= flops / PEAKS.flops["float32"] * (1 - 1e-12)


@pytest.mark.parametrize("bandwidth", [[], [(1.0, 0.0)], [(1.0, math.nan)], [(-1.0, 1e9)], [(1.0, math.inf)]])
def test_broken_peaks_are_refused(bandwidth: list[tuple[float, float]]) -> None:
    with pytest.raises(UsageError, match="peaks"):
        Peaks(bandwidth)


def test_a_broken_rate_is_refused_in_its_unit() -> None:
    for dtype, unit in (("float16", "FLOP/s"), ("int8", "OP/s")):
        with pytest.raises(UsageError, match=f"peaks: {unit} of {dtype} is nan; a positive"):
            Peaks([(1.0, 1e9)], {dtype: math.nan})


def test_broken_work_and_unknown_dtype_are_refused() -> None:
    for work in (Work(math.nan, 1, 1), Work(0, 0, 0), Work(1, -1, 1), Work(math.inf, 1, 1)):
        with pytest.raises(UsageError, match="work of"):
            bound(work, PEAKS, 1.0)
    with pytest.raises(UsageError, match="valid: float32"):
        bound(Work(1, 1, 1), PEAKS, 1.0, "float16")
    with pytest.raises(UsageError, match="working set"):
        bound(Work(1, 1, 1), PEAKS, math.nan)
