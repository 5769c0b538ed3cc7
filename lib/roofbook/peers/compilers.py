"""Compilers of the host by version and flags, as a row and its key name them, and how many threads OpenMP really starts."""

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
    given = os.environ.get("CXX", "").split()
    path = shutil.which(given[0]) if given else shutil.which("g++") or shutil.which("clang++")
    return described("C++ compiler", (path, *given[1:])) if path else {}


def haskell_compiler() -> dict[str, str]:
    """Return GHC, as `c_compiler` does."""
    path = shutil.which("ghc")
    return described("Haskell compiler", (path,)) if path else {}


@functools.lru_cache
def described(what: str, command: tuple[str, ...]) -> dict[str, str]:
    """Return a compiler's version, the flags that its command adds, and other variables that change what it makes."""
    try:
        version = next(iter(cc._call([*command, "--version"]).splitlines()), "")
    except cc.BuildFailed:
        version = ""
    name = Path(command[0]).name
    made = {what: settings.published(version.strip()) or name}
    if command[1:]:
        made[f"{what}'s added flags"] = settings.published(" ".join(command[1:]))
    extra = settings.of_compiling(command[0])
    made |= {f"{what}'s {'wrapper' if name == 'script' else name}": value for name, value in extra.items()}
    return made


def threads_of_a_team(asked: int) -> int:
    """Return how many threads OpenMP starts where so many are asked for: fewer by OMP_THREAD_LIMIT or OMP_DYNAMIC.

    `asked` where that cannot be found out.
    """
    try:
        flags, _ = cc.openmp_flags()
        return int(_team(cc._need(), flags).team(asked)) if flags and asked > 1 else asked
    except (cc.BuildFailed, OSError, AttributeError):
        return asked


@functools.lru_cache
def _team(command: tuple[str, ...], flags: tuple[str, ...]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / f"team-{hashlib.sha256(_TEAM.encode()).hexdigest()[:8]}.c"
        source.write_text(_TEAM)
        return cc.build(source, ("-O1", *flags))


def thread_limit() -> int | None:
    """Return the most threads that OMP_THREAD_LIMIT lets OpenMP start; None where it says nothing."""
    given = os.environ.get("OMP_THREAD_LIMIT", "").strip()
    return int(given) if given.isdigit() and int(given) > 0 else None
