"""Parameters of a test of which the short suite takes a few; `make test-all` takes all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def often(parameters: Iterable[Any], is_often: Callable[[Any], object]) -> list[Any]:
    """Return parameters of `pytest.mark.parametrize`; those that are not tried often have the mark `thorough`.

    A tuple holds the values of several arguments.
    """
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)), marks=[] if is_often(value) else pytest.mark.thorough
        )
        for value in parameters
    ]


def sample_of(parameters: Iterable[Any], *, spacing: int = 4) -> list[Any]:
    """Return parameters of `pytest.mark.parametrize`; all but the first of each `spacing` have the mark `thorough`."""
    return [
        parameter
        if number % spacing == 0
        else pytest.param(
            *(parameter.values if hasattr(parameter, "values") else (parameter,)),
            marks=[*getattr(parameter, "marks", ()), pytest.mark.thorough],
            id=getattr(parameter, "id", None),
        )
        for number, parameter in enumerate(parameters)
    ]
