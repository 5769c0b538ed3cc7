"""The PyOpenCL backend: any OpenCL device, and the CPU of every machine through PoCL."""

import contextlib
import ctypes
import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from . import device as contract
from .device import BuildFailed, OutOfMemory


class Buffer(contract.Buffer):
    def __init__(self, memory: Any, nbytes: int) -> None:
        self.memory, self.nbytes = memory, nbytes

    def release(self) -> None:
        self.memory.release()


class Kernel(contract.Kernel):
    def __init__(self, kernel: Any, device: Any) -> None:
        self.kernel, self.device, self.name = kernel, device, kernel.function_name
        self.typed = False

    def resources(self) -> dict[str, int]:
        import pyopencl as cl

        info, ask = cl.kernel_work_group_info, self.kernel.get_work_group_info
        return {
            "local_bytes": ask(info.LOCAL_MEM_SIZE, self.device),
            "private_bytes": ask(info.PRIVATE_MEM_SIZE, self.device),
            "work_group_limit": ask(info.WORK_GROUP_SIZE, self.device),
        }


class Program(contract.Program):
    def __init__(self, program: Any, device: Any) -> None:
        self.program, self.device = program, device

    def kernel(self, name: str) -> Kernel:
        import pyopencl as cl

        return Kernel(cl.Kernel(self.program, name), self.device)


class Queue(contract.Queue):
    def __init__(self, context: Any, device: Any, profiling: bool) -> None:
        import pyopencl as cl

        self._cl = cl
        self._kernels: list[Any] | None = None
        self.queue = (
            cl.CommandQueue(context, device, properties=cl.command_queue_properties.PROFILING_ENABLE)
            if profiling
            else cl.CommandQueue(context, device)
        )

    def launch(self, kernel: Any, global_size: Sequence[int], local_size: Sequence[int], *args: Any) -> None:
        if not kernel.typed:  # PyOpenCL then packs all scalars in one call: 70 times faster than one by one
            kernel.kernel.set_scalar_arg_dtypes([None if isinstance(arg, Buffer) else arg.dtype for arg in args])
            kernel.typed = True
        kernel.kernel.set_args(*[arg.memory if isinstance(arg, Buffer) else arg for arg in args])
        event = self._cl.enqueue_nd_range_kernel(self.queue, kernel.kernel, tuple(global_size), tuple(local_size))
        if self._kernels is not None:
            self._kernels.append(event)

    def write(self, buffer: Any, array: np.ndarray) -> None:
        self._cl.enqueue_copy(self.queue, buffer.memory, np.ascontiguousarray(array), is_blocking=True)

    def read(self, buffer: Any, array: np.ndarray, offset: int = 0) -> np.ndarray:
        self._cl.enqueue_copy(self.queue, array, buffer.memory, src_offset=offset, is_blocking=True)
        return array

    def copy(self, target: Any, source: Any) -> None:
        self._cl.enqueue_copy(self.queue, target.memory, source.memory, byte_count=source.nbytes)

    def timed(self, submit: Callable[[], None]) -> float:
        events: list[Any] = []
        self._kernels = events
        try:
            submit()
        finally:
            self._kernels = None
        self.finish()
        return float(events[-1].profile.end - events[0].profile.start) * 1e-9

    def finish(self) -> None:
        self.queue.finish()


