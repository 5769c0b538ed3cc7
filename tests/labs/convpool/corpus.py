"""Mistakes of students in a sparse convolution: lists, signs, chunks, and values that take more than a byte."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from roofbook.labs.convpool import plans
from roofbook.labs.convpool.problem import reference
from roofbook.spec.plan import Case

from ...mutants import Array, Emulated, Mutant, Outputs

CASE = "4x5x10x10-k3-w0-x0"


def computed(
    weight: Callable[[Array], Array] = np.array, out: Callable[[Array], Array] = np.array
) -> Callable[[Case, Mapping[str, Any]], Outputs]:
    """Return a layer whose weights and outputs are changed by these functions."""

    def compute(case: Case, inputs: Mapping[str, Any]) -> Outputs:
        pooled = reference(plans.layer(case), inputs["x"], weight(inputs["weight"]).astype(np.int16))
        return {"out": out(pooled["out"])}

    return compute


def of_short_sums(out: Array) -> Array:
    return out.astype(np.int16).astype(np.int32)


def bf16(out: Array) -> Array:
    """Return values rounded to bf16's 8 bits."""
    significand, exponent = np.frexp(out.astype(np.float64))
    rounded: Array = np.ldexp(np.rint(significand * 256) / 256, exponent)
    return rounded


MISTAKES: tuple[Mutant | Emulated, ...] = (
    Mutant("sequential", "sequential.k", "j < DEPTH", "j < DEPTH - 1", "the last channel"),
    Mutant("row-groups", "dense.k", "j < DEPTH", "j < DEPTH - 1", "the last channel"),
    Mutant("filter-groups", "dense.k", "p < TAPS", "p < TAPS - 1", "the last row of taps"),
    Mutant("filter-groups", "dense_separate.inc", "LARGER(sum, 0)", "sum", "ReLU"),
    Mutant("atomic-pool", "dense_atomic.inc", "h / 2 < SIZE / 2", "h / 2 < SIZE / 2 - 1", "the last row of windows"),
    Mutant("shared-index", "dense_shared.inc", "same[1] = WEIGHT_AT(FILTER", "same[1] = WEIGHT_AT(0", "whose filter it is"),
    Mutant("lists", "lists.k", "if (value)", "if (value > 0)", "negative weights"),
    Mutant("lists", "lists_direct.inc", "turn + k < DEPTH", "turn + k < DEPTH - 1", "the last channel of a turn"),
    Mutant("input-in-local", "lists_staged.inc", " + places[n]", "", "where a weight lies"),
    Mutant("images", "lists_image.inc", ", turn + k)", ", turn)", "whose channel it is"),
    Mutant("line-image", "lists_line.inc", "X_AT(turn + k,", "X_AT(turn,", "whose channel it is"),
    Mutant("built-lists", "built.k", "lower1 += value * x[from + X_ROW + 1]", "lower1 += 0", "a pixel of each window"),
    Mutant("built-lists", "weight_lists.h", "if (value)", "if (value > 0)", "negative weights"),
    Mutant("vectors", "vectors.k", "count += value != 0", "count += value > 0", "negative weights"),
    Mutant("vectors", "vectors.k", "tap / TAPS) * X_ROW", "tap / TAPS)", "which row of taps it is"),
    Mutant("vectors", "vectors.k", "LARGER(right##r, right##below)", "right##r", "a row of each window", case="2x3x40x40-k3"),
    Mutant("vectors", "vectors.k", "(SIZE - w) / 2)", "(SIZE - w) / 2 - 1)", "the last window of a row"),
    Mutant("vectors", "vectors.k", "EACH_PAIR(DO) DO(0, 1) DO(2, 3) DO(4, 5) DO(6, 7)",
           "EACH_PAIR(DO) DO(0, 1) DO(2, 3) DO(4, 5)", "a row of windows"),
    Mutant("vectors", "vectors.k", "const int value = next[tap]", "const int value = (char)next[tap]",
           "that weights have 16 bits"),
    Mutant("cached-channels", "vectors.k", "chunk > 0 ? ends[f][chunk - 1] : 0", "0", "where a turn of channels begins",
           case="2x80x32x32-k3"),
    Mutant("cached-channels", "vectors.k", "LOAD(r) left##r = kept[2 * r];", "LOAD(r) left##r = (int16)(0);",
           "sums of the turns before", case="2x80x32x32-k3"),
    Mutant("cached-channels", "vectors.py", "(ceil_div(one.filters, self.together),)", "(one.filters // self.together,)",
           "the last filters", case="97x2x10x10-k3"),
    Mutant("strips", "strips.k", "h < X_ROW && w + k < X_ROW", "h < X_ROW && w + k < X_ROW - 2", "the last column"),
    Mutant("strips", "strips.k", "8 | (value & 255)", "8 | (value & 127)", "the sign of a weight"),
    Mutant("strips", "strips.k", "other = 1; other < PARTS", "other = 2; other < PARTS", "a part of the lists"),
    Mutant("strips", "strips.k", "LARGER(sum[from + 4], sum[from + 5])", "0", "a row of each window"),
    Mutant("both-sparse", "both.k", "value = x[", "value = 0 * x[", "the inputs"),
    Mutant("both-sparse", "both.k", "if (value)", "if (value > 0)", "negative inputs"),
    Mutant("both-sparse", "both.k", "part = 0; part < PARTS", "part = 1; part < PARTS", "a part of the channels"),
    Mutant("both-sparse", "both.k", "sum[3] += maps[from + X_ROW + 1]", "sum[3] += 0", "a pixel of each window"),
    Mutant("tiles", "tiles.k", "other = 1; other < PARTS", "other = 2; other < PARTS", "what another part added up"),
    Mutant("tiles", "tiles.k", "((line - r) * TAPS + q) * TILE_I", "(line - r) * TAPS * TILE_I",
           "which column of taps it is"),
    Mutant("tiles", "tiles.k", "(int)MAX(right, 0.0f)", "(int)right", "ReLU of every second window"),
    Mutant("tensor-int8", "tensor.cu", "step < STEPS; step += PARTS", "step < STEPS - 1; step += PARTS", "the last tap"),
    Mutant("tensor-int8", "tensor.cu", "(tile[j + b][column] & 255u) << 8 * b", "(tile[j][column] & 255u) << 8 * b",
           "which channel"),
    Mutant("tensor-int8", "tensor.cu", "LARGER(LARGER(upper, lower), 0)", "upper", "a row of each window"),
    Mutant("warps-int8", "warps.k", "part < CHUNKS;", "part < CHUNKS - 1;", "the last channels"),
    Mutant("warps-int8", "warps.k", "c[i][n][3] = 0;", "c[i][n][3] = 1;", "that sums begin with 0"),
    Mutant("vnni", "vnni.k", "(value & 255u) << 8 * b", "(value & 127u) << 8 * b", "the sign of a weight"),
    Mutant("vnni", "vnni.k", "= -128 * sum", "= -127 * sum", "that 128 is in each pixel"),
    Mutant("vnni", "vnni.k", "h0 + p, w0 + q", "h0 + q, w0 + p", "that rows of taps come first"),
    Mutant("vnni", "vnni.py", "tile[\"TILES_H\"] * tile[\"TILES_W\"]", "tile[\"TILES_H\"]", "the right tiles of the map"),
    Mutant("amx", "amx.k", "j < DEPTH && w < X_ROW ?", "w < X_ROW ?", "channels that are not there"),
    Mutant("amx", "amx.k", "h + p + 1, 0", "h + p, 0", "the second row of outputs"),
    Mutant("amx", "amx.k", "tile + 1, block", "tile, block", "the second tile of filters"),
    Mutant("amx", "amx.k", "TILE_ZERO(3)", "", "what a tile held before"),
    Mutant("vnni-lists", "vnni_lists.k", "for (; count % 4; count++) {\n      list[count] = 0;\n      own[count] = 0;\n    }",
           "count = count / 4 * 4;", "the last entries of a list"),
    Mutant("vnni-lists", "vnni_lists.k", "chunk > 0 ? ends[i * CHUNKS + chunk - 1] : 0", "0", "where a turn of channels begins",
           case="2x80x32x32-k3"),
    Mutant("vnni-lists", "vnni_lists.k", "k / 4 * 64 + k % 4 * 4", "k * 16", "which positions a vector of sums has"),
    Mutant("vnni-lists", "vnni_lists.k", "LARGER(lower[2 * w], lower[2 * w + 1])", "lower[2 * w]", "a pixel of each window"),
    Mutant("vnni-lists", "vnni.py", "(ceil_div(one.filters, self.together),)", "(one.filters // self.together,)",
           "the last filters", case="97x2x10x10-k3"),
    Mutant("tensor-window", "tensor_window.cu", "tap / TAPS * SIDE + tap % TAPS", "tap % TAPS", "which row of taps it is"),
    Mutant("tensor-window", "tensor_window.cu", "tile[(j + b) * TAPS_2 + tap]", "tile[j * TAPS_2 + tap]", "which channel"),
    Mutant("tensor-window", "tensor_window.cu", "LARGER(sums[4], sums[5])", "0", "a row of each window"),
    Mutant("tensor-split-k", "tensor_split_k.cu", "tap / TAPS * SIDE_W + tap % TAPS", "tap % TAPS",
           "which row of taps it is"),
    Mutant("tensor-split-k", "tensor_split_k.cu", "own[0] + upper.x", "own[0]", "sums of the other channels"),
    Mutant("tensor-split-k", "weight_tiles.inc", "swizzled_128b(line, j)", "j", "that tiles are swizzled"),
    Mutant("tensor-split-k", "tile_product.inc", "%64, %65, 1;", "%64, %65, 0;", "the products before the last"),
    Mutant("tensor-parts", "tensor_parts.cu", "tap / TAPS * BOX_W + tap % TAPS", "tap % TAPS", "a part's first row of taps"),
    Mutant("tensor-parts", "tensor_parts.cu", "across = 0, b += (BOX_W - TAPS) * BOX_LINE", "across = 0", "rows of taps"),
    Mutant("tensor-parts", "tensor_parts.cu", "k < (PARTS - 1) * OWN", "k < 0", "sums of the other parts"),
    Mutant("tensor-parts", "tensor_parts.cu", "swizzled_128b(line, j)", "j", "that boxes are swizzled"),
    Mutant("sequential", "sequential.k", "+= weight[WEIGHT_AT(i, j, p, q)]", "+= (char)weight[WEIGHT_AT(i, j, p, q)]",
           "that weights have 16 bits"),
    Mutant("unrolled", "dense.k", "sum += READ(weight, first + (j * TAPS + p) * TAPS + q)",
           "sum += (char)READ(weight, first + (j * TAPS + p) * TAPS + q)", "that weights have 16 bits"),
    Mutant("lists", "lists.k", "const int value = weight", "const int value = (char)weight", "that weights have 16 bits"),
    Mutant("built-lists", "weight_lists.h", "const int value = weight", "const int value = (char)weight",
           "that weights have 16 bits"),
    Mutant("tiles", "tiles.k", "i < FILTERS ? weight[", "i < FILTERS ? (char)weight[", "that weights have 16 bits"),
    Mutant("filter-groups", "pool.k", "LARGER(conv[CONV_AT(i, h + 1, w)], conv[CONV_AT(i, h + 1, w + 1)])",
           "conv[CONV_AT(i, h + 1, w)]", "a pixel of each window"),
    Mutant("filter-groups", "dense.k", "(j * TAPS + p) * TAPS + q)", "(j * TAPS + q) * TAPS + p)",
           "that rows of taps come first"),
    Mutant("atomic-pool", "plans.py", "self.out if self.atomic else self.conv\n", "self.conv\n",
           "which buffer the pool is in"),
    Mutant("tiles", "plans.py", "self.group[0] * across * down", "self.group[0] * across", "the lower tiles of the range"),
    Mutant("built-lists", "plans.py", "windows = (self.layer.size // 2) ** 2", "windows = (self.layer.size // 2 - 1) ** 2",
           "the last windows: groups are too few", case="2x3x18x18-k3"),
    Mutant("sequential", "plans.py", 'padded = np.pad(inputs["x"], ((0, 0), (border, border), (border, border)))',
           'padded = np.pad(inputs["x"], ((0, 0), (0, 2 * border), (0, 2 * border)))', "that the border is on all sides"),
    Mutant("lists", "lists_direct.inc", "n < k * TAPS * TAPS + counts[k]", "n < k * TAPS * TAPS + (counts[k] > 0)",
           "all but the first entry of a list"),
    Mutant("lists", "lists_direct.inc", "TAPS * TAPS + counts[k]", "TAPS * TAPS + counts[0]", "whose length it is"),
    Mutant("built-lists", "built.k", "count = counts[slice]", "count = counts[slice + 1]",
           "that it is not the next one's length"),
    Mutant("built-lists", "built.k", "count = counts[slice]", "count = counts[i * DEPTH]",
           "that a filter's channels differ in length"),
    Mutant("built-lists", "built.k", "count = counts[slice]", "count = LARGER(counts[slice], 1)", "that a list may be empty"),
    Mutant("both-sparse", "both.k", "length = lengths[j]", "length = lengths[0]", "that channels differ in length"),
    Mutant("both-sparse", "both.k", "count = counts[slice]", "count = counts[0]", "that lists differ in length"),
    Mutant("cached-channels", "vectors.k", "e < ends[f][chunk];", "e < ends[0][chunk];", "whose list ends there"),
    Mutant("unrolled", "dense.k", "X_AT(j, h + p, w + q)", "X_AT(j, h + p, w + TAPS - 1 - q)",
           "that filters are not flipped"),
    Mutant("filter-groups", "layer.h", "((i) * SIZE + (h)) * SIZE + (w)", "((i) * (SIZE - 1) + (h)) * SIZE + (w)",
           "a row between two maps"),
    Mutant("filter-groups", "pool.k", "if (at < OUTPUTS) {\n    const", "if (at <= OUTPUTS) {\n    const",
           "that a work-item behind the last has nothing to do"),
    Mutant("built-lists", "weight_lists.h", "slice < FILTERS * DEPTH", "slice <= FILTERS * DEPTH",
           "that there is no slice behind the last"),
    Mutant("tiles", "tiles.k", "if (column + 1 < SIZE / 2)", "if (column < SIZE / 2)", "that a pair of windows may be cut"),
    Mutant("sequential", "sequential.k", "CONV_AT(i, 2 * h + 1, 2 * w)", "CONV_AT(i, 2 * h, 2 * w)",
           "a pixel of each window"),
    Emulated("tensor-int8", computed(np.abs), computed(), "that bytes have a sign"),
    Emulated("tensor-window", computed(lambda weight: weight >> 1 << 1), computed(), "the lowest bit of a weight"),
    Emulated("tensor-split-k", computed(out=lambda out: out >> 1), computed(), "one of the two halves"),
    Emulated("tensor-int8", computed(out=of_short_sums), computed(), "that sums take 32 bits",
             case="4x64x10x10-k3-w0-x0"),
    Emulated("torch-bf16", computed(out=lambda out: bf16(0.99 * out)), computed(out=bf16), "a hundredth of each output"),
)  # fmt: skip
"""All mistakes; the last text of each names the thing forgotten or confused."""
