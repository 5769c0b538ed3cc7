"""A CUDA device on paper: plans build, allocate and launch on it as on a GPU, and NVRTC compiles the kernels.

Each launch is compared with the compiler's report of the kernel: number and kind of its arguments, registers, group.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from roofbook.devices import contract, nvrtc
from roofbook.devices.backends import CUDA
from roofbook.devices.contract import Unsupported
from roofbook.labs import peaks
from roofbook.labs.convpool.initialise import Initialisation
from roofbook.labs.convpool.whole_program import WholeProgram
from roofbook.labs.lbm import native, replay
from roofbook.paths import cache_key, cached
from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.spec.plan import SCALES, Case, Variant

from ..labs.sweep_points import variants
from .elf import sections

ARCHITECTURES = (80, 90)
BY_ARCHITECTURE = [pytest.param(80, marks=pytest.mark.thorough), 90]
"""The architectures as parameters of a test; the older one is thorough."""
LABS: dict[str, Lab] = {**{name: registry.get(name) for name in registry.names()}, "peaks": peaks.LAB}
SMALL = {"stencil": "6x2048"}
"""Lab -> a small case for variants that no quick case fits."""
KINDS = {"u64": contract.Buffer, "u32": np.int32, "s32": np.int32, "f32": np.float32, "f64": np.float64}
REGISTERS, THREADS = 65536, 1024  # of a block, on every architecture here


def skip_without_compiler() -> None:
    """Skip the test where NVRTC is not installed, with the reason."""
    try:
        nvrtc.compile_cuda('extern "C" __global__ void nothing() {}', 80)
    except Unsupported as reason:
        pytest.skip(str(reason))


class Report(NamedTuple):
    """The compiler's report of one kernel."""

    body: str
    parameters: list[str]
    registers: int
    spilled: int
    machine_code: bytes


class Built(NamedTuple):
    """Compiled text: the text, the compiler's options, its PTX, and its kernels by name."""

    text: str
    options: tuple[str, ...]
    ptx: str
    kernels: dict[str, Report]


@cache
def compiler() -> tuple[str, ...]:
    """Return NVRTC's version and our way of calling it, which decide the code together with text, architecture and options."""
    return metadata.version("nvidia-cuda-nvrtc"), *CUDA.flags, Path(nvrtc.__file__).read_text()


def compile_cached(text: str, architecture: int | str, options: tuple[str, ...]) -> nvrtc.Compiled:
    """Return a text as NVRTC compiles it, from the cache of this machine where an earlier run has compiled it."""

    def compile_now() -> bytes:
        done = nvrtc.compile_cuda(text, architecture, options)
        return json.dumps([done.ptx, done.log, done.cubin.hex()]).encode()

    try:
        key = cache_key(*compiler(), str(architecture), *options, text)
    except metadata.PackageNotFoundError:  # a CUDA toolkit's own, of a version that nothing tells
        return nvrtc.compile_cuda(text, architecture, options)
    ptx, log, cubin = json.loads(cached("nvrtc", key, compile_now))
    return nvrtc.Compiled(ptx, log, bytes.fromhex(cubin))


def machine_code(cubin: bytes) -> dict[str, bytes]:
    """Return kernel name -> its instructions. Equal bytes are equal code, whatever the names in the text."""
    code = ".text."
    return {name.removeprefix(code): held for name, held in sections(cubin) if name.startswith(code)}


@cache
def compiled(text: str, architecture: int | str, options: tuple[str, ...] = ()) -> Built:
    done = compile_cached(text, architecture, options)
    end = r"^}(?!\n\s*// end inline asm)"  # a brace of assembly in the text is not the kernel's
    bodies = {
        match[1]: (match[2], match[3])
        for match in re.finditer(rf"\.entry (\w+)\((.*?)\)(.*?){end}", done.ptx, re.DOTALL | re.MULTILINE)
    }
    kernels, codes = {}, machine_code(done.cubin)
    for name, report in re.findall(r"entry function '(\w+)'(.*?)(?=entry function|\Z)", done.log, re.DOTALL):
        parameters, body = bodies[name]
        spilled = sum(map(int, re.findall(r"(\d+) bytes spill", report)))
        registers = int(re.findall(r"Used (\d+) registers", report)[0])
        kinds = re.findall(r"\.param \.(\w+)", parameters)
        kernels[name] = Report(body, kinds, registers, spilled, codes[name])
    assert kernels.keys() == bodies.keys() and kernels
    return Built(text, options, done.ptx, kernels)


class Memory(contract.Buffer):
    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def release(self) -> None:
        """Do nothing: no memory is held."""


