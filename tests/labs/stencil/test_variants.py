"""Every variant and sweep point of the stencil lab against the float64 reference, on every device that is present.

Grids are small, with sides that no work-group and no vector divides where the variant allows it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from roofbook.devices.contract import Device, Unsupported
from roofbook.labs.stencil import LAB
from roofbook.measure.placement import target_of
from roofbook.spec.plan import Case, Runnable, Variant

from ... import mutants
from ..sweep_points import params
from . import native

SIZES = ["3x3", "5x13", "7x48", "3x128", "34x128", "6x1024", "130x1024", "5x2048"]
FEW = ["5x13", "7x48", "5x2048"]
"""Grids that reach every step, with sides that divide nothing where a step allows it; all others are thorough."""
STEPS = [pytest.param(v, id=v.name) for v in LAB.ladder]


def case_of(size: str, passes: int) -> Case:
    height, width = map(int, size.split("x"))
    return Case(size, "test", {"height": height, "width": width, "iterations": passes}, passes)


@cache
def inputs_of(size: str) -> Mapping[str, Any]:
    return LAB.inputs(case_of(size, 1), seed=7)


@cache
def right(size: str, passes: int) -> Mapping[str, Any]:
    return LAB.reference(case_of(size, passes), inputs_of(size))


def make(device: Device, variant: Variant, size: str, passes: int) -> Runnable:
    """Return the variant ready to run; skip the test where this device cannot run it."""
    target = target_of(variant, device)
    if target is None:
        pytest.skip(f"{variant.name} is not for {device.spec}")
    if math.prod(variant.options.get("group", (128,))) > target.device.max_work_group:
        pytest.skip(f"work-groups of {target.device.spec} have at most {target.device.max_work_group} work-items")
    return variant.plan(target.device, variant, case_of(size, passes), inputs_of(size))


def run(device: Device, variant: Variant, size: str, passes: int, times: int = 1) -> np.ndarray:
    """Return g after `times` runs, one after another."""
    runnable = make(device, variant, size, passes)
    runnable.reset()
    for _ in range(times):
        start = time.perf_counter()
        seconds = runnable.run()
        assert seconds is not None and 0 < seconds < time.perf_counter() - start
    g = runnable.outputs()["g"]
    runnable.close()
    return g


def accepted(variant: Variant, size: str, passes: int, g: np.ndarray) -> bool:
    over, allowed, quantity = LAB.check(case_of(size, passes), variant, {"g": g}, right(size, passes))
    print(f"{variant.name} on {size}, {passes} passes: {quantity} is {over:.3g}")
    return over <= allowed


# -- against the reference ---------------------------------------------------------------------------------------------


def why_not(variant: Variant, size: str) -> str | None:
    """Return the expected reason why a variant is excused from a grid; the lab's own words are compared with it."""
    width = int(size.partition("x")[2])
    name, _, point = variant.name.partition("@")
    lanes = {"float2": 2, "float4": 4, "float8": 8, "float16": 16, "fused": 4, "fused-float16": 16}.get(name, 1)
    if point.startswith("vector="):
        lanes = int(point.removeprefix("vector="))
    if point == "without=wide types":
        lanes = 1
    if width % lanes:
        return f"not on this case: the width is not a multiple of {lanes}"
    tasks = {"tasks-2": 2, "local-memory-tasks-2": 2, "tasks-4": 4, "tasks-8": 8, "tasks-16": 16}.get(name, 1)
    across = {"64x1": 64, "256x1": 256}.get(point.partition("=")[2], 128) * tasks
    ruled = name in ("no-ifs", "compiled-sizes", "rsqrt", "native-rsqrt", "local-memory") or tasks > 1
    if ruled and not point.startswith("wg=") and width % across:
        return f"not on this case: the width is not a multiple of {across}"
    return None


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param(FEW, id="few"),
        pytest.param([size for size in SIZES if size not in FEW], id="further", marks=pytest.mark.thorough),
    ],
)
@pytest.mark.parametrize("variant", STEPS)
def test_rung_lies_within_the_bound(device: Device, variant: Variant, sizes: Sequence[str]) -> None:
    """Two runs and one alone: the second run goes on from where the first ended."""
    for size in sizes:
        if why_not(variant, size) is None:
            for passes, times in ((23, 2), (1, 1)):
                assert accepted(variant, size, passes * times, run(device, variant, size, passes, times)), size


@pytest.mark.parametrize("variant", params(LAB.sweeps))
def test_point_of_a_sweep_lies_within_the_bound(device: Device, variant: Variant) -> None:
    """Grids: an odd one where the point allows it, and one whose width every vector and task divides, its height no group."""
    assert LAB.skip_reason(variant, case_of("35x1024", 23)) is None
    assert accepted(variant, "35x1024", 23, run(device, variant, "35x1024", 23))
    assert LAB.skip_reason(variant, case_of("5x13", 23)) == why_not(variant, "5x13")
    if why_not(variant, "5x13") is None:
        assert accepted(variant, "5x13", 23, run(device, variant, "5x13", 23))


