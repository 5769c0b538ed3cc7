// STEPS time steps in one pass over memory, on a GPU. A block walks down a strip of columns, within a piece of the rows; a thread has
// one column. In each turn the block takes one row its first step, another row its second step, and so on. LAG = 2 turns lie
// between two steps of a row, since a step needs the rows above and below of the step before:
//
//   turn              n      n + 1  n + 2  n + 3  n + 4
//   step 0 of row     r      r + 1  r + 2  r + 3  r + 4     reads the grid
//   step 1 of row     r - 2  r - 1  r      r + 1  r + 2     reads rows r - 1, r, r + 1 of step 0: of 3, 2 and 1 turns ago
//   step 2 of row     r - 4  r - 3  r - 2  r - 1  r         the last step writes the grid
//
// At the sides of its strip and at the ends of its piece a block also computes cells of its neighbours:
//
//   | LEFT columns | OWN columns, which it writes | LEFT columns |     LEFT = STEPS - 1, THREADS columns in all
//
// Between two steps, populations that move along a row are in shared memory, near[step][turn % 4][direction][column + 1], and those
// that stay in their column in registers.
//
// Knob NX, NY:  sides of the grid
// Knob STEPS:   steps of a pass
// Knob THREADS: columns that a block computes
// Knob OWN:     columns that it writes, at most THREADS - 2 (STEPS - 1)
// Knob LAYOUT, GRID, SOLID: as in grid.h, here SOA, ONE and char
#include "d2q9.h"
constexpr int CELLS = NX * NY;
constexpr int LINE = THREADS + 2; // floats in a line of shared memory: one more at either end
constexpr int LEFT = STEPS - 1;   // columns left of those that it writes
constexpr int LAG = 2;            // turns between two steps of a row

struct nine {
  float f0, f1, f2, f3, f4, f5, f6, f7, f8;
};

