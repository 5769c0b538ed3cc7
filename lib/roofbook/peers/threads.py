"""Threads of libraries in the measuring process: OpenMP's are bound to processors, like PoCL's; NumPy's sleep at once."""

import contextlib
import ctypes
import importlib.util
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..devices.backends import HOST
from ..spec.plan import Variant

SETTINGS = {"OMP_PROC_BIND": "close", "OMP_PLACES": "threads"}
"""OpenMP's variables that bind the n-th thread to the n-th processor that the process may use."""
QUIET = {"OPENBLAS_THREAD_TIMEOUT": "4"}
"""Variable for the environment of a process that measures. After a product, NumPy's threads wait for the next one in a loop,
for 2**n clock cycles (OpenBLAS, blas_server.c). The default n is 26, long enough to disturb the next sample; 4 is the least."""
_first: set[int] = set()
"""The processor of the thread that starts the others; empty if none is bound."""


def are_bound(variant: Variant) -> bool:
    """Return whether `variant` is a peer whose OpenMP threads, if any, are bound when it is measured on this machine."""
    return variant.role == "peer" and HOST in variant.backends and _may_bind()


def _may_bind() -> bool:
    """Return whether threads may be bound: the system can, and the user has not set OpenMP's own variables."""
    return hasattr(os, "sched_setaffinity") and not any(os.environ.get(name) for name in SETTINGS)


def bind() -> None:
    """Make GCC's OpenMP, and the copy of it in PyTorch, bind the threads that they will start in this process.

    Between two samples the threads sleep. The system often wakes two of them on one processor while another idles. Then all
    others wait in a loop until the two have taken turns, which takes milliseconds. Nothing is bound if the user has set
    OpenMP's own variables. Each library reads its variables when it is loaded; processes started later do not get them.
    """
    if not _may_bind():
        return
    free = os.sched_getaffinity(0)
    os.environ.update(SETTINGS)
    try:
        for library in _libraries():
            with contextlib.suppress(OSError):
                ctypes.CDLL(library)  # it also binds the thread that loads it, which has other work too
                if (processors := os.sched_getaffinity(0)) != free:
                    _first.update(processors)
                    os.sched_setaffinity(0, free)
    finally:
        for name in SETTINGS:
            del os.environ[name]


def _libraries() -> list[str]:
    """Return the name of GCC's OpenMP and the paths of PyTorch's copies. Does not import PyTorch."""
    spec = importlib.util.find_spec("torch")
    torch = Path(spec.origin).parent if spec and spec.origin else None
    folders = (torch / "lib", torch.with_name("torch.libs")) if torch else ()
    return ["libgomp.so.1", *(str(path) for folder in folders for path in sorted(folder.glob("libgomp*.so*")))]


def facts(variant: Variant, program_facts: Mapping[str, Any]) -> dict[str, bool]:
    """Return the facts that a row holds on bound threads. A program without `threads` in its facts, such as JAX, has none."""
    has_team = int(program_facts.get("threads") or 1) > 1
    return {"threads_bound": True} if has_team and _first and are_bound(variant) else {}


@contextlib.contextmanager
def on_own_processor(variant: Variant) -> Iterator[None]:
    """Bind this thread, the first of the team, to its processor while a peer with bound threads runs."""
    if not _first or not are_bound(variant):
        yield
        return
    free = os.sched_getaffinity(0)
    os.sched_setaffinity(0, _first)
    try:
        yield
    finally:
        os.sched_setaffinity(0, free)
