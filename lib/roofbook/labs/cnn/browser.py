"""Runs of the convolution layer in a browser: sizes for a laptop, a phone and a large GPU; the ranges of the operands."""

from pathlib import Path

from ...spec.browser_run import BrowserRun
from ...spec.plan import Variant
from .problem import Arithmetic


def allowed(variant: Variant) -> dict[str, float] | str:
    """Return how much larger the mean errors of a step may be than those of plain sums; a reason for operands below fp32."""
    arithmetic = Arithmetic.of(variant.options, variant.dtype, peer=False)
    if arithmetic.operand_roundoff:
        return "its operands are rounded, and the check in the page is for fp32"
    return {"clearance": arithmetic.clearance}


BROWSER = BrowserRun(
    cases=("32ch-112x112-k5", "16ch-32x56-k5", "64ch-112x112-k5"),
    ranges={"x": (-2.0, 2.0), "weight": (-2.0, 2.0), "bias": (-2.0, 2.0)},
    script=Path(__file__).with_name("browser.js"),
    allowed=allowed,
)
