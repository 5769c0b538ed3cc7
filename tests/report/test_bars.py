"""The ladder as bars, also where its base was not measured."""

import pytest

from roofbook import report
from roofbook.errors import UsageError

from .rows import lab_rows


def test_ladder_chart_without_its_base_starts_at_the_first_variant() -> None:
    figure = report.ladder_chart(lab_rows(), ["port", "fused"], case="256x256", base="none")
    assert "over port" in figure.title
    with pytest.raises(UsageError, match="verified time"):
        report.ladder_chart(lab_rows(), ["soa"], case="256x256")
