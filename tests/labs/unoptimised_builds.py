"""Kernels compiled without optimisation on a CPU, so that tests are quick."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from roofbook.devices import contract, opencl


@contextmanager
def unoptimised() -> Iterator[None]:
    """Compile a CPU's kernels without optimisation, in a third of the time: most kernels of the tests run once.

    The executed book, and each measurement, verify them with optimisation, as a reader has them.
    """
    build = opencl.OpenCLDevice.build

    def quickly(self: opencl.OpenCLDevice, text: str, options: Sequence[str] = ()) -> contract.Program:
        return build(self, text, [*options, "-cl-opt-disable"] if self.kind == "cpu" else options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opencl.OpenCLDevice, "build", quickly)
        yield
