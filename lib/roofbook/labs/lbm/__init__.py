"""D2Q9 lattice Boltzmann (University of Bristol, Advanced HPC). The lab itself, in lattice.py, is loaded when it is asked for.

The course's program starts the device's driver first, which takes as long as the imports do.
"""

from typing import TYPE_CHECKING, Any

from ...devices.backends import CUDA

if TYPE_CHECKING:
    from .lattice import LAB as LAB

PREFERRED = CUDA.name
"""Of a GPU that has several backends the course's program takes this one: the steps that keep the grid on the chip need it."""


def __getattr__(name: str) -> Any:
    if name == "LAB":
        from .lattice import LAB

        return LAB
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
