"""The PyOpenCL backend: any OpenCL device, and the CPU of every machine through PoCL."""

import errno
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..ctrl_c import ctrl_c_waits
from ..errors import UsageError
from ..paths import cache_dir, cache_key
from . import contract, driver_caches, intel, pocl_cpu, pocl_probe, settings
from .backends import OPENCL
from .contract import BuildFailed, OutOfMemory, Span, Unsupported
from .host import processors_of_this_process, quiet
from .library_folder import not_executable
from .occupancy import CORES

LEAST_LEFT = 1 << 20
"""Bytes that the file system of a cache must have left: on a full one PoCL ends the process."""
WEIGHED = 64 << 20
"""Bytes from which on a CPU's buffer is compared with the host's free memory. A system that grants more than it has ends a
process that uses it."""


class Buffer(contract.Buffer):
    def __init__(self, memory: Any, nbytes: int) -> None:
        self.memory, self.nbytes = memory, nbytes

    def release(self) -> None:
        self.memory.release()


class Kernel(contract.Kernel):
    def __init__(self, kernel: Any, device: Any, log: Callable[[], str] = str) -> None:
        """log: returns the messages of the compiler about its program."""
        self.kernel, self.device, self.name = kernel, device, kernel.function_name
        self.typed, self._log = False, log

    def resources(self) -> dict[str, int]:
        import pyopencl as cl

        info, ask = cl.kernel_work_group_info, self.kernel.get_work_group_info
        return {
            "local_bytes": ask(info.LOCAL_MEM_SIZE, self.device),
            "private_bytes": ask(info.PRIVATE_MEM_SIZE, self.device),
            "work_group_limit": ask(info.WORK_GROUP_SIZE, self.device),
            **({} if (registers := registers_in(self._log(), self.name)) is None else {"registers": registers}),
        }


def registers_in(log: str, kernel: str) -> int | None:
    """Return the registers of a kernel by the log of NVIDIA's compiler; None for a log that does not tell."""
    words = r"entry function '(\w+)'(?:(?!entry function).)*?Used (\d+) registers"
    registers = dict(re.findall(words, log, re.S)).get(kernel)
    return None if registers is None else int(registers)


class Program(contract.Program):
    def __init__(self, program: Any, device: Any) -> None:
        self.program, self.device = program, device

    def log(self) -> str:
        import pyopencl as cl

        return str(self.program.get_build_info(self.device, cl.program_build_info.LOG)).strip()

    def kernel(self, name: str) -> Kernel:
        import pyopencl as cl

        try:
            return Kernel(cl.Kernel(self.program, name), self.device, self.log)
        except cl.LogicError as error:
            if error.code != cl.status_code.INVALID_KERNEL_NAME:
                raise
            raise BuildFailed(f"no kernel in it is named {name}") from None

    def constant(self, name: str, nbytes: int) -> tuple[Buffer, tuple[Buffer, ...]]:
        import pyopencl as cl

        if nbytes > self.device.max_constant_buffer_size:
            most = self.device.max_constant_buffer_size
            raise Unsupported(f"{nbytes} bytes of constant memory: {most} at most")
        buffer = Buffer(cl.Buffer(self.program.context, cl.mem_flags.READ_ONLY, nbytes), nbytes)
        return buffer, (buffer,)


def _said_of_launch(kernel: Any, error: Any) -> str:
    """Return which kernel was not launched, and OpenCL's word for why: 'soa was not launched, INVALID_WORK_GROUP_SIZE'."""
    import pyopencl as cl

    words = {code: name for name, code in vars(cl.status_code).items() if isinstance(code, int)}
    return f"{kernel.function_name} was not launched, {words.get(error.code, f'error {error.code}')}"


def _declared_group(kernel: Any, device: Any) -> str:
    """Return the group that a kernel's text asks for, in words; '' where it asks for none."""
    import pyopencl as cl

    group = kernel.get_work_group_info(cl.kernel_work_group_info.COMPILE_WORK_GROUP_SIZE, device)
    return f", and the kernel is declared for groups of {' x '.join(map(str, group))}" if any(group) else ""


