"""The backends, each in one record: its names, its language, its features, and the module that finds its devices.

A new backend is a module that implements contract.py and has a function `devices`, a dialect header, and a record in
BACKENDS or in ON_REQUEST. Everything else reads the record: to find devices, render kernels, choose variants, or write a
backend's name.
"""

import importlib
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ..paths import LIBRARY

if TYPE_CHECKING:
    from .contract import Device

HOST = "host"
"""Name in place of a backend, and feature that a variant needs, for programs that run on the host without a backend."""
BROWSER = "browser"
"""Name in place of a backend, in rows that a reader's browser measured by WebGPU. Python measures none of them: they are
imported (book/browser_import.py), so they never stand for a backend's own."""

FEATURES: Mapping[str, str] = {
    HOST: "no backend at all: a program of the host",
    "cpu": "devices that are the host's own CPU",
    "compiles-at-launch": "for CPUs it compiles when a kernel is first launched, on one core, and keeps the result on disk",
    "vector-types": "vectors of sixteen numbers with the functions of OpenCL C on them",
    "constant-pointers": "arguments of a kernel that point to constant memory",
    "opencl-api": "OpenCL's functions, for a host in another language",
    "driver-api": "a driver's functions in C, for a loop in C and for a process that does nothing else",
    "fast-math": "a compiler's option for approximate arithmetic",
    "images": "two-dimensional images that kernels read",
    "pinned": "page-locked memory of the host",
    "streams": "several queues at work at once, with a time for each copy and launch",
    "several": "sets of devices whose queues wait for each other and copy from each other's memory",
    "nccl": "NCCL's messages between devices",
    "cuda-c++": "kernels in CUDA C++, with what the neutral dialect has no word for",
    "opencl-c": "kernels in OpenCL C, with what the neutral dialect has no word for",
    "ptx": "NVIDIA's GPUs, whose compilers take PTX within a kernel's text",
    "vnni": "x86 CPUs with AVX-512 VNNI, whose compilers take its products of bytes within a kernel's text",
    "avx512-bf16": "x86 CPUs with AVX-512 BF16, whose compilers take its products of bf16 within a kernel's text",
    "amx-int8": "x86 CPUs with AMX, whose compilers take its products of matrices of bytes within a kernel's text",
    "amx-bf16": "x86 CPUs with AMX, whose compilers take its products of matrices of bf16 within a kernel's text",
    "subgroups": "sums over the work-items of a group that run in step, as words of its language",
    "half2": "arithmetic on two fp16 numbers in a register",
    "mma": "a warp's matrix products on tensor cores",
    "wgmma": "a warpgroup's matrix products on tensor cores, and tiles fetched by the TMA unit",
    "clusters": "groups that share their local memories and wait for each other",
    "cooperative": "a launch whose groups all run at once and may wait for each other",
    "graphs": "launches that are recorded and submitted as one",
    "cache-operators": "loads that say which caches keep what they read",
    "counters": "hardware counters, read by NVIDIA's ncu",
    "pytorch": "PyTorch runs on its GPUs",
    "cupy": "its memory is CuPy's, so that libraries on CuPy can work on it",
}
"""Features that a backend may have and a variant may need, with descriptions. A plan refuses a device that lacks one."""

X86_INSTRUCTIONS = frozenset({"vnni", "avx512-bf16", "amx-int8", "amx-bf16"})
"""Features of CPUs whose kernels have x86 instructions in their text; `Device.lacks_instructions` tells of each."""


@dataclass(frozen=True)
class Language:
    """A language in which kernels of the neutral dialect can be rendered."""

    name: str
    """Name in the option `--as`; a backend's also in rows and specs of devices (`opencl:0`)."""
    _: KW_ONLY
    label: str
    """Name for readers."""
    dialect: Path
    """Header that defines the words of the neutral dialect in this language."""
    highlight: str
    """Name that Pygments has for the language."""
    features: frozenset[str] = frozenset()
    """Features that it has, from FEATURES."""
    lacks: Mapping[str, Path] = field(default_factory=dict)
    """Regular expression of words that kernels use and the language lacks -> header that defines them."""
    translator: str = ""
    """Module whose `translated` turns expanded text into this language; '' if the dialect's header alone does."""

    def __post_init__(self) -> None:
        check(self.features)


@dataclass(frozen=True)
class Backend(Language):
    """Facts of a backend that are known without loading it."""

    _: KW_ONLY
    module: str
    """Module that implements contract.py. Its `devices()` lists the devices that are present: none without a driver."""
    flags: tuple[str, ...] = ()
    """Options of its compiler for each kernel."""
    libraries: tuple[str, ...] = ()
    """Distributions whose versions are part of a row's environment, if they are installed."""
    absent: str = ""
    """Message for a machine without such a device, in one clause."""
    reports: str = ""
    """Note under tables of resources: those that its compiler reports for a kernel."""

    def devices(self) -> "list[Device]":
        """Return the devices that are present, in the order of their numbers."""
        return cast("list[Device]", importlib.import_module(self.module).devices())


def check(features: frozenset[str]) -> None:
    """Raise ValueError for a name that is not in FEATURES: a typo would be a feature that no backend has."""
    if unknown := features - FEATURES.keys():
        raise ValueError(f"no feature {', '.join(sorted(unknown))}; there are {', '.join(FEATURES)}")


