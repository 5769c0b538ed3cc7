"""The CuPy backend: NVIDIA devices by RawModule, RawKernel, events, streams and graphs. Present only where CuPy is."""

import ctypes
import importlib.metadata
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise, permutations
from typing import Any

import numpy as np

from .. import paths
from . import contract, occupancy
from .backends import CUDA
from .contract import BuildFailed, DriverFailed, OutOfMemory, Span, Unsupported
from .driver import start_driver
from .nvml import card
from .occupancy import CORES, Multiprocessor


class Buffer(contract.Buffer):
    def __init__(self, memory: Any, nbytes: int) -> None:
        self.memory, self.nbytes = memory, nbytes

    def release(self) -> None:
        self.memory = None


class Image(Buffer):
    """A texture over an array. A kernel takes its number."""

    def __init__(self, texture: Any, nbytes: int) -> None:
        super().__init__(np.uint64(texture.ptr), nbytes)
        self.texture = texture

    def release(self) -> None:
        self.texture = None


_CLUSTER = (11, 12, 13)
"""CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, _HEIGHT and _DEPTH: blocks, 0 where a kernel requires no cluster."""


class Kernel(contract.Kernel):
    """A RawKernel as loaded on the device that is current when it is made.

    On another one CuPy would load it once more, from a file that is gone by then (`_module`).
    """

    def __init__(self, kernel: Any, name: str) -> None:
        import cupy

        self.kernel, self.function, self.name = kernel, kernel.kernel, name
        self._device = cupy.cuda.Device()
        self.cooperative, self.dynamic_local_bytes = False, 0

    def configure(self, *, cooperative: bool = False, dynamic_local_bytes: int = 0, early: bool = False) -> None:
        if early and cooperative:
            raise Unsupported("a launch that begins early and runs all groups at once")
        self.cooperative, self.dynamic_local_bytes = cooperative, dynamic_local_bytes
        if early:
            self.function = EarlyFunction(self.function.ptr)
        if dynamic_local_bytes:
            with self._device:
                self.kernel.max_dynamic_shared_size_bytes = dynamic_local_bytes

    def require_cluster(self, blocks: int) -> None:
        from cupy_backends.cuda.api import driver

        with self._device:
            for attribute, extent in zip(_CLUSTER, (blocks, 1, 1), strict=True):
                driver.funcSetAttribute(self.function.ptr, attribute, extent)

    def resources(self) -> dict[str, int]:
        with self._device:
            attributes = self.kernel.attributes
        return {
            "registers": attributes["num_regs"],
            "spill_bytes": attributes["local_size_bytes"],
            "local_bytes": attributes["shared_size_bytes"] + self.dynamic_local_bytes,
            "constant_bytes": attributes["const_size_bytes"],
            "work_group_limit": attributes["max_threads_per_block"],
        }

    def groups_at_once(self, work_items: int) -> int | None:
        """Return the number of work-groups that a multiprocessor holds at once, dynamic local memory included.

        It is from cuOccupancyMaxActiveBlocksPerMultiprocessor (CUDA Driver API, Occupancy). None for a kernel with
        `__cluster_dims__`: a cluster is placed as a whole within one GPC, so fewer fit (cuOccupancyMaxActiveClusters).
        The largest grid of a cooperative launch is this number times the multiprocessors.
        """
        import cupy

        driver, function = cupy.cuda.driver, self.function.ptr
        with self._device:
            # An older driver does not know the attribute, and no clusters either: CuPy then has -1.
            if any(driver.funcGetAttribute(length, function) > 1 for length in _CLUSTER):
                return None
            return int(driver.occupancyMaxActiveBlocksPerMultiprocessor(function, work_items, self.dynamic_local_bytes))


class _LaunchAttributeValue(ctypes.Union):
    """CUlaunchAttributeValue (CUDA Driver API), with the one member that is used here."""

    _fields_ = (("pad", ctypes.c_char * 64), ("programmatic_stream_serialization_allowed", ctypes.c_int))