class OpenCLDevice(contract.Device):
    """An OpenCL device. Its context is made when first needed."""

    backend = "opencl"

    def __init__(self, device: Any, index: int) -> None:
        import pyopencl as cl

        self.device = device
        self.spec = f"opencl:{index}"
        self.kind = "cpu" if device.type & cl.device_type.CPU else "gpu"
        self.name = _cpu_name() if self.kind == "cpu" else device.name.strip()
        self.compute_units = device.max_compute_units
        self.memory_bytes = device.global_mem_size
        self.cache_bytes = device.global_mem_cache_size
        self.local_bytes = device.local_mem_size
        self.max_work_group = device.max_work_group_size
        self.max_clock_mhz = device.max_clock_frequency
        if "nvidia" in device.vendor.lower():
            self.nvml_index = 0
        self._context: Any = None
        self._programs: dict[tuple[str, ...], Program] = {}

    @property
    def context(self) -> Any:
        import pyopencl as cl

        if self._context is None:
            if self.kind == "cpu":
                teach_pocl_this_cpu(self.device)
            self._context = cl.Context([self.device])
        return self._context

    def identity(self) -> dict[str, str]:
        platform = self.device.platform
        return {
            "backend": self.backend,
            "model": self.name,
            "device": self.device.name.strip(),
            "platform": f"{platform.name} {platform.version}",
            "driver": self.device.driver_version,
        }

    def build(self, text: str, options: Sequence[str] = ()) -> Program:
        import pyopencl as cl

        if (text, *options) in self._programs:
            return self._programs[text, *options]
        with warnings.catch_warnings(), _quiet():
            warnings.simplefilter("ignore", cl.CompilerWarning)
            try:
                program = cl.Program(self.context, text).build(options=list(options))
            except cl.RuntimeError as error:
                raise BuildFailed(_first_error(str(error))) from error
        return self._programs.setdefault((text, *options), Program(program, self.device))

    def empty(self, nbytes: int) -> Buffer:
        import pyopencl as cl

        if nbytes > self.device.max_mem_alloc_size:
            raise OutOfMemory(f"{nbytes} bytes asked for, {self.device.max_mem_alloc_size} at most in one buffer")
        try:
            return Buffer(cl.Buffer(self.context, cl.mem_flags.READ_WRITE, nbytes), nbytes)
        except cl.Error as error:
            raise OutOfMemory(f"{nbytes} bytes asked for: {error}") from error

    def queue(self, profiling: bool = False) -> Queue:
        return Queue(self.context, self.device, profiling)


def _first_error(log: str) -> str:
    """The compiler's first error, with the temporary file that it names taken out."""
    lines = [re.sub(r"\S*tempfile\S*\.cl:", "line ", line).strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error:" in line), lines[0] if lines else "no message")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """PoCL's compiler prints 'N warnings generated' past Python's stderr; what it has to say is in the exception."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@lru_cache
def devices() -> list[OpenCLDevice]:
    """All OpenCL devices, in the order of their platforms; none where there is no driver."""
    import pyopencl as cl

    try:
        found = [device for platform in cl.get_platforms() for device in platform.get_devices()]
    except cl.Error:
        return []
    return [OpenCLDevice(device, index) for index, device in enumerate(found)]


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        import platform

        return platform.processor() or platform.machine()


_names_kept_alive: list[Any] = []


def teach_pocl_this_cpu(device: Any) -> None:
    """Let PoCL compile for a CPU that is newer than the LLVM inside its wheel.

    LLVM calls such a CPU 'generic', hands that name to its own front end, and that refuses it: 'unknown target CPU' (PoCL
    issue 1049). PoCL has no setting for it, so the name in its device structure is replaced by the x86-64 level that the
    CPU's flags allow. Nothing is touched where LLVM knows the CPU, or on another platform.
    """
    if "pocl" not in device.version.lower() or not device.version.endswith("-generic"):
        return
    with open("/proc/self/maps") as file:
        spans = [
            tuple(int(bound, 16) for bound in line.split()[0].split("-"))
            for line in file
            if line.split()[1][:2] == "rw"
        ]

    def readable(address: int) -> bool:
        return any(low <= address and address + 8 <= high for low, high in spans)

    level = ctypes.create_string_buffer(_x86_level())
    for offset in range(0, 4096, 8):
        if not readable(device.int_ptr + offset):
            return
        field = ctypes.c_uint64.from_address(device.int_ptr + offset)
        if readable(field.value) and ctypes.string_at(field.value, 8) == b"generic\0":
            _names_kept_alive.append(level)
            field.value = ctypes.addressof(level)
            return


def _x86_level() -> bytes:
    with open("/proc/cpuinfo") as file:
        flags = set(next((line.partition(":")[2].split() for line in file if line.startswith("flags")), []))
    if {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= flags:
        return b"x86-64-v4"
    return b"x86-64-v3" if {"avx2", "bmi2", "fma"} <= flags else b"x86-64"
