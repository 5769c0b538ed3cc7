"""The identity of Python code: what it does."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from roofbook.labs.lenet.forward import Forward
from roofbook.labs.lenet.whole import Whole
from roofbook.spec.host_code import hash_of_code
from roofbook.spec.lab import Variant

CODE = '''"""A module."""
import os

LIMIT = 3
"""How many."""

def count(n: int) -> int:
    """Count."""
    # as far as it goes
    return min(n, LIMIT)
'''


def of(text: str, name: str = "a.py") -> str:
    return hash_of_code([(name, text.encode())])


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ('"""A module."""', '"""Another text."""\n\n'),
        ('"""How many."""', ""),
        ('    """Count."""\n', ""),
        ("# as far as it goes", "# no further"),
        ("    return min(n, LIMIT)", "\n\n    return min(\n        n, LIMIT\n    )"),
    ],
)
def test_words_about_code_change_nothing(was: str, now: str) -> None:
    assert was in CODE and of(CODE.replace(was, now)) == of(CODE)
    assert of(CODE, "a.txt") != of(CODE.replace(was, now), "a.txt"), "of other files the text counts"


@pytest.mark.parametrize(
    ("was", "now"), [("LIMIT = 3", "LIMIT = 4"), ("min(", "max("), ("n: int", "n: float"), ("import os", "")]
)
def test_what_code_does_changes_it(was: str, now: str) -> None:
    assert was in CODE and of(CODE.replace(was, now)) != of(CODE)


def test_code_that_is_half_written_counts_as_its_text() -> None:
    assert of("def f(:") != of("def f(: # here") and of("def f(:") == of("def f(:")
    assert hash_of_code([("a.py", b"1"), ("b.py", b"2")]) == hash_of_code([("b.py", b"2"), ("a.py", b"1")])
    assert hash_of_code([("a.py", b"1")]) != hash_of_code([("c.py", b"1")])


@pytest.mark.parametrize(("added", "another"), [("\nLIMIT = 3\n", True), ("\n# a comment\n", False)])
def test_a_variant_is_another_where_a_class_does_something_else_that_its_plan_is_made_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, added: str, another: bool
) -> None:
    """Also one of another file."""
    real, copy = inspect.getfile, tmp_path / "forward.py"
    assert Path(real(Forward)).name == copy.name != Path(real(Whole)).name

    def found(each: Any) -> str:
        return str(copy) if each is Forward else real(each)

    def fingerprint(text: str) -> dict[str, Any]:
        copy.write_text(Path(real(Forward)).read_text() + text)
        with monkeypatch.context() as patch:
            patch.setattr(inspect, "getfile", found)
            return Variant("whole", None, None, Whole, "", "").fingerprint()

    assert (fingerprint(added) != fingerprint("")) == another
