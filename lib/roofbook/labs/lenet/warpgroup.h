// Both convolutions as products of a warpgroup (wgmma, m64n96k16), with operands in shared memory.
//
// The 64 rows of a product are filters by neighbouring outputs: 4 filters by 2 rows by 8 columns in layer 1, 16 by 2 by 2 in layer 2.
// Rows for the outputs of one filter have its taps at different positions among zeros. The 96 columns are places on the image,
// 16 bytes each: 8 pixels of one channel, or 2 pixels of four channels. Neighbouring columns share inputs, so their operands
// overlap, and nothing is unrolled: without swizzle wgmma takes columns that are 16 bytes apart, and its two pieces of 8 numbers at
// any distance (`leading`), here 16 bytes as well. Piece p of column n is place n + p:
//
//   shared memory, 16 bytes each   0  1  2  3  4  5  6  7  8  9 ...
//   column 0                       0  1
//   column 1                          0  1
//   column 2                             0  1                      a step takes 16 numbers of one row of the input
//
// The rows of a product cover two rows of outputs. So the rows of the input are grouped by their remainder: after the last place of a
// row comes the first place two rows down (four rows in layer 2, whose windows are four high). A row has PITCH bytes; the columns
// after its last output are computed and dropped.
//
// Knob CHAINS: sums of products of a tile that the tensor cores build. They cut off each addition towards zero, so a shorter
//              sum is more exact; the sums are added in fp32, rounded to nearest.
#pragma once
#ifndef CHAINS
#define CHAINS 1
#endif
#include "half_products.h"
#include "hopper.h"
#define COLUMNS 96
#define ACROSS 12
#define POOLED_1 (OUT_1 / 2)
#define PITCH_1 (ACROSS * 16)
#define REMAINDER_1 (SIZE_1 / 2 * PITCH_1)
#define PIXELS_1 (2 * REMAINDER_1 + 128)
#define CHANNELS_2 4
#define FILTERS_2 16
#define SIZE_2 40
#define OUT_2 34
#define STEPS_2 16
#define PITCH_2 (SIZE_2 * CHANNELS_2 * 2)
#define REMAINDER_2 (SIZE_2 / 4 * PITCH_2)
#define PIXELS_2 (4 * REMAINDER_2 + 256)
#define POOLED_2 9
#define COLUMNS_2 (PITCH_2 / 16)
#define WEIGHTS_1 (PARTS * STEPS_1 * STEP_BYTES)
#define WEIGHTS_2 (PARTS * STEPS_2 * STEP_BYTES)

// c (64 x 96, spread over a warpgroup) += a (64 x 16) times transposed b (96 x 16), or = if `first`; a and b lie in shared memory.
DEVICE void product(float (&c)[48], unsigned long long a, unsigned long long b, int first) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.eq.b32 add, %50, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47}, %48, %49, add, 1, 1, 0, 0;\n}"
      : SUMS_16(IN_FLOATS, 0), SUMS_16(IN_FLOATS, 16), SUMS_16(IN_FLOATS, 32)
      : "l"(a), "l"(b), "r"(first));
}

// Included here, not above `product`: the order of the text is part of the identity of recorded rows.
#include "warpgroup_operands.h"

// Lays out the weights of layer 2. A step is half a row of the input: 4 pixels with their channels.
DEVICE void load_weights_2(char *to, const float *RESTRICT weights) {
#pragma unroll 4
  for (int at = threadIdx.x; at < STEPS_2 * 1024; at += WARPGROUPS * 128) {
    const int step = at / 1024, m = at / 16 % 64, k = at % 16;
    const int filter = m / 16 * 4 + m % 4, p = step / 2 - m / 4 % 2, q = step % 2 * 4 + k / 4 - m / 8 % 2;
    const int known = p >= 0 && p < TAPS && q >= 0 && q < TAPS;
    const float weight = known ? weights[((filter * CHANNELS_2 + k % 4) * TAPS + p) * TAPS + q] : 0.0f;
    store_parts(to + weight_place(step, m, k), weight, STEPS_2 * STEP_BYTES);
  }
}

