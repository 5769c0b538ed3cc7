"""The host in Haskell: the launches of the C host from a loop that GHC compiles. Optional: it needs GHC.

Like the C host it works on this process's queue, kernels and buffers. In a separate process, PoCL would lack the settings
that `devices.opencl` makes for a CPU that is newer than its compiler.
"""

import ctypes
import functools
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...devices.contract import Device, DriverFailed
from ...peers import compiled, compilers
from ...spec.plan import Case, Variant
from .native import _address, _loaded
from .plans import CHost

HERE = Path(__file__).parent
SOURCES = (HERE / "Host.hs", HERE / "host_start.c")
FLAGS = ("-O2", "-Wall", "-Werror", "-shared", "-dynamic", "-fPIC", "-flink-rts", "-no-hs-main")


def missing() -> str | None:
    """Return the reason, in one line, why there is no Haskell host; None if there is one."""
    return None if shutil.which("ghc") else "not here: no ghc, which compiles Haskell (Debian: apt-get install ghc)"


@functools.cache
def library() -> ctypes.CDLL:
    """Return the compiled loop, with GHC's runtime started in this process. Raises BuildFailed."""
    ghc = shutil.which("ghc") or "ghc"
    path = compiled.build([ghc, *FLAGS], SOURCES, compiled.output_of([ghc, "--info"]), suffix=".so")
    host = ctypes.CDLL(str(path))
    pointer, number, natural = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint
    host.haskell_loop.argtypes = [pointer] * 5 + [natural] * 2 + [pointer] * 2 + [number] * 2
    host.haskell_start()
    return host


def loop(
    queue: Any, kernels: Sequence[Any], size: Sequence[int], local: Sequence[int],
    arguments: Sequence[Sequence[Any]], steps: int, step_arg: int,
) -> None:  # fmt: skip
    """Enqueue kernels[s % 2] for s = 0, 1, ..., with argument `step_arg` set to s, then clFinish, like native.loop_opencl.

    Raises BuildFailed, and DriverFailed with OpenCL's error code.
    """
    for kernel, values in zip(kernels, arguments, strict=True):
        kernel.kernel.set_args(*(getattr(value, "memory", value) for value in values))
    opencl = _loaded("libOpenCL")
    calls = [_address(opencl, name) for name in ("clEnqueueNDRangeKernel", "clSetKernelArg", "clFinish")]
    sizes = [(ctypes.c_size_t * len(sizes_given))(*sizes_given) for sizes_given in (size, local)]
    even_odd = (ctypes.c_void_p * 2)(*(kernel.kernel.int_ptr for kernel in kernels))
    error = library().haskell_loop(*calls, queue.queue.int_ptr, even_odd, step_arg, len(size), *sizes, 0, steps)
    if error:
        raise DriverFailed(f"the Haskell host's OpenCL loop stopped with error {error}")


class HaskellHost(CHost):
    """The C host's launches from `loop`. Only for OpenCL."""

    sources = SOURCES

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        library()
        self.loop = loop

    @staticmethod
    def missing() -> str | None:
        return missing()

    @staticmethod
    def compilers(variant: Variant) -> dict[str, str]:
        return compilers.haskell_compiler() | compilers.c_compiler()
