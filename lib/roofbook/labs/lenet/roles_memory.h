// A block of the kernel of roles: its warpgroups, the sizes of all layers, and what lies where in shared memory.
//
// Operands of products: a place is 16 bytes, 8 pixels of one channel (layer 1) or 2 pixels of four channels (layer 2). A column
// of a product is a place and the one after it. So columns overlap, and nothing is unrolled. Even rows of an image come first,
// then odd rows:
//
//   byte 0            row 0:  place 0 | place 1 | ...
//   byte PITCH        row 2:  ...
//   byte REMAINDER    row 1:  ...
#pragma once
#define BARRIERS RELAXED
#define WARPGROUPS 4
#include "register_product.h"
#include "warpgroup_operands.h"

// Roles, by the number of their first warpgroup: CONV_2 has two. Of INPUT three warps convert, and one thread of the fourth
// fetches.
#define CONV_1 0
#define CONV_2 1
#define INPUT 3
#define WARPS_2 8
#define INPUT_THREADS 96
#define INPUT_WARPS (INPUT_THREADS / 32)
#define ALL_WARPS (INPUT * 4 + INPUT_WARPS)

// SLOTS images have pixels and pooled maps in shared memory at once. A group of DENSE_IMAGES images goes through the first
// dense layer together. INPUT computes a group's scores after it has converted BEHIND more images, which gives CONV_2 time
// for the group's sums.
#define SLOTS 2
#define DENSE_IMAGES 8
#define BEHIND 2
#if BEHIND >= DENSE_IMAGES
#error "sums of a group are overwritten before INPUT has read them"
#endif

// Layer 1: images of SIZE_1 x SIZE_1 pixels. COLUMNS is the columns of a product. A tile of layer 1 has PAIRS_1 pairs of
// output rows; an image has PAIRS_2 in layer 2. PIXELS_1 is the bytes of an image in a slot, with some behind its last row that
// products read.
#define COLUMNS 88
#define PLACES_1 11
#define PITCH_1 (PLACES_1 * 16)
#define REMAINDER_1 (SIZE_1 / 2 * PITCH_1)
#define PIXELS_1 (2 * REMAINDER_1 + 128)
#define TILES_1 5
#define PAIRS_1 (COLUMNS / PLACES_1)

// Layer 2, the same: CHANNELS_2 channels of SIZE_2 x SIZE_2 pixels. CONV_2 waits for an image's pooled maps in STRIPS strips of
// rows. VALUES is the values of an image's last pooled maps, FILTERS_2 maps of POOLED_2 x POOLED_2.
#define STRIPS 3
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

// Input: an image comes in CHUNKS chunks of CHUNK_ROWS rows, the last one of fewer. RING chunks are in shared memory at once,
// in fp32. A thread converts two pixels side by side: a row has IN_PAIR such pairs.
#define CHUNKS 4
#define CHUNK_ROWS 22
#define CHUNK_FLOATS (CHUNK_ROWS * SIZE_1)
#define IMAGE_FLOATS (SIZE_1 * SIZE_1)
#define IN_PAIR (SIZE_1 / 2)
#define RING 4
#if RING < CHUNKS
#error "an image in the ring before its readers are there"
#endif

// Dense layers: VALUES values, HIDDEN hidden values, CLASSES scores. The first one's weights come in DENSE_CHUNKS chunks,
// shared out after the first SPREAD images, so that images need not wait for all of them. A thread converts FOURS_OF_THREAD
// times four weights of a chunk.
#define HIDDEN 32
#define CLASSES 10
#define DENSE_FLOATS (HIDDEN * VALUES)
#define DENSE_CHUNKS ((DENSE_FLOATS + CHUNK_FLOATS - 1) / CHUNK_FLOATS)
#define FOURS_OF_THREAD ((CHUNK_FLOATS / 4 + INPUT_THREADS - 1) / INPUT_THREADS)
#define SPREAD 4
#if SPREAD >= DENSE_IMAGES
#error "a group's last image is converted before all weights are"
#endif

