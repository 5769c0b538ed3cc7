"""`roofbook judge`: times beside others, kernels that cannot be built, and bad input. test_judged_kernels.py has the corpus."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Command
from tests.measure.judged_kernels import PASS

pytestmark = pytest.mark.usefixtures("few_awkward_sizes")
UNBUILDABLE = {
    "a mistake of syntax": (PASS.replace("const int i =", "const int i = ="), "wrong.cl:3:"),
    "a kernel that is not there": (PASS.replace("launch one_pass", "launch two_passes"), "the text has no kernel two_passes"),
    "an array that is not there": (
        PASS.replace("launch one_pass:", "launch one_pass(r, b, h, height, width, unit):"), "there is no array h; valid: b",
    ),
    "a number that is not there": (
        PASS.replace("launch one_pass:", "launch one_pass(r, b, g, height, depth, unit):"), "there is no number depth; valid: ",
    ),
    "too few arguments": (PASS.replace("launch one_pass:", "launch one_pass(r, b, g):"), "6 arguments, and its launch gives 3"),
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


def test_a_right_kernel_is_timed_beside_a_step(command: Command, tmp_path: Path, short_samples: None) -> None:
    code, judgement = judged(command, tmp_path, "pass.cl", PASS)
    (timed,) = judgement["timed"]
    assert code == 0 and timed["case"] == "6x1024" and timed["seconds"] > 0
    (ratio,) = timed["times_as_fast_as"].values()
    assert 0 < ratio["low"] <= ratio["estimate"] <= ratio["high"]


@pytest.mark.parametrize("name", UNBUILDABLE)
def test_a_kernel_that_cannot_be_built_says_why(command: Command, tmp_path: Path, name: str) -> None:
    text, reason = UNBUILDABLE[name]
    code, judgement = judged(command, tmp_path, "wrong.cl", text, "--no-time")
    assert (code, judgement["verdict"]) == (2, "cannot be built"), judgement
    message = f"cannot be built: {judgement['cannot_be_built']}"
    assert reason in message and str(tmp_path) not in message and "/roofbook-" not in message


def test_bad_input_is_one_line_and_code_2(command: Command, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(PASS)
    for name in ("a.cl", "a.cu"):
        (tmp_path / name).write_text(PASS)
    for arguments, message in (
        (["stencil", "a.txt"], "a.txt: the ending names the language: .cl for OpenCL C"),
        (["stencil", "b.cl"], "b.cl"),
        (["stencil", "a.cl", "--case", "3by4"], "unknown case '3by4'"),
        (["stencil", "a.cl", "--against", "fusd"], "did you mean 'fused'?"),
        (["stencil", "a.cl", "--against", "native-rsqr"], "unknown plain step of stencil on opencl:"),
        (["stencil", "a.cl", "--limit", "0"], "0.0 is not in the range x>0"),
        (["stencil", "a.cl", "--memory", "nan"], "nan is not a number"),
        (["stencil", "a.cl", "--swap", "r"], "`swap r` is no statement of a kernel's head"),
        (["peaks", "a.cl"], "lab peaks does not say which arrays a submitted kernel writes"),
        (
            ["stencil", "a.cu", "--device", "opencl:0"],
            "a.cu: CUDA C++ does not run on opencl:0; --device names another device",
        ),
        (["stencl", "a.cl"], "unknown lab 'stencl'"),
    ):
        lab, file, *options = arguments
        code, out, err = command("judge", lab, str(tmp_path / file), *options)
        assert (code, out) == (2, "") and message in err and err.count("\n") == 1, err


def test_a_mistake_in_the_head_is_data_too(command: Command, tmp_path: Path) -> None:
    code, judgement = judged(command, tmp_path, "a.cl", PASS.replace("// launch", "// lanch"), "--no-time")
    assert (code, judgement["verdict"], judgement["cases"]) == (2, "cannot be built", [])
    assert judgement["cannot_be_built"].startswith("the file does not say how it is launched")


def test_a_kernel_gets_no_more_memory_than_the_limit(command: Command, tmp_path: Path) -> None:
    greedy = "// scratch large: float, 250000000\n" + PASS.replace(
        "launch one_pass:", "launch one_pass(r, b, g, height, width, unit, large):"
    )
    greedy = greedy.replace("int unit)", "int unit, __global float *large)")
    code, judgement = judged(command, tmp_path, "a.cl", greedy, "--no-time", "--against", "fused", "--memory", "1")
    assert code == 1 and all("out of memory" in case["reason"] for case in judgement["cases"]), judgement
