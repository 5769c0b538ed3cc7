"""The layer in Triton: all products in int8 with exact sums in int32, as an implicit matrix product; then ReLU and pool.

A program computes BLOCK_I filters of WINDOWS windows of the pool. The four pixels of a window are neighbouring rows of its
product.
"""

import triton
import triton.language as tl


@triton.jit
def layer(
    pixels, taps, out, SIZE: tl.constexpr, CHANNELS: tl.constexpr, FILTERS: tl.constexpr, PADDED: tl.constexpr,
    TAPS: tl.constexpr, WINDOWS: tl.constexpr, BLOCK_I: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    COLUMNS: tl.constexpr = SIZE + TAPS - 1
    ACROSS: tl.constexpr = SIZE // 2
    ALL: tl.constexpr = ACROSS * ACROSS
    row, first = tl.arange(0, 4 * WINDOWS), tl.program_id(1) * WINDOWS
    window = tl.minimum(first + row // 4, ALL - 1)
    pixel = (window // ACROSS * 2 + row % 4 // 2) * COLUMNS + window % ACROSS * 2 + row % 2
    i, k = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I), tl.arange(0, BLOCK_K)
    sums = tl.zeros((4 * WINDOWS, BLOCK_I), tl.int32)
    for step in range(TAPS * TAPS * (CHANNELS // BLOCK_K)):
        tap, channel = step // (CHANNELS // BLOCK_K), step % (CHANNELS // BLOCK_K) * BLOCK_K
        shifted = (pixel + tap // TAPS * COLUMNS + tap % TAPS) * CHANNELS + channel
        a = tl.load(pixels + shifted[:, None] + k[None, :])
        b = tl.load(taps + ((tap * PADDED + i) * CHANNELS + channel)[None, :] + k[:, None])
        sums = tl.dot(a, b, sums, out_dtype=tl.int32)
    pooled, at = tl.maximum(tl.max(tl.reshape(sums, (WINDOWS, 4, BLOCK_I)), 1), 0), first + tl.arange(0, WINDOWS)
    tl.store(out + i[None, :] * ALL + at[:, None], pooled, (at < ALL)[:, None] & (i < FILTERS)[None, :])
