"""An answer to an exercise as a reader gives it on the command line: right, wrong, no kernel, or no file."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from roofbook.measure import answer

from ..conftest import Command

FILL = "*(GLOBAL float4 *)(g + k + WIDTH) = sum;"


@pytest.fixture
def kernel(command: Command, tmp_path: Path) -> Path:
    """The solution of the stencil's exercise, as the command prints it."""
    code, out, _ = command("exercise", "stencil", "fused", "--solution")
    assert code == 0 and FILL in out
    (tmp_path / "my.k").write_text(out)
    return tmp_path / "my.k"


def judged(command: Command, kernel: Path, words: str = "", instead: str = "", *more: str) -> tuple[int, str]:
    text = kernel.read_text()
    assert words in text
    kernel.write_text(text.replace(words, instead) if words else text)
    code, out, err = command("exercise", "stencil", "fused", "--check", str(kernel), "--device", "opencl:pocl", *more)
    assert err == ""
    return code, " ".join(out.split())


def test_a_right_answer_is_timed_beside_the_step(command: Command, kernel: Path) -> None:
    code, said = judged(command, kernel)
    assert code == 0 and said.startswith("fused: right on 6x1024, 7x48, 3x4, 34x100 ")
    assert re.search(r"per pass on 1024x1024: in this run .*(as fast as|as slow as|noise of) the book's `fused`$", said)


def test_a_wrong_answer_says_where_and_by_how_much(command: Command, kernel: Path) -> None:
    code, said = judged(command, kernel, "pass < PASSES", "pass < PASSES - 1", "--no-time")
    assert code == 1 and said.startswith("fused: not right on 6x1024: wrong result: error ")
    assert re.search(r"; g\[\d, \d+\] is [\d.]+, right is [\d.]+$", said)


def test_an_answer_may_come_through_a_pipe(command: Command, kernel: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, kernel.read_bytes())
    os.close(writing)
    wanted = ["exercise", "stencil", "fused", "--no-time", "--device", "opencl:pocl"]
    code, out, err = command(*wanted, "--check", f"/dev/fd/{reading}")
    os.close(reading)
    assert (code, err) == (0, "") and out.startswith("fused: right on ")


def test_an_empty_hole_is_named(command: Command, tmp_path: Path) -> None:
    (tmp_path / "my.k").write_text(command("exercise", "stencil", "fused")[1])
    code, said = judged(command, tmp_path / "my.k", "", "", "--no-time")
    assert code == 1 and said.endswith("; the hole is still there")


@pytest.mark.parametrize(
    ("words", "instead", "said"),
    [
        ("sum = sum + root", "sum = summ + root", r"my\.k:\d+:\d+: use of undeclared|my\.k:\d+:\d+: .*'summ'"),
        ("if (k < COUNT)", "#if WITH > 1\n#endif\n  if (k < COUNT)", "a condition asks for WITH"),
        ("KERNEL void flat", "KERNEL void other", r"no kernel in it is named flat$"),
        (FILL, '#include "none.h"\n', r"includes none\.h, which is not there"),
    ],
)
def test_what_does_not_compile_is_told_in_one_line(
    command: Command, kernel: Path, words: str, instead: str, said: str
) -> None:
    code, told = judged(command, kernel, words, instead, "--no-time")
    assert code == 2 and told.startswith("fused: does not compile: ") and re.search(said, told)
    assert str(kernel.parent) not in told


def test_a_kernel_that_crashes_or_never_ends_is_wrong(
    command: Command, kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = kernel.read_text()
    code, said = judged(command, kernel, FILL, FILL.replace("WIDTH", "1000000000"), "--no-time")
    assert code == 1 and re.search("not right on 6x1024: its process crashed by SIG(SEGV|BUS)$", said)
    kernel.write_text(text)
    monkeypatch.setattr(answer, "LIMIT_S", 6.0)
    code, said = judged(command, kernel, "pass++", "pass *= 1", "--no-time")
    assert code == 1 and said == "fused: not right on 6x1024: its process did not end within 6 s"


def test_bad_input_is_one_line(command: Command, tmp_path: Path) -> None:
    (tmp_path / "bytes.k").write_bytes(b"\xff\xfe\x00")
    for arguments, said in (
        (("stencil", "fused", "--check", str(tmp_path / "none.k")), "none.k: No such file or directory"),
        (("stencil", "fused", "--check", str(tmp_path)), "Is a directory"),
        (("stencil", "fused", "--check", str(tmp_path / "bytes.k")), "bytes.k is no text"),
        (("stencil", "fusd"), "unknown exercise of stencil 'fusd' (did you mean 'fused'?); valid: fused"),
        (("peaks",), "peaks has no kernel to write"),
        (("stencl",), "unknown lab 'stencl'"),
    ):
        code, out, err = command("exercise", *arguments)
        assert (code, out) == (2, "") and said in err and err.count("\n") == 1


def test_without_a_name_a_lab_lists_its_kernels(command: Command) -> None:
    assert command("exercise", "stencil") == (
        0,
        "fused      Do all passes in one launch, and go over memory once.\n",
        "",
    )
