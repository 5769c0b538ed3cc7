"""A verified kernel as a function of arrays: of NumPy, PyOpenCL, CuPy, or PyTorch, which gives its memory by DLPack.

The lab's plan runs it. A call copies arrays into the plan's buffers and outputs into new arrays.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..devices.contract import Device
from ..errors import UsageError
from ..spec.lab import Lab
from ..spec.launch_trace import traced
from ..spec.plan import Case, Variant
from ..spec.submission import arrays_of

CPU, CUDA = 1, 2
"""Kinds of devices in DLPack."""
SEED = 1


class KernelCall:
    """A kernel that runs on arrays of the lab's names and shapes. One call does all units of the case."""

    def __init__(
        self, lab: Lab, variant: Variant, case: Case, device: Device, error: float, tolerance: float, seconds: float
    ) -> None:
        """Make the plan ready. Raise UsageError if it keeps an input in a layout of its own.

        error, tolerance: of the check by which the kernel was verified. seconds: of a unit, as the store has it.
        """
        self.lab, self.variant, self.case, self.device = lab, variant, case, device
        self.error, self.tolerance, self.seconds = error, tolerance, seconds
        inputs = lab.inputs(case, SEED)
        self.inputs = {name: (array.dtype, array.shape) for name, array in arrays_of(inputs).items()}
        self.outputs = dict(lab.output_arrays(case))
        self._run = traced(lab, variant, case, device, inputs)
        self._queue = device.queue()
        if missing := [name for name in self.inputs if name not in self._run.arrays]:
            self.close()
            raise UsageError(f"its plan lays out {', '.join(missing)} in its own way")

    def __repr__(self) -> str:
        return (
            f"<{self.lab.name} {self.variant.name} on {self.case.name}, {self.device.spec}: {self.seconds:.3g} s per "
            f"{self.lab.unit}, error {self.error:.2g} of at most {self.tolerance:.2g}>"
        )

    def __call__(self, **arrays: Any) -> dict[str, Any]:
        """Return the outputs by name, arrays of the library of the first input, on its device.

        arrays: all inputs by name. Raise UsageError for an array that is missing or has another shape or type.
        """
        if arrays.keys() != self.inputs.keys():
            raise UsageError(f"the arrays are {', '.join(self.inputs)}, not {', '.join(arrays) or 'none'}")
        for name, array in arrays.items():
            dtype, shape = self.inputs[name]
            if tuple(array.shape) != shape or np.dtype(str(array.dtype).removeprefix("torch.")) != dtype:
                raise UsageError(f"{name} is {dtype} {shape}, not {array.dtype} {tuple(array.shape)}")
        self._run.runnable.reset()
        for name, array in arrays.items():
            self._fill(name, array)
        self._queue.finish()
        self._run.runnable.run()
        computed = self._run.runnable.outputs()
        like = next(iter(arrays.values()))
        return {name: _like(like, computed[name].astype(dtype)) for name, (dtype, _) in self.outputs.items()}

    def _fill(self, name: str, array: Any) -> None:
        """Copy an array into the plan's buffer, on the GPU if both are there."""
        buffer = self._run.arrays[name]
        if self.device.backend == "cuda" and _is_on_gpu(array):
            import cupy

            from ..devices.cuda import Buffer

            with cupy.cuda.Device(int(array.__dlpack_device__()[1])):
                source = cupy.ascontiguousarray(cupy.from_dlpack(array))
                cupy.cuda.get_current_stream().synchronize()
            self._queue.copy(buffer, Buffer(source, source.nbytes))
            self._queue.finish()
        else:
            self._queue.write(buffer, np.ascontiguousarray(_on_host(array)))

    def close(self) -> None:
        """Release the device's memory."""
        self._run.runnable.close()


def _is_on_gpu(array: Any) -> bool:
    return hasattr(array, "__dlpack_device__") and int(array.__dlpack_device__()[0]) == CUDA


def _on_host(array: Any) -> np.ndarray:
    """Return an array of any of the libraries as one of NumPy."""
    if isinstance(array, np.ndarray):
        return array
    if hasattr(array, "get"):  # PyOpenCL, CuPy
        return np.asarray(array.get())
    return np.from_dlpack(array.cpu() if _is_on_gpu(array) else array)


def _like(array: Any, values: np.ndarray) -> Any:
    """Return values as an array of the same library and device as another one."""
    library = type(array).__module__.partition(".")[0]
    if library == "pyopencl":
        import pyopencl.array

        return pyopencl.array.to_device(array.queue, values)
    if library == "cupy":
        import cupy

        with array.device:
            return cupy.asarray(values)
    if library == "torch":
        import torch

        return torch.from_numpy(values).to(array.device)
    return values


_MAKING = {
    "cupy": ("import cupy", "cupy.empty({shape}, '{dtype}')"),
    "pyopencl": ("import pyopencl as cl\nimport pyopencl.array\n\nqueue = cl.CommandQueue(cl.create_some_context(False))",
                 "cl.array.empty(queue, {shape}, '{dtype}')"),
    "torch": ("import torch", "torch.empty({shape}, dtype=torch.{dtype})"),
}  # fmt: skip
"""Library -> its import, and the expression of an array."""


def example(lab: Lab, case: Case, device: Device, library: str) -> str:
    """Return a program that calls the fastest kernel on arrays of a library."""
    imports, array = _MAKING[library]
    inputs: Mapping[str, np.ndarray] = arrays_of(lab.inputs(case, SEED))
    lines = [f"    {name}={array.format(shape=held.shape, dtype=held.dtype)}," for name, held in inputs.items()]
    return "\n".join([
        imports, "import roofbook", "", f"kernel = roofbook.best({lab.name!r}, {case.name!r}, {device.spec!r})",
        "print(kernel)  # its time, and the error that it was verified to", "outputs = kernel(", *lines,
        f")  # {', '.join(lab.output_arrays(case))}, by name", "",
    ])  # fmt: skip
