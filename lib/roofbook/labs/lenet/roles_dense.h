// Both dense layers of the kernel of roles. The first is a product of single warps (mma). CONV_2 computes it for a group of
// images at a time, since it has more time to spare than INPUT: layer 1 waits for pixels as soon as INPUT is late. INPUT
// computes the scores. All roles together compute the dense layers of a block's last images.
#pragma once
#include "mma.h"
#include "roles_memory.h"

// Waits for the threads of INPUT that convert, not for the one that fetches.
DEVICE void sync_input() { asm volatile("barrier.sync 8, %0;" ::"n"(INPUT_THREADS) : "memory"); }

// Waits for both warpgroups of CONV_2.
DEVICE void sync_layer_2() { asm volatile("barrier.sync 10, %0;" ::"n"(WARPS_2 * 32) : "memory"); }

// Waits for all threads but those of the warp that fetches.
DEVICE void sync_roles() { asm volatile("barrier.sync 9, %0;" ::"n"(ALL_WARPS * 32) : "memory"); }

// c (16 x 8, of one warp) += a b, in fp16 with sums in fp32.
DEVICE void dense_product(float (&c)[4], uint2 upper, uint2 lower, unsigned int b0, unsigned int b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(upper.x), "r"(lower.x), "r"(upper.y), "r"(lower.y), "r"(b0), "r"(b1));
}

// Multiplies a group's last pooled maps by the first dense layer's weights. Each of `warps` warps adds up its part of the
// VALUES values of an image: 16 of every 16 * warps. A row of the product is a hidden value, a column an image. Maps are
// rounded to fp16, which has as many bits of precision as TF32, and takes half as many instructions. partial:
// [warp][image][hidden value].
DEVICE void hidden_sums(float *partial, const float *maps, const char *dense, int warp, int warps, int lane) {
  const int g = GROUP(lane), t = MEMBER(lane), step = warps * 16;
  const float *const values = maps + g * VALUES;
  const char *const rows = dense + g * VALUES * 2;
  float c[2][4] = {};
  // A lane reads four values side by side, as a product may add its 16 values in any order. It reads the next step's operands
  // before this step's products.
  int k = warp * 16 + t * 4;
  float4 value = *(const float4 *)(values + k);
  uint2 row[4];
#pragma unroll
  for (int m = 0; m < 4; m++) row[m] = *(const uint2 *)(rows + (m * 8 * VALUES + k) * 2);
#pragma unroll 1
  for (; k < VALUES; k += step) {
    const unsigned int b0 = two_halves(value.x, value.y), b1 = two_halves(value.z, value.w);
    const uint2 now[4] = {row[0], row[1], row[2], row[3]};
    if (k + step < VALUES) {
      value = *(const float4 *)(values + k + step);
#pragma unroll
      for (int m = 0; m < 4; m++) row[m] = *(const uint2 *)(rows + (m * 8 * VALUES + k + step) * 2);
    }
#pragma unroll
    for (int m = 0; m < 2; m++) dense_product(c[m], now[2 * m], now[2 * m + 1], b0, b1);
  }
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const int m = i / 4, image = 2 * t + i % 2, hidden = m * 16 + i / 2 % 2 * 8 + g;
    partial[(warp * DENSE_IMAGES + image) * HIDDEN + hidden] = c[m][i % 4];
  }
}

