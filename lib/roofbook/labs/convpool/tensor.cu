// Convolution, ReLU and pooling with every product computed, by tensor cores in int8 with exact sums in int32. A block computes 32
// filters by 4 x 32 outputs. Its part of the input, border included, is copied to shared memory once and used for all taps. Weights
// are loaded to registers two products ahead, from memory in the order of the tensor cores' registers. Each of four parts of the
// block, of four warps, takes every fourth tap; their sums are added at the end.
#include "layer.h"
#include "mma.h"
#define TILE_I 32
#define TILE_H 4
#define TILE_W 32
#define SLICE 64
#define PARTS 4
#define AHEAD 2
#define ITEMS (PARTS * 128)
#define TAPS_2 (TAPS * TAPS)
#define STEPS (SLICES * TAPS_2)
#define SLICES ((DEPTH + SLICE - 1) / SLICE)
#define AT_ONCE (SLICES < 8 ? SLICES : 8)
#define PIXEL_BYTES (AT_ONCE * SLICE + (AT_ONCE % 2 ? 0 : SLICE))
#define LINE (TILE_W + TAPS - 1)
#define LINES (TILE_H + TAPS - 1)
#define TILES_ACROSS ((SIZE + TILE_W - 1) / TILE_W)
#define TILES_DOWN ((SIZE + TILE_H - 1) / TILE_H)
#define ROWS (TILES_DOWN * TILE_H + TAPS - 1)
#define COLUMNS (TILES_ACROSS * TILE_W + TAPS - 1)
#define TILES_I ((FILTERS + TILE_I - 1) / TILE_I)

// x (channel, row, column) -> pixels (row, column, channel) as bytes, padded with zeros; a block transposes 32 columns of 64 channels.
KERNEL_OF(256, 4) void to_pixels(const short *RESTRICT x, unsigned int *RESTRICT pixels) {
  __shared__ short tile[SLICE][34];
  const int tid = threadIdx.x, row = blockIdx.y, first = blockIdx.z * SLICE, w0 = blockIdx.x * 32;
  for (int k = tid; k < SLICE * 32; k += 256) {
    const int j = first + k / 32, column = w0 + k % 32;
    tile[k / 32][k % 32] = j < DEPTH && row < X_ROW && column < X_ROW ? x[X_AT(j, row, column)] : 0;
  }
  __syncthreads();
  for (int k = tid; k < 32 * SLICE / 4; k += 256) {
    const int column = k / (SLICE / 4), j = k % (SLICE / 4) * 4;
    if (w0 + column < COLUMNS) {
      unsigned int word = 0;
      for (int b = 0; b < 4; b++) word |= (tile[j + b][column] & 255u) << 8 * b;
      pixels[((row * COLUMNS + w0 + column) * SLICES * SLICE + first + j) / 4] = word;
    }
  }
}

// The channels in the words of a product are free, if both operands agree (picture in mma.h). Here MEMBER(lane) = n takes the 16
// channels from 16 n on, so that one load of 16 bytes has the words of two products of 32 channels:
//
//   of the 64 channels of a slice:   n = 0           n = 1           n = 2           n = 3
//   words                            0  1 | 2  3     4  5 | 6  7     8  9 |10 11    12 13 |14 15
//   product                          first second    first second    first second    first second
//
#define MEMBER_WITH(word) (word / 4)
#define PRODUCT_WITH(word) (word / 2 % 2)
#define RIGHT_WITH(word) (word % 2)

// weight (filter, channel, tap) -> packed (tile of filters, slice, tap, upper or lower 16 filters, product, lane, word):
// each lane of a warp finds its four words a[0] to a[3] side by side. A block transposes a slice of a filter.
KERNEL_OF(128, 4) void to_taps(const short *RESTRICT weight, unsigned int *RESTRICT packed) {
  __shared__ short tile[SLICE * TAPS_2];
  const int i = blockIdx.x, slice = blockIdx.y, first = slice * SLICE;
  for (int k = threadIdx.x; k < SLICE * TAPS_2; k += 128) {
    const int known = i < FILTERS && first + k / TAPS_2 < DEPTH;
    tile[k] = known ? weight[WEIGHT_AT(i, first, 0, 0) + k] : 0;
  }
  __syncthreads();
  for (int k = threadIdx.x; k < TAPS_2 * SLICE / 4; k += 128) {
    const int tap = k / (SLICE / 4), place = k % (SLICE / 4), within = i % TILE_I;
    unsigned int word = 0;
    for (int b = 0; b < 4; b++) word |= (tile[(place * 4 + b) * TAPS_2 + tap] & 255u) << 8 * b;
    const int lane = within % 8 * 4 + MEMBER_WITH(place), block = (i / TILE_I * SLICES + slice) * TAPS_2 + tap;
    packed[(((block * 2 + within / 16) * 2 + PRODUCT_WITH(place)) * 32 + lane) * 4 + RIGHT_WITH(place) * 2 + within / 8 % 2] = word;
  }
}

DEVICE void copy_16(void *shared, const void *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(shared)), "l"(from));
}

