// Writes a warpgroup's sums of 64 filters by 8 x 32 pixels to the output: bias, ReLU and the largest of 2 x 2 pixels, in registers.
// Column n of the product is pixel (n / 32, n % 32) of the tile. A thread's sums (picture in hopper.h) make windows of the pool:
//
//   row of pixels       c[4 j]       c[4 j + 1]
//   the row below it    c[4 j + 16]  c[4 j + 17]      c[... + 2] and c[... + 3] are those of the filter 8 further on
#pragma once
#include "hopper.h"
#include "layer.h"

DEVICE void store_pooled(const float (&c)[128], int i0, int h0, int w0, const float *RESTRICT bias, float *RESTRICT out) {
  const int thread = threadIdx.x % 128, filter = SUM_ROW(i0, thread);
#pragma unroll
  for (int j = 0; j < 32; j++) {
    const int row = h0 + j / 4, column = w0 + j % 4 * 8 + thread % 4 * 2;
    if (j / 4 % 2 == 0 && row + 1 < HEIGHT && column + 1 < WIDTH) {
      const float upper = fmaxf(fmaxf(c[4 * j], c[4 * j + 1]), fmaxf(c[4 * j + 16], c[4 * j + 17]));
      const float lower = fmaxf(fmaxf(c[4 * j + 2], c[4 * j + 3]), fmaxf(c[4 * j + 18], c[4 * j + 19]));
      if (filter < FILTERS) out[OUT_AT(filter, row / 2, column / 2)] = fmaxf(0.0f, upper + bias[filter]);
      if (filter + 8 < FILTERS) out[OUT_AT(filter + 8, row / 2, column / 2)] = fmaxf(0.0f, lower + bias[filter + 8]);
    }
  }
}