// Tables of the convolutions' weights (roles_weights.h). A filter has PADDED rows with the rows of zeros above and below it. A
// word is two numbers in fp16. A row of layer 1's tables has PAIRS_OF_ROW words. WORDS_OF_1 and WORDS_OF_2 are the words of a
// filter.
#define PADDED (TAPS + 2)
#define PAIRS_OF_ROW 12
#define WORDS_OF_1 (PADDED * PAIRS_OF_ROW)
#define WORDS_OF_2 (PADDED * PADDED * (CHANNELS_2 / 2))

// Offsets in shared memory, in bytes: pixels, pooled maps, a group's last pooled maps, the first dense layer's weights, the
// ring, tables of weights, the second dense layer's weights, barriers. Threads read the tables only at the start. PARTIAL is
// where they were: the sums of each warp of CONV_2 for a group's hidden values. Sums of the last images go to where pixels
// were.
#define PARTIAL_BYTES (WARPS_2 * DENSE_IMAGES * HIDDEN * 4)
#define PIXELS_AT 0
#define POOLED_AT (PIXELS_AT + SLOTS * PIXELS_1)
#define MAPS_AT (POOLED_AT + SLOTS * PIXELS_2)
#define DENSE_AT (MAPS_AT + DENSE_IMAGES * VALUES * 4)
#define RING_AT (DENSE_AT + DENSE_FLOATS * 2)
#define KERNELS_1_AT (RING_AT + RING * CHUNK_FLOATS * 4)
#define KERNELS_2_AT (KERNELS_1_AT + 2 * FILTERS_1 * WORDS_OF_1 * 4)
#define PARTIAL_AT KERNELS_1_AT
#define LAST_AT (KERNELS_2_AT + FILTERS_2 * WORDS_OF_2 * 4)
#define BARRIERS_AT (LAST_AT + CLASSES * HIDDEN * 4)
#define SHARED_BYTES (BARRIERS_AT + BARRIERS_NUMBER * 8)
#if PARTIAL_AT + PARTIAL_BYTES > LAST_AT
#error "no room for a group's sums where the tables were"
#endif
#if ALL_WARPS * DENSE_IMAGES * HIDDEN * 4 > SLOTS * PIXELS_1
#error "no room for the sums of all warps where pixels were"
#endif

// The barriers of a block, in shared memory, and their numbers: those at which copies arrive, then those at which INPUT,
// CONV_1 and CONV_2 arrive. full_3: a group's sums are there.
#define BARRIERS_OF_INPUT (RING + SLOTS * CHUNKS)
#define BARRIERS_OF_1 (SLOTS * (STRIPS + 1))
#define BARRIERS_OF_2 (1 + SLOTS)
#define BARRIERS_NUMBER (RING + BARRIERS_OF_INPUT + BARRIERS_OF_1 + BARRIERS_OF_2)
struct Barriers {
  unsigned long long fetched[RING];
  unsigned long long read[RING], full_1[SLOTS][CHUNKS];
  unsigned long long full_2[SLOTS][STRIPS], empty_1[SLOTS];
  unsigned long long full_3, empty_2[SLOTS];
};

// Arrives at a barrier for a warp, once all its lanes are here.
DEVICE void arrive_for_warp(unsigned long long *barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) arrive(barrier);
}

// Initialises the k-th barrier after `fetched`, with the number of warps that arrive there.
DEVICE void init_kth(Barriers *barriers, int k) {
  const int arrivals = k < BARRIERS_OF_INPUT ? INPUT_WARPS : k < BARRIERS_OF_INPUT + BARRIERS_OF_1 ? 4 : WARPS_2;
  init_barrier(barriers->fetched + RING + k, arrivals);
}

// Return how many of `count` images a block takes, and the number in the batch of its n-th image.
DEVICE int number_of_images(int count) { return (count - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x; }
DEVICE int image_number(int n) { return (int)blockIdx.x + n * (int)gridDim.x; }

// Stops the compiler from hoisting index arithmetic out of a loop, for which it would need registers.
DEVICE int unhoisted(int value) {
  asm volatile("" : "+r"(value));
  return value;
}
