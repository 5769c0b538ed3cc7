"""Trains the network of the lab in NumPy, for `roofbook train lenet`: seeded, minutes on two cores, no GPU.

Adam with a cosine schedule on float32; each epoch sees every image shifted by up to two pixels, half of them mirrored.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import UsageError
from ...paths import write_whole
from .data import Bytes, Data, load, resized
from .network import FILES, KERNEL, LAYERS, POOL1, POOL2, SHAPES, Array, Weights, accuracy, columns, pool

BATCH = 32
RATE = 2e-3  # Adam's step size at the start
DECAY = 1e-2  # decay of the weights, in units of the rate
SHIFT = 2  # pixels of 28


def make(data_dir: str | None, seed: int, epochs: int, out: Path | None, tell: Callable[[str], None]) -> str:
    """Train, test and save, for the command line: `tell` gets a line an epoch, and the last line is returned.

    The images are those of `data.load`. `out` is the file to write, by default the one of `network.FILES` for these images.
    """
    training, test = load(data_dir, "train"), load(data_dir, "test")
    out = out or FILES[training.name]
    if out.is_dir() or not os.access(out.parent, os.W_OK):
        raise UsageError(f"{out} cannot be written; expected a file in a folder that exists")
    tell(f"training on {training.source}")
    weights = train(training, seed, epochs, lambda epoch, loss: tell(f"epoch {epoch} of {epochs}: loss {loss:.4f}"))
    reached = accuracy(weights, resized(test.images)[:, None], test.labels)
    how = {
        "command": f"roofbook train lenet --seed {seed} --epochs {epochs}",
        "training": training.source,
        "test": test.source,
        "accuracy": round(reached, 4),
        "numpy": np.__version__,
    }
    save(out, weights, how)
    return f"accuracy {reached:.4f} on {test.source}; the weights are in {out}"


def save(path: Path, weights: Weights, how: dict[str, Any]) -> None:
    """Write an .npz of the weights and, as `how`, the JSON that says how they were trained. The file is replaced as a whole."""
    arrays: dict[str, Any] = {**weights, "how": np.array(json.dumps(how))}
    archive = io.BytesIO()
    np.savez_compressed(archive, **arrays)
    try:
        path.parent.stat()  # a folder that is mistyped is not made
        write_whole(path, archive.getvalue(), durable=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def train(data: Data, seed: int, epochs: int, progress: Callable[[int, float], None]) -> Weights:
    """Train weights by the names and shapes of `network.SHAPES`, for pixels from 0 to 255.

    A seed gives the same weights on the same machine; another BLAS rounds in another order. `progress` gets the number of
    finished epochs and the mean loss (cross entropy, nats) of the last.
    """
    random = np.random.default_rng(seed)
    weights = initial(random)
    mean = {name: np.zeros_like(array) for name, array in weights.items()}
    square = {name: np.zeros_like(array) for name, array in weights.items()}
    batches = -(-len(data.images) // BATCH)
    mirror = data.name == "fashion-mnist"  # a shoe stays a shoe, a 2 does not stay a 2
    step = 0
    for epoch in range(epochs):
        total = 0.0
        for chosen in np.array_split(random.permutation(len(data.images)), batches):
            images = resized(augmented(data.images[chosen], random, mirror))[:, None] / np.float32(255)
            loss, gradient = loss_and_gradient(weights, images, data.labels[chosen])
            total += loss * len(chosen)
            rate = RATE * 0.5 * (1 + np.cos(np.pi * step / (epochs * batches)))
            step += 1
            for name, array in weights.items():
                mean[name] += 0.1 * (gradient[name] - mean[name])
                square[name] += 0.001 * (gradient[name] ** 2 - square[name])
                direction = mean[name] / (1 - 0.9**step) / (np.sqrt(square[name] / (1 - 0.999**step)) + 1e-8)
                array -= (rate * (direction + DECAY * array * (array.ndim > 1))).astype(np.float32)
        progress(epoch + 1, total / len(data.images))
    return weights | {"conv1": weights["conv1"] / np.float32(255)}


def initial(random: np.random.Generator) -> Weights:
    """Draw initial weights by He's rule; biases are 0."""
    return {
        name: (random.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:])) * (len(shape) > 1)).astype(np.float32)
        for name, shape in SHAPES.items()
    }


