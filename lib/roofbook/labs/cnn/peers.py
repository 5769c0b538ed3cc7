"""The peers of the layer: PyTorch with cuDNN or oneDNN, a library's matrix product, and a page of C with OpenMP."""

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ...peers import cc, openmp, openvino
from ...peers.pytorch import Call
from ...spec.plan import LAID_OUT, UNFOLDED, Case, Variant, least_bytes, stated_conditions
from . import plans
from .problem import Layer


class TorchConvolution(Call):
    """The layer in PyTorch: x (C, H+k-1, W+k-1) -> out (O, H//2, W//2). A unit is a call.

    Options are those of every Call. The inputs are in their type and layout before a run.
    """

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        return least / 2 if variant.options.get("precision") in ("fp16", "bf16") else least

    def prepare(self, inputs: Mapping[str, Any]) -> None:
        self.x = self.tensor(inputs["x"][None], **self.form)
        self.weight = self.tensor(inputs["weight"], **self.form)
        self.bias = self.tensor(inputs["bias"], dtype=self.form["dtype"])
        self.layer = self.compiled(layer)

    def poison(self) -> None:
        filters, _, kernel, _ = self.weight.shape
        height, width = (1 + side - kernel for side in self.x.shape[2:])
        self.out = self.torch.full((1, filters, height // 2, width // 2), float("nan"), device=self.place)

    def compute(self) -> None:
        self.out = self.layer(self.x, self.weight, self.bias)

    def result(self) -> dict[str, np.ndarray]:
        return {"out": self.array(self.out[0])}


class Product(TorchConvolution):
    """The layer as one matrix product: by cuBLAS, or by MKL on a CPU.

    Option `prepared`: the input is unfolded, to k*k times its size, before a run, which begins with the product.
    """

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes; the unfolded input is read, and written unless it is `prepared`; the sums are written and read."""
        layer = plans.layer(case)
        operands, matrix = plans.operand_bytes(layer), 4 * layer.terms * layer.height * layer.width
        is_prepared = variant.options.get("prepared")
        unfolded = plans.weight_bytes(layer) + matrix if is_prepared else operands + 2 * matrix
        return least - operands + unfolded + 8 * prod(layer.conv_shape)

    @classmethod
    def conditions(cls, variant: Variant) -> tuple[str, ...]:
        return tuple(UNFOLDED if words == LAID_OUT else words for words in stated_conditions(variant))

    def prepare(self, inputs: Mapping[str, Any]) -> None:
        super().prepare(inputs)
        self.columns = unfolded(self.x, self.weight) if self.options.get("prepared") else None

    def compute(self) -> None:
        columns = unfolded(self.x, self.weight) if self.columns is None else self.columns
        self.out = product(columns, self.weight, self.bias, 1 + self.x.shape[2] - self.weight.shape[2])


class OpenVino(openvino.OpenVinoLayer):
    """The layer by OpenVINO. A unit is an inference."""

    traffic = staticmethod(least_bytes)

    def network(self, inputs: Mapping[str, Any]) -> Any:
        shape = (1, *inputs["x"].shape)
        return openvino.convolved_and_pooled(shape, inputs["weight"], 0, self.precision, inputs["bias"])

    def outputs(self) -> dict[str, np.ndarray]:
        return {"out": self.out[0].astype(np.float64)}


class OpenMP(openmp.LayerProgram):
    """The layer in C with OpenMP (openmp.c)."""

    sources = (Path(__file__).with_name("openmp.c"), cc.HEADER)
    function, unwritten = "layer", np.nan
    traffic = staticmethod(least_bytes)

    def prepare(self, inputs: Mapping[str, Any]) -> None:
        filters, channels, kernel, _ = inputs["weight"].shape
        height, width = (1 + side - kernel for side in inputs["x"].shape[1:])
        self.layer = Layer(channels, filters, height, width, kernel)
        self.x = openmp.with_slack(inputs["x"])
        self.weight, self.bias = (np.ascontiguousarray(inputs[name], np.float32) for name in ("weight", "bias"))
        self.out = np.empty(self.layer.out_shape, np.float32)

    def arguments(self) -> tuple[int | np.ndarray, ...]:
        layer = self.layer
        sizes = layer.channels, layer.filters, layer.height, layer.width, layer.kernel
        return *sizes, self.x, self.weight, self.bias


def layer(x: Any, weight: Any, bias: Any) -> Any:
    """Compute the layer: x (1, C, H+k-1, W+k-1) -> out (1, O, H//2, W//2)."""
    from torch.nn import functional

    return functional.max_pool2d(functional.relu(functional.conv2d(x, weight, bias), inplace=True), 2)


def unfolded(x: Any, weight: Any) -> Any:
    """Unfold x (1, C, H+k-1, W+k-1) to the operands of each output of the convolution: (C*k*k, H*W)."""
    from torch.nn import functional

    return functional.unfold(x, weight.shape[2:])[0]


def product(columns: Any, weight: Any, bias: Any, height: int) -> Any:
    """Compute the layer from the unfolded input: out (1, O, H//2, W//2)."""
    from torch import addmm
    from torch.nn import functional

    sums = addmm(bias[:, None], weight.flatten(1), columns)
    return functional.max_pool2d(functional.relu(sums, inplace=True).unflatten(1, (height, -1))[None], 2)
