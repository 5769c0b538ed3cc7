"""Restrictions on points of a search space, compared with Python's own evaluation, and expressions that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofbook.errors import UsageError
from roofbook.spec.restriction import Restriction

NAMES = {"EACH": 3, "GROUP": 64, "RATIO": 0.5, "ORDER": "ROWS", "sides": (16, 4)}

numbers = st.one_of(
    st.sampled_from(["EACH", "GROUP", "RATIO", "sides[0]", "sides[1]"]), st.integers(0, 300).map(str), st.just("0.25")
)
arithmetic = st.recursive(
    numbers,
    lambda parts: st.one_of(
        st.tuples(parts, st.sampled_from(["+", "-", "*", "/", "//", "%"]), parts).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        parts.map(lambda part: f"(-{part})"),
        parts.map(lambda part: f"({part} ** 2)"),
    ),
    max_leaves=6,
)
comparisons = st.one_of(
    st.tuples(arithmetic, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), arithmetic).map(" ".join),
    st.tuples(arithmetic, arithmetic, arithmetic).map(lambda t: f"{t[0]} <= {t[1]} < {t[2]}"),
    arithmetic.map(lambda value: f"{value} in (1, 2, 64)"),
    st.sampled_from(["ORDER == 'ROWS'", "ORDER not in ['COLUMNS']", "True", "sides == (16, 4)"]),
)
conditions = st.recursive(
    comparisons,
    lambda parts: st.one_of(
        st.tuples(parts, st.sampled_from(["and", "or"]), parts).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        parts.map(lambda part: f"(not {part})"),
    ),
    max_leaves=5,
)


@given(conditions)
def test_a_restriction_has_the_value_that_python_gives_it(expression: str) -> None:
    restriction = Restriction(expression, set(NAMES))
    try:
        expected = bool(eval(expression, {"__builtins__": {}}, dict(NAMES)))
    except ZeroDivisionError:
        with pytest.raises(UsageError, match="has no value at"):
            restriction(NAMES)
    else:
        assert restriction(NAMES) is expected


@given(st.text(max_size=60))
def test_any_text_is_a_restriction_or_one_line_of_error(text: str) -> None:
    try:
        assert Restriction(text, set(NAMES))(NAMES) in (True, False)
    except UsageError as error:
        assert len(str(error).splitlines()) == 1


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("EACH*GRUOP <= 64", "there is no knob or size GRUOP; valid: EACH, GROUP"),
        ("EACH <=", "invalid syntax"),
        ("", "invalid syntax"),
        ("__import__('os').system('true')", "is not allowed"),
        ("(lambda: 1)()", "is not allowed"),
        ("[EACH for EACH in (1, 2)]", "is not allowed"),
        ("EACH.real == 3", "is not allowed"),
        ("'a' * 10 ** 9 == ''", "has no value at : 'a' is no number"),
        ("ORDER < 3", "has no value at ORDER=ROWS"),
        ("9 ** 9 ** 9 ** 9 > 1", "a power is too large"),
        ("(-1) ** 0.5 > 0", "a root of a negative number"),
        ("sides[7] > 1", "has no value at sides=(16, 4): tuple index out of range"),
        ("(" * 300 + "1" + ")" * 300, "is no restriction"),
        ("1 + " * 400 + "1", "longer than 1000 characters"),
    ],
)
def test_what_is_no_restriction_is_refused_in_one_line(expression: str, reason: str) -> None:
    with pytest.raises(UsageError) as error:
        Restriction(expression, set(NAMES))(NAMES)
    assert reason in str(error.value) and len(str(error.value).splitlines()) == 1
