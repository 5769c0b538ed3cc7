"""Kernels as functions of Python that Triton, CuTe DSL or Numba compiles: today's languages beside the ladder, role `dsl`.

All are optional. A lab keeps such a function in a module of its own, which is imported when a plan is created, never before.
The machine code is a program of the CUDA backend, launched and timed like a step's. A language that is missing says so in one
line.
"""

import ast
import importlib.metadata
import importlib.util
import math
import re
import tempfile
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..devices.contract import Buffer, BuildFailed, Device, Kernel, Unsupported
from ..spec.kernel_run import KernelRun
from ..spec.plan import Plan, Variant

_seconds_of_import: dict[str, float] = {}
"""Distribution -> seconds in which this process first imported a kernel of its language."""


class MachineCode(NamedTuple):
    """A kernel as a language's compiler leaves it: machine code, or PTX for the driver."""

    image: bytes
    name: str
    shared_bytes: int = 0
    """Bytes of shared memory that a launch asks for."""
    pointers_behind: int = 0
    """Number of null pointers that a launch passes behind its arguments."""
    cluster: int = 1
    """Number of blocks of a cluster, which a launch must ask for."""


class PythonKernel(Plan):
    """Base of a plan whose main kernel is a function of Python. The plan that launches it follows this class.

    Its rows hold the lines of the function, the seconds to import and to compile it with nothing cached, and those to the
    first result, which are both and the first run. Raises Unsupported if the language is missing, BuildFailed if it refuses.
    """

    distribution: str
    """Name of the language's package on PyPI."""
    sources: tuple[Path]
    """The file of the kernel."""
    first_run_s = math.nan

    @staticmethod
    @abstractmethod
    def function() -> Any:
        """Import the module of the kernel, and return its function."""

    def compiled(self, device: Device, compile: Callable[..., MachineCode], *form: Any) -> Kernel:
        """Return the kernel as `compile(function, architecture, *form)` makes it."""
        if reason := self.missing():
            raise Unsupported(reason)
        self.made = _made(self.distribution, device, self.function, compile, form)
        return self.made.kernel

    @property
    def behind(self) -> tuple[np.uint64, ...]:
        """The last arguments of each launch."""
        return self.made.behind

    def run(self) -> Any:
        start = time.perf_counter()
        seconds = super().run()  # type: ignore[safe-super]  # that of the plan behind it
        if math.isnan(self.first_run_s):
            self.first_run_s = time.perf_counter() - start
        return seconds

    def facts(self) -> dict[str, Any]:
        made = self.made
        first = made.import_s + made.compile_s + self.first_run_s
        seconds = {"import s": made.import_s, "compile s": made.compile_s, "first result s": first}
        return {**super().facts(), "lines": lines_of_code(self.sources[0]), **seconds}


class Triton(PythonKernel):
    """Base of the plans with a kernel in Triton."""

    distribution = "triton"

    @staticmethod
    def missing() -> str | None:
        return _missing("triton", "Triton")

    @staticmethod
    def compilers(variant: Variant) -> dict[str, str]:
        return _versions("triton")


class Cute(PythonKernel):
    """Base of the plans with a kernel in CuTe DSL."""

    distribution = "nvidia-cutlass-dsl"

    @staticmethod
    def missing() -> str | None:
        return _missing("nvidia_cutlass_dsl", "CuTe DSL")

    @staticmethod
    def compilers(variant: Variant) -> dict[str, str]:
        return _versions("nvidia-cutlass-dsl")


class Numba(PythonKernel):
    """Base of the plans with a kernel in Numba."""

    distribution = "numba-cuda"

    @staticmethod
    def missing() -> str | None:
        return _missing("numba_cuda", "Numba for CUDA")

    @staticmethod
    def compilers(variant: Variant) -> dict[str, str]:
        return _versions("numba", "numba-cuda")


