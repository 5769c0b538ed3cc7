// Both convolutions of the kernel of roles, by products of warpgroups (wgmma). CONV_1 reads pixels, and writes pooled maps as
// operands of layer 2. CONV_2 reads those, writes the last pooled maps, and computes the first dense layer of groups of images.
//
// Weights stay in registers. A product's 64 rows are filters and neighbouring outputs, its 88 columns are places (picture in
// roles_memory.h):
//
//   layer 1:  rows: 4 filters x 2 output rows x 8 output columns     a tile: 8 pairs of output rows x 11 places
//   layer 2:  rows: 16 filters x 2 output rows x 2 output columns    a tile: 88 of 17 pairs of output rows x 20 places
//
// In layer 1 the last place of a row has no outputs. In layer 2 an image ends within the fourth tile.
#pragma once
#include "mma.h"
#include "roles_dense.h"
#include "roles_memory.h"
#define NO_WINDOW 0xFFFF

// Stops the compiler from reading sums before the wait for their products. To the compiler they are ordinary registers.
DEVICE void settle(float (&c)[44]) {
  asm volatile(""
               : SUMS_16(IN_FLOATS, 0), SUMS_16(IN_FLOATS, 16), SUMS_4(IN_FLOATS, 32), SUMS_4(IN_FLOATS, 36),
                 SUMS_4(IN_FLOATS, 40)
               :
               : "memory");
}

// Return the distance in bytes of the pixels that a step multiplies from a tile's first place.
DEVICE constexpr int inputs_1(int step) { return step % 2 * REMAINDER_1 + step / 2 * PITCH_1; }
DEVICE constexpr int inputs_2(int step) { return step / 2 % 2 * REMAINDER_2 + step / 4 * PITCH_2 + step % 2 * 32; }

// Begins a tile of layer 1: c = its outputs, as soon as these products have been waited for.
DEVICE void begin_1(float (&c)[44], const unsigned int (&a)[STEPS_1][4], const char *pixels) {
  const unsigned long long b = plain_descriptor(pixels, 16, 128);
  wgmma_begin();
#pragma unroll
  for (int step = 0; step < STEPS_1; step++) product(c, a[step], b + inputs_1(step) / 16, step == 0);
  wgmma_commit();
}

// Computes a tile of layer 2 and waits for it: c = its outputs.
DEVICE void multiply_2(float (&c)[44], const unsigned int (&a)[STEPS_2][4], const char *pooled) {
  const unsigned long long b = plain_descriptor(pooled, 16, 128);
  wgmma_begin();
#pragma unroll
  for (int step = 0; step < STEPS_2; step++) product(c, a[step], b + inputs_2(step) / 16, step == 0);
  wgmma_commit();
  wgmma_wait_all();
  settle(c);
}

// Returns two numbers after ReLU, in fp16.
DEVICE unsigned int positive_halves(float first, float second) {
  unsigned int word;
  asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
}

// Returns the larger of both lower halves of two words, and the larger of both upper ones.
DEVICE unsigned int larger_halves(unsigned int a, unsigned int b) {
  unsigned int word;
  asm("max.f16x2 %0, %1, %2;" : "=r"(word) : "r"(a), "r"(b));
  return word;
}

// Applies ReLU to a tile of layer 1, pools it, and stores it as operands of layer 2. A window has 2 x 2 outputs. One thread
// has a row of it, the lane 16 further on the other row. These two lanes have two windows, and each stores one of them: the
// lower lane has lower = 0. Numbers are rounded before the largest is taken, which gives the same. to: two offsets in bytes a
// word, or NO_WINDOW where the last place has no outputs.
DEVICE void store_tile(const float (&c)[44], char *pooled, const unsigned int (&to)[(COLUMNS / 8 + 1) / 2], int lower) {
#pragma unroll
  for (int j = 0; j < COLUMNS / 8; j++) {
    const unsigned int row = positive_halves(fmaxf(c[4 * j], c[4 * j + 2]), fmaxf(c[4 * j + 1], c[4 * j + 3]));
    const unsigned int windows = larger_halves(row, __shfl_xor_sync(0xffffffff, row, 16));
    const unsigned int at = (unsigned int)unhoisted((int)to[j / 2]) >> j % 2 * 16 & 0xFFFF;
    if (at != NO_WINDOW) *(unsigned short *)(pooled + at) = (unsigned short)(windows >> lower * 16);
  }
}

