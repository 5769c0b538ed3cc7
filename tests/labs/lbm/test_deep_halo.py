"""The kernels with a deep halo on the host, by a thread for each of theirs: right, and no access that no barrier orders."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from roofbook.labs.lbm.lattice import LAB
from roofbook.labs.lbm.on_chip import DeepHalo, Tiling
from roofbook.labs.lbm.problem import Params, asymmetric, disturb, initial, with_thin_cells
from roofbook.spec.plan import Case, Variant

from ...often import often

HEADER = Path(__file__).parents[2] / "devices" / "blocks_in_c.h"
STEPS = [variant for variant in LAB.ladder if isinstance(variant.plan, type) and issubclass(variant.plan, DeepHalo)]
COMPILE = ("c++", "-std=c++17", "-O0", "-g1", "-w", "-ffp-contract=off", "-fsanitize=thread", "-pthread", "-o")
AT_FIXED_ADDRESSES = ("setarch", "-R") if shutil.which("setarch") else ()
"""Words before a program: where addresses are drawn from a wide range, an older ThreadSanitizer now and then does not start."""
NX, NY, UNITS = 8, 8, 11
PTX = (
    (r"rcp\.approx\.ftz\.f32 %0, %1;", "{0} = 1.0f / ({1});"),
    (r"sqrt\.approx\.ftz\.f32 %0, %1;", "{0} = sqrtf({1});"),
    (r"\{.*st\.relaxed\.gpu\.global\.b128 \[%0\], word;\}", "((Half *){0})[0].store({1}, std::memory_order_relaxed);"
     " ((Half *){0})[1].store({2}, std::memory_order_relaxed);"),
    (r"\{.*ld\.relaxed\.gpu\.global\.b128 word, \[%2\];.*\}", "sched_yield();"
     " {1} = ((Half *){2})[1].load(std::memory_order_relaxed); {0} = ((Half *){2})[0].load(std::memory_order_relaxed);"),
    (r"st\.shared\.f32 \[%0\], %1;", "*shared_at({0}) = {1};"),
    (r"st\.shared\.f32 \[%0 \+ %1\], %2;", "*shared_at({0} + {1}) = {2};"),
    (r"ld\.shared\.f32 %0, \[%1 \+ %2\];", "{0} = *shared_at({1} + {2});"),
    (r"barrier\.sync %0, %1;", "block_of_thread->barriers[{0}].wait({1});"),
)  # fmt: skip
"""Pattern of PTX, and C that does it with its operands. A half of a word with the tag is written last and read first."""


class Outcome(NamedTuple):
    """Result of a run: whether the lab's check accepts it, and ThreadSanitizer's reports; '' without one."""

    right: bool
    race: str


def operands(statement: str) -> list[str]:
    """Return the expressions of an asm statement's operands, in order."""
    found = []
    for match in re.finditer(r'"[=+]?[lrnf]"\(', statement):
        depth, end = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(statement[end], 0)
            end += 1
        found.append(statement[match.end() : end - 1])
    return found


def in_c(text: str) -> str:
    """Return the CUDA C++ of a kernel with its PTX done in C++."""

    def done(match: re.Match[str]) -> str:
        ptx = re.match(r'\s*"([^"]*)"', match[1])
        assert ptx
        for pattern, words in PTX:
            if re.fullmatch(pattern, ptx[1]):
                return "{ " + words.format(*operands(match[1][ptx.end() :])) + " }"
        raise ValueError(f"no C for the PTX {ptx[1]}")

    text = re.sub(r'asm volatile\("" : "\+r"\(\w+\)\);', "", text)  # keeps a value in a register
    text = re.sub(r"\basm(?:\s+volatile)?\s*\(((?:\"[^\"]*\"|[^;\"])*)\);", done, text)
    return text.replace("extern __shared__ float near[];", "float *near = (float *)block_of_thread->shared;")


def program_of(variant: Variant, tiling: Tiling, change: tuple[str, str] = ("", "")) -> str:
    """Return a program that runs a step's kernel once, on operands of a file. change: a text of the kernel, and another."""
    knobs = {"NX": NX, "NY": NY, "TILE_X": tiling.tile_x, "TILE_Y": tiling.tile_y, "DEPTH": tiling.depth}
    assert variant.source and isinstance(variant.plan, type)
    text = variant.source.with_knobs(**knobs).render("cuda")
    assert change[0] in text
    plan: Any = object.__new__(variant.plan)
    plan.tiling = tiling
    threads, blocks = tiling.threads + 32, NX * NY // (tiling.tile_x * tiling.tile_y)
    return program_around(
        in_c(text.replace(*change, 1)), blocks, f"{blocks}, {threads}, {plan.local_bytes()}",
        f"static ulonglong2 halo[2 * 3 * {NX * NY}];",
        f"{plan.kernel_name}(from, to, obstacles, sums, halo, 1, {UNITS}, numbers[0], numbers[1], numbers[2])",
    )  # fmt: skip


