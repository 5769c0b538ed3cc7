"""Machine code that PoCL makes of explicit vectors, compared with the LeNet page."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofbook.labs.lenet import LAB

from .. import machine_code


def products(loop: list[str], register: str) -> int:
    return sum(text.startswith("vfmadd") and register in text for text in loop)


@pytest.mark.thorough
@pytest.mark.skipif(not machine_code.has("avx512f"), reason="of AVX-512, which this CPU has not")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("vectors", {4 * 5 * 7, 4 * 3 * 7}, id="vectors"),  # filters x vectors of a row x taps
        pytest.param("filter-lanes", {4 * 5 * 7, 17 * 7}, id="filter-lanes"),
        pytest.param("pooled-vectors", {4 * 5 * 7, 17 * 7}, id="pooled-vectors"),
    ],
)
def test_with_avx512_sums_stay_in_whole_registers(name: str, expected: set[int], tmp_path: Path) -> None:
    loops = [loop for loop in machine_code.innermost_loops(LAB, name, "batch-1", "vectors", tmp_path)
             if products(loop, "%")]  # fmt: skip
    assert {products(loop, "%zmm") for loop in loops} == expected, "one a vector in the source"
    for loop in loops:
        assert not any("%ymm" in text or "call" in text or "(%rsp" in text or "gather" in text for text in loop)


@pytest.mark.thorough
@pytest.mark.skipif(not machine_code.has("avx512f"), reason="of AVX-512, which this CPU has not")
def test_with_avx512_winograds_products_are_in_whole_registers(tmp_path: Path) -> None:
    """Layer 2 reads a broadcast input with each product; layer 1 takes four filters by two rows by seven taps."""
    loops = [loop for loop in machine_code.innermost_loops(LAB, "winograd-vectors", "batch-1", "winograd", tmp_path)
             if products(loop, "%")]  # fmt: skip
    layer_2 = [loop for loop in loops if products(loop, "%zmm") == 2 * 9 and any("{1to16}" in text for text in loop)]
    assert layer_2 and not any("(%rsp" in text for loop in layer_2 for text in loop), "no sum in memory"
    assert any(products(loop, "%zmm") == 2 * 4 * 7 for loop in loops)
    assert not any("%ymm" in text or "call" in text or "gather" in text for loop in loops for text in loop)


@pytest.mark.thorough
@pytest.mark.skipif(not machine_code.has("avx2"), reason="of AVX2, which this CPU has not")
def test_with_avx2_winograd_on_vectors_is_right(tmp_path: Path) -> None:
    loops = machine_code.innermost_loops(LAB, "winograd-vectors", "batch-1", "winograd", tmp_path, "haswell")
    assert any(products(loop, "%ymm") for loop in loops)
    assert not any("%zmm" in text or "call" in text for loop in loops for text in loop)


@pytest.mark.thorough
@pytest.mark.skipif(not machine_code.has("avx2"), reason="of AVX2, which this CPU has not")
def test_with_avx2_a_vector_takes_two_registers_and_is_right(tmp_path: Path) -> None:
    """Some sums then go through memory."""
    loops = machine_code.innermost_loops(LAB, "filter-lanes", "batch-1", "vectors", tmp_path, "haswell")
    layer_2 = [loop for loop in loops if products(loop, "%ymm") == 2 * 17 * 7]
    assert layer_2 and any("(%rsp" in text for loop in layer_2 for text in loop)
    assert not any("%zmm" in text or "call" in text for loop in layer_2 for text in loop)


TEXT = """
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void add(__global float16 *x) {
  float16 sum = (float16)(0.0f);
  __global float16 *mine = x + NUMBER;
  for (int i = 0; i < 1000; i++) sum += mine[i] * mine[i + 1];
  x[0] = sum;
}
"""


@pytest.mark.thorough
@pytest.mark.skipif(not machine_code.has("avx512f"), reason="of AVX-512, which this CPU has not")
def test_a_kernel_without_a_number_of_its_group_is_called_and_others_are_not(tmp_path: Path) -> None:
    if " PoCL 3.0" not in machine_code.pocl().identity()["platform"]:
        pytest.skip("of PoCL 3.0: this is another")
    loops = machine_code.loops_of(TEXT.replace("NUMBER", "get_group_id(0)"), "add", tmp_path / "asks")
    assert any(products(loop, "%zmm") for loop in loops)
    assert not machine_code.loops_of(TEXT.replace("NUMBER", "1"), "add", tmp_path / "does-not")