def _sizes(global_size: Sequence[int], local_size: Sequence[int]) -> str:
    """Return the sizes of a launch in words, and where the groups do not divide the range."""
    group, items = (" x ".join(map(str, size)) for size in (local_size, global_size))
    uneven = len(global_size) != len(local_size) or any(
        not part or size % part for size, part in zip(global_size, local_size, strict=False)
    )
    return f"groups of {group} in a range of {items}" + ", which they do not divide" * uneven


class Queue(contract.Queue):
    def __init__(self, context: Any, device: Any, profiling: bool) -> None:
        import pyopencl as cl

        self._cl = cl
        self.events: list[tuple[str, Any]] | None = None
        """While timed or traced: each submitted action, with its event."""
        self.queue = (
            cl.CommandQueue(context, device, properties=cl.command_queue_properties.PROFILING_ENABLE)
            if profiling
            else cl.CommandQueue(context, device)
        )

    def launch(self, kernel: Any, global_size: Sequence[int], local_size: Sequence[int], *args: Any) -> None:
        if not kernel.typed:  # PyOpenCL then packs all scalars in one call: 70 times faster than one by one
            if (takes := kernel.kernel.num_args) != len(args):
                raise RuntimeError(
                    f"{kernel.name} was not launched: it takes {takes} arguments, and {len(args)} are given"
                )
            kernel.kernel.set_scalar_arg_dtypes([None if isinstance(arg, Buffer) else arg.dtype for arg in args])
            kernel.typed = True
        kernel.kernel.set_args(*[arg.memory if isinstance(arg, Buffer) else arg for arg in args])
        sizes = tuple(global_size), tuple(local_size)
        try:
            event = self._cl.enqueue_nd_range_kernel(self.queue, kernel.kernel, *sizes)
        except self._cl.LogicError as error:
            message = (
                _said_of_launch(kernel.kernel, error),
                _sizes(*sizes) + _declared_group(kernel.kernel, kernel.device),
            )
            raise RuntimeError(": ".join(message)) from None
        self._note("kernel", event)

    def _note(self, action: str, event: Any) -> None:
        if self.events is not None:
            self.events.append((action, event))

    def write(self, buffer: Any, array: np.ndarray) -> None:
        self._cl.enqueue_copy(self.queue, buffer.memory, np.ascontiguousarray(array), is_blocking=True)

    def read(self, buffer: Any, array: np.ndarray, offset: int = 0) -> np.ndarray:
        self._cl.enqueue_copy(self.queue, array, buffer.memory, src_offset=offset, is_blocking=True)
        return array

    def copy(self, target: Any, source: Any) -> None:
        self._cl.enqueue_copy(self.queue, target.memory, source.memory, byte_count=source.nbytes)

    def fill(self, buffer: Any, byte: int) -> None:
        self._cl.enqueue_fill_buffer(self.queue, buffer.memory, bytes([byte]), 0, buffer.nbytes)
        self.finish()

    def send(self, buffer: Any, array: np.ndarray, offset: int = 0) -> None:
        copy = self._cl.enqueue_copy(self.queue, buffer.memory, array, dst_offset=offset, is_blocking=False)
        self._note("to device", copy)

    def receive(self, buffer: Any, array: np.ndarray, offset: int = 0) -> None:
        copy = self._cl.enqueue_copy(self.queue, array, buffer.memory, src_offset=offset, is_blocking=False)
        self._note("to host", copy)

    def laps(self, *submits: Callable[[], None]) -> list[float]:
        counts, self.events = [], []
        noted = self.events
        try:
            for submit in submits:
                submit()
                counts.append(len(noted))
        finally:
            self.events = None
        self.finish()
        times = [noted[0][1].profile.start, *(noted[count - 1][1].profile.end for count in counts)]
        return [(end - start) * 1e-9 for start, end in pairwise(times)]

    def finish(self) -> None:
        self.queue.finish()

    def flush(self) -> None:
        self.queue.flush()

    def mark(self) -> Any:
        event = self._cl.enqueue_marker(self.queue)
        self.queue.flush()  # else a queue that waits for it may wait for ever
        return event

    def wait_for(self, *marks: Any) -> None:
        self._cl.enqueue_barrier(self.queue, wait_for=list(marks))

    def fetch(self, target: Any, source: Any, offset: int = 0) -> None:
        self._cl.enqueue_copy(self.queue, target.memory, source.memory, src_offset=offset, byte_count=target.nbytes)


