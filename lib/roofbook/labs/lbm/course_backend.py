"""The backend of the course's program. Apart from lattice.py, since the program starts the driver before it imports that."""

from ...devices.backends import CUDA

PREFERRED = CUDA.name
"""Backend that the course's program prefers on a GPU: the steps that keep the grid on the chip need it."""
