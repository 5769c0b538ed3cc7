"""The network in PyTorch, by cuDNN or oneDNN: what a user would call instead of a kernel, for a convolution or for all."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...device import Device, Unsupported
from ...lab import Case, Variant
from ...peers.pytorch import Call
from .network import CLASSES, POOL1, POOL2
from .problem import LAYERS, sampled

DTYPES = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}


class Network(Call):
    """What both have in common: images and weights on the device before they are timed, the dense layers' in fp32.

    Options: `precision` of the convolutions, a key of DTYPES, fp32 if not given; `channels_last`, tensors in memory as NHWC;
    and those of every Call. Raises Unsupported for TF32 on a CPU, which has none.
    """

    parts: dict[str, float]
    seconds: float
    """What the last run tells."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        self.images, self.labels = inputs["x"], inputs["labels"]
        self.data = {"source": inputs["source"], "images": inputs["images"]}
        self.kept: dict[str, NDArray[np.float64]] = {}
        super().__init__(device, variant, case, inputs)

    def prepare(self, inputs: Mapping[str, Any]) -> None:
        precision = self.options.get("precision", "fp32")
        if precision == "tf32" and self.place.type == "cpu":
            raise Unsupported("TF32 is an NVIDIA GPU's")
        torch, weights = self.torch, inputs["weights"]
        layout = torch.channels_last if self.options.get("channels_last") else torch.contiguous_format
        self.form = {"dtype": getattr(torch, DTYPES[precision]), "memory_format": layout}
        self.x = self.tensor(self.images, **self.form)
        self.conv1, self.conv2 = (self.tensor(weights[layer.name], **self.form) for layer in LAYERS)
        self.fc1, self.fc1_bias = self.tensor(weights["fc1"]), self.tensor(weights["fc1_bias"])
        self.fc2, self.fc2_bias = self.tensor(weights["fc2"]), self.tensor(weights["fc2_bias"])

    def run(self) -> float:
        self.parts = {}
        with self._settings():
            self.compute()
        return self.seconds

    def timed(self, call: Callable[[], Any]) -> tuple[float, Any]:
        """Seconds of a call, by the device's clock on a GPU and by the host's on a CPU; and what it returns."""
        found: list[Any] = []
        start = time.perf_counter()
        if self.queue:
            seconds = self.queue.timed(lambda: found.append(call()))
        else:
            found.append(call())
            seconds = time.perf_counter() - start
        return seconds, found[0]

    def result(self) -> dict[str, np.ndarray]:
        return dict(self.kept)

    def facts(self) -> dict[str, Any]:
        right = float((self.kept["scores"].argmax(axis=1) == self.labels).mean())
        return {**super().facts(), "accuracy": right, **self.data}


class Convolutions(Network):
    """Each convolution by itself. As of a variant, `run` tells the seconds of a second call of both, and each is a part.

    What lies between and behind them is not timed. Outputs are those of the variants.
    """

    def poison(self) -> None:
        self.sampled = sampled(len(self.images))
        shapes = {layer.name: (len(self.sampled), *layer.y_shape) for layer in LAYERS}
        shapes["scores"] = (len(self.images), CLASSES)
        self.kept = {name: np.full(shape, np.nan) for name, shape in shapes.items()}

    def compute(self) -> None:
        x = self.x
        for number, (layer, weight) in enumerate(zip(LAYERS, (self.conv1, self.conv2), strict=True), 1):
            call = partial(self.torch.conv2d, x, weight)
            call()
            self.parts[f"op {number}"], y = self.timed(call)
            self.kept[layer.name] = self.array(y[self.sampled])
            x = pooled(y, layer.pool)
        self.kept["scores"] = self.array(dense(x, self.fc1, self.fc1_bias, self.fc2, self.fc2_bias))
        self.seconds = self.parts["op"] = self.parts["op 1"] + self.parts["op 2"]


class Whole(Network):
    """The whole forward pass as one function. `run` tells its seconds; the part `pass` has the copies in and out as well."""

    def prepare(self, inputs: Mapping[str, Any]) -> None:
        super().prepare(inputs)
        self.network = self.compiled(network)

    def poison(self) -> None:
        self.kept = {"scores": np.full((len(self.images), CLASSES), np.nan)}

    def forward(self, x: Any) -> Any:
        return self.network(x, self.conv1, self.conv2, self.fc1, self.fc1_bias, self.fc2, self.fc2_bias)

    def compute(self) -> None:
        start = time.perf_counter()
        x = self.torch.from_numpy(self.images).to(self.place).to(**self.form)
        scores = self.forward(x).cpu()
        self.parts["pass"] = time.perf_counter() - start
        self.kept["scores"] = self.array(scores)
        self.seconds, _ = self.timed(partial(self.forward, self.x))


def pooled(y: Any, size: int) -> Any:
    """ReLU and pool of (N, C, H, W), the last windows cut off by the edge. Overwrites `y`."""
    from torch.nn import functional

    return functional.max_pool2d(functional.relu(y, inplace=True), size, ceil_mode=True)


def dense(maps: Any, fc1: Any, fc1_bias: Any, fc2: Any, fc2_bias: Any) -> Any:
    """Scores (N, 10) of the last pooled maps (N, 16, 9, 9), in fp32."""
    from torch.nn import functional

    hidden = functional.relu(functional.linear(maps.float().flatten(1), fc1, fc1_bias))
    return functional.linear(hidden, fc2, fc2_bias)


def network(x: Any, conv1: Any, conv2: Any, *weights: Any) -> Any:
    """Scores (N, 10) of images (N, 1, 86, 86)."""
    from torch.nn import functional

    maps = pooled(functional.conv2d(x, conv1), POOL1)
    return dense(pooled(functional.conv2d(maps, conv2), POOL2), *weights)
