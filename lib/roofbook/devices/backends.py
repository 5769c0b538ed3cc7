"""The backends, each in one record: its names, its language, what it can do, and the module that finds its devices.

A new one is a module that keeps the contract and has a function `devices`, a dialect header, and a record in BACKENDS. All
else asks the record: whoever finds devices, renders kernels, chooses variants, or writes a backend's name for a reader.
"""

import importlib
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ..paths import LIBRARY

if TYPE_CHECKING:
    from .contract import Device

HOST = "host"
"""What a row names in place of a backend, and a variant needs, where a program runs on the host by none."""

FEATURES: Mapping[str, str] = {
    HOST: "no backend at all: a program of the host",
    "cpu": "devices that are the host's own CPU",
    "compiles-at-launch": "for CPUs it compiles when a kernel is first launched, on one core, and keeps the result on disk",
    "vector-types": "vectors of sixteen numbers with the functions of OpenCL C on them",
    "constant-pointers": "a kernel's arguments may point to constant memory",
    "opencl-api": "OpenCL's functions, for a host in another language",
    "images": "two-dimensional images that kernels read",
    "pinned": "page-locked memory of the host",
    "streams": "several queues at work at once, with a time for each copy and launch",
    "several": "sets of devices whose queues wait for each other and copy from each other's memory",
    "nccl": "NCCL's messages between devices",
    "cuda-c++": "kernels in CUDA C++, with what the neutral dialect has no word for",
    "opencl-c": "kernels in OpenCL C, with what the neutral dialect has no word for",
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
"""What a backend may have and a variant may need. That a device lacks it is said by its plan, or by `architectures`."""


@dataclass(frozen=True)
class Language:
    """What kernels of the neutral dialect can be rendered in."""

    name: str
    """As `--as` has it; of a backend also as rows and specs of devices (`opencl:0`) do."""
    _: KW_ONLY
    label: str
    """As a reader sees it."""
    dialect: Path
    """The header that makes the neutral dialect this language."""
    highlight: str
    """The language by the name that Pygments knows."""
    features: frozenset[str] = frozenset()
    """Of FEATURES, those that it has."""
    lacks: Mapping[str, Path] = field(default_factory=dict)
    """Words that kernels use and the language lacks, as regular expressions -> the header that defines them."""

    def __post_init__(self) -> None:
        check(self.features)


@dataclass(frozen=True)
class Backend(Language):
    """What there is to say of a backend without loading it."""

    _: KW_ONLY
    module: str
    """The module that keeps the contract; its `devices()` lists what is present, none where a driver is missing."""
    flags: tuple[str, ...] = ()
    """What its compiler gets for each kernel."""
    libraries: tuple[str, ...] = ()
    """Distributions whose versions decide what it does; those that are not installed are passed by."""
    absent: str = ""
    """What to tell where it has no device, in one clause."""
    reports: str = ""
    """What it says of the resources that a kernel takes, as a note under a table."""

    def devices(self) -> "list[Device]":
        """Those that are present, in the order of their numbers."""
        return cast("list[Device]", importlib.import_module(self.module).devices())


def check(features: frozenset[str]) -> None:
    """ValueError for a name that is not in FEATURES: a typo would be a feature that no backend has."""
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
        "cuda-c++", "half2", "mma", "wgmma", "clusters", "cooperative", "graphs", "images", "pinned", "streams",
        "several", "nccl", "cache-operators", "counters", "pytorch", "cupy",
    }),
    lacks={
        r"\bhalf_to_float\(": _HEADERS / "half.cuda.h",
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
        "cpu", "opencl-c", "compiles-at-launch", "vector-types", "constant-pointers", "opencl-api", "images", "pinned",
        "streams", "several",
    }),
    lacks={r"\batomic_add_float\(": _HEADERS / "atomics.opencl.h"},
    libraries=("pyopencl",),
    absent="no OpenCL device: `pip install 'pyopencl[pocl]'` brings one for the CPU",
    reports="OpenCL: the driver reports local and private memory and the largest group, but not registers; a CPU has no "
    "occupancy.",
)  # fmt: skip

C = Language("c", label="C", dialect=_HEADERS / "c.h", highlight="c", lacks={r"\bsqrtf\(": _HEADERS / "math.c.h"})
"""What a program of the host that has a kernel's text is compiled as; no backend."""

BACKENDS: dict[str, Backend] = {backend.name: backend for backend in (CUDA, OPENCL)}
"""By their names, in the order in which devices are listed."""


def languages() -> dict[str, Language]:
    """All that kernels are rendered in, by their names."""
    return {**BACKENDS, C.name: C}


def with_features(needed: frozenset[str]) -> frozenset[str]:
    """The names of the backends that have all of these."""
    return frozenset(name for name, backend in BACKENDS.items() if needed <= backend.features)


def has(name: str, feature: str) -> bool:
    """Whether the backend of that name has a feature; a name of none, such as HOST, has not."""
    return name in BACKENDS and feature in BACKENDS[name].features


def label(name: str) -> str:
    """A backend as a reader sees it; a name of none as it is."""
    return BACKENDS[name].label if name in BACKENDS else name
