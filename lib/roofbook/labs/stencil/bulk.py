"""The step for Hopper GPUs whose blocks fetch and store long pieces of the grid by TMA (bulk.cu)."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from ...devices.contract import Device
from ...spec.hopper_step import WGMMA, hopper_step
from ...spec.kernel_constants import Constants, constants, work_items
from ...spec.plan import Case, Variant, least_bytes
from ...spec.prediction import FEW_PERCENT
from ...spec.source import Source
from .plans import Stencil
from .problem import PUBLISHED_PASSES


class Bulk(Stencil):
    """All passes in one launch, by as many blocks as the chip holds at once."""

    kernel_name = "bulk"

    traffic = staticmethod(least_bytes)

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        return "not on this case: the width is not a multiple of 4" if case.params["width"] % 4 else None

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        self.text, self.multiprocessors = variant.text, device.compute_units
        super().__init__(device, variant, case, inputs)
        self.kernel.configure(dynamic_local_bytes=4 * self.constants["STAGES"] * self.constants["STAGE_FLOATS"])

    @cached_property
    def constants(self) -> Constants:
        """Constants of the kernel's text, for this case."""
        return constants(self.text.with_knobs(**self.turned()))

    def lay_out(self) -> tuple[int, ...]:
        items = work_items(self.text, self.kernel_name)
        self.group = (items,)
        return (items * min(self.constants["PIECES"], self.constants["BLOCKS_AT_ONCE"] * self.multiprocessors),)

    def turned(self) -> dict[str, Any]:
        return {"WIDTH": self.width, "COUNT": (self.height - 2) * self.width, "PASSES": self.units}

    def submit(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, self.r, self.b, self.g)


BULK = Source.of(Path(__file__).parent / "bulk.cu", PASSES=PUBLISHED_PASSES, WIDTH=8192, COUNT=8190 * 8192)
"""The kernel at the published size; the plan sets the sizes of the case."""

STEPS = (
    hopper_step(
        "fused-bulk", "fused", BULK, Bulk,
        "Blocks fetch long pieces of the three grids by TMA, several pieces ahead, and store them so.",
        "`fused` comes near a read's rate, but each warp turns from reads to a write. Longer runs of both cost memory fewer "
        "turns. At most the last twentieth is left to gain.",
        WGMMA, dtype="float32", differs=("source", "plan"),
        shows={"bulk": r"cp\.async\.bulk\.global\.shared::cta\.bulk_group"}, predicts=FEW_PERCENT,
    ),
)  # fmt: skip
