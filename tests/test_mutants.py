"""The harness of mutants itself: a check that sees nothing is found out, and so is one that is blind in one way."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from . import mutants

RIGHT = {"out": np.arange(24, dtype=np.float32).reshape(2, 3, 4), "sums": np.array([3, 1, 2])}


def careful(outputs: mutants.Outputs) -> tuple[float, float, str]:
    for name, array in RIGHT.items():
        if outputs[name].shape != array.shape:
            raise ValueError("shapes differ")
    return float(np.max([np.abs(outputs[name] - array).max() for name, array in RIGHT.items()])), 0.0, "largest error"


def blind(change: Callable[[Any], Any]) -> mutants.Check:
    """A check that looks at each output after a change that hides something."""
    right = {name: change(array) for name, array in RIGHT.items()}

    def check(outputs: mutants.Outputs) -> tuple[float, float, str]:
        changed = {name: change(array) for name, array in outputs.items()}
        if any(changed[name].shape != array.shape for name, array in right.items()):
            raise ValueError("shapes differ")
        return max(float(np.abs(changed[name] - array).max()) for name, array in right.items()), 0.0, ""

    return check


def nan_is_nothing(array: Any) -> Any:
    return np.nan_to_num(array, nan=0.0, posinf=1e9, neginf=-1e9)


@pytest.mark.parametrize(
    ("check", "passed"),
    [
        (lambda outputs: (0.0, 0.0, ""), "out: nan at 0"),
        (blind(nan_is_nothing), "out: nan at 0"),
        (blind(lambda array: np.sort(array, axis=None)), "out: one off along axis 0"),
        (blind(np.ravel), "out: one axis more"),
        (blind(lambda array: array[..., :-1]), "out: nan at 23"),
        (blind(lambda array: array[:1]), "out: inf at 12"),
        (blind(lambda array: np.floor(np.maximum(array, 0) / 2)), "out: off by 1 at 12"),
        (lambda outputs: careful({**outputs, "sums": RIGHT["sums"]}), "sums: nan at 0"),
    ],
)
def test_a_check_blind_to_one_mutant_is_reported(check: mutants.Check, passed: str) -> None:
    with pytest.raises(AssertionError, match=rf"accepted, though wrong: (.*; )?{re.escape(passed)}"):
        mutants.all_refused(check, RIGHT, off_by=1)


def test_a_careful_check_passes_and_must_accept_the_right_output() -> None:
    mutants.all_refused(careful, RIGHT, off_by=1)
    with pytest.raises(AssertionError, match="what is right is accepted"):
        mutants.all_refused(lambda outputs: (1.0, 0.0, ""), RIGHT, off_by=1)
    with pytest.raises(AssertionError, match=r"accepted, though wrong: the lab's own$"):
        mutants.all_refused(careful, RIGHT, off_by=1, extra_mutants=[("the lab's own", RIGHT)])
    with pytest.raises(ValueError, match="broadcast"):
        mutants.refused(lambda outputs: (float((np.zeros(3) + np.zeros(2)).max()), 0.0, ""), RIGHT)


def test_a_kernel_changes_only_at_the_words_of_the_mutant(tmp_path: Path) -> None:
    (tmp_path / "a.k").write_text("one two two\n")
    mutants.change(tmp_path, "a.k", "one", "1")
    assert (tmp_path / "a.k").read_text() == "1 two two\n"
    with pytest.raises(AssertionError, match=r"a\.k has 'two' 2 times"):
        mutants.change(tmp_path, "a.k", "two", "2")
    with pytest.raises(AssertionError, match=r"a\.k has 'one' 0 times"):
        mutants.change(tmp_path, "a.k", "one", "1", once=False)
    mutants.change(tmp_path, "a.k", "two", "2", once=False)
    assert (tmp_path / "a.k").read_text() == "1 2 2\n"
