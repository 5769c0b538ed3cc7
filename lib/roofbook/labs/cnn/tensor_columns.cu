// Convolution as an implicit matrix product on Hopper's tensor cores. A block computes 128 filters by 8 x 32 pixels: two threads have
// TMA fetch weights and pixels, two warpgroups multiply 64 filters each. A box of pixels is fetched once for a column of taps:
//
//   box in shared memory: TILE_H + TAPS - 1 rows of 32 columns, 64 channels each
//   tap row 0 multiplies rows 0 ... 7 of the box, tap row 1 rows 1 ... 8, and so on
//
// Two blocks, one above the other, form a cluster: each fetches half of the weights for both. If there are fewer clusters than
// tiles, a cluster takes one tile after another; fetches for the next tile begin before the last one is stored.
//
// Knob STORES:   ONE  a thread writes one output at a time;  FOUR  four
#ifndef STORES
#define STORES ONE
#endif
#include "layer.h"
#define ONE 1
#define FOUR 4
#define MULTICAST 1
#include "tensor_map.h"
#include "to_operands.h"
#if STORES == FOUR
#include "pooled_fours.h"
#else
#include "pooled.h"
#endif
#define COLUMNS (PADDED_CHANNELS / DEPTH * TAPS)
#define PIXEL_ROW (TILE_W * DEPTH * 2)
#define PIXEL_BYTES ((TILE_H + TAPS - 1) * PIXEL_ROW)
#define WEIGHT_BYTES (TILE_I * DEPTH * 2)
#define PIXEL_STAGES 2
#define WEIGHT_STAGES ((STAGES_BYTES - PIXEL_STAGES * PIXEL_BYTES) / WEIGHT_BYTES)
#define STAGES_BYTES 230400
#define TILES_I (PADDED_FILTERS / TILE_I)
#define TILES_W ((WIDTH + TILE_W - 1) / TILE_W)
#define TILES_H ((HEIGHT + 2 * TILE_H - 1) / (2 * TILE_H))

KERNEL_OF(384, 1) __cluster_dims__(2) void tensor(const void *weight_map, const void *pixel_map, const float *RESTRICT bias,
                                                  float *RESTRICT out) {
  extern __shared__ char whole[];
  __shared__ unsigned long long weights_full[WEIGHT_STAGES], weights_empty[WEIGHT_STAGES];
  __shared__ unsigned long long pixels_full[PIXEL_STAGES], pixels_empty[PIXEL_STAGES];
  char *pixels = aligned_for_swizzle(whole), *weights = pixels + PIXEL_STAGES * PIXEL_BYTES;
  const int tid = threadIdx.x, rank = rank_in_cluster(), clusters = gridDim.x / 2;
  if (tid == 0) {
    INIT_RING(weights_full, weights_empty, WEIGHT_STAGES, 4)
    INIT_RING(pixels_full, pixels_empty, PIXEL_STAGES, 2)
    publish_barriers();
  }
  __syncthreads();
  sync_cluster();
  int column = 0, step = 0;  // counted over all tiles: they select the next stage
  if (tid < 128) {
    FEWER_REGISTERS(40);
    if (tid == 0 || tid == 32) {
      acquire_map(tid == 0 ? pixel_map : weight_map);
      for (int tile = blockIdx.x / 2; tile < TILES_I * TILES_W * TILES_H; tile += clusters) {
        const int i0 = tile % TILES_I * TILE_I, w0 = tile / TILES_I % TILES_W * TILE_W;
        const int h0 = (tile / TILES_I / TILES_W * 2 + rank) * TILE_H;
        for (int own = 0; own < COLUMNS; own++) {
          const int channel = own / TAPS * DEPTH, q = own % TAPS;
          if (tid == 0) {
            const int stage = column % PIXEL_STAGES;
            wait_for(&pixels_empty[stage], column / PIXEL_STAGES % 2 ^ 1);
            expect_bytes(&pixels_full[stage], PIXEL_BYTES);
            tma_load_4d(pixels + stage * PIXEL_BYTES, pixel_map, &pixels_full[stage], channel, w0 + q, h0, 0, 1 << rank);
            column++;
          } else {
            for (int p = 0; p < TAPS; p++, step++) {
              const int stage = step % WEIGHT_STAGES;
              wait_for(&weights_empty[stage], step / WEIGHT_STAGES % 2 ^ 1);
              expect_bytes(&weights_full[stage], WEIGHT_BYTES);
              tma_load_3d(weights + stage * WEIGHT_BYTES + rank * (WEIGHT_BYTES / 2), weight_map, &weights_full[stage], channel,
                          i0 + rank * (TILE_I / 2), p * TAPS + q, 3);
            }
          }
        }
      }
    }
  } else {
    MORE_REGISTERS(232);
    const int group = tid / 128 - 1;
    for (int tile = blockIdx.x / 2; tile < TILES_I * TILES_W * TILES_H; tile += clusters) {
      float c[128];
#pragma unroll
      for (int k = 0; k < 128; k++) c[k] = 0.0f;
      for (int own = 0; own < COLUMNS; own++, column++) {
        wait_for(&pixels_full[column % PIXEL_STAGES], column / PIXEL_STAGES % 2);
        for (int p = 0; p < TAPS; p++, step++) {
          const int stage = step % WEIGHT_STAGES;
          wait_for(&weights_full[stage], step / WEIGHT_STAGES % 2);
          const unsigned long long a = descriptor(weights + stage * WEIGHT_BYTES + group * (WEIGHT_BYTES / 2));
          const unsigned long long b = descriptor(pixels + column % PIXEL_STAGES * PIXEL_BYTES + p * PIXEL_ROW);
          wgmma_begin();
#pragma unroll
          for (int k = 0; k < DEPTH / 16; k++) product(c, along_lines(a, k), along_lines(b, k));
          wgmma_commit();
          if (own + p > 0) {
            wgmma_wait_but_one();
            if (tid % 128 < 2) arrive_at(&weights_empty[(step - 1) % WEIGHT_STAGES], tid % 128);
            if (p == 0 && tid % 128 == 0) arrive_at(&pixels_empty[(column - 1) % PIXEL_STAGES], rank);
          }
        }
      }
      wgmma_wait_all();
      if (tid % 128 < 2) arrive_at(&weights_empty[(step - 1) % WEIGHT_STAGES], tid % 128);
      if (tid % 128 == 0) arrive_at(&pixels_empty[(column - 1) % PIXEL_STAGES], rank);
      store_pooled(c, tile % TILES_I * TILE_I + group * 64, (tile / TILES_I / TILES_W * 2 + rank) * TILE_H,
                   tile / TILES_I % TILES_W * TILE_W, bias, out);
    }
  }
  sync_cluster();
}
