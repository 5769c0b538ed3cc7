// Convolution, ReLU and pooling with every product computed, by Hopper's warpgroup products in int8 with exact sums in int32. A block
// computes 64 filters by 8 x 8 outputs; eight blocks of the same filters form a cluster, and each fetches every eighth tile of
// weights for all of them. A block fetches boxes of 128 channels with rows and columns for all taps; a tap reads a box from an
// offset on. The eight pixels of a row are the eight lines of 128 bytes that a matrix product takes together. A thread's sums
// are whole windows of the pool.
#include "layer.h"
#define TILE_I 64
#define TILE 8
#define SLICE 128
#define BLOCKS 8
#define BARRIERS RELAXED
#define MULTICAST 1
#include "hopper.h"
#include "tensor_map.h"
#define TAPS_2 (TAPS * TAPS)
#define SLICES ((DEPTH + SLICE - 1) / SLICE)
#define STEPS (SLICES * TAPS_2)
#define SIDE (TILE + TAPS - 1)
#define PADDED_FILTERS ((FILTERS + TILE_I - 1) / TILE_I * TILE_I)
#define BOX_BYTES (SIDE * SIDE * SLICE)
#define BOX_STRIDE ((BOX_BYTES + SWIZZLE_BLOCK - 1) / SWIZZLE_BLOCK * SWIZZLE_BLOCK)
#define WEIGHT_BYTES (TILE_I * SLICE)
#define SHARED_BYTES 230400
#define BOXES_THAT_FIT ((SHARED_BYTES - BLOCKS * WEIGHT_BYTES) / BOX_STRIDE)
#define BOXES (SLICES < BOXES_THAT_FIT ? SLICES : BOXES_THAT_FIT)
#define TILES_ACROSS ((SIZE + TILE - 1) / TILE)
#include "bytes.inc"

// weight (filter, channel, tap) -> taps (tap, filter, channel) as bytes, padded with zeros; a block transposes a slice of a filter.
KERNEL_OF(128, 4) void to_taps(const short *RESTRICT weight, unsigned int *RESTRICT taps) {
  __shared__ short tile[SLICE * TAPS_2];
  const int i = blockIdx.x, first = blockIdx.y * SLICE;
  for (int k = threadIdx.x; k < SLICE * TAPS_2; k += 128) {
    const int known = i < FILTERS && first + k / TAPS_2 < DEPTH;
    tile[k] = known ? weight[WEIGHT_AT(i, first, 0, 0) + k] : 0;
  }
  __syncthreads();
  for (int k = threadIdx.x; k < TAPS_2 * SLICE / 4; k += 128) {
    const int tap = k / (SLICE / 4), j = k % (SLICE / 4) * 4;
    unsigned int word = 0;
    for (int b = 0; b < 4; b++) word |= (tile[(j + b) * TAPS_2 + tap] & 255u) << 8 * b;
    taps[((tap * PADDED_FILTERS + i) * SLICES * SLICE + first + j) / 4] = word;
  }
}

// c (64 x 64, int32, spread over a warpgroup) += a (64 x 32) times transposed b (64 x 32); a and b lie in shared memory.
DEVICE void product(int (&c)[32], unsigned long long a, unsigned long long b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
      "%32, %33, 1;"
      : SUMS_16(IN_INTS, 0), SUMS_16(IN_INTS, 16)
      : "l"(a), "l"(b));
}

// A row of the sums (picture in hopper.h) is a filter, and column 8 j + n is pixel (row j, column n) of the tile. So c[8 r],
// c[8 r + 1], c[8 r + 4] and c[8 r + 5] are a window of the pool; the sums two further on are that of the filter eight further on.
KERNEL_OF(192, 1) __cluster_dims__(BLOCKS) void tensor(const void *weight_map, const void *pixel_map, int *RESTRICT out) {
  extern __shared__ char whole[];
  __shared__ unsigned long long weights_full[BLOCKS], own_empty, box_full[BOXES], box_empty[BOXES];
  char *weights = aligned_for_swizzle(whole), *boxes = weights + BLOCKS * WEIGHT_BYTES;
  const int tid = threadIdx.x, rank = rank_in_cluster(), i0 = blockIdx.y * TILE_I;
  const int h0 = blockIdx.x / TILES_ACROSS * TILE, w0 = blockIdx.x % TILES_ACROSS * TILE;
  if (tid == 0) {
    for (int stage = 0; stage < BLOCKS; stage++) {
      init_barrier(&weights_full[stage], 1);
      if (stage < STEPS) expect_bytes(&weights_full[stage], WEIGHT_BYTES);
    }
    init_barrier(&own_empty, BLOCKS);
    INIT_RING(box_full, box_empty, BOXES, 1)
    publish_barriers();
  }
  __syncthreads();
  sync_cluster();
  if (tid == 128) {
    acquire_map(weight_map);
    for (int step = rank; step < STEPS; step += BLOCKS) {
      if (step >= BLOCKS) wait_for(&own_empty, (step / BLOCKS - 1) % 2);
      tma_load_3d(weights + rank * WEIGHT_BYTES, weight_map, &weights_full[rank], step / TAPS_2 * SLICE / 2, i0, step % TAPS_2,
                  (1 << BLOCKS) - 1);
    }
  } else if (tid == 160) {
    acquire_map(pixel_map);
    for (int slice = 0; slice < SLICES; slice++) {
      const int stage = slice % BOXES;
      if (slice >= BOXES) wait_for(&box_empty[stage], (slice / BOXES - 1) % 2);
      expect_bytes(&box_full[stage], BOX_BYTES);
      tma_load_3d(boxes + stage * BOX_STRIDE, pixel_map, &box_full[stage], slice * SLICE / 2, w0, h0, 1 << rank);
    }
  } else if (tid < 128) {
    int c[32] = {}, step = 0;
    for (int slice = 0; slice < SLICES; slice++) {
      wait_for(&box_full[slice % BOXES], slice / BOXES % 2);
      for (int tap = 0; tap < TAPS_2; tap++, step++) {
        const int offset = (tap / TAPS * SIDE + tap % TAPS) * SLICE;
        wait_for(&weights_full[step % BLOCKS], step / BLOCKS % 2);
        const unsigned long long a = descriptor(weights + step % BLOCKS * WEIGHT_BYTES);
        const unsigned long long b = descriptor(boxes + slice % BOXES * BOX_STRIDE + offset, SIDE * SLICE);
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < SLICE / 32; k++) product(c, along_lines(a, k), along_lines(b, k));
        wgmma_commit();
        if (step > 0) {
          wgmma_wait_but_one();
          if (tid == 0 && step - 1 + BLOCKS < STEPS) {
            expect_bytes(&weights_full[(step - 1) % BLOCKS], WEIGHT_BYTES);
            arrive_at(&own_empty, (step - 1) % BLOCKS);
          }
          if (tid == 0 && tap == 0) arrive_at(&box_empty[(slice - 1) % BOXES], rank);
        }
      }
    }
    wgmma_wait_all();
    const int column = w0 / 2 + tid % 4;
#pragma unroll
    for (int k = 0; k < 8; k++) {
      const int *sums = c + k / 2 * 8 + k % 2 * 2, row = h0 / 2 + k / 2;
      const int i = i0 + tid / 32 * 16 + k % 2 * 8 + tid % 32 / 4;
      const int best = LARGER(LARGER(sums[0], sums[1]), LARGER(sums[4], sums[5]));
      if (i < FILTERS && row < SIZE / 2 && column < SIZE / 2) out[OUT_AT(i, row, column)] = LARGER(best, 0);
    }
  }
  sync_cluster();
}
