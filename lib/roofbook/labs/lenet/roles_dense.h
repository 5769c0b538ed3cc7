// Both dense layers of the kernel of roles, by products of single warps (mma): INPUT computes the scores of DENSE_IMAGES images
// at a time, and all roles together those of a block's last images.
#pragma once
#include "mma.h"
#include "roles_memory.h"

// Waits for the threads of INPUT that convert, not for the one that fetches.
DEVICE void sync_input() { asm volatile("barrier.sync 8, %0;" ::"n"(INPUT_THREADS) : "memory"); }

// Waits for all threads but those of the warp that fetches.
DEVICE void sync_roles() { asm volatile("barrier.sync 9, %0;" ::"n"(ALL_WARPS * 32) : "memory"); }

// c (16 x 8, of one warp) += a b, in TF32.
DEVICE void dense_product(float (&c)[4], const float (&a)[4], unsigned int b0, unsigned int b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])), "r"(b0),
        "r"(b1));
}

DEVICE unsigned int rounded(float value) {
  unsigned int bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
}

// Multiplies last pooled maps of DENSE_IMAGES images by the first dense layer's weights, for the values that are this warp's of
// `warps`: 16 of every 16 * warps. A row of the product is a hidden value, a column an image.
DEVICE void hidden_sums(float *partial, const float *maps, const char *dense, int warp, int warps, int lane) {
  const int g = GROUP(lane), t = MEMBER(lane), step = warps * 16;
  const float *const values = maps + g % DENSE_IMAGES * VALUES;
  const char *const rows = dense + g * VALUES * 2;
  float c[2][2][4] = {};
  // A lane has four values side by side, for two products: the order of a product's eight values is free. The next step's
  // operands are read before this step's products.
  int k = warp * 16 + t * 4;
  float4 value = *(const float4 *)(values + k);
  uint2 row[4];
#pragma unroll
  for (int m = 0; m < 4; m++) row[m] = *(const uint2 *)(rows + (m * 8 * VALUES + k) * 2);
#pragma unroll 1
  for (; k < VALUES; k += step) {
    const unsigned int b[4] = {rounded(value.x), rounded(value.y), rounded(value.z), rounded(value.w)};
    const uint2 now[4] = {row[0], row[1], row[2], row[3]};
    if (k + step < VALUES) {
      value = *(const float4 *)(values + k + step);
#pragma unroll
      for (int m = 0; m < 4; m++) row[m] = *(const uint2 *)(rows + (m * 8 * VALUES + k + step) * 2);
    }
#pragma unroll
    for (int m = 0; m < 2; m++) {
      const uint2 upper = now[2 * m], lower = now[2 * m + 1];
      const float one[4] = {first_half(upper.x), first_half(lower.x), second_half(upper.x), second_half(lower.x)};
      const float two[4] = {first_half(upper.y), first_half(lower.y), second_half(upper.y), second_half(lower.y)};
      dense_product(c[m][0], one, b[0], b[1]);
      dense_product(c[m][1], two, b[2], b[3]);
    }
  }
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const int m = i / 4, image = 2 * t + i % 2, hidden = m * 16 + i / 2 % 2 * 8 + g;
    if (image < DENSE_IMAGES) partial[(warp * DENSE_IMAGES + image) * HIDDEN + hidden] = c[m][0][i % 4] + c[m][1][i % 4];
  }
}

// Adds the sums of all warps, and writes the scores of `images` images from number `first` of this block on. Threads of INPUT:
// each has the bias of its hidden value, and that of its class.
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

// Writes the last pooled maps of images from number `first` of this block on, and clears them.
DEVICE void write_maps(int first, int images, float *maps, float *RESTRICT y, int thread, int threads) {
#pragma unroll 1
  for (int k = thread; k < images * (VALUES / 4); k += threads) {
    const int image = k / (VALUES / 4), at = k % (VALUES / 4) * 4;
    float4 *from = (float4 *)(maps + image * VALUES + at);
    *(float4 *)(y + image_number(first + image) * VALUES + at) = *from;
    *from = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
}

// Computes the scores of DENSE_IMAGES images from number `first` of this block on, and writes them and the maps.
DEVICE void dense_layers(int first, char *shared, Barriers *barriers, float *RESTRICT y, float *RESTRICT scores, float bias_1,
                         float bias_2, int thread) {
  const int slot = first % MAP_SLOTS;
  float *const maps = (float *)(shared + MAPS_AT) + slot * VALUES, *const partial = (float *)(shared + PARTIAL_AT);
#pragma unroll 1
  for (int i = 0; i < DENSE_IMAGES; i++) wait_for(&barriers->full_3[slot + i], first / MAP_SLOTS % 2);
  sync_input();  // for the weights that others wrote, and the sums that they read
  hidden_sums(partial, maps, shared + DENSE_AT, thread / 32, INPUT_WARPS, thread % 32);
  sync_input();
  write_maps(first, DENSE_IMAGES, maps, y, thread, INPUT_THREADS);
#pragma unroll 1
  for (int i = 0; i < DENSE_IMAGES; i++) arrive(&barriers->empty_3[slot + i]);
  write_scores(first, DENSE_IMAGES, partial, INPUT_WARPS, (const float *)(shared + LAST_AT), bias_1, bias_2, scores, thread);
}

// Returns the first of a block's last images: DENSE_IMAGES or fewer, whose dense layers all roles compute when nothing else is
// left.
DEVICE int first_of_last(int images) { return (images - 1) / DENSE_IMAGES * DENSE_IMAGES; }

// Computes a warp's part of the hidden values of the last images, once all roles are here. The sums are where pixels were.
DEVICE void last_hidden_sums(char *shared, int images, int warp, int lane) {
  sync_roles();
  const float *maps = (const float *)(shared + MAPS_AT) + first_of_last(images) % MAP_SLOTS * VALUES;
  hidden_sums((float *)(shared + PIXELS_AT), maps, shared + DENSE_AT, warp, ALL_WARPS, lane);
  sync_roles();
}

// Does a warp's part of the last images' hidden values, and writes a part of their maps. For the roles that multiply.
DEVICE void help_with_last(char *shared, int images, float *RESTRICT y, int thread) {
  const int first = first_of_last(images);
  last_hidden_sums(shared, images, thread / 32, thread % 32);
  write_maps(first, images - first, (float *)(shared + MAPS_AT) + first % MAP_SLOTS * VALUES, y, thread, INPUT * 128);
}
