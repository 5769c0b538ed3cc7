"""The layer by cuDNN at its best: convolution, bias and ReLU in one kernel, with results in the form of a step's.

For fair comparisons results are float32 in NumPy's order, and the conversion of operands is timed if a step's is.
"""

import importlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import Any

from ...peers import cudnn
from ...spec.plan import Case, Variant, stated_conditions
from . import plans
from .peers import TorchConvolution
from .problem import Layer


def channels_last(dtype: Any) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Return a function that converts images and filters to a type, with the channels of a pixel side by side."""
    import torch

    def laid_out(x: Any, weight: Any) -> tuple[Any, Any]:
        last = {"memory_format": torch.channels_last}
        return x.to(dtype).contiguous(**last), weight.to(dtype).contiguous(**last)

    return laid_out


def pooled(y: Any) -> Any:
    """Return the largest value of each 2x2 window of (1, O, H, W), as float32 in NumPy's order."""
    from torch.nn import functional

    return functional.max_pool2d(y, 2).float().contiguous()


def whole(x: Any, weight: Any, bias: Any) -> Any:
    """Compute the layer: x (1, C, H+k-1, W+k-1) -> out (1, O, H//2, W//2), as float32 in NumPy's order."""
    from torch.nn import functional

    return pooled(functional.relu(functional.conv2d(x, weight, bias)))


def not_by_eight(layer: Layer) -> str | None:
    """Return the reason why cuDNN's graph cannot run a layer; None if it can."""
    odd = layer.channels % 8 or layer.filters % 8
    return "not on this case: cuDNN takes channels and filters by eight" if odd else None


class AsStep(TorchConvolution):
    """Base of the layers whose results have the type and order of a step's, whatever those of the operands."""

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes; operands and sums are in the type that is multiplied, and pooling reads the sums again."""
        layer, precision = plans.layer(case), variant.options["precision"]
        operands, part = plans.operand_bytes(layer), 0.5 if precision == "fp16" else 1.0
        converted = 0.0 if precision == "fp32" else 2 * part * operands
        begins = part * operands if variant.options.get("prepared") else operands + converted
        return least - operands + begins + 8 * part * prod(layer.conv_shape)

    @classmethod
    def conditions(cls, variant: Variant) -> tuple[str, ...]:
        return stated_conditions(replace(variant, options={**variant.options, "channels_last": False}))


class FusedConvolution(AsStep):
    """One kernel of cuDNN's for convolution, bias and ReLU, then a compiled one that pools.

    Options are those of every Call. With `prepared`, operands are converted before a run. Without it, a run begins with the
    lab's input and weights.
    """

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        return not_by_eight(plans.layer(case))

    def prepare(self, inputs: Mapping[str, Any]) -> None:
        operands = self.tensor(inputs["x"][None]), self.tensor(inputs["weight"])
        self.lay = None if self.form == self.plain else self.compiled(channels_last(self.form["dtype"]))
        self.prepared = bool(self.options.get("prepared")) and self.lay is not None
        self.x, self.weight = self.lay(*operands) if self.lay and self.prepared else operands
        self.bias = self.tensor(inputs["bias"], dtype=self.form["dtype"])
        self.pool = self.compiled(pooled)

    @property
    def plain(self) -> dict[str, Any]:
        """The type and layout in which the lab gives input and weights."""
        return {"dtype": self.torch.float32, "memory_format": self.torch.contiguous_format}

    def compute(self) -> None:
        x, weight = self.x, self.weight
        if self.lay and not self.prepared:
            x, weight = self.lay(x, weight)
        self.out = self.pool(self.torch.cudnn_convolution_relu(x, weight, self.bias, (1, 1), (0, 0), (1, 1), 1))


SCALE = 2.0**8
"""Factor of both operands before they are split, so that their small parts are no subnormal fp16."""
KEPT = -(2**13)
"""Mask of the bits of a float32 that fp16 holds, as an int32: all but the last 13."""


def parts(values: Any) -> tuple[Any, Any]:
    """Split scaled float32 values into the digits that fp16 holds and the remainder, both as fp16.

    The digits are cut by a mask: a compiler may leave out a rounding to fp16 and back, and the remainder would be zero.
    """
    import torch

    values = SCALE * values
    large = (values.view(torch.int32) & KEPT).view(torch.float32)
    return large.half(), (values - large).half()


def split(x: Any, weight: Any) -> tuple[Any, Any]:
    """Return operands of one convolution with three times the channels, which adds up three products, the small ones first."""
    import torch

    (large, small), (wide, fine) = parts(x), parts(weight)
    last = {"memory_format": torch.channels_last}
    return torch.cat([small, large, large], 1).contiguous(**last), torch.cat([wide, fine, wide], 1).contiguous(**last)


def finished(sums: Any, bias: Any) -> Any:
    """Apply bias, ReLU and pool to the sums (1, O, H, W) of split operands, as float32 in NumPy's order."""
    from torch.nn import functional

    return functional.max_pool2d(functional.relu(sums / SCALE**2 + bias[:, None, None]), 2).contiguous()


class SplitConvolution(cudnn.GraphCall, TorchConvolution):
    """Each operand in two parts of fp16, and all three products by one kernel of cuDNN's, which sums them in fp32.

    A run begins with the lab's input and weights.
    """

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes; both parts are written and read, and so are the sums."""
        layer = plans.layer(case)
        return least + 3 * plans.operand_bytes(layer) + 8 * prod(layer.conv_shape)

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        return not_by_eight(plans.layer(case))

    def prepare(self, inputs: Mapping[str, Any]) -> None:
        self.x, self.weight, self.bias = (self.tensor(inputs[name]) for name in ("x", "weight", "bias"))
        self.x = self.x[None]
        self.split, self.finish = self.compiled(split), self.compiled(finished)

    def compute(self) -> None:
        x, weight = self.split(self.x, self.weight)
        self.out = self.finish(self.convolve(x, weight, self.torch.float32, tried=TRIED), self.bias)


TRIED = 12
"""Number of cuDNN's kernels that are timed: its first choice was a tenth slower than the best."""
AUTOTUNE = {
    "max_autotune": True, "coordinate_descent_tuning": True, "max_autotune_report_choices_stats": False,
}  # fmt: skip
"""Options of the mode `max-autotune-no-cudagraphs`, and one that prints nothing, which only some versions of PyTorch have."""


class Autotuned(AsStep):
    """The whole layer by torch.compile, which times Triton's and cuDNN's convolutions and takes the fastest."""

    def prepare(self, inputs: Mapping[str, Any]) -> None:
        super().prepare(inputs)
        inductor: Any = importlib.import_module("torch._inductor")
        choosing: Any = importlib.import_module("torch._inductor.select_algorithm")
        choosing.PRINT_AUTOTUNE = False  # tables in the middle of the progress
        options = {name: value for name, value in AUTOTUNE.items() if name in inductor.list_options()}
        self.layer = self.torch.compile(whole, dynamic=False, fullgraph=True, options=options)

    def compute(self) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="TypedStorage is deprecated")  # from PyTorch's own code
            super().compute()
