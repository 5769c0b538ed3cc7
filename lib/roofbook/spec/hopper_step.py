"""Rows of ladders for Hopper GPUs: kernels with warpgroup products, in clusters of blocks or without."""

from collections.abc import Mapping
from typing import Any

from ..devices import hopper
from .plan import Plan, Variant
from .source import Source

WGMMA = frozenset({"wgmma"})
CLUSTERS = WGMMA | {"clusters"}
ROUNDED: Mapping[str, Any] = {"operand_roundoff": 2.0**-11}
"""Options of a step that rounds its operands to fp16 or TF32."""
PREPARED: Mapping[str, Any] = {**ROUNDED, "prepared": True}
"""Options of such a step whose operands are laid out beforehand."""
PERSISTENT: Mapping[str, Any] = {**PREPARED, "persistent": True}
"""Options of such a step with as many clusters as the chip holds, each of which computes several tiles."""


def hopper_step(
    name: str, parent: str, source: Source, plan: type[Plan], change: str, expect: str, needs: frozenset[str],
    dtype: str = "float16", **fields: Any,
) -> Variant:  # fmt: skip
    """Return a step for Hopper GPUs alone, which multiplies fp16 unless `dtype` says otherwise."""
    return Variant(
        name, parent, source, plan, change, expect, needs, dtype=dtype, architectures=hopper.ARCHITECTURES, **fields
    )
