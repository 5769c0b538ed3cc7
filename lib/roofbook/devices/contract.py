"""What a backend owes the rest of the book. backends.py lists who keeps it; find.py finds a device by name."""

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
    """The device has no room for a buffer. The message says how much was asked for."""


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
        """registers, spill_bytes, local_bytes, constant_bytes, work_group_limit: those that the backend tells."""

    def groups_at_once(self, work_items: int) -> int | None:
        """How many groups of so many work-items one compute unit holds at once, as the driver itself counts.

        None where no driver tells: `occupancy.occupancy` then has it by NVIDIA's published rule. It says nothing of how many
        there are: a small grid fills fewer places.
        """
        return None

    def configure(self, *, cooperative: bool = False, dynamic_local_bytes: int = 0) -> None:
        """Launch with all groups at once, or with so much local memory more than declared.

        Raises Unsupported where the backend cannot promise it.
        """
        raise Unsupported("this backend has no cooperative launch and no dynamic local memory")


class Graph(ABC):
    """Recorded launches that can be submitted as one."""

    @abstractmethod
    def launch(self) -> None: ...


class Span(NamedTuple):
    """What one queue did when: seconds since the first thing of a `traced` run began."""

    queue: int
    what: str
    """`kernel`, `to device` or `to host`."""
    start: float
    end: float


class Message(NamedTuple):
    """A message from one device of a set to one, which may be itself: all of `target`, from `offset` bytes on of `source`."""

    sender: int
    receiver: int
    """Places in the set."""
    source: Buffer
    offset: int
    target: Buffer


class Messages(ABC):
    """Sends and receives of a library between the devices of a set, in a queue of each."""

    @abstractmethod
    def exchange(self, messages: Sequence[Message]) -> None:
        """Submit all of these at once, without waiting."""


class Queue(ABC):
    """An in-order queue of work."""

    @abstractmethod
    def launch(self, kernel: Kernel, global_size: Sequence[int], local_size: Sequence[int], *args: Any) -> None:
        """Submit a kernel with all its arguments: buffers and NumPy scalars. Sizes count work-items per dimension."""

    @abstractmethod
    def write(self, buffer: Buffer, array: "np.ndarray") -> None:
        """Host to device; returns when the array may be reused."""

    @abstractmethod
    def read(self, buffer: Buffer, array: "np.ndarray", offset: int = 0) -> "np.ndarray":
        """Device to host, blocking, from `offset` bytes on; returns `array`."""

    @abstractmethod
    def copy(self, target: Buffer, source: Buffer) -> None:
        """Device to device, all of `source`."""

    def fill(self, buffer: Buffer, byte: int) -> None:
        """Set each byte of a buffer to `byte`, and wait for it."""
        import numpy as np

        self.write(buffer, np.full(buffer.nbytes, byte, np.uint8))

    @abstractmethod
    def send(self, buffer: Buffer, array: "np.ndarray", offset: int = 0) -> None:
        """Host to device, from `offset` bytes on, without waiting.

        `array`, in one piece, must stay as it is until the queue has finished.
        """

    @abstractmethod
    def receive(self, buffer: Buffer, array: "np.ndarray", offset: int = 0) -> None:
        """Device to host, from `offset` bytes on, without waiting.

        `array`, in one piece, holds the values once the queue has finished.
        """

    @abstractmethod
    def laps(self, *submits: Callable[[], None]) -> list[float]:
        """Seconds on the device that the kernels of each of `submits` take, one after the other.

        The first lap begins with its first kernel, each ends with its last, where the next begins. Needs a profiling
        queue. Waits for the end.
        """

    def timed(self, submit: Callable[[], None]) -> float:
        """Seconds on the device from the start of the first kernel that `submit` launches to the end of the last.

        Needs a profiling queue. Waits for the end.
        """
        return self.laps(submit)[0]

    @abstractmethod
    def finish(self) -> None:
        """Wait until the device has done all that was submitted."""

    def use(self) -> None:
        """What this thread submits from now on goes to this queue's device. Whoever drives several devices says so first."""

    def flush(self) -> None:
        """Let the device begin what was submitted, without waiting."""

    def mark(self) -> Any:
        """A point behind all that was submitted, which other queues of the set can wait for; what was submitted begins."""
        raise Unsupported("this backend has no events between queues")

    def wait_for(self, *marks: Any) -> None:
        """What is submitted from now on begins when those points are reached. The host does not wait."""
        raise Unsupported("this backend has no events between queues")

    def fetch(self, target: Buffer, source: Buffer, offset: int = 0) -> None:
        """Device to device, without waiting: all of `target`, from `offset` bytes on of `source`.

        `target` is of this queue's device, `source` of any device of the set.
        """
        raise Unsupported("this backend has no copies between devices")

    def record(self, submit: Callable[[], None]) -> Graph:
        """Record what `submit` puts into this queue, without running it."""
        raise Unsupported("this backend has no graphs")


