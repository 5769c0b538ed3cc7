"""C with OpenMP as a peer: the page of C that a user would write instead of a kernel, on all cores, timed like a variant.

It needs a C compiler. Without OpenMP it runs on one thread, and its facts say so.
"""

import ctypes
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..devices.contract import Device
from ..devices.host import processors
from ..spec.plan import Case, Plan, Variant, stated_conditions
from . import cc, compilers

SLACK = 128
"""Number of zeros behind an array: more than the values in all vectors that a thread of any of the programs holds."""


class CProgram(Plan):
    """Base of the C peers: builds the first of `sources` and calls one function of it. The time is that of the whole call.

    Raises cc.NoCompiler or cc.BuildFailed.
    """

    sources: tuple[Path, ...]
    """The file that is compiled, and the files that it includes."""
    function: str

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        self.units = case.units
        openmp, self.note = cc.openmp_flags()
        self.flags = (*cc.FAST, *openmp)
        self.threads = processors() if openmp else 1
        self._function = getattr(cc.build(self.sources[0], self.flags), self.function)
        self._function.restype = None
        self.prepare(inputs)

    @staticmethod
    def missing() -> str | None:
        """Return the reason, in one line, why no C peer runs on this machine; None if they do."""
        return cc.missing()

    conditions = staticmethod(stated_conditions)

    @staticmethod
    def compilers(variant: Variant) -> dict[str, str]:
        return compilers.c_compiler()

    @abstractmethod
    def prepare(self, inputs: Mapping[str, Any]) -> None:
        """Lay out the lab's inputs, and room for outputs, as the function takes them. Not timed."""

    def call(self, *values: int | np.ndarray) -> None:
        """Call the C function: numbers as int, arrays by their address, the number of threads last."""
        for value in values:
            assert isinstance(value, int) or value.flags.c_contiguous
        addressed = [value if isinstance(value, int) else ctypes.c_void_p(value.ctypes.data) for value in values]
        self._function(*addressed, self.threads)

    def facts(self) -> dict[str, Any]:
        ran = compilers.threads_of_a_team(self.threads)
        fewer = {"threads asked for": self.threads} if ran < self.threads else {}
        return {"threads": ran, **fewer, "flags": " ".join(self.flags), "note": self.note}


class LayerProgram(CProgram):
    """Base of the C peers that compute a layer, `out`, once a unit."""

    out: np.ndarray
    unwritten: float
    """Value of outputs that the program has not written."""

    @abstractmethod
    def arguments(self) -> tuple[int | np.ndarray, ...]:
        """Return the function's arguments before `out`."""

    def reset(self) -> None:
        self.out.fill(self.unwritten)

    def run(self) -> None:
        for _ in range(self.units):
            self.call(*self.arguments(), self.out)

    def outputs(self) -> dict[str, np.ndarray]:
        return {"out": self.out.astype(np.float64 if self.out.dtype == np.float32 else self.out.dtype)}


def with_slack(array: np.ndarray) -> np.ndarray:
    """Return the array's values as one row of float32, and SLACK zeros for vectors of a C program that read beyond the end."""
    return np.concatenate([array.ravel(), np.zeros(SLACK)], dtype=np.float32)
