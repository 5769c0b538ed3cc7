// Writes a warpgroup's sums of 64 filters by 8 x 32 pixels to the output: bias, ReLU and the largest of 2 x 2 pixels, in registers.
// Column n of the product is pixel (n / 32, n % 32) of the tile; a thread's c[4 j], c[4 j + 1], c[4 j + 16] and c[4 j + 17] are a
// window of the pool (picture in hopper.h). Of a pooled row a thread then has every fourth column. It trades with its three
// neighbours until it has four columns side by side, and writes them at once; the four write 64 neighbouring bytes of a row:
//
//   thread % 4     0  1  2  3                                0  1  2  3
//   four[0]        0  1  2  3    after a trade with          0  4  8 12
//   four[1]        4  5  6  7    the neighbour 1 apart,      1  5  9 13
//   four[2]        8  9 10 11    then with the one           2  6 10 14
//   four[3]       12 13 14 15    2 apart                     3  7 11 15
#pragma once
#include "hopper.h"
#include "layer.h"

DEVICE void store_pooled(const float (&c)[128], int i0, int h0, int w0, const float *RESTRICT bias, float *RESTRICT out) {
  const int thread = threadIdx.x % 128, group = thread % 4, column = w0 / 2 + 4 * group;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int filter = SUM_ROW(i0, thread) + half * 8;
    const float added = filter < FILTERS ? bias[filter] : 0.0f;
#pragma unroll
    for (int down = 0; down < 4; down++) {
      const int row = h0 / 2 + down;
      float four[4];
#pragma unroll
      for (int k = 0; k < 4; k++) {
        const float *sums = c + 4 * (8 * down + k) + 2 * half;
        four[k] = fmaxf(0.0f, fmaxf(fmaxf(sums[0], sums[1]), fmaxf(sums[16], sums[17])) + added);
      }
#pragma unroll
      for (int bit = 1; bit < 4; bit *= 2)
#pragma unroll
        for (int k = 0; k < 4; k++)
          if ((k & bit) == 0) {
            const bool upper = group & bit;
            const float traded = __shfl_xor_sync(0xFFFFFFFF, upper ? four[k] : four[k + bit], bit);
            if (upper)
              four[k] = traded;
            else
              four[k + bit] = traded;
          }
      float *to = out + OUT_AT(filter, row, column);
      if (filter < FILTERS && row < HEIGHT / 2) {
#if WIDTH / 2 % 4 == 0
        if (column < WIDTH / 2) *(float4 *)to = make_float4(four[0], four[1], four[2], four[3]);
#else
#pragma unroll
        for (int k = 0; k < 4; k++)
          if (column + k < WIDTH / 2) to[k] = four[k];
#endif
      }
    }
  }
}