class DeviceObserver(Protocol):
    """Takes note of the buffers and queues that devices hand out, and of the texts that they compile."""

    guard_bytes: int
    """Bytes before and behind each buffer that belong to nobody: whoever writes there has left the buffer."""

    def notice_build(self, device: "Device", text: str, options: Sequence[str]) -> None: ...

    def notice_buffer(self, device: "Device", buffer: Buffer, whole: Buffer) -> None:
        """whole: the buffer with the guards around it; the buffer itself without any."""

    def notice_queue(self, device: "Device", queue: Queue) -> None: ...


_observer: DeviceObserver | None = None


@contextmanager
def observed_by(observer: DeviceObserver | None) -> Iterator[None]:
    """Report to `observer`, if any, what devices hand out in this block, buffers and queues, and what they compile."""
    global _observer
    before, _observer = _observer, observer
    try:
        yield
    finally:
        _observer = before


def _reporting_buffer(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `empty` of a backend's device so that an observer learns of each buffer, and has its guards around it."""

    @wraps(method)
    def reporting(device: "Device", nbytes: int) -> Any:
        if _observer is None:
            return method(device, nbytes)
        guard = _observer.guard_bytes
        whole = made = method(device, nbytes + 2 * guard)
        if guard and not hasattr(made, "memory"):  # a backend whose memory has no parts has no guards
            whole = made = method(device, nbytes)
        elif guard:
            whole, made.memory, made.nbytes = copy(made), _part(made.memory, guard, nbytes), nbytes
        _observer.notice_buffer(device, made, whole)
        return made

    return reporting


def _part(memory: Any, start: int, nbytes: int) -> Any:
    """Return so many bytes of a backend's memory from `start` on: of OpenCL a sub-buffer, else a slice of an array."""
    return memory.get_sub_region(start, nbytes) if hasattr(memory, "get_sub_region") else memory[start : start + nbytes]


def _reporting_queue(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `queue` of a backend's device so that an observer learns of each queue."""

    @wraps(method)
    def reporting(device: "Device", *args: Any, **options: Any) -> Any:
        made = method(device, *args, **options)
        if _observer is not None:
            _observer.notice_queue(device, made)
        return made

    return reporting


def _reporting_build(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `build` of a backend's device so that an observer learns what is compiled, and with which options."""

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
    """What `open_device` takes to open it again, such as `opencl:0`."""
    compute_units: int
    cores: int | None = None
    """Those that compute in fp32 at once, each a lane of a multiprocessor; None where the driver does not tell."""
    memory_bytes: int
    cache_bytes: int
    local_bytes: int
    max_work_group: int
    max_clock_mhz: int
    pci_bus_id: str | None = None
    """Of an NVIDIA GPU, by which NVML finds it: `domain:bus:device.function` in hexadecimal. None where no driver tells."""
    multiprocessor: "Multiprocessor | None" = None
    """What groups share on one compute unit, where the backend tells."""
    vector_floats: int = 1
    """How many fp32 numbers a register holds, as the driver reports it: of a CPU 16 with AVX-512 and 8 with AVX2."""
    alike: int = 1
    """How many devices `several` can give: those of its model, or the cores of a CPU that can be divided."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Let `observed_by` see what this backend's `empty` and `queue` return, and what its `build` is given."""
        super().__init_subclass__(**options)
        wraps_by_name = {"empty": _reporting_buffer, "queue": _reporting_queue, "build": _reporting_build}
        for name, wrap in wraps_by_name.items():
            if name in vars(cls):
                setattr(cls, name, wrap(vars(cls)[name]))

    @property
    def warning(self) -> str:
        """What a reader of this device's times must know, such as a compiler that does not fit it; '' for nothing."""
        return ""

    @property
    def programs_built(self) -> int:
        """How many programs it has compiled. One that is asked for again counts once."""
        return 0

    @property
    def slug(self) -> str:
        """The model as a folder name: `NVIDIA H200` -> `nvidia-h200`."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")

    @abstractmethod
    def identity(self) -> dict[str, str]:
        """Model, driver and runtime: what makes a measurement comparable with another."""

    @abstractmethod
    def build(self, text: str, options: Sequence[str] = ()) -> "Program":
        """Compile plain source of this backend's language. Raises BuildFailed."""

    @abstractmethod
    def empty(self, nbytes: int) -> Buffer:
        """Uninitialised memory. Raises OutOfMemory."""

    @abstractmethod
    def queue(self, profiling: bool = False) -> Queue:
        """A new in-order queue. On OpenCL, profiling makes `timed` possible and each launch a little slower."""

    def pinned(self, shape: Sequence[int], dtype: "np.dtype | type") -> "np.ndarray":
        """An array of the host that the device copies to and from by itself: page-locked. Raises OutOfMemory."""
        raise Unsupported("this backend has no pinned memory")

    def image(self, array: "np.ndarray") -> Buffer:
        """A two-dimensional image (rows, columns) of int16 for a kernel's READ_IMAGE.

        Raises Unsupported where the device has no images of this size.
        """
        raise Unsupported("this backend has no images")

    def several(self, count: int, cores: int | None = None, *, overlapping: bool = False) -> "list[Device]":
        """A set of so many devices of this model, the first of which it is, that reach each other's buffers by `Queue.fetch`.

        A CPU is divided into parts of `cores` cores; by default all of its cores are shared out. overlapping: parts may share
        cores where there are too few. Buffers, programs and queues of a set belong to the devices of that set alone. Raises
        Unsupported where there are fewer.
        """
        if count == 1 and cores in (None, self.compute_units):
            return [self]
        raise Unsupported(f"{count} devices: this backend has no sets of devices")

    @property
    def which(self) -> str:
        """Which of its model it is, as a row tells of a set."""
        return self.spec

    def reaches(self, other: "Device") -> bool:
        """Whether its kernels can write into memory of another device of its set."""
        return other is self

    def messages(self, devices: "Sequence[Device]", queues: Sequence[Queue]) -> Messages:
        """NCCL between the devices of a set, each with its queue. Raises Unsupported where there is none."""
        raise Unsupported("this backend has no NCCL")

    def release_persisting(self) -> None:
        """Let go of what the last cache was told to hold. Nothing to do where a device takes no such orders."""

    def traced(self, queues: Sequence[Queue], submit: Callable[[], None]) -> list[Span]:
        """Run `submit`, wait for all of `queues`, and tell what each did when: launches, `send` and `receive`."""
        raise Unsupported("this backend has no events")

    def upload(self, array: "np.ndarray") -> Buffer:
        """A new buffer with the array's bytes."""
        buffer = self.empty(array.nbytes)
        self.queue().write(buffer, array)
        return buffer


class Program(ABC):
    """A compiled text."""

    @abstractmethod
    def kernel(self, name: str) -> Kernel:
        """The kernel of that name. Errors: BuildFailed where the text has none."""

    def constant(self, name: str, nbytes: int) -> tuple[Buffer, tuple[Buffer, ...]]:
        """The program's CONSTANT_ARRAY: (what to write, the arguments with which every launch that reads it must end).

        On CUDA it is part of the program and no argument; on OpenCL it is a buffer like any other.
        """
        raise Unsupported("this backend has no constant memory")
