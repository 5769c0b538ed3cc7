// Operands of a warpgroup's products (wgmma) in shared memory: their descriptors, the parts of a number, and the weights of layer 1.
//
// Knob PARTS:  1  operands rounded to fp16
//              2  split into two parts: low x high, high x low, then high x high, as exact as fp32
// Knob WARPGROUPS: warpgroups of a block
#pragma once
#ifndef PARTS
#define PARTS 1
#endif
#ifndef WARPGROUPS
#define WARPGROUPS 4
#endif
#include "half_products.h"
#include "hopper.h"
#define TAPS 7
#define SPLIT_SCALE 2048.0f
#define STEP_BYTES 2048
#define FILTERS_1 4
#define SIZE_1 86
#define OUT_1 80
#define STEPS_1 8

// Returns the descriptor of an operand without swizzle: pieces of 8 numbers of 8 rows, 128 bytes; the next piece is `leading` bytes on,
// the next 8 rows are `stride` bytes on.
DEVICE unsigned long long plain_descriptor(const char *shared, int leading, int stride) {
  return (unsigned long long)((address(shared) & 0x3FFFF) >> 4) << START_ADDRESS_BIT |
         (unsigned long long)(leading / 16) << LEADING_BIT | (unsigned long long)(stride / 16) << STRIDE_BIT;
}

// Waits for all threads of a warpgroup. Others go other ways meanwhile, so the barrier is not `.aligned`.
DEVICE void sync_group(int group) { asm volatile("barrier.sync %0, 128;" ::"r"(group + 1) : "memory"); }

// Orders this thread's reads and writes of shared memory before what matrix units and TMA do there after the next barrier.
DEVICE void publish_writes() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

DEVICE void prefetch(const float *from, int bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(from)), "r"(bytes) : "memory");
}

// Returns the remainders of two numbers after rounding to `high`, scaled away from the smallest numbers of fp16.
DEVICE unsigned int two_remainders(float first, float second, unsigned int high) {
  return two_halves((first - first_half(high)) * SPLIT_SCALE, (second - second_half(high)) * SPLIT_SCALE);
}

// Writes the parts of a number, `apart` bytes from each other.
DEVICE void store_parts(char *to, float value, int apart) {
  const unsigned int high = two_halves(value, 0.0f);
  *(unsigned short *)to = (unsigned short)high;
  if (PARTS == 2) *(unsigned short *)(to + apart) = (unsigned short)two_remainders(value, 0.0f, high);
}

// Returns the offset of number k of row m of a step's weights.
DEVICE int weight_place(int step, int m, int k) {
  return step * STEP_BYTES + m / 8 * 256 + k / 8 * 128 + m % 8 * 16 + k % 8 * 2;
}

// Lays out the 64 rows of weights of layer 1. A thread's rows m and m + 8 (picture in hopper.h) are neighbouring outputs of a row of
// the image, so that it has them side by side; bit 2 of m is the row of the two.
DEVICE void load_weights_1(char *to, const float *RESTRICT weights) {
#pragma unroll 4
  for (int at = threadIdx.x; at < STEPS_1 * 1024; at += WARPGROUPS * 128) {
    const int step = at / 1024, m = at / 16 % 64, k = at % 16;
    const int filter = m / 16, p = step - m / 4 % 2, q = k - (m % 4 * 2 + m / 8 % 2);
    const int known = p >= 0 && p < TAPS && q >= 0 && q < TAPS;
    store_parts(to + weight_place(step, m, k), known ? weights[(filter * TAPS + p) * TAPS + q] : 0.0f, STEPS_1 * STEP_BYTES);
  }
}
