"""The C peers: right on odd sizes with any number of threads, wrong once their C forgets something, and what they say."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofbook.devices.find import host_cpu
from roofbook.devices.host import processors
from roofbook.peers import cc, missing, openmp
from roofbook.spec import registry
from roofbook.spec.lab import Case, Variant

needs_compiler = pytest.mark.skipif(cc.compiler() is None, reason=str(cc.missing()))
CASES = {
    "cnn": ["3to5ch-7x34-k3", "2to3ch-5x33-k6", "5to130ch-9x75-k5", "1to1ch-2x2-k1"],
    "convpool": ["1x1x2x2-k1", "3x2x7x7-k5", "9x70x37x37-k3", "5x7x9x9-k3-w0-x0"],
    "stencil": ["3x3", "5x13", "37x53", "7x1000"],
    "lenet": ["batch-2", "batch-3"],
}
EACH = [pytest.param(lab, name, id=f"{lab}-{name}") for lab, names in CASES.items() for name in names]


def made(lab: str, name: str, plan: Any = None) -> tuple[openmp.CProgram, Case, Variant]:
    """The lab's C peer on a case, or another plan in its place."""
    found = registry.get(lab)
    variant, case = found.variant("openmp"), found.case(name)
    program = (plan or variant.plan)(host_cpu(), variant, case, found.inputs(case, seed=5))
    assert isinstance(program, openmp.CProgram)
    program.reset()
    return program, case, variant


def over(lab: str, program: openmp.CProgram, case: Case, variant: Variant) -> float:
    """The error of one run beyond what is allowed: at most 0 where it is right."""
    found = registry.get(lab)
    reference = found.reference(case, found.inputs(case, seed=5))
    program.run()
    error, bound, _ = found.check(case, variant, program.outputs(), reference)
    return error - bound


@needs_compiler
@pytest.mark.parametrize(("lab", "name"), EACH)
def test_a_program_is_right_with_any_number_of_threads(lab: str, name: str) -> None:
    for threads in (1, 3):
        program, case, variant = made(lab, name)
        program.threads = threads
        assert over(lab, program, case, variant) <= 0


@needs_compiler
@pytest.mark.parametrize("lab", CASES)
def test_outputs_are_poisoned_until_it_runs_and_a_second_run_is_right(lab: str) -> None:
    program, case, variant = made(lab, CASES[lab][1])
    if lab == "stencil":  # g is given, and a second run goes on from the first
        assert (program.outputs()["g"] == registry.get(lab).inputs(case, seed=5)["g"]).all()
    else:
        assert all((np.isnan(out) | (out == -1)).all() for out in program.outputs().values())
        program.run()
    assert over(lab, program, case, variant) <= 0


FORGETTING = [
    ("cnn", "3to5ch-7x34-k3", "= (floats){0} + l->bias[filter]", "= (floats){0}", "the bias"),
    ("cnn", "3to5ch-7x34-k3", "float largest = 0", "float largest = -1e30f", "ReLU"),
    ("cnn", "3to5ch-7x34-k3", "c < l->channels", "c < l->channels - 1", "a channel"),
    ("convpool", "9x70x37x37-k3", "i + edge", "i", "the frame"),
    ("convpool", "9x70x37x37-k3", "counts[f] = count", "counts[f] = count - 1", "the last of a list"),
    ("stencil", "37x53", "pass < passes", "pass < passes - 1", "a pass"),
    ("stencil", "37x53", "b + at + 2 * width", "b + at + width", "a row"),
    ("lenet", "batch-3", "p < TAPS", "p < TAPS - 1", "a row of taps"),
    ("lenet", "batch-3", "i < side; i++", "i < side - 1; i++", "the last row"),
]


