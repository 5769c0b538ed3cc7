"""Parts of the CUDA backend that need no GPU: a stand-in takes the calls of the driver."""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from roofbook.devices import cuda, nccl
from roofbook.devices.contract import BuildFailed, Device, DriverFailed, Message, OutOfMemory, Unsupported


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[cuda.CudaDevice]:
    """The second GPU of a machine, as far as `release_persisting` goes; `used` lists devices that became the current one."""
    gpu = object.__new__(cuda.CudaDevice)
    gpu.index, used = 1, list[int]()
    chosen = SimpleNamespace(Device=lambda index: SimpleNamespace(use=lambda: used.append(index)))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=chosen))
    monkeypatch.setattr(gpu, "used", used, raising=False)
    cuda._driver.cache_clear()
    yield gpu
    cuda._driver.cache_clear()


def driver(monkeypatch: pytest.MonkeyPatch, **functions: Any) -> list[str]:
    """Stand-in for the driver's library, with these functions alone; returns the list of loaded libraries."""
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


@pytest.mark.parametrize(("cached", "tries"), [([9, 4, 4], 2), ([9, 9], 1), (None, 1)])
def test_memory_that_pytorch_keeps_unused_is_asked_for_before_there_is_none(
    device: cuda.CudaDevice, monkeypatch: pytest.MonkeyPatch, cached: list[int] | None, tries: int
) -> None:
    """cached: bytes that PyTorch says it holds, each time that it is asked."""
    requests = list[int]()

    class NoMemory(Exception):
        pass

    def memory(nbytes: int) -> Any:
        requests.append(nbytes)
        raise NoMemory("cudaErrorMemoryAllocation")

    if cached is None:
        monkeypatch.delitem(sys.modules, "torch", raising=False)
    else:
        held = iter([*cached, *cached[-1:]])
        of_gpu = SimpleNamespace(is_initialized=lambda: True, memory_reserved=lambda: next(held), empty_cache=list)
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=of_gpu))
    place = sys.modules["cupy"].cuda
    place.Memory, place.MemoryPointer = memory, tuple
    place.runtime = SimpleNamespace(CUDARuntimeError=NoMemory)
    place.memory = SimpleNamespace(OutOfMemoryError=NoMemory)
    with pytest.raises(OutOfMemory, match=r"^64 bytes asked for: cudaErrorMemoryAllocation$"):
        device.empty(64)
    assert requests == [64] * tries


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


def test_a_kernel_that_the_module_has_not_is_named_and_another_failure_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = iter(
        ["CUDA_ERROR_NOT_FOUND: named symbol not found", "CUDA_ERROR_INVALID_CONTEXT: invalid device context"]
    )

    def fails(name: str) -> Any:
        raise ValueError(next(errors))

    cupy = SimpleNamespace(Device=nullcontext, driver=SimpleNamespace(CUDADriverError=ValueError))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cupy))
    program = cuda.Program(SimpleNamespace(get_function=fails))
    with pytest.raises(BuildFailed, match=r"\Ano kernel in it is named other\Z"):
        program.kernel("other")
    with pytest.raises(ValueError, match="INVALID_CONTEXT"):
        program.kernel("other")


class OfOneDevice:
    """Stand-in for CuPy's RawModule and its RawKernels: loaded on the device that is current when a function is called.

    Each later device loads it from the file of the first.
    """

    ptr, registers = 5, 7

    def __init__(self, current: list[int]) -> None:
        self.current, self.loaded_on, self.dynamic = current, list(current), 0

    def loaded(self) -> "OfOneDevice":
        if self.current != self.loaded_on:
            raise FileNotFoundError("CUDA_ERROR_FILE_NOT_FOUND: file not found")
        return self

    kernel = property(loaded)

    @property
    def attributes(self) -> dict[str, int]:
        names = ("num_regs", "local_size_bytes", "shared_size_bytes", "const_size_bytes", "max_threads_per_block")
        return dict.fromkeys(names, self.loaded().registers)

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        return self.loaded().dynamic

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, nbytes: int) -> None:
        self.loaded().dynamic = nbytes

    def get_function(self, name: str) -> "OfOneDevice":
        return OfOneDevice(self.loaded().current)

    def get_global(self, name: str) -> int:
        return 20 * self.loaded().ptr