// Returns the populations that flow into cell x of row y.
static __device__ __forceinline__ nine fetch(const float *__restrict__ from, int x, int west, int east, int y) {
  const int north = y + 1 == NY ? 0 : y + 1, south = y == 0 ? NY - 1 : y - 1;
  nine f;
  f.f0 = from[y * NX + x];
  f.f1 = from[CELLS + y * NX + west];
  f.f2 = from[2 * CELLS + south * NX + x];
  f.f3 = from[3 * CELLS + y * NX + east];
  f.f4 = from[4 * CELLS + north * NX + x];
  f.f5 = from[5 * CELLS + south * NX + west];
  f.f6 = from[6 * CELLS + south * NX + east];
  f.f7 = from[7 * CELLS + north * NX + east];
  f.f8 = from[8 * CELLS + north * NX + west];
  return f;
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    strips(const float *__restrict__ from, float *__restrict__ to, const char *__restrict__ obstacles, float *sums, int step,
              float omega, float w1, float w2, float last1, float last2) {
  extern __shared__ float near[][4][6][LINE]; /* for each step but the last: rows of the last four turns, six directions */
  const int lane = threadIdx.x, strip = blockIdx.x, column = strip * OWN + lane - LEFT, end = min(NX, (strip + 1) * OWN);
  const int x = (column + NX) % NX, west = x == 0 ? NX - 1 : x - 1, east = x + 1 == NX ? 0 : x + 1;
  const bool own = column >= strip * OWN && column < end;
  const bool read = column >= strip * OWN - LEFT && column < end + LEFT;
  const int piece = (NY + gridDim.y - 1) / gridDim.y, top = blockIdx.y * piece, bottom = min(NY, top + piece);
  float speeds[STEPS];
  float kept0[STEPS][2], kept2[STEPS][3], kept4[STEPS]; /* populations 0, 2, 4 of the last turns, newest first */
  unsigned seen = 0;                                    /* obstacles: a bit a turn, the newest lowest */
  int wall = 0;
  nine next = {};
#pragma unroll
  for (int t = 0; t < STEPS; t++) {
    speeds[t] = kept0[t][0] = kept0[t][1] = kept2[t][0] = kept2[t][1] = kept2[t][2] = kept4[t] = 0.0f;
  }
  if (read) {
    const int y = (top - LEFT + NY) % NY;
    next = fetch(from, x, west, east, y);
    wall = obstacles[y * NX + x];
  }
  for (int turn = 0; turn < bottom - top + LEFT * (LAG + 1); turn++) {
    const nine now = next;
    seen = seen << 1 | (wall != 0);
    if (turn + 1 < bottom - top + 2 * LEFT && read) {
      const int y = (top - LEFT + turn + 1 + NY) % NY;
      next = fetch(from, x, west, east, y);
      wall = obstacles[y * NX + x];
    }
#pragma unroll
    for (int t = STEPS - 1; t >= 0; t--) { /* later steps first: they read the earlier steps' results of previous turns */
      const int row = top - LEFT + turn - LAG * t;
      const bool counts = own && row >= top && row < bottom;
      const int y = (row + NY) % NY;
      float f0, f1, f2, f3, f4, f5, f6, f7, f8;
      if (t == 0) {
        f0 = now.f0, f1 = now.f1, f2 = now.f2, f3 = now.f3, f4 = now.f4, f5 = now.f5, f6 = now.f6, f7 = now.f7, f8 = now.f8;
      } else {
        const float(*one)[LINE] = near[t - 1][turn - 1 & 3], (*two)[LINE] = near[t - 1][turn - 2 & 3];
        const float(*three)[LINE] = near[t - 1][turn - 3 & 3];
        f0 = kept0[t - 1][1];
        f2 = kept2[t - 1][2];
        f4 = kept4[t - 1];
        f1 = two[0][lane];
        f3 = two[1][lane + 2];
        f5 = three[2][lane];
        f6 = three[3][lane + 2];
        f7 = one[4][lane + 2];
        f8 = one[5][lane];
      }
      const bool solid = seen >> LAG * t & 1, walled = __any_sync(0xffffffff, solid);
      float speed;
#include "cell_reciprocal.inc"
      const float a1 = t == STEPS - 1 ? last1 : w1, a2 = t == STEPS - 1 ? last2 : w2;
      if (y == NY - 2 && !solid && g3 - a1 > 0.0f && g6 - a2 > 0.0f && g7 - a2 > 0.0f) {
        g1 += a1;
        g5 += a2;
        g8 += a2;
        g3 -= a1;
        g6 -= a2;
        g7 -= a2;
      }
      speeds[t] += counts ? speed : 0.0f;
      if (t < STEPS - 1) {
        float(*here)[LINE] = near[t][turn & 3];
        here[0][lane + 1] = g1;
        here[1][lane + 1] = g3;
        here[2][lane + 1] = g5;
        here[3][lane + 1] = g6;
        here[4][lane + 1] = g7;
        here[5][lane + 1] = g8;
        kept0[t][1] = kept0[t][0];
        kept0[t][0] = g0;
        kept2[t][2] = kept2[t][1];
        kept2[t][1] = kept2[t][0];
        kept2[t][0] = g2;
        kept4[t] = g4;
      } else if (counts) {
        float *out = to + y * NX + x;
        out[0] = g0;
        out[CELLS] = g1;
        out[2 * CELLS] = g2;
        out[3 * CELLS] = g3;
        out[4 * CELLS] = g4;
        out[5 * CELLS] = g5;
        out[6 * CELLS] = g6;
        out[7 * CELLS] = g7;
        out[8 * CELLS] = g8;
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int t = 0; t < STEPS; t++) {
    for (int reach = 16; reach > 0; reach /= 2) {
      speeds[t] += __shfl_down_sync(0xffffffff, speeds[t], reach);
    }
    if (lane % 32 == 0) {
      sums[((step + t) * gridDim.x * gridDim.y + blockIdx.y * gridDim.x + strip) * (THREADS / 32) + lane / 32] = speeds[t];
    }
  }
}
