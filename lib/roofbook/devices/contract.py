"""The contract of a backend: devices, buffers, programs, kernels and queues. backends.py lists those that implement it."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import numpy as np

    from .occupancy import Multiprocessor


class BuildFailed(Exception):
    """A kernel that its compiler refused. The first line is the compiler's first error."""


class OutOfMemory(Exception):
    """The device has no room for a buffer. The message has the bytes that were requested."""


class DriverFailed(Exception):
    """A call that the driver refused. The message has its error code."""


class Unsupported(Exception):
    """Something that this device or backend does not have, such as graphs on OpenCL."""


class Buffer(ABC):
    """Device memory of `nbytes` bytes."""

    nbytes: int

    @abstractmethod
    def release(self) -> None: ...


class Kernel(ABC):
    """A compiled kernel."""

    name: str

    @abstractmethod
    def resources(self) -> dict[str, int]:
        """Return registers, spill_bytes, local_bytes, constant_bytes, work_group_limit: those that the backend reports."""

    def groups_at_once(self, work_items: int) -> int | None:
        """Return how many groups of `work_items` work-items one compute unit holds at once, by the driver's count.

        None if the driver does not count: `occupancy.occupancy` then uses NVIDIA's published rule. A small grid may have
        fewer groups.
        """
        return None

    def configure(self, *, cooperative: bool = False, dynamic_local_bytes: int = 0, early: bool = False) -> None:
        """Set that launches run all groups at once, or get more local memory than the kernel declares, or may begin early.

        early: before the kernel before has ended, for which the kernel itself then waits (dialect/early_launch.h).
        Raise Unsupported if the backend cannot promise it.
        """
        raise Unsupported("this backend has no cooperative or early launch and no dynamic local memory")

    def require_cluster(self, blocks: int) -> None:
        """Set that launches run in clusters of so many neighbouring groups, which the kernel does not declare itself.

        Raise Unsupported if the backend cannot promise it.
        """
        raise Unsupported("this backend has no clusters")


class Graph(ABC):
    """Recorded launches that can be submitted as one."""

    @abstractmethod
    def launch(self) -> None: ...


class Span(NamedTuple):
    """One launch or copy of a `traced` run."""

    queue: int
    """Index of its queue."""
    what: str
    """`kernel`, `to device` or `to host`."""
    start: float
    """Seconds since the start of the first span of the run."""
    end: float


def noted_events(queues: Sequence[Any], submit: Callable[[], None]) -> list[tuple[Any, ...]]:
    """Call `submit`, wait for the queues, and return the events that they noted meanwhile, each after its queue's index."""
    for queue in queues:
        queue.events = []
    try:
        submit()
        for queue in queues:
            queue.finish()
        return [(number, *event) for number, queue in enumerate(queues) for event in queue.events]
    finally:
        for queue in queues:
            queue.events = None


class Message(NamedTuple):
    """A message between two devices of a set, or from one to itself. It fills all of `target`."""

    sender: int
    """Index of the sending device in the set."""
    receiver: int
    """Index of the receiving device in the set."""
    source: Buffer
    offset: int
    """First byte of `source` that is sent."""
    target: Buffer


class Messages(ABC):
    """A library's sends and receives between the devices of a set, each in its own queue."""

    @abstractmethod
    def exchange(self, messages: Sequence[Message]) -> None:
        """Submit all messages at once, without waiting for them."""


class Queue(ABC):
    """An in-order queue of work."""

    @abstractmethod
    def launch(self, kernel: Kernel, global_size: Sequence[int], local_size: Sequence[int], *args: Any) -> None:
        """Submit a kernel with all its arguments: buffers and NumPy scalars. Sizes count work-items per dimension."""

    @abstractmethod
    def write(self, buffer: Buffer, array: "np.ndarray") -> None:
        """Copy an array from host to device. Return when the array may be reused."""

    @abstractmethod
    def read(self, buffer: Buffer, array: "np.ndarray", offset: int = 0) -> "np.ndarray":
        """Copy bytes from device to host, from `offset` on, until `array` is full. Wait for the end, and return `array`."""

    @abstractmethod
    def copy(self, target: Buffer, source: Buffer) -> None:
        """Copy all of `source` to `target`, on one device."""

    def fill(self, buffer: Buffer, byte: int) -> None:
        """Set each byte of a buffer to `byte`, and wait for it."""
        import numpy as np

        self.write(buffer, np.full(buffer.nbytes, byte, np.uint8))

    @abstractmethod
    def send(self, buffer: Buffer, array: "np.ndarray", offset: int = 0) -> None:
        """Submit a copy from host to device, to the bytes of `buffer` from `offset` on, without waiting.

        `array` must be contiguous, and must not change until the queue has finished.
        """

    @abstractmethod
    def receive(self, buffer: Buffer, array: "np.ndarray", offset: int = 0) -> None:
        """Submit a copy from device to host, of the bytes of `buffer` from `offset` on, without waiting.

        `array` must be contiguous. It holds the values once the queue has finished.
        """

    @abstractmethod
    def laps(self, *submits: Callable[[], None]) -> list[float]:
        """Run several functions that launch kernels, and return the seconds that each takes on the device.

        The first lap begins with its first kernel. Each lap ends with its last kernel, and there the next one begins. Needs a
        profiling queue. Waits for the end.
        """

    def timed(self, submit: Callable[[], None]) -> float:
        """Return the seconds on the device from the start of the first kernel that `submit` launches to the end of the last.

        Needs a profiling queue. Waits for the end.
        """
        return self.laps(submit)[0]

    @abstractmethod
    def finish(self) -> None:
        """Wait until the device has finished all submitted work."""

    def use(self) -> None:
        """Make this queue's device the current one of this thread. Call it first when driving several devices."""

    def flush(self) -> None:
        """Let the device begin the submitted work, without waiting."""

    def mark(self) -> Any:
        """Return an event behind all submitted work, for `wait_for` of other queues of the set, and let the work begin."""
        raise Unsupported("this backend has no events between queues")

    def wait_for(self, *marks: Any) -> None:
        """Let work that is submitted later begin after these events of `mark`. The host does not wait."""
        raise Unsupported("this backend has no events between queues")

    def fetch(self, target: Buffer, source: Buffer, offset: int = 0) -> None:
        """Submit a copy from a device of the set to this queue's device, without waiting.

        It fills all of `target`, with the bytes of `source` from `offset` on.
        """
        raise Unsupported("this backend has no copies between devices")

    def record(self, submit: Callable[[], None]) -> Graph:
        """Record the launches that `submit` puts into this queue, without running them."""
        raise Unsupported("this backend has no graphs")