class _LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", _LaunchAttributeValue))


class _LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(_LaunchAttribute)), ("count", ctypes.c_uint),
    )  # fmt: skip


_PROGRAMMATIC_STREAM_SERIALIZATION = 6
"""CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: a kernel may begin before the one before in its stream has ended."""


class EarlyFunction:
    """Function of a kernel that is launched early, by cuLaunchKernelEx, for whose attributes CuPy has no words.

    It is called as CuPy's functions are.
    """

    def __init__(self, ptr: int) -> None:
        """ptr: CUfunction, as CuPy's functions have it."""
        self.ptr = ptr

    def __call__(
        self, grid: Sequence[int], block: Sequence[int], values: Sequence[Any], *, stream: Any, shared_mem: int = 0,
        enable_cooperative_groups: bool = False,
    ) -> None:  # fmt: skip
        driver = _driver()
        if driver is None or not hasattr(driver, "cuLaunchKernelEx"):
            raise Unsupported("a launch that begins early: it takes a driver for CUDA 12")
        arrays = [np.atleast_1d(value if np.isscalar(value) else np.uint64(value.data.ptr)) for value in values]
        pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
        allowed = _LaunchAttributeValue(programmatic_stream_serialization_allowed=1)
        attribute = _LaunchAttribute(id=_PROGRAMMATIC_STREAM_SERIALIZATION, value=allowed)
        config = _LaunchConfig(
            (*grid, 1, 1)[:3], (*block, 1, 1)[:3], shared_mem, stream.ptr, ctypes.pointer(attribute), 1
        )
        if error := driver.cuLaunchKernelEx(ctypes.byref(config), ctypes.c_void_p(self.ptr), pointers, None):
            raise DriverFailed(f"cuLaunchKernelEx stopped with error {error}")


class Program(contract.Program):
    """A RawModule as loaded on the device that is current when it is made, with its constants there."""

    def __init__(self, module: Any, log: str = "") -> None:
        """log: messages of the compiler, if it compiled the text in this process."""
        import cupy

        self.module, self._device, self._log = module, cupy.cuda.Device(), log

    def log(self) -> str:
        return self._log

    def kernel(self, name: str) -> Kernel:
        import cupy

        try:
            with self._device:
                return Kernel(self.module.get_function(name), name)
        except cupy.cuda.driver.CUDADriverError as error:
            if "CUDA_ERROR_NOT_FOUND" not in str(error):
                raise
            raise BuildFailed(f"no kernel in it is named {name}") from None

    def constant(self, name: str, nbytes: int) -> tuple[Buffer, tuple[Buffer, ...]]:
        with self._device:
            return Buffer(_array(self.module.get_global(name), nbytes), nbytes), ()


class Graph(contract.Graph):
    def __init__(self, graph: Any, stream: Any) -> None:
        self.graph, self.stream = graph, stream

    def launch(self) -> None:
        self.graph.launch(self.stream)


