"""Every CUDA kernel of the book through its compiler, with no GPU: it compiles, spills nothing, shows what it claims.

A device on paper takes the place of the GPU: plans build, allocate and launch on it as they would, and each launch is
compared with what the compiler says of the kernel: number and kind of its arguments, registers, size of the group.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
import pytest

from roofbook.devices import contract, nvrtc
from roofbook.devices.contract import BuildFailed, Unsupported
from roofbook.labs import peaks
from roofbook.labs.convpool.initialise import Initialisation
from roofbook.labs.lbm import native
from roofbook.spec import registry
from roofbook.spec.lab import Case, Lab, Variant

from ..labs.sampled import variants

ARCHITECTURES = (80, 90)
LABS: dict[str, Lab] = {**{name: registry.get(name) for name in registry.names()}, "peaks": peaks.LAB}
KINDS = {"u64": contract.Buffer, "u32": np.int32, "s32": np.int32, "f32": np.float32, "f64": np.float64}
REGISTERS, THREADS = 65536, 1024  # of a block, on every architecture here


@pytest.fixture(scope="module", autouse=True)
def compiler() -> None:
    try:
        nvrtc.compile_cuda('extern "C" __global__ void nothing() {}', 80)
    except Unsupported as reason:
        pytest.skip(str(reason))


class Report(NamedTuple):
    """What the compiler says of one kernel."""

    body: str
    parameters: list[str]
    registers: int
    spilled: int


class Built(NamedTuple):
    """A text, its PTX, and its kernels by name."""

    text: str
    ptx: str
    kernels: dict[str, Report]


@cache
def compiled(text: str, architecture: int | str) -> Built:
    done = nvrtc.compile_cuda(text, architecture)
    bodies = {
        found[1]: (found[2], found[3])
        for found in re.finditer(r"\.entry (\w+)\((.*?)\)(.*?)^}", done.ptx, re.DOTALL | re.MULTILINE)
    }
    kernels = {}
    for name, said in re.findall(r"entry function '(\w+)'(.*?)(?=entry function|\Z)", done.log, re.DOTALL):
        parameters, body = bodies[name]
        spilled = sum(map(int, re.findall(r"(\d+) bytes spill", said)))
        registers = int(re.findall(r"Used (\d+) registers", said)[0])
        kernels[name] = Report(body, re.findall(r"\.param \.(\w+)", parameters), registers, spilled)
    assert kernels.keys() == bodies.keys() and kernels
    return Built(text, done.ptx, kernels)


class Memory(contract.Buffer):
    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def release(self) -> None:
        """Nothing is held."""


class Kernel(contract.Kernel):
    def __init__(self, name: str, report: Report) -> None:
        self.name, self.report = name, report

    def configure(self, *, cooperative: bool = False, dynamic_local_bytes: int = 0) -> None:
        """Whether all blocks fit at once, only a device can tell."""
        assert dynamic_local_bytes <= 227 << 10

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
        """Its launches were looked at when they were recorded."""


class Queue(contract.Queue):
    """Looks at each launch; a read gives zeros."""

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
        """Nothing runs."""


class Paper(contract.Device):
    """A CUDA device on paper."""

    backend, kind, name, spec = "cuda", "gpu", "Paper", "cuda:0"
    compute_units, max_work_group, max_clock_mhz = 108, THREADS, 1000
    memory_bytes, cache_bytes, local_bytes = 1 << 36, 1 << 25, 48 << 10

    def __init__(self, architecture: int) -> None:
        self.architecture = architecture
        self.built: list[Built] = []
        self.launched: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = []

    def identity(self) -> dict[str, str]:
        return {"backend": "cuda", "model": self.name}

    def build(self, text: str, options: Sequence[str] = ()) -> Program:
        named = [option.removeprefix("-arch=sm_") for option in options if option.startswith("-arch=sm_")]
        built = compiled(text, named[0] if named else self.architecture)
        self.built.append(built)
        return Program(built)

    def empty(self, nbytes: int) -> Memory:
        return Memory(nbytes)

    def queue(self, profiling: bool = False) -> Queue:
        return Queue(self)

    def pinned(self, shape: Sequence[int], dtype: Any) -> np.ndarray:
        return np.empty(shape, dtype)

    def image(self, array: np.ndarray) -> Memory:
        assert array.ndim == 2 and array.dtype == np.int16
        return Memory(array.nbytes)

    def traced(self, queues: Sequence[contract.Queue], submit: Callable[[], None]) -> list[contract.Span]:
        submit()
        spans = [contract.Span(0, what, 0.0, 1.0) for what in ("to device", "kernel", "to host")]
        return spans * len(queues)


def cuda_variants() -> Iterator[Any]:
    """Every step; of a sweep in two directions the points that stand for it."""
    for name, lab in LABS.items():
        for variant in variants(lab):
            if "cuda" in variant.backends and variant.source and variant.plan is not Initialisation:
                yield pytest.param(lab, variant, id=f"{name}-{variant.name}")


def small(lab: Lab, variant: Variant) -> list[Case]:
    """The cases that the variant is for, the cheap ones first."""
    cases = [case for scale in ("test", "quick", "published") for case in lab.cases(scale)]
    found = [case for case in cases if not lab.skip_reason(variant, case)]
    return [case for case in found if case.scale != "published"] or found[:1]


def drive(
    lab: Lab, variant: Variant, architecture: int, monkeypatch: pytest.MonkeyPatch, case: Case | None = None
) -> Paper:
    """Let the variant's plan build and launch on paper, for 8 units: enough for a graph to be recorded.

    On the first case that the plan takes. Raises Unsupported where there is none.
    """

    def c_host(queue: Queue, kernels: Any, size: Any, local: Any, arguments: Any, steps: int, step_arg: int) -> None:
        for kernel, values in zip(kernels, arguments, strict=True):
            assert type(values[step_arg]) is np.int32
            queue.launch(kernel, size, local, *values)

    monkeypatch.setattr(native, "loop_cuda", c_host)
    reason = Unsupported(f"{variant.name} is for no small case")
    for chosen in [case] if case else small(lab, variant):
        device = Paper(architecture)
        chosen = Case(chosen.name, chosen.scale, chosen.params, min(chosen.units, 8))
        try:
            run = variant.plan(device, variant, chosen, lab.inputs(chosen, seed=1))
        except Unsupported as refused:
            reason = refused
            continue
        run.reset()
        run.run()
        assert run.outputs() and isinstance(run.facts(), dict)
        run.close()
        return device
    raise reason


def each_for_its_architectures() -> Iterator[Any]:
    """Every step for all; of a sweep, where text differs from text by a number, points by turns for one."""
    swept = cycle(ARCHITECTURES)
    for lab, variant in (each.values for each in cuda_variants()):
        for architecture in [next(swept)] if variant.role == "sweep" else ARCHITECTURES:
            yield pytest.param(lab, variant, architecture, id=f"{lab.name}-{variant.name}-{architecture}")


@pytest.mark.parametrize(("lab", "variant", "architecture"), list(each_for_its_architectures()))
def test_compiles_spills_nothing_and_is_launched_with_its_own_arguments(
    lab: Lab, variant: Variant, architecture: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if architecture not in variant.architectures:
        pytest.skip(f"needs sm_{variant.architectures.start}")
    try:
        device = drive(lab, variant, architecture, monkeypatch)
    except Unsupported as reason:  # a point of a sweep that no device can run; the page names it with this reason
        assert variant.role == "sweep"
        pytest.skip(str(reason))
    assert device.launched
    for built in device.built:
        for name, report in built.kernels.items():
            if variant.role != "sweep":  # a sweep walks past the point where registers run out
                assert report.spilled == 0, f"{name} spills {report.spilled} bytes"


@pytest.mark.parametrize("case", ["128x128", "128x256", "256x256"])
@pytest.mark.parametrize(
    "name", [each.name for each in registry.get("lbm").ladder if each.plan.__name__ == "Persistent"]
)
def test_the_blocks_of_a_persistent_kernel_hold_the_whole_grid(
    name: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = registry.get("lbm")
    device = drive(lab, lab.variant(name), 90, monkeypatch, lab.case(case))
    ((_, size, local),) = {launch for launch in device.launched if launch[0] == "persistent"}
    columns, lines = map(int, case.split("x"))
    assert local[0] == columns and size[0] * size[1] == columns * lines
    (built,) = (each for each in device.built if "persistent" in each.kernels)
    assert f"[{local[1]}][{columns}]" in built.text, "compiled for the rows with which it is launched"
    assert built.kernels["persistent"].spilled == 0


def shown(lab: Lab, variant: Variant, architecture: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The PTX of each kernel that the variant builds."""
    device = drive(lab, variant, architecture, monkeypatch)
    return {name: report.body for built in device.built for name, report in built.kernels.items()}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(("lab", "variant"), [each for each in cuda_variants() if each.values[1].shows])
