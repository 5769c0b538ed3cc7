"""Analytic flow of a channel under the lab's own drive, which the reference and the variants must reach."""

import numpy as np

from roofbook.labs.lbm.problem import Array, Params


def driven_channel(params: Params) -> Array:
    """Return the steady ux of rows 1 to ny-3: a straight line up to row ny-2.

    The drive gives density*accel/3 of momentum to each cell of row ny-2 in each step, half a cell below the wall.
    """
    height = params.ny - 2
    shear = params.accel / (6 * params.viscosity * height)
    return shear * (np.arange(1, params.ny - 2) - 0.5)
