"""The CPU that PoCL compiles for is chosen by machine code, whatever LLVM calls it and whatever features the system lists."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest

from roofbook import report
from roofbook.analysis.case_data import CaseData
from roofbook.devices import find, pocl_cpu, pocl_probe
from roofbook.devices.pocl_cpu import CpuChoice, ProbeOutcome

from ..report.rows import frame, row

MADE_UP = Path(__file__).parents[1] / "made_up_cpu"
AVX2 = {"avx", "avx2", "bmi2", "f16c", "fma", "popcnt", "sse4_1", "ssse3"}
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
INLINED, CALLING, DIES = ProbeOutcome((), True), ProbeOutcome(("sqrt",), True), None


def chosen(own_cpu: str, flags: Collection[str], **outcomes: ProbeOutcome | None) -> tuple[CpuChoice, list[str]]:
    """Return the choice where the probe does so for each CPU, `_` for `-`, else dies; and the CPUs that were tried."""
    tried: list[str] = []

    def probe(name: str, how: str) -> ProbeOutcome | None:
        tried.append(name)
        return outcomes.get(name.replace("-", "_"), DIES)

    return pocl_cpu.choose(own_cpu, flags, pocl_cpu.LIBRARIES, probe), tried


@pytest.mark.parametrize("own_cpu", ["cascadelake", "sapphirerapids", "a-name-of-tomorrow"])
def test_pocls_own_choice_stays_where_its_functions_are_inlined(own_cpu: str) -> None:
    choice, tried = chosen(own_cpu, AVX512, skylake_avx512=INLINED, **{own_cpu.replace("-", "_"): INLINED})
    assert (choice.name, tried, choice.identity, choice.warning) == (own_cpu, [own_cpu], "", "")


@pytest.mark.parametrize("own_cpu", ["rocketlake", "znver3", "icelake-client", "x86-64-v4"])
@pytest.mark.parametrize("outcome", [CALLING, DIES, ProbeOutcome((), False)], ids=["calls", "dies", "wrong result"])
def test_another_cpu_is_taken_where_it_does_not_fit(own_cpu: str, outcome: ProbeOutcome | None) -> None:
    choice, _ = chosen(own_cpu, AVX512, skylake_avx512=INLINED, haswell=INLINED, **{own_cpu.replace("-", "_"): outcome})
    assert (choice.name, choice.calls, choice.identity) == ("skylake-avx512", (), "skylake-avx512")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (AVX512, "skylake-avx512"),
        (AVX512 - {"avx512vl"}, "haswell"),
        (AVX2, "haswell"),
        (AVX2 - {"bmi2"}, "ivybridge"),
        ({"avx", "popcnt"}, "sandybridge"),
        ({"avx", "fma4", "xop", "f16c", "popcnt"}, "bdver1"),
        ({"sse4_1", "ssse3"}, "penryn"),
        ({"ssse3"}, "core2"),
        ({"sse2", "xavx2"}, "x86-64"),
    ],
)
def test_a_cpu_that_llvm_has_no_name_for_is_taken_by_its_features(flags: Collection[str], expected: str) -> None:
    every = {name.replace("-", "_"): INLINED for name, _ in pocl_cpu.LIBRARIES}
    choice, tried = chosen(pocl_cpu.GENERIC, flags, **every)
    assert (choice.name, tried, choice.identity) == (expected, [expected], "")


def test_functions_that_stay_calls_are_said() -> None:
    choice, _ = chosen("rocketlake", {"sse2"}, rocketlake=CALLING, x86_64=CALLING)
    assert (choice.name, choice.calls) == ("rocketlake", ("sqrt",))
    assert pocl_cpu.CALLS in choice.identity and "rocketlake" in choice.warning and "sqrt" in choice.warning


def test_features_that_the_system_does_not_list_are_found_by_trying() -> None:
    choice, _ = chosen(pocl_cpu.GENERIC, {"sse2"}, skylake_avx512=INLINED)
    assert (choice.name, choice.warning) == ("skylake-avx512", "")


def test_where_no_probe_runs_the_features_decide_and_readers_are_told() -> None:
    choice, _ = chosen(pocl_cpu.GENERIC, AVX2)
    assert (choice.name, choice.is_known) == ("haswell", False) and "no probe" in choice.warning


def test_the_names_of_calls_are_read_in_a_library() -> None:
    library = (
        b"\0_Z8_cl_sqrtDv16_f\0_Z11_cl_vload16mPU8CLglobalKf\0_pocl_kernel_wide_workgroup\0_Z16_cl_native_rsqrtDv16_f\0"
    )
    assert pocl_probe.calls_of(library) == ["native_rsqrt", "sqrt", "vload16"]
    assert pocl_probe.calls_of(b"\0_pocl_kernel_wide_workgroup\0") == []


def test_a_table_names_the_lines_whose_kernels_call() -> None:
    identity = CpuChoice("rocketlake", "rocketlake", ("sqrt",)).identity
    provenance = json.dumps({"environment": {"device": {"compiled for": identity}}})
    rows = frame(row("a", 1e-3), row("b", 1e-3, provenance=provenance))
    notes = report.ladder(CaseData(rows, ["a", "b"], "256x256", bases=("a",))).notes
    assert [note for note in notes if "inlined no built-in function" in note and note.endswith(": b.")]
    notes = report.ladder(CaseData(rows[:1], ["a", "b"], "256x256", bases=("a",))).notes
    assert not [note for note in notes if "inlined" in note]


BUILDS = """
import sys
from roofbook.devices import opencl, pocl_cpu
pocl_cpu.choice = lambda device: pocl_cpu.CpuChoice("generic", sys.argv[1], ())
from roofbook.devices.find import host_cpu
device = host_cpu()
queue = device.queue()
queue.launch(device.build("__kernel void one(__global float *x) { x[0] = 1; }").kernel("one"), (1,), (1,), device.empty(64))
queue.finish()
"""


@pytest.mark.thorough
def test_what_pocl_keeps_is_of_the_cpu_that_was_named(tmp_path: Path) -> None:
    """PoCL's own cache does not tell two names apart: code for another CPU would be taken from it."""
    for number, name in enumerate(("skylake-avx512", "skylake", "skylake-avx512"), 1):
        done = made_up("", "", tmp_path, "-c", BUILDS, name)
        assert done.returncode == 0, done.stderr
        assert len([*tmp_path.rglob("one.so")]) == min(number, 2)


