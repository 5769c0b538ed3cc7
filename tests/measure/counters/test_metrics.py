"""ncu's output as numbers: counters are those of a step's kernels in all, and a number that ncu lacks is unknown, not zero."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofbook.analysis.readings import of_kernel
from roofbook.errors import Failed, UsageError
from roofbook.measure import counters
from roofbook.measure.counters import (
    AMOUNTS,
    DURATION,
    METRICS,
    SHARES,
    Launch,
    counters_of,
    limit,
    parse,
    total,
)

from .made_up import PERMISSION, SAMPLE, STEPS, changed

CELLS = 1024 * 1024


def test_the_sample_of_ncu_is_read() -> None:
    launches = parse(SAMPLE)
    assert [launch.kernel for launch in launches] == ["accelerate_flow", "fused"] * STEPS
    assert {(launch.kernel, launch.grid, launch.block) for launch in launches} == {
        ("accelerate_flow", "16x1x1", "64x1x1"),
        ("fused", "16x1024x1", "64x1x1"),
    }
    values = launches[1].values
    assert set(values) == set(METRICS)
    assert values["dram__bytes_read.sum"] == 42_107_904 and values["gpu__time_duration.sum"] == pytest.approx(48.32e-6)
    assert values["dram__throughput.avg.pct_of_peak_sustained_elapsed"] == pytest.approx(0.2739)


def test_counters_are_per_step_of_all_kernels() -> None:
    per_step = counters_of(parse(SAMPLE), STEPS)["counters"]
    read, written = 44800 + 42107904 + 44288 + 42104320 + 44288 + 42104576, 21566976 + 21314560 + 21695744
    assert per_step["dram_bytes"] == pytest.approx((read + written) / 3)
    assert per_step["l1_bytes"] == 396160 + 609222656 and per_step["instructions"] == pytest.approx(15471383.33)
    assert per_step["flops"] == 2 * 99128890 + (51134752 + 6126) + 11478082
    assert per_step["seconds"] == pytest.approx((3.04 + 48.32 + 2.912 + 48.544 + 2.848 + 48.288) * 1e-6 / 3)
    assert (per_step["launches"], per_step["limit"]) == (2, "L2")
    of_time = 3.04 * 0.95 + 48.32 * 82.36 + 2.912 * 1.28 + 48.544 * 82.40 + 2.848 * 1.02 + 48.288 * 82.20
    assert per_step["l2"] == pytest.approx(of_time / 100 / (3.04 + 48.32 + 2.912 + 48.544 + 2.848 + 48.288))
    assert 0.60 < per_step["occupancy"] < 0.64, "an idle kernel of 3 microseconds hardly counts"
    assert per_step["l1_bytes"] > per_step["l2_bytes"] > per_step["dram_bytes"] > 36 * CELLS


def test_kernels_are_listed_by_name_and_shape_in_order_of_launch() -> None:
    grids = ((-1, '"(16, 1024, 1)"'), (0, '"(8, 1024, 1)"'))
    first, second = SAMPLE.split('"3","545"')
    text = first + '"3","545"' + second.replace(grids[0][1], grids[1][1])
    report = counters_of(parse(text), STEPS)
    assert [(kernel["kernel"], kernel["grid"], kernel["launches"]) for kernel in report["kernels"]] == [
        ("accelerate_flow", "16x1x1", 1),
        ("fused", "16x1024x1", pytest.approx(1 / 3)),
        ("fused", "8x1024x1", pytest.approx(2 / 3)),
    ]
    assert of_kernel(report, "fused", 1, "l1_bytes") == pytest.approx(609222656 / 3)
    assert of_kernel(report, "fused", 2, "l1_bytes") == pytest.approx(609222656 * 2 / 3)
    assert of_kernel(report, "fused", 3, "l1_bytes") is None is of_kernel(report, "fused", 0, "l1_bytes")
    assert of_kernel(report, "soa", 1, "l1_bytes") is None


def test_the_kernel_that_only_waits_is_left_out() -> None:
    report = counters_of(parse(changed(('"accelerate_flow"', '"wait_ns"'))), STEPS)
    assert [kernel["kernel"] for kernel in report["kernels"]] == ["fused"]
    assert report["counters"]["l1_bytes"] == 609222656 and report["counters"]["launches"] == 1
    only = changed(('"accelerate_flow"', '"wait_ns"'), ('"fused"', '"wait_ns"'))
    with pytest.raises(Failed, match="ncu counted no kernel"):
        counters_of(parse(only), STEPS)


@pytest.mark.parametrize("text", ["n/a", "nan", "", "inf", "(!) n/a"])
def test_a_number_that_ncu_does_not_report_is_unknown_and_not_zero(text: str) -> None:
    report = counters_of(parse(changed(('"99,128,890"', f'"{text}"'))), STEPS)
    assert report["counters"]["ffma"] is None is report["counters"]["flops"] and report["counters"]["fadd"] == 51140878
    assert of_kernel(report, "accelerate_flow", 1, "ffma") == 0
    unknown = counters_of(parse(changed(('"82.36"', f'"{text}"'))), STEPS)["counters"]
    assert unknown["l2"] is None is unknown["limit"] and unknown["dram"] is not None
    untimed = counters_of(parse(changed(('"48,320"', f'"{text}"'))), STEPS)["counters"]
    assert untimed["seconds"] is None is untimed["l2"] and untimed["dram_bytes"] is not None


def test_a_metric_that_this_gpu_does_not_have_is_unknown() -> None:
    per_step = counters_of(parse(changed(('"sm__inst_executed_pipe_tensor.sum"', '"another"'))), STEPS)["counters"]
    assert per_step["tensor_instructions"] is None and per_step["instructions"] is not None


NOT_LOADED = "==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n"


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        (
            PERMISSION,
            UsageError,
            "ncu may not read the GPU's counters: run as root, or have the driver allow it to all",
        ),
        (NOT_LOADED, UsageError, "cannot count on this machine: Failed to initialize the profiler: LibraryNotLoaded"),
        ("", Failed, "ncu counted no kernel$"),
        ("==WARNING== No kernels were profiled.\n", Failed, "ncu counted no kernel$"),
        ("==ERROR== LaunchFailed\n", Failed, "ncu counted no kernel: LaunchFailed"),
        (SAMPLE[: SAMPLE.index('"0","545"')], Failed, "ncu counted no kernel"),
        (SAMPLE[: SAMPLE.index('"","",')], Failed, "without a line of units"),
        (SAMPLE.replace('"Kernel Name"', '"Name"'), Failed, "without names of kernels"),
        (SAMPLE.replace('"byte"', '"Mbyte"'), Failed, "in 'Mbyte'; base units are needed: inst, byte"),
    ],
)
def test_output_without_counters_is_one_line(text: str, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        parse(text)
    assert "\n" not in str(caught.value) and isinstance(caught.value, UsageError) == (kind is UsageError)


NUMBERS = st.none() | st.integers(0, 10**12).map(float)
KERNELS = st.sampled_from(["fused", "void cut<float, 3>(T1::Params, int)", 'a "quoted" name'])


@st.composite
def runs(draw: st.DrawFn) -> list[Launch]:
    launches = []
    for _ in range(draw(st.integers(1, 6))):
        values: dict[str, float | None] = {metric: draw(NUMBERS) for metric in METRICS if metric not in SHARES.values()}
        shares = st.none() | st.integers(0, 10000).map(lambda hundredths: hundredths / 10000)
        values |= {metric: draw(shares) for metric in SHARES.values()}
        duration = draw(st.none() | st.integers(1, 10**9))
        values[DURATION] = None if duration is None else duration * 1e-9
        launches.append(Launch(draw(KERNELS), draw(st.sampled_from(["1x1x1", "16x1024x1"])), "64x1x1", values))
    return launches


def written(launches: Sequence[Launch]) -> str:
    """Return launches as ncu prints them, with a line of the program and one of ncu in between."""
    out = StringIO()
    table = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    table.writerow(["ID", "Kernel Name", "Block Size", "Grid Size", *METRICS])
    units = {DURATION: "ns"} | dict.fromkeys(SHARES.values(), "%")
    table.writerow(["", "", "", "", *(units.get(metric, "byte") for metric in METRICS)])
    for number, launch in enumerate(launches):
        sizes = {DURATION: 1e9} | dict.fromkeys(SHARES.values(), 100)
        numbers = [
            "n/a" if value is None else f"{value * sizes.get(metric, 1):,.2f}"
            for metric, value in launch.values.items()
        ]
        shape = [f"({shape_text.replace('x', ', ')})" for shape_text in (launch.block, launch.grid)]
        table.writerow([str(number), launch.kernel, *shape, *numbers])
        out.write("==PROF== what ncu says, and what the program says\n")
    return "==PROF== Connected\n" + out.getvalue()


@given(runs(), st.integers(1, 50))
def test_printed_launches_are_parsed_and_sums_cover_all_of_them(launches: list[Launch], units: int) -> None:
    launches_read = parse(
        written(
            [
                Launch(launch.kernel, launch.grid, launch.block, dict.fromkeys(METRICS) | dict(launch.values))
                for launch in launches
            ]
        )
    )
    assert [(launch.kernel, launch.grid, launch.block) for launch in launches_read] == [
        (launch.kernel, launch.grid, launch.block) for launch in launches
    ]
    for launch, expected in zip(launches_read, launches, strict=True):
        for metric in METRICS:
            assert launch.values[metric] == (
                None if expected.values[metric] is None else pytest.approx(expected.values[metric])
            )
    report = counters_of(launches_read, units)
    for name, metrics in AMOUNTS.items():
        every = [launch.values[metric] for launch in launches for metric in metrics]
        present = [amount for amount in every if amount is not None]
        parts = [kernel[name] for kernel in report["kernels"]]
        if len(present) < len(every):
            assert report["counters"][name] is None and None in parts
        else:
            assert report["counters"][name] == pytest.approx(sum(present) / units) == pytest.approx(sum(parts))
    for name, metric in SHARES.items():
        values = [launch.values[metric] for launch in launches]
        if None in values or None in [launch.values[DURATION] for launch in launches]:
            assert report["counters"][name] is None
        else:
            low, high = (end(value for value in values if value is not None) for end in (min, max))
            assert low - 1e-4 <= report["counters"][name] <= high + 1e-4
    assert report["counters"]["launches"] == pytest.approx(len(launches) / units)


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ({"dram": 0.9, "l2": 0.8, "l1": 0.2, "sm": 0.3}, "DRAM"),
        ({"dram": 0.2, "l2": 0.8, "l1": 0.2, "sm": 0.3}, "L2"),
        ({"dram": 0.2, "l2": 0.3, "l1": 0.7, "sm": 0.3}, "L1"),
        ({"dram": 0.2, "l2": 0.3, "l1": 0.6, "sm": 0.95}, "SM"),
        ({"dram": 0.6, "l2": 0.3, "l1": 0.1, "sm": 0.1}, "DRAM"),
        ({"dram": 0.59, "l2": 0.3, "l1": 0.1, "sm": 0.1}, "latency"),
        ({"dram": 0.9, "l2": 0.3, "l1": None, "sm": 0.1}, None),
        ({"dram": 0.9, "l2": 0.3, "sm": 0.1}, None),
    ],
)
def test_the_limit_is_the_unit_that_is_used_most_if_it_is_used_much(
    shares: dict[str, float | None], expected: str | None
) -> None:
    assert limit({"memory": 1.0, "occupancy": 1.0} | shares) == expected


def test_every_counter_has_a_metric_and_every_limit_a_share() -> None:
    totals = total(parse(SAMPLE), STEPS)
    assert {*AMOUNTS, *SHARES, "flops", "limit", "seconds", "launches"} == set(totals)
    assert set(counters.LIMITS) <= set(SHARES) and len(set(METRICS)) == len(METRICS)