_HEADERS = LIBRARY / "spec" / "dialect"

CUDA = Backend(
    "cuda",
    label="CUDA",
    module=f"{__package__}.cuda",
    dialect=_HEADERS / "cuda.h",
    highlight="cuda",
    features=frozenset({
        "cuda-c++", "ptx", "half2", "mma", "wgmma", "clusters", "cooperative", "graphs", "images", "pinned", "streams",
        "several", "nccl", "cache-operators", "counters", "pytorch", "cupy", "driver-api", "fast-math", "subgroups",
    }),
    lacks={
        r"\bhalf_to_float\(": _HEADERS / "half.cuda.h",
        r"\bsubgroup_sum\(": _HEADERS / "subgroups.cuda.h",
        r"\bnative_(reciprocal|sqrt)\(": _HEADERS / "approximate.cuda.h",
        r"\bnative_rsqrt\(|\bfloat(8|16)\b": _HEADERS / "vectors.cuda.h",
    },
    flags=("--std=c++17",),
    libraries=("cupy", "cupy-cuda12x", "cupy-cuda13x", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"),
    absent="no CUDA device: it takes an NVIDIA driver and CuPy",
    reports="CUDA: the compiler reports the memories, the registers and the largest group of a kernel. How many groups one "
    "multiprocessor holds at once, were each its only limit, follows from these and the device's by the rule of NVIDIA's "
    "cuda_occupancy.h. Occupancy is the driver's own count where the run asked for it, else by that rule; for kernels in "
    "clusters always by the rule, which knows no clusters and may promise more than fit.",
)  # fmt: skip
OPENCL = Backend(
    "opencl",
    label="OpenCL",
    module=f"{__package__}.opencl",
    dialect=_HEADERS / "opencl.h",
    highlight="c",
    features=frozenset({
        "cpu", "opencl-c", "ptx", "vnni", "avx512-bf16", "amx-int8", "amx-bf16", "compiles-at-launch", "vector-types",
        "constant-pointers", "opencl-api", "images", "pinned", "streams", "several", "driver-api", "fast-math",
    }),
    lacks={r"\batomic_add_float\(": _HEADERS / "atomics.opencl.h"},
    libraries=("pyopencl",),
    absent="no OpenCL device: `pip install 'pyopencl[pocl]'` brings one for the CPU",
    reports="OpenCL: the driver reports local and private memory and the largest group, but not registers; a CPU has no "
    "occupancy.",
)  # fmt: skip

C = Language("c", label="C", dialect=_HEADERS / "c.h", highlight="c", lacks={r"\bsqrtf\(": _HEADERS / "math.c.h"})
"""Language of programs of the host that are made from a kernel's text; no backend."""

WEBGPU = Backend(
    "webgpu",
    label="WebGPU",
    module=f"{__package__}.webgpu",
    dialect=_HEADERS / "webgpu.h",
    highlight="wgsl",
    features=frozenset({"half2", "subgroups"}),
    translator="roofbook.spec.wgsl",
    libraries=("wgpu", "pycparser"),
    absent="no WebGPU adapter: `pip install 'roofbook[webgpu]'`, and a driver for Vulkan, Metal or Direct3D 12",
    reports="WebGPU: no compiler reports; the table shows local memory by the kernel's text, and the largest group.",
)
WEBGPU_UNCHECKED = replace(
    WEBGPU, name="webgpu-unchecked", label="WebGPU without checks", module=f"{__package__}.webgpu_unchecked"
)
"""WebGPU with kernels that wgpu-native compiles without run-time checks: it measures what the checks cost."""
WGSL = "wgsl"
"""Name of WebGPU's language in the option `--as`."""

BACKENDS: dict[str, Backend] = {backend.name: backend for backend in (CUDA, OPENCL)}
"""Name -> backend, in the order in which devices are listed."""
ON_REQUEST: Mapping[str, Backend] = {backend.name: backend for backend in (WEBGPU, WEBGPU_UNCHECKED)}
"""Name -> backend whose devices are found only where a user names it, and whose packages nothing else imports."""


def languages() -> dict[str, Language]:
    """Return name -> language, for all languages in which kernels can be rendered."""
    return {**BACKENDS, C.name: C, WGSL: WEBGPU}


def language(name: str) -> Language | None:
    """Return the language of a name in `--as`, or that of a backend; None if there is none."""
    return languages().get(name) or ON_REQUEST.get(name)


def with_features(needed: frozenset[str]) -> frozenset[str]:
    """Return the names of the backends that have all needed features."""
    return frozenset(name for name, backend in BACKENDS.items() if needed <= backend.features)


def has(name: str, feature: str) -> bool:
    """Return whether the backend of a name has a feature; a name of no backend, such as HOST, has none."""
    return (backend := by_name(name)) is not None and feature in backend.features


def label(name: str) -> str:
    """Return a backend's name for readers; that of HOST is returned unchanged."""
    if name == BROWSER:
        return "WebGPU in a browser"
    return backend.label if (backend := by_name(name)) else name


def by_name(name: str) -> Backend | None:
    """Return the backend of a name, also one of ON_REQUEST; None for a name of no backend, such as HOST."""
    return BACKENDS.get(name) or ON_REQUEST.get(name)
