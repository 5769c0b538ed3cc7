"""Compile CUDA with no GPU: PTX, cubin size and errors for any architecture, through NVRTC alone. For tests and for readers."""

from dataclasses import dataclass

from .backends import CUDA
from .contract import BuildFailed, Unsupported


@dataclass(frozen=True)
class Compiled:
    """Output of NVRTC for one text."""

    ptx: str
    log: str
    """Report of the assembler (registers, spills); '' if NVRTC gives none."""
    cubin: bytes
    """Assembled code, an ELF file."""


def compile_cuda(text: str, architecture: int | str, options: tuple[str, ...] = ()) -> Compiled:
    """Compile a plain CUDA text for sm_`architecture` (80, 90, "90a", ...).

    Raise BuildFailed with the compiler's first error, or Unsupported if NVRTC is not installed.
    """
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise Unsupported("NVRTC is not installed: `pip install cuda-bindings nvidia-cuda-nvrtc`") from error

    def ok(result: tuple) -> tuple:  # type: ignore[type-arg]
        return result[1:] if result[0] == nvrtc.nvrtcResult.NVRTC_SUCCESS else ()

    try:
        (program,) = ok(nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], []))
    except Exception as error:  # the bindings raise their own error where the library itself is not to be found
        raise Unsupported(f"NVRTC cannot be loaded: {error}") from error
    flags = [*CUDA.flags, f"--gpu-architecture=sm_{architecture}", "--ptxas-options=-v", *options]
    compiled = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
    (size,) = ok(nvrtc.nvrtcGetProgramLogSize(program))
    log = b" " * size
    nvrtc.nvrtcGetProgramLog(program, log)
    message = log.decode(errors="replace").strip("\0 \n")
    if compiled[0] != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        lines = message.splitlines() or [str(compiled[0])]
        raise BuildFailed(next((line for line in lines if "error" in line), lines[0]))
    (size,) = ok(nvrtc.nvrtcGetPTXSize(program))
    ptx = b" " * size
    nvrtc.nvrtcGetPTX(program, ptx)
    (size,) = ok(nvrtc.nvrtcGetCUBINSize(program))
    cubin = b" " * size
    nvrtc.nvrtcGetCUBIN(program, cubin)
    nvrtc.nvrtcDestroyProgram(program)
    return Compiled(ptx.decode(errors="replace").strip("\0"), message, cubin)
