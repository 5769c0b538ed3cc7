// Writes a warpgroup's sums of 64 filters to the output: bias, ReLU and the largest of 2 x 2 pixels, in registers. Column 8 j + r
// of the product is pixel (row r, column j) of the tile: pixels go down eight rows of a column, then the next column. A thread's
// c[4 j], c[4 j + 1], c[4 j + 4] and c[4 j + 5] (picture in hopper.h) are a window of the pool, so it has one pooled row:
//
//   even thread: row a, columns 0 ... 7      after they trade halves      columns 0 ... 3 of rows a and b
//   odd thread:  row b, columns 0 ... 7                                   columns 4 ... 7 of rows a and b
//
// Then each writes four outputs at once, and both together 32 neighbouring bytes of a row.
#pragma once
#include "hopper.h"
#include "layer.h"

template <int Sums>
DEVICE void store_pooled(const float (&c)[Sums], int i0, int h0, int w0, const float *RESTRICT bias, float *RESTRICT out) {
  constexpr int pooled = Sums / 8;
  const int thread = threadIdx.x % 128, odd = thread % 2, pooled_row = h0 / 2 + thread % 4 / 2 * 2;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int filter = SUM_ROW(i0, thread) + half * 8;
    const float added = filter < FILTERS ? bias[filter] : 0.0f;
    float own[pooled];
#pragma unroll
    for (int k = 0; k < pooled; k++) {
      const float *sums = c + 8 * k + 2 * half;
      own[k] = fmaxf(0.0f, fmaxf(fmaxf(sums[0], sums[1]), fmaxf(sums[4], sums[5])) + added);
    }
#pragma unroll
    for (int eight = 0; eight < pooled; eight += 8) {
      float rows[2][4];
#pragma unroll
      for (int k = 0; k < 4; k++) {
        const float left = own[eight + k], right = own[eight + 4 + k];
        const float traded = __shfl_xor_sync(0xFFFFFFFF, odd ? left : right, 1);
        rows[0][k] = odd ? traded : left;
        rows[1][k] = odd ? right : traded;
      }
#pragma unroll
      for (int down = 0; down < 2; down++) {
        const int row = pooled_row + down, column = w0 / 2 + eight + 4 * odd;
        float *to = out + OUT_AT(filter, row, column);
        if (filter < FILTERS && row < HEIGHT / 2) {
#if WIDTH / 2 % 4 == 0
          if (column < WIDTH / 2) *(float4 *)to = make_float4(rows[down][0], rows[down][1], rows[down][2], rows[down][3]);
#else
#pragma unroll
          for (int k = 0; k < 4; k++)
            if (column + k < WIDTH / 2) to[k] = rows[down][k];
#endif
        }
      }
    }
  }
}
