"""Versions and flags of the host's compilers, for rows and their keys, and the number of threads that OpenMP really starts."""

import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..devices import settings
from . import cc

_TEAM = """#include <omp.h>
int team(int asked) {
    int ran = 1;
#pragma omp parallel num_threads(asked)
#pragma omp single
    ran = omp_get_num_threads();
    return ran;
}
"""


def c_compiler() -> dict[str, str]:
    """Return the C compiler for an environment's key: {"C compiler": "gcc (Debian 12.2.0-14) 12.2.0"}; {} for none."""
    command = cc._command()
    return described("C compiler", tuple(command)) if command else {}


def openacc_compiler(command: Sequence[str] | None) -> dict[str, str]:
    """Return the compiler of OpenACC programs, as `c_compiler` does."""
    return described("OpenACC compiler", tuple(command)) if command else {}


def cxx_compiler() -> dict[str, str]:
    """Return the C++ compiler that PyTorch and pystencils call on a CPU, as `c_compiler` does."""
    command = os.environ.get("CXX", "").split()
    path = shutil.which(command[0]) if command else shutil.which("g++") or shutil.which("clang++")
    return described("C++ compiler", (path, *command[1:])) if path else {}


def haskell_compiler() -> dict[str, str]:
    """Return GHC, as `c_compiler` does."""
    path = shutil.which("ghc")
    return described("Haskell compiler", (path,)) if path else {}


@functools.lru_cache
def described(role: str, command: tuple[str, ...]) -> dict[str, str]:
    """Return a compiler's version, the flags that its command adds, and the variables that change its output."""
    try:
        version = next(iter(cc._call([*command, "--version"]).splitlines()), "")
    except cc.BuildFailed:
        version = ""
    name = Path(command[0]).name
    conditions = {role: settings.published(version.strip()) or name}
    if command[1:]:
        conditions[f"{role}'s added flags"] = settings.published(" ".join(command[1:]))
    extra = settings.of_compiling(command[0])
    conditions |= {f"{role}'s {'wrapper' if name == 'script' else name}": value for name, value in extra.items()}
    return conditions


def threads_of_a_team(requested: int) -> int:
    """Return how many threads OpenMP starts if so many are requested: fewer with OMP_THREAD_LIMIT or OMP_DYNAMIC.

    If no program can be built to count them, return `requested`.
    """
    try:
        flags, _ = cc.openmp_flags()
        return int(_team(cc._need(), flags).team(requested)) if flags and requested > 1 else requested
    except (cc.BuildFailed, OSError, AttributeError):
        return requested


@functools.lru_cache
def _team(command: tuple[str, ...], flags: tuple[str, ...]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / f"team-{hashlib.sha256(_TEAM.encode()).hexdigest()[:8]}.c"
        source.write_text(_TEAM)
        return cc.build(source, ("-O1", *flags))


def thread_limit() -> int | None:
    """Return the most threads that OMP_THREAD_LIMIT lets OpenMP start; None if it is not set."""
    limit = os.environ.get("OMP_THREAD_LIMIT", "").strip()
    return int(limit) if limit.isdigit() and int(limit) > 0 else None
