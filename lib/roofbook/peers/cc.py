"""Builds the C peers with the C compiler of this machine and loads them; libraries are cached by all they depend on."""

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
"""Flags of a peer that is to be fast: this machine's vector width; sums and products may be re-ordered."""


HEADER = Path(__file__).with_name("vectors.h")
"""What a C peer may include."""


class BuildFailed(contract.BuildFailed):
    """The compiler refused; the message is one line."""


class NoCompiler(BuildFailed):
    """There is no C compiler; the message is one line."""


def _command() -> list[str] | None:
    """The compiler with the arguments that CC may carry, as in CC='ccache gcc'."""
    given = shlex.split(os.environ.get("CC", ""))
    for words in [given] if given else [["cc"], ["gcc"], ["clang"]]:
        path = shutil.which(words[0])
        if path:
            return [path, *words[1:]]
    return None


def compiler() -> str | None:
    """Path of the C compiler: CC where it is set, else cc, gcc or clang; None where there is none."""
    command = _command()
    return command[0] if command else None


def missing() -> str | None:
    """Why there is no C compiler, in one line; None where there is one."""
    if _command():
        return None
    given = os.environ.get("CC")
    tried = f"CC={given} is not on the PATH" if given else "none of cc, gcc, clang is on the PATH"
    return f"no C compiler: {tried}; install one or set CC"


def _need() -> tuple[str, ...]:
    command = _command()
    if command is None:
        raise NoCompiler(missing())
    return tuple(command)


def _call(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=300)
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise BuildFailed(f"{command[0]} did not run: {failure}") from None
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        said = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "no message")
        raise BuildFailed(f"{Path(command[0]).name} exited with {done.returncode}: {said}")
    return done.stdout


@functools.lru_cache
def _machine(command: tuple[str, ...]) -> str:
    """The compiler's version and the processor that -march=native means: a cache may be shared by several machines."""
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
    """(("-fopenmp",), None), or ((), reason) where the compiler lacks OpenMP. Raises NoCompiler."""
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
                made, linked = f"{work}/made.o", f"{work}/made.so"
                _call([*command, "-std=c11", "-fPIC", f"-I{HEADER.parent}", *flags, "-c", str(source), "-o", made])
                # Linked without -ffast-math: with it, gcc adds code that turns off subnormals in the whole process.
                openmp = [flag for flag in flags if flag == "-fopenmp"]
                _call([*command, "-shared", *openmp, made, "-o", linked, "-lm"])
                Path(linked).replace(library)
        return ctypes.CDLL(str(library))
    except OSError as failure:
        raise BuildFailed(f"cannot build or load {source.name}: {failure}") from None
