"""The WebGPU backend: any GPU by Vulkan, Metal or Direct3D 12, through the package wgpu. Imported only where it is named.

A program is a module of WGSL. The comment above each of its kernels lists the arguments, by which their bindings are found.
Launches are collected, and many are submitted together: a queue of WebGPU takes command buffers, not launches.
"""

import importlib.util
import re
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import compress, pairwise
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np

from . import contract
from .backends import WEBGPU
from .contract import BuildFailed, OutOfMemory, Unsupported
from .host import processors, quiet
from .nvml import bus_id_of_only_card

FEATURES = ("timestamp-query", "shader-f16", "subgroup")
"""Features that kernels and timers use where an adapter has them."""
LIMITS = (
    "max-buffer-size", "max-storage-buffer-binding-size", "max-storage-buffers-per-shader-stage",
    "max-compute-workgroup-storage-size", "max-compute-invocations-per-workgroup", "max-compute-workgroup-size-x",
    "max-compute-workgroup-size-y", "max-compute-workgroup-size-z", "max-compute-workgroups-per-dimension",
)  # fmt: skip
"""Limits that are asked for as high as the adapter has them; without asking, a device has those that all GPUs have."""
SHOWN_LIMITS = {
    "max-compute-invocations-per-workgroup": "work-items", "max-compute-workgroup-storage-size": "bytes of local memory",
    "max-storage-buffers-per-shader-stage": "buffers", "max-storage-buffer-binding-size": "bytes a buffer",
}  # fmt: skip
"""Limits that decide which kernels run, with their words in a row's environment."""
NAGA_REFUSES = "enable subgroups;"
"""Line that WGSL asks of a text with subgroups. wgpu-native 29 has them, but refuses the line."""
NUMBERS_BYTES = 1 << 20
"""Bytes of the buffer that holds the numbers of launches which are not submitted yet."""
NVIDIA = 0x10DE
"""Number of the vendor whose cards NVML knows."""
UNTOLD_UNITS = 128
"""Compute units of a GPU, for plans that launch so many groups: WebGPU does not tell them."""
UNTOLD_CACHE = 64 << 20
"""Bytes of a GPU's last cache, for samples after which it is cold: WebGPU does not tell them."""
SUBMITTED_TOGETHER = 32
"""Number of launches after which a queue that is not timed by the device submits them. The device begins while the host writes
down the next ones."""
MOST_BIND_GROUPS = 256
"""Number of sets of arguments that a queue keeps ready."""
PACKED_AS = {"i32": "i", "u32": "I", "f32": "f"}
"""Type of a number in WGSL -> its code in the module `struct` and in NumPy."""
_KERNEL = re.compile(r"^// Kernel (\w+)( of one axis)?, with the arguments ((?:[^.\n]|\n// )*)\.$", re.M)
_SETS_POINTERS = re.compile(r"^// Kernel (\w+) sets pointers:", re.M)
_ARGUMENT = re.compile(r"(\w+) \((?:binding (\d+)|([iuf]32))\)")
_LOCAL = re.compile(r"^var<workgroup> (\w+): array<(?:atomic<|vec(\d)<)?(\w+)>?, (\d+)>;$", re.M)
"""A local array: its name, the lanes of an element, their type, and its length."""


class BoundArgument(NamedTuple):
    """An argument of a kernel: a buffer, or a number."""

    name: str
    binding: int | None
    """Binding of a buffer; None for a number."""
    dtype: str = ""
    """`i32`, `u32` or `f32` of a number."""


class Buffer(contract.Buffer):
    pointees: tuple["Buffer", ...] = ()
    """Buffers to which it points, if a kernel made it a structure of pointers."""

    def __init__(self, device: "WebGPUDevice", memory: Any, nbytes: int) -> None:
        self.device, self.handle, self.nbytes = device, memory, nbytes

    def release(self) -> None:
        """Free the buffer, after the launches that wait are submitted: wgpu ends the process if one takes a freed buffer."""
        for queue in self.device.queues:
            queue.flush()
        self.handle.destroy()


