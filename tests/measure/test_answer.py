"""An answer to an exercise as a reader gives it on the command line: right, wrong, dishonest, no kernel, or no file."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from roofbook.measure import answer, sampling, sandbox
from roofbook.measure.answer import SecretInputs
from roofbook.measure.kernel_process import RemoteRunnable
from roofbook.measure.policy import Policy
from roofbook.measure.verify import KernelRefused
from roofbook.process_keeper import descendants
from roofbook.spec import exercise, registry

from ..conftest import Command
from ..often import often

FILL = "*(GLOBAL float4 *)(g + k + WIDTH) = sum;"
HEAD = "KERNEL void flat(GLOBAL const float *RESTRICT r, GLOBAL const float *RESTRICT b, GLOBAL float *RESTRICT g)"
HONEST = "for (int i = 0; i < 4; i++) g[k + i + WIDTH] += PASSES * rsqrt(r[k + i] + b[k + i + 2 * WIDTH]);"
SYSCALL = (
    "#define SYS(n, a, b_, c, d_, e, f) ({ long r_; __asm__ volatile("
    '"mov %5, %%r10\\n mov %6, %%r8\\n mov %7, %%r9\\n syscall" : "=a"(r_) : "a"((long)(n)), "D"((long)(a)), '
    '"S"((long)(b_)), "d"((long)(c)), "r"((long)(d_)), "r"((long)(e)), "r"((long)(f)) '
    ': "rcx", "r11", "r10", "r8", "r9", "memory"); r_; })\n'
)
"""A macro by which a kernel on an x86 CPU calls the system."""
x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the kernel calls the system as on x86")


def kernel_of(body: str) -> str:
    """A kernel for the exercise: a work-item has the four elements from k on."""
    return f"{HEAD} {{\n  const int k = GLOBAL_ID(0) * 4;\n  if (k >= COUNT) return;\n  {body}\n}}\n"


@pytest.fixture
def kernel(command: Command, tmp_path: Path) -> Path:
    """The solution of the stencil's exercise, as the command prints it."""
    code, out, _ = command("exercise", "stencil", "fused", "--solution")
    assert code == 0 and FILL in out
    (tmp_path / "my.k").write_text(out)
    return tmp_path / "my.k"