class Queue(contract.Queue):
    """A non-blocking stream.

    A thread launches on its current device (CUDA Runtime API, cudaSetDevice), which everything here makes the queue's own
    but `launch`, `copy`, `fetch`, `send` and `receive`: what a thread submits in between goes to the device that it used last.
    """

    def __init__(self, index: int) -> None:
        import cupy

        self._cupy, self._device = cupy, cupy.cuda.Device(index)
        self._device.use()
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.head_start_ns = HEAD_START_NS
        self.events: list[tuple[str, Any, Any]] | None = None
        """While traced: each submitted action, with the events before and after it."""

    def launch(self, kernel: Any, global_size: Sequence[int], local_size: Sequence[int], *args: Any) -> None:
        grid = tuple(-(-size // local) for size, local in zip(global_size, local_size, strict=True))
        values = tuple(arg.memory if isinstance(arg, Buffer) else arg for arg in args)
        begin = self._mark()
        kernel.function(
            grid, tuple(local_size), values, stream=self.stream, shared_mem=kernel.dynamic_local_bytes,
            enable_cooperative_groups=kernel.cooperative,
        )  # fmt: skip
        self._note("kernel", begin)

    def _mark(self) -> Any:
        """An event behind all that was submitted; nothing unless traced."""
        if self.events is None:
            return None
        event = self._cupy.cuda.Event()
        event.record(self.stream)
        return event

    def _note(self, action: str, begin: Any) -> None:
        if self.events is not None:
            self.events.append((action, begin, self._mark()))

    def write(self, buffer: Any, array: np.ndarray) -> None:
        self._device.use()
        array = np.ascontiguousarray(array)
        buffer.memory.data.copy_from_host_async(array.ctypes.data, array.nbytes, self.stream)
        self.finish()

    def read(self, buffer: Any, array: np.ndarray, offset: int = 0) -> np.ndarray:
        self._device.use()
        (buffer.memory.data + offset).copy_to_host_async(array.ctypes.data, array.nbytes, self.stream)
        self.finish()
        return array

    def copy(self, target: Any, source: Any) -> None:
        target.memory.data.copy_from_device_async(source.memory.data, source.nbytes, self.stream)

    def fill(self, buffer: Any, byte: int) -> None:
        self._device.use()
        buffer.memory.data.memset_async(byte, buffer.nbytes, self.stream)
        self.finish()

    def send(self, buffer: Any, array: np.ndarray, offset: int = 0) -> None:
        begin = self._mark()
        (buffer.memory.data + offset).copy_from_host_async(array.ctypes.data, array.nbytes, self.stream)
        self._note("to device", begin)

    def receive(self, buffer: Any, array: np.ndarray, offset: int = 0) -> None:
        begin = self._mark()
        (buffer.memory.data + offset).copy_to_host_async(array.ctypes.data, array.nbytes, self.stream)
        self._note("to host", begin)

    def laps(self, *submits: Callable[[], None]) -> list[float]:
        self._device.use()
        events = [self._cupy.cuda.Event() for _ in range(len(submits) + 1)]
        _wait(self._device.id)((1,), (1,), (np.int64(self.head_start_ns),), stream=self.stream)
        events[0].record(self.stream)
        for submit, event in zip(submits, events[1:], strict=True):
            submit()
            event.record(self.stream)
        self.finish()
        return [_seconds(*pair) for pair in pairwise(events)]

    def finish(self) -> None:
        self._device.use()
        self.stream.synchronize()

    def use(self) -> None:
        self._device.use()

    def mark(self) -> Any:
        self._device.use()  # an event belongs to the device that is current when it is made
        event = self._cupy.cuda.Event(disable_timing=True)
        event.record(self.stream)
        return event

    def wait_for(self, *marks: Any) -> None:
        self._device.use()
        for event in marks:
            self.stream.wait_event(event)

    def fetch(self, target: Any, source: Any, offset: int = 0) -> None:
        to, of = target.memory.data, source.memory.data
        self._cupy.cuda.runtime.memcpyPeerAsync(
            to.ptr, to.device_id, of.ptr + offset, of.device_id, target.nbytes, self.stream.ptr
        )

    def record(self, submit: Callable[[], None]) -> Graph:
        self._device.use()
        with self.stream:
            self.stream.begin_capture()
            try:
                submit()
            finally:
                graph = self.stream.end_capture()
        return Graph(graph, self.stream)


def _seconds(start: Any, end: Any) -> float:
    import cupy

    return float(cupy.cuda.get_elapsed_time(start, end)) * 1e-3


def _array(pointer: Any, nbytes: int) -> Any:
    import cupy

    return cupy.ndarray(nbytes, dtype=np.uint8, memptr=pointer)


def _pytorch_gives_back() -> bool:
    """Whether PyTorch held memory of the GPU that nothing used, which it keeps for itself, and has given it back."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return False
    before = torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    return bool(torch.cuda.memory_reserved() < before)


PEER_ACCESS_ALREADY_ENABLED = 704
"""cudaErrorPeerAccessAlreadyEnabled (CUDA Runtime API, Error Handling)."""

HEAD_START_NS = 100_000
"""A kernel that only waits keeps the device busy while the host submits: else its launches would be timed. A queue whose host
takes longer than this to submit sets its own."""


@lru_cache
def _wait(index: int) -> Any:
    """The kernel as loaded on one device, the current one."""
    import cupy

    text = """extern "C" __global__ void wait_ns(long long ns) {
      long long start, now;
      asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
      do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); while (now - start < ns);
    }"""
    module, _ = _module(text, _native(int(cupy.cuda.Device(index).compute_capability)))
    return module.get_function("wait_ns").kernel


@lru_cache
def _driver() -> Any:
    """Return the driver's library, for functions that CuPy lacks; None if it is missing or knows no persisting lines of L2."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return driver if hasattr(driver, "cuCtxResetPersistingL2Cache") else None


class CudaDevice(contract.Device):
    """An NVIDIA device by CuPy."""

    backend = CUDA.name
    kind = "gpu"

    def __init__(self, index: int) -> None:
        import cupy

        self.index = index
        self.pci_bus_id = cupy.cuda.runtime.deviceGetPCIBusId(index)
        self.spec = f"cuda:{index}"
        properties = cupy.cuda.runtime.getDeviceProperties(index)
        self.name = properties["name"].decode()
        self.compute_units = properties["multiProcessorCount"]
        lanes = CORES.get((properties["major"], properties["minor"]))
        self.cores = lanes * self.compute_units if lanes else None
        self.memory_bytes = properties["totalGlobalMem"]
        self.cache_bytes = properties["l2CacheSize"]
        self.local_bytes = properties["sharedMemPerBlock"]
        self.max_work_group = properties["maxThreadsPerBlock"]
        self.max_clock_mhz = cupy.cuda.runtime.deviceGetAttribute(13, index) // 1000
        self._programs: dict[tuple[str, ...], Program] = {}
        self.architecture = self.ptx = 10 * properties["major"] + properties["minor"]
        ask = cupy.cuda.runtime.deviceGetAttribute
        self.multiprocessor = Multiprocessor(
            threads=ask(39, index), groups=ask(106, index), registers=ask(82, index), local_bytes=ask(81, index),
            reserved_local_bytes=ask(111, index), partitions=occupancy.partitions(self.architecture),
            local_bytes_at_once=occupancy.local_bytes_at_once(self.architecture),
        )  # fmt: skip

    def identity(self) -> dict[str, str]:
        import cupy

        return {
            "backend": self.backend,
            "model": self.name,
            "device": f"{self.name}, sm_{self.architecture}",
            "platform": f"CUDA runtime {cupy.cuda.runtime.runtimeGetVersion()}, CuPy {cupy.__version__}",
            "driver": str(cupy.cuda.runtime.driverGetVersion()),
        }

    @property
    def programs_built(self) -> int:
        return len(self._programs)

    def build(self, text: str, options: Sequence[str] = ()) -> Program:
        import cupy

        cupy.cuda.Device(self.index).use()
        if (text, *options) in self._programs:
            return self._programs[text, *options]
        if any(option.startswith("-arch=") for option in options):  # such as sm_90a
            module, log = _module(text, (*CUDA.flags, *options))
        else:
            module, log = self._native_module(text, options)
        return self._programs.setdefault((text, *options), Program(module, log))

    def _native_module(self, text: str, options: Sequence[str]) -> tuple[Any, str]:
        """Compile a text for this device's architecture: by NVRTC, or by CuPy if NVRTC refuses it.

        CuPy names the folders of CUDA's headers, and chooses an architecture that NVRTC knows.
        """
        import cupy

        try:
            return _module(text, (*options, *_native(self.architecture)))
        except BuildFailed:
            module = cupy.RawModule(code=text, options=(*CUDA.flags, *options), backend="nvrtc")
            try:
                module.compile()
            except cupy.cuda.compiler.CompileException as error:
                raise BuildFailed(_first_error(str(error))) from error
            return module, ""

    def load(self, image: bytes) -> Program:
        import cupy

        cupy.cuda.Device(self.index).use()
        return Program(_loaded(image))

    def empty(self, nbytes: int) -> Buffer:
        import cupy

        cupy.cuda.Device(self.index).use()
        while True:
            try:  # the runtime's own allocation: a pool would hide what it costs
                return Buffer(_array(cupy.cuda.MemoryPointer(cupy.cuda.Memory(nbytes), 0), nbytes), nbytes)
            except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.memory.OutOfMemoryError) as error:
                if not _pytorch_gives_back():
                    raise OutOfMemory(f"{nbytes} bytes asked for: {error}") from error

    def queue(self, profiling: bool = True) -> Queue:
        return Queue(self.index)

    def pinned(self, shape: Sequence[int], dtype: Any) -> np.ndarray:
        import cupy

        count, kind = int(np.prod(shape)), np.dtype(dtype)
        try:
            memory = cupy.cuda.PinnedMemoryPointer(cupy.cuda.PinnedMemory(count * kind.itemsize), 0)
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise OutOfMemory(f"{count * kind.itemsize} bytes of pinned memory asked for: {error}") from error
        return np.frombuffer(memory, kind, count).reshape(shape)

    def image(self, array: np.ndarray) -> Image:
        import cupy
        from cupy.cuda import texture

        runtime = cupy.cuda.runtime
        cupy.cuda.Device(self.index).use()
        kind = texture.ChannelFormatDescriptor(16, 0, 0, 0, runtime.cudaChannelFormatKindSigned)
        if array.ndim == 1:
            if array.size > 1 << 27:
                raise Unsupported(f"a line of {array.size} values: {1 << 27} at most")
            linear = cupy.asarray(array)
            source = texture.ResourceDescriptor(
                runtime.cudaResourceTypeLinear, arr=linear, chDesc=kind, sizeInBytes=array.nbytes
            )
        else:
            rows, columns = array.shape
            if columns > 131072 or rows > 65536:
                raise Unsupported(f"an image of {rows} x {columns}: 65536 x 131072 at most")
            values = texture.CUDAarray(kind, columns, rows)
            values.copy_from(np.ascontiguousarray(array))
            source = texture.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=values)
        reading = texture.TextureDescriptor((runtime.cudaAddressModeClamp,) * 2, runtime.cudaFilterModePoint)
        return Image(texture.TextureObject(source, reading), array.nbytes)

    def release_persisting(self) -> None:
        """Turn persisting lines of L2 into normal ones, which a copy can evict.

        cuCtxResetPersistingL2Cache (CUDA Driver API, Context Management) has done so when it returns. A driver that lacks or
        refuses it has no persisting lines.
        """
        import cupy

        cupy.cuda.Device(self.index).use()  # it is of the current context
        if driver := _driver():
            driver.cuCtxResetPersistingL2Cache()

    def several(self, count: int, cores: int | None = None, *, overlapping: bool = False) -> list[contract.Device]:
        """Return devices of this name in the order of their numbers, itself first, with access to each other's memory."""
        import cupy

        runtime = cupy.cuda.runtime
        members = [self, *(peer for peer in devices() if peer.name == self.name and peer.index != self.index)]
        if len(members) < count:
            raise Unsupported(f"{count} devices of this model: the machine has {len(members)}")
        for one, peer in permutations(members[:count], 2):
            if one.reaches(peer):
                cupy.cuda.Device(one.index).use()
                try:
                    runtime.deviceEnablePeerAccess(peer.index)
                except runtime.CUDARuntimeError as error:
                    if error.status != PEER_ACCESS_ALREADY_ENABLED:
                        raise DriverFailed(
                            f"{one.spec} gets no access to the memory of {peer.spec}: {error}"
                        ) from error
        cupy.cuda.Device(self.index).use()
        return list(members[:count])

    @property
    def alike(self) -> int:  # type: ignore[override]
        return sum(peer.name == self.name for peer in devices())

    @property
    def which(self) -> str:
        card_facts = card(self.pci_bus_id).facts() or {}
        return ", ".join(
            [self.spec, *([card_facts["uuid"]] if card_facts.get("uuid") else []), f"PCI {self.pci_bus_id}"]
        )

    def reaches(self, peer: contract.Device) -> bool:
        import cupy

        if not isinstance(peer, CudaDevice):
            return False
        return peer is self or bool(cupy.cuda.runtime.deviceCanAccessPeer(self.index, peer.index))

    def messages(self, devices: Sequence[contract.Device], queues: Sequence[contract.Queue]) -> contract.Messages:
        from .nccl import Nccl

        return Nccl([device.index for device in devices if isinstance(device, CudaDevice)], queues)

    def traced(self, queues: Sequence[Any], submit: Callable[[], None]) -> list[Span]:
        noted = contract.noted_events(queues, submit)
        if not noted:
            return []
        first = min((begin for _, _, begin, _ in noted), key=lambda event: _seconds(noted[0][2], event))
        return [
            Span(number, action, _seconds(first, begin), _seconds(first, end)) for number, action, begin, end in noted
        ]


