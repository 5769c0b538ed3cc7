// Convolution on Hopper's tensor cores with split operands, as exact as fp32: each operand has two parts of fp16, and three products
// are added, low x high, high x low and high x high. A block computes 128 filters by 8 x 16 pixels: two threads have TMA
// fetch weights and pixels, two warpgroups multiply 64 filters each. Two blocks form a cluster and share the weights.
//
//   box of pixels   64 channels, both parts, rows and columns for all taps; a tap reads it from an offset on
//   stage           weights of one tap, both parts: each is fetched once for three products
//
// Matrix units do not round what they add to a sum, but cut it off towards zero. Over thousands of terms this loses more than
// rounding. So they add up only the 64 channels of a tap, and threads add these sums to their own, rounded. The small products
// have separate sums: they are scaled down and added while the large ones are computed. While the large sums are added, the other
// warpgroup's products keep the matrix units busy.
#define PARTS 2
#define TILE_W 16
#include "layer.h"
#define MULTICAST 1
#include "operands.h"
#include "product_narrow.h"
#include "tensor_map.h"
#define SUMS 64
#include "pooled_columns.h"
#define SLICES (PADDED_CHANNELS / DEPTH)
#define BOX_H (TILE_H + TAPS - 1)
#define BOX_BYTES (BOX_H * (TILE_W + TAPS - 1) * LINE)
#define BOX_STRIDE ((PARTS * BOX_BYTES + SWIZZLE_BLOCK - 1) / SWIZZLE_BLOCK * SWIZZLE_BLOCK)
#define WEIGHT_BYTES (TILE_I * LINE)
#define BOXES 2
#define WEIGHT_STAGES ((STAGES_BYTES - BOXES * BOX_STRIDE) / (PARTS * WEIGHT_BYTES))
#define STAGES_BYTES 230400
#define TILES_I (PADDED_FILTERS / TILE_I)
#define TILES_W ((WIDTH + TILE_W - 1) / TILE_W)
#define TILES_H ((HEIGHT + 2 * TILE_H - 1) / (2 * TILE_H))

KERNEL_OF(384, 1) __cluster_dims__(2) void tensor(const void *weight_map, const void *pixel_map, const float *RESTRICT bias,
                                                  float *RESTRICT out) {
  extern __shared__ char whole[];
  __shared__ unsigned long long weights_full[WEIGHT_STAGES], weights_empty[WEIGHT_STAGES];
  __shared__ unsigned long long box_full[BOXES], box_empty[BOXES];
  char *boxes = aligned_for_swizzle(whole), *weights = boxes + BOXES * BOX_STRIDE;
  const int tid = threadIdx.x, rank = rank_in_cluster(), clusters = gridDim.x / 2;
  if (tid == 0) {
    INIT_RING(weights_full, weights_empty, WEIGHT_STAGES, 4)
    INIT_RING(box_full, box_empty, BOXES, 2)
    publish_barriers();
  }
  __syncthreads();
  sync_cluster();
  int slice = 0, step = 0;  // counted over all tiles: they select the next stage
  if (tid < 128) {
    FEWER_REGISTERS(40);
    if (tid == 0 || tid == 32) {
      acquire_map(tid == 0 ? pixel_map : weight_map);
      for (int tile = blockIdx.x / 2; tile < TILES_I * TILES_W * TILES_H; tile += clusters) {
        const int i0 = tile % TILES_I * TILE_I, w0 = tile / TILES_I % TILES_W * TILE_W;
        const int h0 = (tile / TILES_I / TILES_W * 2 + rank) * TILE_H;
        for (int channel = 0; channel < SLICES * DEPTH; channel += DEPTH) {
          if (tid == 0) {
            const int stage = slice % BOXES;
            wait_for(&box_empty[stage], slice / BOXES % 2 ^ 1);
            expect_bytes(&box_full[stage], PARTS * BOX_BYTES);
            tma_load_4d(boxes + stage * BOX_STRIDE, pixel_map, &box_full[stage], channel, h0, w0, 0, 1 << rank);
            slice++;
          } else {
            for (int tap = 0; tap < TAPS_2; tap++, step++) {
              const int stage = step % WEIGHT_STAGES;
              char *to = weights + stage * PARTS * WEIGHT_BYTES + rank * (WEIGHT_BYTES / 2);
              wait_for(&weights_empty[stage], step / WEIGHT_STAGES % 2 ^ 1);
              expect_bytes(&weights_full[stage], PARTS * WEIGHT_BYTES);
#pragma unroll
              for (int part = 0; part < PARTS; part++)
                tma_load_3d(to + part * WEIGHT_BYTES, weight_map, &weights_full[stage], channel, i0 + rank * (TILE_I / 2),
                            part * TAPS_2 + tap, 3);
            }
          }
        }
      }
    }
  } else {
    MORE_REGISTERS(232);
    const int group = tid / 128 - 1;
    for (int tile = blockIdx.x / 2; tile < TILES_I * TILES_W * TILES_H; tile += clusters) {
      float c[SUMS], small[SUMS], large[SUMS];
#pragma unroll
      for (int k = 0; k < SUMS; k++) c[k] = small[k] = large[k] = 0.0f;
      for (int own = 0; own < SLICES; own++, slice++) {
        wait_for(&box_full[slice % BOXES], slice / BOXES % 2);
        const char *box = boxes + slice % BOXES * BOX_STRIDE;
        for (int tap = 0; tap < TAPS_2; tap++, step++) {
          const int stage = step % WEIGHT_STAGES, offset = (tap % TAPS * BOX_H + tap / TAPS) * LINE;
          wait_for(&weights_full[stage], step / WEIGHT_STAGES % 2);
          const char *filters = weights + stage * PARTS * WEIGHT_BYTES + group * (WEIGHT_BYTES / 2);
          const unsigned long long a_high = descriptor(filters), a_low = descriptor(filters + WEIGHT_BYTES);
          const unsigned long long b_high = descriptor(box + offset, BOX_H * LINE);
          const unsigned long long b_low = descriptor(box + BOX_BYTES + offset, BOX_H * LINE);
          wgmma_begin();
#pragma unroll
          for (int k = 0; k < DEPTH / PRODUCT_DEPTH; k++) {
            product(small, along_lines(a_low, k), along_lines(b_high, k), k > 0);
            product(small, along_lines(a_high, k), along_lines(b_low, k), true);
          }
          wgmma_commit();
#pragma unroll
          for (int k = 0; k < DEPTH / PRODUCT_DEPTH; k++) product(large, along_lines(a_high, k), along_lines(b_high, k), k > 0);
          wgmma_commit();
          wgmma_wait_but_one();
          written(small);
#pragma unroll
          for (int k = 0; k < SUMS; k++) c[k] = fmaf(small[k], 1.0f / SPLIT_SCALE, c[k]);
          wgmma_wait_all();
          if (tid % 128 < 2) arrive_at(&weights_empty[stage], tid % 128);
          written(large);
#pragma unroll
          for (int k = 0; k < SUMS; k++) c[k] += large[k];
        }
        if (tid % 128 == 0) arrive_at(&box_empty[slice % BOXES], rank);
      }
      store_pooled(c, tile % TILES_I * TILE_I + group * 64, (tile / TILES_I / TILES_W * 2 + rank) * TILE_H,
                   tile / TILES_I % TILES_W * TILE_W, bias, out);
    }
  }
  sync_cluster();
}