def python_kernel(
    name: str, parent: str, plan: type[PythonKernel], change: str, expect: str, *features: str, dtype: str = "float32",
    architectures: range = Variant.architectures, **options: Any,
) -> Variant:  # fmt: skip
    """Return the row of a kernel in a language of Python.

    parent: the step of the same method. features: those that the backend needs besides CuPy's memory. architectures: as of a
    `Variant`.
    """
    return Variant(
        name, parent, None, plan, change, expect, frozenset({"cupy", *features}), role="dsl", options=options, dtype=dtype,
        architectures=architectures,
    )  # fmt: skip


def _missing(module: str, language: str) -> str | None:
    """Return the reason, in one line, why there is no such language; None if it is installed. Imports nothing."""
    if importlib.util.find_spec(module) is None:
        return f"{language} is not installed: pip install 'roofbook[languages]'"
    return None


def _versions(*distributions: str) -> dict[str, str]:
    """Return the versions of the installed ones of these distributions."""
    versions = {}
    for name in distributions:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


class OneOutput(KernelRun):
    """Base of the plans with `launches` of one kernel that writes one array. A subclass sets `arguments` as well."""

    output = "out"
    """Name of the array among the outputs."""
    arguments: tuple[Any, ...]
    launches: int

    def upload(self, *arrays: np.ndarray) -> list[Buffer]:
        """Copy arrays to the device, to be released at the end."""
        buffers = [self.device.upload(np.ascontiguousarray(array)) for array in arrays]
        self.buffers += buffers
        return buffers

    def written(self, start: np.ndarray) -> Buffer:
        """Return the buffer of the array that the kernel writes. start: its values before a run."""
        self.start = start
        (self.array,) = self.upload(start)
        return self.array

    def submit(self) -> None:
        for _ in range(self.launches):
            self.queue.launch(self.kernel, self.size, self.group, *self.arguments)

    def reset(self) -> None:
        self.queue.write(self.array, self.start)

    def outputs(self) -> dict[str, np.ndarray]:
        values = self.queue.read(self.array, np.empty_like(self.start))
        return {self.output: values.astype(np.float64) if values.dtype.kind == "f" else values}


# -- compilers ---------------------------------------------------------------------------------------------------------


class _Made(NamedTuple):
    kernel: Kernel
    behind: tuple[np.uint64, ...]
    import_s: float
    compile_s: float


@lru_cache(maxsize=64)
def _made(
    language: str, device: Device, load: Callable[[], Any], compile: Callable[..., MachineCode], form: tuple[Any, ...]
) -> _Made:
    """Import and compile a function, once a process. Raises Unsupported if the language does not load, and BuildFailed."""
    start = time.perf_counter()
    try:
        function = load()
    except (ImportError, OSError) as error:
        raise Unsupported(f"{language} is installed but does not load: {_first_line(error)}") from error
    import_s = _seconds_of_import.setdefault(language, time.perf_counter() - start)
    start = time.perf_counter()
    try:
        code = compile(function, getattr(device, "architecture", 0), *form)
    except Exception as error:  # of any type, by the language
        raise BuildFailed(f"{language}: {_first_line(error)}") from error
    kernel = device.load(code.image).kernel(code.name)
    if code.shared_bytes:
        kernel.configure(dynamic_local_bytes=code.shared_bytes)
    if code.cluster > 1:
        kernel.require_cluster(code.cluster)
    return _Made(kernel, (np.uint64(0),) * code.pointers_behind, import_s, time.perf_counter() - start)