// Returns the number of the strip of pooled maps that a tile of layer 1 completes, or -1 if it completes none. The four tiles
// of layer 2 end in rows 15, 23, 33 and 39 of pooled maps, and a tile of layer 1 gives eight rows. So tiles 1, 2 and 4 of
// layer 1 complete strips, of rows 0 to 15, 16 to 23 and 24 to 39.
DEVICE constexpr int strip_completed_by(int tile) {
  return tile == TILES_1 - 1 ? STRIPS - 1 : tile == 1 || tile == 2 ? tile - 1 : -1;
}

// Computes layer 1 of all images, with two tiles in flight: while one is multiplied, the one before is stored.
DEVICE void layer_1(char *shared, Barriers *barriers, int images, int thread) {
  const int warp = thread / 32, lane = thread % 32, g = GROUP(lane), t = MEMBER(lane), lower = lane / 16;
  unsigned int a[STEPS_1][4];
  unsigned int to[(COLUMNS / 8 + 1) / 2] = {};
  const unsigned int *weights = (const unsigned int *)(shared + KERNELS_1_AT) + (warp * PADDED + 1 - lower) * PAIRS_OF_ROW;
#pragma unroll
  for (int step = 0; step < STEPS_1; step++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      a[step][i] = weights[(i % 2 * FILTERS_1 * PADDED + step) * PAIRS_OF_ROW + 4 + t - g % 4 + i / 2 * 4];
    }
  }
#pragma unroll
  for (int j = 0; j < COLUMNS / 8; j++) {
    const int n = 8 * j + 2 * t + lower, row = n / PLACES_1, place = n % PLACES_1;
    const int at = row % 2 * REMAINDER_2 + row / 2 * PITCH_2 + (place * 4 + g % 4) * (CHANNELS_2 * 2) + warp * 2;
    to[j / 2] |= (unsigned int)(place < PLACES_1 - 1 ? at : NO_WINDOW) << j % 2 * 16;
  }
#pragma unroll 1
  for (int n = 0; n < images; n++) {
    const int slot = n % SLOTS, turn = n / SLOTS;
    const char *pixels = shared + PIXELS_AT + slot * PIXELS_1;
    char *pooled = shared + POOLED_AT + slot * PIXELS_2;
    float c[2][44];
#pragma unroll
    for (int tile = 0; tile <= TILES_1; tile++) {
      const int done = tile - 1, strip = strip_completed_by(done);
      if (tile < TILES_1) {
        if (tile < CHUNKS) wait_for(&barriers->full_1[slot][tile], turn % 2);
        begin_1(c[tile % 2], a, pixels + tile * (COLUMNS * 16));
      }
      if (done < 0) continue;
      if (tile < TILES_1) {
        wgmma_wait_but_one();
      } else {
        wgmma_wait_all();
      }
      settle(c[done % 2]);
      if (done == TILES_1 - 1) arrive_for_warp(&barriers->empty_1[slot]);
      if (done == 0 && turn > 0) wait_for(&barriers->empty_2[slot], (turn - 1) % 2);
      store_tile(c[done % 2], pooled + done * (PAIRS_1 / 2 * PITCH_2), to, lower);
      if (strip < 0) continue;
      publish_writes();
      arrive_for_warp(&barriers->full_2[slot][strip]);
    }
  }
}

// The windows that a thread pools in a tile of layer 2. to: their numbers in an image's last pooled maps, or -1 beyond the
// image. A row of the product has ten windows: only the left half of the ninth has outputs, and the tenth has none. Bit j of
// `edges` is 1 if columns 8 j + 2 t and 8 j + 2 t + 1 of the tile are a ninth window.
struct Windows {
  int to[(COLUMNS / 8 + 1) / 2], edges;
};

