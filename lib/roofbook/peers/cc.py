"""Builds and loads the C peers with the C compiler of this machine. A cached library is used while nothing changed."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..devices import contract
from ..devices.library_folder import library_folder as cache_dir

FAST = ("-O3", "-march=native", "-ffast-math")
"""Flags of a fast peer: this machine's vector width; sums and products may be re-ordered."""


HEADER = Path(__file__).with_name("vectors.h")
"""The header that a C peer may include."""


class BuildFailed(contract.BuildFailed):
    """The compiler failed; the message is one line."""


class NoCompiler(BuildFailed):
    """There is no C compiler; the message is one line."""


def _command() -> list[str] | None:
    """Return the compiler's path with the arguments of CC, as in CC='ccache gcc'; None if there is none."""
    named = shlex.split(os.environ.get("CC", ""))
    for words in [named] if named else [["cc"], ["gcc"], ["clang"]]:
        path = shutil.which(words[0])
        if path:
            return [path, *words[1:]]
    return None


def compiler() -> str | None:
    """Return the path of the C compiler: CC if it is set, else cc, gcc or clang; None if there is none."""
    command = _command()
    return command[0] if command else None


def missing() -> str | None:
    """Return the reason, in one line, why there is no C compiler; None if there is one."""
    if _command():
        return None
    named = os.environ.get("CC")
    tried = f"CC={named} is not on the PATH" if named else "none of cc, gcc, clang is on the PATH"
    return f"no C compiler: {tried}; install one or set CC"


def _need() -> tuple[str, ...]:
    command = _command()
    if command is None:
        raise NoCompiler(missing())
    return tuple(command)


def _call(command: Sequence[str]) -> str:
    try:
        process = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=300)
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise BuildFailed(f"{command[0]} did not run: {failure}") from None
    if process.returncode:
        lines = [line.strip() for line in process.stderr.splitlines() if line.strip()]
        message = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "no message")
        raise BuildFailed(f"{Path(command[0]).name} exited with {process.returncode}: {message}")
    return process.stdout


@functools.lru_cache
def _machine(command: tuple[str, ...]) -> str:
    """Return the compiler's version and the processor of -march=native, since several machines may share a cache."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    cpu = {line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))}
    return "\n".join([_call([*command, "--version"]), platform.machine(), platform.processor(), *sorted(cpu)])


@functools.lru_cache
def _openmp(command: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.c"
        source.write_text("#include <omp.h>\nint probe(void) { return omp_get_max_threads(); }\n")
        try:
            _call([*command, "-fopenmp", "-shared", "-fPIC", str(source), "-o", f"{folder}/probe.so"])
        except BuildFailed as failure:
            return (), f"without OpenMP, one thread: {failure}"
    return ("-fopenmp",), None


def openmp_flags() -> tuple[tuple[str, ...], str | None]:
    """Return (("-fopenmp",), None), or ((), reason) if the compiler lacks OpenMP. Raises NoCompiler."""
    return _openmp(_need())


def build(source: Path, flags: Sequence[str] = FAST) -> ctypes.CDLL:
    """Compile one C file to a shared library, or take it from the cache, and load it.

    The key is the sha256 of source, HEADER, flags, compiler version and processor. Raises NoCompiler or BuildFailed.
    """
    command = _need()
    texts = [source.read_text(), HEADER.read_text(), *command, *flags, _machine(command)]
    key = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    try:
        folder = cache_dir()
        folder.mkdir(parents=True, exist_ok=True)
        library = folder / f"{source.stem}-{key[:16]}.so"
        if not library.exists():
            with tempfile.TemporaryDirectory(dir=folder) as work:
                object_file, shared_library = f"{work}/made.o", f"{work}/made.so"
                _call(
                    [*command, "-std=c11", "-fPIC", f"-I{HEADER.parent}", *flags, "-c", str(source), "-o", object_file]
                )
                # linked without -ffast-math: with it, gcc adds code that turns off subnormals in the whole process
                openmp = [flag for flag in flags if flag == "-fopenmp"]
                _call([*command, "-shared", *openmp, object_file, "-o", shared_library, "-lm"])
                Path(shared_library).replace(library)
        return ctypes.CDLL(str(library))
    except OSError as failure:
        raise BuildFailed(f"cannot build or load {source.name}: {failure}") from None