class Kernel(contract.Kernel):
    """A kernel of a module. Its pipelines, one for each size of group, are made when first launched."""

    sets_pointers = False
    """Whether it only makes its first argument point to the others: no device runs it."""

    def __init__(self, program: "Program", name: str, one_axis: bool, arguments: Sequence[BoundArgument]) -> None:
        self.program, self.name, self.one_axis, self.arguments = program, name, one_axis, arguments
        self._pipelines: dict[tuple[int, ...], Any] = {}
        self.numbers = [argument.dtype for argument in arguments if argument.binding is None]
        self._packing = struct.Struct("=" + "".join(PACKED_AS[dtype] for dtype in self.numbers))
        self._are_numbers = [argument.binding is None for argument in arguments]
        self._counts: dict[tuple[Any, ...], tuple[int, int, int]] = {}
        self.buffers = [argument for argument in arguments if argument.binding is not None]

    @cached_property
    def layout(self) -> Any:
        """The layout of its bindings: its buffers, then its numbers, whose place in their buffer is given with a launch."""
        limits = self.program.device.limits
        most = limits["max-storage-buffers-per-shader-stage"]
        if len(self.buffers) > most:
            raise Unsupported(f"{len(self.buffers)} buffers of a kernel: {most} at most")
        entries: list[dict[str, Any]] = [
            {"binding": argument.binding, "visibility": "COMPUTE", "buffer": {"type": self.access(argument.name)}}
            for argument in self.buffers
        ]
        if self.numbers:
            numbers = {"type": "uniform", "has_dynamic_offset": True}
            entries.append({"binding": len(self.buffers), "visibility": "COMPUTE", "buffer": numbers})
        return self.program.device.handle.create_bind_group_layout(entries=entries)

    def access(self, name: str) -> str:
        """Return the type of a buffer's binding, as WebGPU calls it."""
        constant = f"var<storage, read> {name}:" in self.program.text
        return "read-only-storage" if constant else "storage"

    def pipeline(self, group: Sequence[int]) -> Any:
        """Return the pipeline for groups of a size."""
        size = (*group, 1, 1)[:3]
        if size not in self._pipelines:
            device = self.program.device
            if self.local_bytes > device.local_bytes:
                raise Unsupported(f"{self.local_bytes} bytes of local memory: {device.local_bytes} at most")
            stage = {"module": self.program.module, "entry_point": self.name, "constants": self.constants(size)}
            layout = device.handle.create_pipeline_layout(bind_group_layouts=[self.layout])
            self._pipelines[size] = _built(lambda: device.handle.create_compute_pipeline(layout=layout, compute=stage))
        return self._pipelines[size]

    def constants(self, group: Sequence[int]) -> dict[str, int]:
        """Return the constants of the text that a size of groups sets."""
        sizes = {f"group_{axis}": count for axis, count in zip("xyz", (*group, 1, 1), strict=False)}
        return {name: count for name, count in sizes.items() if f"override {name}:" in self.program.text}

    @cached_property
    def local_bytes(self) -> int:
        """Bytes of the local arrays that its text names."""
        body = self.program.text.partition(f"fn {self.name}(")[2].partition("\n}")[0]
        return sum(
            int(lanes or 1) * (2 if kind == "f16" else 4) * int(length)
            for name, lanes, kind, length in _LOCAL.findall(self.program.text)
            if re.search(rf"\b{name}\b", body)
        )

    def numbers_of(self, args: Sequence[Any]) -> bytes:
        """Return the numbers among the arguments of a launch, as their buffer has them.

        NumPy converts those that `struct` refuses, such as a number of NumPy below zero for an `unsigned int`.
        """
        numbers = list(compress(args, self._are_numbers))
        try:
            return self._packing.pack(*numbers)
        except (struct.error, OverflowError):
            kinds = [PACKED_AS[dtype] for dtype in self.numbers]
            return b"".join(np.asarray(number, kind).tobytes() for number, kind in zip(numbers, kinds, strict=True))

    def group_counts(
        self, global_size: Sequence[int], local_size: Sequence[int], limits: Mapping[str, int]
    ) -> tuple[int, int, int]:
        """Return the result of `group_counts`, which is computed once for a range. limits: those of the device."""
        key = *global_size, None, *local_size
        if key not in self._counts:
            most = limits["max-compute-workgroups-per-dimension"]
            self._counts[key] = group_counts(self, global_size, local_size, most)
        return self._counts[key]

    def resources(self) -> dict[str, int]:
        return {"local_bytes": self.local_bytes, "work_group_limit": self.program.device.max_work_group}


