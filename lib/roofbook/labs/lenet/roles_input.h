// Input of the kernel of roles. One thread of the warpgroup INPUT fetches images and the first dense layer's weights, in
// chunks of CHUNK_FLOATS numbers, to a ring in shared memory. The others convert them to fp16.
#pragma once
#include "roles_memory.h"

// The order in which chunks come: after each of the first `spread` images come `share` chunks of the dense layer's weights, or
// as many as are left. After that come only images.
struct Order {
  int spread, share;
};

DEVICE Order order_of(int images) {
  const int spread = images < SPREAD ? images : SPREAD;
  return {spread, (DENSE_CHUNKS + spread - 1) / spread};
}

// Returns the number of chunks of weights that follow image n.
DEVICE int dense_after(Order order, int n) {
  const int left = DENSE_CHUNKS - n * order.share;
  return n >= order.spread ? 0 : left < order.share ? left : order.share;
}

// Begins to fetch chunk `chunk` of an array of `floats` floats. It is the k-th chunk that this block fetches, and goes to place
// k % RING of the ring once that is free.
DEVICE void fetch(int k, const float *from, int floats, int chunk, char *ring, Barriers *barriers) {
  const int r = k % RING, left = floats - chunk * CHUNK_FLOATS, bytes = (left < CHUNK_FLOATS ? left : CHUNK_FLOATS) * 4;
  if (k >= RING) wait_for(&barriers->read[r], (k / RING - 1) % 2);
  expect_bytes(&barriers->fetched[r], bytes);
  tma_load_bytes(ring + r * (CHUNK_FLOATS * 4), from + chunk * CHUNK_FLOATS, bytes, &barriers->fetched[r]);
}

// Begins to fetch the CHUNKS chunks of image n, of which the first is the block's k-th.
DEVICE void fetch_image(int k, int n, char *ring, Barriers *barriers, const float *RESTRICT x) {
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; chunk++) {
    fetch(k + chunk, x + image_number(n) * IMAGE_FLOATS, IMAGE_FLOATS, chunk, ring, barriers);
  }
}

// Fetches all chunks of a block but the first image's, which the caller has fetched.
DEVICE void fetch_others(int images, char *ring, Barriers *barriers, const float *RESTRICT x, const float *RESTRICT fc1) {
  const Order order = order_of(images);
  int k = CHUNKS;
#pragma unroll 1
  for (int n = 0; n < images; n++) {
    if (n > 0) {
      fetch_image(k, n, ring, barriers, x);
      k += CHUNKS;
    }
    const int first = n * order.share, end = first + dense_after(order, n);
#pragma unroll 1
    for (int chunk = first; chunk < end; chunk++, k++) fetch(k, fc1, DENSE_FLOATS, chunk, ring, barriers);
  }
}

// Converts an image, the block's chunks k to k + CHUNKS - 1, to operands of layer 1. 86 of the threads convert two pixels at a
// time: IN_PAIR threads a row, two rows at a time. All loads of a chunk come before its stores, so that they overlap.
DEVICE void convert_image(char *pixels, int k, int slot, const char *ring, Barriers *barriers, int thread) {
  char *const first = pixels + thread / IN_PAIR * REMAINDER_1 + thread % IN_PAIR * 4;
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; chunk++, k++) {
    wait_for(&barriers->fetched[k % RING], k / RING % 2);
    const float2 *from = (const float2 *)(ring + k % RING * (CHUNK_FLOATS * 4)) + thread;
    char *to = first + chunk * (CHUNK_ROWS / 2 * PITCH_1);
    if (thread < SIZE_1) {
      float2 two[CHUNK_ROWS / 2];
#pragma unroll
      for (int i = 0; i < CHUNK_ROWS / 2; i++) two[i] = from[SIZE_1 * i];
#pragma unroll
      for (int i = 0; i < CHUNK_ROWS / 2; i++) {
        if (chunk * (CHUNK_ROWS / 2) + i < SIZE_1 / 2) *(unsigned int *)(to + i * PITCH_1) = two_halves(two[i].x, two[i].y);
      }
    }
    publish_writes();
    arrive_for_warp(&barriers->read[k % RING]);
    arrive_for_warp(&barriers->full_1[slot][chunk]);
  }
}

// Rounds chunks `first` to `end` - 1 of the first dense layer's weights to fp16. The first of them is the block's k-th chunk.
DEVICE void convert_dense(char *dense, int k, int first, int end, const char *ring, Barriers *barriers, int thread) {
#pragma unroll 1
  for (int chunk = first; chunk < end; chunk++, k++) {
    wait_for(&barriers->fetched[k % RING], k / RING % 2);
    const float4 *from = (const float4 *)(ring + k % RING * (CHUNK_FLOATS * 4)) + thread;
    uint2 *to = (uint2 *)(dense + chunk * (CHUNK_FLOATS * 2)) + thread;
    const int left = (DENSE_FLOATS - chunk * CHUNK_FLOATS) / 4, fours = left < CHUNK_FLOATS / 4 ? left : CHUNK_FLOATS / 4;
    float4 four[FOURS_OF_THREAD];
#pragma unroll
    for (int i = 0; i < FOURS_OF_THREAD; i++) {
      if (thread + i * INPUT_THREADS < fours) four[i] = from[i * INPUT_THREADS];
    }
#pragma unroll
    for (int i = 0; i < FOURS_OF_THREAD; i++) {
      const uint2 halves = {two_halves(four[i].x, four[i].y), two_halves(four[i].z, four[i].w)};
      if (thread + i * INPUT_THREADS < fours) to[i * INPUT_THREADS] = halves;
    }
    publish_writes();
    arrive_for_warp(&barriers->read[k % RING]);
  }
}
