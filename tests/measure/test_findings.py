"""Findings are read from the output of tools: Oclgrind's real messages, and compute-sanitizer's examples in its manual."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofbook import strict_json
from roofbook.measure import findings, sanitizer_record
from roofbook.measure.checked_runnable import MOST_TEXT
from roofbook.measure.findings import Defect, SourceLine
from roofbook.measure.messages import has_shape
from roofbook.measure.sanitize import TOOLS, CheckedVariant, ToolOutcome
from roofbook.report import sanitizer_text
from roofbook.spec import registry

OCLGRIND = """
Write-write data race at global memory address 0x1b000000002d60
\tKernel: fused
\t
\tFirst entity:  Global(2,0,0) Local(2,0,0) Group(0,0,0)
\t  store <16 x float> %sub347, <16 x float> addrspace(1)* %91, align 4, !dbg !338, !tbaa !126
\tAt line 84 (column 49) of kernels/vectors.k:
\t  (source not available)
\t
\tSecond entity: Global(1,0,0) Local(1,0,0) Group(0,0,0)
\t  store <16 x float> %sub347, <16 x float> addrspace(1)* %91, align 4, !dbg !338, !tbaa !126
\tAt line 84 (column 49) of kernels/vectors.k:
\t  (source not available)
\t

Work-group divergence detected (barrier)
\tKernel:     k
\tWork-group: (1,0,0)
\tOnly 3 out of 16 work-items executed barrier
\t  tail call spir_func void @_Z7barrierj(i32 noundef 1) #6, !dbg !50
\tAt line 204 (column 14) of kernels/more.inc:
\t  (source not available)
\t

Invalid read of size 4 at global memory address 0x2000000000100
\tKernel: k
\tEntity: Global(36,0,0) Local(4,0,0) Group(2,0,0)
\t  %0 = load i32, i32 addrspace(1)* %arrayidx.i, align 4, !dbg !31, !tbaa !41
\tAt line 7 (column 10) of kernels/more.inc:
\t  (source not available)
\t

Invalid read of size 4 at global memory address 0x2000000000104
\tKernel: k
\tEntity: Global(37,0,0) Local(5,0,0) Group(2,0,0)
\t  %0 = load i32, i32 addrspace(1)* %arrayidx.i, align 4, !dbg !31, !tbaa !41
\tAt line 7 (column 10) of kernels/more.inc:
\t  (source not available)
\t

Index (4) exceeds static array size (4)
\tKernel: k
\tEntity: Global(20,0,0) Local(4,0,0) Group(1,0,0)
\t  store i32 3, i32* %arrayidx4, align 4
\tDebugging information not available.
\t
/usr/lib/python3/warnings.py:1: UserWarning: of no kernel
"""
FATAL = """
OCLGRIND FATAL ERROR (/deps/Oclgrind/src/plugins/Uninitialized.cpp:1805)
Unsupported instruction: freeze
\tKernel: dense
\tEntity: Global(0,0,0) Local(0,0,0) Group(0,0,0)
\t  %conv.frozen = freeze i32 %conv
\tDebugging information not available.
\t
\t
"""


def test_messages_of_oclgrind_are_counted_by_defect_and_line() -> None:
    included_line = SourceLine("kernels/more.inc", 7)
    assert findings.of_oclgrind(OCLGRIND) == {
        Defect("write-write data race in global memory", "fused", (SourceLine("kernels/vectors.k", 84),)): 1,
        Defect("barrier that not all work-items of a group reach", "k", (SourceLine("kernels/more.inc", 204),)): 1,
        Defect("read of 4 bytes out of bounds in global memory", "k", (included_line,)): 2,
        Defect("index out of bounds of an array of 4", "k", ()): 1,
    }
    assert findings.failure_of_oclgrind(OCLGRIND) is None and findings.stopped_at(OCLGRIND) is None


def test_a_limit_of_oclgrind_is_no_finding() -> None:
    assert findings.of_oclgrind(FATAL) == {}
    assert findings.failure_of_oclgrind(FATAL) == "Unsupported instruction: freeze"


def test_the_message_that_oclgrind_stops_logging_is_recognised() -> None:
    assert findings.stopped_at("\nOclgrind: 1000 errors generated - suppressing further errors\n\n") == 1000


TODAY = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at fused+0x70 in /work/kernels/fused.k:77
=========     by thread (1,0,0) in block (0,0,0)
=========     Address 0x7f1f3e000004 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f1f3e000000 of size 4 bytes
=========
========= Invalid __global__ write of size 4 bytes
=========     at fused+0x70 in /work/kernels/fused.k:77
=========     by thread (2,0,0) in block (0,0,0)
=========     Address 0x7f1f3e000008 is out of bounds
=========
========= Invalid __shared__ read of size 8 bytes
=========     at tile(float *, int)+0x90 in /work/kernels/tile.inc:5
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x5 is misaligned
=========
========= Barrier error detected. Divergent thread(s) in warp.
=========     at tile(float *, int)+0xb0 in /work/kernels/tile.inc:9
=========     by thread (0,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 4 errors
"""
RACES = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at sums(int *, int *)+0x90 in /work/kernels/sums.k:18
=========     and Read access at sums(int *, int *)+0xb0 in /work/kernels/sums.k:27 [508 hazards]
=========     and Write access at sums(int *, int *)+0x90 in /work/kernels/sums.k:18 [4 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)
"""
BEFORE = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at 0x160 in /work/kernels/fused.k:34:fused
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x87654320 is out of bounds
=========
========= Invalid __global__ read of size 4 bytes
=========     at 0x30 in no_lines(int*)
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x87654320 is out of bounds
=========
========= ERROR: Race reported between Read access at 0x6360 in /work/kernels/sums.k:12:sums(int const*, int)
=========     and Write access at 0x1fe0 in /work/kernels/sums.k:63:sums(int const*, int) [1088 hazards]
=========
"""