class OpenCLDevice(contract.Device):
    """An OpenCL device. Its context is made when first needed."""

    backend = OPENCL.name

    def __init__(self, device: Any, index: int) -> None:
        import pyopencl as cl

        self.device = device
        self.spec = f"opencl:{index}"
        self.kind = "cpu" if device.type & cl.device_type.CPU else "gpu"
        self.compute_units = device.max_compute_units
        self.name = _cpu_name(self.compute_units) if self.kind == "cpu" else device.name.strip()
        self.platform_name = str(device.platform.name)
        if _beside_pocl(device):  # its measurements are not PoCL's
            self.name += f", {re.sub(r'[(](R|TM)[)]', '', self.platform_name).strip()}"
        self.memory_bytes = device.global_mem_size
        self.cache_bytes = device.global_mem_cache_size
        self.local_bytes = device.local_mem_size
        self.max_work_group = device.max_work_group_size
        self.max_clock_mhz = device.max_clock_frequency
        self.cores = self.compute_units if self.kind == "cpu" else None
        if "nvidia" in device.vendor.lower():
            self.pci_bus_id = _pci_bus_id(device)
            self.verbose = ("-cl-nv-verbose",)
            capability = device.compute_capability_major_nv, device.compute_capability_minor_nv
            self.ptx = 10 * capability[0] + capability[1]
            lanes = CORES.get(capability)
            self.cores = lanes * self.compute_units if lanes else None
        self._index = index
        self._context: Any = None
        self._programs: dict[tuple[str, ...], Program] = {}
        self._sets: dict[tuple[int, int | None, bool], list[contract.Device]] = {}

    @property
    def context(self) -> Any:
        import pyopencl as cl

        if self._context is None:
            pocl = "pocl" in self.device.version.lower()
            if reason := pyopencl_refused() or (pocl_refused() if pocl else ""):
                raise UsageError(reason)
            if self.compiles_for and self.compiles_for.refusal:
                raise UsageError(self.compiles_for.refusal)
            mend_caches()
            self._name_cpu()
            self._context = cl.Context([self.device])
        return self._context

    def identity(self) -> dict[str, str]:
        platform = self.device.platform
        bound = self.kind == "cpu" and platform.name == POCL and os.environ.get(AFFINITY) == "1"
        return {
            "backend": self.backend,
            "model": self.name,
            "device": self.device.name.strip(),
            "platform": f"{platform.name} {platform.version}",
            "driver": self.device.driver_version,
            **({"threads": "each bound to a processor"} if bound else {}),
            **({"compiled for": cpu.identity} if (cpu := self.compiles_for) and cpu.identity else {}),
        }

    @cached_property
    def compiles_for(self) -> pocl_cpu.CpuChoice | None:
        """The CPU that PoCL compiles for; None where this device is not PoCL's CPU."""
        is_pocls = self.kind == "cpu" and "pocl" in self.device.version.lower()
        return pocl_cpu.choice(self.device) if is_pocls else None

    def lacks_instructions(self, feature: str) -> str:
        chosen = self.compiles_for
        return (
            pocl_cpu.lacks_instructions(feature, chosen, self.device) if chosen else super().lacks_instructions(feature)
        )

    def _cpu_option(self) -> list[str]:
        """Return a macro that no kernel uses: PoCL's cache knows code by its options, and not by the CPU that we name."""
        chosen = self.compiles_for
        renamed = chosen and chosen.name and chosen.name != chosen.default
        return ["-D", "ROOFBOOK_FOR_" + re.sub(r"\W", "_", chosen.name)] if chosen and renamed else []

    def _name_cpu(self) -> None:
        """Let PoCL compile for the CPU that was chosen."""
        if self.compiles_for and self.compiles_for.name:
            pocl_probe.rename(self.device, self.compiles_for.name)

    @property
    def warning(self) -> str:
        return self.compiles_for.warning if self.compiles_for else ""

    @property
    def programs_built(self) -> int:
        return len(self._programs)

    def build(self, text: str, options: Sequence[str] = ()) -> Program:
        import pyopencl as cl

        if (text, *options) in self._programs:
            return self._programs[text, *options]
        with warnings.catch_warnings(), quiet():  # PoCL prints 'N warnings generated'
            warnings.simplefilter("ignore", cl.CompilerWarning)
            try:
                program = cl.Program(self.context, text).build(
                    options=[*options, *self._cpu_option()], devices=[self.device]
                )
            except cl.RuntimeError as error:
                raise BuildFailed(_first_error(str(error)) + _added_options()) from error
        return self._programs.setdefault((text, *options), Program(program, self.device))

    def empty(self, nbytes: int) -> Buffer:
        import pyopencl as cl

        if nbytes > self.device.max_mem_alloc_size:
            raise OutOfMemory(f"{nbytes} bytes asked for, {self.device.max_mem_alloc_size} at most in one buffer")
        if self.kind == "cpu" and nbytes >= WEIGHED:
            import psutil

            if nbytes > (left := psutil.virtual_memory().available):
                raise OutOfMemory(f"{nbytes} bytes asked for, the host has {left} left")
        try:
            return Buffer(cl.Buffer(self.context, cl.mem_flags.READ_WRITE, nbytes), nbytes)
        except cl.Error as error:
            raise OutOfMemory(f"{nbytes} bytes asked for: {error}") from error

    def queue(self, profiling: bool = False) -> Queue:
        return Queue(self.context, self.device, profiling)

    def pinned(self, shape: Sequence[int], dtype: Any) -> np.ndarray:
        import pyopencl as cl

        count, kind = int(np.prod(shape)), np.dtype(dtype)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
        try:
            memory = cl.Buffer(self.context, flags, count * kind.itemsize)
            queue = cl.CommandQueue(self.context, self.device)
            access = cast(cl.map_flags, cl.map_flags.READ | cl.map_flags.WRITE)
            array, _ = cl.enqueue_map_buffer(queue, memory, access, 0, tuple(shape), kind)
        except cl.Error as error:
            raise OutOfMemory(f"{count * kind.itemsize} bytes of pinned memory asked for: {error}") from error
        return cast(np.ndarray, array)

    def image(self, array: np.ndarray) -> Buffer:
        import pyopencl as cl

        kind, values = cl.ImageFormat(cl.channel_order.R, cl.channel_type.SIGNED_INT16), np.ascontiguousarray(array)
        flags = cast(cl.mem_flags, cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR)
        if array.ndim == 1:
            longest = self.device.image_max_buffer_size if self.device.image_support else 0
            if array.size > longest:
                raise Unsupported(f"a line of {array.size} values: {longest} at most")
            buffer = cl.Buffer(self.context, flags, hostbuf=values)  # the image holds it
            image = cl.create_image(self.context, cl.mem_flags.READ_ONLY, kind, shape=array.shape, buffer=buffer)
            return Buffer(image, values.nbytes)
        rows, columns = array.shape
        most = (self.device.image2d_max_height, self.device.image2d_max_width) if self.device.image_support else (0, 0)
        if rows > most[0] or columns > most[1]:
            raise Unsupported(f"an image of {rows} x {columns}: {most[0]} x {most[1]} at most")
        image = cl.create_image(self.context, flags, kind, shape=(columns, rows), hostbuf=values)
        return Buffer(image, values.nbytes)

    def several(self, count: int, cores: int | None = None, *, overlapping: bool = False) -> list[contract.Device]:
        """Return sub-devices of a CPU, or GPUs of one platform and name. A set has one context, and is made once."""
        if count == 1 and cores in (None, self.compute_units):
            return [self]
        request = count, cores, overlapping
        if request not in self._sets:
            cpu = self.kind == "cpu"
            self._sets[request] = self._in_one_context(self._parts(*request) if cpu else self._alike(count))
        return self._sets[request]

    @property
    def vector_floats(self) -> int:  # type: ignore[override]
        return int(self.device.native_vector_width_float)

    @property
    def alike(self) -> int:  # type: ignore[override]
        import pyopencl as cl

        if self.kind == "gpu":
            return len(_of_its_name(self.device))
        can = cl.device_partition_property.EQUALLY in self.device.partition_properties
        return int(self.compute_units) if can else 1

    def _parts(self, count: int, cores: int | None, overlapping: bool) -> list[Any]:
        """Sub-devices of equal size. Raises Unsupported where there are too few cores, or the platform has none."""
        import pyopencl as cl

        cores_each = cores or self.compute_units // count or int(overlapping)
        if (
            not cores_each
            or cores_each > self.compute_units
            or (cores_each * count > self.compute_units and not overlapping)
        ):
            raise Unsupported(f"{count} parts of {max(cores_each, 1)}: {self.name} has {self.compute_units}")
        parts: list[Any] = []
        while len(parts) < count:
            try:
                parts += self.device.create_sub_devices([cl.device_partition_property.EQUALLY, cores_each])
            except cl.Error as error:
                raise Unsupported(f"{self.platform_name} divides no device") from error
        return parts[:count]

    def _alike(self, count: int) -> list[Any]:
        """GPUs of its platform and name, itself the first. Raises Unsupported where there are fewer."""
        members = [self.device, *(peer for peer in _of_its_name(self.device) if peer != self.device)]
        if len(members) < count:
            raise Unsupported(f"{count} devices of this model: there {_are(len(members))}")
        return members[:count]

    def _in_one_context(self, handles: Sequence[Any]) -> list[contract.Device]:
        import pyopencl as cl

        assert self.context  # says what PoCL lacks, if anything
        members = [OpenCLDevice(handle, self._index) for handle in handles]
        for number, member in enumerate(members):
            member._name_cpu()
            if member.kind == "cpu":
                member.spec = f"{self.spec}/{number}"
        context = cl.Context(list(handles))
        for member in members:
            member._context = context
        return list(members)

    @property
    def which(self) -> str:
        place = f"PCI {self.pci_bus_id}" if self.pci_bus_id else f"{self.compute_units} compute units"
        return f"{self.spec}, {place}"

    def reaches(self, peer: contract.Device) -> bool:
        """Return whether the other device is a part of the same CPU. OpenCL lets no GPU write into another one's memory."""
        return peer is self or (self.kind == "cpu" and isinstance(peer, OpenCLDevice) and peer.context == self.context)

    def traced(self, queues: Sequence[Any], submit: Callable[[], None]) -> list[Span]:
        noted = contract.noted_events(queues, submit)
        times = [(number, action, event.profile.start, event.profile.end) for number, action, event in noted]
        first = min((start for _, _, start, _ in times), default=0)
        return [
            Span(number, action, (start - first) * 1e-9, (end - first) * 1e-9) for number, action, start, end in times
        ]


