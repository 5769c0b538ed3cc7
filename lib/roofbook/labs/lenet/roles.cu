// The whole network in one kernel of four warpgroups with roles. A block takes its images one after another. All roles work at
// once, on different images or on different rows of one. Only last pooled maps and scores leave the chip.
//
//   x ---TMA--> RING --INPUT--> pixels --CONV_1--> pooled --2 x CONV_2--> last pooled --2 x CONV_2--> sums, --INPUT--> scores
//   fc1 -TMA->  chunks,         fp16,  layer 1,    fp16,    layer 2,      maps, fp32,   first dense   fp32    second
//               fp32            2 slots ReLU, pool 2 slots  ReLU, pool    8 slots       layer,                dense layer
//                   --INPUT--> fc1, fp16, stays                                         8 images at a time
//
// When nothing else is left, all roles compute the dense layers of a block's last images.
//
// Barriers tell the next role which rows of an image are there: full_1 after each chunk of 22 rows of pixels, full_2 after
// each strip of pooled maps. So the layers of one image overlap as well. Barriers empty_1 and empty_2 tell the role before
// that a slot is free. Barriers count warps, and one lane arrives for its warp. CONV_1 multiplies a tile while it stores the
// one before.
#include "roles_convolutions.h"
#include "roles_dense.h"
#include "roles_input.h"
#include "roles_memory.h"
#include "roles_weights.h"
// Registers of a thread, by role. FEWER_REGISTERS and MORE_REGISTERS make text of their argument as it stands, so these macros
// put a constant's value in its place before.
#define RELEASE_REGISTERS(left) FEWER_REGISTERS(left)
#define REQUEST_REGISTERS(needed) MORE_REGISTERS(needed)
#define REGISTERS_INPUT 72
#define REGISTERS_1 152
#define REGISTERS_2 144

// Converts all images and the first dense layer's weights, and computes scores. Threads of INPUT but those of the warp that
// fetches.
DEVICE void input_and_scores(char *shared, Barriers *barriers, int images, float *RESTRICT scores,
                             const float *RESTRICT fc1_bias, const float *RESTRICT fc2_bias, int thread) {
  const float bias_1 = fc1_bias[thread % HIDDEN], bias_2 = fc2_bias[thread % CLASSES];
  const char *ring = shared + RING_AT;
  const Order order = order_of(images);
  int k = 0;
#pragma unroll 1
  for (int n = 0; n < images + BEHIND; n++) {
    const int slot = n % SLOTS, turn = n / SLOTS, dense = dense_after(order, n), last = n - BEHIND;
    if (n < images) {
      if (turn > 0) wait_for(&barriers->empty_1[slot], (turn - 1) % 2);
      convert_image(shared + PIXELS_AT + slot * PIXELS_1, k, slot, ring, barriers, unhoisted(thread));
      convert_dense(shared + DENSE_AT, k + CHUNKS, n * order.share, n * order.share + dense, ring, barriers,
                    unhoisted(thread));
      k += CHUNKS + dense;
    }
    if (last >= 0 && completes_group(last, images)) {
      dense_2(last / DENSE_IMAGES, shared, barriers, scores, bias_1, bias_2, unhoisted(thread));
    }
  }
  const int first = first_of_last(images);
  thread = unhoisted(thread);
  last_hidden_sums(shared, INPUT * 4 + thread / 32, thread % 32);
  write_scores(first, images - first, (float *)(shared + PIXELS_AT), ALL_WARPS, (const float *)(shared + LAST_AT), bias_1,
               bias_2, scores, thread);
}

KERNEL_OF(WARPGROUPS * 128, 1) void roles(const float *RESTRICT x, float *RESTRICT y, float *RESTRICT scores, int count,
                                          const float *RESTRICT conv1, const float *RESTRICT conv2, const float *RESTRICT fc1,
                                          const float *RESTRICT fc1_bias, const float *RESTRICT fc2,
                                          const float *RESTRICT fc2_bias) {
  extern __shared__ __align__(128) char shared[];
  Barriers *const barriers = (Barriers *)(shared + BARRIERS_AT);
  // The group's number comes from lane 0, so that the compiler knows that a warp has one role. One lane arrives for its warp.
  // Either alone gains nothing.
  const int group = __shfl_sync(0xffffffff, (int)threadIdx.x / 128, 0), thread = threadIdx.x % 128;
  const int fetches = group == INPUT && thread == INPUT_THREADS;
  const int images = number_of_images(count);
  char *const ring = shared + RING_AT;
  if (fetches) {
    for (int r = 0; r < RING; r++) init_barrier(&barriers->fetched[r], 1);
    publish_barriers();
    publish_writes();
    fetch_image(0, 0, ring, barriers, x);
  }
#pragma unroll 4
  for (int k = threadIdx.x; k < DENSE_AT / 16; k += WARPGROUPS * 128) *(uint4 *)(shared + k * 16) = make_uint4(0, 0, 0, 0);
  if (group == INPUT) {
    if (thread < BARRIERS_NUMBER - RING) init_kth(barriers, thread);
    publish_barriers();
    if (thread < CLASSES * HIDDEN / 4) *(float4 *)(shared + LAST_AT + thread * 16) = ((const float4 *)fc2)[thread];
  } else if (group == CONV_1) {
    write_table_1((unsigned int *)(shared + KERNELS_1_AT), conv1, thread);
  } else {
    write_table_2((unsigned int *)(shared + KERNELS_2_AT), conv2, (int)threadIdx.x - CONV_2 * 128);
  }
  publish_writes();
  __syncthreads();
  if (group == INPUT) {
    RELEASE_REGISTERS(REGISTERS_INPUT);
    if (fetches) fetch_others(images, ring, barriers, x, fc1);
    if (thread < INPUT_THREADS) input_and_scores(shared, barriers, images, scores, fc1_bias, fc2_bias, thread);
  } else if (group == CONV_1) {
    REQUEST_REGISTERS(REGISTERS_1);
    layer_1(shared, barriers, images, thread);
    help_with_last(shared, images, y, unhoisted(threadIdx.x));
  } else {
    REQUEST_REGISTERS(REGISTERS_2);
    layer_2(shared, barriers, images, group - CONV_2, y, thread);
    help_with_last(shared, images, y, unhoisted(threadIdx.x));
  }
}
