"""The report's steps from a loop in C: the same results as from a loop in Python, and each command as it was recorded."""

from __future__ import annotations

import ctypes
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from roofbook.devices.contract import Device, DriverFailed, Unsupported
from roofbook.devices.find import host_cpu
from roofbook.labs.lbm import LAB, replay
from roofbook.labs.lbm.lattice import C_STEPS
from roofbook.peers import cc

pytestmark = pytest.mark.skipif(cc.compiler() is None, reason="no C compiler: none of CC, cc, gcc, clang")


@pytest.fixture(scope="module")
def device() -> Device:
    try:
        return host_cpu()
    except Unsupported as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("name", C_STEPS)
def test_a_loop_in_c_changes_no_bit(name: str, device: Device) -> None:
    case = LAB.awkward_case("64x16")
    inputs = LAB.inputs(case, 3)
    results = []
    for variant in (LAB.variant(name), LAB.variant(f"c-host@step={name}")):
        run = variant.plan(device, variant, case, inputs)
        run.reset()
        for _ in range(2):  # the second run goes on from the state of the first
            run.run()
        results.append(run.outputs())
        run.close()
    python, c = results
    np.testing.assert_array_equal(python["f"], c["f"])
    np.testing.assert_allclose(python["av_vels"], c["av_vels"], rtol=1e-6)
    assert name == "no-compute" or np.isfinite(c["av_vels"]).all()


def test_on_a_large_grid_python_does_not_count() -> None:
    step = LAB.variant("c-host@step=soa")
    small, *_, large = LAB.cases("published")
    assert LAB.skip_reason(step, small) is None
    assert "large a grid" in str(LAB.skip_reason(step, large))


class Driver:
    """A CUDA driver that notes its calls, and whose memory is the host's."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.fails_at = -1
        number, pointer = ctypes.c_int, ctypes.c_void_p
        self.kept = {
            "cuStreamSynchronize": ctypes.CFUNCTYPE(number, pointer)(self.synchronize),
            "cuLaunchKernel": ctypes.CFUNCTYPE(
                number, pointer, *[ctypes.c_uint] * 7, pointer, ctypes.POINTER(pointer), pointer
            )(self.launch),
            "cuMemcpyDtoHAsync_v2": ctypes.CFUNCTYPE(number, pointer, pointer, ctypes.c_size_t, pointer)(self.copy),
        }

    def address(self, library: Any, name: str) -> int | None:
        return ctypes.cast(self.kept[name], ctypes.c_void_p).value

    def synchronize(self, stream: int) -> int:
        self.calls.append("wait")
        return 0

    def launch(self, kernel: int, *arguments: Any) -> int:
        values = arguments[8]
        pointer = ctypes.c_void_p.from_address(values[0]).value
        number, step = (ctypes.c_int.from_address(values[i]).value for i in (1, 2))
        self.calls.append((kernel, arguments[:7], pointer, number, step))
        return 700 if step == self.fails_at else 0

    def copy(self, to: int, source: int, n_bytes: int, stream: int) -> int:
        self.calls.append(f"copy {n_bytes}")
        ctypes.memmove(to, source, n_bytes)
        return 0


def test_commands_are_repeated_in_order_with_the_number_of_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    monkeypatch.setattr(replay, "_loaded", lambda name: name)
    monkeypatch.setattr(replay, "_address", driver.address)
    cuda = SimpleNamespace(backend="cuda")
    queue = SimpleNamespace(stream=SimpleNamespace(ptr=9))
    recorder = replay.Recorder(cuda, queue)  # type: ignore[arg-type]
    memory = np.array([1.5, 2.5], np.float32)
    buffer = SimpleNamespace(memory=SimpleNamespace(data=SimpleNamespace(ptr=memory.ctypes.data)))
    kernels = [SimpleNamespace(function=SimpleNamespace(ptr=number)) for number in (11, 22)]
    sums = np.zeros(2, np.float32)

    def step(kernel: Any) -> None:
        recorder.launch(kernel, (64, 6), (16, 2), buffer, np.int32(kernel.function.ptr), replay.STEP)
        recorder.read(buffer, sums)
        recorder.add_up(sums, None)

    for kernel in kernels:
        recorder.record(partial(step, kernel))
    assert recorder.replay(1, 3, fluid_cells=8).tolist() == [0.5] * 3
    shape, read = (4, 3, 1, 16, 2, 1, 0), ["copy 8", "wait"]
    launches = [(kernel, shape, memory.ctypes.data, kernel, number) for number, kernel in enumerate((22, 11, 22))]
    assert driver.calls == [launches[0], *read, launches[1], *read, launches[2], *read]
    driver.calls.clear()
    driver.fails_at = 1
    with pytest.raises(DriverFailed, match="error 700"):
        recorder.replay(0, 9)
    assert driver.calls[-1] == "wait" and len(driver.calls) == 5
