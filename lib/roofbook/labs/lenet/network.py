"""The network of the lab in NumPy: shapes, every layer's output in float64, accuracy, and the trained weights.

86x86 -> conv 1->4, 7x7 -> ReLU -> pool 2/2 -> conv 4->16, 7x7 -> ReLU -> pool 4/4 (ceiling) -> fc 1296->32 -> ReLU
-> fc 32->10. Images are (N, channels, rows, columns); convolutions are valid, without bias, and do not flip the kernel.
"""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ...errors import UsageError

Array = NDArray[np.floating]
Weights = dict[str, NDArray[np.float32]]

SIZE = 86  # rows and columns of an input image
KERNEL = 7
POOL1, POOL2 = 2, 4
CLASSES = 10
SHAPES = {
    "conv1": (4, 1, KERNEL, KERNEL),
    "conv2": (16, 4, KERNEL, KERNEL),
    "fc1": (32, 16 * 9 * 9),
    "fc1_bias": (32,),
    "fc2": (CLASSES, 32),
    "fc2_bias": (CLASSES,),
}
FILES = {
    "fashion-mnist": Path(__file__).with_name("weights.npz"),
    "digits": Path(__file__).with_name("weights-digits.npz"),
}
LAYERS = {
    "conv1": (4, 80, 80),
    "relu1": (4, 80, 80),
    "pool1": (4, 40, 40),
    "conv2": (16, 34, 34),
    "relu2": (16, 34, 34),
    "pool2": (16, 9, 9),
    "fc1": (32,),
    "relu3": (32,),
    "fc2": (CLASSES,),
}


def columns(images: Array) -> Array:
    """Unroll every 7x7 window of (N, C, H, W) into a new array (N, C*49, (H-6)*(W-6))."""
    windows = sliding_window_view(images, (KERNEL, KERNEL), axis=(2, 3))
    n, c, h, w = windows.shape[:4]
    return windows.transpose(0, 1, 4, 5, 2, 3).reshape(n, c * KERNEL**2, h * w)


def convolve(images: Array, weights: Array) -> Array:
    """Compute the valid cross-correlation of (N, C, H, W) with (M, C, 7, 7): (N, M, H-6, W-6)."""
    n, _, h, w = images.shape
    height, width, matrix = h - KERNEL + 1, w - KERNEL + 1, weights.reshape(len(weights), -1)
    out: Array = np.empty((n, len(weights), height * width), np.result_type(images, weights))
    for image, maps in zip(images, out, strict=True):  # one by one: the windows of all are gigabytes of new memory
        np.matmul(matrix, columns(image[None])[0], out=maps)
    return out.reshape(n, len(weights), height, width)


def pool(images: Array, size: int) -> Array:
    """Return the largest value of each size x size block, the last ones cut off by the edge: (N, C, ceil(H/size), ...)."""
    short = [(0, -length % size) for length in images.shape[2:]]
    padded = np.pad(images, [(0, 0), (0, 0), *short], constant_values=-np.inf) if any(map(any, short)) else images
    rows = reduce(np.maximum, (padded[:, :, i::size] for i in range(size)))
    return reduce(np.maximum, (rows[..., i::size] for i in range(size)))


def forward(weights: Weights, images: Array) -> dict[str, Array]:
    """Return every layer's output in float64, by the names and shapes of LAYERS with N in front.

    `images` (N, 1, 86, 86) hold pixels from 0 to 255. An image takes 0.8 MB: pass a large batch in parts.
    """
    if images.shape[1:] != (1, SIZE, SIZE):
        raise ValueError(f"expected images (N, 1, {SIZE}, {SIZE}), not {images.shape}")
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    out: dict[str, Array] = {}
    out["conv1"] = convolve(images.astype(np.float64), w["conv1"])
    out["relu1"] = np.maximum(out["conv1"], 0)
    out["pool1"] = pool(out["relu1"], POOL1)
    out["conv2"] = convolve(out["pool1"], w["conv2"])
    out["relu2"] = np.maximum(out["conv2"], 0)
    out["pool2"] = pool(out["relu2"], POOL2)
    out["fc1"] = out["pool2"].reshape(len(images), -1) @ w["fc1"].T + w["fc1_bias"]
    out["relu3"] = np.maximum(out["fc1"], 0)
    out["fc2"] = out["relu3"] @ w["fc2"].T + w["fc2_bias"]
    return out


def accuracy(weights: Weights, images: Array, labels: NDArray[np.uint8]) -> float:
    """Return the share of the images (N, 1, 86, 86) whose largest score is that of their label (N,); 3 ms an image."""
    parts = range(0, len(images), 100)
    classes = np.concatenate([forward(weights, images[at : at + 100])["fc2"].argmax(axis=1) for at in parts])
    return float((classes == labels).mean())


def trained(name: str = "fashion-mnist") -> tuple[Weights, dict[str, Any]]:
    """Return the weights of the lab for the data set `name` (`Data.name`), and how they were trained."""
    return read_weights(FILES[name])


def read_weights(file: Path) -> tuple[Weights, dict[str, Any]]:
    """Read weights, float32, by the names and shapes of SHAPES, and how they were trained. Raises UsageError."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            weights = {name: arrays[name] for name in SHAPES}
            how = json.loads(str(arrays["how"]))
            if not isinstance(how, dict):
                raise ValueError("`how` is no JSON object")
    except Exception as error:  # for other bytes, NumPy, zipfile and zlib raise a dozen kinds
        message = " ".join(str(error).split())
        raise UsageError(f"{file} holds no weights ({message}); `roofbook train lenet` makes them") from None
    for name, array in weights.items():
        if array.shape != SHAPES[name] or array.dtype != np.float32 or not np.isfinite(array).all():
            raise UsageError(f"{file}: {name} must be finite float32 {SHAPES[name]}, not {array.dtype} {array.shape}")
    return weights, how
