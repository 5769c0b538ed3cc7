"""The layer by cuDNN at its best: convolution, bias and ReLU in one kernel, and what leaves it as a step leaves it.

Serves comparisons like for like: results are float32 in NumPy's order, and turning operands into another type is timed where
a step's is.
"""

import importlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from .peers import TorchConvolution


def channels_last(dtype: Any) -> Callable[[Any, Any], tuple[Any, Any]]:
    """What turns images and filters into that type, the channels of a pixel side by side."""
    import torch

    def laid_out(x: Any, weight: Any) -> tuple[Any, Any]:
        last = {"memory_format": torch.channels_last}
        return x.to(dtype).contiguous(**last), weight.to(dtype).contiguous(**last)

    return laid_out


def pooled(y: Any) -> Any:
    """The largest of each 2x2 window of (1, O, H, W), as float32 in NumPy's order."""
    from torch.nn import functional

    return functional.max_pool2d(y, 2).float().contiguous()


def whole(x: Any, weight: Any, bias: Any) -> Any:
    """out (1, O, H//2, W//2) of x (1, C, H+k-1, W+k-1), the same."""
    from torch.nn import functional

    return pooled(functional.relu(functional.conv2d(x, weight, bias)))


class FusedConvolution(TorchConvolution):
    """One kernel of cuDNN's, then a compiled one that pools.

    Options are those of every Call; with `prepared` the operands lie in their type and layout before a run, else it begins
    with input and weights as the lab gives them.
    """

    as_steps = True
    """Whether its results are of the type and order of a step's."""

    def prepare(self, inputs: Mapping[str, Any]) -> None:
        given = self.tensor(inputs["x"][None]), self.tensor(inputs["weight"])
        self.lay = None if self.form == self.plain else self.compiled(channels_last(self.form["dtype"]))
        self.prepared = bool(self.options.get("prepared")) and self.lay is not None
        self.x, self.weight = self.lay(*given) if self.lay and self.prepared else given
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


AUTOTUNE = {
    "max_autotune": True, "coordinate_descent_tuning": True, "max_autotune_report_choices_stats": False,
}  # fmt: skip
"""What the mode `max-autotune-no-cudagraphs` means, and that nothing is printed where PyTorch lets itself be told so."""


class Autotuned(TorchConvolution):
    """All of it by torch.compile, which times Triton's convolutions beside cuDNN's and takes the fastest."""

    as_steps = True

    def prepare(self, inputs: Mapping[str, Any]) -> None:
        super().prepare(inputs)
        inductor: Any = importlib.import_module("torch._inductor")
        choosing: Any = importlib.import_module("torch._inductor.select_algorithm")
        choosing.PRINT_AUTOTUNE = False  # tables in the middle of the progress
        options = {name: value for name, value in AUTOTUNE.items() if name in inductor.list_options()}
        self.layer = self.torch.compile(whole, dynamic=False, fullgraph=True, options=options)

    def compute(self) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="TypedStorage is deprecated")  # of PyTorch's own code
            super().compute()