@needs_compiler
@pytest.mark.parametrize(
    ("lab", "name", "text", "wrong"), [pytest.param(*each[:4], id=f"{each[0]}, {each[4]}") for each in FORGETTING]
)
def test_a_program_that_forgets_something_is_found_out(
    lab: str, name: str, text: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    plan: Any = registry.get(lab).variant("openmp").plan
    written = plan.sources[0].read_text()
    assert written.count(text) == 1
    changed = tmp_path / "openmp.c"
    changed.write_text(written.replace(text, wrong))
    program, case, variant = made(lab, name, type("Changed", (plan,), {"sources": (changed,)}))
    assert not over(lab, program, case, variant) <= 0


@needs_compiler
@pytest.mark.parametrize("march", ["-march=x86-64", "-march=haswell"])
@pytest.mark.parametrize("lab", ["cnn", "convpool", "lenet"])
def test_a_program_is_right_with_shorter_vectors(lab: str, march: str, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").is_file() else ""
    if " avx2 " not in flags:
        pytest.skip("only an x86 processor with AVX2 runs all of them")
    monkeypatch.setattr(cc, "FAST", ("-O3", march, "-ffast-math"))
    program, case, variant = made(lab, CASES[lab][0])
    assert march in program.facts()["flags"] and over(lab, program, case, variant) <= 0


@needs_compiler
def test_a_compiler_without_openmp_gives_one_thread_and_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = tmp_path / "cc"
    refuse = 'case "$*" in *-fopenmp*) echo "error: no OpenMP here" >&2; exit 1;; esac'
    lacking.write_text(f'#!/bin/sh\n{refuse}\nexec {cc.compiler()} "$@"\n')
    lacking.chmod(0o755)
    monkeypatch.setenv("CC", str(lacking))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for lab, names in CASES.items():
        program, case, variant = made(lab, names[1])
        assert program.facts()["threads"] == 1 and "-fopenmp" not in program.facts()["flags"]
        assert program.facts()["note"] == "without OpenMP, one thread: cc exited with 1: error: no OpenMP here"
        assert over(lab, program, case, variant) <= 0


@needs_compiler
def test_facts_tell_threads_and_flags() -> None:
    program, *_ = made("stencil", "5x13")
    facts = program.facts()
    assert facts["threads"] == (processors() if cc.openmp_flags()[0] else 1) and "-O3" in facts["flags"]


def test_a_missing_compiler_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    said = "no C compiler: CC=no-such-compiler is not on the PATH; install one or set CC"
    for lab, names in CASES.items():
        found = registry.get(lab)
        variant = found.variant("openmp")
        assert missing(variant) == found.skip_reason(variant, found.case(names[-1])) == said
        with pytest.raises(cc.NoCompiler, match=f"^{said}$"):
            made(lab, names[-1])
        assert missing(found.variant(found.best)) is None


def test_a_changed_program_or_header_is_another_cell(tmp_path: Path) -> None:
    variant = registry.get("cnn").variant("openmp")
    plan: Any = variant.plan
    for at, source in enumerate(plan.sources):
        copy = tmp_path / source.name
        shutil.copy(source, copy)
        sources = [*plan.sources[:at], copy, *plan.sources[at + 1 :]]
        prints = []
        for more in ("", "\n"):
            copy.write_text(copy.read_text() + more)
            changed = type("OpenMP", (plan,), {"sources": tuple(sources), "__module__": plan.__module__})
            prints.append(Variant("openmp", None, None, changed, "", "", role="peer").fingerprint())
        assert prints[0] != prints[1]


@needs_compiler
def test_a_changed_header_is_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    header, source = tmp_path / "vectors.h", tmp_path / "answer.c"
    source.write_text('#include "vectors.h"\nint answer(void) { return ANSWER; }\n')
    monkeypatch.setattr(cc, "HEADER", header)
    for answer in (42, 43):
        header.write_text(f"#define ANSWER {answer}\n")
        assert cc.build(source).answer() == answer


def test_values_with_slack_begin_as_they_were() -> None:
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    row = openmp.with_slack(given)
    assert row.dtype == np.float32 and row[:6].tolist() == list(range(6))
    assert len(row) == 6 + openmp.SLACK and not row[6:].any()