@pytest.fixture
def few_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cases in place of all that the exercise has: each is compiled anew."""
    all_parts = exercise.exercises(registry.get("stencil"))
    short = replace(all_parts, write=tuple(replace(one, cases=("6x1024", "7x48")) for one in all_parts.write))
    monkeypatch.setattr(exercise, "exercises", lambda _: short)


def judged(command: Command, kernel: Path, words: str = "", instead: str = "", *options: str) -> tuple[int, str]:
    text = kernel.read_text()
    assert words in text
    kernel.write_text(text.replace(words, instead) if words else text)
    code, out, err = command(
        "exercise", "stencil", "fused", "--check", str(kernel), "--device", "opencl:pocl", *options
    )
    assert err == ""
    return code, " ".join(out.split())


def test_a_right_answer_is_timed_against_the_step(command: Command, kernel: Path, short_samples: None) -> None:
    code, printed = judged(command, kernel)
    assert code == 0 and printed.startswith("fused: right on 6x1024, 7x48, 3x4, 34x100, 1024x1024 ")
    assert re.search(
        r"per pass on 1024x1024: in this run .*(as fast .*as|as slow as|noise .*of) the book's `fused`", printed
    )


def test_each_wrong_case_is_named_with_position_and_error(command: Command, kernel: Path) -> None:
    only = "#if WIDTH == 48\n#define LAST 1\n#else\n#define LAST 0\n#endif\nKERNEL void flat"
    kernel.write_text(kernel.read_text().replace("pass < PASSES", "pass < PASSES - LAST"))
    code, printed = judged(command, kernel, "KERNEL void flat", only, "--no-time")
    assert code == 1 and printed.startswith("fused: not right on 7x48: wrong result: error ")
    assert re.search(r"; g\[\d, \d+\] is [\d.]+, right is [\d.]+ right on 6x1024, 3x4, 34x100 It was launched", printed)


OTHERWISE = {
    "arguments in another order": (
        "KERNEL void flat(GLOBAL float *g, GLOBAL const float *r, GLOBAL const float *b) "
        "{ const int k = GLOBAL_ID(0) * 4; if (k >= COUNT) return; BODY }", 1, r"not right on 6x1024: wrong result.*",
    ),
    "arguments of its own": (
        "KERNEL void flat(GLOBAL const float *r, GLOBAL const float *b, GLOBAL float *g, int passes) "
        "{ const int k = GLOBAL_ID(0) * 4; if (k >= COUNT) return; BODY }", 1,
        r"not right on 6x1024: RuntimeError: flat was not launched: it takes 4 arguments, and 3 are given.*",
    ),
    "fewer arguments": (
        "KERNEL void flat(GLOBAL float *g) { g[GLOBAL_ID(0)] = 0; }", 1, r".*flat was not launched: it takes 1 arguments.*",
    ),
    "a group of its own": (
        f"__attribute__((reqd_work_group_size(32, 1, 1))) {HEAD} "
        "{ const int k = GLOBAL_ID(0) * 4; if (k >= COUNT) return; BODY }", 1,
        r".*groups of 128 in a range of 1024, and the kernel is declared for groups of 32 x 1 x 1 .*",
    ),
    "one element a work-item": (
        f"{HEAD} {{ const int k = GLOBAL_ID(0); if (k < COUNT) g[k + WIDTH] += PASSES * rsqrt(r[k] + b[k + 2 * WIDTH]); }}", 1,
        r"not right on 6x1024: wrong result.*",
    ),
    "a name of its own": (
        f"{HEAD.replace('flat', 'mine')} {{ const int k = GLOBAL_ID(0) * 4; if (k >= COUNT) return; BODY }}", 2,
        r"does not compile: no kernel in it is named flat.*",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "way", often(OTHERWISE, ("fewer arguments", "a group of its own", "a name of its own").__contains__)
)
def test_a_right_kernel_written_for_another_launch_gets_a_note_on_its_launch(
    command: Command, kernel: Path, few_cases: None, way: str
) -> None:
    text, expected, words = OTHERWISE[way]
    kernel.write_text(text.replace("BODY", HONEST) + "\n")
    code, printed = judged(command, kernel, "", "", "--no-time")
    assert code == expected and re.fullmatch(f"fused: {words}", printed)
    as_own = (
        "It was launched as the book's own kernel is, `roofbook exercise stencil fused --solution`: by its arguments"
    )
    assert (as_own in printed) == (code == 1)


def test_json_has_each_case_and_the_reason(command: Command, kernel: Path) -> None:
    code, printed = judged(command, kernel, "pass < PASSES", "pass < PASSES - 1", "--no-time", "--json")
    report = json.loads(printed)
    assert code == report["code"] == 1 and report["verdict"] == "wrong" and report["timed"] is None
    assert [case["case"] for case in report["cases"]] == ["6x1024", "7x48", "3x4", "34x100"]
    assert all(case["reason"].startswith("wrong result") and case["where"] for case in report["cases"])


CHEATS = {
    "leaves out one row of large cases": (
        f"if (COUNT > 100000 && k / WIDTH == 700) return; {HONEST}", r"not right on 1024x1024: wrong result",
    ),
    "knows the small cases by their size": (
        f"if (COUNT != 4096 && COUNT != 240 && COUNT != 4 && COUNT != 3200) return; {HONEST}",
        r"not right on 1024x1024: wrong result",
    ),
    "does half of the passes in large cases": (
        f"if (COUNT > 100000) {{ {HONEST.replace('PASSES', 'PASSES / 2')} }} else {{ {HONEST} }}",
        r"not right on 1024x1024: wrong result",
    ),
    "keeps a flag in a row of b that is not read": (
        f"{HONEST} if (k < WIDTH) ((GLOBAL float *)b)[k] = -1;", r"not right on 6x1024: not accepted: it changed operand",
    ),
    "adds nothing where b has its mark": (
        f"GLOBAL float *m = (GLOBAL float *)b + k % WIDTH; if (*m == 9) return; {HONEST} *m = 9;",
        r"not right on 6x1024: (not accepted: it changed operand|wrong result)",
    ),
    "takes a rough root": (
        "for (int i = 0; i < 4; i++) { float v = r[k + i] + b[k + i + 2 * WIDTH]; int n = 0x5f3759df - (as_int(v) >> 1);"
        " float y = as_float(n); y *= 1.5f - 0.5f * v * y * y; g[k + i + WIDTH] += PASSES * y; }",
        r"not right on 6x1024: wrong result",
    ),
    "writes the mean of all right results": (
        "for (int i = 0; i < 4; i++) g[k + i + WIDTH] += 16.6f;", r"not right on 6x1024: wrong result",
    ),
    "writes into the border": (f"{HONEST} if (k == 0) g[0] += 1;", r"not right on 6x1024: wrong result"),
    "forgets the last element of a row": (
        "for (int i = 0; i < 4; i++) if ((k + i) % WIDTH != WIDTH - 1) "
        "g[k + i + WIDTH] += PASSES * rsqrt(r[k + i] + b[k + i + 2 * WIDTH]);", r"not right on 6x1024: wrong result",
    ),
}  # fmt: skip

OFTEN_TRIED = {
    "does half of the passes in large cases", "keeps a flag in a row of b that is not read",
    "forgets the last element of a row", "speaks in the name of its process",
}  # fmt: skip
"""Ways to cheat that the short suite tries; the others end by the same checks."""


@pytest.mark.thorough
def test_a_kernel_that_skips_finished_work_finds_none(
    command: Command, kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sample has inputs of its own: here the outputs of all of them are compared, not of some."""
    are_right = list[bool]()
    run = RemoteRunnable.run

    def run_and_compare(runnable: RemoteRunnable) -> float:
        seconds = run(runnable)
        secret: SecretInputs = runnable._draw.__self__  # type: ignore[attr-defined]
        are_right.append(np.allclose(runnable.outputs()["g"], secret.after(secret.case)["g"], rtol=1e-2, atol=1e-4))
        return seconds

    monkeypatch.setattr(RemoteRunnable, "run", run_and_compare)
    monkeypatch.setattr(answer, "BUDGET_S", 0.1)
    monkeypatch.setattr(answer, "Policy", partial(Policy, scarce=10))  # else three samples do where a run takes 0.1 s
    monkeypatch.setattr(sampling, "SUSPECT", float("inf"))  # a pair of runs has one on finished outputs
    skip = "if (all(fabs(*(GLOBAL float4 *)(g + k + WIDTH)) > 3.5f)) return;"
    kernel.write_text(kernel_of(f"{skip} {HONEST}"))
    code, printed = judged(command, kernel)
    assert code == 0 and len(are_right) > 20 and all(are_right), printed


