"""The stencil in Numba: all passes on one element of the inner rows."""

import math

import numpy as np
from numba import cuda

from .problem import PUBLISHED_PASSES


@cuda.jit
def fused(r, b, g):
    column, above = cuda.grid(2)
    if above < g.shape[0] - 2 and column < g.shape[1]:
        root = np.float32(1) / math.sqrt(r[above, column] + b[above + 2, column])
        value = g[above + 1, column]
        for _ in range(PUBLISHED_PASSES):  # known to the compiler, which unrolls the loop
            value += root
        g[above + 1, column] = value
