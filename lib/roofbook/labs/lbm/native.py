"""The lab's C code for Python: the OpenMP program and the course's program as peers, and the C host's loops over kernels."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...devices.contract import DriverFailed, Unsupported
from ...devices.host import processors
from ...peers import cc
from .problem import Array, Mask, Params, initial

HERE = Path(__file__).parent
GIVEN_FLAGS = ("-O3",)
"""Flags of the course's program, those of the course."""

_int, _float, _ptr, _size = ctypes.c_int, ctypes.c_float, ctypes.c_void_p, ctypes.c_size_t


@functools.cache
def _library(name: str, flags: tuple[str, ...]) -> ctypes.CDLL:
    library = cc.build(HERE / name, flags)
    if name == "host.c":
        library.opencl_loop.argtypes = [_ptr] * 5 + [_int, _int, _ptr, _ptr, _int, _int]
        library.cuda_loop.argtypes = [_ptr] * 6 + [ctypes.c_uint] + [_ptr] * 3 + [_int, _int]
        return library
    library.lbm_create.argtypes, library.lbm_create.restype = [_int, _int, _float, _float, _float, _ptr, _int], _ptr
    library.lbm_threads.argtypes = [_ptr]
    for name, types in (("free", []), ("set", [_ptr]), ("get", [_ptr]), ("run", [_int, _ptr])):
        function = getattr(library, f"lbm_{name}")
        function.argtypes, function.restype = [_ptr, *types], None
    library.lbm_given.argtypes = [_int, _int, _float, _float, _float, _ptr, _ptr, _ptr, _int, _ptr]
    library.lbm_given.restype = None
    return library


def _pointer(array: NDArray[Any]) -> int:
    assert array.flags.c_contiguous
    return array.ctypes.data


def _inputs(params: Params, obstacles: Mask, f: Array | None) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    blocked = np.ascontiguousarray(obstacles, bool).view(np.uint8)
    state = np.ascontiguousarray(initial(params) if f is None else f, np.float32)
    if blocked.shape != (params.ny, params.nx) or state.shape != (9, *blocked.shape):
        raise ValueError(f"expected obstacles ({params.ny}, {params.nx}) and f (9, {params.ny}, {params.nx})")
    if blocked.all():
        raise ValueError("no fluid cell: at least one cell must be free of obstacles")
    return blocked, state


class OpenMP:
    """C + OpenMP, fused and vectorised (openmp.c). `run` does only the steps: memory is allocated before.

    threads: their number, by default all that this process may use. `reason` says why OpenMP is missing (then there is one
    thread); otherwise it is None. Raises cc.NoCompiler or cc.BuildFailed.
    """

    def __init__(self, params: Params, obstacles: Mask, f: Array | None = None, threads: int | None = None) -> None:
        openmp, self.reason = cc.openmp_flags()
        self.flags = (*cc.FAST, *openmp)
        blocked, state = _inputs(params, obstacles, f)
        self._lib = _library("openmp.c", self.flags)
        self._shape = state.shape
        p = params
        self._grid = self._lib.lbm_create(
            p.nx, p.ny, p.density, p.accel, p.omega, _pointer(blocked), threads or processors()
        )
        if not self._grid:
            raise MemoryError(f"no memory for two grids of {params.nx}x{params.ny}")
        self.threads: int = self._lib.lbm_threads(self._grid)
        self._lib.lbm_set(self._grid, _pointer(state))

    def run(self, steps: int) -> NDArray[np.float32]:
        """Advance by `steps`. Return their av_vels, (steps,), which the attribute `av` keeps."""
        self.av = np.empty(steps, np.float32)
        self._lib.lbm_run(self._grid, steps, _pointer(self.av))
        return self.av

    def state(self) -> NDArray[np.float32]:
        """Return a copy of f, (9, ny, nx)."""
        f = np.empty(self._shape, np.float32)
        self._lib.lbm_get(self._grid, _pointer(f))
        return f

    def __del__(self) -> None:
        if getattr(self, "_grid", None):
            self._lib.lbm_free(self._grid)
            self._grid = None


class Given:
    """The program that the course hands out: one thread, array of structures, one loop nest a stage (openmp.c).

    It has the methods of `OpenMP`. Raises cc.NoCompiler or cc.BuildFailed.
    """

    threads = 1
    reason = None

    def __init__(
        self, params: Params, obstacles: Mask, f: Array | None = None, flags: tuple[str, ...] = GIVEN_FLAGS
    ) -> None:
        self.flags = flags
        self._params = params
        self._blocked, state = _inputs(params, obstacles, f)
        self._lib = _library("openmp.c", flags)
        self._cells = np.ascontiguousarray(state.transpose(1, 2, 0))
        self._moved = np.zeros_like(self._cells)

    def run(self, steps: int) -> NDArray[np.float32]:
        """Advance by `steps`. Return their av_vels, (steps,), which the attribute `av` keeps."""
        p = self._params
        self.av = np.empty(steps, np.float32)
        arrays = [_pointer(a) for a in (self._blocked, self._cells, self._moved)]
        self._lib.lbm_given(p.nx, p.ny, p.density, p.accel, p.omega, *arrays, steps, _pointer(self.av))
        return self.av

    def state(self) -> NDArray[np.float32]:
        """Return a copy of f, (9, ny, nx)."""
        return np.ascontiguousarray(self._cells.transpose(2, 0, 1))


# -- the C host --------------------------------------------------------------------------------------------------------


def _is(stem: str, path: str) -> bool:
    """Return whether a file is the library: wheels add letters to a name, as in libOpenCL-83fd16a5.so.1.0.0."""
    return re.search(rf"/{stem}(-[^/]*)?\.so[^/]*$", path) is not None


