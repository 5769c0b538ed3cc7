"""Mistakes of students in the stencil: passes, rows, borders, and roots that are almost right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from roofbook.spec.plan import Case

from ...mutants import Array, Emulated, Mutant, Outputs

CASE = "34x256"


def passes(case: Case, inputs: Mapping[str, Any], root: Array) -> Outputs:
    """Return the output after all passes in float32, with the given inverse root."""
    g = inputs["g"].copy()
    for _ in range(case.units):
        g[1:-1] += root
    return {"g": g.astype(np.float64)}


def with_rsqrt(case: Case, inputs: Mapping[str, Any]) -> Outputs:
    """Return all passes with roots as a GPU's instruction rounds: 2 ulp off at most."""
    root = 1 / np.sqrt((inputs["r"][:-2] + inputs["b"][2:]).astype(np.float64))
    return passes(case, inputs, (root * (1 + 1.5 * 2.0**-23)).astype(np.float32))


def with_the_magic_number(case: Case, inputs: Mapping[str, Any]) -> Outputs:
    """Return all passes with roots by 0x5f3759df and two steps of Newton's method, which are 5e-6 off."""
    x = inputs["r"][:-2] + inputs["b"][2:]
    root = (np.uint32(0x5F3759DF) - (x.view(np.uint32) >> 1)).view(np.float32)
    for _ in range(2):
        root = root * (np.float32(1.5) - np.float32(0.5) * x * root * root)
    return passes(case, inputs, root)


def with_half(case: Case, inputs: Mapping[str, Any]) -> Outputs:
    root = 1 / np.sqrt((inputs["r"][:-2] + inputs["b"][2:]).astype(np.float64))
    return passes(case, inputs, root.astype(np.float16).astype(np.float32))


def cut_to_13_bits(case: Case, inputs: Mapping[str, Any]) -> Outputs:
    """Return results of an accurate kernel cut to 13 bits, all but those of the border."""
    g = with_rsqrt(case, inputs)["g"].astype(np.float32)
    g[1:-1] = (g[1:-1].view(np.uint32) & np.uint32(0xFFFFF800)).view(np.float32)
    return {"g": g.astype(np.float64)}


