"""The step with four cells of a row a work-item, for OpenCL and CUDA: vectors of 16 bytes, which a GPU loads at once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...devices.contract import Device, Unsupported
from ...spec.kernel_constants import constants
from ...spec.kernel_run import ceil_div
from ...spec.plan import Case, Variant
from ...spec.prediction import FASTER, FEW_PERCENT, SEVERAL
from ...spec.source import Source
from .plans import GraphedSteps, KeptPartials, WarpSums

HERE = Path(__file__).parent


class Fours(KeptPartials):
    """Work-items that each compute four cells of a row; one partial sum a work-group."""

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        if case.params["nx"] % constants(variant.text)["VECTOR"]:
            return "not on this case: rows are no multiple of four cells"
        return super().refusal(case, variant)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        if reason := self.refusal(case, variant):
            raise Unsupported(reason)
        super().__init__(device, variant, case, inputs)

    def lay_out(self) -> None:
        along, down = self.local
        vectors = ceil_div(self.params.nx, constants(self.variant.text)["VECTOR"])
        self.size = (ceil_div(vectors, along) * along, ceil_div(self.params.ny, down) * down)
        self.groups = self.size[0] * self.size[1] // self.group_size


class FoursGraph(GraphedSteps, Fours):
    """Steps of four cells a work-item, launched as a CUDA graph."""


class FoursWarps(WarpSums, Fours):
    """Steps of four cells a work-item in a graph, with a partial sum a warp."""


WIDE = {"group": (128, 1)}
FOURS = Source.of(
    HERE / "fours.k", LAYOUT="SOA", GRID="ONE", REDUCE="TREE", COUNT_CELLS=0, PARTIALS="KEPT", CONSTANTS="HOISTED", SOLID="char"
)  # fmt: skip
STEPS = (
    Variant(
        "fours", "flat-grid", FOURS, Fours,
        "Four cells of a row a work-item: populations come and go as vectors of 16 bytes.",
        "A quarter of the loads and stores, four times the bytes under way from each work-item. The bytes stay the same, and "
        "memory was 9 % below the rate of a copy.",
        options=WIDE, differs=("source", "plan", "options"), predicts={"gpu large": FEW_PERCENT},
    ),
    Variant(
        "fours-momentum", "fours", FOURS.with_knobs(ARITHMETIC="MOMENTUM"), Fours,
        "The equilibrium as a function of momentum, and no choice where four cells have no obstacle.",
        "Two exact divisions and a root a cell were half of the instructions. Memory is the bound, so little is left to gain.",
        options=WIDE, predicts={"gpu large": FEW_PERCENT},
    ),
)  # fmt: skip
GRAPHED = FOURS.with_knobs(ARITHMETIC="MOMENTUM", PARTIALS="GRAPH")
GRAPHS = (
    Variant(
        "fours-graph", "fours-momentum", GRAPHED, FoursGraph,
        "The steps of four cells a work-item as a CUDA graph.",
        "On a small grid Python's loop takes several times as long as the kernel.",
        needs=frozenset({"graphs"}), options=WIDE, differs=("source", "plan"),
        predicts={"small": SEVERAL, "large": FEW_PERCENT},
    ),
    Variant(
        "fours-warps", "fours-graph", GRAPHED.with_knobs(REDUCE="WARPS"), FoursWarps,
        "Each warp adds up its speeds by shuffles and stores the sum. A group is two warps.",
        "There is no barrier, and a row of 256 cells leaves no warp idle. Eight barriers a step take some 0.3 us. On a small "
        "grid no other warp fills these waits.",
        needs=frozenset({"graphs"}), options={"group": (64, 1)}, differs=("source", "plan", "options"),
        predicts={"small": FASTER, "large": FEW_PERCENT},
    ),
)  # fmt: skip
