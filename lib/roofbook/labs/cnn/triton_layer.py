"""The layer in Triton: an implicit matrix product over taps and channels, then bias, ReLU and pool.

A program computes BLOCK_I filters of WINDOWS windows of the pool. The four pixels of a window are neighbouring rows of its
product.
"""

import triton
import triton.language as tl


@triton.jit
def layer(
    pixels, taps, bias, out, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, FILTERS: tl.constexpr,
    PADDED: tl.constexpr, TAPS: tl.constexpr, SPLIT: tl.constexpr, WINDOWS: tl.constexpr, BLOCK_I: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    COLUMNS: tl.constexpr = WIDTH + TAPS - 1
    LOW_PIXELS: tl.constexpr = (HEIGHT + TAPS - 1) * COLUMNS * CHANNELS
    LOW_TAPS: tl.constexpr = TAPS * TAPS * PADDED * CHANNELS
    ALL: tl.constexpr = HEIGHT // 2 * (WIDTH // 2)
    row, first = tl.arange(0, 4 * WINDOWS), tl.program_id(1) * WINDOWS
    window = tl.minimum(first + row // 4, ALL - 1)
    pixel = (window // (WIDTH // 2) * 2 + row % 4 // 2) * COLUMNS + window % (WIDTH // 2) * 2 + row % 2
    i, k = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I), tl.arange(0, BLOCK_K)
    sums = tl.zeros((4 * WINDOWS, BLOCK_I), tl.float32)
    small = tl.zeros((4 * WINDOWS, BLOCK_I), tl.float32)
    for step in range(TAPS * TAPS * (CHANNELS // BLOCK_K)):
        tap, channel = step // (CHANNELS // BLOCK_K), step % (CHANNELS // BLOCK_K) * BLOCK_K
        shifted = (pixel + tap // TAPS * COLUMNS + tap % TAPS) * CHANNELS + channel
        a = pixels + shifted[:, None] + k[None, :]
        b = taps + ((tap * PADDED + i) * CHANNELS + channel)[None, :] + k[:, None]
        high_a, high_b = tl.load(a), tl.load(b)
        if SPLIT:
            small = tl.dot(tl.load(a + LOW_PIXELS), high_b, small)
            small = tl.dot(high_a, tl.load(b + LOW_TAPS), small)
        sums = tl.dot(high_a, high_b, sums)
    largest = tl.max(tl.reshape(sums + small, (WINDOWS, 4, BLOCK_I)), 1)
    pooled, at = tl.maximum(largest + tl.load(bias + i, i < FILTERS)[None, :], 0), first + tl.arange(0, WINDOWS)
    tl.store(out + i[None, :] * ALL + at[:, None], pooled, (at < ALL)[:, None] & (i < FILTERS)[None, :])
