// Weights of both convolutions of the kernel of roles, in shared memory. A thread reads those of its products to registers
// once, two at a time, from tables in fp16. Each filter has zeros around it:
//
//   layer 1:  [odd][filter][row -1 to 7][column -8 - odd to 15 - odd]
//   layer 2:  [filter][row -1 to 7][column -1 to 7][channel]
//
// A thread has rows m and m + 8 of a product (picture in hopper.h). These are neighbouring outputs in a row of the image, so
// the second one's weights are a column further to the right. In layer 1 a word holds two columns, so there are two tables:
// `odd` is 1 in the table that is shifted by one column. Bit 2 of m says which row of a pair of output rows it is.
#pragma once
#include "roles_memory.h"

// Returns the weight in row p and column q of a filter of one channel, or 0 outside the filter.
DEVICE float weight_or_zero(const float *RESTRICT filter, int p, int q) {
  return p >= 0 && p < TAPS && q >= 0 && q < TAPS ? filter[p * TAPS + q] : 0.0f;
}

// Writes both tables of layer 1. A thread writes the same word of each filter: row p, columns q and q + 1, or q - 1 and q in
// the second table.
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

// Writes the table of layer 2. A thread writes the same word of each filter: row p, column q, two channels.
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
