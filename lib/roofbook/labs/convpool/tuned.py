"""The layer by libraries that multiply bytes, like the fastest steps: cuDNN's graph, and cuBLAS on the unfolded input.

Both give exact int32 results in the order of a step's.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from ...peers import cudnn
from ...peers.pytorch import Call
from ...spec.plan import LAID_OUT, UNFOLDED, Case, Variant, stated_conditions
from .plans import SENTINEL, layer


def channels_last(x: Any, weight: Any) -> tuple[Any, Any]:
    """Return x (1, C, S, S) and weight (O, C, k, k) as bytes, with the channels of a pixel side by side."""
    import torch

    last = {"memory_format": torch.channels_last}
    return x.to(torch.int8).contiguous(**last), weight.to(torch.int8).contiguous(**last)


def unfolded(x: Any, weight: Any) -> tuple[Any, Any]:
    """Unfold x (1, C, S, S) to the operands of each output, (S*S, k*k*C), and weight to (O, k*k*C), both as bytes."""
    import torch
    from torch.nn import functional

    size, kernel = x.shape[2], weight.shape[-1]
    images = functional.pad(x[0].to(torch.int8).permute(1, 2, 0), (0, 0, *[kernel // 2] * 4))
    taps = [images[row : row + size, column : column + size] for row in range(kernel) for column in range(kernel)]
    return torch.cat(taps, dim=-1).flatten(0, 1), weight.to(torch.int8).permute(0, 2, 3, 1).flatten(1).contiguous()


def pooled(sums: Any) -> Any:
    """Apply ReLU and pool to (1, O, S, S), in any order in memory: (1, O, S//2, S//2) in NumPy's order."""
    half = sums.shape[2] // 2
    windows = sums[:, :, : 2 * half, : 2 * half].unflatten(3, (half, 2)).unflatten(2, (half, 2))
    return windows.amax(dim=(3, 5)).clamp(min=0).contiguous()


def bytes_of_library(case: Case, variant: Variant, least: float, copies: int) -> float:
    """Return the traffic of a library that multiplies bytes and stores sums, which another kernel pools.

    copies: number of bytes of the laid out input for each value of it.
    """
    one = layer(case)
    operands, sums = copies * prod(one.x_shape) + prod(one.weight_shape), 8 * prod(one.conv_shape)
    is_prepared = variant.options.get("prepared")
    return sums + (operands + 4 * prod(one.out_shape) if is_prepared else least + 2 * operands)


class Int8(Call):
    """Base of both: x (C, S, S) and weight (O, C, k, k) of int16 -> out (O, S//2, S//2) of int32. A unit is a call.

    Option `prepared`: the operands are converted for the library before a run; otherwise a run begins with those of int16.
    """

    laid_out: Callable[[Any, Any], tuple[Any, Any]]
    """Function that converts both operands of int16 to the bytes that `sums` takes."""

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        one = layer(case)
        if one.depth % 16 or one.filters % 16 or one.size < 5:
            return "not on this case: int8 takes depth and filters by sixteen, and maps of 5x5 at least"
        return None

    def prepare(self, inputs: Mapping[str, Any]) -> None:
        x, weight = (self.tensor(array) for array in (inputs["x"][None], inputs["weight"]))
        self.lay, self.pool = self.compiled(self.laid_out), self.compiled(pooled)
        self.given = self.lay(x, weight) if self.options.get("prepared") else (x, weight)
        self.shape = weight.shape[0], x.shape[2]

    @abstractmethod
    def sums(self, x: Any, weight: Any) -> Any:
        """Compute the convolution: (1, O, S, S) of int32."""

    def poison(self) -> None:
        filters, size = self.shape
        half = size // 2
        self.out = self.torch.full((1, filters, half, half), SENTINEL, dtype=self.torch.int32, device=self.place)

    def compute(self) -> None:
        operands = self.given if self.options.get("prepared") else self.lay(*self.given)
        self.out = self.pool(self.sums(*operands))

    def result(self) -> dict[str, np.ndarray]:
        return {"out": self.out[0].cpu().numpy()}

    def close(self) -> None:
        self.given = ()
        super().close()


class CudnnInt8(cudnn.GraphCall, Int8):
    """The layer by cuDNN: the convolution is one kernel, ReLU and pool are another."""

    laid_out = staticmethod(channels_last)

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        return bytes_of_library(case, variant, least, 1)

    def sums(self, x: Any, weight: Any) -> Any:
        return self.convolve(x, weight, self.torch.int32, padding=weight.shape[-1] // 2)


class CublasInt8(Int8):
    """The layer by cuBLAS: one matrix product. Unfolding the input to k*k times its size is timed unless `prepared`."""

    laid_out = staticmethod(unfolded)

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        return bytes_of_library(case, variant, least, layer(case).kernel ** 2)

    @classmethod
    def conditions(cls, variant: Variant) -> tuple[str, ...]:
        return tuple(UNFOLDED if words == LAID_OUT else words for words in stated_conditions(variant))

    def sums(self, x: Any, weight: Any) -> Any:
        filters, size = self.shape
        return self.torch._int_mm(x, weight.T).T.reshape(1, filters, size, size)
