"""Machine code that PoCL makes of all passes, compared with the stencil page."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofbook.labs.stencil import LAB

from .. import machine_code


@pytest.mark.skipif(not machine_code.has("avx512f"), reason="of AVX-512, which this CPU has not")
@pytest.mark.parametrize(("name", "kernel", "vectors"), [("fused-float16", "flat", 1), ("streams", "streams", 8)])
def test_a_pass_adds_to_each_vector_and_touches_no_memory(tmp_path: Path, name: str, kernel: str, vectors: int) -> None:
    loops = machine_code.innermost_loops(LAB, name, "6x1024", kernel, tmp_path)
    passes = [loop for loop in loops if any(text.startswith("vaddps") for text in loop)]
    assert passes
    for loop in passes:
        assert sum(text.startswith("vaddps ") and "%zmm" in text for text in loop) == vectors
        assert len(loop) == vectors + 2 and not any("(" in text for text in loop), "the rest counts passes"
