"""A device that runs a kernel of one work-item as C on one thread, with the same kernel text and plan.

It gives the labs the baseline of their speedups. It needs the host's C compiler.
"""

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from ..devices import backends, contract
from ..devices.find import host_cpu
from ..devices.library_folder import library_folder as cache_dir
from ..paths import cache_key, write_whole
from ..spec.plan import Case, Plan, Variant
from ..spec.prediction import Predicted
from . import cc, compilers

FLAGS = ("-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno")
"""Flags with the freedoms of an OpenCL compiler: use this machine's vectors, fuse a product with the sum that it is added to,
and compute roots without setting errno. No sum is re-ordered."""
WORDS = "the same loops by the host's C compiler: one thread, -O3"
"""Description of such a variant inside a sentence."""
TEXT_AS_C = "The same loops in C, by the host's compiler with -O3; it may not re-order a sum either."

_NUMBERS = {np.int32: ctypes.c_int32, np.float32: ctypes.c_float}


class OneThread(contract.Device):
    """The host's CPU as a device for kernels of one work-item: a program is a library, a launch is a call."""

    backend, kind = backends.C.name, "cpu"
    compute_units = cores = max_work_group = 1

    def __init__(self, host: contract.Device) -> None:
        self.host, self.name, self.spec = host, host.name, host.spec

    def identity(self) -> dict[str, str]:
        return self.host.identity()

    def build(self, text: str, options: Sequence[str] = ()) -> "Program":
        """Compile a kernel's text as C. Raises cc.NoCompiler or cc.BuildFailed."""
        path = cache_dir() / "one-thread" / f"{cache_key(text)[:16]}.c"
        if not path.exists():
            write_whole(path, text)
        return Program(cc.build(path, (*FLAGS, *options)))

    def empty(self, nbytes: int) -> "Buffer":
        return Buffer(nbytes)

    def queue(self, profiling: bool = False) -> "Queue":
        return Queue()


class Buffer(contract.Buffer):
    """A buffer in the host's memory."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes, self.memory = nbytes, np.empty(nbytes, np.uint8)

    def release(self) -> None:
        self.memory = np.empty(0, np.uint8)


class Kernel(contract.Kernel):
    """A function of the loaded library."""

    def __init__(self, name: str, function: Any) -> None:
        self.name, self.function = name, function
        self.function.restype = None

    def resources(self) -> dict[str, int]:
        return {}


class Program(contract.Program):
    """A library loaded from a compiled kernel."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library

    def kernel(self, name: str) -> Kernel:
        return Kernel(name, self.library[name])


class Queue(contract.Queue):
    """A queue that does each command at once. Times are by the host's clock."""

    def launch(self, kernel: Any, global_size: Sequence[int], local_size: Sequence[int], *args: Any) -> None:
        assert set(global_size) == set(local_size) == {1}, "one work-item"
        kernel.function(*(_passed(argument) for argument in args))

    def write(self, buffer: Any, array: np.ndarray) -> None:
        buffer.memory[: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)

    def read(self, buffer: Any, array: np.ndarray, offset: int = 0) -> np.ndarray:
        array.reshape(-1).view(np.uint8)[:] = buffer.memory[offset : offset + array.nbytes]
        return array

    def copy(self, target: Any, source: Any) -> None:
        target.memory[: source.nbytes] = source.memory

    def send(self, buffer: Any, array: np.ndarray, offset: int = 0) -> None:
        buffer.memory[offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)

    def receive(self, buffer: Any, array: np.ndarray, offset: int = 0) -> None:
        self.read(buffer, array, offset)

    def laps(self, *submits: Callable[[], None]) -> list[float]:
        times = [time.perf_counter()]
        for submit in submits:
            submit()
            times.append(time.perf_counter())
        return [end - start for start, end in pairwise(times)]

    def finish(self) -> None:
        """Do nothing: all commands are done."""


def _passed(argument: Any) -> Any:
    """Convert a kernel's argument for C: a buffer or an array to its address, a NumPy scalar to its value."""
    memory = argument.memory if isinstance(argument, Buffer) else argument
    if isinstance(memory, np.ndarray):
        assert memory.flags.c_contiguous
        return ctypes.c_void_p(memory.ctypes.data)
    return _NUMBERS[type(argument)](argument.item())


class OneWorkItem(Plan):
    """Base of a plan with one work-item: it runs on the host's CPU device, wherever the lab runs."""

    def __init__(self, device: contract.Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device if device.kind == "cpu" else host_cpu(), variant, case, inputs)


class AsC(Plan):
    """Base of a plan whose kernel of one work-item is compiled as C, on one thread. The plan of the kernel follows it."""

    missing = staticmethod(cc.missing)

    def __init__(self, device: contract.Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(OneThread(device), variant, case, inputs)

    @staticmethod
    def compilers(variant: Variant) -> dict[str, str]:
        return compilers.c_compiler()

    def facts(self) -> dict[str, Any]:
        return {"threads": 1, "flags": " ".join(FLAGS)}


def as_c(sequential: Variant, plan: type[Plan], expect: str, predicts: Predicted) -> Variant:
    """Return the base `sequential-c` of a ladder. sequential: step with a kernel of one work-item. plan: derived from AsC."""
    return replace(
        sequential, name="sequential-c", parent=sequential.name, plan=plan, change=TEXT_AS_C, expect=expect,
        needs=frozenset({backends.HOST}), role="base", differs=("plan",), description=WORDS, published=None,
        predicts=predicts,
    )  # fmt: skip
