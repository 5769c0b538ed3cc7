"""The C program of the stencil lab: right on odd sizes with any number of threads, wrong once it forgets something."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofbook.labs.stencil import LAB

from .. import c_program

pytestmark = c_program.needs_compiler


@pytest.mark.parametrize("name", ["3x3", "5x13", "37x53", "7x1000"])
def test_it_is_right_with_any_number_of_threads(name: str) -> None:
    assert c_program.is_right(LAB, name)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        pytest.param("pass < passes", "pass < passes - 1", id="a pass"),
        pytest.param("b + at + 2 * width", "b + at + width", id="a row"),
    ],
)
def test_what_it_forgets_is_found_out(text: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert c_program.is_refused(LAB, "37x53", text, wrong, tmp_path)
