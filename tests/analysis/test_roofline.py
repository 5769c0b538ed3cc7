"""The roofline: which peak rules, which launch is a floor, and that broken peaks or work are refused."""

import json
import math
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofbook.analysis.lab_data import LabData
from roofbook.analysis.recorded import recorded
from roofbook.analysis.roofline import EMPTY_KERNEL, GRAPH_NODE, Level, Peaks, bound, read_peaks, work_unit
from roofbook.errors import UsageError
from roofbook.labs.lbm.plans import CHost
from roofbook.labs.lbm.replay import FromC
from roofbook.paths import project_root
from roofbook.spec import registry
from roofbook.spec.lab import DEVICE_CLOCK, HOST_CLOCK, Work
from roofbook.store.parquet import Store

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


def test_a_set_that_the_last_cache_holds_in_part_is_held_against_the_stream_through_one_gibibyte() -> None:
    streams = {2**29: 1.97e11, 2**31: 1.23e11}
    assert Peaks([*streams.items()]).bandwidth_for(805e6) == 1.23e11, "a device without that stream"
    assert Peaks([*streams.items(), (2**30, 1.5e11)]).bandwidth_for(805e6) == 1.5e11
    assert "1 GiB" in [case.name for case in registry.get("peaks").cases("published")]


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


@pytest.mark.parametrize("name", [EMPTY_KERNEL, GRAPH_NODE])
@pytest.mark.parametrize("seconds", [0.0, -1e-6, math.nan, math.inf])
def test_a_launch_that_takes_no_time_is_refused(name: str, seconds: float) -> None:
    with pytest.raises(UsageError, match=f"peaks: seconds of {name} is .*; a positive finite number is needed"):
        Peaks([(1.0, 1e9)], {"float32": 1e12}, {name: seconds})


def test_broken_work_and_unknown_dtype_are_refused() -> None:
    for work in (Work(math.nan, 1, 1), Work(0, 0, 0), Work(1, -1, 1), Work(math.inf, 1, 1)):
        with pytest.raises(UsageError, match="work of"):
            bound(work, PEAKS, 1.0)
    with pytest.raises(UsageError, match="valid: float32"):
        bound(Work(1, 1, 1), PEAKS, 1.0, "float16")
    with pytest.raises(UsageError, match="working set"):
        bound(Work(1, 1, 1), PEAKS, math.nan)


def peak_row(name: str, seconds: float) -> dict[str, Any]:
    units, amount = 10, 4096 if name == "copy" else 1
    return {
        "variant": name, "dtype": "float32", "status": "ok", "units": units, "bytes": amount,
        "samples_s": [2 * units * seconds, units * seconds], "extra": json.dumps({"amount": amount}),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("measured", "alone", "together"),
    [
        ({"empty-kernel": 3e-6, "graph-node": 1e-6}, "empty-kernel", "graph-node"),
        ({"empty-kernel": 3e-6}, "empty-kernel", "empty-kernel"),
        ({"empty-kernel": 1e-6, "graph-node": 3e-6}, "empty-kernel", "empty-kernel"),
        ({"graph-node": 1e-6}, "graph-node", "graph-node"),
        ({}, None, None),
    ],
)
def test_a_launch_is_the_one_that_the_clock_of_the_kernel_shows(
    measured: dict[str, float], alone: str | None, together: str | None
) -> None:
    """The host's loops are faster here than all else, and still no floor: another host is faster."""
    rows = {"copy": 1e-6, "fma-float32": 1e-6, "launch": 1e-9, "queue": 1e-9, **measured}
    peaks = read_peaks(pd.DataFrame([peak_row(name, seconds) for name, seconds in rows.items()]))
    for is_alone, name in ((True, alone), (False, together)):
        launch = peaks.launch(alone=is_alone)
        assert (launch and launch.peak) == name
        floor = bound(Work(0, 1, 1), peaks, 1, launch=launch)
        assert floor.is_below_launch == (launch is not None)
        if launch:
            assert launch.seconds == pytest.approx(measured[launch.peak]) and launch.words.startswith("an empty kernel")
            assert not bound(Work(0, 1e9, 1), peaks, 1, launch=launch).is_below_launch
            assert floor.share_of(launch.seconds) is None, "a kernel that takes as long as an empty one"
            assert floor.share_of(launch.seconds / 2) == pytest.approx(2 * floor.seconds / launch.seconds)


@pytest.mark.parametrize(
    ("name", "clock", "units", "peak"),
    [
        ("convpool", DEVICE_CLOCK, 1, EMPTY_KERNEL),
        ("stencil", DEVICE_CLOCK, 23, GRAPH_NODE),
        ("lbm", HOST_CLOCK, 4000, GRAPH_NODE),
    ],
)
def test_the_launch_of_a_bound_follows_from_the_clock_and_the_units_of_the_lab(
    name: str, clock: str, units: int, peak: str
) -> None:
    lab = registry.get(name)
    peaks = Peaks(PEAKS.bandwidth, PEAKS.flops, {EMPTY_KERNEL: 3e-6, GRAPH_NODE: 1e-6})
    case = lab.cases("published")[0]
    assert (lab.clock, case.units) == (clock, units)
    data = SimpleNamespace(lab=lab, peaks=peaks, device=SimpleNamespace(slug="some-gpu", backend="cuda", kind="gpu"))
    launches = {floor.launch for floor in LabData.bounds(data, case).values()}  # type: ignore[arg-type]
    assert launches == {peaks.launch(alone=peak == EMPTY_KERNEL)} and {
        launch.peak for launch in launches if launch
    } == {peak}


def test_no_recorded_row_is_below_the_launch_of_its_bound() -> None:
    """The rows are those that launch a kernel for each unit: of a host in C, and of labs that time one unit alone."""
    store, compared = Store(project_root() / "results"), set[str]()
    for lab in (registry.get(name) for name in ("lbm", "convpool", "lenet")):
        for data in recorded(lab, store):
            launch = data.peaks.launch(alone=lab.clock == DEVICE_CLOCK) if data.peaks else None
            for case in data.cases if launch else ():
                readings = data.on(case.name).readings
                for variant in lab.all_variants():
                    reading, by_c = readings.get(variant.name), issubclass(variant.plan, CHost | FromC)
                    if (
                        launch
                        and reading
                        and reading.ok
                        and (by_c or (lab.clock == DEVICE_CLOCK and reading.role != "probe"))
                    ):
                        assert reading.median >= launch.seconds, (lab.name, data.device.name, case.name, variant.name)
                        compared.add("host in C" if by_c else lab.name)
    assert compared == {"host in C", "convpool", "lenet"}
