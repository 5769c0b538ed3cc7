// A block of the kernel of roles: the numbers of its warpgroups, the sizes of all layers, and the places of operands, maps,
// weights and barriers in shared memory.
//
// Operands of products: a place is 16 bytes, 8 pixels of one channel (layer 1) or 2 pixels of four channels (layer 2). A column
// of a product is a place and the one after it, so columns overlap, and nothing is unrolled. Even rows of an image come first,
// then odd rows:
//
//   byte 0            row 0:  place 0 | place 1 | ...
//   byte PITCH        row 2:  ...
//   byte REMAINDER    row 1:  ...
//
// RING chunks of an array are in flight at once. DENSE_IMAGES images are a group: their scores are computed together. Sums of a
// group are where the tables of weights were, from which threads read their registers at the start.
#pragma once
#define BARRIERS RELAXED
#define WARPGROUPS 4
#include "register_product.h"
#include "warpgroup_operands.h"
#define CONV_1 0
#define CONV_2 1
#define INPUT 3
#define RING 4
#define DENSE_IMAGES 8
#define COLUMNS 88
#define PLACES_1 11
#define PITCH_1 (PLACES_1 * 16)
#define REMAINDER_1 (SIZE_1 / 2 * PITCH_1)
#define PIXELS_1 (2 * REMAINDER_1 + 128)
#define TILES_1 5
#define PAIRS_1 (COLUMNS / PLACES_1)
#define CHANNELS_2 4
#define SIZE_2 40
#define STEPS_2 16
#define PLACES_2 20
#define PITCH_2 (PLACES_2 * 16)
#define REMAINDER_2 (SIZE_2 / 2 * PITCH_2)
#define PIXELS_2 (2 * REMAINDER_2 + 256)
#define PAIRS_2 17
#define FILTERS_2 16
#define POOLED_2 9
#define VALUES (FILTERS_2 * POOLED_2 * POOLED_2)
#define CHUNKS 4
#define CHUNK_ROWS 22
#define CHUNK_FLOATS (CHUNK_ROWS * SIZE_1)
#define IMAGE_FLOATS (SIZE_1 * SIZE_1)
#define HIDDEN 32
#define CLASSES 10
#define DENSE_FLOATS (HIDDEN * VALUES)
#define DENSE_CHUNKS ((DENSE_FLOATS + CHUNK_FLOATS - 1) / CHUNK_FLOATS)
#define PADDED (TAPS + 2)
#define PAIRS_OF_ROW 12
#define WORDS_OF_1 (PADDED * PAIRS_OF_ROW)
#define WORDS_OF_2 (PADDED * PADDED * (CHANNELS_2 / 2))
#define INPUT_THREADS 96
#define INPUT_WARPS (INPUT_THREADS / 32)
#define ALL_WARPS (INPUT * 4 + INPUT_WARPS)
#define IN_PAIR (SIZE_1 / 2)
#define SLOTS 2
#define SUM_SLOTS 2
#define WARPS_2 8
#define BEHIND 2
#define SPREAD 4
#if SPREAD > DENSE_IMAGES
#error "a group waits for weights that come after its images"
#endif
#if RING < CHUNKS
#error "an image in the ring before its readers are there"
#endif
#define FOURS_OF_THREAD ((CHUNK_FLOATS / 4 + INPUT_THREADS - 1) / INPUT_THREADS)
#if ALL_WARPS * DENSE_IMAGES * HIDDEN * 4 > SLOTS * PIXELS_1
#error "no room for the sums of all warps"
#endif
#define PARTIAL_FLOATS (WARPS_2 * DENSE_IMAGES * HIDDEN)
#define PIXELS_AT 0
#define POOLED_AT (PIXELS_AT + SLOTS * PIXELS_1)
#define MAPS_AT (POOLED_AT + SLOTS * PIXELS_2)
#define DENSE_AT (MAPS_AT + DENSE_IMAGES * VALUES * 4)
#define RING_AT (DENSE_AT + DENSE_FLOATS * 2)
#define KERNELS_1_AT (RING_AT + RING * CHUNK_FLOATS * 4)
#define KERNELS_2_AT (KERNELS_1_AT + 2 * FILTERS_1 * WORDS_OF_1 * 4)
#define PARTIAL_AT KERNELS_1_AT
#define LAST_AT (PARTIAL_AT + SUM_SLOTS * PARTIAL_FLOATS * 4)
#if KERNELS_2_AT + FILTERS_2 * WORDS_OF_2 * 4 > LAST_AT
#error "no room for the tables of weights"
#endif
#define BARRIERS_AT (LAST_AT + CLASSES * HIDDEN * 4)
#define BARRIERS_OF_INPUT (RING + SLOTS * CHUNKS + SUM_SLOTS + 1)
#define BARRIERS_OF_1 (SLOTS * (TILES_1 + 1))
#define BARRIERS_OF_2 (SLOTS + SUM_SLOTS)
#define BARRIERS_NUMBER (RING + BARRIERS_OF_INPUT + BARRIERS_OF_1 + BARRIERS_OF_2)
#define SHARED_BYTES (BARRIERS_AT + BARRIERS_NUMBER * 8)

// The barriers of a block, in shared memory: those at which copies arrive, then those at which INPUT, CONV_1 and CONV_2 arrive.
struct Barriers {
  unsigned long long fetched[RING];
  unsigned long long read[RING], full_1[SLOTS][CHUNKS], empty_3[SUM_SLOTS], full_dense;
  unsigned long long full_2[SLOTS][TILES_1], empty_1[SLOTS];
  unsigned long long full_3[SUM_SLOTS], empty_2[SLOTS];
};

// Arrives at a barrier for a warp, once all its lanes are here.
DEVICE void arrive_for_warp(unsigned long long *barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) arrive(barrier);
}

// Prepares the k-th barrier after `fetched`.
DEVICE void init_kth(Barriers *barriers, int k) {
  const int arrivals = k < BARRIERS_OF_INPUT ? INPUT_WARPS : k < BARRIERS_OF_INPUT + BARRIERS_OF_1 ? 4 : WARPS_2;
  init_barrier(barriers->fetched + RING + k, arrivals);
}

// The images of a block: number blockIdx.x + n gridDim.x of the batch, for n from 0 to `images` - 1.
DEVICE int number_of_images(int count) { return (count - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x; }
DEVICE int image_number(int n) { return (int)blockIdx.x + n * (int)gridDim.x; }

// Stops the compiler from hoisting index arithmetic out of a loop, for which it would need registers.
DEVICE int unhoisted(int value) {
  asm volatile("" : "+r"(value));
  return value;
}
