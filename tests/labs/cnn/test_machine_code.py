"""Machine code that PoCL makes of the sums of a CPU's step, compared with the CNN page."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofbook.labs.cnn import LAB

from .. import machine_code

PRODUCTS = 25 * 4 * 4
"""Products of a channel: taps by filters by rows."""
INPUTS = 5 * 8
"""Inputs of a channel: columns of taps by rows of the input that four rows of the output see."""


@pytest.mark.skipif(not machine_code.has("avx512f"), reason="of AVX-512, which this CPU has not")
def test_the_sums_stay_in_registers_and_nearly_all_is_multiply_adds(tmp_path: Path) -> None:
    loops = machine_code.innermost_loops(LAB, "four-rows", "16ch-16x28-k5", "four_rows", tmp_path)
    (channel,) = (loop for loop in loops if any(text.startswith("vfmadd") for text in loop))

    def count(instruction: str) -> int:
        return sum(text.startswith(instruction) and "%zmm" in text for text in channel)

    assert (count("vfmadd"), count("vbroadcastss"), count("vmovups")) == (PRODUCTS, 100, INPUTS)
    assert not any("call" in text or "(%rsp" in text or "%ymm" in text for text in channel)
