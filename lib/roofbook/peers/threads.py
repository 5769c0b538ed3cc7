"""Threads of libraries in the measuring process: OpenMP's keep each to a processor, as PoCL's do, and NumPy's sleep at once."""

import contextlib
import ctypes
import importlib.util
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..devices.backends import HOST
from ..spec.lab import Variant

SETTINGS = {"OMP_PROC_BIND": "close", "OMP_PLACES": "threads"}
"""OpenMP's own: the n-th thread to the n-th processor that the process may use."""
QUIET = {"OPENBLAS_THREAD_TIMEOUT": "4"}
"""For the environment of a process that measures. After a product NumPy's threads wait for the next one in a loop, for 2**n
clock cycles (OpenBLAS, blas_server.c). n is 26 where nothing is said: that is long enough to run beside the next sample. 4 is
the least."""
_first: set[int] = set()
"""The processor of the thread that starts the others; empty where none is bound."""


def are_bound(variant: Variant) -> bool:
    """Whether `variant` is a peer whose OpenMP threads, if it has any, are bound wherever it is measured on this machine."""
    return variant.role == "peer" and HOST in variant.backends and _may_bind()


def _may_bind() -> bool:
    """Not where the user has said what OpenMP is to do, nor where the system has no such call."""
    return hasattr(os, "sched_setaffinity") and not any(os.environ.get(name) for name in SETTINGS)


def bind() -> None:
    """Have GCC's OpenMP, and the copy of it that PyTorch brings, bind the threads that they will start in this process.

    Between two samples the threads sleep. The system often wakes two of them on one processor while another idles. Then all
    others wait in a loop until the two have taken turns, which takes milliseconds. Nothing is bound where the user has said
    what OpenMP is to do. Each library reads its settings when it is loaded, and processes started later have none of them.
    """
    if not _may_bind():
        return
    free = os.sched_getaffinity(0)
    os.environ.update(SETTINGS)
    try:
        for library in _libraries():
            with contextlib.suppress(OSError):
                ctypes.CDLL(library)  # it binds who loads it; this thread does more than OpenMP's work
                if (place := os.sched_getaffinity(0)) != free:
                    _first.update(place)
                    os.sched_setaffinity(0, free)
    finally:
        for name in SETTINGS:
            del os.environ[name]


def _libraries() -> list[str]:
    """GCC's OpenMP by its name, and PyTorch's copies by their paths. Does not import PyTorch."""
    found = importlib.util.find_spec("torch")
    torch = Path(found.origin).parent if found and found.origin else None
    folders = (torch / "lib", torch.with_name("torch.libs")) if torch else ()
    return ["libgomp.so.1", *(str(path) for folder in folders for path in sorted(folder.glob("libgomp*.so*")))]


def facts(variant: Variant, told: Mapping[str, Any]) -> dict[str, bool]:
    """What a row tells of it, of a program that tells how many threads it has: JAX has its own, and tells none."""
    several = int(told.get("threads") or 1) > 1
    return {"threads_bound": True} if several and _first and are_bound(variant) else {}


@contextlib.contextmanager
def in_place(variant: Variant) -> Iterator[None]:
    """Keep this thread, one of the team, to the processor that the others leave it, as long as a peer of theirs runs."""
    if not _first or not are_bound(variant):
        yield
        return
    free = os.sched_getaffinity(0)
    os.sched_setaffinity(0, _first)
    try:
        yield
    finally:
        os.sched_setaffinity(0, free)
