"""The C peers of all labs: their messages, and when they are built anew. Each lab's own tests check its results."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofbook.devices.host import processors
from roofbook.errors import UsageError
from roofbook.peers import cc, openmp
from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.spec.plan import Variant, missing

from ..labs.c_program import LABS as LABS_WITH_ONE
from ..labs.c_program import c_peer, error_beyond_allowed, make, needs_compiler

LABS = [pytest.param(registry.get(name), id=name) for name in LABS_WITH_ONE]


def smallest(lab: Lab) -> str:
    return lab.cases("test")[-1].name


@needs_compiler
@pytest.mark.parametrize("lab", LABS)
def test_outputs_are_poisoned_until_it_runs_and_a_second_run_is_right(lab: Lab) -> None:
    program, case, variant = make(lab, smallest(lab))
    inputs, outputs = lab.inputs(case, seed=5), program.outputs()
    for name, out in outputs.items():
        is_prepared = (out == inputs[name]) if name in inputs else (np.isnan(out) | (out == -1))
        assert is_prepared.all(), name
    if not {*outputs} & {*inputs}:  # where one goes on from what was given, a second run goes on from the first
        program.run()
    assert error_beyond_allowed(lab, program, case, variant) <= 0


@needs_compiler
@pytest.mark.parametrize("march", ["-march=x86-64", "-march=haswell"])
@pytest.mark.parametrize("lab", LABS)
def test_a_program_is_right_with_shorter_vectors(lab: Lab, march: str, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").is_file() else ""
    if " avx2 " not in flags:
        pytest.skip("only an x86 processor with AVX2 runs all of them")
    monkeypatch.setattr(cc, "FAST", ("-O3", march, "-ffast-math"))
    program, case, variant = make(lab, smallest(lab))
    assert march in program.facts()["flags"] and error_beyond_allowed(lab, program, case, variant) <= 0


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
    for lab in map(registry.get, LABS_WITH_ONE):
        program, case, variant = make(lab, smallest(lab))
        assert program.facts()["threads"] == 1 and "-fopenmp" not in program.facts()["flags"]
        assert program.facts()["note"] == "without OpenMP, one thread: cc exited with 1: error: no OpenMP here"
        assert error_beyond_allowed(lab, program, case, variant) <= 0


@needs_compiler
def test_facts_tell_threads_and_flags() -> None:
    lab = registry.get(LABS_WITH_ONE[0])
    program, *_ = make(lab, smallest(lab))
    facts = program.facts()
    assert facts["threads"] == (processors() if cc.openmp_flags()[0] else 1) and "-O3" in facts["flags"]


def test_a_missing_compiler_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    reason = "no C compiler: CC=no-such-compiler is not on the PATH; install one or set CC"
    for lab in map(registry.get, LABS_WITH_ONE):
        variant = c_peer(lab)
        assert variant and missing(variant) == lab.skip_reason(variant, lab.case(smallest(lab))) == reason
        with pytest.raises(cc.NoCompiler, match=f"^{reason}$"):
            make(lab, smallest(lab))
        assert missing(lab.variant(lab.best)) is None


@pytest.mark.parametrize(("command", "lacks"), [('gcc "', "closing quotation"), ("gcc \\", "escaped character")])
def test_a_compiler_in_open_quotation_marks_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, command: str, lacks: str
) -> None:
    monkeypatch.setenv("CC", command)
    for lab in map(registry.get, LABS_WITH_ONE):
        variant = c_peer(lab)
        assert variant
        with pytest.raises(UsageError, match=f"^{re.escape(f'CC={command} is no command: no {lacks}')}$"):
            lab.skip_reason(variant, lab.case(smallest(lab)))


def test_a_changed_program_or_header_is_another_cell(tmp_path: Path) -> None:
    variants = [c_peer(registry.get(name)) for name in LABS_WITH_ONE]
    plan: Any = next(v.plan for v in variants if v and len(v.plan.sources) > 1)  # type: ignore[attr-defined]
    for at, source in enumerate(plan.sources):
        copy = tmp_path / source.name
        shutil.copy(source, copy)
        sources = [*plan.sources[:at], copy, *plan.sources[at + 1 :]]
        prints = []
        for addition in ("", "\nstatic int more;\n"):
            copy.write_text(copy.read_text() + addition)
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
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    row = openmp.with_slack(values)
    assert row.dtype == np.float32 and row[:6].tolist() == list(range(6))
    assert len(row) == 6 + openmp.SLACK and not row[6:].any()
