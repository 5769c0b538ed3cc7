// Convolution, ReLU and pooling with every product computed, by Hopper's warpgroup products in int8 with exact sums in int32.
//
// A tile is TILE_H x 8 outputs of 64 filters. Its sums take STEPS steps: a step multiplies the weights of one tap and one slice of 128
// channels by the pixels under this tap, in products of 32 channels. PARTS blocks of a cluster share the steps of a tile. At the end each
// block holds partial sums of the whole tile. It finishes a part of the rows, and sends the other blocks its sums of theirs. A barrier
// in shared memory counts the bytes that arrive, so a block waits for the sums that it needs, not for all blocks of its cluster.
// SHARING neighbouring tiles of the same filters are in one cluster:
//
//   cluster with PARTS 2 and SHARING 2      tile 0        tile 1
//   first half of the steps                 block 0       block 2    need the same weights, fetched once for both
//   second half                             block 1       block 3    need the same weights
//                                           `- sums -'    `- sums -'
//
// A box holds the pixels of a tile in one slice of channels, with the border that the taps reach. Another kernel writes the boxes of
// all tiles to memory, swizzled as a product reads them. Pixels that neighbouring tiles share are in the box of each. So a box is one
// plain copy, and no map of the tensor has to be fetched before the first one.
//
// Of the 160 threads of a block, the first 128 are a warpgroup, which multiplies. Thread 128 fetches boxes and weights to shared memory.
// There the weights have a ring of stages, one for the weights of a step, and boxes have one place or two. A fetch waits for a product
// only if it overwrites what the product read. Blocks that share weights fetch them in turns, each always to the same stages.
//
// Weights, boxes and received sums have 230400 bytes of shared memory, 225 KB, at most. A block can have 227 KB, but needs up to 1 KB
// to align the weights for the swizzle, and less than 1 KB for the barriers.
//
// Knob TILE_H:  rows of outputs of a tile, 8, 16 or 32: the taller a tile, the more outputs a product computes from the weights it reads
// Knob PARTS:   blocks that share the steps of a tile: 1, 2, 4 or 8. The plan chooses PARTS and TILE_H so that blocks fill the
//               chip. Each block finishes two rows of outputs at least, which are one row of the pool: eight sums of a thread
// Knob SHARING: tiles whose blocks share weights: 1, 2, 4 or 8. A cluster has at most 8 blocks, so PARTS x SHARING is at most 8
// Knob LEFT_OUT: NOTHING
//                PRODUCTS_ALONE  operands are fetched, sums of zero are exchanged and stored: a probe
//                ALL_BUT_STORES  blocks store zeros and end: a probe
#include "layer.h"
#ifndef TILE_H
#define TILE_H 16
#endif
#ifndef PARTS
#define PARTS 2
#endif
#ifndef SHARING
#define SHARING 1
#endif
#ifndef LEFT_OUT
#define LEFT_OUT NOTHING
#endif
#define NOTHING 1
#define PRODUCTS_ALONE 2
#define ALL_BUT_STORES 3
#define TILE_I 64
#define TILE_W 8
#define SLICE 128
#define BARRIERS RELAXED
#include "hopper.h"
#define TAPS_2 (TAPS * TAPS)
#define SLICES ((DEPTH + SLICE - 1) / SLICE)
#define PRODUCTS (SLICES > 1 ? SLICE / 32 : (DEPTH + 31) / 32)
#define STEPS (SLICES * TAPS_2)
#define CLUSTER (PARTS * SHARING)
#define MOST_STEPS ((STEPS + PARTS - 1) / PARTS)
#define BOXES (SLICES < 2 ? 1 : 2)
#define BOX_H (TILE_H + TAPS - 1)
#define BOX_W (TILE_W + TAPS - 1)
#define BOX_BYTES (BOX_H * BOX_W * SLICE)
#define BOX_STRIDE ((BOX_BYTES + SWIZZLE_BLOCK - 1) / SWIZZLE_BLOCK * SWIZZLE_BLOCK)
#define BOX_LINE (SLICE / 16)
#define WEIGHT_BYTES (TILE_I * SLICE)
#define SUMS (TILE_H * TILE_W / 2)
#define OWN (SUMS / PARTS)
#define MOST_PARTS (SUMS / 8)
#define RECEIVED_BYTES ((PARTS - 1) * OWN * 128 * 4)
#define MOST_SHARED_BYTES 230400
#define STAGES_THAT_FIT ((MOST_SHARED_BYTES - BOXES * BOX_STRIDE - RECEIVED_BYTES) / WEIGHT_BYTES)
#define STAGES (MOST_STEPS < STAGES_THAT_FIT ? MOST_STEPS : STAGES_THAT_FIT / SHARING * SHARING)
#define SHARED_BYTES (STAGES * WEIGHT_BYTES + BOXES * BOX_STRIDE + RECEIVED_BYTES)
#define TILES_ACROSS ((SIZE + TILE_W - 1) / TILE_W)
#define TILES_DOWN ((SIZE + TILE_H - 1) / TILE_H)
#define TILES (TILES_ACROSS * TILES_DOWN)
#define COLUMN_BLOCKS ((BOX_W + 31) / 32)

