"""What the tests of the labs need alone: a CPU's compiler that is quick."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .quick import unoptimised


@pytest.fixture(scope="module", autouse=True)
def quickly_compiled(request: pytest.FixtureRequest) -> Iterator[None]:
    """Not in a module with OPTIMISED = True, whose kernels outlast their compiler."""
    if getattr(request.module, "OPTIMISED", False):
        yield
    else:
        with unoptimised():
            yield
