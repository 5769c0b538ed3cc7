"""The layer in PyTorch, by cuDNN or oneDNN: what a user would call instead of a kernel, zeros and all."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...device import Unsupported
from ...peers.pytorch import Call

DTYPES = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}


class Convolution(Call):
    """Convolution, ReLU and pool of x (C, S, S) -> out (O, S//2, S//2), in floating point. A unit is a call.

    Options: `precision`, a key of DTYPES, fp32 if not given; `channels_last`, tensors in memory as NHWC, where the inputs
    already lie before a run; and those of every Call. Results are rounded to integers: libraries may transform the
    operands, and then sums of integers are none. Raises Unsupported for TF32 on a CPU, which has none.
    """

    def prepare(self, inputs: Mapping[str, Any]) -> None:
        precision = self.options.get("precision", "fp32")
        if precision == "tf32" and self.place.type == "cpu":
            raise Unsupported("TF32 is an NVIDIA GPU's")
        torch = self.torch
        dtype = getattr(torch, DTYPES[precision])
        layout = torch.channels_last if self.options.get("channels_last") else torch.contiguous_format
        self.x = self.tensor(inputs["x"][None], dtype=dtype, memory_format=layout)
        self.weight = self.tensor(inputs["weight"], dtype=dtype, memory_format=layout)
        self.layer = self.compiled(layer)

    def poison(self) -> None:
        half = self.x.shape[2] // 2
        self.out = self.torch.full((1, self.weight.shape[0], half, half), float("nan"), device=self.place)

    def compute(self) -> None:
        self.out = self.layer(self.x, self.weight)

    def result(self) -> dict[str, np.ndarray]:
        return {"out": np.rint(self.array(self.out[0]))}


def layer(x: Any, weight: Any) -> Any:
    """out (1, O, S//2, S//2) of x (1, C, S, S)."""
    from torch.nn import functional

    sums = functional.conv2d(x, weight, padding=weight.shape[-1] // 2)
    return functional.max_pool2d(functional.relu(sums, inplace=True), 2)
