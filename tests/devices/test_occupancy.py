"""Groups on a multiprocessor, compared with figures of NVIDIA's own occupancy calculator, and where a GPU is, its driver's."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofbook.devices import cuda
from roofbook.devices.contract import Device, Kernel, Unsupported
from roofbook.devices.occupancy import LIMITS, Multiprocessor, local_bytes_at_once, occupancy, partitions, recounted
from roofbook.measure.placement import target_of
from roofbook.spec import registry
from roofbook.spec.kernel_run import KernelRun, resources
from roofbook.spec.source import Source

KEPLER = Multiprocessor(threads=2048, groups=16, registers=65536, local_bytes=48 << 10)
PASCAL = Multiprocessor(
    threads=2048, groups=32, registers=65536, local_bytes=64 << 10, partitions=2, local_bytes_at_once=256
)
HOPPER = Multiprocessor(threads=2048, groups=32, registers=65536, local_bytes=228 << 10, reserved_local_bytes=1024)


@pytest.mark.parametrize(
    ("place", "registers", "local_bytes", "work_items", "groups", "share"),
    [
        (KEPLER, 20, 0, 32, 16, 0.25),  # the quarter that the sparse layer began with: groups of 32, 16 of them at most
        (KEPLER, 20, 0, 1024, 2, 1.0),
        (KEPLER, 33, 0, 1024, 1, 0.5),
        (KEPLER, 20, 12 << 10, 128, 4, 0.25),
        (HOPPER, 168, 0, 384, 1, 0.1875),
        (HOPPER, 32, 100 << 10, 256, 2, 0.25),
        (HOPPER, 32, 0, 33, 32, 1.0),
        (HOPPER, 80, 0, 160, 4, 0.3125),  # 6 warps in each of four sub-partitions; from one pool it would be 25 of them
        (HOPPER, 96, 0, 96, 6, 0.28125),
        (HOPPER, 40, 0, 784, 1, 0.390625),
        (HOPPER, 255, 0, 288, 0, 0.0),
        (PASCAL, 40, 0, 64, 25, 0.78125),  # a GP100 has two sub-partitions: 24 groups in four
        (PASCAL, 200, 0, 288, 0, 0.0),  # it would fit, but not on the rest of the family
        (PASCAL, 16, 129, 64, 32, 1.0),
        (PASCAL, 16, 2049, 64, 28, 0.875),  # 2304 bytes: in portions of 256
    ],
)
def test_occupancy_as_the_calculator_has_it(
    place: Multiprocessor, registers: int, local_bytes: int, work_items: int, groups: int, share: float
) -> None:
    limits = occupancy({"registers": registers, "local_bytes": local_bytes}, work_items, place)
    assert limits["occupancy"] == share
    assert min(count for limit, count in limits.items() if limit != "occupancy") == groups


@given(st.integers(1, 255), st.integers(1, 1024))
def test_registers_as_warps_that_are_placed_one_by_one(registers: int, work_items: int) -> None:
    """Count groups as a multiprocessor places them: each warp needs all its registers in one of the four sub-partitions."""
    left, warps, groups = [65536 // 4] * 4, -(-work_items // 32), 0
    of_a_warp = -(-registers * 32 // 256) * 256
    while True:
        for _ in range(warps):
            most = left.index(max(left))
            left[most] -= of_a_warp
        if min(left) < 0:
            break
        groups += 1
    assert occupancy({"registers": registers, "local_bytes": 0}, work_items, HOPPER)["groups_by_registers"] == groups


def test_an_architecture_has_its_portions() -> None:
    assert [partitions(architecture) for architecture in (60, 61, 70, 90, 120)] == [2, 4, 4, 4, 4]
    assert [local_bytes_at_once(architecture) for architecture in (60, 75, 80, 90)] == [256, 256, 128, 128]


def test_rows_of_an_older_rule_are_counted_again() -> None:
    other_limits = {"groups_by_local_memory": 228, "groups_by_work_items": 12}
    old = {
        "registers": 80,
        "group": "160x1",
        "groups_by_registers": 5,
        **other_limits,
        "occupancy": 25 / 64,
        "cores": 16896,
    }
    new = old | {"groups_by_registers": 4, "occupancy": 0.3125, "occupancy_by": "rule"}
    assert recounted(old, 90) == new
    assert recounted(new, 90) == new, "once"
    assert recounted(old | {"groups_by_local_memory": 2, "occupancy": 10 / 64}, 90)["occupancy"] == 10 / 64, (
        "another limit"
    )
    second = {name + "_1": value for name, value in old.items()}
    assert recounted(old | second, 90) == new | {name + "_1": value for name, value in new.items()}
    for lacking in ("group", "registers", "groups_by_work_items", "occupancy"):
        reduced = {name: value for name, value in old.items() if name != lacking}
        assert recounted(reduced, 90) == reduced
    by_driver = old | {"occupancy": 0.25, "occupancy_by": "driver"}
    assert recounted(by_driver, 90) == by_driver
    assert recounted({"accuracy": 0.9}, 90) == {"accuracy": 0.9}


class Counted(Kernel):
    """Kernel of 80 registers whose driver counts groups, or does not."""

    def __init__(self, groups: int | None) -> None:
        self.groups = groups

    def resources(self) -> dict[str, int]:
        return {"registers": 80, "local_bytes": 0}

    def groups_at_once(self, work_items: int) -> int | None:
        assert work_items == 160
        return self.groups


class Place:
    """The part of a device that `resources` reads."""

    def __init__(self, multiprocessor: Multiprocessor | None) -> None:
        self.multiprocessor = multiprocessor


@pytest.mark.parametrize(
    ("groups", "share", "by"), [(None, 0.3125, "rule"), (4, 0.3125, "driver"), (3, 15 / 64, "driver")]
)
def test_occupancy_is_the_drivers_where_it_counts(groups: int | None, share: float, by: str) -> None:
    facts = resources(cast(Device, Place(HOPPER)), Counted(groups), (32, 5))
    assert (facts["occupancy"], facts["occupancy_by"]) == (share, by)
    assert facts["groups_by_registers"] == 4, "what sets the limit is by the rule"
    assert "occupancy" not in resources(cast(Device, Place(None)), Counted(groups), (32, 5))


class Driver:
    """Stand-in for CuPy's driver: its count, and a kernel's clusters as the driver tells them, or -1 where it knows none."""

    def __init__(self, *cluster: int) -> None:
        self.cluster = dict(zip((11, 12, 13), cluster, strict=True))
        self.asked: list[tuple[int, int, int]] = []

    def funcGetAttribute(self, attribute: int, function: int) -> int:
        return self.cluster[attribute]

    def occupancyMaxActiveBlocksPerMultiprocessor(self, function: int, work_items: int, dynamic: int) -> int:
        self.asked.append((function, work_items, dynamic))
        return 7


@pytest.mark.parametrize(
    ("cluster", "groups"), [((0, 0, 0), 7), ((-1, -1, -1), 7), ((1, 1, 1), 7), ((2, 1, 1), None), ((1, 1, 2), None)]
)
def test_the_driver_is_not_asked_about_clusters(
    monkeypatch: pytest.MonkeyPatch, cluster: tuple[int, int, int], groups: int | None
) -> None:
    driver = Driver(*cluster)
    stand_in = SimpleNamespace(cuda=SimpleNamespace(Device=nullcontext, driver=driver))
    monkeypatch.setitem(sys.modules, "cupy", stand_in)
    kernel = cuda.Kernel(SimpleNamespace(kernel=SimpleNamespace(ptr=5)), "some")
    kernel.configure(cooperative=True, dynamic_local_bytes=1000)
    assert kernel.groups_at_once(96) == groups
    assert driver.asked == ([(5, 96, 1000)] if groups else [])


@given(st.integers(1, 255), st.integers(0, 228 << 10), st.integers(1, 1024))
def test_more_of_anything_never_fits_more_groups(registers: int, local_bytes: int, work_items: int) -> None:
    needs_less = occupancy({"registers": registers, "local_bytes": local_bytes}, work_items, HOPPER)
    needs_more = occupancy({"registers": registers + 1, "local_bytes": local_bytes + 1}, work_items, HOPPER)
    assert all(needs_more[limit] <= needs_less[limit] for limit in needs_less)
    assert 0 <= needs_less["occupancy"] <= 1


@pytest.mark.gpu
@pytest.mark.parametrize("work_items", [32, 96, 256, 1024])
@pytest.mark.parametrize("values", [1, 1000, 12000])
def test_the_driver_says_the_same(device: Device, work_items: int, values: int, tmp_path: Path) -> None:
    if device.backend != "cuda" or device.multiprocessor is None:
        pytest.skip("only CUDA's driver tells")
    path = tmp_path / "filled.k"
    path.write_text(f"""
