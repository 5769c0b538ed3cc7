"""What of the CUDA backend can be tried without a GPU: calls of the driver, which a stand-in takes."""

import ctypes
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from roofbook.devices import cuda
from roofbook.devices.contract import Device


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[cuda.CudaDevice]:
    """The second GPU of a machine, as far as `release_persisting` goes; `used` has which became the current one."""
    made = object.__new__(cuda.CudaDevice)
    made.index, used = 1, list[int]()
    chosen = SimpleNamespace(Device=lambda index: SimpleNamespace(use=lambda: used.append(index)))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=chosen))
    monkeypatch.setattr(made, "used", used, raising=False)
    cuda._driver.cache_clear()
    yield made
    cuda._driver.cache_clear()


def driver(monkeypatch: pytest.MonkeyPatch, **functions: Any) -> list[str]:
    """A library of the driver with these functions alone; returns which are loaded."""
    loaded: list[str] = []

    def load(name: str) -> Any:
        loaded.append(name)
        return SimpleNamespace(**functions)

    monkeypatch.setattr(ctypes, "CDLL", load)
    return loaded


def test_persisting_lines_of_l2_become_normal_ones_on_the_device_itself(
    device: cuda.CudaDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[int]] = []

    def reset() -> int:
        calls.append(list(device.used))  # type: ignore[attr-defined]
        return 801  # refused, as where no line can persist

    loaded = driver(monkeypatch, cuCtxResetPersistingL2Cache=reset)
    device.release_persisting()
    device.release_persisting()
    assert calls == [[1], [1, 1]] and loaded == ["libcuda.so.1"]


def test_a_driver_from_before_persisting_lines_and_none_at_all_stop_nothing(
    device: cuda.CudaDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = driver(monkeypatch)
    device.release_persisting()
    assert loaded

    def missing(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    cuda._driver.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", missing)
    device.release_persisting()
    assert cuda._driver() is None


@pytest.mark.gpu
def test_a_real_driver_takes_the_call(device_or_none: Device | None) -> None:
    if device_or_none is None:
        pytest.skip("no CUDA device: it takes an NVIDIA driver and CuPy")
    device_or_none.release_persisting()
    assert cuda._driver().cuCtxResetPersistingL2Cache() == 0


@pytest.fixture
def device_or_none() -> Device | None:
    return next(iter(cuda.devices()), None)