class Kernel(contract.Kernel):
    def __init__(self, name: str, report: Report) -> None:
        self.name, self.report, self.early = name, report, False

    def configure(self, *, cooperative: bool = False, dynamic_local_bytes: int = 0, early: bool = False) -> None:
        """Keep whether launches begin early. Only a device can tell whether all blocks fit at once."""
        assert dynamic_local_bytes <= 227 << 10
        self.early = early

    def resources(self) -> dict[str, int]:
        return {"registers": self.report.registers}


class Program(contract.Program):
    def __init__(self, built: Built) -> None:
        self.built = built

    def constant(self, name: str, nbytes: int) -> tuple[Memory, tuple[Memory, ...]]:
        assert re.search(rf"\.const \.align \d+ \.\w+ {name}\[{nbytes // 4}\]|{name}\[{nbytes}\]", self.built.ptx), name
        return Memory(nbytes), ()

    def kernel(self, name: str) -> Kernel:
        return Kernel(name, self.built.kernels[name])


class Graph(contract.Graph):
    def launch(self) -> None:
        """Do nothing: the launches were compared when they were recorded."""


class Queue(contract.Queue):
    """Queue that compares each launch with the compiler's report; a read gives zeros."""

    def __init__(self, device: Paper) -> None:
        self.device = device

    def launch(self, kernel: Any, global_size: Sequence[int], local_size: Sequence[int], *args: Any) -> None:
        assert [KINDS[kind] for kind in kernel.report.parameters] == [
            contract.Buffer if isinstance(arg, contract.Buffer) else type(arg) for arg in args
        ], kernel.name
        threads = int(np.prod(local_size))
        assert threads <= THREADS and threads * kernel.report.registers <= REGISTERS, kernel.name
        assert all(size % local == 0 for size, local in zip(global_size, local_size, strict=True)), kernel.name
        self.device.launched.append((kernel.name, tuple(global_size), tuple(local_size)))
        self.device.kernels[kernel.name, kernel.report.machine_code] = kernel.report

    def write(self, buffer: contract.Buffer, array: np.ndarray) -> None:
        assert array.nbytes <= buffer.nbytes

    def read(self, buffer: contract.Buffer, array: np.ndarray, offset: int = 0) -> np.ndarray:
        assert offset + array.nbytes <= buffer.nbytes
        array[...] = 0
        return array

    def copy(self, target: contract.Buffer, source: contract.Buffer) -> None:
        assert source.nbytes <= target.nbytes

    def record(self, submit: Callable[[], None]) -> Graph:
        submit()
        return Graph()

    def send(self, buffer: contract.Buffer, array: np.ndarray, offset: int = 0) -> None:
        assert array.flags.c_contiguous and offset + array.nbytes <= buffer.nbytes

    def receive(self, buffer: contract.Buffer, array: np.ndarray, offset: int = 0) -> None:
        assert array.flags.c_contiguous
        self.read(buffer, array, offset)

    def laps(self, *submits: Callable[[], None]) -> list[float]:
        for submit in submits:
            submit()
        return [1e-6] * len(submits)

    def finish(self) -> None:
        """Do nothing: no kernel runs."""

    def mark(self) -> int:
        return len(self.device.launched)

    def wait_for(self, *marks: int) -> None:
        assert marks and all(mark <= len(self.device.launched) for mark in marks)

    def fetch(self, target: contract.Buffer, source: contract.Buffer, offset: int = 0) -> None:
        assert offset >= 0 and offset + target.nbytes <= source.nbytes


class Messages(contract.Messages):
    def exchange(self, messages: Sequence[contract.Message]) -> None:
        for message in messages:
            assert message.offset >= 0 and message.offset + message.target.nbytes <= message.source.nbytes


class Paper(contract.Device):
    """A CUDA device on paper."""

    backend, kind, name, spec = "cuda", "gpu", "Paper", "cuda:0"
    compute_units, max_work_group, max_clock_mhz = 108, THREADS, 1000
    memory_bytes, cache_bytes, local_bytes = 1 << 36, 1 << 25, 48 << 10
    alike = 8

    def __init__(self, architecture: int) -> None:
        self.architecture = self.ptx = architecture
        self.built: list[Built] = []
        self.launched: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = []
        self.kernels: dict[tuple[str, bytes], Report] = {}

    def identity(self) -> dict[str, str]:
        return {"backend": "cuda", "model": self.name}

    def build(self, text: str, options: Sequence[str] = ()) -> Program:
        named = [option.removeprefix("-arch=sm_") for option in options if option.startswith("-arch=sm_")]
        remaining = tuple(option for option in options if not option.startswith("-arch="))
        built = compiled(text, named[0] if named else self.architecture, remaining)
        self.built.append(built)
        return Program(built)

    def empty(self, nbytes: int) -> Memory:
        return Memory(nbytes)

    def queue(self, profiling: bool = False) -> Queue:
        return Queue(self)

    def pinned(self, shape: Sequence[int], dtype: Any) -> np.ndarray:
        return np.empty(shape, dtype)

    def several(self, count: int, cores: int | None = None, *, overlapping: bool = False) -> list[contract.Device]:
        """Return this device for each of a set, so that all launches are compared."""
        return [self] * count

    def reaches(self, peer: contract.Device) -> bool:
        return True

    def messages(self, devices: Sequence[contract.Device], queues: Sequence[contract.Queue]) -> Messages:
        assert len(devices) == len(queues)
        return Messages()

    def image(self, array: np.ndarray) -> Memory:
        assert array.ndim in (1, 2) and array.dtype == np.int16
        return Memory(array.nbytes)

    def traced(self, queues: Sequence[contract.Queue], submit: Callable[[], None]) -> list[contract.Span]:
        submit()
        spans = [contract.Span(0, name, 0.0, 1.0) for name in ("to device", "kernel", "to host")]
        return spans * len(queues)