class Program(contract.Program):
    def __init__(self, module: Any, text: str, device: Any) -> None:
        self.module, self.text, self.device = module, text, device
        self._kernels: dict[str, Kernel] = {}
        for name, one_axis, listed in _KERNEL.findall(text):
            words = [
                (word, int(binding) if binding else None, dtype)
                for word, binding, dtype in _ARGUMENT.findall(listed.replace("\n//", ""))
            ]
            self._kernels[name] = Kernel(self, name, bool(one_axis), [BoundArgument(*word) for word in words])
        for name in _SETS_POINTERS.findall(text):
            self._kernels[name] = Kernel(self, name, True, [])
            self._kernels[name].sets_pointers = True

    def kernel(self, name: str) -> Kernel:
        if name not in self._kernels:
            raise BuildFailed(f"no kernel in it is named {name}")
        return self._kernels[name]

    def constant(self, name: str, nbytes: int) -> tuple[Buffer, tuple[Buffer, ...]]:
        buffer = self.device.empty(nbytes)
        return buffer, (buffer,)


def _built(make: Callable[[], Any]) -> Any:
    """Return what `make` makes. Raise BuildFailed with the compiler's first error if it is refused."""
    import wgpu

    try:
        return make()
    except wgpu.GPUError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        told = [line for line in lines if not line.startswith(("Validation Error", "Caused by", "In wgpu"))]
        raise BuildFailed(" ".join(told[:3]) or "no message") from error


def bound_arguments(kernel: Kernel, args: Sequence[Any]) -> list[Any] | None:
    """Return the arguments of a launch, with what a structure points to in its place.

    A kernel that sets pointers has none to bind: it notes what its structure points to, and the result is None.
    """
    if kernel.sets_pointers:
        structure, *pointees = args
        structure.pointees = tuple(pointees)
        return None
    return [bound for arg in args for bound in getattr(arg, "pointees", ()) or (arg,)]