@pytest.mark.usefixtures("few_cases")
@pytest.mark.parametrize("name", often(CHEATS, OFTEN_TRIED.__contains__))
def test_a_dishonest_kernel_is_refused(command: Command, kernel: Path, name: str) -> None:
    body, reason = CHEATS[name]
    kernel.write_text(kernel_of(body))
    code, printed = judged(command, kernel, "", "", *([] if "1024x1024" in reason else ["--no-time"]))
    assert code == 1 and re.search(reason, printed), printed


SYSTEM_CHEATS = {
    "ends the process": ("SYS(231, 0, 0, 0, 0, 0, 0);", r"process ended with exit code 0 before it had handed over"),
    "ends the process on large cases": (
        f"if (COUNT > 100000) SYS(231, 0, 0, 0, 0, 0, 0); {HONEST}",
        r"not right on 1024x1024: its process ended with exit code 0 .*right on 6x1024, 7x48",
    ),
    "ends by a real-time signal": (
        "SYS(62, SYS(39, 0, 0, 0, 0, 0, 0), 44, 0, 0, 0, 0);", r"process crashed by SIGRTMIN\+10",
    ),
    "speaks in the name of its process": (
        'if (k == 0) { const char f[26] = {13, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 123, 34, 115, 34, 58, 32, 49, 46, 48,'
        " 101, 48, 125, 32}; for (int d = 3; d < 32; d++) SYS(1, d, (long)f, 25, 0, 0, 0); }",
        r"not right on 6x1024: its process sent (an invalid result|an invalid time)|wrong result",
    ),
    "closes its pipes": (
        "if (k == 0) for (int d = 0; d < 64; d++) SYS(3, d, 0, 0, 0, 0, 0);", r"not right on 6x1024: (its process|[A-Z])",
    ),
    "keeps results for inputs that it knows": (
        "volatile GLOBAL float *kept = (volatile GLOBAL float *)0x600000000000L;"
        " SYS(9, 0x600000000000L, 4 * COUNT + 4096, 3, 0x100022, -1, 0);"
        " for (int i = 0; i < 4; i++) { float v = kept[k + i]; if (v == 0) kept[k + i] = v = PASSES * rsqrt(r[k + i] + b[k + i "
        "+ 2 * WIDTH]); g[k + i + WIDTH] += v; }",
        r"not right on 6x1024: wrong result",
    ),
}  # fmt: skip


