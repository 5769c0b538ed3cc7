"""`roofbook judge`: honest kernels are right, in each language; wrong ones and tricks are refused, with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Command

HONEST = {
    "pass.cl": """// launch one_pass: width, height; group 64, 1
__kernel void one_pass(__global const float *r, __global const float *b, __global float *g, int height, int width) {
  const int i = get_global_id(1), j = get_global_id(0);
  if (i > 0 && i < height - 1 && j < width) g[i * width + j] += 1.0f / sqrt(r[(i - 1) * width + j] + b[(i + 1) * width + j]);
}
""",
    "two_kernels.cl": """// scratch root: float, height * width
// launch roots(r, b, root, height, width): width, height - 2
// launch add(root, g, COUNT, width): COUNT
__kernel void roots(__global const float *r, __global const float *b, __global float *out, int height, int width) {
  const int i = get_global_id(1) + 1, j = get_global_id(0);
  if (j < width && i < height - 1) out[i * width + j] = 1.0f / sqrt(r[(i - 1) * width + j] + b[(i + 1) * width + j]);
}
__kernel void add(__global const float *root, __global float *g, int count, int width) {
  const int n = get_global_id(0);
  if (n < count) g[n + width] += root[n + width];
}
""",
    "dialect.k": """// define W = width
// launch one_pass: W, height - 2; group 16, 2
KERNEL void one_pass(GLOBAL const float *r, GLOBAL const float *b, GLOBAL float *g, int height) {
  const int i = GLOBAL_ID(1) + 1, j = GLOBAL_ID(0);
  if (i < height - 1 && j < W) g[i * W + j] += 1.0f / sqrt(r[(i - 1) * W + j] + b[(i + 1) * W + j]);
}
""",
}
PASS = HONEST["pass.cl"]
WRONG = {
    "computes nothing": (PASS.replace("if (i > 0", "if (0 && i > 0"), "wrong result"),
    "another neighbour": (PASS.replace("b[(i + 1)", "b[i"), "wrong result"),
    "leaves out the last column": (PASS.replace("j < width)", "j < width - 1)"), "wrong result"),
    "knows only one width": (PASS.replace("j < width)", "j < 48)"), "wrong result"),
    "coarse root": (
        PASS.replace("1.0f / sqrt(r", "(float)(half)1.0f * 0.999f / sqrt(r").replace("(half)", ""),
        "wrong",
    ),
    "writes into an operand": (
        PASS.replace("__global const float *r", "__global float *r").replace(
            "  if (i > 0", "  if (i == height - 1 && j == 0) r[i * width] = 1.0f;\n  if (i > 0"
        ),
        "it changed operand",
    ),
    "writes out of bounds": (
        PASS.replace("  if (i > 0", "  if (i == height - 1 && j == 0) g[height * width + 3] = 1.0f;\n  if (i > 0"),
        "it wrote behind the end of a buffer",
    ),
    "computes only once": (
        PASS.replace("launch one_pass:", "scratch done: int, 1\n// launch one_pass(r, b, g, height, width, done):")
        .replace("int width)", "int width, __global int *done)")
        .replace("  if (i > 0", "  if (done[0] == 4711) return;\n  if (i > 0")
        .replace("]);\n}", "]);\n  if (i == height - 1 && j == width - 1) done[0] = 4711;\n}"),
        "wrong result",
    ),
}
UNBUILDABLE = {
    "a mistake of syntax": (PASS.replace("const int i =", "const int i = ="), "wrong.cl:3:"),
    "a kernel that is not there": (PASS.replace("launch one_pass", "launch two_passes"), "the text has no kernel two_passes"),
    "an array that is not there": (
        PASS.replace("launch one_pass:", "launch one_pass(r, b, h, height, width):"), "there is no array h; valid: b, g, r",
    ),
    "a number that is not there": (
        PASS.replace("launch one_pass:", "launch one_pass(r, b, g, height, depth):"), "there is no number depth; valid: ",
    ),
    "too few arguments": (PASS.replace("launch one_pass:", "launch one_pass(r, b, g):"), "5 arguments, and its launch gives 3"),
    "another type": (PASS.replace("__global const float *r", "__global const int *r"), "the elements of r are of type float"),
    "a size that is none": (PASS.replace("width, height; group", "depth, height; group"), "'depth' is no expression"),
    "a file": (PASS.replace("{\n", '{\n#include "/etc/passwd"\n', 1), "cannot be built"),
}  # fmt: skip


def judged(command: Command, folder: Path, name: str, text: str, *options: str) -> tuple[Any, dict[str, Any]]:
    """Return the exit code and the JSON of a judgement."""
    (folder / name).write_text(text)
    code, out, err = command("judge", "stencil", str(folder / name), "--case", "6x1024", "--json", *options)
    assert not err
    return code, json.loads(out)


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_kernel_is_right_in_each_language(command: Command, tmp_path: Path, name: str) -> None:
    code, judgement = judged(command, tmp_path, name, HONEST[name], "--no-time")
    assert (code, judgement["verdict"]) == (0, "right"), judgement
    assert len(judgement["cases"]) > 1 and all(case["right"] for case in judgement["cases"])


def test_a_right_kernel_is_timed_beside_a_step(command: Command, tmp_path: Path) -> None:
    code, judgement = judged(command, tmp_path, "pass.cl", PASS)
    (timed,) = judgement["timed"]
    assert code == 0 and timed["case"] == "6x1024" and timed["seconds"] > 0
    (ratio,) = timed["times_as_fast_as"].values()
    assert 0 < ratio["low"] <= ratio["estimate"] <= ratio["high"]


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_or_a_trick_is_refused_with_the_reason(command: Command, tmp_path: Path, name: str) -> None:
    text, reason = WRONG[name]
    assert text != PASS
    code, judgement = judged(command, tmp_path, "wrong.cl", text, "--no-time")
    assert (code, judgement["verdict"]) == (1, "wrong")
    assert reason in " ".join(case["reason"] or "" for case in judgement["cases"]), judgement


@pytest.mark.parametrize("name", UNBUILDABLE)
def test_a_kernel_that_cannot_be_built_says_why(command: Command, tmp_path: Path, name: str) -> None:
    text, reason = UNBUILDABLE[name]
    code, judgement = judged(command, tmp_path, "wrong.cl", text, "--no-time")
    assert (code, judgement["verdict"]) == (2, "cannot be built"), judgement
    message = f"cannot be built: {judgement['cannot_be_built']}"
    assert reason in message and str(tmp_path) not in message and "/roofbook-" not in message


def test_bad_input_is_one_line_and_code_2(command: Command, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(PASS)
    (tmp_path / "a.cl").write_text(PASS)
    for arguments, message in (
        (["stencil", "a.txt"], "a.txt: the ending names the language: .cl for OpenCL C"),
        (["stencil", "b.cl"], "b.cl"),
        (["stencil", "a.cl", "--case", "3by4"], "unknown case '3by4'"),
        (["stencil", "a.cl", "--swap", "r"], "`swap r` is no statement of a kernel's head"),
        (["lbm", "a.cl"], "lab lbm does not say which arrays a submitted kernel writes"),
        (["stencl", "a.cl"], "unknown lab 'stencl'"),
    ):
        lab, file, *options = arguments
        code, out, err = command("judge", lab, str(tmp_path / file), *options)
        assert (code, out) == (2, "") and message in err and err.count("\n") == 1, err