def _of_its_name(device: Any) -> list[Any]:
    """The devices of its platform that have its name, itself among them."""
    return [peer for peer in device.platform.get_devices() if peer.name == device.name]


def _are(count: int) -> str:
    return f"{'is' if count == 1 else 'are'} {count}"


def _beside_pocl(device: Any) -> bool:
    """Whether it is the CPU by another platform than POCL."""
    import pyopencl as cl

    return bool(device.type & cl.device_type.CPU) and device.platform.name != POCL


def _pci_bus_id(device: Any) -> str | None:
    """`Device.pci_bus_id` of an NVIDIA device by cl_nv_device_attribute_query; None where the driver does not tell.

    Drivers from before CUDA 10.2 do not tell the domain. It is not taken for 0: a card of another domain can be of that bus.
    """
    import pyopencl as cl

    try:
        domain, bus, slot = device.pci_domain_id_nv, device.pci_bus_id_nv, device.pci_slot_id_nv
    except (AttributeError, cl.Error):
        return None
    # No document says what a slot is. Two cards at 0000:00:06.0 and 0000:00:07.0 gave 6 and 7: the device. A GPU is function 0.
    return f"{domain:04X}:{bus & 0xFF:02X}:{slot & 0xFF:02X}.0"


def _added_options() -> str:
    """Return the options that the environment adds to those of a program, in words; '' for none."""
    added = os.environ.get("PYOPENCL_BUILD_OPTIONS", "")
    return f" (PYOPENCL_BUILD_OPTIONS adds {settings.published(added)!r} to its options)" if added else ""


