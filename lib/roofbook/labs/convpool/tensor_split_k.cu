// Convolution, ReLU and pooling with every product computed, by Hopper's warpgroup products in int8 with exact sums in int32. Two
// blocks form a cluster for 64 filters by TILE_H x 8 outputs. Each computes half of the steps (a step is a slice of channels at one tap),
// so that all its weights fit shared memory and no copy waits for a product. At the end each block sends the other the sums of half
// of the rows, and finishes its own half.
//
// Knob TILE_H: rows of outputs of a block, 16 or 32: with 32 a product reads its weights for twice as many outputs
#include "layer.h"
#ifndef TILE_H
#define TILE_H 16
#endif
#define TILE_I 64
#define TILE_W 8
#define SLICE 128
#define HALVES 2
#define BARRIERS RELAXED
#include "hopper.h"
#include "tensor_map.h"
#define TAPS_2 (TAPS * TAPS)
#define SLICES ((DEPTH + SLICE - 1) / SLICE)
#define STEPS (SLICES * TAPS_2)
#define MOST_STEPS ((STEPS + HALVES - 1) / HALVES)
#define MOST_SLICES (SLICES - STEPS / HALVES / TAPS_2)
#define SIDE_W (TILE_W + TAPS - 1)
#define BOX_BYTES ((TILE_H + TAPS - 1) * SIDE_W * SLICE)
#define BOX_STRIDE ((BOX_BYTES + SWIZZLE_BLOCK - 1) / SWIZZLE_BLOCK * SWIZZLE_BLOCK)
#define BOXES (MOST_SLICES < 2 ? MOST_SLICES : 2)
#define WEIGHT_BYTES (TILE_I * SLICE)
#define SUMS (TILE_H * TILE_W / 2)
#define SENT (SUMS / HALVES)
#define SHARED_BYTES 230400
#define TILES_THAT_FIT ((SHARED_BYTES - BOXES * BOX_STRIDE - SENT * 128 * 4) / WEIGHT_BYTES)
#define STAGES (MOST_STEPS < TILES_THAT_FIT ? MOST_STEPS : TILES_THAT_FIT)
#define TILES_ACROSS ((SIZE + TILE_W - 1) / TILE_W)
#include "bytes.inc"

#include "weight_tiles.inc"

#include "cluster_barrier.h"

// Stores at the same offset in the shared memory of block `rank` of the cluster.
DEVICE void send(int4 *shared, int rank, int a, int b, int c, int d) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "st.shared::cluster.v4.b32 [remote], {%2, %3, %4, %5};\n\t}" ::"r"(address(shared)), "r"(rank), "r"(a), "r"(b), "r"(c), "r"(d)
      : "memory");
}

#include "tile_product.inc"

