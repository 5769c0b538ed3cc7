// The whole loop in one kernel: each block keeps ROWS rows of the grid in registers from the first step to the last, one cell a thread.
//
//   neighbours in the block              through shared memory
//   rows of the blocks above and below   through the L2 cache, in `halo`
//
// A step needs no launch and no barrier over the grid, only one exchange between neighbouring blocks. All blocks must run at once.
//
// Knob NX:       columns, a multiple of 32
// Knob ROWS:     rows of a block, NX * ROWS threads, one a cell
// Knob EXCHANGE: FLAGS  a block writes its rows, then raises a flag; neighbours wait for the flag, then read the rows
//                TAGS   each value has the number of its step in the same 8 bytes; neighbours read until that is there
// Knob LAYOUT, GRID, SOLID: as in grid.h, here SOA, ONE and char
#ifndef EXCHANGE
#define EXCHANGE FLAGS
#endif
#include "d2q9.h"
#define FLAGS 1
#define TAGS 2
#if EXCHANGE == TAGS
#define WORD unsigned long long
#define SEND(slot, value) send(halo + slot, value, tag)
#define MEET
#define RECEIVE(slot, a, b, c, at_a, at_b, at_c) receive(halo + slot, a, b, c, at_a, at_b, at_c, tag)
static __device__ __forceinline__ void send(WORD *slot, float value, int tag) {
  const WORD word = (WORD)(unsigned)tag << 32 | __float_as_uint(value);
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(slot), "l"(word) : "memory");
}
static __device__ __forceinline__ void receive(const WORD *rows, float &a, float &b, float &c, int at_a, int at_b, int at_c,
                                               int tag) {
  WORD words[3];
  do {
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(words[0]) : "l"(rows + at_a) : "memory");
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(words[1]) : "l"(rows + NX + at_b) : "memory");
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(words[2]) : "l"(rows + 2 * NX + at_c) : "memory");
  } while ((int)(words[0] >> 32) != tag || (int)(words[1] >> 32) != tag || (int)(words[2] >> 32) != tag);
  a = __uint_as_float((unsigned)words[0]);
  b = __uint_as_float((unsigned)words[1]);
  c = __uint_as_float((unsigned)words[2]);
}
#else
#define WORD float
#define SEND(slot, value) __stcg(halo + slot, value)
#define MEET meet(flags, block, below, above, tid, tag);
#define RECEIVE(slot, a, b, c, at_a, at_b, at_c) receive(halo + slot, a, b, c, at_a, at_b, at_c)
static __device__ __forceinline__ void wait_for(const int *flag, int tag) {
  int seen;
  do {
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
  } while (seen < tag);
}
static __device__ __forceinline__ void meet(int *flags, int block, int below, int above, int tid, int tag) {
  if (tid == 0) {
    asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(flags + block), "r"(tag) : "memory");
    wait_for(flags + below, tag);
  }
  if (tid == NX * ROWS - 1) {
    wait_for(flags + above, tag);
  }
  __syncthreads();
}
static __device__ __forceinline__ void receive(const WORD *rows, float &a, float &b, float &c, int at_a, int at_b,
                                               int at_c) {
  a = __ldcg(rows + at_a);
  b = __ldcg(rows + NX + at_b);
  c = __ldcg(rows + 2 * NX + at_c);
}
#endif

extern "C" __global__ void __launch_bounds__(NX * ROWS, 1)
    persistent(float *grid, const char *obstacles, float *sums, WORD *halo, int *flags, int first, int ny, int steps,
               float omega, float w1, float w2) {
  __shared__ float near[2][8][ROWS][NX];
  const int x = threadIdx.x, row = threadIdx.y, block = blockIdx.x, blocks = gridDim.x;
  const int y = block * ROWS + row, i = y * NX + x, cells = NX * ny, tid = row * NX + x;
  const int east = x + 1 == NX ? 0 : x + 1, west = x == 0 ? NX - 1 : x - 1;
  const int above = block + 1 == blocks ? 0 : block + 1, below = block == 0 ? blocks - 1 : block - 1;
  const int solid = obstacles[i];
  const float a1 = w1, a2 = w2;
  float h0 = grid[i], h1 = grid[cells + i], h2 = grid[2 * cells + i], h3 = grid[3 * cells + i], h4 = grid[4 * cells + i];
  float h5 = grid[5 * cells + i], h6 = grid[6 * cells + i], h7 = grid[7 * cells + i], h8 = grid[8 * cells + i];
  float speed = 0.0f;

  for (int step = 0; step < steps; step++) {
    const int half = step & 1, tag = first + step + 1, own = (half * blocks + block) * 6 * NX + x;
    if (row == ROWS - 1) {
      SEND(own, h2);
      SEND(own + NX, h5);
      SEND(own + 2 * NX, h6);
    }
    if (row == 0) {
      SEND(own + 3 * NX, h4);
      SEND(own + 4 * NX, h7);
      SEND(own + 5 * NX, h8);
    }
    near[half][0][row][x] = h1;
    near[half][1][row][x] = h3;
    if (ROWS > 1) {
      near[half][2][row][x] = h2;
      near[half][3][row][x] = h5;
      near[half][4][row][x] = h6;
      near[half][5][row][x] = h4;
      near[half][6][row][x] = h7;
      near[half][7][row][x] = h8;
    }
    __syncthreads();
    MEET
    const float f0 = h0, f1 = near[half][0][row][west], f3 = near[half][1][row][east];
    float f2, f4, f5, f6, f7, f8;
    if (row == 0) {
      RECEIVE((half * blocks + below) * 6 * NX, f2, f5, f6, x, west, east);
    } else {
      f2 = near[half][2][row - 1][x];
      f5 = near[half][3][row - 1][west];
      f6 = near[half][4][row - 1][east];
    }
    if (row == ROWS - 1) {
      RECEIVE((half * blocks + above) * 6 * NX + 3 * NX, f4, f7, f8, x, east, west);
    } else {
      f4 = near[half][5][row + 1][x];
      f7 = near[half][6][row + 1][east];
      f8 = near[half][7][row + 1][west];
    }
    w1 = step + 1 == steps ? 0.0f : a1;
    w2 = step + 1 == steps ? 0.0f : a2;
    {
#include "cell_select.inc"
#include "accelerate_cell.inc"
      h0 = g0;
      h1 = g1;
      h2 = g2;
      h3 = g3;
      h4 = g4;
      h5 = g5;
      h6 = g6;
      h7 = g7;
      h8 = g8;
    }
    for (int reach = 16; reach > 0; reach /= 2) {
      speed += __shfl_down_sync(0xffffffff, speed, reach);
    }
    if (tid % 32 == 0) {
      sums[(step * blocks + block) * (NX * ROWS / 32) + tid / 32] = speed;
    }
  }
  grid[i] = h0;
  grid[cells + i] = h1;
  grid[2 * cells + i] = h2;
  grid[3 * cells + i] = h3;
  grid[4 * cells + i] = h4;
  grid[5 * cells + i] = h5;
  grid[6 * cells + i] = h6;
  grid[7 * cells + i] = h7;
  grid[8 * cells + i] = h8;
}