// x (channel, row, column) -> pixels (slice, tile, row, column, channel) as bytes, padded with zeros: the boxes of all tiles. A block
// transposes 32 columns of one row of a box, or what the row has.
KERNEL_OF(256, 4) void to_pixels(const short *RESTRICT x, unsigned int *RESTRICT pixels) {
  __shared__ short transposed[SLICE][34];
  const int tid = threadIdx.x, row = blockIdx.y, first_channel = blockIdx.z * SLICE, w0 = blockIdx.x % COLUMN_BLOCKS * 32;
  const int tile = blockIdx.x / COLUMN_BLOCKS, h = tile / TILES_ACROSS * TILE_H + row, w = tile % TILES_ACROSS * TILE_W + w0;
  for (int k = tid; k < SLICE * 32; k += 256) {
    const int j = first_channel + k / 32, column = w + k % 32;
    transposed[k / 32][k % 32] = j < DEPTH && h < X_ROW && column < X_ROW ? x[X_AT(j, h, column)] : 0;
  }
  __syncthreads();
  for (int k = tid; k < 32 * SLICE / 4; k += 256) {
    const int across = k / (SLICE / 4), column = w0 + across, j = k % (SLICE / 4) * 4;
    if (column < BOX_W) {
      unsigned int word = 0;
      for (int b = 0; b < 4; b++) word |= (transposed[j + b][across] & 255u) << 8 * b;
      const int line = row * BOX_W + column, box = blockIdx.z * TILES + tile;
      pixels[(box * BOX_BYTES + line * SLICE + swizzled_128b(line, j)) / 4] = word;
    }
  }
}

#include "weight_tiles.inc"

#include "cluster_barrier.h"

// Returns the address of the same place in the shared memory of block `rank` of the cluster.
DEVICE unsigned in_block(const void *shared, int rank) {
  unsigned remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address(shared)), "r"(rank));
  return remote;
}

// Stores 16 bytes in the shared memory of another block, by st.async (9.7.9.12). That block's barrier counts them once they are there.
DEVICE void store_counted(unsigned to, unsigned barrier, int a, int b, int c, int d) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to), "r"(a),
               "r"(b), "r"(c), "r"(d), "r"(barrier) : "memory");
}

// Waits until the barrier has counted the bytes that other blocks of the cluster store, and makes them visible to this thread.
DEVICE void wait_for_stores(unsigned long long *barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n\t}" ::"r"(address(barrier)), "r"(parity) : "memory");
}

#if SHARING > 1
#define BLOCKS_OF_PART_0 (((1 << CLUSTER) - 1) / ((1 << PARTS) - 1))

// Fetches the weights of a step to the same place in all blocks that compute `part`, and counts their bytes at the barrier of each. The
// last operand has bit b for block b of the cluster. For part 0 every PARTS-th bit is set: 0101 with PARTS 2 and SHARING 2.
DEVICE void fetch_weights(void *to, const void *from, unsigned long long *barrier, int part) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(address(to)),
      "l"(__cvta_generic_to_global(from)), "r"(WEIGHT_BYTES), "r"(address(barrier)), "h"((unsigned short)(BLOCKS_OF_PART_0 << part))
      : "memory");
}
#else
// Fetches the weights of a step, and counts their bytes at the barrier.
DEVICE void fetch_weights(void *to, const void *from, unsigned long long *barrier, int part) {
  tma_load_bytes(to, from, WEIGHT_BYTES, barrier);
}
#endif

// Fetches a box, and has the barrier wait for its bytes.
DEVICE void fetch_box(char *box, const char *from, unsigned long long *barrier) {
  expect_bytes(barrier, BOX_BYTES);
  tma_load_bytes(box, from, BOX_BYTES, barrier);
}

