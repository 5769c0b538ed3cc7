"""Points of a class: read from a TOML file, with a line for each mistake in it; rounded points keep their sum."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofbook.errors import UsageError
from roofbook.spec.credit import Credit, points_for, read_credit, rounded


def test_a_file_states_points(tmp_path: Path) -> None:
    file = tmp_path / "points.toml"
    file.write_text('sizes = 60\nagainst = "float4"\nstep = [[0.5, 10], [0.9, 30]]\nbound = [[0.5, 10]]\n')
    credit = read_credit(file)
    assert credit == Credit(60.0, ((0.5, 10.0), (0.9, 30.0)), ((0.5, 10.0),), "float4") and credit.most == 100
    file.write_text("")
    assert read_credit(file) == Credit() and Credit().most == 100


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("size = 60", "there is no setting size; valid: sizes"),
        ("sizes = -1", "sizes: points are a number from 0"),
        ("sizes = true", "sizes: points are a number"),
        ("sizes = nan", "sizes: points are a number"),
        ("sizes = 0", "nothing gives points"),
        ("step = [0.5, 10]", r"step is a list such as \[\["),
        ("step = [[0.9, 10], [0.5, 30]]", "both numbers of a pair rising"),
        ("against = 3", "against is the name of a step"),
        ("sizes = ", "is no TOML"),
        ("sizes = 1e7", "points are a number"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "points.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=message) as error:
        read_credit(file)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_credit(tmp_path / "nowhere.toml")


def test_the_highest_threshold_that_is_reached_counts() -> None:
    thresholds = ((0.5, 10.0), (0.9, 30.0))
    assert [points_for(value, thresholds) for value in (0.49, 0.5, 0.89, 0.9, 7.0)] == [0, 10, 10, 30, 30]


@given(st.lists(st.floats(0, 1000), max_size=20), st.integers(0, 3))
def test_rounded_points_keep_their_sum(points: list[float], digits: int) -> None:
    parts = rounded(points, digits)
    assert len(parts) == len(points) and all(part >= 0 for part in parts)
    assert sum(parts) == pytest.approx(round(sum(points), digits), abs=2 * 10.0**-digits if digits else 1.0)
    assert all(round(part, digits) == part for part in parts)