#define WAIT(groups) case groups: asm volatile("cp.async.wait_group " #groups ";" ::: "memory"); break;

// Waits until at most so many of the last committed groups of copies are unfinished.
DEVICE void wait_for_copies_but(int groups) {
  switch (groups) { WAIT(0) WAIT(1) WAIT(2) WAIT(3) WAIT(4) WAIT(5) WAIT(6) WAIT(7) }
}

DEVICE void product(int (&c)[4], uint4 a, unsigned int b0, unsigned int b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

KERNEL_OF(ITEMS, 1) void tensor(const char *RESTRICT pixels, const uint4 *RESTRICT packed, int *RESTRICT out) {
  extern __shared__ __align__(16) char staged[];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = warp / 4, h = warp % 4 / 2 * 2, w = warp % 2 * 16;
  const int h0 = blockIdx.x / TILES_ACROSS * TILE_H, w0 = blockIdx.x % TILES_ACROSS * TILE_W;
  const uint4 *weights = packed + blockIdx.y * SLICES * TAPS_2 * 128 + lane;
  int c[2][4][4] = {};
  uint4 next[AHEAD][4];
#pragma unroll
  for (int k = 0; k < AHEAD * 4; k++) {
    const int step = part + k / 4 * PARTS;
    next[k / 4][k % 4] = weights[(step < STEPS ? step : 0) * 128 + k % 4 * 32];
  }
  int step = part;
  for (int stage = 0; stage < SLICES; stage += AT_ONCE) {
    __syncthreads();
#pragma unroll
    for (int slice = 0; slice < AT_ONCE; slice++) {
      for (int k = threadIdx.x; k < LINES * LINE * (SLICE / 16) && stage + slice < SLICES; k += ITEMS) {
        const int pixel = k / (SLICE / 16), bytes = slice * SLICE + k % (SLICE / 16) * 16;
        const int from = (h0 + pixel / LINE) * COLUMNS + w0 + pixel % LINE;
        copy_16(staged + pixel * PIXEL_BYTES + bytes, pixels + from * SLICES * SLICE + stage * SLICE + bytes);
      }
      asm volatile("cp.async.commit_group;");
    }
#pragma unroll
    for (int slice = 0; slice < AT_ONCE; slice++) {
      wait_for_copies_but(AT_ONCE - 1 - slice);
      __syncthreads();
      for (; step < (stage + slice + 1) * TAPS_2 && step < STEPS; step += PARTS) {
        const int tap = step - (stage + slice) * TAPS_2;
        const char *own = staged + ((h + tap / TAPS) * LINE + w + tap % TAPS + GROUP(lane)) * PIXEL_BYTES + slice * SLICE +
                          MEMBER(lane) * 16;
        uint4 a[4], b[4];
#pragma unroll
        for (int k = 0; k < 4; k++) a[k] = next[0][k];
#pragma unroll
        for (int k = 0; k < AHEAD * 4 - 4; k++) next[k / 4][k % 4] = next[k / 4 + 1][k % 4];
        if (step + AHEAD * PARTS < STEPS) {
#pragma unroll
          for (int k = 0; k < 4; k++) next[AHEAD - 1][k] = weights[(step + AHEAD * PARTS) * 128 + k * 32];
        }
#pragma unroll
        for (int n = 0; n < 4; n++) b[n] = *(const uint4 *)(own + (n / 2 * LINE + n % 2 * 8) * PIXEL_BYTES);
#pragma unroll
        for (int n = 0; n < 4; n++) {
#pragma unroll
          for (int m = 0; m < 2; m++) {
            product(c[m][n], a[2 * m], b[n].x, b[n].y);
            product(c[m][n], a[2 * m + 1], b[n].z, b[n].w);
          }
        }
      }
    }
  }
  __syncthreads();
  int *others = (int *)staged + warp % 4 * 32 * 32 + lane;
#pragma unroll
  for (int k = 0; k < 32; k++) {
    if (part > 0) others[((part - 1) * 128 + k) * 32] = c[k / 16][k / 4 % 4][k % 4];
  }
  __syncthreads();
  if (part == 0) {
#pragma unroll
    for (int k = 0; k < 32 * (PARTS - 1); k++) c[k % 32 / 16][k / 4 % 4][k % 4] += others[(k / 32 * 128 + k % 32) * 32];
#pragma unroll
    for (int k = 0; k < 8; k++) {
      const int m = k / 4, across = k / 2 % 2, pair = k % 2 * 2;
      const int upper = LARGER(c[m][across][pair], c[m][across][pair + 1]);
      const int lower = LARGER(c[m][across + 2][pair], c[m][across + 2][pair + 1]);
      const int i = blockIdx.y * TILE_I + m * 16 + pair * 4 + GROUP(lane);
      const int row = (h0 + h) / 2, column = (w0 + w + across * 8) / 2 + MEMBER(lane);
      if (i < FILTERS && row < SIZE / 2 && column < SIZE / 2) out[OUT_AT(i, row, column)] = LARGER(LARGER(upper, lower), 0);
    }
  }
}
