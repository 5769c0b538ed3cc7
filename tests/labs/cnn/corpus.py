"""Mistakes of students in a convolution layer: taps, bias, windows, tiles, and operands that are too short."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from roofbook.labs.cnn import plans
from roofbook.labs.cnn.problem import blocked, rounded, sequential
from roofbook.spec.plan import Case

from ...mutants import Array, Emulated, Mutant, Outputs

CASE = "3to32ch-32x56-k2"
DEEP = "256to8ch-16x32-k5"
"""Layer with as many channels as the published one."""


def fp16(array: Array) -> Array:
    return array.astype(np.float16).astype(np.float32)


def bf16(array: Array) -> Array:
    return rounded(array, 8)


def cut(array: Array) -> Array:
    """Return values in bf16, by cutting off 16 bits."""
    return (array.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def cut_to(count: int) -> Callable[[Array], Array]:
    """Return a function that cuts values to so many significant bits."""
    return lambda array: (array.view(np.uint32) & np.uint32(0xFFFFFFFF << 24 - count & 0xFFFFFFFF)).view(np.float32)


def lowered(
    x: Callable[[Array], Array] = np.array,
    weight: Callable[[Array], Array] | None = None,
    bias: float = 1.0,
    out: Callable[[Array], Array] = np.array,
    by: Callable[..., Array] = blocked,
) -> Callable[[Case, Mapping[str, Any]], Outputs]:
    """Return a layer whose operands are changed by `x` and `weight` (by `x` alone where that is None), the bias by a factor."""

    def compute(case: Case, inputs: Mapping[str, Any]) -> Outputs:
        operands = x(inputs["x"]), (weight or x)(inputs["weight"])
        sums = by(plans.layer(case), *operands, np.float32(bias) * inputs["bias"])
        return {"out": out(sums).astype(np.float64)}

    return compute


def bits(count: int) -> Callable[[Array], Array]:
    return lambda array: rounded(array, count)


MISTAKES: tuple[Mutant | Emulated, ...] = (
    Mutant("sequential", "sequential.k", "w < WIDTH / 2;", "w < WIDTH / 2 - 1;", "the last column"),
    Mutant("fissioned", "tiled_separate.inc", "h < SUB_H; h += 2", "h < SUB_H - 2; h += 2", "the last rows of a sub-tile"),
    Mutant("fissioned", "tiled_separate.inc", "MAX(0.0f, c[i][h][w])", "c[i][h][w]", "ReLU"),
    Mutant("fissioned", "tiled.k", "#define START_VALUE bias[i0 + i]", "#define START_VALUE 0.0f", "the bias"),
    Mutant("zeroed", "tiled_zeroed.inc", "+= bias[i0 + i]", "+= bias[i0]", "the bias of all filters but the first"),
    Mutant("zeroed-declared", "tiled.k", "#define AT_FIRST = {{{0}}}", "#define AT_FIRST = {{{1}}}",
           "that one number in a declaration sets one element"),
    Mutant("permuted", "tiled_outermost.inc", "j < CHANNELS", "j < CHANNELS - 1", "a channel"),
    Mutant("tiled", "tiled_innermost.inc", "p < TAPS", "p < TAPS - 1", "a row of taps"),
    Mutant("local-tile", "local_tile.k", "k < TILE_H * TILE_W", "k < TILE_H * TILE_W - 1", "the last input of a tile"),
    Mutant("implicit-gemm", "gemm.k", "w0 + column + w + 1 < WIDTH", "w0 + column + w + 2 < WIDTH", "the last column"),
    Mutant("implicit-gemm", "gemm.k", "h0 + row + 1 < HEIGHT", "h0 + row + 2 < HEIGHT", "the last row"),
    Mutant("implicit-gemm", "pack.k", "filter < FILTERS ?", "filter < FILTERS - 1 ?", "the last filter's weights"),
    Mutant("double-buffered", "gemm_two.inc", "if (j + 1 < CHANNELS)", "if (j + 2 < CHANNELS)", "the last channel's arrival"),
    Mutant("vectors", "vectors.k", "if (i0 + i < FILTERS)", "if (i0 + i < FILTERS - 1)", "the last filter"),
    Mutant("warps-fp16", "warps.k", "lane % 4 + k / 2 * 4", "lane % 4", "half of the channels of a product"),
    Mutant("warps-fp16", "warps.k", "row + 1 < HEIGHT", "row + 2 < HEIGHT", "the last row"),
    Mutant("warps-staged", "warps_staged.inc", "column + 1 < COLUMNS)", "column + 2 < COLUMNS)", "the last weights' arrival"),
    Mutant("warps-split", "warps.k", "* SPLIT_SCALE)", ")", "that small parts are scaled"),
    Mutant("tensor-cluster", "pooled.h", "column + 1 < WIDTH", "column + 2 < WIDTH", "the last column"),
    Mutant("tensor-persistent", "tensor_columns.cu", "w0 + q, h0, 0", "w0, h0, 0", "all columns of taps but the first"),
    Mutant("tensor-persistent", "tensor_columns.cu", " + p * PIXEL_ROW", "", "that the taps of a column are rows apart"),
    Mutant("tensor-wide-stores", "pooled_fours.h", "row < HEIGHT / 2", "row + 1 < HEIGHT / 2", "the last row"),
    Mutant("tensor-wide-stores", "pooled_fours.h", "column < WIDTH / 2", "column + 4 < WIDTH / 2", "the last columns"),
    Mutant("tensor-wide-stores", "pooled_fours.h", "if (upper)", "if (!upper)", "which of two trades what"),
    Mutant("tensor-window", "tensor_window.cu", "tap % TAPS * BOX_H + ", "", "that the taps of a row are columns apart"),
    Mutant("tensor-window", "pooled_columns.h", "row < HEIGHT / 2", "row + 1 < HEIGHT / 2", "the last row"),
    Mutant("tensor-window", "pooled_columns.h", "column < WIDTH / 2", "column + 4 < WIDTH / 2", "the last columns"),
    Mutant("tensor-split", "tensor.cu", "c[k] *= 1.0f / SPLIT_SCALE", "c[k] *= 1.0f", "the scale of the small products"),
    Mutant("tensor-tf32", "pack_operands.k", "number.bits + 0x1000u", "number.bits", "to round: bits are cut off",
           case=DEEP),
    Mutant("tensor-split-window", "tensor_split.cu", "fmaf(small[k], 1.0f / SPLIT_SCALE, c[k])", "c[k]", "the small products"),
    Mutant("tensor-split-window", "tensor_split.cu", "c[k] += large[k]", "c[k] = large[k]", "all taps but the last"),
    Mutant("tensor-split-window", "tensor_split.cu", "box + BOX_BYTES + offset", "box + offset", "which part is low"),
    Mutant("sequential", "layer.h", "+ (p)) * TAPS + (q)", "+ (p)) * TAPS + (TAPS - 1 - (q))",
           "that the filter is not flipped"),
    Mutant("sequential", "layer.h", "+ (p)) * TAPS + (q)", "+ (q)) * TAPS + (p)", "that rows of taps come first"),
    Mutant("sequential", "sequential.k", "c[C_AT(i, h, w)] = bias[i];", "c[C_AT(i, h, w)] = 0.0f;", "the bias"),
    Mutant("sequential", "sequential.k", "MAX(c[C_AT(i, h * 2, w * 2 + 1)], c[C_AT(i, h * 2 + 1, w * 2 + 1)])",
           "c[C_AT(i, h * 2, w * 2 + 1)]", "a pixel of each window"),
    Mutant("sequential", "sequential.k", "c[C_AT(i, h, w)] += weight", "c[C_AT(i, h, w)] = weight", "to add up"),
    Mutant("tiled", "tiled_fused.inc", "c[i][h + 1][w + 1] + bias[i0 + i]", "c[i][h + 1][w + 1]",
           "the bias of a pixel of each window"),
    Mutant("tiled", "tiled_fused.inc", "MAX(0.0f, MAX(upper, lower))", "MAX(upper, lower)", "ReLU"),
    Mutant("fissioned", "tiled_separate.inc", "MAX(0.0f, c[i][h][w])", "MAX(0.001f * c[i][h][w], c[i][h][w])",
           "that the ReLU is not leaky"),
    Mutant("fissioned", "tiled_outermost.inc", "x[X_AT(j, h0 + h + p, w0 + w + q)]", "x[X_AT(j, h0 + h + q, w0 + w + p)]",
           "which tap goes down"),
    Mutant("global-id", "sub_tile.h", "GLOBAL_ID(d) * sub\n", "GLOBAL_ID(d) * sub - (LOCAL_ID(d) > 0)\n",
           "where a sub-tile begins"),
    Mutant("tiled", "sub_tile.h", "GROUP_ID(d) * LOCAL_SIZE(d) * sub + LOCAL_ID(d) * sub",
           "GROUP_ID(d) * LOCAL_SIZE(d) * sub", "which work-item it is"),
    Mutant("implicit-gemm", "plans.py", "self.queue.launch(self.pack, self.packing, (256,), self.weight, self.packed)",
           "self.queue.launch(self.pack, (256,), (256,), self.weight, self.packed)",
           "all weights but the first to be packed"),
    Mutant("vectors", "plans.py", "one.height // 2, ceil_div", "one.height // 2 - 1, ceil_div", "the last rows of the range"),
    Mutant("amx-bf16", "amx_bf16.k", "j < CHANNELS && w < X_ROW", "w < X_ROW", "channels that are not there"),
    Mutant("amx-bf16", "amx_bf16.k", "h + p + 1, 0", "h + p, 0", "the second row of outputs"),
    Mutant("amx-bf16", "amx_bf16.k", "+ (float16)(bias[filter])", "", "the bias"),
    Mutant("bf16-dots", "bf16_dots.k", "first[PLANE + k]) << 16", "first[k]) << 16", "which channel"),
    Mutant("bf16-dots", "bf16_dots.k", "h0 + p, w0 + q", "h0 + q, w0 + p", "that rows of taps come first"),
    Mutant("bf16-dots", "bf16.h", "bits + 0x7fff + (bits >> 16 & 1) >> 16", "bits >> 16", "that operands are rounded"),
    Mutant("bf16-dots", "bf16_dots.py", "tile[\"TILES_H\"] * tile[\"TILES_W\"]", "tile[\"TILES_H\"]",
           "the right tiles of the map"),
    Mutant("four-rows", "four_rows.k", "in1 = in2;", "in1 = in3;", "which row comes next"),
    Mutant("four-rows", "four_rows.k", "for (int k = 0; w0 / 2 + k < WIDTH / 2; k++)",
           "for (int k = 0; w0 / 2 + k < WIDTH / 2 - 1; k++)", "columns that no vector divides", case="3to5ch-7x34-k3"),
    Mutant("four-rows", "four_rows.py", "ceil_div(self.layer.height // 2 * 2, 4)", "self.layer.height // 4",
           "rows that four does not divide", case="3to5ch-7x34-k3"),
    Mutant("fissioned", "plans.py", "return self.x, self.weight, self.bias, self.out\n",
           "return self.x, self.weight, self.weight, self.out\n", "which buffer is the bias"),
    Mutant("tiled", "tiled_innermost.inc", "j < CHANNELS", "j < CHANNELS / 4 * 4", "channels that four does not divide",
           case="16ch-16x28-k5"),
    Mutant("implicit-gemm", "gemm_multiply.inc", "k < 8; k++) upper[k]", "k < 7; k++) upper[k]",
           "an input that only five columns of taps need"),
    Mutant("four-rows", "four_rows.k", "row < HEIGHT / 2", "row <= HEIGHT / 2", "where a map ends"),
    Mutant("local-tile", "local_tile.k", "h + p) * TILE_W", "h + p) * TILE_H", "how long a row of the tile is"),
    Mutant("implicit-gemm", "pack.k", "at / TILE % TERMS", "at % TERMS", "in which order weights lie"),
    Mutant("implicit-gemm", "plans.py", 'ceil_div(one.width, tile["TILE_W"])', 'one.width // tile["TILE_W"]', "the last tile"),
    Mutant("vectors", "plans.py", '(ceil_div(one.filters, self.constants["TILE_I"]), one.height',
           '(one.filters // self.constants["TILE_I"], one.height', "the last filters", case="3to5ch-7x34-k3"),
    Mutant("vectors", "vectors.k", "if (i0 + i < FILTERS)", "if (i0 + i < FILTERS && GLOBAL_ID(1) != 3)", "one pair of rows"),
    Mutant("vectors", "vectors.k", "WIDTH / 2 * 2 - 32)", "WIDTH / 2 * 2 - 34)", "the last columns"),
    Mutant("fissioned", "layer.h", "#define X_ROW (WIDTH + TAPS - 1)", "#define X_ROW (HEIGHT + TAPS - 1)",
           "how long a row of the input is"),
    Mutant("sequential", "sequential.k", "MAX(0.0f, c[C_AT(i, h, w)])", "MAX(0.0f, c[C_AT(i, h, w)]) + 1e-4f",
           "that nothing is added to all"),
    Emulated("tensor-bf16", lowered(bf16, bias=0), lowered(bf16), "the bias"),
    Emulated("tensor-bf16", lowered(bf16, bias=0), lowered(bf16), "the bias of a deep layer", case=DEEP),
    Emulated("tensor-fp16", lowered(fp16, bias=0), lowered(fp16), "the bias", case=DEEP),
    Emulated("torch-bf16", lowered(bf16, bias=0, out=bf16), lowered(bf16, out=bf16), "the bias"),
    Emulated("tensor-bf16", lowered(cut), lowered(bf16), "to round: bits are cut off"),
    Emulated("tensor-fp16", lowered(bf16), lowered(fp16), "that fp16 has more digits than bf16"),
    Emulated("tensor-fp16", lowered(fp16, bf16), lowered(fp16), "that weights have as many digits as inputs", case=DEEP),
    Emulated("tensor-fp16", lowered(bits(10)), lowered(fp16), "a bit of both operands"),
    Emulated("tensor-tf32", lowered(bf16), lowered(bits(11)), "that TF32 has more digits than bf16"),
    Emulated("tensor-tf32", lowered(cut_to(11)), lowered(bits(11)), "to round: bits are cut off", case=DEEP),
    Emulated("tensor-split-window", lowered(fp16), lowered(bits(22)), "the small parts", case=DEEP),
    Emulated("tensor-split", lowered(fp16), lowered(bits(22)), "the small parts"),
    Emulated("tensor-split", lowered(np.array, fp16), lowered(bits(22)), "the small parts of the weights", case=DEEP),
    Emulated("fissioned", lowered(bits(17)), lowered(), "that float32 has 24 bits, not 17"),
    Emulated("fissioned", lowered(bits(17), by=sequential), lowered(by=sequential), "24 bits in a deep layer", case=DEEP),
    Emulated("tiled", lowered(bits(18)), lowered(), "that float32 has 24 bits, not 18"),
    Emulated("sequential", lowered(bits(11)), lowered(by=sequential), "that TF32 is no float32"),
)  # fmt: skip
"""All mistakes; the last text of each names the thing forgotten or confused."""
