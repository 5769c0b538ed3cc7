"""A device that notes what a plan does with it instead of running it: kernels in WGSL, buffers, launches, copies and waits.

The pages that run kernels in a browser are made from its notes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import contract, webgpu
from .backends import WEBGPU
from .contract import Unsupported

STANDARD = {
    "max-buffer-size": 256 << 20,
    "max-storage-buffer-binding-size": 128 << 20,
    "max-compute-workgroups-per-dimension": 65535,
    "max-compute-invocations-per-workgroup": 256,
    "max-compute-workgroup-storage-size": 16384,
    "max-storage-buffers-per-shader-stage": 8,
}
"""Limits that each device of WebGPU has at least, by the standard."""
USUAL = STANDARD | {
    "max-compute-invocations-per-workgroup": 1024,
    "max-compute-workgroup-storage-size": 49152,
    "max-storage-buffers-per-shader-stage": 10,
}
"""Limits of many GPUs of computers, as far as browsers grant them. A browser tells its own."""
EXACT = {"float16": 1 << 11}
"""Type -> number of whole numbers that it holds one after another; for other types as many as float32 does."""


class Buffer(contract.Buffer):
    pointees: tuple["Buffer", ...] = ()
    """As for a buffer of webgpu.py."""

    def __init__(self, number: int, nbytes: int) -> None:
        self.number, self.nbytes = number, nbytes

    def release(self) -> None:
        """Do nothing: no memory is held."""


@dataclass(frozen=True)
class RecordedLaunch:
    """A launch of a kernel."""

    kernel: webgpu.Kernel
    group: tuple[int, ...]
    groups: tuple[int, int, int]
    buffers: tuple[int, ...]
    """Numbers of the buffers, in the order of the kernel's bindings."""
    numbers: bytes
    """The other arguments, as their buffer has them."""


@dataclass(frozen=True, eq=False)
class RecordedRead:
    """A buffer that the host reads from its first byte on. The host finds `marks` in it."""

    buffer: int
    dtype: str
    marks: np.ndarray


@dataclass(frozen=True, eq=False)
class RecordedWrite:
    """A buffer that the host writes from its first byte on."""

    buffer: int
    content: np.ndarray
    """Its bytes."""


@dataclass(frozen=True)
class RecordedWait:
    """The host waits for all that it has submitted."""


Event = RecordedLaunch | RecordedRead | RecordedWrite | RecordedWait


class Queue(contract.Queue):
    """Queue that notes what it is asked for, and gives each read whole numbers by which its place in an output is found."""

    def __init__(self, device: "LaunchRecorder") -> None:
        self.device = device
        self.events = device.events

    def launch(self, kernel: Any, global_size: Sequence[int], local_size: Sequence[int], *given: Any) -> None:
        if (args := webgpu.bound_arguments(kernel, given)) is None:
            return
        limits = self.device.limits
        groups = webgpu.group_counts(kernel, global_size, local_size, limits["max-compute-workgroups-per-dimension"])
        if kernel.local_bytes > self.device.local_bytes:
            raise Unsupported(f"{kernel.local_bytes} bytes of local memory: {self.device.local_bytes} at most")
        if len(kernel.buffers) > (most := limits["max-storage-buffers-per-shader-stage"]):
            raise Unsupported(f"{len(kernel.buffers)} buffers of a kernel: {most} at most")
        buffers = tuple(argument.number for argument in args if isinstance(argument, Buffer))
        self.events.append(RecordedLaunch(kernel, tuple(local_size), groups, buffers, kernel.numbers_of(args)))

    def write(self, buffer: Any, array: np.ndarray) -> None:
        content = np.array(array, order="C").reshape(-1).view(np.uint8)  # a copy: the host may change its array
        self.events.append(RecordedWrite(buffer.number, content))

    def read(self, buffer: Any, array: np.ndarray, offset: int = 0) -> np.ndarray:
        if offset:
            raise Unsupported("a read from the middle of a buffer")
        first, most = len(self.device.reads), EXACT.get(array.dtype.name, 1 << 24)
        past = first + array.size
        if past <= most:
            marks = np.arange(first, past, dtype=array.dtype)
        else:
            marks = (np.arange(first, past, dtype=np.int32) % most).astype(array.dtype)
        array[...] = marks.reshape(array.shape)
        self.events.append(RecordedRead(buffer.number, array.dtype.name, marks))
        return array

    def laps(self, *submits: Callable[[], None]) -> list[float]:
        first = len(self.events)
        for submit in submits:
            submit()
        self.device.laps.append(range(first, len(self.events)))
        return [1.0] * len(submits)

    def copy(self, target: Any, source: Any) -> None:
        raise Unsupported("a copy between buffers")

    def send(self, buffer: Any, array: np.ndarray, offset: int = 0) -> None:
        raise Unsupported("a copy to the device within a run")

    def receive(self, buffer: Any, array: np.ndarray, offset: int = 0) -> None:
        raise Unsupported("a copy to the host within a run")

    def finish(self) -> None:
        self.events.append(RecordedWait())


class LaunchRecorder(contract.Device):
    """A device that runs nothing. limits: STANDARD or USUAL, what it grants. Its notes are in `events`, oldest first."""

    backend, kind, name, spec = WEBGPU.name, "gpu", "any GPU by WebGPU", "webgpu:none"
    compute_units, max_clock_mhz = webgpu.UNTOLD_UNITS, 0
    cache_bytes = webgpu.UNTOLD_CACHE

    def __init__(self, limits: Mapping[str, int] = STANDARD) -> None:
        self.limits = limits
        self.memory_bytes = limits["max-storage-buffer-binding-size"]
        self.local_bytes = limits["max-compute-workgroup-storage-size"]
        self.max_work_group = limits["max-compute-invocations-per-workgroup"]
        self.buffers: list[Buffer] = []
        self.events: list[Event] = []
        self.laps: list[range] = []
        """Numbers of the events that the plan timed on the device."""

    @property
    def reads(self) -> list[RecordedRead]:
        """Reads of the host, oldest first."""
        return [event for event in self.events if isinstance(event, RecordedRead)]

    def identity(self) -> dict[str, str]:
        return {"backend": self.backend, "model": self.name}

    def build(self, text: str, options: Sequence[str] = ()) -> webgpu.Program:
        return webgpu.Program(None, text, self)

    def empty(self, nbytes: int) -> Buffer:
        if nbytes > self.memory_bytes:
            raise contract.OutOfMemory(f"{nbytes} bytes asked for, {self.memory_bytes} at most in one buffer")
        self.buffers.append(Buffer(len(self.buffers), nbytes))
        return self.buffers[-1]

    def queue(self, profiling: bool = False) -> Queue:
        return Queue(self)
