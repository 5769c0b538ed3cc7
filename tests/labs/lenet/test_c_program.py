"""The C program of the LeNet lab: right on odd sizes with any number of threads, wrong once it forgets something."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofbook.labs.lenet import LAB

from .. import c_program

pytestmark = c_program.needs_compiler


@pytest.mark.parametrize("name", ["batch-2", "batch-3"])
def test_it_is_right_with_any_number_of_threads(name: str) -> None:
    assert c_program.is_right(LAB, name)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        pytest.param("p < TAPS", "p < TAPS - 1", id="a row of taps"),
        pytest.param("i < side; i++", "i < side - 1; i++", id="the last row"),
    ],
)
def test_what_it_forgets_is_found_out(text: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert c_program.is_refused(LAB, "batch-3", text, wrong, tmp_path)
