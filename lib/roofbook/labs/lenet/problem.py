"""The network's two convolutions as a problem: layers, seeded batches of test images, float64 reference, error bounds.

Every variant of the lab is compared with `reference`: the convolutions of some images value by value, the scores of all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError
from ...spec.bands import by_bands
from ...spec.plan import CHANNELS_LAST, ROUNDS_RESULTS, Case, Variant, stated_conditions
from ...spec.rounding import DEVIATIONS, ROUNDING, mean_square_over
from . import data, network
from .network import KERNEL, POOL1, POOL2, Array, Weights, columns, pool

Shape = tuple[int, ...]

MOST_IMAGES = 40000  # in a batch: 32-bit indices into the largest map
SAMPLED = 32  # images of a batch whose convolutions are compared value by value
UNIT_ROUNDOFF = 2.0**-24  # for float32
SMALLEST_NORMAL = 2.0**-14  # in fp16: the error of a smaller number is at most d times this, not d times the number

_NAME = re.compile(r"batch-(0|[1-9][0-9]{0,17})")


@dataclass(frozen=True)
class Layer:
    """A convolution of `size` x `size` maps, 7x7, valid, without bias; then ReLU and a pool with ceiling."""

    name: str
    """Name of the layer's weights and output in `network`."""
    channels: int
    filters: int
    size: int
    pool: int

    @property
    def side(self) -> int:
        """Number of rows, and of columns, of the convolution's output."""
        return self.size - KERNEL + 1

    @property
    def x_shape(self) -> Shape:
        """Shape of the input for one image. All shapes here are for one image."""
        return self.channels, self.size, self.size

    @property
    def y_shape(self) -> Shape:
        return self.filters, self.side, self.side

    @property
    def pooled_shape(self) -> Shape:
        return self.filters, -(-self.side // self.pool), -(-self.side // self.pool)

    @property
    def x_values(self) -> int:
        return math.prod(self.x_shape)

    @property
    def y_values(self) -> int:
        return math.prod(self.y_shape)

    @property
    def pooled_values(self) -> int:
        return math.prod(self.pooled_shape)

    @property
    def weights(self) -> int:
        return self.filters * self.terms

    @property
    def terms(self) -> int:
        """Number of products in the sum of one output, and of rows in the unrolled matrix."""
        return self.channels * KERNEL**2

    @property
    def flops(self) -> int:
        """Operations for one image: two for each product."""
        return 2 * self.terms * self.y_values


CONV1 = Layer("conv1", channels=1, filters=4, size=86, pool=POOL1)
CONV2 = Layer("conv2", channels=4, filters=16, size=40, pool=POOL2)
LAYERS = (CONV1, CONV2)


def batch_of(name: str) -> int | None:
    """Return the number of images in a name such as `batch-100`; None for another name. Raises UsageError for 0 or too many."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    images = int(match[1])
    if not 1 <= images <= MOST_IMAGES:
        raise UsageError(f"a batch must be 1 or more images and at most {MOST_IMAGES} (32-bit indices), not {images}")
    return images


def sampled(batch: int) -> NDArray[np.int64]:
    """Return the images of a batch that are compared value by value: at most 32, evenly spread, with the first and last."""
    return np.linspace(0, batch - 1, min(batch, SAMPLED)).round().astype(np.int64)


@lru_cache(maxsize=1)
def _test_set(name: str, folder: str | None) -> tuple[NDArray[np.float32], NDArray[np.uint8], str]:
    """Return the enlarged images (M, 1, 86, 86), labels and source of a test set. A process loads it once."""
    test_set = data.load(folder) if name == "fashion-mnist" else data.digits("test", "it is not in the cache")
    return data.resized(test_set.images)[:, None], test_set.labels, test_set.source


def inputs(batch: int, name: str, seed: int) -> dict[str, Any]:
    """Return a batch of the data set `name`: its test images in a seeded order, repeated if the batch is larger.

    `x` float32 (batch, 1, 86, 86) and `labels` uint8 (batch,); `weights` by the names of `network.SHAPES`; `source`, a
    text for a reader; `images`, the number of different images, which come first in `x`.
    """
    images, labels, source = _test_set(name, data.folder())
    order = np.random.default_rng(seed).permutation(len(images))
    chosen = order[np.arange(batch) % len(images)]
    weights, _ = network.trained(name)
    drawn = {"x": images[chosen], "labels": labels[chosen], "weights": weights, "source": source}
    return {**drawn, "images": min(batch, len(images))}


def noisy(drawn: Mapping[str, Any]) -> dict[str, Any]:
    """Return a batch with noise instead of its images, uniform on [-1, 1): images are dark at their borders, noise is not."""
    x, images = drawn["x"], drawn["images"]
    noise = np.random.default_rng(0).uniform(-1, 1, (images, *x.shape[1:])).astype(np.float32)
    return {**drawn, "x": noise[np.arange(len(x)) % images]}


# -- the reference and its bounds --------------------------------------------------------------------------------------


POOLS = "does ReLU and pooling as well"
"""Condition of a variant whose convolutions write pooled maps."""


def convolution_bytes(case: Case, variant: Variant, least: float) -> float:
    """Return the bytes of both convolutions: input, output and weights."""
    values = sum(layer.x_values + layer.y_values for layer in LAYERS)
    return 4.0 * (int(case.params["batch"]) * values + sum(layer.weights for layer in LAYERS))


def pooled_bytes(case: Case, variant: Variant, least: float) -> float:
    """Return the bytes of both convolutions, with pooled outputs."""
    spared = sum(layer.y_values - layer.pooled_values for layer in LAYERS)
    return convolution_bytes(case, variant, least) - 4.0 * int(case.params["batch"]) * spared


def conditions_of_whole(variant: Variant) -> tuple[str, ...]:
    """Return the conditions of a variant that computes scores: its maps are no results."""
    stated = stated_conditions(variant)
    of_operands = [words for words in stated if words != CHANNELS_LAST and not words.startswith(ROUNDS_RESULTS)]
    return (*of_operands, POOLS, "goes on to the scores")


class Bounded(NamedTuple):
    """Right values in float64 and the allowed error of a float32 result: `rounding` + d x `operands`.

    d is the unit roundoff of the convolutions' operands if these are rounded further: 0 for float32.
    """

    value: Array
    rounding: Array
    operands: Array

    def bound(self, operand_roundoff: float) -> Array:
        return self.rounding + operand_roundoff * self.operands

    def pooled(self, size: int) -> Bounded:
        """Apply ReLU and pool, which enlarge no error: the largest bound of a window is that of its output."""
        return Bounded(pool(np.maximum(self.value, 0), size), pool(self.rounding, size), pool(self.operands, size))


def convolved(images: Bounded, weights: Array) -> Bounded:
    """Bound a convolution in float32 of images with errors: 8 (u sqrt(n) (norm + total) + sqrt(2) d norm) + spread.

    For s = w.x of n = C x 49 products, norm = sqrt(sum (w x)^2), total = |s|, u = 2**-24. The first term is for float32
    sums of n terms in any order; the second for operands rounded to nearest with unit roundoff d (TF32, fp16: 2**-11), with
    SMALLEST_NORMAL (sqrt(n) + |w| + |x|) added to norm, for products and operands too small for fp16.
    Rounding errors behave like independent random variables of mean zero and add up as a random walk (Higham and Mary, A
    New Approach to Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41, 2019): a sum takes n roundings, each of
    at most u times a partial sum, and partial sums grow to `total` and stray from the way there by `norm`; rounded
    operands perturb each product by two errors of at most d |w x|. By Hoeffding's inequality a walk ends beyond 8 of these
    with a probability of at most 2 exp(-32), 3e-14 an output.

    spread = sum |w| e for the bounds e of the images. This bound always holds; the errors of neighbours depend on each other.
    """
    shape = (len(images.value), len(weights), *(side - KERNEL + 1 for side in images.value.shape[2:]))
    matrix = weights.reshape(len(weights), -1).astype(np.float64)
    unrolled = columns(images.value)
    sums = matrix @ unrolled
    squares = np.square(unrolled, out=unrolled)
    norm = np.sqrt(matrix**2 @ squares)
    norms = np.linalg.norm(matrix, axis=1)[:, None] + np.sqrt(squares.sum(axis=1, keepdims=True))
    rounding = DEVIATIONS * UNIT_ROUNDOFF * math.sqrt(matrix.shape[1]) * (norm + np.abs(sums))
    operands = DEVIATIONS * (math.sqrt(2) * norm + SMALLEST_NORMAL * (math.sqrt(matrix.shape[1]) + norms))
    if images.rounding.any():
        rounding += np.abs(matrix) @ columns(images.rounding)
        operands += np.abs(matrix) @ columns(images.operands)
    return Bounded(sums.reshape(shape), rounding.reshape(shape), operands.reshape(shape))


def dense(vectors: Bounded, weights: Array, bias: Array) -> Bounded:
    """Bound a dense layer in float32 of vectors (N, n) with errors. The bound is that of `convolved` with d = 0 here.

    The errors of the vector count as a random walk too: sqrt(sum (w e)^2). A sum of |w| e over 1296 values would accept any
    scores if operands are rounded to 11 bits.
    """
    matrix, bias = weights.T.astype(np.float64), bias.astype(np.float64)
    sums = vectors.value @ matrix + bias
    norm = np.sqrt(vectors.value**2 @ matrix**2 + bias**2)
    rounding = DEVIATIONS * UNIT_ROUNDOFF * math.sqrt(len(matrix) + 1) * (norm + np.abs(sums))
    spread = [np.sqrt(array**2 @ matrix**2) for array in (vectors.rounding, vectors.operands)]
    return Bounded(sums, rounding + spread[0], spread[1])


def bounded_forward(weights: Weights, images: Array) -> dict[str, Bounded]:
    """Return `conv1`, `pool1`, `conv2`, `pool2`, in `network`'s shapes, and `scores` of images (N, 1, 86, 86)."""
    exact = np.zeros_like(images, np.float64)
    conv1 = convolved(Bounded(images.astype(np.float64), exact, exact), weights["conv1"])
    pool1 = conv1.pooled(POOL1)
    conv2 = convolved(pool1, weights["conv2"])
    pool2 = conv2.pooled(POOL2)
    flat = Bounded(*(array.reshape(len(images), -1) for array in pool2))
    hidden = dense(flat, weights["fc1"], weights["fc1_bias"])
    relu = hidden._replace(value=np.maximum(hidden.value, 0))
    scores = dense(relu, weights["fc2"], weights["fc2_bias"])
    return {"conv1": conv1, "pool1": pool1, "conv2": conv2, "pool2": pool2, "scores": scores}


def reference(drawn: Mapping[str, Any]) -> dict[str, Any]:
    """Return the right results for `inputs`, each `Bounded`: maps of the `sampled` images, and scores (batch, 10) of all.

    `variances` holds the variances of the maps' errors, by name.
    """
    x, weights, images = drawn["x"], drawn["weights"], drawn["images"]
    maps = bounded_forward(weights, x[sampled(len(x))])
    unrolled = CONV1.terms * CONV1.side**2
    parts = by_bands(images, unrolled, lambda part: bounded_forward(weights, x[part])["scores"])
    again = np.arange(len(x)) % images
    scores = Bounded(*(np.concatenate(arrays)[again] for arrays in zip(*parts, strict=True)))
    return {**maps, "scores": scores, "variances": variances(drawn, maps)}


def roundoff(options: Mapping[str, Any]) -> float:
    """Return the d of `Bounded.bound` for a variant's options `operand_roundoff` and `rounded_sums`.

    `rounded_sums` is the number n of products that are summed at a time with that roundoff too. Their partial sums stay below
    norm + |s| <= (1 + sqrt(n)) norm (Cauchy), so n roundings come to sqrt(n) (1 + sqrt(n)) norm; rounded operands come to
    sqrt(2) norm.
    """
    d, n = float(options.get("operand_roundoff", 0.0)), int(options.get("rounded_sums", 0))
    return d * (1 + math.sqrt(n) * (1 + math.sqrt(n)) / math.sqrt(2))


class Variance(NamedTuple):
    """Variance of the errors of an output's values, `rounding` + d^2 x `operands`, and the number of the layer's weights."""

    rounding: Array
    operands: Array
    weights: int

    def pooled(self, size: int) -> Variance:
        return Variance(pool(self.rounding, size), pool(self.operands, size), self.weights)


def varied(image_variance: Variance, images: Array, weights: Array) -> Variance:
    """Return the variance of a convolution's errors, for images (N, C, h, w) whose own errors have `image_variance`.

    q = 0.42 is the root mean square of a rounding in unit roundoffs. A sum of n terms passes k/n total on its way, so its
    roundings add up to (q u)^2 n (total^2/3 + norm^2). The factor of norm^2 is 1, since neighbours in an image are alike: their
    sums stray as far from the way as a whole sum of random terms. Rounded operands add 2 (q d norm)^2. The errors of the images
    are multiplied by the squares of the weights.
    """
    matrix = weights.reshape(len(weights), -1).astype(np.float64)
    shape = (len(images), len(weights), *(side - KERNEL + 1 for side in images.shape[2:]))
    unrolled = columns(images.astype(np.float64))
    total, norm = (matrix @ unrolled) ** 2, matrix**2 @ unrolled**2
    rounding = (ROUNDING * UNIT_ROUNDOFF) ** 2 * matrix.shape[1] * (total / 3 + norm)
    operands = 2 * ROUNDING**2 * norm
    rounding += matrix**2 @ columns(image_variance.rounding)
    operands += matrix**2 @ columns(image_variance.operands)
    return Variance(rounding.reshape(shape), operands.reshape(shape), weights.size)


def variances(drawn: Mapping[str, Any], right: Mapping[str, Bounded]) -> dict[str, Variance]:
    """Return the variances of the errors of the `sampled` images' maps, by their names in `right`, from `reference`."""
    images, weights = drawn["x"][sampled(len(drawn["x"]))], drawn["weights"]
    exact = np.zeros(images.shape)
    conv1 = varied(Variance(exact, exact, 0), images, weights["conv1"])
    pool1 = conv1.pooled(POOL1)
    conv2 = varied(pool1, right["pool1"].value, weights["conv2"])
    return {"conv1": conv1, "pool1": pool1, "conv2": conv2, "pool2": conv2.pooled(POOL2)}


def mean_square(out: Array, right: Bounded, varies: Variance, operand_roundoff: float = 0.0) -> float:
    """Return the root mean square error of maps over the allowed one: right if it is <= 1, NaN if `out` holds one.

    All pixels of a map share the rounded weights: the number of independent errors is at most that of the weights.
    """
    expected = np.mean(varies.rounding) + operand_roundoff**2 * np.mean(varies.operands)
    squares = float(np.mean((out - right.value) ** 2))
    return mean_square_over(squares, float(expected), min(varies.weights, out.size))


def root_mean_square_roundoff(options: Mapping[str, Any]) -> float:
    """Return the d of `mean_square` for a variant's options, from the mean squares of sums of n products in random order.

    These mean squares grow evenly, so n roundings come to (n + 1)/2 (q d)^2 of the products' squares; rounded operands come to
    2 (q d)^2.
    """
    d, n = float(options.get("operand_roundoff", 0.0)), int(options.get("rounded_sums", 0))
    return d * math.sqrt(1 + (n + 1) / 4 if n else 1)


def error_over_bound(out: Array, right: Bounded, operand_roundoff: float = 0.0, spread: bool = False) -> float:
    """Return the largest error over its bound: right if it is <= 1, NaN if `out` holds one; 0 / 0 counts as 0.

    With `spread`, all values of an image's maps get the largest of their bounds. The operands may be transformed (FFT,
    Winograd); then rounding errors of some values reach all others, even values that are exactly zero.
    """
    if out.shape != right.value.shape:
        raise ValueError(f"shapes differ: {out.shape} and {right.value.shape}")
    error = np.abs(out - right.value)
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = right.bound(operand_roundoff)
        if spread and bound.ndim == 4:
            bound = bound.max(axis=(1, 2, 3), keepdims=True)
        ratio = error / bound
    return float(np.max(np.where(error == 0, 0, ratio)))
