// A kernel that builds the lists of non-zero weights, once a call.
#pragma once
#include "layer.h"

// entries (filter, channel, n): offset of the input and value; counts (filter, channel).
KERNEL void build(GLOBAL const short *RESTRICT weight, GLOBAL int *RESTRICT entries, GLOBAL int *RESTRICT counts) {
  const int slice = GLOBAL_ID(0);
  if (slice < FILTERS * DEPTH) {
    int count = 0;
    for (int p = 0; p < TAPS; p++) {
      for (int q = 0; q < TAPS; q++) {
        const int value = weight[(slice * TAPS + p) * TAPS + q];
        if (value) {
          entries[(slice * TAPS * TAPS + count) * 2] = p * X_ROW + q;
          entries[(slice * TAPS * TAPS + count) * 2 + 1] = value;
          count++;
        }
      }
    }
    counts[slice] = count;
  }
}