def group_counts(
    kernel: Kernel, global_size: Sequence[int], local_size: Sequence[int], most: int
) -> tuple[int, int, int]:
    """Return the number of groups by axis, `most` along one. A long range of one axis is folded, if the kernel allows it."""
    if any(size % group for size, group in zip(global_size, local_size, strict=True)):
        raise RuntimeError(f"{kernel.name} was not launched: groups do not divide the range")
    groups = [size // group for size, group in zip(global_size, local_size, strict=True)]
    across, down, deep = (*groups, 1, 1)[:3]
    if kernel.one_axis and across > most and down == deep == 1:
        down = next((count for count in range(-(-across // most), most + 1) if across % count == 0), 1)
        across //= down
    elif kernel.one_axis and max(down, deep) > 1:
        raise Unsupported("a range of several axes for a kernel that asks for one")
    if max(across, down, deep) > most:
        raise Unsupported(f"{max(across, down, deep)} groups along an axis: {most} at most")
    return across, down, deep


class Numbers:
    """The numbers of launches that are not submitted yet, each set at its place in one buffer."""

    def __init__(self, device: Any) -> None:
        import wgpu

        self.handle = device.create_buffer(
            size=NUMBERS_BYTES, usage=wgpu.BufferUsage.UNIFORM | wgpu.BufferUsage.COPY_DST
        )
        self.step = max(256, device.limits["min-uniform-buffer-offset-alignment"])
        self.bytes, self.used, self.sent = bytearray(NUMBERS_BYTES), 0, 0
        self.places: dict[bytes, int] = {}

    def place(self, numbers: bytes) -> int | None:
        """Return where a set of numbers is; None if there is no room before the launches are submitted."""
        if numbers not in self.places:
            if self.used + self.step > NUMBERS_BYTES:
                return None
            self.bytes[self.used : self.used + len(numbers)] = numbers
            self.places[numbers] = self.used
            self.used += self.step
        return self.places[numbers]

    def send(self, queue: Any) -> None:
        """Write the numbers that the device does not have yet."""
        if self.used > self.sent:
            queue.write_buffer(self.handle, self.sent, memoryview(self.bytes)[self.sent : self.used])
            self.sent = self.used

    def clear(self) -> None:
        self.places.clear()
        self.used = self.sent = 0


class Queue(contract.Queue):
    """Launches and copies in order. They are submitted when the host waits, reads or writes, and otherwise SUBMITTED_TOGETHER.

    While laps are timed by the device, they are submitted behind the last lap: the host's pauses are no part of a lap then.
    """

    def __init__(self, device: "WebGPUDevice") -> None:
        import wgpu

        self.device, self.handle = device, device.handle
        device.queues.add(self)
        self.numbers = Numbers(device.handle)
        self._last = self.handle.create_buffer(size=4, usage=wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST)
        self._groups: dict[tuple[Any, ...], Any] = {}
        self._encoder: Any = None
        self._pass: Any = None
        self._set: tuple[Any, ...] = (None, None, None)
        """(pipeline, bind group, place of the numbers) that the pass has."""
        self._collected = 0
        """Number of launches that are not submitted yet."""
        self._marks: Any = None
        """While timed: the set of timestamps."""
        self._lap = 0
        self._begun = True
        """Whether the lap's first pass has noted its begin."""

    def launch(self, kernel: Any, global_size: Sequence[int], local_size: Sequence[int], *given: Any) -> None:
        if (args := bound_arguments(kernel, given)) is None:
            return
        if len(args) != len(kernel.arguments):
            raise RuntimeError(
                f"{kernel.name} was not launched: it takes {len(kernel.arguments)} arguments, and {len(args)} are given"
            )
        counts = kernel.group_counts(global_size, local_size, self.device.limits)
        numbers = kernel.numbers_of(args)
        place = self.numbers.place(numbers) if numbers else 0
        if place is None:
            self.flush()
            self.numbers.clear()
            place = self.numbers.place(numbers)
        pipeline, group = kernel.pipeline(local_size), self._group(kernel, args)
        encoder = self._compute_pass()
        if pipeline is not self._set[0]:
            encoder.set_pipeline(pipeline)
        if (group, place) != self._set[1:]:
            encoder.set_bind_group(0, group, [place] if numbers else [])
        self._set = pipeline, group, place
        encoder.dispatch_workgroups(*counts)
        self._collected += 1
        if self._collected >= SUBMITTED_TOGETHER and self._marks is None:
            self.flush()

    def _group(self, kernel: Kernel, args: Sequence[Any]) -> Any:
        """Return the bind group of a launch."""
        buffers = [arg for arg in args if isinstance(arg, Buffer)]
        key = (kernel, *buffers)
        if key not in self._groups:
            if len(self._groups) >= MOST_BIND_GROUPS:
                self._groups.clear()
            most = self.device.limits["max-storage-buffer-binding-size"]
            if any(buffer.handle.size > most for buffer in buffers):
                raise Unsupported(f"a buffer of {max(buffer.handle.size for buffer in buffers)} bytes: {most} at most")
            entries = [
                {"binding": argument.binding, "resource": {"buffer": arg.handle, "offset": 0, "size": arg.handle.size}}
                for argument, arg in zip(kernel.arguments, args, strict=True)
                if argument.binding is not None
            ]
            if kernel.numbers:
                size = -(-4 * len(kernel.numbers) // 16) * 16
                resource = {"buffer": self.numbers.handle, "offset": 0, "size": size}
                entries.append({"binding": len(kernel.buffers), "resource": resource})
            self._groups[key] = self.handle.create_bind_group(layout=kernel.layout, entries=entries)
        return self._groups[key]

    def _commands(self) -> Any:
        if self._encoder is None:
            self._encoder = self.handle.create_command_encoder()
        return self._encoder

    def _compute_pass(self) -> Any:
        """Return the pass that launches are added to. While timed, a pass notes its end, the first of a lap its begin too."""
        if self._pass is None:
            marks = {}
            if self._marks is not None:
                begin = {} if self._begun else {"beginning_of_pass_write_index": 2 * self._lap}
                marks = {
                    "timestamp_writes": {
                        "query_set": self._marks,
                        "end_of_pass_write_index": 2 * self._lap + 1,
                        **begin,
                    }
                }
                self._begun = True
            self._pass = self._commands().begin_compute_pass(**marks)
            self._set = None, None, None
        return self._pass

    def _end_pass(self) -> None:
        if self._pass is not None:
            self._pass.end()
            self._pass = None

    def flush(self) -> None:
        self._end_pass()
        if self._encoder is not None:
            self.numbers.send(self.handle.queue)
            self.handle.queue.submit([self._encoder.finish()])
            self._encoder = None
        self._collected = 0

    def write(self, buffer: Any, array: np.ndarray) -> None:
        self.send(buffer, np.ascontiguousarray(array))

    def send(self, buffer: Any, array: np.ndarray, offset: int = 0) -> None:
        """Write now what the device sees after the work that was submitted before: wgpu copies the array."""
        self.flush()
        data = array.view(np.uint8).ravel() if array.ndim else array.reshape(1).view(np.uint8)
        if offset % 4:
            raise Unsupported("a copy to the middle of a word")
        if rest := data.size % 4:  # a buffer is written by words: the last one keeps its other bytes
            at = offset + data.size - rest
            last = np.frombuffer(self.handle.queue.read_buffer(buffer.handle, at, 4), np.uint8).copy()
            last[:rest] = data[-rest:]
            self.handle.queue.write_buffer(buffer.handle, at, last)
            data = data[:-rest]
        if data.size:
            self.handle.queue.write_buffer(buffer.handle, offset, data)

    def read(self, buffer: Any, array: np.ndarray, offset: int = 0) -> np.ndarray:
        self.flush()
        before, nbytes = offset % 4, -(-(offset % 4 + array.nbytes) // 4) * 4
        words = self.handle.queue.read_buffer(buffer.handle, offset - before, nbytes)
        array.reshape(-1).view(np.uint8)[:] = np.frombuffer(words, np.uint8)[before : before + array.nbytes]
        return array

    def receive(self, buffer: Any, array: np.ndarray, offset: int = 0) -> None:
        self.read(buffer, array, offset)

    def copy(self, target: Any, source: Any) -> None:
        self._end_pass()
        self._commands().copy_buffer_to_buffer(source.handle, 0, target.handle, 0, source.handle.size)

    def fill(self, buffer: Any, byte: int) -> None:
        if byte:
            super().fill(buffer, byte)
        else:
            self._end_pass()
            self._commands().clear_buffer(buffer.handle)
        self.finish()

    def finish(self) -> None:
        """Read a word behind all work: wgpu 0.32 raises a TypeError where it is asked whether a queue is done."""
        self.flush()
        self.handle.queue.read_buffer(self._last)

    def laps(self, *submits: Callable[[], None]) -> list[float]:
        self.finish()
        if not self.device.has_timestamps:
            times = [time.perf_counter()]
            for submit in submits:
                submit()
                self.finish()
                times.append(time.perf_counter())
            return [end - start for start, end in pairwise(times)]
        return self._device_laps(submits)

    def _device_laps(self, submits: Sequence[Callable[[], None]]) -> list[float]:
        """Return the laps by timestamps: the begin of the first pass, then the end of each lap's last pass."""
        import wgpu

        count = 2 * len(submits)
        self._marks = self.handle.create_query_set(type="timestamp", count=count)
        try:
            for self._lap, submit in enumerate(submits):
                self._begun = self._lap > 0
                submit()
                self._end_pass()
            usage = wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC
            ticks = self.handle.create_buffer(size=8 * count, usage=usage)
            self._commands().resolve_query_set(self._marks, 0, count, ticks, 0)
        finally:
            self._marks = None
        self.flush()
        noted = np.frombuffer(self.handle.queue.read_buffer(ticks), np.uint64)
        times = [int(noted[0]), *(int(end) for end in noted[1::2])]
        return [(end - start) * self.device.tick for start, end in pairwise(times)]


class WebGPUDevice(contract.Device):
    """An adapter of WebGPU. Its device is made when first needed."""

    backend = WEBGPU.name

    def __init__(self, adapter: Any, index: int) -> None:
        self.adapter, self.info = adapter, dict(adapter.info)
        self.spec = f"{self.backend}:{index}"
        self.kind = "cpu" if self.info["adapter_type"] == "CPU" else "gpu"
        self.name = str(self.info["device"]).strip()
        self.limits = dict(adapter.limits)
        self.compute_units = processors() if self.kind == "cpu" else UNTOLD_UNITS
        self.cores = self.compute_units if self.kind == "cpu" else None
        self.memory_bytes = self.limits["max-buffer-size"]
        self.cache_bytes = 0 if self.kind == "cpu" else UNTOLD_CACHE
        self.local_bytes = self.limits["max-compute-workgroup-storage-size"]
        self.max_work_group = self.limits["max-compute-invocations-per-workgroup"]
        self.max_clock_mhz = 0
        if self.info["vendor_id"] == NVIDIA:
            self.pci_bus_id = bus_id_of_only_card()
        self.features = frozenset(adapter.features) & set(FEATURES)
        self.queues: WeakSet[Queue] = WeakSet()
        """Queues in use, whose launches may not be submitted yet."""
        self._programs: dict[str, Program] = {}

    @cached_property
    def handle(self) -> Any:
        """The device of wgpu, with all of FEATURES and LIMITS that its adapter has."""
        limits = {name: self.limits[name] for name in LIMITS if name in self.limits}
        return self.adapter.request_device_sync(required_features=sorted(self.features), required_limits=limits)

    @property
    def has_timestamps(self) -> bool:
        """Whether the device notes times itself; otherwise a sample ends when the host hears that the queue is done."""
        return "timestamp-query" in self.features

    @cached_property
    def tick(self) -> float:
        """Seconds of a timestamp's unit."""
        from wgpu.backends.wgpu_native import lib

        return float(lib.wgpuQueueGetTimestampPeriod(self.handle.queue._internal)) * 1e-9

    def identity(self) -> dict[str, str]:
        from wgpu.backends.wgpu_native import lib_version_info

        limits = ", ".join(f"{self.limits[name]} {word}" for name, word in SHOWN_LIMITS.items())
        return {
            "backend": self.backend,
            "model": self.name,
            "device": f"{self.name}, {self.info['adapter_type']}",
            "platform": f"{self.info['backend_type']}, wgpu-native {'.'.join(map(str, lib_version_info))}",
            "driver": str(self.info["description"]),
            "limits": limits,
            "timer": "timestamps of the device" if self.has_timestamps else "the host's clock",
        }

    @property
    def programs_built(self) -> int:
        return len(self._programs)

    def build(self, text: str, options: Sequence[str] = ()) -> Program:
        if text not in self._programs:
            if "enable f16;" in text and "shader-f16" not in self.features:
                raise Unsupported("fp16 in kernels: this adapter has no shader-f16")
            if NAGA_REFUSES in text and "subgroup" not in self.features:
                raise Unsupported("sums over subgroups: this adapter has no subgroups")
            module = _built(lambda: self.module(text))
            self._programs[text] = Program(module, text, self)
        return self._programs[text]

    def module(self, text: str) -> Any:
        """Compile a text of WGSL. Errors: those of wgpu."""
        return self.handle.create_shader_module(code=text.replace(NAGA_REFUSES, ""))

    def empty(self, nbytes: int) -> Buffer:
        import wgpu

        if nbytes > (most := self.limits["max-buffer-size"]):
            raise OutOfMemory(f"{nbytes} bytes asked for, {most} at most in one buffer")
        usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
        try:
            return Buffer(self, self.handle.create_buffer(size=max(-(-nbytes // 16) * 16, 16), usage=usage), nbytes)
        except wgpu.GPUError as error:
            raise OutOfMemory(f"{nbytes} bytes asked for: {error}") from error

    def queue(self, profiling: bool = False) -> Queue:
        return Queue(self)


@lru_cache
def devices() -> list[WebGPUDevice]:
    """Return the adapters by Vulkan, Metal or Direct3D 12, GPUs first; none if the package wgpu is missing."""
    if importlib.util.find_spec("wgpu") is None:
        return []
    with quiet():  # a driver may say that it has no desktop to show pictures on
        import wgpu
        from wgpu.backends.wgpu_native.extras import set_instance_extras

        set_instance_extras(backends=["Primary"])
        adapters = sorted(wgpu.gpu.enumerate_adapters_sync(), key=lambda adapter: adapter.info["adapter_type"] == "CPU")
    return [WebGPUDevice(adapter, index) for index, adapter in enumerate(adapters)]
