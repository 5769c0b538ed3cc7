"""The step on the tensor cores of any NVIDIA GPU since Ampere, in both languages: warps.k, with its products in PTX."""

from __future__ import annotations

from ...spec.kernel_run import require_ptx
from .registers import Tensor


class Warps(Tensor):
    """Tensor cores in fp16, with sums in fp32: persistent groups take one image after another."""

    def set_up(self) -> None:
        require_ptx(self.device, 80)
