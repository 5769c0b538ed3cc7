"""The stencil in Numba without a GPU: its error in Numba's simulator, or the number of arguments of its machine code."""

import sys

import numpy as np

from roofbook.spec import registry


def ratio() -> tuple[float, float]:
    """Return (error, tolerance) of all passes on a small grid."""
    from roofbook.labs.stencil import numba_fused

    lab = registry.get("stencil")
    case = lab.case("5x13", "test")
    inputs = lab.verification_inputs(case, "wide", lab.inputs(case, 7))
    g = np.array(inputs["g"])
    numba_fused.fused[(1, 3), (16, 1)](inputs["r"], inputs["b"], g)
    error, tolerance, _ = lab.check(
        case, lab.variant("numba-fused"), {"g": g.astype(np.float64)}, lab.reference(case, inputs)
    )
    return error, tolerance


def arguments() -> int:
    """Return the number of arguments that a kernel of one array and one number has."""
    from numba import cuda

    from roofbook.peers import python_kernel

    @cuda.jit
    def cleared(grid, value):  # type: ignore[no-untyped-def]
        grid[cuda.threadIdx.x, 0] = value

    code = python_kernel.by_numba(cleared, 90, "void(float32[:,::1], float32)")
    return python_kernel.arguments_of(code.image.decode())


if __name__ == "__main__":
    print(arguments() if "arguments" in sys.argv else " ".join(map(str, ratio())))
