"""The steps with several time steps in a pass over memory, for OpenCL and CUDA, stored in single or half precision.

Work-groups walk down strips of columns, like those of strips.cu, but in as much local memory as every GPU has.
"""

from pathlib import Path
from typing import Any

from ...devices.contract import Device, Kernel
from ...spec.kernel_constants import constants
from ...spec.kernel_run import ceil_div
from ...spec.plan import Case, Variant
from ...spec.prediction import FASTER, FEW_PERCENT, NO_GAIN
from ...spec.source import Source
from .grid import fused_bytes, knob
from .on_chip import WARP, Strips

HERE = Path(__file__).parent
HALVES = r"(?=[\s\S]*cvt\.f32\.f16)[\s\S]*cvt\.rn\.f16\.f32[\s\S]*st\.global\.[bu]16"
"""Regular expression for the code of a kernel that reads and writes fp16."""
STEPS_OF_A_WALK = 6
"""Number of steps in a walk. More save a GPU little, since it then mostly computes, and so many columns and rows twice."""
ITEMS_OF_A_GROUP = 128
GROUPS_AT_ONCE = 4
"""Number of work-groups whose registers and local memory fit a multiprocessor."""


def most_items(device: Device) -> int:
    """Return the largest number of work-items in a group for which a device has local memory, in whole warps."""
    lines = constants(WALK)["KEPT_LINES"] * (STEPS_OF_A_WALK - 1)
    columns = device.local_bytes // (4 * lines) - 2
    return max(WARP, min(ITEMS_OF_A_GROUP, columns // WARP * WARP))


class WalkDown(Strips):
    """Work-groups that walk down strips of columns and take each row several steps further."""

    kernel_name = "walk_down"

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        return fused_bytes(case, variant, least) / STEPS_OF_A_WALK

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        is_short = min(case.params["nx"], case.params["ny"]) < STEPS_OF_A_WALK
        return "not on this case: a side is shorter than a walk has steps" if is_short else None

    @classmethod
    def timed_units(cls, case: Case, variant: Variant, device: Device) -> int:
        """Return the steps of two walks at least, and of whole ones."""
        return max(2, ceil_div(case.units, STEPS_OF_A_WALK)) * STEPS_OF_A_WALK

    def accelerator(self) -> Source:
        storage_knobs = {name: value for name, value in self.source.knobs if name in ("GRID", "REST")}
        return super().accelerator().with_knobs(**storage_knobs)

    def ready(self, kernel: Kernel, steps: int) -> Kernel:
        return kernel

    def lay_out(self) -> None:
        self.cut(STEPS_OF_A_WALK, most_items(self.device), GROUPS_AT_ONCE)
        self.groups = self.strips * self.pieces

    def knobs_for(self, steps: int) -> dict[str, Any]:
        half = {"REST": f"{float(self.params.density)!r}f"} if knob(self.variant, "GRID") == "SIXTEEN" else {}
        return {**super().knobs_for(steps), **half}


WALK = Source.of(
    HERE / "walk_down.k", CONSTANTS="HOISTED", LAYOUT="SOA", GRID="ONE", SOLID="char", AT_ONCE=GROUPS_AT_ONCE, NX=128, NY=128,
    STEPS=4, THREADS=160, OWN=128,
)  # fmt: skip
"""The kernel for some sizes; the plan sets the sizes of the case."""
PAIRED = WALK.with_knobs(ARITHMETIC="PAIRS")

STEPS = (
    Variant(
        "walk-down", "flat-grid", WALK, WalkDown,
        "The walk of `strips` for OpenCL and CUDA: six steps in a pass, in as much local memory as OpenCL grants.",
        "A sixth of the bytes. OpenCL's divisions are quick. CUDA's compiler makes exact, long ones; `strips` has its own.",
        differs=("source", "plan"), predicts={"gpu opencl large": FASTER},
    ),
    Variant(
        "walk-paired", "walk-down", PAIRED, WalkDown,
        "Opposite directions share terms that differ only in sign; one reciprocal, and the hardware's root.",
        "Memory no longer bounds the walk. Three fifths of the operations are left, and no division.",
        predicts={"gpu": FASTER},
    ),
    Variant(
        "walk-momentum", "walk-paired", WALK.with_knobs(ARITHMETIC="MOMENTUM"), WalkDown,
        "The equilibrium as a function of momentum: hardly any operation waits for the reciprocal.",
        "As many operations, but fewer wait for each other. A multiprocessor has few warps here, so this gains a little.",
        predicts={"gpu": FEW_PERCENT},
    ),
    Variant(
        "walk-half", "walk-paired", PAIRED.with_knobs(GRID="SIXTEEN", REST="0.1f"), WalkDown,
        "Populations are stored in fp16 after each walk, as differences from rest; arithmetic stays in fp32.",
        "Half of the remaining bytes, for more arithmetic. That helps only if memory is the bound, which it hardly is here.",
        options={"unit_roundoff": 2.0**-14}, shows={"walk_down": HALVES}, differs=("source", "options"),
        predicts={"gpu": NO_GAIN},
    ),
)  # fmt: skip
