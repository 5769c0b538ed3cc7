// Weights of both convolutions of the kernel of roles. A thread reads those of its products, two at a time, from tables of halves,
// in which rows and columns beside a filter's are zeros:
//
//   layer 1:  [odd][filter][row -1 to 7][column -8 - odd to 15 - odd]
//   layer 2:  [filter][row -1 to 7][column -1 to 7][channel]
//
// A thread's rows m and m + 8 of a product (picture in hopper.h) are neighbouring outputs of a row of the image, so that one of
// them has its weights a column to the right: layer 1, whose pairs are of columns, has a table of each. Bit 2 of m is the row
// of the two.
#pragma once
#include "roles_memory.h"

// Returns a weight, or the zero beside it; `filter` has its weights of one channel.
DEVICE float weight_or_zero(const float *RESTRICT filter, int p, int q) {
  return p >= 0 && p < TAPS && q >= 0 && q < TAPS ? filter[p * TAPS + q] : 0.0f;
}

// Writes the table of layer 1: a thread has the same two neighbours of all filters.
DEVICE void write_table_1(unsigned int *table, const float *RESTRICT conv1, int thread) {
  const int p = thread / PAIRS_OF_ROW - 1, q = thread % PAIRS_OF_ROW * 2 - 8;
  if (thread >= WORDS_OF_1) return;
  float w[FILTERS_1][3];
#pragma unroll
  for (int filter = 0; filter < FILTERS_1; filter++) {
#pragma unroll
    for (int i = 0; i < 3; i++) w[filter][i] = weight_or_zero(conv1 + filter * (TAPS * TAPS), p, q - 1 + i);
  }
#pragma unroll
  for (int filter = 0; filter < FILTERS_1; filter++) {
#pragma unroll
    for (int odd = 0; odd < 2; odd++) {
      table[(odd * FILTERS_1 + filter) * WORDS_OF_1 + thread] = two_halves(w[filter][1 - odd], w[filter][2 - odd]);
    }
  }
}

// Writes the table of layer 2: a thread has two channels of one pixel of all filters.
DEVICE void write_table_2(unsigned int *table, const float *RESTRICT conv2, int thread) {
  const int channel = thread % 2 * 2, p = thread / 2 / PADDED - 1, q = thread / 2 % PADDED - 1;
  if (thread >= WORDS_OF_2) return;
  float w[FILTERS_2][2];
#pragma unroll
  for (int filter = 0; filter < FILTERS_2; filter++) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      w[filter][i] = weight_or_zero(conv2 + (filter * CHANNELS_2 + channel + i) * (TAPS * TAPS), p, q);
    }
  }
#pragma unroll
  for (int filter = 0; filter < FILTERS_2; filter++) {
    table[filter * WORDS_OF_2 + thread] = two_halves(w[filter][0], w[filter][1]);
  }
}
