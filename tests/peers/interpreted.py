"""Kernels in Triton without a GPU: its interpreter runs them on NumPy's memory.

`TRITON_INTERPRET=1 python -m tests.peers.interpreted LAB VARIANT CASE` prints the error of a plan's outputs and the tolerance.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from roofbook.devices.contract import Device
from roofbook.peers import one_thread, python_kernel
from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.spec.plan import Case, Variant


class Array:
    """An array as Triton's interpreter takes one: it asks for PyTorch's methods, and needs the address alone."""

    def __init__(self, values: np.ndarray, dtype: str) -> None:
        self.values, self.dtype = values, dtype

    def data_ptr(self) -> int:
        return int(self.values.ctypes.data)

    def new_empty(self, *_: Any, **__: Any) -> "Array":
        return Array(self.values, self.dtype)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        assert name in ("untyped_storage", "cpu", "copy_", "set_", "storage_offset", "size", "stride"), name
        return lambda *_: self


DTYPES = {"fp16": "float16", "fp32": "float32", "i8": "int8", "i32": "int32"}


class Kernel(one_thread.Kernel):
    """A kernel with its constants, as a plan launches it."""

    def __init__(self, function: Any, types: Sequence[str], constants: Mapping[str, Any]) -> None:
        self.types = types
        self.call = function, dict(constants)

    def __call__(self, grid: tuple[int, ...], *values: Any) -> None:
        """Run it on arrays and numbers."""
        (function, constants), arguments = self.call, []
        for type, value in zip(self.types, values, strict=True):
            name = DTYPES[type.removeprefix("*")]
            arguments.append(Array(value, name) if type.startswith("*") else value.item())
        function[grid](*arguments, **constants)


class Queue(one_thread.Queue):
    def launch(self, kernel: Any, global_size: Sequence[int], local_size: Sequence[int], *args: Any) -> None:
        grid = tuple(size // local for size, local in zip(global_size, local_size, strict=True))
        kernel(grid, *(getattr(argument, "memory", argument) for argument in args))


class Interpreted(one_thread.OneThread):
    """A GPU without machine code."""

    backend, kind = "cuda", "gpu"

    def __init__(self) -> None:
        self.spec = self.name = "interpreted"

    def queue(self, profiling: bool = False) -> Queue:
        return Queue()


def checked(lab: Lab, variant: Variant, case: Case) -> tuple[float, float, str]:
    """Run a variant's plan in the interpreter, and return the lab's check of its outputs."""

    def made(_: str, __: Device, load: Callable[[], Any], ___: Any, form: tuple[Any, ...]) -> Any:
        types, constants = form[:2]
        return SimpleNamespace(kernel=Kernel(load(), types, dict(constants)), behind=())

    python_kernel._made = made  # type: ignore[assignment]
    inputs = lab.verification_inputs(case, lab.verified_on(variant), lab.inputs(case, 7))
    plan = variant.plan(Interpreted(), variant, case, inputs)
    plan.reset()
    plan.run()
    return lab.check(case, variant, plan.outputs(), lab.reference(case, inputs))


if __name__ == "__main__":
    of = registry.get(sys.argv[1])
    print(*checked(of, of.variant(sys.argv[2]), of.case(sys.argv[3], "test"))[:2])
