"""The report's steps from a host in C (replay.c), for claims on small grids, where a loop in Python takes most of the time.

A plan's commands of an even and an odd step are recorded once, in Python; C repeats them. Serves lattice.py, which sweeps over
the steps, over shapes of work-groups and over numbers of arguments.
"""

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from ...devices.contract import Device, DriverFailed, Queue
from ...peers import cc, compilers
from ...spec.plan import Case, Plan, Variant
from . import plans
from .grid import cells
from .native import _address, _loaded
from .native import _slot as slot_of

SOURCES = (Path(__file__).with_name("replay.c"),)
LARGEST = 1 << 17
"""Cells of the largest grid: on larger ones a launch takes less time than its kernel, whichever language the host is in."""
LAUNCH, READ, WAIT, ADD_UP = range(4)
STEP = object()
"""Argument of a recorded launch in whose place C passes the number of the step."""

_pointer, _size, _int = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
CALLS = {
    "opencl": ("clSetKernelArg", "clEnqueueNDRangeKernel", "clEnqueueReadBuffer", "clFinish", None, None),
    "cuda": (None, None, None, "cuStreamSynchronize", "cuLaunchKernel", "cuMemcpyDtoHAsync_v2"),
}
"""Functions of `struct driver` in its order, by backend."""


class Command(ctypes.Structure):
    """One `struct command` of replay.c."""

    _fields_ = (
        ("kind", _int), ("kernel", _pointer), ("arguments", _int), ("dimensions", _int), ("bytes", _pointer),
        ("values", _pointer), ("global_size", _size * 3), ("local_size", _size * 3), ("buffer", _pointer), ("to", _pointer),
        ("count", _size), ("cells", _pointer),
    )  # fmt: skip


class Driver(ctypes.Structure):
    """The `struct driver` of replay.c."""

    _fields_ = (("is_cuda", _int), ("queue", _pointer), *((f"call_{number}", _pointer) for number in range(6)))


@cache
def library() -> ctypes.CDLL:
    """Return the compiled replay.c. Raises cc.NoCompiler or cc.BuildFailed."""
    host = cc.build(SOURCES[0], ("-O2",))
    host.replay.argtypes = [_pointer] * 3 + [_int, _pointer, ctypes.c_double, _pointer]
    return host