@functools.cache
def _loaded(stem: str) -> ctypes.CDLL:
    """Return the library `stem` that this process has already loaded (pyopencl may bring its own), or the system's."""
    try:
        maps = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        maps = []
    paths = [line.split(maxsplit=5)[5] for line in maps if _is(stem, line)]
    path = paths[0] if paths else ctypes.util.find_library(stem.removeprefix("lib"))
    if not path:
        raise Unsupported(f"{stem} is neither loaded nor installed")
    return ctypes.CDLL(path)


def _address(library: ctypes.CDLL, function: str) -> int | None:
    return ctypes.cast(getattr(library, function), _ptr).value


def opencl_loop(
    queue: Any,
    kernels: Sequence[Any],
    global_size: Sequence[int],
    local_size: Sequence[int] | None,
    steps: int,
    first_step: int = 0,
    step_arg: int | None = None,
) -> None:
    """Enqueue kernels[s % 2] for s = first_step, first_step + 1, ... from C, then clFinish.

    queue and the two kernels are pyopencl's, with all arguments set; argument `step_arg` (int32) is set to s.
    Raises DriverFailed with the OpenCL error code, and cc.NoCompiler or cc.BuildFailed.
    """
    if len(kernels) != 2 or (local_size is not None and len(local_size) != len(global_size)):
        raise ValueError("expected two kernels (even and odd steps), and as many local as global sizes")
    host, opencl = _library("host.c", ("-O2",)), _loaded("libOpenCL")
    calls = [_address(opencl, name) for name in ("clEnqueueNDRangeKernel", "clSetKernelArg", "clFinish")]
    dims = len(global_size)
    error = host.opencl_loop(
        *calls,
        queue.int_ptr,
        (_ptr * 2)(*(kernel.int_ptr for kernel in kernels)),
        -1 if step_arg is None else step_arg,
        dims,
        (_size * dims)(*global_size),
        None if local_size is None else (_size * dims)(*local_size),
        first_step,
        steps,
    )
    if error:
        raise DriverFailed(f"the C host's OpenCL loop stopped with error {error}")


def _slot(argument: Any) -> Any:
    """Convert a kernel argument to a ctypes value: a device array to its address, a NumPy scalar to its bytes."""
    if hasattr(argument, "data") and hasattr(argument.data, "ptr"):
        return _ptr(argument.data.ptr)
    if isinstance(argument, np.generic):
        return (ctypes.c_ubyte * argument.nbytes).from_buffer_copy(argument.tobytes())
    return argument


def cuda_loop(
    functions: Sequence[int],
    grid: Sequence[int],
    block: Sequence[int],
    arguments: Sequence[Sequence[Any]],
    steps: int,
    first_step: int = 0,
    step_arg: int | None = None,
    shared: int = 0,
    stream: int = 0,
    driver: tuple[int | None, int | None] | None = None,
) -> None:
    """Launch functions[s % 2] with arguments[s % 2] for s = first_step, ... from C, then wait for the stream.

    functions: two CUfunction handles (CuPy: `RawKernel.kernel.ptr`); grid and block: up to three sizes; arguments:
    two lists of device arrays, NumPy scalars or ctypes values, where entry `step_arg` is replaced by int32 s.
    stream: its handle, 0 for the default one. driver: addresses of cuLaunchKernel and cuStreamSynchronize, by default those
    of the loaded libcuda. Raises DriverFailed with the CUDA error code.
    """
    if len(functions) != 2 or len(arguments) != 2:
        raise ValueError("expected two functions and two lists of arguments, for even and odd steps")
    host = _library("host.c", ("-O2",))
    if driver is None:
        cuda = _loaded("libcuda")
        driver = _address(cuda, "cuLaunchKernel"), _address(cuda, "cuStreamSynchronize")
    step = _int(first_step)
    slots = [[step if i == step_arg else _slot(a) for i, a in enumerate(values)] for values in arguments]
    params = [(_ptr * len(values))(*map(ctypes.addressof, values)) for values in slots]
    sizes = [(ctypes.c_uint * 3)(*size, *[1] * (3 - len(size))) for size in (grid, block)]
    error = host.cuda_loop(
        *driver,
        stream,
        (_ptr * 2)(*functions),
        *sizes,
        shared,
        *params,
        None if step_arg is None else ctypes.addressof(step),
        first_step,
        steps,
    )
    if error:
        raise DriverFailed(f"the C host's CUDA loop stopped with error {error}")


def loop_opencl(
    queue: Any, kernels: Sequence[Any], size: Sequence[int], local: Sequence[int],
    arguments: Sequence[Sequence[Any]], steps: int, step_arg: int,
) -> None:  # fmt: skip
    """Run `opencl_loop` on this project's own queue, kernels and buffers."""
    for kernel, values in zip(kernels, arguments, strict=True):
        kernel.kernel.set_args(*(getattr(value, "memory", value) for value in values))
    opencl_loop(queue.queue, [kernel.kernel for kernel in kernels], size, local, steps, step_arg=step_arg)


def loop_cuda(
    queue: Any, kernels: Sequence[Any], size: Sequence[int], local: Sequence[int],
    arguments: Sequence[Sequence[Any]], steps: int, step_arg: int,
) -> None:  # fmt: skip
    """Run `cuda_loop` on this project's own queue, kernels and buffers."""
    grid = [n // block for n, block in zip(size, local, strict=True)]
    plain = [[getattr(value, "memory", value) for value in values] for values in arguments]
    handles = [kernel.function.ptr for kernel in kernels]
    cuda_loop(handles, grid, local, plain, steps, step_arg=step_arg, stream=queue.stream.ptr)