DEVICE void find_windows(Windows &windows, int tile, int warp, int lane) {
  const int g = GROUP(lane), t = MEMBER(lane), lower = lane / 16;
  windows.edges = 0;
#pragma unroll
  for (int j = 0; j < COLUMNS / 8; j++) {
    if ((tile * (COLUMNS / 2) + 4 * j + t) % (PLACES_2 / 2) == POOLED_2 - 1) windows.edges |= 1 << j;
  }
#pragma unroll
  for (int j = 0; j < COLUMNS / 8; j += 2) {
    const int n = tile * (COLUMNS / 2) + 4 * (j + lower) + t, pair = n / (PLACES_2 / 2), across = n % (PLACES_2 / 2);
    const int on_image = across < POOLED_2 && pair < PAIRS_2 && j + lower < COLUMNS / 8;
    windows.to[j / 2] = on_image ? ((warp * 4 + g % 4) * POOLED_2 + pair / 2) * POOLED_2 + across : -1;
  }
}

// Applies ReLU to a tile of layer 2 and pools it. A window has 4 x 4 outputs: two pairs of rows by two places. A thread has
// one row of a pair, in c[4 j] to c[4 j + 3]; the lane 16 further on has the other row. These two lanes have the same two
// windows, j and j + 1, and each keeps one. The window's other pair of rows is 20 columns away in the product, in another
// thread or tile. So atomic operations in shared memory take the largest of both pairs. Maps begin with zero, which
// makes this ReLU. Bits of floats that are not negative, read as integers, have the floats' order, and those of negative
// floats are below zero.
DEVICE void pool_tile(const float (&c)[44], int *maps, const Windows &windows, int lower) {
  float best[COLUMNS / 8 + 1];
#pragma unroll
  for (int j = 0; j < COLUMNS / 8; j++) {
    const float left = fmaxf(c[4 * j], c[4 * j + 2]), right = fmaxf(c[4 * j + 1], c[4 * j + 3]);
    best[j] = windows.edges >> j & 1 ? left : fmaxf(left, right);
  }
  best[COLUMNS / 8] = 0.0f;
#pragma unroll
  for (int j = 0; j < COLUMNS / 8; j += 2) {
    const float other = __shfl_xor_sync(0xffffffff, lower ? best[j] : best[j + 1], 16);
    const float value = fmaxf(lower ? best[j + 1] : best[j], other);
    if (windows.to[j / 2] >= 0) ATOMIC_MAX(maps + windows.to[j / 2], __float_as_int(value));
  }
}

// Computes tiles `part` and `part` + 2 of layer 2 of all images. After a group's last image, computes half of the group's sums
// for the first dense layer. Threads of one warpgroup of CONV_2.
DEVICE void layer_2(char *shared, Barriers *barriers, int images, int part, float *RESTRICT y, int thread) {
  const int warp = thread / 32, lane = thread % 32, g = GROUP(lane), t = MEMBER(lane), lower = lane / 16;
  unsigned int a[STEPS_2][4];
  // A step multiplies half a row of the filter: 4 pixels with four channels each. A word has two channels.
  const unsigned int *weights = (const unsigned int *)(shared + KERNELS_2_AT) +
                                (((warp * 4 + g % 4) * PADDED + 1 - lower) * PADDED + 1) * (CHANNELS_2 / 2) + t;
#pragma unroll
  for (int step = 0; step < STEPS_2; step++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      a[step][i] = weights[(step / 2 * PADDED + step % 2 * 4 + i / 2 * 2 - i % 2) * (CHANNELS_2 / 2)];
    }
  }
  Windows windows[2];
#pragma unroll
  for (int half = 0; half < 2; half++) find_windows(windows[half], half * 2 + part, warp, lane);
#pragma unroll 1
  for (int n = 0; n < images; n++) {
    const int slot = n % SLOTS, turn = n / SLOTS;
    const char *pooled = shared + POOLED_AT + slot * PIXELS_2;
    int *maps = (int *)(shared + MAPS_AT) + n % DENSE_IMAGES * VALUES;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int tile = half * 2 + part;
      wait_for(&barriers->full_2[slot][half == 0 ? part : STRIPS - 1], turn % 2);
      float c[44];
      multiply_2(c, a, pooled + tile * (COLUMNS * 16));
      if (half == 1) arrive_for_warp(&barriers->empty_2[slot]);
      pool_tile(c, maps, windows[half], lower);
    }
    if (completes_group(n, images)) dense_1(n / DENSE_IMAGES, shared, barriers, y, unhoisted(part * 128 + thread));
  }
}
