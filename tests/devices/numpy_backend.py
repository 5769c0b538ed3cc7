"""A backend that only the tests have: NumPy, whose kernels are the functions in KERNELS, by the names in a kernel's text.

With its dialect header and the record at the end it is all that a backend takes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from roofbook.devices import contract
from roofbook.devices.backends import Backend
from roofbook.devices.contract import BuildFailed

KERNELS: dict[str, Callable[..., None]] = {}
"""Name of a kernel -> a function that does the work of all work-items; buffers are its arguments as arrays of float32."""


class Buffer(contract.Buffer):
    def __init__(self, nbytes: int) -> None:
        self.nbytes, self.bytes = nbytes, np.zeros(nbytes, np.uint8)

    def release(self) -> None:
        self.bytes = np.empty(0, np.uint8)


class Kernel(contract.Kernel):
    def __init__(self, name: str) -> None:
        self.name, self.function = name, KERNELS[name]

    def resources(self) -> dict[str, int]:
        return {"work_group_limit": NumpyDevice.max_work_group}


class Program(contract.Program):
    def __init__(self, text: str) -> None:
        self.names = re.findall(r"\bkernel void (\w+)\(", text)
        if unknown := [name for name in self.names if name not in KERNELS]:
            raise BuildFailed(f"error: no function {unknown[0]}")

    def kernel(self, name: str) -> Kernel:
        if name not in self.names:
            raise BuildFailed(f"no kernel in it is named {name}")
        return Kernel(name)


class Queue(contract.Queue):
    """Queue that does its work at once."""

    def launch(self, kernel: Any, global_size: Sequence[int], local_size: Sequence[int], *args: Any) -> None:
        assert all(size % local == 0 for size, local in zip(global_size, local_size, strict=True))
        kernel.function(*(arg.bytes.view(np.float32) if isinstance(arg, Buffer) else arg for arg in args))

    def write(self, buffer: Any, array: np.ndarray) -> None:
        buffer.bytes[: array.nbytes] = np.ascontiguousarray(array).view(np.uint8).ravel()

    def read(self, buffer: Any, array: np.ndarray, offset: int = 0) -> np.ndarray:
        array.view(np.uint8).ravel()[:] = buffer.bytes[offset : offset + array.nbytes]
        return array

    def copy(self, target: Any, source: Any) -> None:
        target.bytes[: source.nbytes] = source.bytes

    def send(self, buffer: Any, array: np.ndarray, offset: int = 0) -> None:
        buffer.bytes[offset : offset + array.nbytes] = array.view(np.uint8).ravel()

    def receive(self, buffer: Any, array: np.ndarray, offset: int = 0) -> None:
        self.read(buffer, array, offset)

    def laps(self, *submits: Callable[[], None]) -> list[float]:
        times = [time.perf_counter()]
        for submit in submits:
            submit()
            times.append(time.perf_counter())
        return [end - start for start, end in pairwise(times)]

    def finish(self) -> None:
        """Do nothing: all work is done."""


class NumpyDevice(contract.Device):
    backend, kind, name, spec = "numpy", "cpu", "NumPy on a core", "numpy:0"
    compute_units, max_work_group, max_clock_mhz = 1, 1024, 1000
    memory_bytes, cache_bytes, local_bytes = 1 << 30, 1 << 20, 1 << 15

    def identity(self) -> dict[str, str]:
        return {"backend": self.backend, "model": self.name, "platform": "NumPy", "driver": np.__version__}

    def build(self, text: str, options: Sequence[str] = ()) -> Program:
        return Program(text)

    def empty(self, nbytes: int) -> Buffer:
        return Buffer(nbytes)

    def queue(self, profiling: bool = False) -> Queue:
        return Queue()


def devices() -> list[NumpyDevice]:
    return [NumpyDevice()]


NUMPY = Backend(
    "numpy",
    label="NumPy",
    module=__name__,
    dialect=Path(__file__).with_name("numpy_dialect.h"),
    highlight="c",
    features=frozenset({"streams"}),
    libraries=("numpy",),
    absent="no NumPy: a test cannot do without it",
    reports="NumPy: no compiler tells what a kernel takes.",
)