def by_triton(
    function: Any, architecture: int, types: Sequence[str], constants: Sequence[tuple[str, Any]], warps: int, stages: int = 3
) -> MachineCode:  # fmt: skip
    """Compile a function of Triton for an architecture, such as 90, with nothing cached.

    types: of its arguments, such as `*fp16` and `i32`; each array begins at a multiple of 16 bytes. constants: its arguments of
    type constexpr, with their values. warps: of a block. stages: of the pipeline of its loads.
    """
    from triton import knobs
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    names = [name for name in function.arg_names if name not in dict(constants)]
    signature = dict(zip(names, types, strict=True)) | dict.fromkeys(dict(constants), "constexpr")
    aligned = {(n,): [["tt.divisibility", 16]] for n, type in enumerate(types) if type.startswith("*")}
    source = ASTSource(function, signature, dict(constants), aligned)
    options = {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": True}
    with tempfile.TemporaryDirectory() as folder, knobs.cache.scope():
        knobs.cache.dir = folder
        made = compile(source, GPUTarget("cuda", architecture, 32), options)
        image, ptx = bytes(made.asm["cubin"]), str(made.asm["ptx"])
    return MachineCode(image, made.metadata.name, made.metadata.shared, arguments_of(ptx) - len(types))


def by_cute(
    function: Any, architecture: int, types: Sequence[str], constants: Sequence[Any], shared_bytes: int, cluster: int = 1
) -> MachineCode:  # fmt: skip
    """Compile the only kernel that a host function of CuTe DSL launches, with nothing cached.

    types: of the elements of its arrays, such as `Float16`; each array begins at a multiple of 128 bytes. constants: its other
    arguments. shared_bytes: that a block allocates. cluster: number of blocks that share their fetches.
    """
    import cutlass
    from cutlass import cute
    from cutlass.cute.runtime import make_ptr

    arrays = [make_ptr(getattr(cutlass, type), 0, cute.AddressSpace.gmem, assumed_align=128) for type in types]
    with tempfile.TemporaryDirectory() as folder:
        options = f"--gpu-arch=sm_{architecture}a --keep-cubin --dump-dir={folder}"
        made = cute.compile(function, *arrays, *constants, options=options)
        (name,), image = made.kernel_info, bytes(made.artifacts.CUBIN)
    return MachineCode(image, name, shared_bytes, cluster=cluster)


def by_numba(function: Any, architecture: int, signature: str) -> MachineCode:
    """Compile a function of Numba for an architecture, such as 90, to PTX. signature: types as Numba writes them."""
    from numba import cuda

    vars(np).setdefault("row_stack", np.vstack)  # numba-cuda registers it, and NumPy 2.5 has it no more
    ptx, _ = cuda.compile(function.py_func, signature, device=False, cc=divmod(architecture, 10), abi="numba")
    names = re.findall(r"\.entry\s+(\w+)", ptx)
    return MachineCode(ptx.encode(), names[0])


def numba_array(buffer: Buffer, *shape: int, itemsize: int = 4) -> tuple[Any, ...]:
    """Return the arguments that stand for one array of Numba, contiguous in C order."""
    strides = [itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    counts = map(np.int64, (math.prod(shape), itemsize))
    return np.uint64(0), np.uint64(0), *counts, buffer, *map(np.int64, (*shape, *strides))


def by_value(encoded: bytes) -> np.ndarray:
    """Return bytes as an argument that a launch copies: CuPy takes an array of one value of any size.

    >>> by_value(bytes(128)).shape
    (1,)
    """
    return np.frombuffer(encoded, f"V{len(encoded)}")


def arguments_of(ptx: str) -> int:
    """Return the number of arguments of the only kernel of a text in PTX.

    >>> arguments_of(".visible .entry f( .param .u64 .ptr .global f_param_0, .param .u32 f_param_1 ) { ld.param.u32 }")
    2
    """
    head = re.search(r"\.entry\s+\w+\s*\(([^)]*)\)", ptx)
    return head[1].count(".param") if head else 0


def lines_of_code(file: Path) -> int:
    """Return the lines of a Python file without imports, docstrings, comments and blank ones."""
    text = file.read_text(encoding="utf-8")
    lines, count = [line.strip() for line in text.splitlines()], 0
    for node in ast.parse(text).body:
        if not isinstance(node, ast.Import | ast.ImportFrom | ast.Expr):
            first = min([node.lineno, *(mark.lineno for mark in getattr(node, "decorator_list", ()))])
            count += sum(bool(line) and not line.startswith("#") for line in lines[first - 1 : node.end_lineno])
    return count


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
