// Both convolutions with ReLU and pool on Hopper's tensor cores, in one kernel: a warpgroup takes an image from its pixels to the last
// pooled maps. The maps between the layers stay in shared memory, as operands of layer 2. The operands of neighbouring pixels
// overlap, and nothing is unrolled (picture in warpgroup.h).
#include "warpgroup.h"
#define IMAGE (SIZE_1 * SIZE_1)
#define VALUES (FILTERS_2 * POOLED_2 * POOLED_2)

KERNEL_OF(WARPGROUPS * 128, 1) void warpgroup_whole(const float *RESTRICT x, float *RESTRICT y, int count,
                                                const float *RESTRICT weights_1, const float *RESTRICT weights_2) {
  extern __shared__ __align__(128) char whole[];
  const int group = threadIdx.x / 128, thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32, t = lane % 4;
  const int apart = gridDim.x * WARPGROUPS;
  char *second = whole + WEIGHTS_1, *pixels = second + WEIGHTS_2 + group * PARTS * (PIXELS_1 + PIXELS_2);
  char *pooled = pixels + PARTS * PIXELS_1, *to[3];
#pragma unroll
  for (int i = 0; i < 3; i++) {
    to[i] = pooled + down_1(i, t) * REMAINDER_2 + ((across_1(i, t) + lane / 16) * 4 + lane / 4 % 4) * (CHANNELS_2 * 2) + warp * 2;
  }
  load_weights_1(whole, weights_1);
  load_weights_2(second, weights_2);
  for (int k = thread * 4; k < PARTS * (PIXELS_1 + PIXELS_2); k += 512) *(unsigned int *)(pixels + k) = 0;
  __syncthreads();
  for (int image = gridDim.x * group + blockIdx.x; image < count; image += apart) {
    sync_group(group);
    stage_1(pixels, x + image * IMAGE, thread);
    if (thread == 0 && image + apart < count) prefetch(x + (image + apart) * IMAGE, IMAGE * 4);
    publish_writes();
    sync_group(group);
#pragma unroll 1
    for (int tile = 0; tile < POOLED_1 * ACROSS / COLUMNS; tile++) {
      float c[48];
      multiply<1>(c, whole, pixels + tile * COLUMNS * 16, 0);
      pool_1(c, lane, [&](int j, float value) {
        store_parts(to[j % 3] + j / 3 % 2 * 2 * REMAINDER_2 + (j / 6 + tile * 2) * PITCH_2, value, PIXELS_2);
      });
    }
    publish_writes();
    sync_group(group);
    layer_2(y + image * VALUES, second, pooled, warp, lane);
  }
}