def program_around(kernel: str, blocks: int, launched_as: str, declarations: str, call: str) -> str:
    """Return a program that launches a kernel on operands of one file and writes its results to another.

    kernel: C++. launched_as: arguments of the function `launch` of HEADER. declarations: further operands, all zeros. call: the
    kernel's call in a thread, with `from`, `to`, `obstacles`, `sums` and the three `numbers`.
    """
    return f"""#include "{HEADER}"
{kernel}
static float from[9 * {NX * NY}], to[9 * {NX * NY}], sums[{UNITS} * {blocks}], numbers[3];
static char obstacles[{NX * NY}];
{declarations}
static void run_thread() {{ {call}; }}
int main(int count, char **names) {{
  FILE *file = fopen(names[1], "rb");
  fread(from, 1, sizeof from, file);
  fread(obstacles, 1, sizeof obstacles, file);
  fread(numbers, 1, sizeof numbers, file);
  fclose(file);
  launch({launched_as});
  file = fopen(names[2], "wb");
  fwrite(to, 1, sizeof to, file);
  fwrite(sums, 1, sizeof sums, file);
  fclose(file);
}}
"""


@cache
def reason_to_skip() -> str | None:
    """Return why no program runs under ThreadSanitizer here; None if one does."""
    if shutil.which("c++") is None:
        return "no C++ compiler"
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "nothing")
        program.with_suffix(".cpp").write_text("int main() {}")
        for command in ([*COMPILE, str(program), f"{program}.cpp"], [*AT_FIXED_ADDRESSES, str(program)]):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                return (
                    f"no ThreadSanitizer: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else command[0]}"
                )
    return None


def run(variant: Variant, tiling: Tiling, folder: Path, change: tuple[str, str] = ("", "")) -> Outcome:
    """Run a step's kernel for UNITS steps under ThreadSanitizer."""
    return run_program(variant, program_of(variant, tiling, change), folder)


def run_program(variant: Variant, program: str, folder: Path) -> Outcome:
    """Run a program, as `program_of` returns it, under ThreadSanitizer, and check its results as those of a step."""
    params, obstacles = asymmetric(NX, NY)
    f = initial(params, np.float32)
    disturb(f, 5, 0.1)
    inputs: dict[str, Any] = {"params": params, "obstacles": obstacles, "f": with_thin_cells(params, obstacles, f)}
    w1, w2 = (np.float32(params.density * params.accel / part) for part in (9, 36))
    given = accelerated(params, obstacles, inputs["f"].copy(), w1, w2)
    (folder / "in").write_bytes(
        given.tobytes() + obstacles.astype(np.int8).tobytes() + np.array([params.omega, w1, w2], np.float32).tobytes()
    )
    race = compiled_and_run(program, folder)
    numbers = np.fromfile(folder / "out", np.float32)
    sums = numbers[given.size :].reshape(UNITS, -1).sum(axis=1, dtype=np.float64)
    outputs = {"f": numbers[: given.size].reshape(given.shape).astype(np.float64), "av_vels": sums / (~obstacles).sum()}
    case = Case(f"{NX}x{NY}", "test", asdict(params), UNITS)
    error, tolerance, _ = LAB.check(case, variant, outputs, LAB.reference(case, inputs))
    return Outcome(bool(error <= tolerance), race)


def compiled_and_run(program: str, folder: Path) -> str:
    """Run a program on the file `in` of a folder and return ThreadSanitizer's reports; it writes the file `out`."""
    (folder / "kernel.cpp").write_text(program)
    subprocess.run([*COMPILE, "kernel", "kernel.cpp"], cwd=folder, check=True)
    command = [*AT_FIXED_ADDRESSES, "./kernel", "in", "out"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert (folder / "out").exists(), done.stderr
    return done.stderr


def accelerated(params: Params, obstacles: np.ndarray, f: np.ndarray, w1: np.float32, w2: np.float32) -> np.ndarray:
    """Push the populations of the driven row, as the first kernel of a run does."""
    row, fluid = f[:, params.ny - 2], ~obstacles[params.ny - 2]
    push = fluid & (row[3] > w1) & (row[6] > w2) & (row[7] > w2)
    for direction, gain in ((1, w1), (5, w2), (8, w2), (3, -w1), (6, -w2), (7, -w2)):
        row[direction] += np.where(push, gain, np.float32(0))
    return f


@pytest.fixture(autouse=True)
def thread_sanitizer() -> None:
    if reason := reason_to_skip():
        pytest.skip(reason)


@pytest.mark.parametrize("depth", [3, pytest.param(4, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("variant", often(STEPS, lambda variant: variant.name == "deep-halo-pause"))
def test_is_right_and_has_no_race(variant: Variant, depth: int, tmp_path: Path) -> None:
    assert run(variant, Tiling(4, 4, depth), tmp_path) == Outcome(right=True, race="")


@pytest.mark.parametrize(
    ("kernel", "change"),
    [
        pytest.param("deep-halo", ("meet<1, THREADS>();", ""), id="no barrier", marks=pytest.mark.thorough),
        pytest.param("deep-halo-branchless", ("&speeds[0][p]", "&speeds[0][0]"), id="one word for all speeds"),
    ],
)
def test_a_race_is_seen(kernel: str, change: tuple[str, str], tmp_path: Path) -> None:
    assert "data race" in run(LAB.variant(kernel), Tiling(4, 4, 3), tmp_path, change).race
