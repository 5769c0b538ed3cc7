"""The animations of the convolution layer, with the sizes of its kernels."""

import re

from ...report.animations.split_operands import split_operands
from ...report.animations.staging import staging
from ...spec.kernel_constants import constants
from ...spec.source import Source
from . import ladder


def _staging(source: Source) -> dict[str, int]:
    """Return the sizes of a group's tile and of its work."""
    sizes = constants(source)
    return {
        "rows": sizes["SUB_H"] * sizes["LOCAL_1"], "columns": sizes["SUB_W"] * sizes["LOCAL_2"], "taps": sizes["TAPS"],
        "filters": sizes["SUB_I"] * sizes["LOCAL_0"],
        "work_items": sizes["LOCAL_0"] * sizes["LOCAL_1"] * sizes["LOCAL_2"],
    }  # fmt: skip


def _split_scale() -> float:
    """Return the factor by which warps.k scales the low part of an operand; it is no integer, so `constants` lacks it."""
    (scale,) = re.findall(r"#define SPLIT_SCALE ([\d.]+)f", ladder.WARPS.path.read_text(encoding="utf-8"))
    return float(scale)


_STEPS = {variant.name: variant for variant in ladder.LADDER}
ANIMATIONS = {
    "local-tile": staging(
        **_staging(_STEPS["local-tile"].text),
        plane="a channel",
        last_stage="Sums stay in registers. After a second barrier the next channel takes the place of this one.",
    ),
    "warps-split": split_operands(_split_scale()),
}