// Adds the sums of all warps to hidden values, and writes the scores of `images` images from number `first` of this block on.
// Threads of INPUT. bias_1, bias_2: the biases of the thread's hidden value and of its class. weights: [class][hidden value].
DEVICE void write_scores(int first, int images, float *partial, int warps, const float *weights, float bias_1, float bias_2,
                         float *RESTRICT scores, int thread) {
#pragma unroll 1
  for (int k = thread; k < DENSE_IMAGES * HIDDEN; k += INPUT_THREADS) {
    float sum = bias_1;
#pragma unroll
    for (int w = 0; w < warps; w++) sum += partial[w * (DENSE_IMAGES * HIDDEN) + k];
    partial[k] = sum < 0.0f ? 0.0f : sum;
  }
  sync_input();
#pragma unroll 1
  for (int k = thread; k < images * CLASSES; k += INPUT_THREADS) {
    const int image = k / CLASSES, o = k % CLASSES;
    float score = bias_2;
#pragma unroll 8
    for (int i = 0; i < HIDDEN; i++) score += weights[o * HIDDEN + i] * partial[image * HIDDEN + i];
    scores[image_number(first + image) * CLASSES + o] = score;
  }
}

// Writes the last pooled maps of `images` images to memory, from number `first` of this block on, and clears those on the chip.
DEVICE void write_maps(int first, int images, float *maps, float *RESTRICT y, int thread, int threads) {
#pragma unroll 1
  for (int k = thread; k < images * (VALUES / 4); k += threads) {
    const int image = k / (VALUES / 4), at = k % (VALUES / 4) * 4;
    float4 *from = (float4 *)(maps + image * VALUES + at);
    *(float4 *)(y + image_number(first + image) * VALUES + at) = *from;
    *from = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
}

// Computes a group's sums for the hidden values, writes its maps and clears them. Threads of both warpgroups of CONV_2, once
// they have pooled the group's images. No further barrier is needed, since INPUT has converted the group's last image. Before
// that it has converted all weights, and has read the sums of the group before.
DEVICE void dense_1(int group, char *shared, Barriers *barriers, float *RESTRICT y, int thread) {
  float *const maps = (float *)(shared + MAPS_AT);
  sync_layer_2();
  hidden_sums((float *)(shared + PARTIAL_AT), maps, shared + DENSE_AT, thread / 32, WARPS_2, thread % 32);
  arrive_for_warp(&barriers->full_3);
  sync_layer_2();
  write_maps(group * DENSE_IMAGES, DENSE_IMAGES, maps, y, thread, WARPS_2 * 32);
  sync_layer_2();
}

// Computes the scores of a group from the sums that CONV_2 computed. Threads of INPUT.
DEVICE void dense_2(int group, char *shared, Barriers *barriers, float *RESTRICT scores, float bias_1, float bias_2,
                    int thread) {
  wait_for(&barriers->full_3, group % 2);
  write_scores(group * DENSE_IMAGES, DENSE_IMAGES, (float *)(shared + PARTIAL_AT), WARPS_2, (const float *)(shared + LAST_AT),
               bias_1, bias_2, scores, thread);
}

// Returns 1 if image n of a block is the last one of a group of DENSE_IMAGES and not the block's last image, otherwise 0.
DEVICE int completes_group(int n, int images) { return n % DENSE_IMAGES == DENSE_IMAGES - 1 && n < images - 1; }

// Returns the number of the first image after all groups that `completes_group` ends. The images from there on, DENSE_IMAGES or
// fewer, are the block's last images. All roles compute their dense layers, when nothing else is left.
DEVICE int first_of_last(int images) { return (images - 1) / DENSE_IMAGES * DENSE_IMAGES; }

// Computes a warp's part of the sums for the hidden values of the last images, once all roles are here. Sums go to where
// pixels were.
DEVICE void last_hidden_sums(char *shared, int warp, int lane) {
  sync_roles();
  hidden_sums((float *)(shared + PIXELS_AT), (const float *)(shared + MAPS_AT), shared + DENSE_AT, warp, ALL_WARPS, lane);
  sync_roles();
}

// Computes a warp's part of the last images' sums, and writes a part of their maps. Threads of CONV_1 and CONV_2.
DEVICE void help_with_last(char *shared, int images, float *RESTRICT y, int thread) {
  const int first = first_of_last(images);
  last_hidden_sums(shared, thread / 32, thread % 32);
  write_maps(first, images - first, (float *)(shared + MAPS_AT), y, thread, INPUT * 128);
}
