"""Machine code that PoCL makes of explicit vectors, compared with the convpool page."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofbook.labs.convpool import LAB

from .. import machine_code

VECTORS = 8 * 2
"""Vectors of a tile: rows by vectors of a row."""


def count(loop: list[str], instruction: str) -> int:
    """Count an instruction on whole registers of AVX-512."""
    return sum(text.startswith(f"{instruction} ") and "%zmm" in text for text in loop)


@pytest.mark.skipif(not machine_code.has("avx512f"), reason="of AVX-512, which this CPU has not")
@pytest.mark.parametrize("name", ["vectors", "cached-channels"])
def test_with_avx512_an_entry_takes_three_instructions_a_vector(name: str, tmp_path: Path) -> None:
    loops = machine_code.innermost_loops(LAB, name, LAB.cases("test")[0].name, "vectors", tmp_path)
    (walk,) = (loop for loop in loops if any("vpmul" in text or "vpmadd" in text for text in loop))
    assert {count(walk, instruction) for instruction in ("vpmovsxwd", "vpmulld", "vpaddd")} == {VECTORS}
    assert not any("call" in text or "(%rsp" in text or "%ymm" in text for text in walk)
    assert len(walk) <= 3 * VECTORS + 8, "the rest reads the entry and counts"


@pytest.mark.skipif(not machine_code.has("avx2"), reason="of AVX2, which this CPU has not")
def test_with_avx2_a_vector_takes_two_registers_and_is_right(tmp_path: Path) -> None:
    """Half of the sums then go through memory."""
    loops = machine_code.innermost_loops(LAB, "vectors", LAB.cases("test")[0].name, "vectors", tmp_path, "haswell")
    (walk,) = (loop for loop in loops if any("vpmul" in text or "vpmadd" in text for text in loop))
    assert sum(text.startswith("vpmulld ") and "%ymm" in text for text in walk) == 2 * VECTORS
    assert any("(%rsp" in text for text in walk) and not any("%zmm" in text or "call" in text for text in walk)
