"""Names of the CPU in PoCL's structures, the functions that PoCL inlines, and where its threads run."""

from __future__ import annotations

import ctypes
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from roofbook.devices import find as all_devices
from roofbook.devices import opencl, pocl_probe


def test_a_cpu_is_named_by_its_model_and_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    info = "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu\n"
    monkeypatch.setattr(opencl, "open", lambda path: io.StringIO(info), raising=False)
    assert opencl._cpu_name(16) == "Some CPU, 16 cores" and opencl._cpu_name(1) == "Some CPU, 1 core"


def test_a_cpu_without_a_model_name_still_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl, "open", lambda path: io.StringIO("CPU part\t: 0xd0c\n"), raising=False)
    assert opencl._cpu_name(2)[: -len(", 2 cores")]


class Structure:
    """A device structure in memory as PoCL has it: pointers and numbers, one of the pointers to the CPU's name."""

    def __init__(self, name: bytes, version: str = "OpenCL 3.0 pocl HSTR: pthread-x86_64-pc-linux-gnu-generic") -> None:
        self.version = version
        self.memory = (ctypes.c_uint64 * 600)()
        self.name = ctypes.create_string_buffer(name, 16)
        self.long_name = ctypes.create_string_buffer(b"pthread-generic")
        self.memory[3], self.memory[5] = 3, ctypes.addressof(self.long_name)
        self.memory[40] = ctypes.addressof(self.name)
        self.int_ptr = ctypes.addressof(self.memory)
        self.before = list(self.memory)

    def changed(self) -> dict[int, bytes]:
        return {i: ctypes.string_at(now) for i, now in enumerate(self.memory) if now != self.before[i]}


NAMES = ("generic", "znver3", "rocketlake", "skylake-avx512", "x86-64-v4")


def version_of(name: str) -> str:
    return f"OpenCL 3.0 pocl HSTR: pthread-x86_64-pc-linux-gnu-{name}"


@pytest.mark.parametrize("cpu_name", NAMES)
def test_the_name_of_the_cpu_is_replaced_and_nothing_else(cpu_name: str) -> None:
    structure = Structure(cpu_name.encode(), version_of(cpu_name))
    assert pocl_probe.own_name(structure) == cpu_name
    assert pocl_probe.rename(structure, "haswell") and structure.changed() == {40: b"haswell"}
    assert pocl_probe.own_name(structure) == cpu_name, "PoCL's own choice is remembered"
    assert pocl_probe.rename(structure, "haswell") and structure.changed() == {40: b"haswell"}


@pytest.mark.parametrize("cpu_name", NAMES)
def test_a_name_that_fits_is_not_touched(cpu_name: str) -> None:
    structure = Structure(cpu_name.encode(), version_of(cpu_name))
    assert pocl_probe.rename(structure, cpu_name) and structure.changed() == {}


@pytest.mark.parametrize(
    "structure",
    [
        Structure(b"generic-arm"),
        Structure(b"generic", version_of("znver3")),
        Structure(b"generic", "OpenCL 3.0 CUDA-generic"),
    ],
    ids=["another name", "two names", "another platform"],
)
def test_nothing_is_touched_where_the_name_is_not_found(structure: Structure) -> None:
    assert pocl_probe.own_name(structure) == ""
    assert not pocl_probe.rename(structure, "haswell") and structure.changed() == {}


def test_the_search_ends_at_memory_that_is_not_to_be_read() -> None:
    structure = Structure(b"generic")
    structure.int_ptr = 8
    assert not pocl_probe.rename(structure, "haswell") and structure.changed() == {}


BUILT_IN = """
__kernel void roots(__global float *x) {
  const size_t i = get_global_id(0);
  vstore16(fma(sqrt(vload16(i, x)), native_rsqrt(vload16(i, x)), fmax(vload16(i, x), 0.5f)), i, x);
}
"""


def test_pocl_inlines_its_built_in_functions(tmp_path: Path) -> None:
    """In a kernel for this CPU no function is left to call: the library that PoCL has loaded names none of them."""
    script = (
        "import numpy as np; from roofbook.devices.find import host_cpu; device = host_cpu(); queue = device.queue(); "
        f"kernel = device.build({BUILT_IN!r}).kernel('roots'); "
        "queue.launch(kernel, (1,), (1,), device.upload(np.ones(16, np.float32))); queue.finish()"
    )
    if "pocl" not in all_devices.host_cpu().identity()["platform"].lower():
        pytest.skip("the CPU's OpenCL is not PoCL")
    if all_devices.host_cpu().warning:
        pytest.skip(all_devices.host_cpu().warning)
    subprocess.run([sys.executable, "-c", script], env={**os.environ, "POCL_CACHE_DIR": str(tmp_path)}, check=True)
    (library,) = tmp_path.rglob("roots.so")
    assert not re.findall(rb"_Z\d+\w*(?:sqrt|vload16|vstore16|fma|fmax)\w*", library.read_bytes())


BOUND = """
import os, sys
from pathlib import Path

def allowed(task):
    try:
        return len(os.sched_getaffinity(int(task.name)))
    except OSError:  # it has ended since
        return sys.maxsize

os.sched_setaffinity(0, eval(sys.argv[1]) or os.sched_getaffinity(0))
from roofbook.devices.find import host_cpu
queue = (device := host_cpu()).queue()
queue.finish()
tasks = Path("/proc/self/task").iterdir()
print("threads" in device.identity(), *map(allowed, tasks))
"""


def test_pocl_binds_its_threads_where_all_processors_are_ours_and_the_user_says_nothing() -> None:
    cpu, everyone = all_devices.host_cpu(), os.sched_getaffinity(0)
    if "pocl" not in cpu.identity()["platform"].lower() or everyone != set(range(os.cpu_count() or 1)):
        pytest.skip("the CPU's OpenCL is not PoCL, or not all processors are ours")
    if len(everyone) < 2:
        pytest.skip("with one processor all threads are on it")
    plain = {name: value for name, value in os.environ.items() if name != opencl.AFFINITY}

    def started(of: set[int], **changed: str) -> tuple[bool, int]:
        """Return whether the device reports bound threads, and their number, in a process that may use the processors `of`."""
        command = [sys.executable, "-c", BOUND, repr(of)]
        words = subprocess.run(
            command, env={**plain, **changed}, check=True, capture_output=True, text=True
        ).stdout.split()
        return words[0] == "True", sum(int(allowed) < len(of or everyone) for allowed in words[1:])

    assert started(set()) == (True, len(everyone))
    assert started(set(), **{opencl.AFFINITY: "0"}) == (False, 0)
    assert started({max(everyone)}) == (False, 0)