def _first_error(log: str) -> str:
    """Return the compiler's first error, without the temporary file that it names, or the line after a linker's heading.

    log: as PyOpenCL raises it. Its first line, which says that the build failed, stands in where no other line says more.
    """
    lines = [re.sub(r"\S*tempfile\S*\.cl:", "line ", line).strip() for line in log.splitlines() if line.strip()]
    while_linking = (line for heading, line in pairwise(lines) if heading.startswith("Error(s) while linking"))
    compiling = (line for line in lines if "error:" in line)
    return next(compiling, None) or next(while_linking, lines[0] if lines else "no message")


SIMULATOR = "Oclgrind"
"""The platform that interprets kernels, to find their races: no device to measure, though its package adds it to all others."""


POCL = "Portable Computing Language"
"""The platform that every machine can have: of several for the CPU it is the first, and the one whose name needs no saying."""
AFFINITY = "POCL_AFFINITY"
"""PoCL's own setting, read when it starts its threads: `1` binds the n-th of them to processor n."""


@lru_cache
def devices() -> list[OpenCLDevice]:
    """Return all OpenCL devices but the SIMULATOR's, by platform; a CPU by another platform than POCL comes last."""
    return _listed(simulated=False)


def simulators() -> list[OpenCLDevice]:
    """Return the device of SIMULATOR; none if its driver is not loaded."""
    return _listed(simulated=True)