// A row of the sums (picture in hopper.h) is a filter, and column 8 j + n is pixel (row j, column n) of the tile:
//
//   thread's c    row 0: c[0] c[1] | row 1: c[4] c[5] | ...  | row 15: c[60] c[61]    of filter i, with TILE_H 16
//                        c[2] c[3] |        c[6] c[7] | ...  |         c[62] c[63]    of filter i + 8
//                 `-------- block 0 finishes rows 0 to 7, block 1 rows 8 to 15 ------'
//
// So c[0], c[1], c[4] and c[5] are a window of the pool. A block sends the SENT sums of the other's rows, four a store, from thread to
// thread: received[n * 128 + tid] are c[4 n] to c[4 n + 3] of the half that this block finishes.
KERNEL_OF(160, 1) __cluster_dims__(HALVES) void tensor(const char *RESTRICT taps, const void *pixel_map, int *RESTRICT out) {
  extern __shared__ char whole[];
  __shared__ unsigned long long weights_full[STAGES], weights_empty[STAGES], box_full[BOXES], box_empty[BOXES];
  char *weights = aligned_for_swizzle(whole), *boxes = weights + STAGES * WEIGHT_BYTES;
  int4 *received = (int4 *)(boxes + BOXES * BOX_STRIDE);
  const int tid = threadIdx.x, rank = rank_in_cluster(), place = blockIdx.x / HALVES;
  const int h0 = place / TILES_ACROSS * TILE_H, w0 = place % TILES_ACROSS * TILE_W;
  const int first = rank * STEPS / HALVES, steps = (rank + 1) * STEPS / HALVES - first, first_slice = first / TAPS_2;
  if (tid == 128) {
    INIT_RING(box_full, box_empty, BOXES, 1)
    INIT_RING(weights_full, weights_empty, STAGES, 1)
    publish_barriers();
  }
  __syncthreads();
  arrive_in_cluster();
  if (tid >= 128) {
    if (tid == 128) {
      acquire_map(pixel_map);
      const char *from = taps + (blockIdx.y * STEPS + first) * WEIGHT_BYTES;
      for (int step = 0; step < steps; step++) {
        const int slice = (first + step) / TAPS_2 - first_slice, tap = (first + step) % TAPS_2, stage = step % STAGES;
        if (step == 0 || tap == 0) {
          const int box = slice % BOXES;
          if (slice >= BOXES) wait_for(&box_empty[box], (slice / BOXES - 1) % 2);
          expect_bytes(&box_full[box], BOX_BYTES);
          tma_load_3d(boxes + box * BOX_STRIDE, pixel_map, &box_full[box], (first_slice + slice) * SLICE / 2, w0, h0, 0);
        }
        if (step >= STAGES) wait_for(&weights_empty[stage], (step / STAGES - 1) % 2);
        expect_bytes(&weights_full[stage], WEIGHT_BYTES);
        tma_load_bytes(weights + stage * WEIGHT_BYTES, from + step * WEIGHT_BYTES, WEIGHT_BYTES, &weights_full[stage]);
      }
    }
    __syncwarp();
    wait_for_cluster();
    sync_cluster();
  } else {
    int c[SUMS] = {};
    for (int step = 0; step < steps; step++) {
      const int slice = (first + step) / TAPS_2 - first_slice, tap = (first + step) % TAPS_2, stage = step % STAGES;
      if (step == 0 || tap == 0) wait_for(&box_full[slice % BOXES], slice / BOXES % 2);
      wait_for(&weights_full[stage], step / STAGES % 2);
      const char *box = boxes + slice % BOXES * BOX_STRIDE + (tap / TAPS * SIDE_W + tap % TAPS) * SLICE;
      const unsigned long long a = descriptor(weights + stage * WEIGHT_BYTES), b = descriptor(box, SIDE_W * SLICE);
      wgmma_begin();
#pragma unroll
      for (int k = 0; k < SLICE / 32; k++) product(c, along_lines(a, k), along_lines(b, k));
      wgmma_commit();
      if (step > 0) {
        wgmma_wait_but_one();
        if (tid == 0 && step - 1 + STAGES < steps) arrive_at(&weights_empty[(step - 1) % STAGES], rank);
        if (tid == 0 && tap == 0) arrive_at(&box_empty[(slice - 1) % BOXES], rank);
      }
    }
    wgmma_wait_all();
    wait_for_cluster();
#pragma unroll
    for (int k = 0; k < SENT; k += 4) {
      const int r = rank == 0, *theirs = c + k;
      send(received + k / 4 * 128 + tid, rank ^ 1, r ? theirs[SENT] : theirs[0], r ? theirs[SENT + 1] : theirs[1],
           r ? theirs[SENT + 2] : theirs[2], r ? theirs[SENT + 3] : theirs[3]);
    }
    sync_cluster();
    const int column = w0 / 2 + tid % 4;
#pragma unroll
    for (int k = 0; k < SENT; k += 8) {
      const int4 upper = received[k / 4 * 128 + tid], lower = received[(k / 4 + 1) * 128 + tid];
      int own[8];
#pragma unroll
      for (int n = 0; n < 8; n++) own[n] = rank == 0 ? c[k + n] : c[SENT + k + n];
      const int i = SUM_ROW(blockIdx.y * TILE_I, tid), row = h0 / 2 + rank * (TILE_H / 4) + k / 8;
      const int left = LARGER(LARGER(own[0] + upper.x, own[1] + upper.y), LARGER(own[4] + lower.x, own[5] + lower.y));
      const int right = LARGER(LARGER(own[2] + upper.z, own[3] + upper.w), LARGER(own[6] + lower.z, own[7] + lower.w));
      if (row < SIZE / 2 && column < SIZE / 2) {
        if (i < FILTERS) out[OUT_AT(i, row, column)] = LARGER(left, 0);
        if (i + 8 < FILTERS) out[OUT_AT(i + 8, row, column)] = LARGER(right, 0);
      }
    }
  }
}