@pytest.fixture
def current_device(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """List that holds the current device alone, which CuPy's stand-in changes."""
    now, entered = [0], list[int]()

    class Chosen:
        def __init__(self, index: int | None = None) -> None:
            self.index = now[0] if index is None else index

        def __enter__(self) -> None:
            entered.append(now[0])
            now[0] = self.index

        def __exit__(self, *_: object) -> None:
            now[0] = entered.pop()

    driver = SimpleNamespace(
        CUDADriverError=FileNotFoundError, funcGetAttribute=lambda attribute, function: 0,
        occupancyMaxActiveBlocksPerMultiprocessor=lambda function, work_items, dynamic: 10 + now[0],
    )  # fmt: skip
    stand_in = SimpleNamespace(cuda=SimpleNamespace(Device=Chosen, driver=driver), ndarray=lambda *_, **fields: fields)
    monkeypatch.setitem(sys.modules, "cupy", stand_in)
    return now


def test_what_is_asked_of_a_kernel_is_asked_on_its_own_device(current_device: list[int]) -> None:
    """After a run on several devices the last one is current, and the first one's kernel is asked."""
    program = cuda.Program(OfOneDevice(current_device))
    kernel = program.kernel("step")
    current_device[0] = 1
    with pytest.raises(FileNotFoundError):
        _ = kernel.kernel.attributes
    kernel.configure(dynamic_local_bytes=64)
    assert kernel.kernel.dynamic == 64
    assert kernel.resources() == {
        "registers": 7, "spill_bytes": 7, "local_bytes": 71, "constant_bytes": 7, "work_group_limit": 7,
    }  # fmt: skip
    assert kernel.groups_at_once(32) == 10
    assert program.kernel("other").resources()["registers"] == 7
    assert program.constant("weights", 12)[0].memory["memptr"] == 100
    assert current_device == [1], "what follows is submitted where it would have been"


def test_an_early_launch_gives_the_driver_sizes_arguments_and_its_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []

    def launch(config: Any, function: Any, pointers: Any, extra: None) -> int:
        launched = config._obj
        attribute = launched.attributes[0]
        calls.append((
            list(launched.grid), list(launched.block), launched.shared_bytes, launched.stream, launched.count, attribute.id,
            attribute.value.programmatic_stream_serialization_allowed, function.value,
            ctypes.cast(pointers[0], ctypes.POINTER(ctypes.c_uint64))[0],
            ctypes.cast(pointers[1], ctypes.POINTER(ctypes.c_int))[0],
            ctypes.cast(pointers[2], ctypes.POINTER(ctypes.c_float))[0],
        ))  # fmt: skip
        return 0 if len(calls) == 1 else 719

    monkeypatch.setattr(cuda, "_driver", lambda: SimpleNamespace(cuLaunchKernelEx=launch))
    early = cuda.EarlyFunction(5)
    memory, stream = SimpleNamespace(data=SimpleNamespace(ptr=1 << 40)), SimpleNamespace(ptr=9)
    early((2, 3), (64, 1), (memory, np.int32(-7), np.float32(0.5)), stream=stream, shared_mem=48)
    assert calls == [([2, 3, 1], [64, 1, 1], 48, 9, 1, 6, 1, 5, 1 << 40, -7, 0.5)]
    sizes = ctypes.sizeof(cuda._LaunchAttribute), ctypes.sizeof(cuda._LaunchConfig), cuda._LaunchConfig.stream.offset
    assert sizes == (72, 56, 32), "as cuda.h has them"
    with pytest.raises(DriverFailed, match=r"^cuLaunchKernelEx stopped with error 719$"):
        early((1,), (1,), (memory, np.int32(0), np.float32(0)), stream=stream)
    monkeypatch.setattr(cuda, "_driver", lambda: SimpleNamespace())
    with pytest.raises(Unsupported, match="CUDA 12"):
        early((1,), (1,), (), stream=stream)


@pytest.mark.gpu
def test_a_real_driver_takes_the_call(device_or_none: Device | None) -> None:
    if device_or_none is None:
        pytest.skip("no CUDA device: it takes an NVIDIA driver and CuPy")
    device_or_none.release_persisting()
    assert cuda._driver().cuCtxResetPersistingL2Cache() == 0


@pytest.fixture
def device_or_none() -> Device | None:
    return next(iter(cuda.devices()), None)


# -- sets of GPUs, by a stand-in for CuPy ------------------------------------------------------------------------------


class Refused(Exception):
    """CuPy's exception for an error of the runtime."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Three GPUs of one model and one of another. The third is no peer of the first two. `calls`: calls of the runtime."""
    calls: list[tuple[Any, ...]] = []

    def enable(peer: int) -> None:
        calls.append(("peer", current[0], peer))
        if calls.count(calls[-1]) > 1:
            raise Refused(cuda.PEER_ACCESS_ALREADY_ENABLED)

    current = [0]
    runtime = SimpleNamespace(
        deviceCanAccessPeer=lambda one, peer: {one, peer} == {0, 1}, deviceEnablePeerAccess=enable, CUDARuntimeError=Refused
    )  # fmt: skip
    use = SimpleNamespace(
        Device=lambda index: SimpleNamespace(use=lambda: current.__setitem__(0, index)), runtime=runtime
    )
    gpus = []
    for index, name in enumerate(("A", "A", "A", "B")):
        gpu: Any = object.__new__(cuda.CudaDevice)
        gpu.index, gpu.name, gpu.spec, gpu.uuid, gpu.pci_bus_id = (
            index,
            name,
            f"cuda:{index}",
            f"GPU-{index}",
            f"0:{index}",
        )
        gpus.append(gpu)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=use))
    monkeypatch.setattr(cuda, "devices", lambda: gpus)
    facts = {"0:0": {"uuid": "GPU-of-0"}, "0:1": {"uuid": None}}
    monkeypatch.setattr(cuda, "card", lambda place: SimpleNamespace(facts=lambda: facts.get(place)))
    gpus[0].calls, gpus[0].current = calls, current
    return gpus