class Recorder:
    """A queue that records commands for C in place of submitting them. Commands of two steps, even and odd, are replayed."""

    def __init__(self, device: Device, queue: Queue) -> None:
        self.is_cuda = device.backend == "cuda"
        self.driver = Driver(self.is_cuda, queue.stream.ptr if self.is_cuda else queue.queue.int_ptr)  # type: ignore[attr-defined]
        found = _loaded("libcuda" if self.is_cuda else "libOpenCL")
        for number, name in enumerate(CALLS[device.backend]):
            setattr(self.driver, f"call_{number}", _address(found, name) if name else None)
        self.step = _int(0)
        self.steps: list[list[Command]] = []
        self.alive: list[Any] = []
        """Memory that the commands point to."""
        library()

    def record(self, submit: Callable[[], object]) -> None:
        """Record the commands of one more step."""
        self.steps.append([])
        submit()

    def launch(self, kernel: Any, global_size: Sequence[int], local_size: Sequence[int], *args: Any) -> None:
        slots = [self.step if arg is STEP else self._slot(arg) for arg in args]
        values = (_pointer * len(slots))(*map(ctypes.addressof, slots))
        sizes = (_size * len(slots))(*map(ctypes.sizeof, slots))
        self.alive += [slots, values, sizes, kernel]
        if self.is_cuda:
            global_size = [n // group for n, group in zip(global_size, local_size, strict=True)]
        padded = [(_size * 3)(*size, *[1] * (3 - len(size))) for size in (global_size, local_size)]
        handle = kernel.function.ptr if self.is_cuda else kernel.kernel.int_ptr
        pointers = (ctypes.cast(array, _pointer) for array in (sizes, values))
        self._add(Command(LAUNCH, handle, len(slots), len(local_size), *pointers, *padded))

    def read(self, buffer: Any, array: np.ndarray) -> np.ndarray:
        source = self._slot(buffer).value
        self._add(Command(READ, buffer=source, to=array.ctypes.data, count=array.nbytes))
        return array

    def finish(self) -> None:
        self._add(Command(WAIT))

    def add_up(self, sums: np.ndarray, counts: np.ndarray | None) -> None:
        """Record the mean speed of a step, from its partial sums and, if the step counts cells, their number."""
        self._add(
            Command(ADD_UP, to=sums.ctypes.data, count=sums.size, cells=None if counts is None else counts.ctypes.data)
        )

    def _add(self, command: Command) -> None:
        self.steps[-1].append(command)

    def _slot(self, argument: Any) -> Any:
        """Return the C value of an argument: OpenCL's handle of a buffer, CUDA's address, or the bytes of a number."""
        memory = getattr(argument, "memory", argument)
        return _pointer(memory.int_ptr) if hasattr(memory, "int_ptr") else slot_of(memory)

    def replay(self, first: int, steps: int, fluid_cells: int = 1) -> np.ndarray:
        """Repeat the recorded steps in turn, from the one of number `first` on. Return the mean speed of each, NaN without one.

        Raises DriverFailed with the driver's error code.
        """
        order = [self.steps[(first + step) % len(self.steps)] for step in range(2)]
        arrays = [(Command * len(commands))(*commands) for commands in order]
        speeds = np.full(steps, np.nan)
        error = library().replay(
            ctypes.addressof(self.driver), (_pointer * 2)(*map(ctypes.addressof, arrays)),
            (_int * 2)(*map(len, arrays)), steps, ctypes.addressof(self.step), fluid_cells, speeds.ctypes.data,
        )  # fmt: skip
        if error:
            raise DriverFailed(f"the C host's loop stopped with error {error}")
        return speeds


class FromC(plans.Simulation):
    """Base of a plan whose loop over steps is in C. The plan that it repeats follows it."""

    sources = SOURCES

    missing = staticmethod(cc.missing)

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        if cells(case) > LARGEST:
            return "not on this case: on so large a grid a loop in Python takes no time beside the kernels"
        return super().refusal(case, variant)

    @staticmethod
    def compilers(variant: Variant) -> dict[str, str]:
        return compilers.c_compiler()


class ReadFromC(FromC, plans.ReadEachStep):
    """Steps whose partial sums the host reads and adds up, from C."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.recorder = Recorder(device, self.queue)
        queue, self.queue = self.queue, self.recorder  # type: ignore[assignment]
        self.finish = self.recorder.finish if variant.options.get("finish") else self.finish
        for _ in range(2):
            self.recorder.record(self.step_with_sum)
        self.queue = queue

    def step_with_sum(self) -> None:
        """Submit a step, the reads of its partial sums, and their sum."""
        self.step()
        self.queue.read(self.sums, self.host_sums)
        if self.counting:
            self.queue.read(self.counts, self.host_counts)
        self.recorder.add_up(self.host_sums, self.host_counts if self.counting else None)

    def run(self) -> None:
        self.av_vels[:] = self.recorder.replay(self.now, self.units, self.fluid_cells)
        self.now = self.after(self.units)

    def after(self, steps: int) -> int:
        """Return the number of the grid with the state after so many steps."""
        return (self.now + steps) % 2


class SeparateFromC(ReadFromC, plans.SeparateKernels):
    """Five kernels a step, from C: each step leaves its state where it began."""

    def after(self, steps: int) -> int:
        return self.now


class FusedFromC(ReadFromC, plans.Fused):
    """One kernel a step after accelerate_flow, from C."""


class KeptFromC(FromC, plans.KeptPartials):
    """Steps whose partial sums stay on the device, from C."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.recorder = Recorder(device, self.queue)
        queue, self.queue = self.queue, self.recorder  # type: ignore[assignment]
        for step in range(2):
            self.recorder.record(partial(self.submit_step, step))
        self.queue = queue

    def submit_step(self, step: int) -> None:
        """Submit a step that is not the last, with C's number of it."""
        if self.separate:
            self.launch_accelerate(step)
        self.queue.launch(self.kernels[step], self.size, self.local, *self.arguments(step, (STEP,), last=False))

    def submit(self) -> None:
        if not self.separate:
            self.launch_accelerate(0)
        for first in range(0, self.units, self.chunk):
            steps = min(self.chunk, self.units - first)
            is_end = first + steps == self.units and not self.separate
            self.recorder.replay(self.now + first, steps - is_end)
            if is_end:  # the last step accelerates no further one
                self.launch_step(self.units - 1, (np.int32(steps - 1),))
            self.add_up(first, steps)


class CellSpeedsFromC(KeptFromC, plans.CellSpeeds):
    """Steps that keep the speed of each cell, from C."""


class QueueFromC(plans.QueueOnly):
    """An empty kernel with many arguments, queued many times from C: the time of the driver's calls alone."""

    sources = SOURCES

    missing = staticmethod(cc.missing)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.recorder = Recorder(device, self.queue)
        self.recorder.record(lambda: self.recorder.launch(self.kernel, (1,), (1,), self.out, *self.arguments))

    @staticmethod
    def compilers(variant: Variant) -> dict[str, str]:
        return compilers.c_compiler()

    def run(self) -> float:
        start = time.perf_counter()
        self.recorder.replay(0, self.units)
        seconds = time.perf_counter() - start
        self.queue.finish()
        return seconds


PLANS: Mapping[type[Plan], type[Plan]] = {
    plans.SeparateKernels: SeparateFromC,
    plans.Fused: FusedFromC,
    plans.KeptPartials: KeptFromC,
    plans.CellSpeeds: CellSpeedsFromC,
}
"""Plan with its loop in Python -> the same with its loop in C."""


def from_c(variant: Variant, point: str, c_host: Variant) -> Variant:
    """Return a point of the sweep `step` of a host in C: a step of the ladder with its loop in C.

    c_host: the ladder's own step in C, by which the points are named.
    """
    there = replace(c_host, source=variant.source, plan=PLANS[variant.plan], options=variant.options)
    return replace(there.at("step", point), parent=variant.name, differs=("plan",))
