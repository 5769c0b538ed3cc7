// A convolution of the network on Hopper's tensor cores, by persistent warpgroups: each takes one image after another. While one of
// them loads or stores, the matrix units work for the others. The weights and a warpgroup's image are in shared memory; the operands
// of neighbouring pixels overlap there, and nothing is unrolled (picture in warpgroup.h).
//
// Knob CHANNELS:   channels of the input
// Knob FILTERS:    filters
// Knob SIZE:       side of the input
// Knob ENDING:     MAPS  the convolution's output;  POOLED  after ReLU and pool
// Knob PREFETCHES: 1  the next image of a warpgroup is fetched to the L2 cache while it works on this one
#ifndef ENDING
#define ENDING POOLED
#endif
#ifndef PREFETCHES
#define PREFETCHES 0
#endif
#define MAPS 1
#define POOLED 2
#include "warpgroup.h"

#if CHANNELS == 1
#define WEIGHTS WEIGHTS_1
#define PIXELS PIXELS_1
#define LOAD_WEIGHTS load_weights_1
#define STAGE stage_1
#define SIDE (ENDING == MAPS ? OUT_1 : POOLED_1)
#else
#define WEIGHTS WEIGHTS_2
#define PIXELS PIXELS_2
#define LOAD_WEIGHTS load_weights_2
#define STAGE stage_2
#define SIDE (ENDING == MAPS ? OUT_2 : POOLED_2)
#endif

// Computes and stores all outputs of an image.
DEVICE void convolve(float *RESTRICT y, const char *weights, const char *pixels, int warp, int lane) {
#if CHANNELS == 1
  const int g = lane / 4, t = lane % 4;
  float *to[3];
#pragma unroll
  for (int i = 0; i < 3; i++) {
#if ENDING == POOLED
    to[i] = y + (warp * POOLED_1 + down_1(i, t)) * POOLED_1 + (across_1(i, t) + lane / 16) * 4 + g % 4;
#else
    to[i] = y + (warp * OUT_1 + down_1(i, t) * 2 + g / 4) * OUT_1 + across_1(i, t) * 8 + g % 4 * 2;
#endif
  }
#pragma unroll 1
  for (int column = 0; column < POOLED_1 * ACROSS; column += COLUMNS) {
    float c[48];
    multiply<1>(c, weights, pixels + column * 16, 0);
#if ENDING == POOLED
    const int down = column / ACROSS * POOLED_1;
    pool_1(c, lane, [&](int j, float value) { to[j % 3][down + j / 3 * 2 * POOLED_1] = value; });
#else
    const int down = column / ACROSS * 2 * OUT_1;
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; j++) {
      float *own = to[j % 3] + down + j / 3 * 4 * OUT_1;
      if (on_image_1(j % 3, t)) {
        *(float2 *)own = make_float2(c[4 * j], c[4 * j + 2]);
        *(float2 *)(own + 8) = make_float2(c[4 * j + 1], c[4 * j + 3]);
      }
    }
#endif
  }
#elif ENDING == POOLED
  layer_2(y, weights, pixels, warp, lane);
#else
#pragma unroll 1
  for (int tile = 0; tile < 4; tile++) {
    const int odd = tile % 2, column = tile / 2 * COLUMNS;
    float c[48];
    multiply<2>(c, weights, pixels + column * 16, odd);
    const int g = not_before(lane) / 4, t = not_before(lane) % 4;
    float *map = y + ((warp * 4 + g % 4) * OUT_2 + odd * 2 + g / 4) * OUT_2;
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; j++) {
      const int n = column + 8 * j + 2 * t, pair = n / COLUMNS_2, w = n % COLUMNS_2 * 2;
      float *own = map + pair * 4 * OUT_2 + w;
      if (w < OUT_2 && pair * 4 + odd * 2 < OUT_2) {
        *(float2 *)own = make_float2(c[4 * j], c[4 * j + 2]);
        if (w + 2 < OUT_2) *(float2 *)(own + 2) = make_float2(c[4 * j + 1], c[4 * j + 3]);
      }
    }
  }
#endif
}

KERNEL_OF(WARPGROUPS * 128, 1) void warpgroup(const float *RESTRICT x, float *RESTRICT y, int first, int count,
                                          const float *RESTRICT weights) {
  extern __shared__ __align__(128) char whole[];
  const int group = threadIdx.x / 128, thread = threadIdx.x % 128, apart = gridDim.x * WARPGROUPS;
  char *pixels = whole + WEIGHTS + group * PARTS * PIXELS;
  LOAD_WEIGHTS(whole, weights);
  for (int k = thread * 4; k < PARTS * PIXELS; k += 512) *(unsigned int *)(pixels + k) = 0;
  __syncthreads();
  for (int image = first + gridDim.x * group + blockIdx.x; image < first + count; image += apart) {
    sync_group(group);
    STAGE(pixels, x + image * (CHANNELS * SIZE * SIZE), thread);
#if PREFETCHES
    if (thread == 0 && image + apart < first + count) {
      prefetch(x + (image + apart) * (CHANNELS * SIZE * SIZE), CHANNELS * SIZE * SIZE * 4);
    }
#endif
    publish_writes();
    sync_group(group);
    convolve(y + image * (FILTERS * SIDE * SIDE), whole, pixels, thread / 32, thread % 32);
  }
}