#include "tile_product.inc"

// A row of the sums (picture in hopper.h) is a filter, and column 8 j + n is pixel (row j, column n) of the tile:
//
//   thread's c    row 0: c[0] c[1] | row 1: c[4] c[5] | ...  | row 15: c[60] c[61]    of filter i, with TILE_H 16
//                        c[2] c[3] |        c[6] c[7] | ...  |         c[62] c[63]    of filter i + 8
//
// So c[0], c[1], c[4] and c[5] are a window of the pool. Part p finishes the OWN sums from c[p * OWN] on. Each thread gets the other
// parts' values of these sums from the threads of the same number in their blocks, four in a store. The other parts are numbered from 0
// to PARTS - 2: received[(n * OWN / 4 + k) * 128 + tid] are sums 4 k to 4 k + 3 of those OWN sums, from the n-th of them.
KERNEL_OF(160, 1) __cluster_dims__(CLUSTER) void tensor(const char *RESTRICT taps, const char *RESTRICT pixels, int *RESTRICT out) {
#if LEFT_OUT == ALL_BUT_STORES
  const int block = blockIdx.y * gridDim.x + blockIdx.x;
  for (int i = block * blockDim.x + threadIdx.x; i < OUT_AT(FILTERS, 0, 0); i += gridDim.x * gridDim.y * blockDim.x) out[i] = 0;
#else
  extern __shared__ char shared_memory[];
  constexpr int stages = STAGES;
  // Whether stages are used again, and whether places of boxes are. Then the warpgroup tells the fetching thread when a place is free.
  constexpr bool stages_reused = stages < MOST_STEPS, boxes_reused = BOXES < SLICES;
  __shared__ unsigned long long weights_full[stages], weights_empty[stages], box_full[BOXES], box_empty[BOXES], sums_full;
  char *weights = aligned_for_swizzle(shared_memory), *boxes = weights + stages * WEIGHT_BYTES;
  int4 *received = (int4 *)(boxes + BOXES * BOX_STRIDE);
  const int tid = threadIdx.x, rank = rank_in_cluster(), part = rank % PARTS, tile_in_cluster = rank / PARTS;
  // The last cluster may have blocks without a tile. They compute the first tile, and write no output.
  const int tile = blockIdx.x / PARTS, tile_or_first = tile < TILES ? tile : 0;
  const int first_step = part * STEPS / PARTS, steps = (part + 1) * STEPS / PARTS - first_step, first_slice = first_step / TAPS_2;
  if (tid == 128) {
    INIT_RING(box_full, box_empty, BOXES, 1)
    INIT_RING(weights_full, weights_empty, stages, SHARING)
    init_barrier(&sums_full, 1);
    publish_barriers();
#pragma unroll 1
    for (int stage = 0; stage < stages && stage < steps; stage++) expect_bytes(&weights_full[stage], WEIGHT_BYTES);
    expect_bytes(&sums_full, RECEIVED_BYTES);
  }
  __syncthreads();
  arrive_in_cluster();  // who waits for the cluster knows that the barriers of all blocks are ready for copies and stores
  if (tid >= 128) {
    const char *box_of_slice = pixels + (first_slice * TILES + tile_or_first) * BOX_BYTES;
    const char *weights_of_step = taps + (blockIdx.y * STEPS + first_step) * WEIGHT_BYTES;
    if (tid == 128 && steps > 0) fetch_box(boxes, box_of_slice, &box_full[0]);
    __syncwarp();
    if (SHARING > 1) wait_for_cluster();
    if (tid == 128) {
#pragma unroll 1
      for (int step = 0; step < steps; step++, weights_of_step += WEIGHT_BYTES) {
        const int slice = (first_step + step) / TAPS_2 - first_slice, tap = (first_step + step) % TAPS_2, stage = step % stages;
        if (step > 0 && tap == 0) {
          const int box = slice % BOXES;
          box_of_slice += TILES * BOX_BYTES;
          if (slice >= BOXES) wait_for(&box_empty[box], (slice / BOXES - 1) % 2);
          fetch_box(boxes + box * BOX_STRIDE, box_of_slice, &box_full[box]);
        }
        if (step % SHARING == tile_in_cluster) {
          if (step >= stages) wait_for(&weights_empty[stage], (step / stages - 1) % 2);
          fetch_weights(weights + stage * WEIGHT_BYTES, weights_of_step, &weights_full[stage], part);
        }
      }
    }
    __syncwarp();
    if (SHARING == 1) wait_for_cluster();
  } else {
    int c[SUMS] = {};
    int tap = first_step % TAPS_2, stage = 0, box = 0, parity = 0, box_parity = 0;
    // A descriptor counts in units of 16 bytes. From a pixel of a box to the next it is a line, 128 bytes for the channels of the pixel.
    unsigned long long b = descriptor(boxes + (tap / TAPS * BOX_W + tap % TAPS) * SLICE, BOX_W * SLICE);
    int across = tap % TAPS;
    if (steps > 0) wait_for(&box_full[0], 0);
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
      wait_for(&weights_full[stage], parity);
#if LEFT_OUT == NOTHING
      const unsigned long long a = descriptor(weights + stage * WEIGHT_BYTES);
      wgmma_begin();
#pragma unroll
      for (int k = 0; k < PRODUCTS; k++) product(c, along_lines(a, k), along_lines(b, k));
      wgmma_commit();
#endif
      if (step > 0 && (stages_reused || (boxes_reused && tap == 0))) {
        wgmma_wait_but_one();
        if (tid == 0 && stages_reused && step - 1 + stages < steps) {
          const int previous = stage == 0 ? stages - 1 : stage - 1;
          expect_bytes(&weights_full[previous], WEIGHT_BYTES);
          arrive_at(&weights_empty[previous], (step - 1 + stages) % SHARING * PARTS + part);
        }
        if (tid == 0 && tap == 0) arrive_at(&box_empty[box == 0 ? BOXES - 1 : box - 1], rank);
      }
      if (++stage == stages) stage = 0, parity ^= 1;
      b += BOX_LINE;
      if (++across == TAPS) across = 0, b += (BOX_W - TAPS) * BOX_LINE;
      if (++tap == TAPS_2) {
        tap = 0;
        if (++box == BOXES) box = 0, box_parity ^= 1;
        b = descriptor(boxes + box * BOX_STRIDE, BOX_W * SLICE);
        if (step + 1 < steps) wait_for(&box_full[box], box_parity);
      }
    }
    wgmma_wait_all();
    wait_for_cluster();
    int own[OWN];
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
      if (p == part) {
#pragma unroll
        for (int k = 0; k < OWN; k++) own[k] = c[p * OWN + k];
      } else {
        const int n = part < p ? part : part - 1;  // this part's number among the other parts of p
        const unsigned sums_there = in_block(received + n * OWN / 4 * 128 + tid, tile_in_cluster * PARTS + p);
        const unsigned barrier_there = in_block(&sums_full, tile_in_cluster * PARTS + p);
#pragma unroll
        for (int k = p * OWN; k < (p + 1) * OWN; k += 4) {
          store_counted(sums_there + (k - p * OWN) / 4 * 128 * 16, barrier_there, c[k], c[k + 1], c[k + 2], c[k + 3]);
        }
      }
    }
    wait_for_stores(&sums_full, 0);
