// Both convolutions of the kernel of roles, by products of warpgroups (wgmma): CONV_1 reads pixels and writes pooled maps as
// operands of layer 2, CONV_2 reads those, writes the last pooled maps and begins the dense layers.
//
// The 64 rows of a product are filters by neighbouring outputs: 4 filters by 2 rows by 8 columns in layer 1, 16 by 2 by 2 in
// layer 2. Weights stay in registers. A tile has 88 columns: in layer 1 they are 8 pairs of output rows by 11 places, of which
// the last has no outputs; in layer 2 the image's 17 pairs of rows by 20 places, one after another, end in the fourth tile.
#pragma once
#include "mma.h"
#include "roles_dense.h"
#include "roles_memory.h"
#define BESIDE 0xFFFF

// Keeps reads of sums behind the wait for them: for the compiler they are registers like any other.
DEVICE void settle(float (&c)[44]) {
  asm volatile(""
               : SUMS_16(IN_FLOATS, 0), SUMS_16(IN_FLOATS, 16), SUMS_4(IN_FLOATS, 32), SUMS_4(IN_FLOATS, 36),
                 SUMS_4(IN_FLOATS, 40)
               :
               : "memory");
}

// Return the offset of a step's places from those of a tile's first outputs.
DEVICE constexpr int inputs_1(int step) { return step % 2 * REMAINDER_1 + step / 2 * PITCH_1; }
DEVICE constexpr int inputs_2(int step) { return step / 2 % 2 * REMAINDER_2 + step / 4 * PITCH_2 + step % 2 * 32; }

// Begins to multiply: c = the outputs of a tile of layer 1.
DEVICE void begin_1(float (&c)[44], const unsigned int (&a)[STEPS_1][4], const char *pixels) {
  const unsigned long long b = plain_descriptor(pixels, 16, 128);
  wgmma_begin();
#pragma unroll
  for (int step = 0; step < STEPS_1; step++) product(c, a[step], b + inputs_1(step) / 16, step == 0);
  wgmma_commit();
}

// c = the outputs of a tile of layer 2.
DEVICE void multiply_2(float (&c)[44], const unsigned int (&a)[STEPS_2][4], const char *pooled) {
  const unsigned long long b = plain_descriptor(pooled, 16, 128);
  wgmma_begin();
#pragma unroll
  for (int step = 0; step < STEPS_2; step++) product(c, a[step], b + inputs_2(step) / 16, step == 0);
  wgmma_commit();
  wgmma_wait_all();
  settle(c);
}

// Rounds two numbers to fp16, with ReLU.
DEVICE unsigned int positive_halves(float first, float second) {
  unsigned int word;
  asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
}

// Returns the larger of two halves, and of two more.
DEVICE unsigned int larger_halves(unsigned int a, unsigned int b) {
  unsigned int word;
  asm("max.f16x2 %0, %1, %2;" : "=r"(word) : "r"(a), "r"(b));
  return word;
}

// Applies ReLU and pool to a tile of layer 1, and stores it as operands of layer 2. A window's columns are in one thread, its
// rows 16 lanes apart. The two lanes of a row pair have two windows; each keeps one of them. The largest of rounded numbers is
// the largest, rounded. to: two offsets a word, or BESIDE for a window beyond the row.
DEVICE void store_tile(const float (&c)[44], char *pooled, const unsigned int (&to)[(COLUMNS / 8 + 1) / 2], int lower) {
#pragma unroll
  for (int j = 0; j < COLUMNS / 8; j++) {
    const unsigned int row = positive_halves(fmaxf(c[4 * j], c[4 * j + 2]), fmaxf(c[4 * j + 1], c[4 * j + 3]));
    const unsigned int windows = larger_halves(row, __shfl_xor_sync(0xffffffff, row, 16));
    const unsigned int at = (unsigned int)unhoisted((int)to[j / 2]) >> j % 2 * 16 & 0xFFFF;
    if (at != BESIDE) *(unsigned short *)(pooled + at) = (unsigned short)(windows >> lower * 16);
  }
}

// Computes layer 1 of all images, two tiles in flight: one is multiplied, the one before is stored.
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
    to[j / 2] |= (unsigned int)(place < PLACES_1 - 1 ? at : BESIDE) << j % 2 * 16;
  }
#pragma unroll 1
  for (int n = 0; n < images; n++) {
    const int slot = n % SLOTS, turn = n / SLOTS;
    const char *pixels = shared + PIXELS_AT + slot * PIXELS_1;
    char *pooled = shared + POOLED_AT + slot * PIXELS_2;
    float c[2][44];
#pragma unroll
    for (int tile = 0; tile <= TILES_1; tile++) {
      const int done = tile - 1;
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
      publish_writes();
      arrive_for_warp(&barriers->full_2[slot][done]);
    }
  }
}

// Where a thread's windows of a tile of layer 2 are: their offsets in maps, or -1 beyond the image; bit j of `edges` says that
// window j is the ninth of a row. A row has ten windows: only the left half of the ninth is on the image, and the tenth is
// dropped.
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
    const int known = across < POOLED_2 && pair < PAIRS_2 && j + lower < COLUMNS / 8;
    windows.to[j / 2] = known ? ((warp * 4 + g % 4) * POOLED_2 + pair / 2) * POOLED_2 + across : -1;
  }
}

// Applies ReLU and pool to a tile of layer 2. Two columns of the product are the four columns of a window; two of its rows are
// 16 lanes apart, and the others in another place, so that the windows in shared memory take the largest of both. They begin
// with zero, and numbers above zero are in the order of their bits. Each of two lanes keeps one window of two.
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

// Computes every other tile of layer 2 of all images, from tile `part` on. After a group's last image, computes a half of its
// hidden values' sums.
DEVICE void layer_2(char *shared, Barriers *barriers, int images, int part, float *RESTRICT y, int thread) {
  const int warp = thread / 32, lane = thread % 32, g = GROUP(lane), t = MEMBER(lane), lower = lane / 16;
  unsigned int a[STEPS_2][4];
  // A step is half a row of the input: 4 pixels with their channels, of which two are in a word.
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
      // A tile's last row of inputs is in layer 1's tile of this number: 15, 23, 33 and 39 of 40, which come eight a tile.
      wait_for(&barriers->full_2[slot][half == 1 ? TILES_1 - 1 : part + 1], turn % 2);
      float c[44];
      multiply_2(c, a, pooled + tile * (COLUMNS * 16));
      if (half == 1) arrive_for_warp(&barriers->empty_2[slot]);
      pool_tile(c, maps, windows[half], lower);
    }
    if (completes_group(n, images)) dense_1(n / DENSE_IMAGES, shared, barriers, y, unhoisted(part * 128 + thread));
  }
}
