"""The grid of a simulation on a device: its layout by a variant's knobs, the bytes of a step, and the sums that fit.

Serves the plans of this lab.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...devices.contract import Buffer, Device, Kernel
from ...spec.kernel_run import ceil_div
from ...spec.plan import Case, Variant
from .problem import WEIGHTS, Params

BYTES_PER_CELL = 9 * 4 * 2 + 1


def knob(variant: Variant, name: str, otherwise: str = "") -> str:
    """Return the value of a knob that the ladder sets, or `otherwise`."""
    return str(variant.text.settings.get(name, otherwise))


def cells(case: Case) -> int:
    """Return the number of cells of a grid."""
    return int(case.params["nx"] * case.params["ny"])


def stores_half(variant: Variant) -> bool:
    """Return whether populations are stored in fp16."""
    return bool(variant.source and variant.source.settings.get("GRID") == "SIXTEEN")


def computes_nothing(variant: Variant) -> bool:
    """Return whether a variant's kernels return at once, so that only the host's costs are left."""
    return bool(variant.source and variant.source.settings.get("PROBE"))


def left_out(variant: Variant) -> str:
    """Return what a probe leaves out of its parent's kernel: `WAITS` for other groups, `STEPS` of cells; '' for others."""
    choice = str(variant.source.settings.get("LEFT_OUT", "NOTHING")) if variant.source else "NOTHING"
    return "" if choice == "NOTHING" else choice


def step_bytes(case: Case, variant: Variant, populations: int, map_reads: int, solid: int) -> float:
    """Return the bytes that a step moves through memory.

    populations: how often a kernel reads or writes all of them. map_reads: how often one reads the obstacle map, of `solid`
    bytes a cell.
    """
    return float(cells(case) * (9 * (2 if stores_half(variant) else 4) * populations + solid * map_reads))


def fused_bytes(case: Case, variant: Variant, least: float) -> float:
    """Return the bytes of a step that reads all populations once and writes them once."""
    is_wide = variant.source and variant.source.settings.get("SOLID") == "int"
    return step_bytes(case, variant, 2, 1, 4 if is_wide else 0 if variant.options.get("bare") else 1)


def one_core_steps(case: Case, variant: Variant, device: Device) -> int:
    """Return the steps of a sample for a program on one core: a second or two is enough."""
    return min(case.units, max(4, 30_000_000 // cells(case)))


def lattice_conditions(variant: Variant) -> tuple[str, ...]:
    """Return the conditions that the options of a variant of this lab state."""
    words = {
        "unit_roundoff": "stores populations in fp16",
        "fast_math": "approximates divisions and roots",
        "bare": "leaves out obstacles, drive and mean speeds",
    }
    several = (f"runs on {variant.options['devices']} devices",) if variant.options.get("devices", 1) > 1 else ()
    return (*several, *(words for option, words in words.items() if variant.options.get(option)))


def summed_in_chunks(case: Case, device: Device) -> Mapping[str, Any] | None:
    """Return the option with which partial sums are added up each time that they fill 64 MiB."""
    return {"chunk": max(2, (16 << 20) // ceil_div(cells(case), 16))}


def indexed_sums(case: Case, device: Device) -> Mapping[str, Any] | None:
    """Return no options; None if 32-bit indices do not reach the partial sums of all steps."""
    return {} if cells(case) / 16 * case.units < 2**31 else None


class Grid:
    """The populations of a grid on a device, in the layout of a variant's knobs. `arguments`: the kernels' grid arguments."""

    def __init__(self, device: Device, variant: Variant, params: Params) -> None:
        self.shape = (9, params.ny, params.nx)
        self.layout, self.kind = knob(variant, "LAYOUT", "AOS"), knob(variant, "GRID", "ONE")
        self.rest = (WEIGHTS * params.density)[:, None, None]
        self.queue = device.queue()
        self.dtype = np.float16 if self.kind == "SIXTEEN" else np.float32
        parts = 1 if self.kind in ("ONE", "SIXTEEN") else 9
        nbytes = 9 * params.nx * params.ny * np.dtype(self.dtype).itemsize // parts
        self.buffers = [device.empty(nbytes) for _ in range(parts)]
        self.arguments: tuple[Buffer, ...] = tuple(self.buffers)

    def point(self, device: Device, kernel: Kernel) -> None:
        """Make the device write the nine pointers into a structure, which becomes the only argument."""
        structure = device.empty(9 * 8)
        self.queue.launch(kernel, (1,), (1,), structure, *self.buffers)
        self.queue.finish()
        self.buffers.append(structure)
        self.arguments = (structure,)

    def write(self, f: np.ndarray) -> None:
        """Set the grid from f (9, ny, nx)."""
        if self.kind == "SIXTEEN":
            f = (f - self.rest) * 1024
        elif self.layout == "AOS":
            f = f.transpose(1, 2, 0)
        f = np.ascontiguousarray(f, self.dtype)
        pieces = f.reshape(9, -1) if len(self.buffers) >= 9 else [f]
        for buffer, piece in zip(self.buffers, pieces, strict=False):
            self.queue.write(buffer, piece)

    def read(self) -> np.ndarray:
        """Return f (9, ny, nx), float64."""
        f = np.empty(self.shape, self.dtype)
        if len(self.buffers) >= 9:
            for buffer, piece in zip(self.buffers, f.reshape(9, -1), strict=False):
                self.queue.read(buffer, piece)
        elif self.layout == "AOS":
            cells = np.empty((*self.shape[1:], 9), self.dtype)
            f = self.queue.read(self.buffers[0], cells).transpose(2, 0, 1)
        else:
            self.queue.read(self.buffers[0], f)
        f = f.astype(np.float64)
        return f / 1024 + self.rest if self.kind == "SIXTEEN" else f

    def release(self) -> None:
        for buffer in self.buffers:
            buffer.release()
