"""Mistakes of students in the network: batches, segments, edges of maps, and operands that are too short."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from roofbook.labs.cnn.problem import rounded
from roofbook.labs.lenet import network
from roofbook.labs.lenet.problem import sampled
from roofbook.spec.plan import Case

from ...mutants import Array, Emulated, Mutant, Outputs

CASE = "batch-3"


def fp16(array: Array) -> Array:
    return array.astype(np.float16).astype(np.float32)


def bits(count: int) -> Callable[[Array], Array]:
    return lambda array: rounded(array.astype(np.float32), count)


def in_halves(images: Array, weights: Array, rows: int = 1) -> Array:
    """Return a convolution of fp16 operands, in which so many rows of seven taps are summed in fp16."""
    operands, windows = fp16(weights.reshape(len(weights), -1)), network.columns(fp16(images))
    sums = np.zeros((len(images), len(weights), windows.shape[2]), np.float32)
    for first in range(0, operands.shape[1], 7 * rows):
        part = np.zeros(sums.shape, np.float16)
        for k in range(first, min(first + 7 * rows, operands.shape[1])):
            part = (part + operands[:, k, None].astype(np.float64) * windows[:, None, k]).astype(np.float16)
        sums += part
    side = images.shape[2] - network.KERNEL + 1
    return sums.reshape(len(images), len(weights), side, side)


def network_of(
    first: Callable[[Array], Array],
    second: Callable[[Array], Array] | None = None,
    convolve: Callable[[Array, Array], Array] = network.convolve,
) -> Callable[[Case, Mapping[str, Any]], Outputs]:
    """Return a network whose two convolutions have operands changed by `first` and `second`: pooled maps and scores."""

    def compute(case: Case, inputs: Mapping[str, Any]) -> Outputs:
        weights = {name: array.astype(np.float64) for name, array in inputs["weights"].items()}
        maps, outputs = inputs["x"].astype(np.float32), {}
        for layer, lowered, size in (("1", first, network.POOL1), ("2", second or first, network.POOL2)):
            convolved = convolve(lowered(maps), lowered(inputs["weights"][f"conv{layer}"]))
            maps = network.pool(np.maximum(convolved, 0), size).astype(np.float32)
            outputs[f"pool{layer}"] = maps[sampled(len(maps))]
        hidden = np.maximum(maps.reshape(len(maps), -1) @ weights["fc1"].T + weights["fc1_bias"], 0)
        return {**outputs, "scores": hidden @ weights["fc2"].T + weights["fc2_bias"]}

    return compute


def rows(count: int) -> Callable[[Array, Array], Array]:
    return lambda images, weights: in_halves(images, weights, count)


MISTAKES: tuple[Mutant | Emulated, ...] = (
    Mutant("linear", "linear.k", "at < count * OUTPUTS", "at < count * OUTPUTS - 1", "the last output of the batch"),
    Mutant("linear", "linear.k", "image = first + at / OUTPUTS", "image = first", "which image an output is of"),
    Mutant("linear", "linear.k", "m = at / PIXELS % FILTERS", "m = at / OUT % FILTERS", "which filter an output is of"),
    Mutant("linear", "linear.k", "h = at / OUT % OUT", "h = at / PIXELS % OUT", "which row an output is of"),
    Mutant("linear", "linear.k", "(CHANNELS - 1)", "(CHANNELS - 2)", "the last channel"),
    Mutant("linear", "reported.py", "wide * ceil_div(count * layer.y_values, wide)", "count * layer.y_values // wide * wide",
           "to round the number of groups up"),
    Mutant("linear-atomic", "linear.k", "ATOMIC_ADD(pointer, sum)", "*(pointer) = (sum)", "to add"),
    Mutant("linear-atomic", "linear.k", "#define FIRST_CHANNEL LOCAL_ID(1)", "#define FIRST_CHANNEL 0", "its own channel"),
    Mutant("linear-atomic", "reported.py", "self.clear(layer, y, 0, self.batch)\n        return super().through",
           "pass\n        return super().through", "to begin with zero"),
    Mutant("linear-atomic", "reported.py", "self.clear(layer, y, 0, self.batch)\n        return super().op_time",
           "return super().op_time", "to begin with zero each time"),
    Mutant("tiled-halo", "tiled_halo.k", "const int h = row + i * TILE_WIDTH, w = column + j * TILE_WIDTH;\n        tile",
           "const int h = row + i * TILE_WIDTH, w = column;\n        tile", "the right half of the input"),
    Mutant("tiled-halo", "tiled_halo.k", "h0 + h < SIZE", "h0 + h < SIZE - 1", "the last row of the input"),
    Mutant("tiled-halo", "tiled_halo.k", "row < TILE_WIDTH && column", "row < TILE_WIDTH - 1 && column",
           "a row of those that compute"),
    Mutant("tiled-halo-constant", "tiled_halo.k", "column + j * TILE_WIDTH + q", "column + q", "the outputs on the right"),
    Mutant("tiled-halo-constant", "tiled_halo.k", "((c) - FIRST_CHANNEL) * HALO", "0 * HALO", "where a channel lies"),
    Mutant("tiled-halo-atomic", "tiled_halo.k", "h < OUT && w < OUT", "h < OUT && w < OUT - 1", "the last column"),
    Mutant("tiled-halo-atomic", "reported.py", "layer.channels if self.atomic else 1", "1", "groups for all channels"),
    Mutant("rotating-linear", "reported.py", "range(len(parts) + 2)", "range(len(parts) + 1)", "the last copy out",
           options={"segment": 2}),
    Mutant("rotating-halo", "reported.py", "queue.receive(y, y_host[first:last], offset=first * y_host[0].nbytes)",
           "queue.receive(y, y_host[first:last])", "where a segment lies on the device", options={"segment": 2}),
    Mutant("baseline", "direct.k", "w < OUT", "w < OUT - 1", "the last column"),
    Mutant("baseline", "direct.k", "p < TAPS", "p < TAPS - 1", "the last row of taps"),
    Mutant("baseline", "channels.h", "(CHANNELS - 1)", "(CHANNELS - 2)", "the last channel"),
    Mutant("constant", "layer.h", "((m) * CHANNELS + (c)) * TAPS", "((m) * CHANNELS) * TAPS", "which channel a weight is of"),
    Mutant("atomic-channels", "clear.h", "= 0.0f", "+= 0.0f", "to begin with zero"),
    Mutant("atomic-channels", "channels.h", "ATOMIC_ADD(pointer, sum)", "*(pointer) = (sum)", "to add"),
    Mutant("tiled", "tiled.k", "h0 + h < SIZE", "h0 + h < SIZE - 1", "the last row of the input"),
    Mutant("tiled-constant", "tiled.k", "row + i * TILE_WIDTH + p", "row + p", "the lower outputs"),
    Mutant("tiled-atomic", "tiled.k", "h < OUT", "h < OUT - 1", "the last row"),
    Mutant("unrolled", "unroll.h", "x[X_AT(first + image", "x[X_AT(image", "where the mini-batch begins",
           options={"minibatch": 2}),
    Mutant("unrolled-constant", "multiply.k", "y[((first + image)", "y[((image)", "where the mini-batch goes",
           options={"minibatch": 2}),
    Mutant("unrolled-constant", "multiply.k", "k0 < ROWS", "k0 + SIDE < ROWS", "the last rows of the matrix",
           options={"minibatch": 2}),
    Mutant("fused-constant", "fused.k", "k0 + column < ROWS", "k0 + column + 1 < ROWS", "the last weight"),
    Mutant("fused-constant", "fused.k", "m < FILTERS && pixel", "m < FILTERS - 1 && pixel", "the last filter"),
    Mutant("joint", "joint.k", "k < ROWS && pixel", "k + 1 < ROWS && pixel", "the last row"),
    Mutant("joint", "joint.k", "if (m0 + u < FILTERS)", "if (m0 + u < FILTERS - 1)", "the last filter"),
    Mutant("joint", "joint.k", "if (pixel < PIXELS) {", "if (pixel < PIXELS - 1) {", "the last pixel"),
    Mutant("joint", "joint.k", "if (pixel < PIXELS) {", "if (pixel < PIXELS && image != 17) {",
           "an image that is not sampled", case="batch-40"),
    Mutant("constant", "direct.k", "RESULT(y", "if (image == 17) sum *= 1.1f; RESULT(y",
           "to be exact in an image not sampled", case="batch-40"),
    Mutant("registers", "registers.k", "top + line, w)]);", "(top + line) % (SIZE - 1), w)]);", "the last row of inputs"),
    Mutant("registers", "registers.k", "= WEIGHT(k);", "= k < ROWS * OPERANDS - 1 ? WEIGHT(k) : 0.0f;", "the last weight"),
    Mutant("registers", "registers.k", "image = first + GROUP_ID(1), top = GROUP_ID(0)",
           "image = first + GROUP_ID(1), top = 0", "its band"),
    Mutant("registers", "registers.k", "c < CHANNELS;", "c < (CHANNELS + 1) / 2;", "half of the channels"),
    Mutant("registers", "registers_single.inc", "q < TAPS", "q < TAPS - 1", "the last column of taps"),
    Mutant("registers", "registers_maps.inc", "h0 + r < OUT", "h0 + r < OUT - 1", "the last row"),
    Mutant("fused-pool", "registers_pooled.inc", "h0 + r < OUT &&", "h0 + r < OUT - 1 &&",
           "the last row of a window at the edge"),
    Mutant("fused-pool", "registers_pooled.inc", "w < POOLED_SIDE", "w < POOLED_SIDE - 1", "the window at the edge"),
    Mutant("fused-pool", "registers_pooled.inc", "largest = 0.0f", "largest = -1e30f", "ReLU"),
    Mutant("fused-pool", "registers_pooled.inc", "k < k0 + POOL", "k < k0 + POOL - 1", "the last column of a window"),
    Mutant("winograd", "winograd_factors.inc", "/ 400.0f", "/ 400.1f", "the fourth digit of the points' squares"),
    Mutant("winograd", "winograd.k", "FMA(POINT(POINT_A), minus_a", "FMA(POINT(POINT_B), minus_a",
           "which point a sum belongs to"),
    Mutant("winograd", "winograd_factors.inc", "q < TAPS; q++", "q < TAPS - 1; q++", "the last tap of a row"),
    Mutant("winograd", "winograd.k", "FMA(q1, d[3], FMA(q2, d[5], d[7]))", "FMA(q1, d[3], q2 * d[5])", "an input of a row"),
    Mutant("winograd", "winograd.py", "(point, -point)", "(-point, point)", "which of two points is negative"),
    Mutant("winograd", "winograd_one_channel.inc", "p < TAPS; p++", "p < TAPS - 1; p++", "the last row of taps"),
    Mutant("winograd", "winograd_one_channel.inc", "column < count * TILES", "column < count * TILES - 1", "the last tile"),
    Mutant("winograd", "winograd_one_channel.inc", "MAX(MAX(largest.y, out[2]), out[3])", "MAX(largest.y, out[2])",
           "the last column of a window"),
    Mutant("winograd", "winograd_four_channels.inc", "c < CHANNELS; c++", "c < CHANNELS - 1; c++", "the last channel"),
    Mutant("winograd", "winograd_four_channels.inc", "window - window0 + (column - column0) * FOLLOWING", "window - window0",
           "the rows between columns"),
    Mutant("winograd", "winograd_four_channels.inc", "r < OUT && w", "r < OUT + 1 && w", "that a window ends at the edge"),
    Mutant("winograd", "winograd_four_channels.inc", "window0 + own < windows", "window0 + own < windows - 1",
           "the last window"),
    Mutant("winograd", "winograd_four_channels.inc", "first + column / TILES, c, h, w", "first, c, h, w",
           "which image an input is of"),
    Mutant("vectors", "vectors.k", "image < first + count", "image < first + count - 1", "the last image"),
    Mutant("vectors", "vectors_columns.inc", "AT(v) (16 * (v) < OUT - 16 ? 16 * (v) : OUT - 16)",
           "AT(v) (16 * (v) < OUT - 16 ? 16 * (v) : OUT - 17)", "the last column"),
    Mutant("vectors", "vectors_columns.inc", "sum3_##v += w3 * input##v", "sum3_##v += w2 * input##v",
           "which filter a weight is of"),
    Mutant("vectors", "vectors_columns.inc", "w += TAPS", "w += TAPS - 1", "where a row of taps begins"),
    Mutant("filter-lanes", "vectors_filters.inc", "INPUT(22) P(16, 6)", "INPUT(22) P(16, 5)", "which tap it is"),
    Mutant("filter-lanes", "vectors_filters.inc", "INPUT(7) P(7, 0) P(6, 1)", "INPUT(7) P(7, 0)", "one product of a row"),
    Mutant("filter-lanes", "vectors.k", "weights[m * ROWS + k]", "weights[m * ROWS + k / TAPS * TAPS]",
           "the columns of taps"),
    Mutant("filter-lanes", "vectors_filters_maps.inc", "int k = OUT / 16 * 16", "int k = OUT / 16 * 16 + 1",
           "a column behind the last vector"),
    Mutant("filter-lanes", "transpose.h", "high.odd = (b).hi", "high.odd = (b).lo", "half of the transposed rows"),
    Mutant("pooled-vectors", "vectors_filters.inc", "row[w] = (float16)(0.0f)", "row[w] = (float16)(-1e30f)", "ReLU"),
    Mutant("pooled-vectors", "vectors_filters_pooled.inc", " || h == OUT - 1", "", "the row of windows at the edge"),
    Mutant("pooled-vectors", "vectors_columns.inc", "LARGER(of_column.even, of_column.odd)", "of_column.even",
           "a pixel of each window"),
    Mutant("pooled-vectors", "vectors_columns.inc", "LARGER(most, (float8)(0.0f))", "most", "ReLU of layer 1"),
    Mutant("pooled-vectors", "vectors.py", '"POOL": layer.pool', '"POOL": 4', "which window layer 1 has"),
    Mutant("winograd-vectors", "winograd_vectors.k", "d[7] + q2 * d[5] + q1 * d[3]", "d[7] + q2 * d[5]", "an input of a row"),
    Mutant("winograd-vectors", "winograd_vectors.k", "LESSER(k0, QUARTER - 16)", "LESSER(k0, QUARTER - 17)",
           "the last numbers of layer 1's image"),
    Mutant("winograd-vectors", "winograd_vectors.k", "CUBE(POINT_C) * minus[5]", "CUBE(POINT_C) * plus[5]",
           "which sign a negative point's power has"),
    Mutant("winograd-vectors", "winograd_vectors.k", "image < first + count", "image < first + count - 1", "the last image"),
    Mutant("winograd-vectors", "winograd_vectors_one_channel.inc", "TILES - 16", "TILES - 17", "the last tile of a row"),
    Mutant("winograd-vectors", "winograd_vectors_one_channel.inc", "l % 2 * PARITY", "0", "which rows are odd"),
    Mutant("winograd-vectors", "winograd_vectors_one_channel.inc", "lower += factor * lines[p + 1]",
           "lower += factor * lines[p]", "the second row of a window"),
    Mutant("winograd-vectors", "winograd_vectors_one_channel.inc", "left = ZERO", "left = (float16)(-1e30f)",
           "ReLU in every second window of layer 1"),
    Mutant("winograd-vectors", "winograd_vectors_four_channels.inc", "c < CHANNELS; c++", "c < CHANNELS - 1; c++",
           "the last channel"),
    Mutant("winograd-vectors", "winograd_vectors_four_channels.inc", "LESSER(POOL, OUT - h)", "POOL / 2",
           "the lower half of a window"),
    Mutant("winograd-vectors", "winograd_vectors_four_channels.inc", "if (w * TILE + j < OUT) ", "",
           "that a window ends at the edge"),
    Mutant("winograd-vectors", "winograd_vectors_four_channels.inc", "windows[w] = ZERO", "windows[w] = (float16)(-1e30f)",
           "ReLU of layer 2"),
    Mutant("halves", "registers_halves.inc", "q == 0 ? 0 : part[k]", "0", "to add products"),
    Mutant("halves", "registers_halves.inc", "sums[f + 1][r][k] += second_half", "sums[f + 1][r][k] += first_half",
           "the second filter"),
    Mutant("tensor", "tensor_one_channel.inc", "q + 1 < TAPS ?", "q + 2 < TAPS ?", "the last column of layer 1's taps"),
    Mutant("tensor", "tensor_one_channel.inc", "two_halves(two.x, two.y)", "two_halves(two.x, 0.0f)",
           "every second input of layer 1"),
    Mutant("warps", "warps_one_channel.inc", "q + 1 < TAPS ?", "q + 2 < TAPS ?", "the last column of layer 1's taps"),
    Mutant("warps-ahead", "warps.k", "(image) + GROUPS(0) <", "(image) + 2 * GROUPS(0) <", "the last images"),
    Mutant("warps", "warps_four_channels.inc", "column < OUT)", "column < OUT - 1)", "the last column of layer 2"),
    Mutant("tensor", "tensor_four_channels.inc", "column < OUT)", "column < OUT - 1)", "the last column of layer 2"),
    Mutant("tensor", "tensor_four_channels.inc", "q < TAPS ?", "q < TAPS - 1 ?", "the last column of layer 2's taps"),
    Mutant("warpgroup", "warpgroup.h", "k == 0 || lane < SIZE_1 / 2 - 32", "k == 0", "where a row of pixels ends"),
    Mutant("warpgroup", "warpgroup.h", "step / 2 - m / 4 % 2, q", "step / 2, q", "the lower outputs of layer 2"),
    Mutant("warpgroup", "warpgroup.h", "window % 10 == 8 ? left", "window % 10 == 7 ? left", "the window at the edge"),
    Mutant("split", "warpgroup.h", "steps / CHAINS * (chain + 1)", "steps / CHAINS * (chain + 1) - 1", "a step of each sum"),
    Mutant("split", "warpgroup.h", "fmaf(c[k], 1.0f / SPLIT_SCALE, high[k])", "high[k]", "the low parts"),
    Mutant("split-producer", "producer.cu", "low[step], b + inputs(step) / 16",
           "high[step], b + inputs(step) / 16", "the low parts of the weights"),
    Mutant("split-producer", "producer.cu", "chunk * (CHUNK_ROWS / 2) + i < SIZE_1 / 2", "i < CHUNK_ROWS / 2 - 1",
           "the last rows of what is fetched"),
    Mutant("split-producer", "producer.cu", "across < OUT_1 / 8", "across < OUT_1 / 8 - 1", "the last columns of a row"),
    Mutant("split-boxes", "producer.cu", "odd ? right : left", "odd ? left : right", "which column is written first"),
    Mutant("split-boxes", "producer.py", "2 * row, row, row * layer.side", "row, row, row * layer.side",
           "that a box has every other row"),
    Mutant("split-pool", "warpgroup.cu", "j / 3 * 2 * POOLED_1", "j / 3 * POOLED_1", "which row of layer 1 it is"),
    Mutant("whole-fused", "warpgroup_whole.cu", "image < count; image", "image < count - 1; image", "the last image"),
    Mutant("whole-fused", "warpgroup_whole.cu", "j / 3 % 2 * 2 * REMAINDER_2", "0", "which row of layer 2's input it is"),
    Mutant("whole-roles", "roles_convolutions.h", "windows.edges >> j & 1 ? left : fmaxf(left, right)", "fmaxf(left, right)",
           "the window at the edge"),
    Mutant("whole-roles", "roles_dense.h", "k < VALUES; k += step", "k < VALUES - 16; k += step",
           "the last of the pooled values"),
    Mutant("whole-roles", "roles_weights.h", "q - 1 + i", "q + i", "which column of taps it is"),
    Mutant("whole", "dense.k", "chunk < VALUES;", "chunk < VALUES - CHUNK;", "the last of the pooled values"),
    Mutant("whole", "dense.k", "sum < 0.0f ? 0.0f : sum", "sum", "ReLU between the dense layers"),
    Mutant("whole", "dense.k", "sums[i] + fc1_bias[o + i]", "sums[i]", "a bias"),
    Mutant("whole", "dense.k", "first + image < count", "first + image < count - 1", "the last image"),
    Mutant("baseline", "rest.k", "h < h0 + POOL && h < SIDE", "h < h0 + POOL && h < SIDE - 1", "the last row of the pool"),
    Mutant("baseline", "rest.k", "sum < 0.0f ? 0.0f : sum", "sum", "ReLU between the dense layers"),
    Mutant("baseline", "rest.k", "fc2_bias[lane]", "0.0f", "the other bias"),
    Mutant("baseline", "layer.h", "+ (p)) * TAPS + (q)", "+ (TAPS - 1 - (p))) * TAPS + (TAPS - 1 - (q))",
           "that the kernel is not flipped"),
    Mutant("baseline", "direct.k", "h + p, w + q", "h + q, w + p", "which tap goes down"),
    Mutant("constant", "direct.k", "image = first + GROUP_ID(2)", "image = first + GROUP_ID(2) / 2 * 2",
           "every second image"),
    Mutant("constant", "rest.k", "largest = 0.0f", "largest = -1.0f", "that ReLU starts from zero"),
    Mutant("whole", "dense.k", "0.0f : sum", "0.01f * sum : sum", "that ReLU is not leaky"),
    Mutant("baseline", "forward.py", "ceil_div(layer.side, self.side) ** 2, count",
           "ceil_div(layer.side, self.side) ** 2, count - 1", "the last image of a batch"),
    Mutant("joint", "forward.py", "width * ceil_div(layer.side**2, pixels)", "width * (layer.side**2 // pixels)",
           "to round the number of groups up"),
    Mutant("streams", "streams.py", "min(first + self.segment, self.batch)", "min(first + self.segment, self.batch - 1)",
           "the last image of the last segment", options={"segment": 3}),
    Mutant("streams", "streams.py", "queue.send(x, x_host[first:last], offset=first * x_host[0].nbytes)",
           "queue.send(x, x_host[first:last], offset=0)", "where a segment lies on the device"),
    Mutant("linear", "linear.k", "at / PIXELS % FILTERS", "at / PIXELS % (FILTERS - 1)", "the last filter"),
    Mutant("unrolled", "multiply.k", "k0 + row < ROWS", "k0 + row < ROWS - 1", "the last row of the matrix"),
    Mutant("joint", "joint.k", "q = k % TAPS", "q = k % (TAPS - 1)", "the last column of taps"),
    Mutant("tiled-halo", "tiled_halo.k", "h0 + h < SIZE", "h0 + h < SIZE - 1", "the last row of an image, dark in most"),
    Mutant("baseline", "direct.k", "w < OUT)", "w < OUT - 1)", "the last column"),
    Mutant("constant", "direct.k", "x[X_AT(image, c, h + p, w + q)]", "x[X_AT(image, c, h + p, w + q - (w + q == SIZE - 1))]",
           "the last column of an image, dark in most"),
    Emulated("tensor", network_of(bits(8)), network_of(fp16), "that fp16 has more digits than bf16"),
    Emulated("tensor", network_of(fp16, bits(8)), network_of(fp16), "digits of layer 2"),
    Emulated("halves", network_of(np.array, convolve=rows(7)), network_of(np.array, convolve=rows(1)),
             "to add each row in fp32"),
    Emulated("fused-pool", network_of(bits(17)), network_of(np.array), "that float32 has 24 bits, not 17"),
    Emulated("winograd", network_of(bits(17)), network_of(np.array), "that float32 has 24 bits, not 17, in Winograd's sums"),
    Emulated("winograd-vectors", network_of(bits(17)), network_of(np.array),
             "that float32 has 24 bits, not 17, in Winograd's sums on vectors"),
    Emulated("whole", network_of(np.array, fp16), network_of(np.array), "that fp16 is no float32, in layer 2"),
)  # fmt: skip
"""All mistakes; the last text of each names the thing forgotten or confused."""
