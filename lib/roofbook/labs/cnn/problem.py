"""The convolution layer in NumPy: sizes, seeded inputs, float64 reference, tolerances, and the course's own check.

out = maxpool2x2(ReLU(bias + conv(x))) in fp32, channels first; every variant and peer of the lab is compared with `reference`.
The convolution is a cross-correlation over an input that is already padded; the pool has stride 2 and drops an odd last
row or column.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError, one_of
from ...spec.bands import by_bands
from ...spec.rounding import CLEARANCE, DEVIATIONS, ROUNDING, TRANSFORMS_CLEARANCE, mean_square_over

Array = NDArray[np.floating]
Shape = tuple[int, ...]
T = TypeVar("T")

UNIT_ROUNDOFF = 2.0**-24  # for float32

_NAME = re.compile(r"([0-9]{1,9})(?:to([0-9]{1,9}))?ch-([0-9]{1,9})x([0-9]{1,9})-k([0-9]{1,9})")


@dataclass(frozen=True)
class Layer:
    """The sizes of a layer; height and width are those of the convolution's output. Raises UsageError."""

    channels: int
    filters: int
    height: int
    width: int
    kernel: int

    def __post_init__(self) -> None:
        for name, least in (("channels", 1), ("filters", 1), ("height", 2), ("width", 2), ("kernel", 1)):
            if getattr(self, name) < least:
                raise UsageError(f"{name} of a layer must be {least} or more, not {getattr(self, name)}")
        for name in ("x", "weight", "conv"):
            shape = getattr(self, f"{name}_shape")
            if math.prod(shape) >= 2**31:
                sizes = "x".join(map(str, shape))
                raise UsageError(f"{name} of a layer must have below 2**31 values (32-bit indices), not {sizes}")

    @classmethod
    def named(cls, text: str) -> Layer:
        """Return the layer with a `name`. Raises UsageError.

        >>> Layer.named("3to8ch-7x9-k3")
        Layer(channels=3, filters=8, height=7, width=9, kernel=3)
        """
        match = _NAME.fullmatch(text)
        if match is None:
            quoted = repr(text if len(text) <= 40 else text[:37] + "...")
            raise UsageError(f"unknown layer {quoted}; valid: names such as 256ch-224x224-k5 or 3to8ch-7x9-k3")
        channels, filters, height, width, kernel = match.groups()
        return cls(int(channels), int(filters or channels), int(height), int(width), int(kernel))

    @property
    def name(self) -> str:
        """The layer's name: `256ch-224x224-k5`, or `3to8ch-7x9-k3` if the numbers of channels and filters differ."""
        filters = "" if self.filters == self.channels else f"to{self.filters}"
        return f"{self.channels}{filters}ch-{self.height}x{self.width}-k{self.kernel}"

    @property
    def x_shape(self) -> Shape:
        """Shape of the padded input."""
        return self.channels, self.height + self.kernel - 1, self.width + self.kernel - 1

    @property
    def weight_shape(self) -> Shape:
        return self.filters, self.channels, self.kernel, self.kernel

    @property
    def bias_shape(self) -> Shape:
        return (self.filters,)

    @property
    def conv_shape(self) -> Shape:
        return self.filters, self.height, self.width

    @property
    def out_shape(self) -> Shape:
        return self.filters, self.height // 2, self.width // 2

    @property
    def terms(self) -> int:
        """Number of products in the sum of one output of the convolution."""
        return self.channels * self.kernel**2

    @property
    def flops(self) -> int:
        """Operations of the convolution alone, counted as in published rates: two for each product."""
        return 2 * self.terms * math.prod(self.conv_shape)

    @property
    def bytes(self) -> int:
        """Bytes of input, weights, bias and output in fp32, each once."""
        return 4 * sum(map(math.prod, (self.x_shape, self.weight_shape, self.bias_shape, self.out_shape)))


def inputs(layer: Layer, seed: int, distribution: str = "normal") -> dict[str, NDArray[np.float32]]:
    """Draw `x`, `weight` and `bias` in the layer's shapes. "normal" is N(0, 1); "uniform" is U[0, 1), the course's."""
    generator = np.random.default_rng(seed)
    if distribution not in ("normal", "uniform"):
        raise one_of("distribution", distribution, ["normal", "uniform"])
    draw = generator.standard_normal if distribution == "normal" else generator.random
    shapes = {"x": layer.x_shape, "weight": layer.weight_shape, "bias": layer.bias_shape}
    return {name: draw(shape, dtype=np.float32) for name, shape in shapes.items()}


