// Lays out input and weights as operands of the tensor cores, in one or two parts of 2 bytes.
#pragma once
#include "operands.h"
#include "product.h"

DEVICE unsigned short rounded(float value) {
  unsigned short bits;
  asm("cvt.rn." TEXT(ELEMENT) ".f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

DEVICE float widened(unsigned short bits) {
  float value;
  asm("cvt.f32." TEXT(ELEMENT) " %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

// Returns a part of `value`: 0 the rounded value; 1 the remainder, scaled away from the smallest numbers of fp16.
DEVICE unsigned short part_of(float value, int part) {
  const unsigned short high = rounded(value);
  return part == 0 ? high : rounded((value - widened(high)) * SPLIT_SCALE);
}

// x (channel, row, column) -> pixels (part, row, column, channel); a block transposes 32 columns of 64 channels of a row.
KERNEL_OF(256, 4) void to_pixels(const float *RESTRICT x, unsigned short *RESTRICT pixels) {
  __shared__ float tile[DEPTH][33];
  const int tid = threadIdx.x, row = blockIdx.y, columns = X_ROW, rows = HEIGHT + TAPS - 1;
#pragma unroll
  for (int k = tid; k < DEPTH * 32; k += 256) {
    const int channel = blockIdx.z * DEPTH + k / 32, column = blockIdx.x * 32 + k % 32;
    tile[k / 32][k % 32] = channel < CHANNELS && column < columns ? x[X_AT(channel, row, column)] : 0.0f;
  }
  __syncthreads();
#pragma unroll
  for (int k = tid; k < PARTS * DEPTH * 32 / 4; k += 256) {
    const int part = k / (DEPTH * 32 / 4), channel = k % (DEPTH / 4) * 4, from = k / (DEPTH / 4) % 32;
    const int column = blockIdx.x * 32 + from;
    if (column < columns) {
      ushort4 four = {part_of(tile[channel][from], part), part_of(tile[channel + 1][from], part),
                      part_of(tile[channel + 2][from], part), part_of(tile[channel + 3][from], part)};
      *(ushort4 *)(pixels + ((part * rows + row) * columns + column) * PADDED_CHANNELS + blockIdx.z * DEPTH + channel) = four;
    }
  }
}

// weight (filter, channel, tap) -> packed (part, tap, filter, channel), filters and channels padded with zeros; a block
// transposes 64 channels of a filter.
KERNEL_OF(256, 4) void to_taps(const float *RESTRICT weight, unsigned short *RESTRICT packed) {
  __shared__ float tile[DEPTH * TAPS_2];
  const int tid = threadIdx.x, filter = blockIdx.x, first = blockIdx.y * DEPTH;
  for (int k = tid; k < DEPTH * TAPS_2; k += 256) {
    const int known = filter < FILTERS && first + k / TAPS_2 < CHANNELS;
    tile[k] = known ? weight[(filter * CHANNELS + first) * TAPS_2 + k] : 0.0f;
  }
  __syncthreads();
  for (int k = tid; k < PARTS * DEPTH * TAPS_2; k += 256) {
    const int slice = k / DEPTH, channel = k % DEPTH;
    packed[(slice * PADDED_FILTERS + filter) * PADDED_CHANNELS + first + channel] =
        part_of(tile[channel * TAPS_2 + slice % TAPS_2], slice / TAPS_2);
  }
}
