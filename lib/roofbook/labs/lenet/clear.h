// A kernel that clears the outputs before atomic sums, one work-item a value.
#pragma once
#include "layer.h"
KERNEL void clear(GLOBAL float *RESTRICT y, int first) {
  const int at = GLOBAL_ID(0);
  if (at < FILTERS * PIXELS) y[(first + GROUP_ID(1)) * (FILTERS * PIXELS) + at] = 0.0f;
}
