"""The machine code that PoCL makes of a step for this CPU: tests compare its innermost loops with the book's sentences."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from roofbook.devices.find import devices
from roofbook.devices.opencl import OpenCLDevice
from roofbook.spec.lab import Lab

_PROGRAM = """
import sys
from roofbook.devices import pocl_cpu
from roofbook.devices.find import open_device
from roofbook.spec import registry
lab, name, case, spec, cpu = sys.argv[1:]
if cpu:
    pocl_cpu.choice = lambda device: pocl_cpu.CpuChoice("", cpu, ())
lab = registry.get(lab)
size, variant = lab.case(case, "test"), lab.variant(name)
given = lab.inputs(size, 1)
run = variant.plan(open_device(spec), variant, size, given)
run.reset()
run.run()
error, tolerance, compared = lab.check(size, variant, run.outputs(), lab.reference(size, given))
assert error <= tolerance, compared
"""
_LAUNCH = """
import sys
from roofbook.devices.find import open_device
spec, text, kernel = sys.argv[1:]
device = open_device(spec)
queue = device.queue()
queue.launch(device.build(text).kernel(kernel), (1,), (1,), device.empty(1 << 16))
queue.finish()
"""
_LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S.*?)\s*$")
_JUMP = re.compile(r"^j\w+\s+([0-9a-f]+)\b")


def pocl() -> OpenCLDevice:
    """Return PoCL's device. Skip the test where there is none, nothing shows its code, or it inlines no built-in function."""
    cpus = [d for d in devices() if isinstance(d, OpenCLDevice) and d.kind == "cpu"]
    for device in cpus:
        if "PoCL" in device.identity()["platform"]:
            if not shutil.which("objdump"):
                pytest.skip("no objdump, which shows machine code: it is part of GNU binutils")
            if device.warning:
                pytest.skip(device.warning)
            return device
    pytest.skip("no PoCL")


def has(flag: str) -> bool:
    """Return whether this CPU has a feature, by its name in /proc/cpuinfo."""
    info = Path("/proc/cpuinfo")
    return info.is_file() and flag in info.read_text().split()


def innermost_loops(lab: Lab, name: str, case: str, kernel: str, folder: Path, cpu: str = "") -> list[list[str]]:
    """Return the instructions of each innermost loop of a kernel as work-groups run it, of all programs that the step builds.

    The step is verified on the case. cpu: CPU that PoCL compiles for, by LLVM's name; '' for the one chosen for this machine.
    """
    _run(_PROGRAM, folder, lab.name, name, case, pocl().spec, cpu)
    return _of_groups(kernel, folder)


def loops_of(text: str, kernel: str, folder: Path) -> list[list[str]]:
    """Return the innermost loops of a kernel in OpenCL C with one pointer as argument."""
    _run(_LAUNCH, folder, pocl().spec, text, kernel)
    return _of_groups(kernel, folder)


def _run(program: str, folder: Path, *arguments: str) -> None:
    """Run a program in a process of its own: PoCL reads the folder of its cache when it starts."""
    command, environment = [sys.executable, "-c", program, *arguments], {**os.environ, "POCL_CACHE_DIR": str(folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _of_groups(kernel: str, folder: Path) -> list[list[str]]:
    libraries = [*folder.rglob(f"{kernel}.so")]
    assert libraries, "PoCL keeps what it compiles"
    return [loop for library in libraries for loop in _loops(library, f"_pocl_kernel_{kernel}_workgroup")]


def _loops(library: Path, function: str) -> Iterator[list[str]]:
    disassembly = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", library], capture_output=True, text=True, check=True
    )
    body = disassembly.stdout.partition(f"<{function}>:\n")[2].partition("\n\n")[0]
    lines = [(int(match[1], 16), match[2]) for match in map(_LINE.match, body.splitlines()) if match]
    jumps = [(at, int(match[1], 16)) for at, text in lines if (match := _JUMP.match(text))]
    spans = [(target, at) for at, target in jumps if lines[0][0] <= target <= at]
    for first, last in spans:
        if not any(first <= start and end <= last for start, end in spans if (start, end) != (first, last)):
            yield [text for at, text in lines if first <= at <= last]