def made_up(name: str, flags: str, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a Python command on this machine as if its CPU had another name, or other features. Caches lie in `folder`."""
    if not any(getattr(device, "compiles_for", None) for device in find.devices("opencl")):
        pytest.skip("no PoCL")
    settings = {
        **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(MADE_UP), os.environ.get("PYTHONPATH")])),
        "ROOFBOOK_MADE_UP_CPU": name, "ROOFBOOK_MADE_UP_FLAGS": flags, "XDG_CACHE_HOME": str(folder / "cache"),
        "POCL_CACHE_DIR": str(folder / "pocl"),
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, *command], env=settings, cwd=Path(__file__).parents[2], capture_output=True, text=True
    )


SAYS = """
import json
from roofbook.devices.find import host_cpu
device = host_cpu()
before = device.identity()
parts = device.several(2) if device.alike > 1 else []
device.queue()
same = before == device.identity() and all(part.compiles_for == device.compiles_for for part in parts)
print(json.dumps([device.compiles_for, device.warning, before.get("compiled for", ""), same]))
"""


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("rocketlake", ""),
        ("no-such-cpu", ""),
        *(
            pytest.param(name, flags, marks=pytest.mark.thorough)
            for name, flags in [
                ("sapphirerapids", ""),
                ("znver3", ""),
                ("x86-64", ""),
                ("", "fpu sse2"),
                ("rocketlake", "fpu sse2 avx f16c popcnt"),
            ]
        ),
    ],
)
def test_on_a_made_up_cpu_functions_are_inlined_or_the_device_says_that_they_are_not(
    name: str, flags: str, tmp_path: Path
) -> None:
    done = made_up(name, flags, tmp_path, "-c", SAYS)
    assert done.returncode == 0, done.stderr
    (own_cpu, taken, calls, is_known, _), warning, identity, same = json.loads(done.stdout)
    assert own_cpu == name or not name
    assert is_known and taken and same and bool(warning) == bool(calls)
    assert identity == (
        "" if own_cpu in (taken, pocl_cpu.GENERIC) and not calls else taken + f", {pocl_cpu.CALLS}" * bool(calls)
    )
    listed = made_up(name, flags, tmp_path, "-m", "roofbook.cli", "devices").stdout
    assert ("calls its built-in functions" in " ".join(listed.split())) == bool(calls)


RUN = ("stencil", "fused", "7x48", "--scale", "test", "--no-page", "--device", "opencl:pocl")


@pytest.mark.parametrize(
    ("linker", "words"),
    [
        pytest.param("", r'Executable "ld" doesn\'t exist', id="none"),
        pytest.param(
            "echo cannot find -lm >&2; exit 1",
            r"linker command failed with exit code 1",
            id="fails",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            "kill -9 $$",
            r"(Killed|linker command|unable to execute command).*",
            id="is killed",
            marks=pytest.mark.thorough,
        ),
    ],
)
@pytest.mark.thorough
def test_without_a_linker_pocl_runs_no_kernel_and_says_so(
    linker: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that is not linked ends its process: it must not count as wrong, nor be tried for one CPU after another."""
    programs = tmp_path / "programs"
    programs.mkdir()
    if linker:
        (programs / "ld").write_text(f"#!/bin/sh\n{linker}\n")
        (programs / "ld").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    needed = r"a linker, `ld`, that works must be on the PATH \(Debian: apt-get install binutils\)"
    error = rf"PoCL cannot link kernels: {words}.*; {needed}"
    listed = made_up("", "", tmp_path, "-m", "roofbook.cli", "devices")
    assert listed.returncode == 0 and re.search(error, " ".join(listed.stdout.split()))
    answer = tmp_path / "my.k"
    answer.write_text(
        made_up("", "", tmp_path, "-m", "roofbook.cli", "exercise", "stencil", "fused", "--solution").stdout
    )
    for command in (
        ("rerun", *RUN, "--results", str(tmp_path / "results")),
        ("exercise", "stencil", "fused", "--check", str(answer), "--device", "opencl:pocl"),
    ):
        done = made_up("", "", tmp_path, "-m", "roofbook.cli", *command)
        assert done.returncode == 2 and re.search(error, done.stderr) and "Traceback" not in done.stderr + done.stdout


@pytest.mark.thorough
def test_tests_of_machine_code_hold_on_a_cpu_whose_name_does_not_fit(tmp_path: Path) -> None:
    """The tests pass, or are skipped with the reason."""
    chosen_tests = (
        "tests/devices/test_pocl.py",
        "tests/labs/lbm/test_machine_code.py",
        "tests/labs/lenet/test_machine_code.py",
    )
    done = made_up("rocketlake", "", tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen_tests)
    assert done.returncode == 0, done.stdout[-2000:]
    assert re.search(r"\d+ (passed|skipped)", done.stdout)
