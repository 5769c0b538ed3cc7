"""Groups on a multiprocessor, held against figures of NVIDIA's own occupancy calculator, and where a GPU is, its driver's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofbook.devices.contract import Device
from roofbook.devices.occupancy import Multiprocessor, occupancy
from roofbook.spec.source import Source

KEPLER = Multiprocessor(threads=2048, groups=16, registers=65536, local_bytes=48 << 10)
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
    ],
)
def test_occupancy_as_the_calculator_has_it(
    place: Multiprocessor, registers: int, local_bytes: int, work_items: int, groups: int, share: float
) -> None:
    found = occupancy({"registers": registers, "local_bytes": local_bytes}, work_items, place)
    assert found["occupancy"] == share
    assert min(count for limit, count in found.items() if limit != "occupancy") == groups


@given(st.integers(1, 255), st.integers(0, 228 << 10), st.integers(1, 1024))
def test_more_of_anything_never_fits_more_groups(registers: int, local_bytes: int, work_items: int) -> None:
    less = occupancy({"registers": registers, "local_bytes": local_bytes}, work_items, HOPPER)
    more = occupancy({"registers": registers + 1, "local_bytes": local_bytes + 1}, work_items, HOPPER)
    assert all(more[limit] <= less[limit] for limit in less)
    assert 0 <= less["occupancy"] <= 1


@pytest.mark.gpu
@pytest.mark.parametrize("work_items", [32, 96, 256, 1024])
@pytest.mark.parametrize("values", [1, 1000, 12000])
def test_the_driver_says_the_same(device: Device, work_items: int, values: int, tmp_path: Path) -> None:
    if device.backend != "cuda" or device.multiprocessor is None:
        pytest.skip("only CUDA's driver tells")
    import cupy

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
    found = occupancy(kernel.resources(), work_items, device.multiprocessor)
    ask = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor
    assert min(found[limit] for limit in found if limit != "occupancy") == ask(kernel.function.ptr, work_items, 0)  # type: ignore[attr-defined]
    assert np.isfinite(found["occupancy"])