def found(kind: str, kernel: str, *places: tuple[str, int]) -> Defect:
    return Defect(kind, kernel, tuple(SourceLine(f"/work/kernels/{file}", line) for file, line in places))


OUT_OF_BOUNDS = "{} of 4 bytes out of bounds in global memory"
OF_TODAY = {
    found(OUT_OF_BOUNDS.format("write"), "fused", ("fused.k", 77)): 2,
    found("read of 8 bytes at a misaligned address in shared memory", "tile", ("tile.inc", 5)): 1,
    found("barrier error detected. Divergent thread(s) in warp", "tile", ("tile.inc", 9)): 1,
}
OF_RACES = {
    found("read-write data race in shared memory", "sums", ("sums.k", 18), ("sums.k", 27)): 508,
    found("write-write data race in shared memory", "sums", ("sums.k", 18)): 4,
}
OF_BEFORE = {
    found(OUT_OF_BOUNDS.format("read"), "fused", ("fused.k", 34)): 1,
    found(OUT_OF_BOUNDS.format("read"), "no_lines"): 1,
    found("read-write data race in shared memory", "sums", ("sums.k", 12), ("sums.k", 63)): 1088,
}
INLINED = """========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block.
=========     at void meet<(int)0, (int)192>()+0x630 in /work/kernels/deep_halo.inc:45
=========     by thread (96,0,0) in block (9,0,0)
=========         Device Frame: deep_halo+0x630 in /work/kernels/deep_halo.cu:89
=========
========= Barrier error detected. Divergent thread(s) in block.
=========     at sync_roles()+0x2100 in /work/kernels/producer.cu:64
=========     by thread (0,0,0) in block (1,0,0)
=========
========= Barrier error detected. Divergent thread(s) in warp.
=========     at void meet<(int)1, (int)160>()+0x680 in /work/kernels/deep_halo.inc:45
=========     by thread (0,0,0) in block (2,0,0)
=========
========= Error: Race reported between Write access at deep_halo+0xea0 in /work/kernels/deep_halo.cu:101
=========     and Read access at add_up(const float (*)[16], int)+0x33c0 in /work/kernels/deep_halo.inc:52 [144 hazards]
=========
========= Invalid __shared__ write of size 16 bytes
=========     at cp_async_16(void *, const void *)+0x390
=========     by thread (1,0,0) in block (0,0,0)
=========     Address 0x82 is misaligned
=========         Device Frame: copies(float *)
=========
========= ERROR SUMMARY: 4 errors
"""
"""Reports about functions that are inlined into a kernel, with the frame of the kernel and without it."""
OF_INLINED = {
    found(
        "barrier error detected. Divergent thread(s) in block", "deep_halo", ("deep_halo.inc", 45), ("deep_halo.cu", 89)
    ): 1,
    found("barrier error detected. Divergent thread(s) in block", "sync_roles", ("producer.cu", 64)): 1,
    found("barrier error detected. Divergent thread(s) in warp", "meet", ("deep_halo.inc", 45)): 1,
    found("read-write data race in shared memory", "deep_halo", ("deep_halo.cu", 101), ("deep_halo.inc", 52)): 144,
    found("write of 16 bytes at a misaligned address in shared memory", "copies"): 1,
}
NOTHING = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"