def _native(architecture: int) -> tuple[str, ...]:
    """The options of code that names no architecture, as CuPy gives them to NVRTC for a RawModule."""
    return *CUDA.flags, "-ftz=true", "--device-as-default-execution-space", f"-arch=sm_{architecture}"


def _module(text: str, options: Sequence[str]) -> tuple[Any, str]:
    """Return a module that NVRTC compiled, now or before, and its messages if it did so now.

    CuPy keeps what it compiles as well, but compiles an empty text in each process first, and knows no `sm_90a`.
    """
    from cupy_backends.cuda.libs import nvrtc

    log = ""

    def compiled() -> bytes:
        nonlocal log
        program = nvrtc.createProgram(text, "kernel.cu", (), ())
        try:
            nvrtc.compileProgram(program, options)
        except nvrtc.NVRTCError as error:
            raise BuildFailed(_first_error(nvrtc.getProgramLog(program))) from error
        log = nvrtc.getProgramLog(program).strip()
        return bytes(nvrtc.getCUBIN(program))

    image = paths.cached("cubin", paths.cache_key(text, *options, *_compiler()), compiled)
    return _loaded(image), log


def _loaded(image: bytes) -> Any:
    """Return the module of machine code or PTX, loaded on the current device."""
    import cupy

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(image)
        file.flush()
        module = cupy.RawModule(path=file.name)
        module.compile()
    return module


@lru_cache
def _compiler() -> tuple[str, ...]:
    """Return the version that the loaded NVRTC reports, with the versions of its packages, which are more precise."""
    from cupy_backends.cuda.libs import nvrtc

    versions = []
    for name in CUDA.libraries:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions += [name, importlib.metadata.version(name)] if "nvrtc" in name else []
    return *map(str, nvrtc.getVersion()), *versions


def _first_error(log: str) -> str:
    """The compiler's first error, with the temporary file that it names taken out."""
    lines = [re.sub(r"\S*\.cu\((\d+)\)", r"line \1", line).strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else "no message")


@lru_cache
def devices() -> list[CudaDevice]:
    """Return all NVIDIA GPUs; none if CuPy or a driver is missing."""
    start_driver()
    try:
        import cupy

        return [CudaDevice(index) for index in range(cupy.cuda.runtime.getDeviceCount())]
    except ImportError:
        return []
    except Exception as error:  # CuPy's own error type is not to be had without CuPy
        if type(error).__name__ != "CUDARuntimeError":
            raise
        return []