// Return the offset of a step's inputs from those of the tile's first output: row step, or step / 2 from row 2 * odd on.
DEVICE constexpr int inputs_1(int step) { return step % 2 * REMAINDER_1 + step / 2 * PITCH_1; }
DEVICE constexpr int inputs_2(int step, int odd) {
  return (2 * odd + step / 2) % 4 * REMAINDER_2 + (2 * odd + step / 2) / 4 * PITCH_2 + step % 2 * 32;
}

// c = the outputs of a tile of layer 1 or 2; `pixels` is its first column. odd: layer 2's odd pairs of rows.
template <int Layer>
DEVICE void multiply(float (&c)[48], const char *weights, const char *pixels, int odd) {
  constexpr int steps = Layer == 1 ? STEPS_1 : STEPS_2;
  const unsigned long long a = plain_descriptor(weights, 128, 256), b = plain_descriptor(pixels, 16, 128);
#define WEIGHTS_OF(step) (a + (step) * (STEP_BYTES / 16))
#define INPUTS_OF(step) (b + (Layer == 1 ? inputs_1(step) : odd ? inputs_2(step, 1) : inputs_2(step, 0)) / 16)
  wgmma_begin();
#if PARTS == 1
#pragma unroll
  for (int step = 0; step < steps; step++) product(c, WEIGHTS_OF(step), INPUTS_OF(step), step == 0);
  wgmma_commit();
  wgmma_wait_all();
#else
  constexpr int LOW_WEIGHTS = steps, LOW_INPUTS = (Layer == 1 ? PIXELS_1 : PIXELS_2) / 16;
  float high[48];
#pragma unroll
  for (int step = 0; step < steps; step++) {
    product(c, WEIGHTS_OF(LOW_WEIGHTS + step), INPUTS_OF(step), step == 0);
    product(c, WEIGHTS_OF(step), INPUTS_OF(step) + LOW_INPUTS, 0);
  }
#pragma unroll
  for (int chain = 0; chain < CHAINS; chain++) {
    if (chain > 0) wgmma_begin();
#pragma unroll
    for (int step = steps / CHAINS * chain; step < steps / CHAINS * (chain + 1); step++) {
      product(high, WEIGHTS_OF(step), INPUTS_OF(step), step == steps / CHAINS * chain);
    }
    wgmma_commit();
    wgmma_wait_all();
#pragma unroll
    for (int k = 0; k < 48; k++) c[k] = chain == 0 ? fmaf(c[k], 1.0f / SPLIT_SCALE, high[k]) : c[k] + high[k];
  }
#endif
}

// Copies an image's pixels to operands of layer 1: a warp takes every fourth row, a lane one pair of pixels, and some lanes a second.
DEVICE void stage_1(char *pixels, const float *RESTRICT x, int thread) {
  const int warp = thread / 32, lane = thread % 32;
  char *to = pixels + inputs_1(warp) + lane * 4;
  const float *from = x + warp * SIZE_1 + lane * 2;
#pragma unroll 7
  for (int row = 0; row < SIZE_1; row += 4) {
    if (row + warp < SIZE_1) {
#pragma unroll
      for (int k = 0; k < 2; k++) {
        if (k == 0 || lane < SIZE_1 / 2 - 32) {
          const float2 two = *(const float2 *)(from + row * SIZE_1 + k * 64);
          const unsigned int high = two_halves(two.x, two.y);
          *(unsigned int *)(to + row / 2 * PITCH_1 + k * 128) = high;
          if (PARTS == 2) *(unsigned int *)(to + PIXELS_1 + row / 2 * PITCH_1 + k * 128) = two_remainders(two.x, two.y, high);
        }
      }
    }
  }
}