@pytest.mark.parametrize(
    ("report", "expected"),
    [(TODAY, OF_TODAY), (RACES, OF_RACES), (BEFORE, OF_BEFORE), (INLINED, OF_INLINED), (NOTHING, {})],
    ids=["today", "races", "before", "inlined", "nothing"],
)  # fmt: skip
def test_reports_of_compute_sanitizer(report: str, expected: dict[Defect, int]) -> None:
    assert findings.of_sanitizer(report) == expected


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("void (anonymous namespace)::copy<float>(float *)", "copy"),
        ("<unnamed>::copy(float *)", "copy"),
        ("nccl::copy", "nccl::copy"),
        ("<unknown>", "<unknown>"),
        ("(unknown)", "(unknown)"),
    ],
)
def test_kernels_of_libraries_have_a_name(function: str, name: str) -> None:
    first = f"========= Error: Race reported between Write access at {function}+0x90\n"
    race = f"{first}=========     and Read access at {function}+0xb0 [5 hazards]\n"
    assert [defect.kernel for defect in findings.of_sanitizer(race)] == [name]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_no_name_of_a_function_stops_the_reading(function: str) -> None:
    access = f"access at {function}"
    findings.of_sanitizer(
        f"========= Error: Race reported between Write {access}\n=========     and Read {access} [5 hazards]\n"
    )
    findings.of_sanitizer(f"========= Invalid __global__ read of size 4 bytes\n=========     at {function}\n")


HOSTILE = [
    "", "\0", "\x1b[2J", "\r", "\u202e", "\ufeff", "<script>", "[", "]", "(", "<", "+0x1 in ", " at ", "at 0x1 in ", "Frame:",
    ":", ":0", ":7", ":" + "9" * 5000, "[" + "9" * 5000 + " hazards]", "[1 hazard]", "/", "../" * 9, "x" * 5000, "\n", "\t",
    "\n\t", "=========", "=========     and ", "\u0663", "\x85", "\u2028", "Kernel: ", "OCLGRIND FATAL ERROR",
]  # fmt: skip
"""Pieces that a kernel may print into a report."""
REPORTS = (OCLGRIND, FATAL, TODAY, RACES, BEFORE, INLINED)


@st.composite
def changed_reports(draw: st.DrawFn) -> str:
    """Return a real report in which pieces are put in, taken out or moved."""
    text = draw(st.sampled_from(REPORTS))
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 60)))
        piece = draw(st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=["Cs"]), max_size=9)))
        text = text[:start] + piece + draw(st.sampled_from(["", text[start:end]])) + text[end:]
    return text


@given(changed_reports())
def test_any_output_is_read_and_its_findings_are_short_printable_lines(text: str) -> None:
    defects = findings.of_oclgrind(text) + findings.of_sanitizer(text)
    for line in (findings.failure_of_oclgrind(text), *(part for d in defects for part in (d.kind, d.kernel))):
        assert line is None or (line.isprintable() and len(line) <= MOST_TEXT)
    findings.stopped_at(text)
    lab = registry.get("lbm")
    check = CheckedVariant(lab.variant("fused"), lab.cases("test")[0], "x", defects, failure="-")
    for finding in sanitizer_text.findings(check, Path("/work")):
        assert finding.replace("\n", "").isprintable()
    outcomes = {tool: ToolOutcome(defects) for tool in TOOLS}
    check = CheckedVariant(lab.variant("fused"), lab.cases("test")[0], "x", tools=outcomes, failure="-")
    written = json.loads(strict_json.dumps(sanitizer_record._variant(check)))
    assert has_shape(written, sanitizer_record._VARIANT)
    numbers = [finding["count"] for finding in written["tools"]["memcheck"]]
    assert sum(numbers) == defects.total() and len(numbers) <= sanitizer_record.MOST_FINDINGS + 1


@pytest.mark.parametrize(
    "piece",
    ["at ", "at+0x1 in ", "at 0x1 in ", "Frame:+0x1 in :", "+0x1 in at ", "at 0x", "[1", "_", "Frame: f+0x1 in a"],
)
def test_a_long_line_takes_time_in_proportion_to_its_length(piece: str) -> None:
    """With patterns that go back, these lines would take hours."""
    line = piece * (200_000 // len(piece))
    start = time.process_time()
    findings.of_sanitizer(f"========= Invalid __{line}\n=========     at :1:{line}\n=========     :1{line}\n")
    findings.of_sanitizer(
        f"========= Error: Race reported between Read access {line}\n=========     and Write access at {line}\n"
    )
    findings.of_oclgrind(f"{line}\n\tKernel: k\n\tAt line 1 (column 1) of {line}\n")
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    "file", ["a\0b", "x" * 5000, "/" + "x/" * 3000, "link", "folder", "\udc80", "", "/proc/self/mem", "large"]
)
def test_a_file_that_cannot_be_read_has_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("link")
    (tmp_path / "folder").mkdir()
    (tmp_path / "large").write_bytes(b"secret\n" * (sanitizer_text.MOST_BYTES // 7 + 1))
    lab = registry.get("lbm")
    defects = Counter(
        {Defect("kind", "", (SourceLine(file, 1), SourceLine(__file__, 0), SourceLine(__file__, 10**8))): 1}
    )
    check = CheckedVariant(lab.variant("fused"), lab.cases("test")[0], "x", defects)
    (text,) = sanitizer_text.findings(check, tmp_path)
    head, *lines = text.split("\n")
    assert head == "kind" and [line.rpartition(":")[2] for line in lines] == ["1", "0", str(10**8)]
    assert all(line.isprintable() and len(line) < 600 for line in lines)
