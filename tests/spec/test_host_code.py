"""The identity of Python code: what it does."""

from __future__ import annotations

import pytest

from roofbook.spec.host_code import hash_of_code

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