#pragma unroll
    for (int k = 0; k < (PARTS - 1) * OWN; k += 4) {
      const int4 sums = received[k / 4 * 128 + tid];
      own[k % OWN] += sums.x;
      own[k % OWN + 1] += sums.y;
      own[k % OWN + 2] += sums.z;
      own[k % OWN + 3] += sums.w;
    }
    const int column = tile % TILES_ACROSS * (TILE_W / 2) + tid % 4, i = SUM_ROW(blockIdx.y * TILE_I, tid);
#pragma unroll
    for (int k = 0; k < OWN; k += 8) {
      const int row = tile / TILES_ACROSS * (TILE_H / 2) + part * (TILE_H / PARTS / 2) + k / 8;
      const int left = LARGER(LARGER(own[k], own[k + 1]), LARGER(own[k + 4], own[k + 5]));
      const int right = LARGER(LARGER(own[k + 2], own[k + 3]), LARGER(own[k + 6], own[k + 7]));
      if (tile < TILES && row < SIZE / 2 && column < SIZE / 2) {
        if (i < FILTERS) out[OUT_AT(i, row, column)] = LARGER(left, 0);
        if (i + 8 < FILTERS) out[OUT_AT(i + 8, row, column)] = LARGER(right, 0);
      }
    }
  }
#endif
}
