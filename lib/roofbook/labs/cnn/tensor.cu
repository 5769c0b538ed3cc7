// Convolution as an implicit matrix product on Hopper's tensor cores. A block computes 128 filters by 8 x 32 pixels:
//
//   warpgroup 0, one thread        has TMA fetch boxes of weights and of the shifted input into four stages of shared memory
//   warpgroups 1 and 2             multiply, 64 filters by 256 pixels each, with sums in registers; then bias, ReLU and pooling
//
// A stage holds 64 channels of one tap: weights (128 filters) and pixels (8 x 32). No matrix is unrolled in memory.
//
// Knob PRODUCTS: 1  one product an operand pair
//                3  operands split into two parts: low x high, high x low, then high x high: as exact as fp32
// Knob BLOCKS:   1  every block fetches all its operands
//                2  two blocks of the same pixels form a cluster: each fetches half of the pixels for both
//                4  two by two blocks: each also fetches half of the weights for the block of the same filters
#ifndef PRODUCTS
#define PRODUCTS 1
#endif
#ifndef BLOCKS
#define BLOCKS 1
#endif
#include "layer.h"
#define STAGES 4
#define PARTS ((PRODUCTS + 1) / 2)
#define SLICES (PADDED_CHANNELS / DEPTH)
#define STEPS (TAPS_2 * SLICES)
#define WEIGHT_BYTES (TILE_I * DEPTH * 2)
#define PIXEL_BYTES (TILE_H * TILE_W * DEPTH * 2)
#define STAGE_BYTES (WEIGHT_BYTES + PIXEL_BYTES)
#define WEIGHT_SHARE (BLOCKS == 4 ? 2 : 1)
#define PIXEL_SHARE (BLOCKS == 1 ? 1 : 2)
#define SHARERS (BLOCKS == 4 ? 3 : BLOCKS)
#if BLOCKS == 1
#define CLUSTER
#else
#define CLUSTER __cluster_dims__(2, 1, BLOCKS / 2)
#define MULTICAST 1
#endif
#include "tensor_map.h"
#include "to_operands.h"
#include "pooled.h"

KERNEL_OF(384, 1) CLUSTER void tensor(const void *weight_map, const void *pixel_map, const float *RESTRICT bias,
                                      float *RESTRICT out) {
  extern __shared__ char whole[];
  __shared__ unsigned long long full[STAGES], empty[STAGES];
  char *stages = aligned_for_swizzle(whole);
  const int tid = threadIdx.x, rank = BLOCKS == 1 ? 0 : rank_in_cluster();
  const int filter_rank = rank % 2, pixel_rank = rank / 2;
  const int i0 = blockIdx.x * TILE_I, w0 = blockIdx.y * TILE_W, h0 = blockIdx.z * TILE_H;
  if (tid == 0) {
    INIT_RING(full, empty, STAGES, 2 * SHARERS)
    publish_barriers();
  }
  __syncthreads();
  sync_cluster();
  if (tid < 128) {
    FEWER_REGISTERS(40);
    if (tid == 0) {
      acquire_map(weight_map);
      acquire_map(pixel_map);
      for (int step = 0; step < PRODUCTS * STEPS; step++) {
        const int stage = step % STAGES, pass = step / STEPS, tap = step % STEPS / SLICES;
        const int channel = step % SLICES * DEPTH;
        const int weight_part = PRODUCTS == 3 && pass == 0, pixel_part = PRODUCTS == 3 && pass == 1;
        char *weights = stages + stage * STAGE_BYTES, *pixels = weights + WEIGHT_BYTES;
        wait_for(&empty[stage], step / STAGES % 2 ^ 1);
        expect_bytes(&full[stage], STAGE_BYTES);
        tma_load_3d(weights + pixel_rank * (WEIGHT_BYTES / WEIGHT_SHARE), weight_map, &full[stage], channel,
                    i0 + pixel_rank * (TILE_I / WEIGHT_SHARE), weight_part * TAPS_2 + tap,
                    BLOCKS == 4 ? 5 << filter_rank : 1 << rank);
        tma_load_4d(pixels + filter_rank * (PIXEL_BYTES / PIXEL_SHARE), pixel_map, &full[stage], channel, w0 + tap % TAPS,
                    h0 + tap / TAPS + filter_rank * (TILE_H / PIXEL_SHARE), pixel_part, 3 << 2 * pixel_rank);
      }
    }
  } else {
    MORE_REGISTERS(232);
    const int group = tid / 128 - 1;
    float c[128];
#pragma unroll
    for (int k = 0; k < 128; k++) c[k] = 0.0f;
    for (int step = 0; step < PRODUCTS * STEPS; step++) {
      const int stage = step % STAGES;
      if (PRODUCTS == 3 && step == 2 * STEPS) {
        wgmma_wait_all();
#pragma unroll
        for (int k = 0; k < 128; k++) c[k] *= 1.0f / SPLIT_SCALE;
      }
      wait_for(&full[stage], step / STAGES % 2);
      const char *weights = stages + stage * STAGE_BYTES;
      const unsigned long long a = descriptor(weights + group * (WEIGHT_BYTES / 2)), b = descriptor(weights + WEIGHT_BYTES);
      wgmma_begin();
#pragma unroll
      for (int k = 0; k < DEPTH / 16; k++) product(c, along_lines(a, k), along_lines(b, k));
      wgmma_commit();
      if (step > 0) {
        wgmma_wait_but_one();
        if (tid % 128 < SHARERS) arrive_at(&empty[(step - 1) % STAGES], rank ^ tid % 128);
      }
    }
    wgmma_wait_all();
    store_pooled(c, i0 + group * 64, h0, w0, bias, out);
  }
  sync_cluster();
}