MISTAKES: tuple[Mutant | Emulated, ...] = (
    Mutant("checked", "pass_element.inc", "INSIDE g", "if (0) g", "no element at all"),
    Mutant("checked", "passes.k", "j < ROW_LENGTH)", "j < ROW_LENGTH - 1)", "the last column"),
    Mutant("checked", "passes.k", "if (i > 0", "if (i > 1", "the first inner row"),
    Mutant("native-rsqrt", "pass_element.inc", "INSIDE g", "if (j) g", "the first column"),
    Mutant("native-rsqrt", "pass_element.inc", "g[AT(i * ", "g[AT((i - 1) * ",
           "rows written one too high: the border is touched"),
    Mutant("native-rsqrt", "pass_element.inc", "r[AT((i - 1)", "r[AT(i", "r of the same row"),
    Mutant("native-rsqrt@misaligned=3", "passes.k", "AT(k) (k) + OFFSET", "AT(k) (k) + OFFSET - 1", "one float off"),
    Mutant("local-memory", "pass_staged.inc", "= here[lane] +", "=", "what g was"),
    Mutant("tasks-2", "pass_tasks.inc", "task < TASKS", "task < TASKS - 1", "the last task"),
    Mutant("flat", "flat.k", "k < COUNT", "k < COUNT - 1", "the last element"),
    Mutant("float4", "flat.k", "k < COUNT", "k < COUNT - LANES", "the last vector"),
    Mutant("float4", "flat.k", "2 * WIDTH", "WIDTH", "b of the same row"),
    Mutant("fused", "flat.k", "pass < PASSES", "pass < PASSES - 1", "the last pass"),
    Mutant("native-rsqrt", "pass_element.inc", "INVERSE_ROOT(r", "INVERSE_ROOT(-r", "NaN"),
    Mutant("sequential", "sequential.k", "i < height - 1", "i < height - 2", "the last inner row"),
    Mutant("checked", "pass_element.inc", "b[AT((i + 1)", "b[AT((i - 1)", "b of the row above"),
    Mutant("rsqrt", "pass_element.inc", "] += INV", "] = INV", "what g was"),
    Mutant("checked", "passes.k", "#define INVERSE_ROOT(x) 1.0f / SQRT(x)", "#define INVERSE_ROOT(x) SQRT(x)",
           "to invert the root"),
    Mutant("tasks-4", "pass_tasks.inc", "task * (ROW_LENGTH / TASKS)", "task * (ROW_LENGTH / TASKS - 1)",
           "where a task begins", case="6x1024"),
    Mutant("float4", "flat.k", "LOAD(g, k + WIDTH)", "LOAD(g, k)", "that g has a first row, in reading"),
    Mutant("streams", "streams.k", "for (; k < end; k++)", "for (; k < end - 1; k++)", "the last element", case="5x13"),
    Mutant("streams", "streams.k", "(8 * LANES) + 1)", "(8 * LANES))", "what a division leaves over", case="7x48"),
    Mutant("native-rsqrt", "plans.py", "for _ in range(self.units):", "for _ in range(self.units - 1):", "the last launch"),
    Mutant("flat", "plans.py", 'for name in "rbg")', 'for name in "brg")', "which buffer is r"),
    Mutant("checked", "plans.py", "(np.int32(self.height), np.int32(self.width))\n        for",
           "(np.int32(self.width), np.int32(self.height))\n        for", "which argument is the height"),
    Mutant("float4", "plans.py", "items = self.count // ", "items = self.count // 2 // ", "half of the range"),
    Mutant("fused", "plans.py", '{"PASSES": self.units}', '{"PASSES": self.units + 1}', "that the first sum is a pass"),
    Mutant("native-rsqrt", "plans.py", "else self.height - 2", "else self.height - 3", "an inner row of the range"),
    Mutant("flat", "flat.k", "if (k < COUNT)", "if (k < COUNT && k != 200)", "what one work-item does"),
    Mutant("sequential", "sequential.k", "j < width;", "j < width / 4 * 4;", "columns that four does not divide"),
    Mutant("checked", "passes.k", "#define ACROSS GLOBAL_ID(0)", "#define ACROSS (GLOBAL_ID(0) / 2 * 2)",
           "every second column"),
    Mutant("float8", "flat.k", "if (k < COUNT)", "if (k <= COUNT)", "that a work-item behind the last has nothing to do"),
    Mutant("rsqrt", "passes.k", "#define INVERSE_ROOT(x) RSQRT(x)", "#define INVERSE_ROOT(x) RSQRT(x + 1e-5f)",
           "that nothing is added to guard a division"),
    Mutant("rsqrt", "passes.k", "#define INVERSE_ROOT(x) RSQRT(x)", "#define INVERSE_ROOT(x) RSQRT(MAX(x, 0.01f))",
           "that a sum may be small"),
    Mutant("local-memory", "pass_staged.inc", "LOCAL_ID(1) * LOCAL_SIZE(0) + LOCAL_ID(0)", "LOCAL_ID(0) / 2 * 2",
           "a place of its own"),
    Mutant("checked", "plans.py", "tuple(-(-side // group) * group", "tuple(side // group * group", "the last work-group"),
    Mutant("float4", "plans.py", "return (-(-items // self.group[0])", "return ((items // self.group[0])",
           "the last work-group of the range", case="9x384"),
    Emulated("rsqrt", with_the_magic_number, with_rsqrt, "a third step of Newton's method"),
    Emulated("native-rsqrt", with_half, with_rsqrt, "that a root in fp16 is too short"),
    Emulated("native-rsqrt", cut_to_13_bits, with_rsqrt, "that what is stored has 24 bits"),
)  # fmt: skip
"""All mistakes; the last text of each names the thing forgotten or confused."""
