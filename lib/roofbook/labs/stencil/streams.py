"""The step for CPUs: long stretches of the grid, a few for each core (streams.k)."""

from pathlib import Path
from typing import Any

from ...devices.contract import Device
from ...spec.plan import Case, Variant, least_bytes
from ...spec.prediction import FASTER
from ...spec.source import Source
from .plans import Stencil


class Streams(Stencil):
    """All passes in one launch, each work-item on one stretch of the grid."""

    kernel_name = "streams"

    traffic = staticmethod(least_bytes)

    stretches = 4
    """Work-items per core: several, so that other cores can take over some of a late core's."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Any) -> None:
        self.items = device.compute_units * self.stretches
        super().__init__(device, variant, case, inputs)

    def lay_out(self) -> tuple[int, ...]:
        self.group = (1,)
        return (self.items,)

    def turned(self) -> dict[str, Any]:
        return {"WIDTH": self.width, "COUNT": (self.height - 2) * self.width, "PASSES": self.units}

    def submit(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, self.r, self.b, self.g)


STREAMS = Source.of(Path(__file__).parent / "streams.k", PASSES=23, WIDTH=8192, COUNT=8190 * 8192)
"""The kernel at the published size; the plan sets the sizes of the case."""

STEPS = (
    Variant(
        "streams", "fused-float16", STREAMS, Streams,
        "Four work-items per core, each with one long stretch of the grid, and eight vectors at a time.",
        "The 23 additions of a vector wait for each other. Those of eight vectors fill the adders, and the memory is left.",
        needs=frozenset({"cpu"}), kind="cpu", differs=("source", "plan"), predicts=FASTER,
    ),
)  # fmt: skip