@x86
@pytest.mark.usefixtures("few_cases")
@pytest.mark.parametrize("name", often(SYSTEM_CHEATS, OFTEN_TRIED.__contains__))
def test_a_kernel_that_calls_the_system_is_refused(command: Command, kernel: Path, name: str) -> None:
    body, reason = SYSTEM_CHEATS[name]
    kernel.write_text(SYSCALL + kernel_of(body))
    code, printed = judged(command, kernel, "", "", *([] if "1024x1024" in reason else ["--no-time"]))
    assert code == 1 and re.search(reason, printed), printed


@x86
@pytest.mark.usefixtures("few_cases")
@pytest.mark.parametrize("way", often(["--sandbox", "--no-sandbox"], lambda way: way == "--sandbox"))
def test_processes_that_a_kernel_starts_end_with_it(command: Command, kernel: Path, way: str) -> None:
    if way == "--sandbox" and (reason := sandbox.reason_unusable()):
        pytest.skip(reason)
    fork = "if (k == 0 && SYS(57, 0, 0, 0, 0, 0, 0) == 0) { SYS(112, 0, 0, 0, 0, 0, 0); for (;;) SYS(34, 0, 0, 0, 0, 0, 0); }"
    kernel.write_text(SYSCALL + kernel_of(f"{fork} {HONEST}"))
    before = set(descendants(os.getpid()))
    judged(command, kernel, "", "", "--no-time", way)
    assert set(descendants(os.getpid())) <= before
    named = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(kernel.parent) not in named


def test_the_kernel_ends_when_the_command_is_killed(kernel: Path, tmp_path: Path) -> None:
    kernel.write_text(kernel_of("volatile int w = 1; while (w) {}"))
    words = [sys.executable, "-m", "roofbook.cli", "exercise", "stencil", "fused", "--no-time", "--check", str(kernel)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)

    def workers() -> list[int]:
        numbers = []
        for number in Path("/proc").iterdir():
            try:
                if number.name.isdigit() and str(tmp_path).encode() in (number / "cmdline").read_bytes():
                    numbers.append(int(number.name))
            except OSError:
                continue
        return [number for number in numbers if number != process.pid]

    until = time.monotonic() + 500
    while not workers() and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(2)
    assert workers()
    process.send_signal(signal.SIGKILL)
    process.wait()
    until = time.monotonic() + 500
    while workers() and time.monotonic() < until:
        time.sleep(0.1)
    assert not workers()


def test_an_answer_may_come_through_a_pipe(command: Command, kernel: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, kernel.read_bytes())
    os.close(writing)
    arguments = ["exercise", "stencil", "fused", "--no-time", "--device", "opencl:pocl"]
    code, out, err = command(*arguments, "--check", f"/dev/fd/{reading}")
    os.close(reading)
    assert (code, err) == (0, "") and out.startswith("fused: right on ")


def test_an_empty_hole_is_named(command: Command, tmp_path: Path) -> None:
    (tmp_path / "my.k").write_text(command("exercise", "stencil", "fused")[1])
    code, printed = judged(command, tmp_path / "my.k", "", "", "--no-time")
    assert code == 1 and "; the hole is still there" in printed


