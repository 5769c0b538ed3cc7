"""The peers of the network: PyTorch for a convolution or for all layers, a library's matrix product, and a page of C."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...devices.contract import Device
from ...peers import cc, openmp
from ...peers.pytorch import Call
from ...spec.plan import Case, Variant
from .forward import MINIBATCH
from .network import CLASSES, KERNEL, POOL1, POOL2, pool
from .problem import LAYERS, conditions_of_whole, convolution_bytes, sampled


class Network(Call):
    """Base of the peers in PyTorch: copies images and weights to the device, untimed; the dense layers' are in fp32.

    Options are those of every Call; `precision` is that of the convolutions.
    """

    parts: dict[str, float]
    seconds: float
    """Seconds that the last run returns."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        self.images, self.labels = inputs["x"], inputs["labels"]
        self.data = {"source": inputs["source"], "images": inputs["images"]}
        self.kept: dict[str, NDArray[np.float64]] = {}
        super().__init__(device, variant, case, inputs)

    def prepare(self, inputs: Mapping[str, Any]) -> None:
        weights = inputs["weights"]
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
        """Return the seconds of a call, by the device's clock on a GPU and by the host's on a CPU, and its result."""
        returned: list[Any] = []
        start = time.perf_counter()
        if self.queue:
            seconds = self.queue.timed(lambda: returned.append(call()))
        else:
            returned.append(call())
            seconds = time.perf_counter() - start
        return seconds, returned[0]

    def result(self) -> dict[str, np.ndarray]:
        return dict(self.kept)

    def facts(self) -> dict[str, Any]:
        accuracy = float((self.kept["scores"].argmax(axis=1) == self.labels).mean())
        return {**super().facts(), "accuracy": accuracy, **self.data}


class Convolutions(Network):
    """Each convolution by itself. `run` calls each twice, and returns the seconds of both second calls, each also a part.

    The other layers are not timed. Outputs are those of the variants.
    """

    traffic = staticmethod(convolution_bytes)

    def poison(self) -> None:
        self.sampled = sampled(len(self.images))
        shapes = {layer.name: (len(self.sampled), *layer.y_shape) for layer in LAYERS}
        shapes["scores"] = (len(self.images), CLASSES)
        self.kept = {name: np.full(shape, np.nan) for name, shape in shapes.items()}

    def convolve(self, x: Any, weight: Any) -> Any:
        """Convolve images (N, C, S, S) with filters (F, C, 7, 7): (N, F, S-6, S-6)."""
        return self.torch.conv2d(x, weight)

    def compute(self) -> None:
        x = self.x
        for number, (layer, weight) in enumerate(zip(LAYERS, (self.conv1, self.conv2), strict=True), 1):
            call = partial(self.convolve, x, weight)
            call()
            self.parts[f"op {number}"], y = self.timed(call)
            self.kept[layer.name] = self.array(y[self.sampled])
            x = pooled(y, layer.pool)
        self.kept["scores"] = self.array(dense(x, self.fc1, self.fc1_bias, self.fc2, self.fc2_bias))
        self.seconds = self.parts["op"] = self.parts["op 1"] + self.parts["op 2"]


class Products(Convolutions):
    """Each convolution as matrix products: by cuBLAS, or by MKL on a CPU. Unfolding the images, 49 times as large, is timed."""

    def convolve(self, x: Any, weight: Any) -> Any:
        side = x.shape[2] - KERNEL + 1
        y = self.torch.empty((len(x), len(weight), side, side), dtype=x.dtype, device=self.place)
        for images, maps in zip(x.split(MINIBATCH), y.flatten(2).split(MINIBATCH), strict=True):
            self.torch.matmul(weight.flatten(1), self.torch.nn.functional.unfold(images, KERNEL), out=maps)
        return y


class TorchWhole(Network):
    """The whole forward pass as one function. `run` returns its seconds; the part `pass` includes the copies in and out."""

    traffic = staticmethod(convolution_bytes)
    conditions = staticmethod(conditions_of_whole)

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


class OpenMP(openmp.CProgram):
    """Each convolution in C (openmp.c), timed as in `Convolutions`; NumPy computes the other layers."""

    sources = (Path(__file__).with_name("openmp.c"), cc.HEADER)
    function = "convolve"

    traffic = staticmethod(convolution_bytes)

    def prepare(self, inputs: Mapping[str, Any]) -> None:
        self.x, self.labels, self.weights = openmp.with_slack(inputs["x"]), inputs["labels"], inputs["weights"]
        self.data = {"source": inputs["source"], "images": inputs["images"]}
        self.y = {layer: np.empty((len(self.labels), *layer.y_shape), np.float32) for layer in LAYERS}
        self.sampled = sampled(len(self.labels))

    def reset(self) -> None:
        for y in self.y.values():
            y.fill(np.nan)
        self.kept = self.outcome(np.full((len(self.labels), CLASSES), np.nan))

    def outcome(self, scores: NDArray[np.floating]) -> dict[str, NDArray[np.float64]]:
        maps = {layer.name: y[self.sampled].astype(np.float64) for layer, y in self.y.items()}
        return {**maps, "scores": scores.astype(np.float64)}

    def run(self) -> float:
        self.parts: dict[str, float] = {}
        x = self.x
        for number, (layer, y) in enumerate(self.y.items(), 1):
            sizes = len(y), layer.channels, layer.filters, layer.size
            for _ in range(2):
                start = time.perf_counter()
                self.call(*sizes, x, self.weights[layer.name], y)
                self.parts[f"op {number}"] = time.perf_counter() - start
            maps = pool(np.maximum(y, 0), layer.pool)
            x = openmp.with_slack(maps)
        hidden = np.maximum(maps.reshape(len(maps), -1) @ self.weights["fc1"].T + self.weights["fc1_bias"], 0)
        self.kept = self.outcome(hidden @ self.weights["fc2"].T + self.weights["fc2_bias"])
        self.parts["op"] = self.parts["op 1"] + self.parts["op 2"]
        return self.parts["op"]

    def outputs(self) -> dict[str, np.ndarray]:
        return dict(self.kept)

    def facts(self) -> dict[str, Any]:
        right = float((self.kept["scores"].argmax(axis=1) == self.labels).mean())
        return {**super().facts(), "accuracy": right, **self.data}


def pooled(y: Any, size: int) -> Any:
    """Apply ReLU and pool to (N, C, H, W), the last windows cut off by the edge. Overwrites `y`."""
    from torch.nn import functional

    return functional.max_pool2d(functional.relu(y, inplace=True), size, ceil_mode=True)


def dense(maps: Any, fc1: Any, fc1_bias: Any, fc2: Any, fc2_bias: Any) -> Any:
    """Compute scores (N, 10) from the last pooled maps (N, 16, 9, 9), in fp32."""
    from torch.nn import functional

    hidden = functional.relu(functional.linear(maps.float().flatten(1), fc1, fc1_bias))
    return functional.linear(hidden, fc2, fc2_bias)


def network(x: Any, conv1: Any, conv2: Any, *weights: Any) -> Any:
    """Compute scores (N, 10) of images (N, 1, 86, 86)."""
    from torch.nn import functional

    maps = pooled(functional.conv2d(x, conv1), POOL1)
    return dense(pooled(functional.conv2d(maps, conv2), POOL2), *weights)