def augmented(images: Bytes, random: np.random.Generator, mirror: bool) -> Bytes:
    """Shift each of the images (N, 28, 28) by up to SHIFT pixels and fill up with zeros; `mirror`: mirror half of them."""
    padded = np.pad(images, [(0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT)])
    size = images.shape[1]
    out = np.empty_like(images)
    for i, (y, x, turned) in enumerate(random.integers(0, (2 * SHIFT + 1, 2 * SHIFT + 1, 2), (len(images), 3))):
        moved = padded[i, y : y + size, x : x + size]
        out[i] = moved[:, ::-1] if mirror and turned else moved
    return out


def loss_and_gradient(weights: Weights, images: Array, labels: Bytes) -> tuple[float, Weights]:
    """Compute the mean cross entropy of a batch (N, 1, 86, 86) and its gradient, by the names of the weights."""
    n = len(images)
    rows1, rows2 = weights["conv1"].reshape(4, -1), weights["conv2"].reshape(16, -1)
    columns1 = columns(images)
    relu1 = np.maximum(rows1 @ columns1, 0).reshape(n, *LAYERS["relu1"])
    pool1 = pool(relu1, POOL1)
    columns2 = columns(pool1)
    relu2 = np.maximum(rows2 @ columns2, 0).reshape(n, *LAYERS["relu2"])
    pool2 = pool(relu2, POOL2)
    flat = pool2.reshape(n, -1)
    relu3 = np.maximum(flat @ weights["fc1"].T + weights["fc1_bias"], 0)
    scores = relu3 @ weights["fc2"].T + weights["fc2_bias"]
    scores -= scores.max(axis=1, keepdims=True)
    log_p = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    of_labels = np.arange(n), labels
    loss = -float(log_p[of_labels].mean())

    g_scores = np.exp(log_p)
    g_scores[of_labels] -= 1
    g_scores /= n
    g_fc1 = (g_scores @ weights["fc2"]) * (relu3 > 0)
    g_pool2 = (g_fc1 @ weights["fc1"]).reshape(pool2.shape)
    g_conv2 = unpooled(g_pool2, pool2, relu2, POOL2).reshape(n, 16, -1)
    height, width = LAYERS["conv2"][1:]
    g_windows = (rows2.T @ g_conv2).reshape(n, 4, KERNEL, KERNEL, height, width)
    g_pool1 = np.zeros_like(pool1)
    for p, q in np.ndindex(KERNEL, KERNEL):
        g_pool1[:, :, p : p + height, q : q + width] += g_windows[:, :, p, q]
    g_conv1 = unpooled(g_pool1, pool1, relu1, POOL1).reshape(n, 4, -1)
    gradient = {
        "conv1": (g_conv1 @ columns1.transpose(0, 2, 1)).sum(axis=0).reshape(SHAPES["conv1"]),
        "conv2": (g_conv2 @ columns2.transpose(0, 2, 1)).sum(axis=0).reshape(SHAPES["conv2"]),
        "fc1": g_fc1.T @ flat,
        "fc1_bias": g_fc1.sum(axis=0),
        "fc2": g_scores.T @ relu3,
        "fc2_bias": g_scores.sum(axis=0),
    }
    return loss, gradient


def unpooled(gradient: Array, pooled: Array, images: Array, size: int) -> Array:
    """Return the gradient of ReLU and pool: `gradient` where an image holds the positive maximum of its block, else 0."""
    h, w = images.shape[2:]
    spread = [np.repeat(np.repeat(a, size, axis=2), size, axis=3)[:, :, :h, :w] for a in (gradient, pooled)]
    return np.where((images == spread[1]) & (images > 0), spread[0], np.float32(0))