def test_a_set_is_of_one_model_itself_first_and_peers_are_enabled_both_ways(three: list[Any]) -> None:
    first, second, third, of_model_b = three
    assert second.several(2) == [second, first] and first.calls == [("peer", 1, 0), ("peer", 0, 1)]
    assert second.several(2) == [second, first], "access that is there already is no error"
    assert first.several(3) == [first, second, third] and first.current == [0]
    assert not any(2 in call for call in first.calls), "no access is asked for where there can be none"
    assert first.reaches(first) and first.reaches(second) and not first.reaches(third)
    assert (first.alike, of_model_b.alike) == (3, 1) and of_model_b.several(1) == [of_model_b]
    assert [gpu.which for gpu in (first, second, third)] == [
        "cuda:0, GPU-of-0, PCI 0:0", "cuda:1, PCI 0:1", "cuda:2, PCI 0:2",
    ]  # fmt: skip
    with pytest.raises(Unsupported, match=r"^2 devices of this model: the machine has 1$"):
        of_model_b.several(2)


def test_an_access_that_the_driver_refuses_is_said(three: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(peer: int) -> None:
        raise Refused(217)

    monkeypatch.setattr(sys.modules["cupy"].cuda.runtime, "deviceEnablePeerAccess", refuse)
    with pytest.raises(DriverFailed, match=r"^cuda:0 gets no access to the memory of cuda:1: status 217$"):
        three[0].several(2)


def test_a_copy_between_devices_names_both_and_the_offset() -> None:
    calls: list[tuple[int, ...]] = []
    queue: Any = object.__new__(cuda.Queue)
    runtime = SimpleNamespace(memcpyPeerAsync=lambda *arguments: calls.append(arguments))
    queue._cupy, queue.stream = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)), SimpleNamespace(ptr=77)
    target, source = (SimpleNamespace(data=SimpleNamespace(ptr=at, device_id=of)) for at, of in ((1000, 1), (5000, 0)))
    queue.fetch(cuda.Buffer(target, 12), cuda.Buffer(source, 400), offset=36)
    assert calls == [(1000, 1, 5036, 0, 12, 77)]


def test_messages_of_nccl_are_one_group_each_from_its_own_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two devices both neighbours are one: the first message sent north must be the first received from the south."""
    calls: list[tuple[Any, ...]] = []
    current: list[int] = []

    def communicator(index: int) -> Any:
        def called(name: str) -> Any:
            def call(pointer: int, count: int, kind: int, peer: int, stream: int) -> None:
                assert kind == stand_in.NCCL_UINT8
                calls.append((name, index, current[-1], pointer, count, peer, stream))

            return call

        return SimpleNamespace(send=called("send"), recv=called("recv"))

    stand_in = SimpleNamespace(
        available=True, NCCL_UINT8=1, NcclError=Refused,
        NcclCommunicator=SimpleNamespace(initAll=lambda indices: [communicator(index) for index in indices]),
        groupStart=lambda: calls.append(("start",)), groupEnd=lambda: calls.append(("end",)),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cupy.cuda", SimpleNamespace(nccl=stand_in))
    monkeypatch.delenv("NCCL_NVLS_ENABLE", raising=False)
    queues = [
        SimpleNamespace(use=lambda at=at: current.append(at), stream=SimpleNamespace(ptr=70 + at)) for at in (4, 5)
    ]
    talk = nccl.Nccl([4, 5], queues)
    assert os.environ["NCCL_NVLS_ENABLE"] == "0", "NVLink multicast stays off"
    grid, halo = (
        cuda.Buffer(SimpleNamespace(data=SimpleNamespace(ptr=at)), size) for at, size in ((1000, 400), (5000, 12))
    )
    talk.exchange([Message(0, 1, grid, 36, halo), Message(1, 0, grid, 0, halo)])
    assert calls == [
        ("start",),
        ("send", 4, 4, 1036, 12, 1, 74), ("recv", 5, 5, 5000, 12, 0, 75),
        ("send", 5, 5, 1000, 12, 0, 75), ("recv", 4, 4, 5000, 12, 1, 74),
        ("end",),
    ]  # fmt: skip
    stand_in.available = False
    with pytest.raises(Unsupported, match=r"^CuPy finds no NCCL$"):
        nccl.Nccl([4, 5], queues)