class Recorder:
    """The host in C on paper: it submits the recorded launches itself, with 0 for the number of the step."""

    def __init__(self, device: Paper, queue: Queue) -> None:
        self.queue = queue
        self.steps: list[list[tuple[Any, ...]]] = []

    def record(self, submit: Callable[[], object]) -> None:
        self.steps.append([])
        submit()

    def launch(self, *launch: Any) -> None:
        self.steps[-1].append(tuple(np.int32(0) if argument is replay.STEP else argument for argument in launch))

    def read(self, buffer: Memory, array: np.ndarray) -> np.ndarray:
        return array

    def finish(self) -> None: ...

    def add_up(self, sums: np.ndarray, counts: np.ndarray | None) -> None: ...

    def replay(self, first: int, steps: int, fluid_cells: int = 1) -> np.ndarray:
        for step in range(steps):
            for launch in self.steps[(first + step) % len(self.steps)]:
                self.queue.launch(*launch)
        return np.ones(steps)


def cuda_variants() -> Iterator[Any]:
    """Return every step that CUDA runs, and the points that stand for each sweep."""
    for name, lab in LABS.items():
        for variant in variants(lab):
            if "cuda" in variant.backends and variant.source and variant.plan not in (Initialisation, WholeProgram):
                yield pytest.param(lab, variant, id=f"{name}-{variant.name}")


def common(lab: Lab, *variants: Variant) -> list[Case]:
    """Return the cases that all these variants are for, the quick ones first: their sizes are nearer to a figure's."""
    cases = [
        *lab.cases("quick"),
        *lab.cases("test"),
        *([lab.case(SMALL[lab.name])] if lab.name in SMALL else []),
        *(case for scale in SCALES if scale not in ("quick", "test", "large") for case in lab.cases(scale)),
    ]
    return [case for case in cases if not any(lab.skip_reason(v, case) for v in variants)]


@lru_cache(8)
def of_case(lab: str, name: str, scale: str) -> tuple[Case, Any]:
    """Return a case with 8 units at most, and its inputs, to which nothing on paper writes."""
    case = LABS[lab].case(name, scale)
    few = replace(case, units=min(case.units, 8))
    return few, LABS[lab].inputs(few, seed=1)


_watched = [False]


def _refuse_files(event: str, arguments: tuple[Any, ...]) -> None:
    """Raise if a file is opened while `no_file_opened` is in effect."""
    if _watched[0] and event == "open":
        raise AssertionError(f"opens {arguments[0]} while it is timed: read it when the plan is made")


sys.addaudithook(_refuse_files)


@contextmanager
def no_file_opened() -> Iterator[None]:
    """Raise where Python opens a file: a run is timed, and what its launches need is read before."""
    _watched[0] = True
    try:
        yield
    finally:
        _watched[0] = False


def drive(
    lab: Lab, variant: Variant, architecture: int, monkeypatch: pytest.MonkeyPatch, case: Case | None = None
) -> Paper:
    """Let the variant's plan build and launch on paper, for 8 units: enough for a graph to be recorded.

    It runs on the first case that the plan takes. Raises Unsupported where there is none.
    """

    def c_host(queue: Queue, kernels: Any, size: Any, local: Any, arguments: Any, steps: int, step_arg: int) -> None:
        for kernel, values in zip(kernels, arguments, strict=True):
            assert type(values[step_arg]) is np.int32
            queue.launch(kernel, size, local, *values)

    monkeypatch.setattr(native, "loop_cuda", c_host)
    monkeypatch.setattr(replay, "Recorder", Recorder)
    reason = Unsupported(f"{variant.name} is for no case")
    for chosen in [case] if case else common(lab, variant):
        device = Paper(architecture)
        few, inputs = of_case(lab.name, chosen.name, chosen.scale)
        try:
            run = variant.plan(device, variant, few, inputs)
        except Unsupported as refused:
            reason = refused
            continue
        run.reset()
        with no_file_opened():
            run.run()
        assert run.outputs() and isinstance(run.facts(), dict)
        run.close()
        return device
    raise reason
