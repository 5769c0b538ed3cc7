"""The C program of the convpool lab: right on odd sizes with any number of threads, wrong once it forgets something."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofbook.labs.convpool import LAB

from .. import c_program

pytestmark = c_program.needs_compiler


@pytest.mark.parametrize("name", ["1x1x2x2-k1", "3x2x7x7-k5", "9x70x37x37-k3", "5x7x9x9-k3-w0-x0"])
def test_it_is_right_with_any_number_of_threads(name: str) -> None:
    assert c_program.is_right(LAB, name)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        pytest.param("i + edge", "i", id="the frame"),
        pytest.param("counts[f] = count", "counts[f] = count - 1", id="the last of a list"),
    ],
)
def test_what_it_forgets_is_found_out(text: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert c_program.is_refused(LAB, "9x70x37x37-k3", text, wrong, tmp_path)