class DeviceObserver(Protocol):
    """Notes the buffers and queues that devices make, and the texts that they compile."""

    guard_bytes: int
    """Bytes before and behind each buffer that belong to no buffer: a write there is out of bounds."""

    def notice_build(self, device: "Device", text: str, options: Sequence[str]) -> None: ...

    def notice_buffer(self, device: "Device", buffer: Buffer, guarded: Buffer) -> None:
        """Note a new buffer. guarded: the buffer together with its guards; without guards the buffer itself."""

    def notice_queue(self, device: "Device", queue: Queue) -> None: ...


_observer: DeviceObserver | None = None


@contextmanager
def observed_by(observer: DeviceObserver | None) -> Iterator[None]:
    """Report to `observer`, if any, the buffers and queues that devices make in this block, and the texts they compile."""
    global _observer
    before, _observer = _observer, observer
    try:
        yield
    finally:
        _observer = before


def _reporting_buffer(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `empty` of a backend's device: an observer is told of each buffer, which gets guards around it."""

    @wraps(method)
    def reporting(device: "Device", nbytes: int) -> Any:
        if _observer is None:
            return method(device, nbytes)
        guard = _observer.guard_bytes
        guarded = buffer = method(device, nbytes + 2 * guard)
        if guard and not hasattr(buffer, "memory"):  # a backend whose memory has no parts has no guards
            guarded = buffer = method(device, nbytes)
        elif guard:
            guarded, buffer.memory, buffer.nbytes = copy(buffer), _part(buffer.memory, guard, nbytes), nbytes
        _observer.notice_buffer(device, buffer, guarded)
        return buffer

    return reporting


def _part(memory: Any, start: int, nbytes: int) -> Any:
    """Return `nbytes` bytes of a backend's memory from `start` on: a sub-buffer of OpenCL, or a slice of an array."""
    return memory.get_sub_region(start, nbytes) if hasattr(memory, "get_sub_region") else memory[start : start + nbytes]


def _reporting_queue(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `queue` of a backend's device: an observer is told of each queue."""

    @wraps(method)
    def reporting(device: "Device", *args: Any, **options: Any) -> Any:
        queue = method(device, *args, **options)
        if _observer is not None:
            _observer.notice_queue(device, queue)
        return queue

    return reporting


def _reporting_build(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `build` of a backend's device: an observer is told of each text that is compiled, and of the options."""

    @wraps(method)
    def reporting(device: "Device", text: str, options: Sequence[str] = ()) -> Any:
        if _observer is not None:
            _observer.notice_build(device, text, options)
        return method(device, text, options)

    return reporting


class Device(ABC):
    """A device of one backend. Buffers, programs and queues belong to it."""

    backend: str
    kind: str
    """`cpu` or `gpu`."""
    name: str
    spec: str
    """Argument of `open_device` that opens this device again, such as `opencl:0`."""
    compute_units: int
    cores: int | None = None
    """Number of lanes that compute in fp32 at once, in all multiprocessors; None if the driver does not tell."""
    memory_bytes: int
    cache_bytes: int
    local_bytes: int
    max_work_group: int
    max_clock_mhz: int
    verbose: tuple[str, ...] = ()
    """Options with which the compiler reports the registers of kernels in its log, if it needs any."""
    pci_bus_id: str | None = None
    """Address of an NVIDIA GPU, as NVML takes it: `domain:bus:device.function` in hexadecimal. None if no driver tells."""
    ptx: int = 0
    """Compute capability (10 x major + minor) of an NVIDIA GPU, whose compilers take PTX in a text; 0 for other devices."""
    multiprocessor: "Multiprocessor | None" = None
    """Resources that groups share on one compute unit; None if the backend does not tell."""
    vector_floats: int = 1
    """Number of fp32 values in a vector register, as the driver reports it: 16 on a CPU with AVX-512, 8 with AVX2."""
    alike: int = 1
    """Most devices that `several` can return: those of its model, or the cores of a CPU that can be divided."""

    def lacks_instructions(self, feature: str) -> str:
        """Return why kernels with the x86 instructions of a feature, such as `vnni`, do not run here; '' if they do."""
        return "its compiler is not known to take x86 instructions within a text"

    def __init_subclass__(cls, **options: Any) -> None:
        """Let `observed_by` see the backend's calls of `empty`, `queue` and `build`."""
        super().__init_subclass__(**options)
        wraps_by_name = {"empty": _reporting_buffer, "queue": _reporting_queue, "build": _reporting_build}
        for name, wrap in wraps_by_name.items():
            if name in vars(cls):
                setattr(cls, name, wrap(vars(cls)[name]))

    @property
    def warning(self) -> str:
        """Warning for readers of this device's times, such as a compiler that does not fit it; '' for none."""
        return ""

    @property
    def programs_built(self) -> int:
        """Number of different programs that it has compiled."""
        return 0

    @property
    def slug(self) -> str:
        """Name of the model in file names: `NVIDIA H200` -> `nvidia-h200`."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")

    @abstractmethod
    def identity(self) -> dict[str, str]:
        """Return model, driver and runtime: measurements are comparable if these are equal."""

    @abstractmethod
    def build(self, text: str, options: Sequence[str] = ()) -> "Program":
        """Compile plain source of this backend's language. Raise BuildFailed if the compiler refuses it."""

    def load(self, image: bytes) -> "Program":
        """Return the program of machine code, or of PTX, that another compiler made for this device."""
        raise Unsupported("this backend loads no machine code of other compilers")

    @abstractmethod
    def empty(self, nbytes: int) -> Buffer:
        """Return uninitialised memory. Raise OutOfMemory if there is too little."""

    @abstractmethod
    def queue(self, profiling: bool = False) -> Queue:
        """Return a new in-order queue. On OpenCL, profiling makes `timed` possible and each launch a little slower."""

    def pinned(self, shape: Sequence[int], dtype: "np.dtype | type") -> "np.ndarray":
        """Return a page-locked array of the host, which the device copies without the CPU. Raise OutOfMemory."""
        raise Unsupported("this backend has no pinned memory")

    def image(self, array: "np.ndarray") -> Buffer:
        """Return an image of int16: of two dimensions (rows, columns) for READ_IMAGE, of one for READ_LINE.

        Raise Unsupported if the device has no images of this size.
        """
        raise Unsupported("this backend has no images")

    def several(self, count: int, cores: int | None = None, *, overlapping: bool = False) -> "list[Device]":
        """Return a set of `count` devices of this model, itself first, that reach each other's buffers by `Queue.fetch`.

        A CPU is divided into parts of `cores` cores; by default all of its cores are divided evenly. overlapping: parts may
        share cores if there are too few. Buffers, programs and queues of a set belong to the devices of that set alone. Raise
        Unsupported if there are fewer devices.
        """
        if count == 1 and cores in (None, self.compute_units):
            return [self]
        raise Unsupported(f"{count} devices: this backend has no sets of devices")

    @property
    def which(self) -> str:
        """Name of this device among those of its model, in rows about a set of devices."""
        return self.spec

    def reaches(self, peer: "Device") -> bool:
        """Return whether its kernels can write into memory of another device of its set."""
        return peer is self

    def messages(self, devices: "Sequence[Device]", queues: Sequence[Queue]) -> Messages:
        """Return NCCL's messages between the devices of a set, each with its queue. Raise Unsupported without NCCL."""
        raise Unsupported("this backend has no NCCL")

    def release_persisting(self) -> None:
        """Release lines that kernels have set to persist in the last cache. Does nothing on a device without such lines."""

    def traced(self, queues: Sequence[Queue], submit: Callable[[], None]) -> list[Span]:
        """Run `submit`, wait for all of `queues`, and return a span for each launch, `send` and `receive`."""
        raise Unsupported("this backend has no events")

    def upload(self, array: "np.ndarray") -> Buffer:
        """Return a new buffer with the array's bytes."""
        buffer = self.empty(array.nbytes)
        self.queue().write(buffer, array)
        return buffer


class Program(ABC):
    """A compiled text."""

    @abstractmethod
    def kernel(self, name: str) -> Kernel:
        """Return the kernel of a name. Raise BuildFailed if the text has none."""

    def log(self) -> str:
        """Return the compiler's messages about a text that it took; '' if the backend does not keep them."""
        return ""

    def constant(self, name: str, nbytes: int) -> tuple[Buffer, tuple[Buffer, ...]]:
        """Return the program's CONSTANT_ARRAY as (buffer to write to, last arguments of each launch that reads it).

        On CUDA it is part of the program, so there is no argument. On OpenCL the buffer is the argument.
        """
        raise Unsupported("this backend has no constant memory")