// Copies the four maps of an image to operands of layer 2, channels side by side: a thread takes two pixels at a time.
DEVICE void stage_2(char *pixels, const float *RESTRICT x, int thread) {
#pragma unroll 2
  for (int k = thread; k < SIZE_2 * SIZE_2 / 2; k += 128) {
    const int row = k / (SIZE_2 / 2);
    char *to = pixels + row % 4 * REMAINDER_2 + row / 4 * PITCH_2 + k % (SIZE_2 / 2) * 16;
    float2 two[CHANNELS_2];
#pragma unroll
    for (int c = 0; c < CHANNELS_2; c++) two[c] = *(const float2 *)(x + c * SIZE_2 * SIZE_2 + 2 * k);
    const uint4 high = {two_halves(two[0].x, two[1].x), two_halves(two[2].x, two[3].x), two_halves(two[0].y, two[1].y),
                        two_halves(two[2].y, two[3].y)};
    *(uint4 *)to = high;
    if (PARTS == 2) {
      *(uint4 *)(to + PIXELS_2) = {two_remainders(two[0].x, two[1].x, high.x), two_remainders(two[2].x, two[3].x, high.y),
                                   two_remainders(two[0].y, two[1].y, high.z), two_remainders(two[2].y, two[3].y, high.w)};
    }
  }
}

// Positions of layer 1's sums on the image: 24 columns of the product, three eights, are two pairs of rows. In eight number i, a
// thread's first column is place `across` of pair `down`; some columns are after the end of a row.
DEVICE int down_1(int i, int t) { return i == 0 ? 0 : i == 1 ? t / 2 : 1; }
DEVICE int across_1(int i, int t) { return i == 0 ? 2 * t : i == 1 ? (t < 2 ? 8 : -4) + 2 * t : 4 + 2 * t; }
DEVICE bool on_image_1(int i, int t) { return i == 0 || (i == 1 ? t != 1 : t != 3); }

// Stops the compiler from hoisting index arithmetic to a point where all registers hold sums.
DEVICE int not_before(int lane) {
  asm volatile("" : "+r"(lane));
  return lane;
}

// Applies ReLU and pool to a tile of layer 1, and calls store(eight, value) for each output. A window's columns are in one thread, its
// rows 16 lanes apart. The two lanes of a row pair have two windows; each keeps one of them.
template <class Store>
DEVICE void pool_1(const float (&c)[48], int lane, Store store) {
  const int lower = lane / 16;
#pragma unroll
  for (int j = 0; j < COLUMNS / 8; j++) {
    const float first = fmaxf(c[4 * j], c[4 * j + 2]), second = fmaxf(c[4 * j + 1], c[4 * j + 3]);
    const float other = __shfl_xor_sync(0xffffffff, lower ? first : second, 16);
    if (on_image_1(j % 3, lane % 4)) store(j, fmaxf(fmaxf(lower ? second : first, other), 0.0f));
  }
}

// Computes the pooled outputs of layer 2, all 16 maps. Two columns of the product are the four columns of a window; its first two rows
// are 16 lanes apart, and its last two, the odd pair, are at the same place in a separate tile. A row of columns has ten windows: only
// the left half of the ninth is on the image, and the tenth is dropped.
DEVICE void layer_2(float *RESTRICT y, const char *weights, const char *pixels, int warp, int lane) {
  const int lower = lane / 16;
#pragma unroll 1
  for (int column = 0; column < 2 * COLUMNS; column += COLUMNS) {
    float largest[COLUMNS / 8] = {};
#pragma unroll 1
    for (int odd = 0; odd < 2; odd++) {
      float c[48];
      multiply<2>(c, weights, pixels + column * 16, odd);
      const int t = not_before(lane) % 4;
#pragma unroll
      for (int j = 0; j < COLUMNS / 8; j++) {
        const int window = column / 2 + 4 * j + t;
        const float left = fmaxf(c[4 * j], c[4 * j + 2]), right = fmaxf(c[4 * j + 1], c[4 * j + 3]);
        const float both = window % 10 == 8 ? left : fmaxf(left, right);
        if (!odd || window < 10 * (POOLED_2 - 1)) largest[j] = fmaxf(largest[j], both);
      }
    }
    const int t = not_before(lane) % 4;
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; j += 2) {
      const float other = __shfl_xor_sync(0xffffffff, lower ? largest[j] : largest[j + 1], 16);
      const float value = fmaxf(lower ? largest[j + 1] : largest[j], other);
      const int window = column / 2 + 4 * (j + lower) + t, h = window / 10, w = window % 10, filter = warp * 4 + lane / 4 % 4;
      if (w < POOLED_2 && h < POOLED_2) y[(filter * POOLED_2 + h) * POOLED_2 + w] = value;
    }
  }
}