def _listed(*, simulated: bool) -> list[OpenCLDevice]:
    with ctrl_c_waits():
        import pyopencl as cl

    bind_pocl_threads()
    try:
        with intel.shown():
            platforms = [platform for platform in cl.get_platforms() if (platform.name == SIMULATOR) == simulated]
        present = sorted((device for platform in platforms for device in platform.get_devices()), key=_beside_pocl)
    except cl.Error:
        return []
    return [OpenCLDevice(device, index) for index, device in enumerate(present)]


def _cpu_name(cores: int) -> str:
    """Return the model of the CPU and its cores, since virtual machines of any size call it `Xeon`."""
    try:
        with open("/proc/cpuinfo") as file:
            model = next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        import platform

        model = platform.processor() or platform.machine()
    return f"{model}, {cores} core{'s' * (cores != 1)}"


def pocl_refused() -> str:
    """Return why PoCL cannot write its cache, without which it has no device or builds nothing; '' if it can."""
    name, folder = "POCL_CACHE_DIR", _folder_of_pocl()
    return _refused("PoCL", folder, name) or not_executable(folder, name)


def pyopencl_refused() -> str:
    """Return why PyOpenCL cannot write its cache, without which it calls no kernel; '' if it can."""
    return _refused("PyOpenCL", _folder_of_pyopencl(), "XDG_CACHE_HOME")


def _folder_of_pocl() -> Path:
    return Path(os.environ.get("POCL_CACHE_DIR") or cache_dir().with_name("pocl") / "kcache")


def _folder_of_pyopencl() -> Path:
    return cache_dir().with_name("pytools")


@lru_cache(maxsize=1)
def mend_caches() -> None:
    """Remove files of both caches that are not whole, once a process, before a driver reads any of them."""
    folder = _folder_of_pocl()
    stamp = cache_dir() / "checked" / cache_key(str(folder))[:16]
    driver_caches.remove_cut_kernels(folder, stamp)
    driver_caches.remove_cut_databases(_folder_of_pyopencl())


def _refused(whose: str, folder: Path, variable: str) -> str:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(1 << 12))
        state = os.statvfs(folder)
        if state.f_bavail * state.f_frsize < LEAST_LEFT:
            raise OSError(errno.ENOSPC, f"fewer than {LEAST_LEFT} bytes are left")
    except OSError as error:
        return f"{whose} cannot write into {folder}: {error.strerror}; {variable} names another folder for it"
    return ""


def bind_pocl_threads() -> None:
    """Have PoCL bind each of its threads to a processor, unless the user has set POCL_AFFINITY.

    PoCL sleeps between launches. The system often wakes two of its threads on one processor while another idles, and a launch
    is over before it moves one. `peers.threads` does the same for OpenMP's.

    PoCL does not look which processors a process may use: nothing is bound where those are not all, as in many containers.
    """
    if processors_of_this_process() == set(range(os.cpu_count() or 1)):
        os.environ.setdefault(AFFINITY, "1")
