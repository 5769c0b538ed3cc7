"""The peers of the layer: PyTorch with cuDNN or oneDNN and a library's matrix product, all dense; and a sparse page of C."""

import math
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ...devices.contract import Device
from ...peers import cc, openmp, openvino
from ...peers.pytorch import Call
from ...spec.plan import Case, Variant, least_bytes
from .plans import SENTINEL, must_fit_a_byte
from .plans import layer as case_layer
from .problem import Layer


class TorchConvolution(Call):
    """The layer in PyTorch, in floating point: x (C, S, S) -> out (O, S//2, S//2). A unit is a call.

    Options are those of every Call. The inputs are in their type and layout before a run. Results are rounded to integers:
    libraries may transform the operands, and then sums of integers are no integers.
    """

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes; operands and results have two bytes or four, by the precision."""
        operands = 2 * (prod(case_layer(case).x_shape) + prod(case_layer(case).weight_shape))
        wide, results = variant.options.get("precision") in ("fp32", "tf32"), least - operands
        return operands * (2 if wide else 1) + results / (1 if wide else 2)

    @classmethod
    def verified_on(cls, variant: Variant) -> str:
        """Return "narrow", for results that fp16 holds, if they are fp16; "" otherwise."""
        return "narrow" if variant.options.get("precision") == "fp16" else ""

    def prepare(self, inputs: Mapping[str, Any]) -> None:
        self.x = self.tensor(inputs["x"][None], **self.form)
        self.weight = self.tensor(inputs["weight"], **self.form)
        self.layer = self.compiled(layer)

    def poison(self) -> None:
        half = self.x.shape[2] // 2
        self.out = self.torch.full((1, self.weight.shape[0], half, half), float("nan"), device=self.place)

    def compute(self) -> None:
        self.out = self.layer(self.x, self.weight)

    def result(self) -> dict[str, np.ndarray]:
        return {"out": np.rint(self.array(self.out[0]))}


class Product(TorchConvolution):
    """The layer as one matrix product: by cuBLAS, or by MKL on a CPU. Unfolding the input, to k*k times its size, is timed."""

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes; the unfolded input and the sums, in fp32, are written and read."""
        layer = case_layer(case)
        between = 4 * layer.kernel**2 * prod(layer.x_shape) + 4 * prod(layer.conv_shape)
        return super().traffic(case, variant, least) + 2 * between

    def compute(self) -> None:
        self.out = product(self.x, self.weight)


class OpenVino(openvino.OpenVinoLayer):
    """The layer by OpenVINO. Results are rounded to integers, as PyTorch's. In int8 it computes bytes, with exact sums."""

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes of an input and a result in fp32, and of the weights in the type that is multiplied."""
        one, width = case_layer(case), {"fp32": 4, "bf16": 2, "int8": 1}[str(variant.options["precision"])]
        return 4 * (prod(one.x_shape) + prod(one.out_shape)) + width * prod(one.weight_shape)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        if variant.dtype == "int8":
            must_fit_a_byte(inputs)
        super().__init__(device, variant, case, inputs)

    def network(self, inputs: Mapping[str, Any]) -> Any:
        weight = inputs["weight"]
        shape = (1, *inputs["x"].shape)
        return openvino.convolved_and_pooled(shape, weight, weight.shape[-1] // 2, self.precision)

    def outputs(self) -> dict[str, np.ndarray]:
        return {"out": np.rint(self.out[0].astype(np.float64))}


class OpenMP(openmp.LayerProgram):
    """The layer in C with OpenMP, in integers, by lists of non-zero weights (openmp.c). Building them is timed."""

    sources = (Path(__file__).with_name("openmp.c"), cc.HEADER)
    function, unwritten = "layer", SENTINEL
    traffic = staticmethod(least_bytes)

    def prepare(self, inputs: Mapping[str, Any]) -> None:
        filters, depth, kernel, _ = inputs["weight"].shape
        self.layer = Layer(depth, filters, inputs["x"].shape[1], kernel)
        self.x, self.weight = (np.ascontiguousarray(inputs[name], np.int16) for name in ("x", "weight"))
        across = self.layer.size + kernel - 1
        self.framed = np.zeros(depth * across**2 + 8 * across + 32, np.int32)
        self.entries = np.empty((math.prod(self.weight.shape), 2), np.int32)
        self.counts = np.empty(filters, np.int32)
        self.out = np.empty(self.layer.out_shape, np.int32)

    def arguments(self) -> tuple[int | np.ndarray, ...]:
        sizes = self.layer.depth, self.layer.filters, self.layer.size, self.layer.kernel
        return *sizes, self.x, self.weight, self.framed, self.entries, self.counts


def layer(x: Any, weight: Any) -> Any:
    """Compute the layer: x (1, C, S, S) -> out (1, O, S//2, S//2)."""
    from torch.nn import functional

    sums = functional.conv2d(x, weight, padding=weight.shape[-1] // 2)
    return functional.max_pool2d(functional.relu(sums, inplace=True), 2)


def product(x: Any, weight: Any) -> Any:
    """Compute the layer from the unfolded input (C*k*k, S*S): x (1, C, S, S) -> out (1, O, S//2, S//2)."""
    from torch.nn import functional

    kernel = weight.shape[-1]
    sums = weight.flatten(1) @ functional.unfold(x, kernel, padding=kernel // 2)[0]
    return functional.max_pool2d(functional.relu(sums, inplace=True).unflatten(1, x.shape[2:])[None], 2)
