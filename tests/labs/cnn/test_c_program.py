"""The C program of the CNN lab: right on odd sizes with any number of threads, wrong once it forgets something."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofbook.labs.cnn import LAB

from .. import c_program

pytestmark = c_program.needs_compiler


@pytest.mark.parametrize("name", ["3to5ch-7x34-k3", "2to3ch-5x33-k6", "5to130ch-9x75-k5", "1to1ch-2x2-k1"])
def test_it_is_right_with_any_number_of_threads(name: str) -> None:
    assert c_program.is_right(LAB, name)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        pytest.param("= (floats){0} + l->bias[filter]", "= (floats){0}", id="the bias"),
        pytest.param("float largest = 0", "float largest = -1e30f", id="ReLU"),
        pytest.param("c < l->channels", "c < l->channels - 1", id="a channel"),
    ],
)
def test_what_it_forgets_is_found_out(text: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert c_program.is_refused(LAB, "3to5ch-7x34-k3", text, wrong, tmp_path)
