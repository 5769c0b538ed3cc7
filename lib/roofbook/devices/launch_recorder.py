"""A device that notes what a plan puts on it instead of running it: kernels in WGSL, buffers, launches, and where outputs lie.

The pages that run kernels in a browser are made from its notes. It grants what each GPU has by WebGPU's standard.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import contract, webgpu
from .backends import WEBGPU
from .contract import Unsupported

LIMITS = {
    "max-buffer-size": 256 << 20,
    "max-compute-workgroups-per-dimension": 65535,
    "max-compute-invocations-per-workgroup": 256,
    "max-compute-workgroup-storage-size": 16384,
    "max-storage-buffers-per-shader-stage": 8,
}
"""Limits that each device of WebGPU has at least, by the standard."""
EXACT = 1 << 24
"""Number of whole numbers that float32 holds one after another."""


class Buffer(contract.Buffer):
    def __init__(self, number: int, nbytes: int) -> None:
        self.number, self.nbytes = number, nbytes
        self.content: np.ndarray | None = None
        """Bytes that the host wrote last; None before."""

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


@dataclass(frozen=True)
class RecordedRead:
    """A buffer that the host reads from its first byte on. The host finds `marks` in it."""

    buffer: int
    dtype: str
    marks: np.ndarray


class Queue(contract.Queue):
    """Queue that notes launches, and gives each read whole numbers by which its place in an output is found."""

    def __init__(self, device: "LaunchRecorder") -> None:
        self.device = device

    def launch(self, kernel: Any, global_size: Sequence[int], local_size: Sequence[int], *args: Any) -> None:
        groups = webgpu.group_counts(kernel, global_size, local_size, LIMITS["max-compute-workgroups-per-dimension"])
        if kernel.local_bytes > self.device.local_bytes:
            raise Unsupported(f"{kernel.local_bytes} bytes of local memory: {self.device.local_bytes} at most")
        if len(kernel.buffers) > (most := LIMITS["max-storage-buffers-per-shader-stage"]):
            raise Unsupported(f"{len(kernel.buffers)} buffers of a kernel: {most} at most")
        buffers = tuple(argument.number for argument in args if isinstance(argument, Buffer))
        self.device.launches.append(RecordedLaunch(kernel, tuple(local_size), groups, buffers, kernel.numbers_of(args)))

    def write(self, buffer: Any, array: np.ndarray) -> None:
        buffer.content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).copy()
        self.device.written.append(buffer.number)

    def read(self, buffer: Any, array: np.ndarray, offset: int = 0) -> np.ndarray:
        if offset:
            raise Unsupported("a read from the middle of a buffer")
        marks = ((np.arange(array.size) + len(self.device.reads)) % EXACT).astype(array.dtype)
        array[...] = marks.reshape(array.shape)
        self.device.reads.append(RecordedRead(buffer.number, array.dtype.name, marks))
        return array

    def laps(self, *submits: Callable[[], None]) -> list[float]:
        for submit in submits:
            submit()
        return [1.0] * len(submits)

    def copy(self, target: Any, source: Any) -> None:
        raise Unsupported("a copy between buffers")

    def send(self, buffer: Any, array: np.ndarray, offset: int = 0) -> None:
        raise Unsupported("a copy to the device within a run")

    def receive(self, buffer: Any, array: np.ndarray, offset: int = 0) -> None:
        raise Unsupported("a copy to the host within a run")

    def finish(self) -> None:
        """Do nothing: no kernel runs."""


class LaunchRecorder(contract.Device):
    """A device that runs nothing. What a plan put on it is in `buffers`, `written`, `launches` and `reads`."""

    backend, kind, name, spec = WEBGPU.name, "gpu", "any GPU by WebGPU", "webgpu:none"
    compute_units, max_clock_mhz = webgpu.UNTOLD_UNITS, 0
    memory_bytes, cache_bytes = LIMITS["max-buffer-size"], webgpu.UNTOLD_CACHE
    local_bytes = LIMITS["max-compute-workgroup-storage-size"]
    max_work_group = LIMITS["max-compute-invocations-per-workgroup"]

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.written: list[int] = []
        """Numbers of the buffers that the host wrote, in order."""
        self.launches: list[RecordedLaunch] = []
        self.reads: list[RecordedRead] = []

    def identity(self) -> dict[str, str]:
        return {"backend": self.backend, "model": self.name}

    def build(self, text: str, options: Sequence[str] = ()) -> webgpu.Program:
        if "enable f16;" in text:
            raise Unsupported("fp16 in kernels: not each GPU has it")
        return webgpu.Program(None, text, self)

    def empty(self, nbytes: int) -> Buffer:
        if nbytes > self.memory_bytes:
            raise contract.OutOfMemory(f"{nbytes} bytes asked for, {self.memory_bytes} at most in one buffer")
        self.buffers.append(Buffer(len(self.buffers), nbytes))
        return self.buffers[-1]

    def queue(self, profiling: bool = False) -> Queue:
        return Queue(self)
