"""Machine code that PoCL makes of a core's band of rows, compared with the LBM page."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofbook.labs.lbm import LAB

from .. import machine_code


@pytest.mark.skipif(not machine_code.has("avx512f"), reason="of AVX-512, which this CPU has not")
@pytest.mark.parametrize(
    ("name", "divisions", "longest"),
    [("bands", 2, 140), ("paired", 1, 105), ("team", 1, 105), ("team-neighbours", 1, 105)],
)
def test_a_vector_of_cells_is_one_loop_without_a_call(tmp_path: Path, name: str, divisions: int, longest: int) -> None:
    kernel = "team" if name.startswith("team") else "bands"
    loops = machine_code.innermost_loops(LAB, name, LAB.cases("test")[0].name, kernel, tmp_path)
    (cells,) = (loop for loop in loops if any(text.startswith("vdivps") for text in loop))

    def count(instruction: str) -> int:
        return sum(text.startswith(instruction) and "%zmm" in text for text in cells)

    assert (count("vdivps"), count("vsqrtps")) == (divisions, 1)
    assert not any("call" in text or "%ymm" in text for text in cells)
    assert not any(text.startswith("vmov") and text.endswith("(%rsp)") for text in cells), "nothing is put aside"
    assert count("vfma") > 10 and len(cells) <= longest
