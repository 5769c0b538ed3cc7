"""Which CPU PoCL compiles for: the first whose machine code calls none of PoCL's built-in functions.

Serves opencl.py. LLVM inlines no function that was compiled for features which its caller lacks. PoCL brings its built-in
functions compiled for eight CPUs and links those of the widest vectors that the processor has, but compiles kernels for the CPU
that LLVM names. LLVM may have no name for a newer CPU, or the name of one that lacks a feature of the linked functions. Then
each root and each vector that is loaded is a call, a call empties all vector registers, and some kernels end the process or
never compile. So a probe kernel is compiled and run for one name after another, and its machine code decides. The answer is
kept in the cache.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from .. import own_python
from ..paths import cache_key, read_cached, scratch_folder, write_cached
from . import pocl_probe

GENERIC = "generic"
"""LLVM's word for an x86 CPU that is newer than itself. Its own front end refuses that name (PoCL issue 1049)."""
LIBRARIES = (
    ("skylake-avx512", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx2", "bmi2", "fma"}),
    ("haswell", {"avx2", "bmi2", "fma"}),
    ("bdver1", {"avx", "fma4", "xop"}),
    ("ivybridge", {"avx", "f16c", "popcnt"}),
    ("sandybridge", {"avx", "popcnt"}),
    ("penryn", {"sse4_1", "ssse3"}),
    ("core2", {"ssse3"}),
    ("x86-64", set[str]()),
)
"""(CPU that PoCL's built-in functions were compiled for, features it needs), the CPUs with the widest vectors first."""
INSTRUCTIONS = {
    "vnni": ("AVX-512 VNNI", {"avx512f", "avx512bw", "avx512_vnni"}),
    "avx512-bf16": ("AVX-512 BF16", {"avx512f", "avx512_bf16"}),
    "amx-int8": ("AMX int8", {"avx512f", "amx_tile", "amx_int8"}),
    "amx-bf16": ("AMX bf16", {"avx512f", "amx_tile", "amx_bf16"}),
}
"""Feature -> (name of its instructions, the processor's features that a kernel needs which has them in its text)."""
CHOICE, RUNS = CACHED = ("pocl-cpu", "pocl-instructions")
"""Kinds of the cached files with answers of probes: the choice of a CPU, and whether instructions run."""
WALL_SECONDS = 600
"""Limit of a probe that waits for ever. One that computes for ever ends by itself."""


CALLS = "built-in functions are calls"
"""Words in a device's identity that say so."""
LINKER = "ld"
"""The program by which PoCL's compiler links a kernel, unless it was built with one of its own."""
_NOT_LINKED = re.compile(r"error: (?:unable to execute command: )?(.+)")
"""An error of PoCL's compiler, which it prints before PoCL's own word on linking."""


class NotLinked(Exception):
    """PoCL compiled the probe and could not link it, as where the system has no linker. The message is its compiler's."""


class ProbeOutcome(NamedTuple):
    """Outcome of the probe for one CPU."""

    calls: tuple[str, ...]
    """Built-in functions that stay calls."""
    right: bool
    """Whether the result of the probe was right."""


class CpuChoice(NamedTuple):
    """The CPU that PoCL compiles for, by LLVM's names."""

    default: str
    """CPU that PoCL would choose; '' if it is unknown."""
    name: str
    """The CPU that is compiled for; '' leaves PoCL its own."""
    calls: tuple[str, ...]
    """Built-in functions that stay calls."""
    is_known: bool = True
    """Whether a probe ran."""
    refusal: str = ""
    """Reason why PoCL can run no kernel here, and the remedy; '' if it can."""

    @property
    def identity(self) -> str:
        """Part of a device's identity; '' in the usual cases: PoCL's own choice fits, or PoCL has no name for the CPU."""
        if self.default in ("", GENERIC, self.name) and not self.calls:
            return ""
        return f"{self.name or 'the CPU that PoCL names'}{f', {CALLS}' if self.calls else ''}"

    @property
    def warning(self) -> str:
        """A line for readers where kernels are slower than this CPU allows, or do not run; '' where all is well."""
        if self.refusal:
            return self.refusal
        if not self.is_known:
            return f"PoCL compiles for {self.name or 'its own choice'}: no probe kernel ran, so its kernels may fail or be slow"
        if not self.calls:
            return ""
        names = f"{', '.join(self.calls[:3])}{' and others' if len(self.calls) > 3 else ''}"
        return (
            f"PoCL compiles for {self.name or 'its own choice'} and calls its built-in functions ({names}) instead of "
            "inlining them: kernels on this CPU are slower than it allows. Another version of PoCL may know this CPU"
        )


Probe = Callable[[str, str], ProbeOutcome | None]
"""Compiles and runs the probe for a CPU, the wide kernel too if asked for the `whole`. None: refused, died or without end."""


def choose(default: str, flags: Collection[str], candidates: Sequence[tuple[str, set[str]]], probe: Probe) -> CpuChoice:
    """Choose the CPU: PoCL's own if its functions are inlined for it, else a candidate whose features the processor has.

    If functions stay calls for all of these, the first that runs at all is taken. If none runs, the system may not list all
    features of the processor: PoCL asks the processor itself and links functions that need them. Then others are tried.
    """
    named = [default] if default != GENERIC or not candidates else []
    fitting = [*dict.fromkeys([*named, *(name for name, features in candidates if features <= set(flags))])]
    runs = []
    for name in fitting:
        outcome = probe(name, "narrow")
        if outcome and outcome.right:
            if not outcome.calls:
                return CpuChoice(default, name, ())
            runs.append(name)
    for name in runs:
        outcome = probe(name, "whole")
        if outcome and outcome.right:
            return CpuChoice(default, name, outcome.calls)
    for name in (name for name, _ in candidates if name not in fitting):
        outcome = probe(name, "narrow")
        if outcome and outcome.right and not outcome.calls:
            return CpuChoice(default, name, ())
    return CpuChoice(default, fitting[0] if fitting else default, (), is_known=False)


def processor_flags() -> set[str]:
    """Return the features of the processor, by the system's names; none where the system lists none."""
    try:
        with open("/proc/cpuinfo") as file:
            return set(next((line.partition(":")[2].split() for line in file if line.startswith("flags")), []))
    except OSError:
        return set()


def choice(device: Any) -> CpuChoice:
    """Return the CPU that PoCL is to compile for on an OpenCL device of its own. The first time on a machine takes seconds."""
    return _choice(pocl_probe.own_name(device), f"{device.platform.version} {device.driver_version}")


@lru_cache
def _choice(default: str, version: str) -> CpuChoice:
    x86 = platform.machine().lower() in ("x86_64", "amd64", "i686", "i386")
    candidates, flags = LIBRARIES if x86 and default else (), processor_flags()
    texts = (Path(file).read_text(encoding="utf-8") for file in (__file__, pocl_probe.__file__))
    links = (
        shutil.which(LINKER) is not None
    )  # a probe that ran where there was a linker says nothing of where there is none
    key = cache_key(default, version, str(links), *sorted(flags), *texts)
    if (content := read_cached(CHOICE, key)) is not None:
        return _parsed(content)
    try:
        chosen = choose(default, flags, candidates, run_probe)
    except NotLinked as error:  # so it would be for any other name
        needed = f"a linker, `{LINKER}`, that works must be on the PATH (Debian: apt-get install binutils)"
        return CpuChoice(default, default, (), is_known=False, refusal=f"PoCL cannot link kernels: {error}; {needed}")
    if chosen.is_known:
        write_cached(CHOICE, key, json.dumps(chosen).encode())
    return chosen


def lacks_instructions(feature: str, chosen: CpuChoice, device: Any) -> str:
    """Return why PoCL runs no kernel with the instructions of a feature in its text; '' if a probe with them ran.

    chosen: the CPU that PoCL compiles for on `device`. The first time on a machine takes a second.
    """
    name, needed = INSTRUCTIONS[feature]
    if not needed <= processor_flags():
        return f"this CPU has no {name}"
    if not _runs_instructions(feature, chosen.name, f"{device.platform.version} {device.driver_version}"):
        return f"PoCL's compiler takes none of {name} for {chosen.name or 'this CPU'}"
    if pocl_probe.needs_tiles(feature) and (refusal := pocl_probe.ask_for_tiles()):
        return f"the system gives this process no tiles of AMX: {refusal}"
    return ""


@lru_cache
def _runs_instructions(feature: str, cpu: str, version: str) -> bool:
    """Return whether PoCL compiles the probe with a feature's instructions for a CPU, and whether its result is right."""
    probe = Path(pocl_probe.__file__).read_text(encoding="utf-8")
    key = cache_key(feature, cpu, version, *sorted(processor_flags()), probe)
    if (content := read_cached(RUNS, key)) is None:
        try:
            outcome = run_probe(cpu, feature)
        except NotLinked:  # PoCL runs no kernel at all, and its device says so
            return False
        content = json.dumps(bool(outcome and outcome.right)).encode()
        write_cached(RUNS, key, content)
    return bool(json.loads(content))


def _parsed(content: bytes) -> CpuChoice:
    default, name, calls, *further = json.loads(content)
    return CpuChoice(default, name, tuple(calls), *further)


def run_probe(name: str, how: str) -> ProbeOutcome | None:
    """Run the probe for a CPU in a process of its own, with a folder of its own and none of the reader's settings of PoCL.

    how: `narrow`, `whole`, or a feature of INSTRUCTIONS, whose kernel is the probe. Raises NotLinked where PoCL says that it
    could not link it.
    """
    ours = own_python.environment()
    settings = {key: value for key, value in ours.items() if not key.startswith(("POCL_", "PYOPENCL_"))}
    try:
        with scratch_folder() as folder:
            settings |= {"POCL_CACHE_DIR": str(folder), "POCL_AFFINITY": "0", "XDG_CACHE_HOME": str(folder)}
            program, packages = str(Path(pocl_probe.__file__).resolve()), os.pathsep.join(sys.path)
            command = [sys.executable, "-P", program, name, str(folder), how, packages]
            done = subprocess.run(
                command, env=settings, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=WALL_SECONDS
            )
            output = done.stderr.decode(errors="replace")
            if "inking of kernel" in output and (error := _NOT_LINKED.search(output)):
                raise NotLinked(" ".join(error[1].split()).rstrip("!."))
            result = json.loads((folder / pocl_probe.RESULT).read_text())
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return ProbeOutcome(tuple(result["calls"]), result["right"])
