"""Arguments of the driver's call that describes a tensor for TMA: a stand-in takes the driver's place."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from roofbook.devices import hopper
from roofbook.devices.contract import DriverFailed, Unsupported

BUFFER = SimpleNamespace(memory=SimpleNamespace(data=SimpleNamespace(ptr=4096)))


class Driver:
    """Stand-in that keeps the arguments of its calls, and answers with an error code."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.looked_for: list[str] = []
        self.error = 0

    def cuTensorMapEncodeTiled(self, to: ctypes.c_void_p, *arguments: Any) -> int:
        assert to.value and to.value % 64 == 0
        ctypes.memset(to.value, 7, hopper.MAP_BYTES)
        self.asked.append(
            tuple(list(argument) if isinstance(argument, ctypes.Array) else argument for argument in arguments)
        )
        return self.error


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    stand_in = Driver()

    def find(name: str) -> str:
        stand_in.looked_for.append(name)
        return "libcuda.so.1"

    monkeypatch.setattr(ctypes.util, "find_library", find)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: stand_in)
    hopper._encode.cache_clear()
    yield stand_in
    hopper._encode.cache_clear()


def test_sizes_and_strides_are_from_the_innermost_on_and_the_driver_is_looked_for_once(driver: Driver) -> None:
    half = hopper.tensor_map(BUFFER, (64, 10, 3), (64, 2, 1), half=True)
    assert half == bytes([7]) * hopper.MAP_BYTES
    hopper.tensor_map(BUFFER, (80, 40, 2), (88, 8, 2), half=False, strides=(640, 320), size=4, swizzled=False)
    (kind, rank, _, *halves), (single_kind, _, _, *singles) = driver.asked
    assert (kind, rank, single_kind) == (6, 3, 7), "fp16, then fp32"
    assert halves == [[64, 10, 3], [128, 1280], [64, 2, 1], [1, 1, 1], 0, 3, 2, 0], "without gaps, in swizzled lines"
    assert singles == [[80, 40, 2], [640, 320], [88, 8, 2], [1, 1, 1], 0, 0, 2, 0], "as the box lies"
    assert driver.looked_for == ["cuda"]


def test_what_the_driver_refuses_and_that_there_is_none(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.error = 1
    with pytest.raises(DriverFailed, match="cuTensorMapEncodeTiled stopped with error 1"):
        hopper.tensor_map(BUFFER, (64,), (64,), half=True)
    hopper._encode.cache_clear()
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    for _ in range(2):
        with pytest.raises(Unsupported, match="no NVIDIA driver library"):
            hopper.tensor_map(BUFFER, (64,), (64,), half=True)
