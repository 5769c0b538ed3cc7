// Rows of a grid for a CPU's kernels, which compute a vector of cells at a time. A row is its nine directions one after the other:
//
//   direction 0   | 16 cells of padding | NX cells, rounded up to 16 | 16 cells of padding |      STRIDE floats
//   direction 1   ...                     the padding cells next to the row hold its periodic copies
//
// The lanes after the last cell of a row count as obstacles.
//
// Knob NX:         cells of a row
// Knob NY:         rows of the grid
// Knob STEPS:      largest number of steps in a walk
// Knob LANES:      cells of a vector, as many as a register: 16 with AVX-512, 8 with AVX2
// Knob ARITHMETIC: SELECT_BOTH  both results for each cell, one is chosen
//                  PAIRS        opposite directions share terms that differ only in sign; one division
#pragma once
#define WIDTH 16
#ifndef LANES
#define LANES 16
#endif
#ifndef ARITHMETIC
#define ARITHMETIC SELECT_BOTH
#endif
#if LANES == 16
#define REAL float16
#define MASK int16
#define WALLS char16
#define TO_MASK convert_int16
#define IN_EIGHT(v) ((v).lo + (v).hi)
#else
#define REAL float8
#define MASK int8
#define WALLS char8
#define TO_MASK convert_int8
#define IN_EIGHT(v) (v)
#endif
#include "d2q9.h"
#define SELECT_BOTH 1
#define PAIRS 2
#if ARITHMETIC == PAIRS
#define CELL "cell_pairs.inc"
#else
#define CELL "cell_select.inc"
#endif
#define ACROSS ((NX + WIDTH - 1) / WIDTH * WIDTH)
#define STRIDE (ACROSS + 2 * WIDTH)
#define ROW (9 * STRIDE)
#define ROW_OF(y) (((y) % NY + NY) % NY)
#define MINE ((1 + 3 * (STEPS - 1)) * ROW + STEPS * WIDTH)
#define KEPT_ROW(t, y) (mine + (1 + 3 * ((t) - 1) + ((y) + 3 * STEPS) % 3) * ROW + WIDTH)
#define BEFORE(t, y) \
  ((t) > 1 ? KEPT_ROW((t) - 1, y) : ROW_OF(y) == NY - 2 ? driven : from + (long)ROW_OF(y) * ROW + WIDTH)
#define ALIGNED_AT(row, k) *(GLOBAL REAL *)((row) + (k) * STRIDE + x)
#define LOAD(row, k, shift) *(GLOBAL const unaligned *)((row) + (k) * STRIDE + x + (shift))

typedef REAL unaligned __attribute__((aligned(4))); /* a plain vector must lie at a multiple of its size */

// Writes the periodic copies beyond both ends of a row.
DEVICE void wrap(GLOBAL float *row) {
  row[1 * STRIDE - 1] = row[1 * STRIDE + NX - 1];
  row[5 * STRIDE - 1] = row[5 * STRIDE + NX - 1];
  row[8 * STRIDE - 1] = row[8 * STRIDE + NX - 1];
  row[3 * STRIDE + NX] = row[3 * STRIDE];
  row[6 * STRIDE + NX] = row[6 * STRIDE];
  row[7 * STRIDE + NX] = row[7 * STRIDE];
}
