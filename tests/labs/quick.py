"""Kernels that a CPU's compiler takes as they stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from roofbook.devices import contract, opencl


@contextmanager
def unoptimised() -> Iterator[None]:
    """What is built here is compiled in a third of the time, for a CPU: most kernels of the tests run once.

    In the executed book, and before each measurement, they are verified as a reader has them.
    """
    build = opencl.OpenCLDevice.build

    def quickly(self: opencl.OpenCLDevice, text: str, options: Sequence[str] = ()) -> contract.Program:
        return build(self, text, [*options, "-cl-opt-disable"] if self.kind == "cpu" else options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opencl.OpenCLDevice, "build", quickly)
        yield