def _columns(x: Array, kernel: int) -> Array:
    """Unfold x (C, h+k-1, w+k-1) to the operands of each output of the convolution: (C*k*k, h*w)."""
    height, width = x.shape[1] - kernel + 1, x.shape[2] - kernel + 1
    shifted: Array = np.lib.stride_tricks.sliding_window_view(x, (height, width), axis=(1, 2))
    return shifted.reshape(-1, height * width)


def _pooled(values: Array) -> Array:
    """Return the largest value of each 2x2 window: (O, h, w) -> (O, h//2, w//2)."""
    height, width = values.shape[1] // 2, values.shape[2] // 2
    windows = values[:, : 2 * height, : 2 * width].reshape(-1, height, 2, width, 2)
    largest: Array = windows.max(axis=(2, 4))
    return largest


def reference(layer: Layer, x: Array, weight: Array, bias: Array) -> dict[str, NDArray[np.float64]]:
    """Return the right `out`, and the `norm` and `total` that `bound` needs: float64 of `layer.out_shape`.

    With s = bias + w.x of one output of the convolution, `norm` is the largest sqrt(bias^2 + sum (w x)^2) in the window
    of the pool, and `total` the largest |s|. Each pooled row takes two matrix products: of the operands, and of their squares.
    """
    x, bias = x.astype(np.float64), bias[:, None].astype(np.float64)
    matrix = weight.reshape(layer.filters, -1).astype(np.float64)
    squared = matrix**2
    arrays = {name: np.empty(layer.out_shape) for name in ("out", "norm", "total")}
    for row in range(layer.height // 2):
        columns = _columns(x[:, 2 * row : 2 * row + layer.kernel + 1], layer.kernel)
        sums = matrix @ columns + bias
        norms = np.sqrt(squared @ columns**2 + bias**2)
        for name, values in (("out", np.maximum(sums, 0)), ("norm", norms), ("total", np.abs(sums))):
            arrays[name][:, row] = _pooled(values.reshape(layer.filters, 2, layer.width))[:, 0]
    return arrays


# -- error of a float32 result -----------------------------------------------------------------------------------------


def bound(layer: Layer, reference: Mapping[str, Array], operand_roundoff: float = 0.0) -> NDArray[np.float64]:
    """Return the bound of |out - reference| for each output: 8 (u sqrt(n) (norm + total) + sqrt(2) d norm).

    Here u = 2**-24 and n = C k k + 1.

    The first term is for float32 sums of n terms in any order. The second adds operands that were rounded to nearest with
    unit roundoff d = `operand_roundoff` (TF32, fp16: 2**-11; bf16: 2**-8). ReLU and maximum enlarge no error, so the
    largest bound in a window of the pool is that of its output.

    The bound that never fails, n u sum |w x|, is no use: at n = 6400 TF32 operands stay more than ten times below it.
    Instead, rounding errors behave like independent random variables of mean zero, and add up as a random walk (Higham
    and Mary, A New Approach to Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41, 2019). A sum takes n
    roundings, each of at most u times a partial sum; partial sums of terms in random order grow to `total` and stray
    from the way there by `norm`: hence u sqrt(n) (norm + total). Rounded operands perturb each product by two errors of
    at most d |w x|: hence sqrt(2) d norm. By Hoeffding's inequality a walk ends beyond 8 of these with a probability of
    at most 2 exp(-32), 3e-14 an output. Float32 sums come to 0.2 of the bound; TF32 operands to 10 and more on N(0, 1).

    Inputs of one sign make it a weak test: `total` grows with n, the error of rounded operands with sqrt(n) only, and at
    n = 6400 TF32 passes as fp32. Truncation, of operands or in an accumulator, errs to one side and may lie beyond.
    """
    rounding = UNIT_ROUNDOFF * math.sqrt(layer.terms + 1) * (reference["norm"] + reference["total"])
    return DEVIATIONS * (rounding + math.sqrt(2) * operand_roundoff * reference["norm"])


def _by_filters(out: Array, reference: Mapping[str, Array], work: Callable[[Array, Mapping[str, Array]], T]) -> list[T]:
    """Call `work` with the outputs and reference of some filters at a time, on all cores, and return all its results."""
    if out.shape != reference["out"].shape:
        raise ValueError(f"shapes differ: {out.shape} and {reference['out'].shape}")

    def work_on(filters: slice) -> T:
        with np.errstate(divide="ignore", invalid="ignore"):
            return work(out[filters], {name: array[filters] for name, array in reference.items()})

    return by_bands(len(out), out[0].size, work_on)


def error_over_bound(out: Array, reference: Mapping[str, Array], layer: Layer, operand_roundoff: float = 0.0) -> float:
    """Return the largest |out - reference| / `bound`: right if it is <= 1, NaN if out holds one; 0 / 0 counts as 0."""

    def largest(out: Array, reference: Mapping[str, Array]) -> float:
        error = np.abs(out - reference["out"])
        ratio = error / bound(layer, reference, operand_roundoff)
        return float(np.max(np.where(error == 0, 0, ratio)))

    return float(np.max(_by_filters(out, reference, largest)))


class Arithmetic(NamedTuple):
    """The properties of a variant's arithmetic that its errors depend on."""

    operand_roundoff: float = 0.0
    result_roundoff: float = 0.0
    """Unit roundoff of outputs that are rounded to a short type too; 0 for float32."""
    truncated: bool = False
    """Whether sums are cut off instead of rounded, as on tensor cores."""
    clearance: float = 1.0
    """Allowed error over that of our own loops."""

    @classmethod
    def of(cls, options: Mapping[str, object], dtype: str, peer: bool) -> Arithmetic:
        """Return the arithmetic of a variant with these options and type of operands.

        peer: whether it is a library. Option `transformed`: Winograd's algorithm, whose sums of transformed operands are larger
        than their result, so that they round away more of it.
        """
        operand = float(str(options.get("operand_roundoff", 0.0)))
        result = operand if options.get("precision") in ("fp16", "bf16") else 0.0
        transforms = peer or bool(options.get("transformed"))
        return cls(operand, result, dtype != "float32", TRANSFORMS_CLEARANCE if transforms else 1.0)


def deviations(layer: Layer, reference: Mapping[str, Array], by: Arithmetic) -> tuple[Array, Array]:
    """Return (standard deviation of each output's rounding errors, largest error that goes one way).

    q = 0.42 is the root mean square of a rounding in unit roundoffs. A sum of n terms in random order passes the partial
    sum k/n total + a bridge of variance k/n (1 - k/n) norm^2, so its roundings add up to (q u)^2 n (total^2/3 + norm^2/6).
    Two rounded operands of each product add 2 (q d norm)^2, a rounded result (q r total)^2. Tensor cores add 16 products at
    once to a sum and cut off the digits beyond float32: n/16 times u total at most, always towards zero.
    """
    n, norm, total = layer.terms + 1, reference["norm"], reference["total"]
    sums = UNIT_ROUNDOFF**2 * n * (total**2 / 3 + norm**2 / 6)
    rounded_off = 2 * (by.operand_roundoff * norm) ** 2 + (by.result_roundoff * total) ** 2
    cut = UNIT_ROUNDOFF * n / 16 * total if by.truncated else 0 * total
    return ROUNDING * np.sqrt(sums + rounded_off), cut


def mean_square(out: Array, reference: Mapping[str, Array], layer: Layer, by: Arithmetic) -> float:
    """Return the root mean square error of the outputs over the allowed one: right if it is <= 1.

    It detects small errors in all outputs, such as operands of 17 bits in a step that claims float32. Outputs that are 0
    are left out. Many outputs share each rounded operand, so the number of independent errors is at most that of operands.
    """

    def sums(out: Array, reference: Mapping[str, Array]) -> tuple[int, float, float]:
        live = reference["out"] > 0
        deviation, cut = (array[live] for array in deviations(layer, reference, by))
        error = out[live] - reference["out"][live]
        return error.size, float(np.sum(error**2)), float(np.sum((deviation + cut) ** 2))

    live, squares, expected = map(sum, zip(*_by_filters(out, reference, sums), strict=True))
    if not live:
        return 0.0
    independent = min(live, math.prod(layer.weight_shape), math.prod(layer.x_shape))
    return mean_square_over(squares / live, expected / live, independent) / by.clearance


def mean_of_filters(out: Array, reference: Mapping[str, Array], layer: Layer, by: Arithmetic) -> float:
    """Return the largest |mean error| of a filter's outputs over the allowed one: right if it is <= 1.

    It detects errors that go one way in a whole filter, such as a forgotten bias, however coarse the operands are.
    Independent errors of N outputs average to deviation / sqrt(N). The errors depend on each other in two ways. An input is in
    at most w^2 windows of the pool, w = k // 2 + 1, which multiplies the variance by w^2 at most (Cauchy-Schwarz). And all
    outputs share the n weights: outputs are large where inputs resemble the weights, and there the errors of the weights do
    not average out, which adds 3/n of the variance for normal weights.
    """

    def largest(out: Array, reference: Mapping[str, Array]) -> float:
        live = reference["out"] > 0
        count = np.maximum(live.sum(axis=(1, 2)), 1)
        error = np.where(live, out - reference["out"], 0).sum(axis=(1, 2)) / count
        deviation, cut = deviations(layer, reference, by)
        variance = np.where(live, deviation**2, 0).sum(axis=(1, 2)) / count
        together = (layer.kernel // 2 + 1) ** 2 / count + 3 / layer.terms
        one_way = np.where(live, cut, 0).sum(axis=(1, 2)) / count
        allowed = by.clearance * (CLEARANCE * one_way + DEVIATIONS * np.sqrt(variance * together))
        return float(np.max(np.where(error == 0, 0, np.abs(error) / allowed)))

    return float(np.max(_by_filters(out, reference, largest)))


def course_wrong(out: Array, reference: Array) -> int:
    """Return the number of outputs that the course's check calls wrong: |(a-b)/(a+b)| > 1e-3 and |a-b| > 0.05, or NaN."""

    def wrong(out: Array, right: Mapping[str, Array]) -> int:
        difference = np.abs(out - right["out"])
        accepted = (difference <= 0.05) | (difference / np.abs(out + right["out"]) <= 1e-3)
        return int(np.count_nonzero(~accepted))

    return sum(_by_filters(out, {"out": reference}, wrong))


# -- results that the checks accept ------------------------------------------------------------------------------------


def rounded(array: Array, bits: int) -> Array:
    """Round the significand of float32 values to `bits` bits, to nearest, ties to even: TF32 has 11, bf16 8.

    >>> rounded(np.float32([1 + 2**-8, 1 + 3 * 2**-8]), 8).tolist()
    [1.0, 1.015625]
    """
    significand, exponent = np.frexp(array)
    return np.ldexp(np.ldexp(np.rint(np.ldexp(significand, bits)), -bits), exponent)


class Outcome(NamedTuple):
    """The verdicts of both checks on one way to compute a layer. `rms` is the rms error over the rms of the right result."""

    inputs: str
    computed: str
    rms: float
    course_wrong: int
    outputs: int
    passes_course: bool
    error_over_bound: float
    passes_bound: bool


def sequential(layer: Layer, x: Array, weight: Array, bias: Array) -> Array:
    """Compute the layer in the precision of its inputs, each output's products added to its bias one after another."""
    columns, matrix = _columns(x, layer.kernel), weight.reshape(layer.filters, -1)
    sums = np.repeat(bias[:, None], columns.shape[1], axis=1)
    for term, column in enumerate(columns):
        sums += matrix[:, term, None] * column
    return _pooled(np.maximum(sums, 0).reshape(layer.conv_shape))


def blocked(layer: Layer, x: Array, weight: Array, bias: Array) -> Array:
    """Compute the layer in the precision of its inputs by the library's matrix product, which keeps many partial sums."""
    sums = weight.reshape(layer.filters, -1) @ _columns(x, layer.kernel) + bias[:, None]
    return _pooled(np.maximum(sums, 0).reshape(layer.conv_shape))


def _attempts(layer: Layer, x: Array, weight: Array, bias: Array) -> Iterator[tuple[str, Array]]:
    """Yield the results of right and wrong ways to compute the layer, with their names."""
    yield "fp32, one term after another", sequential(layer, x, weight, bias)
    yield "fp32, matrix product", blocked(layer, x, weight, bias)
    for precision, lowered in (
        ("TF32", lambda array: rounded(array, 11)),
        ("fp16", lambda array: array.astype(np.float16).astype(np.float32)),
        ("bf16", lambda array: rounded(array, 8)),
    ):
        yield f"{precision} operands", blocked(layer, lowered(x), lowered(weight), bias)
    forgotten = weight.copy()
    forgotten[:, layer.channels // 2] = 0
    yield "one input channel forgotten", blocked(layer, x, forgotten, bias)
    forgotten = weight.copy()
    forgotten[:, :, 0, -1] = 0
    yield "one tap of the kernel forgotten", blocked(layer, x, forgotten, bias)
    yield "bias forgotten", blocked(layer, x, weight, 0 * bias)
    broken = blocked(layer, x, weight, bias)
    broken[0, 0, 0] = np.nan
    yield "one NaN", broken


def check_outcomes() -> list[Outcome]:
    """Return the verdicts of the course's check and of `bound` for fp32 on right and wrong results of a small layer."""
    layer = Layer(channels=256, filters=16, height=16, width=16, kernel=5)
    outcomes = []
    for distribution, description in (("uniform", "U[0, 1)"), ("normal", "N(0, 1)")):
        drawn = inputs(layer, 0, distribution)
        right = reference(layer, **drawn)
        for computed, out in _attempts(layer, **drawn):
            rms = float(np.sqrt(np.mean((out - right["out"]) ** 2) / np.mean(right["out"] ** 2)))
            wrong, ratio = course_wrong(out, right["out"]), error_over_bound(out, right, layer)
            outcomes.append(Outcome(description, computed, rms, wrong, out.size, wrong == 0, ratio, ratio <= 1))
    return outcomes