ANY_SIZE = ("sequential", "sequential-c", "checked", "flat", "streams")
"""Steps that take every grid."""


def test_the_grids_reach_every_rung_and_every_reason() -> None:
    for variant in LAB.ladder:
        reasons = [why_not(variant, size) for size in SIZES]
        assert [LAB.skip_reason(variant, case_of(size, 23)) for size in SIZES] == reasons, variant.name
        assert not all(why_not(variant, size) for size in FEW), f"{variant.name} runs on no grid of the quick tests"
        assert any(reasons) == (variant.name not in ANY_SIZE), variant.name


def test_inner_rows_that_a_group_does_not_divide_are_refused_without_bounds(device: Device) -> None:
    """The report's rule for heights, which no variant of the lab needs, since its groups without bounds are one row high."""
    tall = replace(LAB.variant("native-rsqrt"), options={"group": (64, 2)})
    assert LAB.skip_reason(tall, case_of("35x128", 23)) == "not on this case: the inner rows are not a multiple of 2"
    assert LAB.skip_reason(tall, case_of("34x128", 23)) is None
    assert accepted(tall, "34x128", 23, run(device, tall, "34x128", 23))


def test_groups_cover_the_grid_and_say_so(device: Device) -> None:
    for name, group, groups in (
        ("checked", "128x1", 5 * 1), ("checked@lanes=100", "100x1", 5 * 1), ("checked@walk=columns", "128x1", 13 * 1),
        ("native-rsqrt@wg=8x16", "8x16", 2 * 1), ("flat", "128", 1),
    ):  # fmt: skip
        runnable = make(device, LAB.variant(name), "5x13", 2)
        facts = runnable.facts()
        runnable.close()
        assert (facts["group"], facts["groups"]) == (group, groups), name


def test_a_group_that_the_device_cannot_hold_is_unsupported(device: Device) -> None:
    huge = replace(LAB.variant("checked"), options={"group": (2 * device.max_work_group, 1)})
    most = device.max_work_group
    with pytest.raises(Unsupported, match=rf"^{2 * most} work-items a group \({2 * most}x1\): {most} at most$"):
        huge.plan(device, huge, case_of("5x13", 1), inputs_of("5x13"))


# -- same arithmetic, same bits ----------------------------------------------------------------------------------------

NATIVE = [
    v.name
    for v in LAB.all_variants()
    if v.source and (v.source.settings.get("ROOT") == "NATIVE" or v.source.path.name in ("flat.k", "streams.k"))
]


@pytest.mark.thorough
def test_every_way_to_add_the_same_roots_gives_the_same_bits(device: Device) -> None:
    """Launches, groups, tasks, wide types, local memory, alignment, all passes in one kernel: none may touch a bit."""
    if native.are_estimates(device):
        pytest.skip(f"native roots of {device.name} are estimates, which differ with the width of a vector")
    assert {"native-rsqrt", "local-memory", "tasks-8", "flat", "float16", "fused-float16", "streams"} <= set(NATIVE)
    one = run(device, LAB.variant("native-rsqrt"), "35x2048", 23)
    for name in NATIVE:
        g = run(device, LAB.variant(name), "35x2048", 23)
        np.testing.assert_array_equal(g.view(np.uint32), one.view(np.uint32), err_msg=name)


def test_bounds_and_sizes_change_no_bit(device: Device) -> None:
    one, *unchecked = (run(device, LAB.variant(name), "34x128", 23) for name in ("checked", "no-ifs", "compiled-sizes"))
    for g in unchecked:
        np.testing.assert_array_equal(g, one)


def test_a_run_again_from_a_reset_gives_the_same_bits(device: Device) -> None:
    runnable = make(device, LAB.variant("native-rsqrt@misaligned=3"), "34x128", 5)
    seen = []
    for _ in range(2):
        runnable.reset()
        np.testing.assert_array_equal(runnable.outputs()["g"], inputs_of("34x128")["g"])
        runnable.run()
        seen.append(runnable.outputs()["g"])
    runnable.close()
    np.testing.assert_array_equal(seen[0], seen[1])


# -- the check sees what a kernel does wrong ---------------------------------------------------------------------------


def test_the_check_refuses_what_is_wrong() -> None:
    case, expected = case_of("34x128", 23), right("34x128", 23)
    outputs = {"g": expected["g"].astype(np.float32)}
    further_mistakes = [
        ("a pass more", {"g": right("34x128", 24)["g"]}),
        ("as it began", {"g": inputs_of("34x128")["g"]}),
    ]
    mutants.all_refused(
        lambda outputs: LAB.check(case, LAB.ladder[0], outputs, expected), outputs, 1e-3, further_mistakes
    )