KERNEL void filled(GLOBAL float *x) {{
  LOCAL_ARRAY(float, kept, {values});
  kept[LOCAL_ID(0) % {values}] = x[LOCAL_ID(0)];
  BARRIER();
  x[GLOBAL_ID(0)] = kept[{values} - 1 - LOCAL_ID(0) % {values}];
}}
""")
    kernel = device.build(Source.of(path).render("cuda")).kernel("filled")
    limits = occupancy(kernel.resources(), work_items, device.multiprocessor)
    assert min(limits[limit] for limit in LIMITS) == kernel.groups_at_once(work_items)
    assert np.isfinite(limits["occupancy"])


@pytest.mark.gpu
@pytest.mark.parametrize("lab", registry.names())
def test_the_driver_says_the_same_of_every_kernel_of_a_lab(device: Device, lab: str) -> None:
    if device.backend != "cuda" or device.multiprocessor is None:
        pytest.skip("only CUDA's driver tells")
    compared_lab = registry.get(lab)
    case = compared_lab.cases("test")[0]
    inputs, compared = compared_lab.inputs(case, 1), 0
    for variant in compared_lab.ladder:
        if compared_lab.skip_reason(variant, case) or target_of(variant, device) is None:
            continue
        try:
            run = variant.plan(device, variant, compared_lab.verification_case(case, variant), inputs)
        except Unsupported:
            continue
        try:
            if not isinstance(run, KernelRun) or not hasattr(run, "kernel"):
                continue
            items = int(np.prod(run.group))
            counted = run.kernel.groups_at_once(items)
            if counted is None:
                continue
            by_rule = occupancy(run.kernel.resources(), items, device.multiprocessor)
            assert min(by_rule[limit] for limit in LIMITS) == counted, variant.name
            compared += 1
        finally:
            run.close()
    if not compared:
        pytest.skip("no plan of this lab is a single kernel")