def test_the_code_shows_what_the_variant_says_and_its_parents_does_not(
    lab: Lab, variant: Variant, architecture: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if architecture not in variant.architectures:
        pytest.skip(f"needs sm_{variant.architectures.start}")
    code = shown(lab, variant, architecture, monkeypatch)
    parent = shown(lab, lab.variant(variant.parent), architecture, monkeypatch) if variant.parent else {}
    for kernel, pattern in variant.shows.items():
        assert re.search(pattern, code[kernel]), f"{kernel} lacks {pattern}"
        if kernel in parent:
            assert not re.search(pattern, parent[kernel]), f"{kernel} of {variant.parent} has {pattern} as well"


def test_what_lbm_shows_is_there_to_be_read() -> None:
    """The list may grow; without these the compiler's own evidence would be gone."""
    telling = {variant.name for variant in registry.get("lbm").ladder if variant.shows}
    assert telling >= {"no-compute", "device-struct", "bit-neighbours", "byte-obstacles", "half-storage"}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_hoisted_constants_take_most_divisions_out(architecture: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = registry.get("lbm")
    divisions = {
        name: shown(lab, lab.variant(name), architecture, monkeypatch)["fused"].count("div.rn.f32")
        for name in ("accelerate-fused", "hoisted")
    }
    assert divisions["hoisted"] == 2, "one for each component of the velocity"
    assert divisions["accelerate-fused"] >= 5 * divisions["hoisted"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_text_with_an_error_fails_in_one_line(architecture: int) -> None:
    with pytest.raises(BuildFailed, match=r"^[^\n]*error[^\n]*missing[^\n]*$"):
        nvrtc.compile_cuda('extern "C" __global__ void k(float *x) { x[0] = missing; }', architecture)


def test_a_spill_would_be_seen() -> None:
    """Compared with a kernel that must spill: 64 registers' worth of values that live at once, in a block of 1024."""
    values = "\n".join(f"  float v{i} = x[i + {i}];" for i in range(160))
    uses = "\n".join(f"  x[i + {1000 + i}] = v{i} * v{(i * 7) % 160};" for i in range(160))
    head = 'extern "C" __global__ void __launch_bounds__(1024) k(float *x) {\n  int i = threadIdx.x;\n'
    text = f"{head}{values}\n  __syncthreads();\n{uses}\n}}"
    assert compiled(text, 90).kernels["k"].spilled > 0
