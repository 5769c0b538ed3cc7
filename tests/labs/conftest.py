"""Settings of the labs' tests alone: a CPU's compiler that is quick."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .unoptimised_builds import unoptimised


@pytest.fixture(scope="module", autouse=True)
def quickly_compiled(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compile a CPU's kernels without optimisation, unless the module has OPTIMISED = True (long runs)."""
    if getattr(request.module, "OPTIMISED", False):
        yield
    else:
        with unoptimised():
            yield
