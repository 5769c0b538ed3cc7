// Unrolls the input of each image to a matrix, ROWS x PIXELS: a column holds the operands of one pixel of all maps. A work-item
// writes the 49 operands of one channel and one pixel.
#pragma once
#include "layer.h"
KERNEL void unroll(GLOBAL const float *RESTRICT x, GLOBAL float *RESTRICT matrix, int first) {
  const int pixel = GLOBAL_ID(0), c = GROUP_ID(1), image = GROUP_ID(2), h = pixel / OUT, w = pixel % OUT;
  if (pixel < PIXELS) {
    for (int p = 0; p < TAPS; p++) {
      for (int q = 0; q < TAPS; q++) {
        matrix[(image * ROWS + (c * TAPS + p) * TAPS + q) * PIXELS + pixel] = x[X_AT(first + image, c, h + p, w + q)];
      }
    }
  }
}
