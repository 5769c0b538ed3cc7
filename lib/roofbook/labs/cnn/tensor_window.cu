// Convolution as an implicit matrix product on Hopper's tensor cores. Clusters of two blocks compute 128 filters by 16 x 32 pixels,
// share the weights, and take one tile after another. In a block two threads have TMA fetch weights and pixels; two warpgroups
// multiply 64 filters each. A box of 64 channels has rows and columns for all taps; a tap reads it from an offset on. The box
// lies column by column in shared memory: eight rows of a column are the eight lines of 128 bytes that a matrix product takes
// together, and the next eight lines begin one column further:
//
//   column 0: row 0 | row 1 | ... | row BOX_H - 1    a row is a line of 128 bytes, the 64 channels of a pixel
//   column 1: row 0 | row 1 | ...                    tap (p, q) begins q columns and p rows further on
//
// Knob WAITS: BUT_ONE  a warpgroup issues a tap's products while its last are computed; products of both warpgroups interleave
//             ALL      it waits for its products while the other warpgroup's are computed: the two take turns
// Knob TWICE: NOTHING   everything is done once
//             LOADS     boxes and weights are fetched twice, to the same place
//             STORES    results are written twice
//             PRODUCTS  each product is added twice, and the sums are halved
#ifndef WAITS
#define WAITS BUT_ONE
#endif
#define BUT_ONE 1
#define ALL 2
#ifndef TWICE
#define TWICE NOTHING
#endif
#define NOTHING 1
#define LOADS 2
#define STORES 3
#define PRODUCTS 4
#include "layer.h"
#define MULTICAST 1
#include "operands.h"
#include "tensor_map.h"
#if OPERANDS == TF32
#include "product_tf32.h"
#else
#include "to_operands.h"
#endif
#define SLICES (PADDED_CHANNELS / DEPTH)
#define BOX_H (TILE_H + TAPS - 1)
#define BOX_BYTES (BOX_H * (TILE_W + TAPS - 1) * LINE)
#define BOX_STRIDE ((BOX_BYTES + SWIZZLE_BLOCK - 1) / SWIZZLE_BLOCK * SWIZZLE_BLOCK)
#define WEIGHT_BYTES (TILE_I * LINE)
#define BOXES 2
#define WEIGHT_STAGES ((STAGES_BYTES - BOXES * BOX_STRIDE) / WEIGHT_BYTES)
#define STAGES_BYTES 230400
#define ONCE(...) __VA_ARGS__
#define AGAIN(...) { __VA_ARGS__; asm volatile("" ::: "memory"); __VA_ARGS__; }
#define FETCHED(bytes) bytes
#define FETCH ONCE
#define STORE ONCE
#define MULTIPLY ONCE
#define HALVE_IF_TWICE
#if TWICE == LOADS
#undef FETCHED
#define FETCHED(bytes) (2 * (bytes))
#undef FETCH
#define FETCH AGAIN
#elif TWICE == STORES
#undef STORE
#define STORE AGAIN
#elif TWICE == PRODUCTS
#undef MULTIPLY
#define MULTIPLY AGAIN
#undef HALVE_IF_TWICE
#define HALVE_IF_TWICE for (int k = 0; k < 128; k++) c[k] *= 0.5f;
#endif
#define TILES_I (PADDED_FILTERS / TILE_I)
#define TILES_W ((WIDTH + TILE_W - 1) / TILE_W)
#define TILES_H ((HEIGHT + 2 * TILE_H - 1) / (2 * TILE_H))

#include "pooled_columns.h"

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
            expect_bytes(&box_full[stage], FETCHED(BOX_BYTES));
            FETCH(tma_load_3d(boxes + stage * BOX_STRIDE, pixel_map, &box_full[stage], channel, h0, w0, 1 << rank));
            slice++;
          } else {
            for (int tap = 0; tap < TAPS_2; tap++, step++) {
              const int stage = step % WEIGHT_STAGES;
              wait_for(&weights_empty[stage], step / WEIGHT_STAGES % 2 ^ 1);
              expect_bytes(&weights_full[stage], FETCHED(WEIGHT_BYTES));
              FETCH(tma_load_3d(weights + stage * WEIGHT_BYTES + rank * (WEIGHT_BYTES / 2), weight_map, &weights_full[stage],
                                channel, i0 + rank * (TILE_I / 2), tap, 3));
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
      for (int own = 0; own < SLICES; own++, slice++) {
        wait_for(&box_full[slice % BOXES], slice / BOXES % 2);
        for (int tap = 0; tap < TAPS_2; tap++, step++) {
          const int stage = step % WEIGHT_STAGES, offset = (tap % TAPS * BOX_H + tap / TAPS) * LINE;
          wait_for(&weights_full[stage], step / WEIGHT_STAGES % 2);
          const unsigned long long a = descriptor(weights + stage * WEIGHT_BYTES + group * (WEIGHT_BYTES / 2));
          const unsigned long long b = descriptor(boxes + slice % BOXES * BOX_STRIDE + offset, BOX_H * LINE);
          wgmma_begin();
#pragma unroll
          for (int k = 0; k < DEPTH / PRODUCT_DEPTH; k++) MULTIPLY(product(c, along_lines(a, k), along_lines(b, k)));
          wgmma_commit();
#if WAITS == ALL
          wgmma_wait_all();
          if (tid % 128 < 2) arrive_at(&weights_empty[stage], tid % 128);
          if (tap == TAPS_2 - 1 && tid % 128 == 0) arrive_at(&box_empty[slice % BOXES], rank);
#else
          if (own + tap > 0) {
            wgmma_wait_but_one();
            if (tid % 128 < 2) arrive_at(&weights_empty[(step - 1) % WEIGHT_STAGES], tid % 128);
            if (tap == 0 && tid % 128 == 0) arrive_at(&box_empty[(slice - 1) % BOXES], rank);
          }
#endif
        }
      }
#if WAITS == BUT_ONE
      wgmma_wait_all();
      if (tid % 128 < 2) arrive_at(&weights_empty[(step - 1) % WEIGHT_STAGES], tid % 128);
      if (tid % 128 == 0) arrive_at(&box_empty[(slice - 1) % BOXES], rank);
#endif
      HALVE_IF_TWICE
      STORE(store_pooled(c, tile % TILES_I * TILE_I + group * 64, (tile / TILES_I / TILES_W * 2 + rank) * TILE_H,
                         tile / TILES_I % TILES_W * TILE_W, bias, out));
    }
  }
  sync_cluster();
}