@pytest.mark.parametrize(
    ("words", "instead", "pattern"),
    [
        ("sum = sum + root", "sum = summ + root", r"my\.k:\d+:\d+: use of undeclared|my\.k:\d+:\d+: .*'summ'"),
        ("if (k < COUNT)", "#if WITH > 1\n#endif\n  if (k < COUNT)", "a condition asks for WITH"),
        ("KERNEL void flat", "KERNEL void other", r"no kernel in it is named flat( It ran|$)"),
        (FILL, '#include "none.h"\n', r"includes none\.h, which is not there"),
        (FILL, "#if COUNT > 1\n#error \x1b[31m\x07 no\n#endif\n", r"my\.k:\d+: #error \\x1b\[31m\\x07 no"),
        (FILL, f"#error {'long ' * 5000}\n", r"my\.k:\d+: #error long long"),
    ],
)
def test_a_kernel_that_does_not_compile_gets_one_line(
    command: Command, kernel: Path, words: str, instead: str, pattern: str
) -> None:
    code, printed = judged(command, kernel, words, instead, "--no-time")
    assert code == 2 and printed.startswith("fused: does not compile: ") and re.search(pattern, printed)
    assert str(kernel.parent) not in printed and printed.isprintable() and "answer.k" not in printed


ODD_NAMES = (
    ' ö\\1 "two\nlines\x07.k',
    "back\\slash.k",
    "a\\1b.k",
    'a"b.k',
    "two\nlines.k",
    "bell\x07.k",
    " - .k",
    "ö.k",
)


@pytest.mark.parametrize("name", often(ODD_NAMES, ODD_NAMES[:1].__contains__))
def test_a_message_names_a_file_of_any_name(command: Command, kernel: Path, name: str) -> None:
    odd = kernel.rename(kernel.with_name(name))
    code, printed = judged(command, odd, "sum = sum + root", "sum = summ + root", "--no-time")
    assert code == 2 and re.search(r": [^:]*\.k:\d+:\d+: ", printed) and printed.isprintable()


@pytest.mark.usefixtures("few_cases")
@pytest.mark.thorough
def test_a_kernel_that_crashes_or_never_ends_is_wrong(
    command: Command, kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = kernel.read_text()
    code, printed = judged(command, kernel, FILL, FILL.replace("WIDTH", "1000000000"), "--no-time")
    assert code == 1 and re.search("not right on 6x1024: its process crashed by SIG(SEGV|BUS)", printed)
    kernel.write_text(text)
    monkeypatch.setattr(answer, "RETRY_LIMIT_S", 2.0)
    code, printed = judged(command, kernel, "pass++", "pass *= 1", "--no-time", "--limit", "8")
    assert code == 1 and printed.startswith("fused: not right on 6x1024: its process did not end within 8 s")
    assert "not right on 7x48: its process did not end within 2 s" in printed


def test_bad_input_is_one_line(command: Command, tmp_path: Path) -> None:
    (tmp_path / "bytes.k").write_bytes(b"\xff\xfe\x00")
    for arguments, message in (
        (("stencil", "fused", "--check", str(tmp_path / "none.k")), "none.k: No such file or directory"),
        (("stencil", "fused", "--check", str(tmp_path)), "is a directory; a file with the kernel's text is meant"),
        (("stencil", "fused", "--check", str(tmp_path / "bytes.k")), "bytes.k is no text in UTF-8 but in UTF-16"),
        (
            ("stencil", "fusd"),
            "unknown exercise of stencil 'fusd' (did you mean 'fused'?); valid: checked, local-memory, fused",
        ),
        (("peaks",), "peaks has no kernel to write"),
        (("stencl",), "unknown lab 'stencl'"),
    ):
        code, out, err = command("exercise", *arguments)
        assert (code, out) == (2, "") and message in err and err.count("\n") == 1


def test_a_process_that_cannot_start_is_no_fault_of_the_answer(
    command: Command, kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where TMPDIR is mounted noexec, or is full: the process has a folder of its own within."""

    def refuse(order: object, folder: Path, *_: object) -> None:
        raise KernelRefused(f"{folder}/cache lies on a file system that is mounted noexec")

    monkeypatch.setattr(answer, "KernelProcess", refuse)
    code, out, err = command("exercise", "stencil", "fused", "--check", str(kernel), "--no-sandbox")
    assert code == 2 and not out and err.count("\n") == 1
    assert re.search(
        r"does not start: \S+ lies on .* noexec \(its own folder is within \S+; TMPDIR names another\)$", err
    )


def test_without_a_name_a_lab_lists_its_kernels(command: Command) -> None:
    code, out, err = command("exercise", "stencil")
    assert (code, err) == (0, "") and "fused        Do all passes in one launch, and go over memory once.\n" in out
    assert [line.split()[0] for line in out.splitlines() if line[0] != " "] == ["checked", "local-memory", "fused"]
