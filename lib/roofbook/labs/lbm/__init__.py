"""D2Q9 lattice Boltzmann (University of Bristol, Advanced HPC). The lab itself, in lattice.py, is imported on first use.

The course's program starts the device's driver before that, since the driver takes as long as the imports.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .lattice import LAB as LAB


def __getattr__(name: str) -> Any:
    if name == "LAB":
        from .lattice import LAB

        return LAB
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
