// The whole loop in one launch, on a grid that fills the chip. A block keeps ROWS rows on its multiprocessor from the first step to the
// last, one copy of each population, which is written where one was read (the AA pattern): odd steps read from the neighbours, even
// steps in the cell itself. A thread has NX / THREADS columns of all rows.
//
//   directions 1, 3, 5, 6, 7, 8   move to another column    shared memory
//   directions 0, 2, 4            stay in a column          registers
//   2, 5, 6 and 4, 7, 8           at the outer rows, to and from the blocks above and below: in the L2 cache, in words of 8 bytes,
//                                 each a population and the number of the step that wrote it
//
// In each step only one cell reads a place, and then writes to it. So one barrier a step is enough within a block. Between blocks, a
// reader waits until a word has the number of the step before. A block computes its outer rows first and sends their words, which
// travel while it computes the other rows.
//
// Knob NX, NY:  sides of the grid; NX a multiple of THREADS, NY of ROWS
// Knob ROWS:    rows of a block, four or more
// Knob THREADS: threads of a block
// Knob LEFT_OUT: NOTHING
//                WAITS   a block takes the words that are there, of whichever step: a probe, right for one step
// Knob LAYOUT, GRID, SOLID: as in grid.h, here SOA, ONE and char
#include "d2q9.h"
#include "arithmetic.h"
#ifndef LEFT_OUT
#define LEFT_OUT NOTHING
#endif
#define NOTHING 1
#define WAITS 2
constexpr int COLUMNS = NX / THREADS, BLOCKS = NY / ROWS, CELLS = NX * NY;
typedef unsigned long long word;

// Return the offset of row r of a population in shared memory: 5 and 6 of all rows but the last, 7 and 8 of all but the first.
static __device__ constexpr int plane_1(int r) { return r * NX; }
static __device__ constexpr int plane_3(int r) { return (ROWS + r) * NX; }
static __device__ constexpr int plane_5(int r) { return (2 * ROWS + r) * NX; }
static __device__ constexpr int plane_6(int r) { return (3 * ROWS - 1 + r) * NX; }
static __device__ constexpr int plane_7(int r) { return (4 * ROWS - 3 + r) * NX; }
static __device__ constexpr int plane_8(int r) { return (5 * ROWS - 4 + r) * NX; }
// Return the offset of the three rows of words that leave a block upwards, and downwards.
static __device__ constexpr int upwards(int block) { return block * 6 * NX; }
static __device__ constexpr int downwards(int block) { return (block * 6 + 3) * NX; }

// The nine populations of a cell, and three of them as words.
struct nine {
  float f0, f1, f2, f3, f4, f5, f6, f7, f8;
};
struct three {
  word straight, from_west, from_east;
};
// Obstacles: a bit a row, of a thread's column, and of any column of its warp.
struct obstacles {
  unsigned own, of_warp;
};
// The populations of a column that a thread keeps in registers.
struct column {
  float f0[ROWS], f2[ROWS], f4[ROWS];
};

static __device__ __forceinline__ void put(word *slot, float value, int tag) {
  const word told = (word)(unsigned)tag << 32 | __float_as_uint(value);
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(slot), "l"(told) : "memory");
}
static __device__ __forceinline__ word look(const word *slot) {
  word seen;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(seen) : "l"(slot) : "memory");
  return seen;
}
static __device__ __forceinline__ float value(word of) { return __uint_as_float((unsigned)of); }
static __device__ __forceinline__ bool is_of(word seen, int tag) { return (int)(seen >> 32) == tag; }
#if LEFT_OUT == WAITS
static __device__ __forceinline__ bool is_since(word seen, int tag) { return (int)(seen >> 32) >= tag; }
#endif

// The places of a thread's populations in a step: in the cell itself, each in its opposite's place (TURNED), or at the neighbours.
template <bool TURNED> struct places {
  float *near;
  word *south, *north; /* words of the row below the block's first row, or of that row; words of the row above its last, or of that */
  int x, west, east;

  __device__ __forceinline__ places(float *near, word *halo, int block, int x)
      : near(near), x(x), west(x == 0 ? NX - 1 : x - 1), east(x + 1 == NX ? 0 : x + 1) {
    south = halo + (TURNED ? downwards(block) : upwards(block == 0 ? BLOCKS - 1 : block - 1));
    north = halo + (TURNED ? upwards(block) : downwards(block + 1 == BLOCKS ? 0 : block + 1));
  }
  // Return the places of the words of 2, 5, 6 or 4, 7, 8.
  __device__ __forceinline__ word *south_2() const { return south + x; }
  __device__ __forceinline__ word *south_5() const { return south + NX + (TURNED ? x : west); }
  __device__ __forceinline__ word *south_6() const { return south + 2 * NX + (TURNED ? x : east); }
  __device__ __forceinline__ word *north_4() const { return north + x; }
  __device__ __forceinline__ word *north_7() const { return north + NX + (TURNED ? x : east); }
  __device__ __forceinline__ word *north_8() const { return north + 2 * NX + (TURNED ? x : west); }
  __device__ __forceinline__ three look_south() const { return {look(south_2()), look(south_5()), look(south_6())}; }
  __device__ __forceinline__ three look_north() const { return {look(north_4()), look(north_8()), look(north_7())}; }

  __device__ __forceinline__ float *at_1(int r) const { return TURNED ? near + plane_3(r) + x : near + plane_1(r) + west; }
  __device__ __forceinline__ float *at_3(int r) const { return TURNED ? near + plane_1(r) + x : near + plane_3(r) + east; }
  __device__ __forceinline__ float *at_5(int r) const { return TURNED ? near + plane_7(r) + x : near + plane_5(r - 1) + west; }
  __device__ __forceinline__ float *at_6(int r) const { return TURNED ? near + plane_8(r) + x : near + plane_6(r - 1) + east; }
  __device__ __forceinline__ float *at_7(int r) const { return TURNED ? near + plane_5(r) + x : near + plane_7(r + 1) + east; }
  __device__ __forceinline__ float *at_8(int r) const { return TURNED ? near + plane_6(r) + x : near + plane_8(r + 1) + west; }
  __device__ __forceinline__ float &f2(column &kept, int r) const { return TURNED ? kept.f4[r] : kept.f2[r - 1]; }
  __device__ __forceinline__ float &f4(column &kept, int r) const { return TURNED ? kept.f2[r] : kept.f4[r + 1]; }
};

template <bool TURNED>
static __device__ __forceinline__ nine load(const places<TURNED> &at, column &kept, int r, const three &south, const three &north) {
  nine f;
  f.f0 = kept.f0[r];
  f.f1 = *at.at_1(r);
  f.f3 = *at.at_3(r);
  if (r == 0) {
    f.f2 = value(south.straight);
    f.f5 = value(south.from_west);
    f.f6 = value(south.from_east);
  } else {
    f.f2 = at.f2(kept, r);
    f.f5 = *at.at_5(r);
    f.f6 = *at.at_6(r);
  }
  if (r == ROWS - 1) {
    f.f4 = value(north.straight);
    f.f7 = value(north.from_east);
    f.f8 = value(north.from_west);
  } else {
    f.f4 = at.f4(kept, r);
    f.f7 = *at.at_7(r);
    f.f8 = *at.at_8(r);
  }
  return f;
}

template <bool TURNED>
static __device__ __forceinline__ void store(const places<TURNED> &at, column &kept, int r, const nine &g, int tag) {
  kept.f0[r] = g.f0;
  *at.at_1(r) = g.f3;
  *at.at_3(r) = g.f1;
  if (r == 0) {
    put(at.south_2(), g.f4, tag);
    put(at.south_5(), g.f7, tag);
    put(at.south_6(), g.f8, tag);
  } else {
    at.f2(kept, r) = g.f4;
    *at.at_5(r) = g.f7;
    *at.at_6(r) = g.f8;
  }
  if (r == ROWS - 1) {
    put(at.north_4(), g.f2, tag);
    put(at.north_7(), g.f5, tag);
    put(at.north_8(), g.f6, tag);
  } else {
    at.f4(kept, r) = g.f2;
    *at.at_7(r) = g.f5;
    *at.at_8(r) = g.f6;
  }
}

template <bool TURNED>
static __device__ __forceinline__ float cell(const places<TURNED> &at, column &kept, int r, const three &south,
                                             const three &north, obstacles walls, bool driven, int tag, float omega,
                                             float w1, float w2) {
  const auto [f0, f1, f2, f3, f4, f5, f6, f7, f8] = load(at, kept, r, south, north);
  const bool solid = walls.own >> r & 1, walled = walls.of_warp >> r & 1;
  float speed;
#include CELL
  if (r == (NY - 2) % ROWS && driven && !solid && g3 - w1 > 0.0f && g6 - w2 > 0.0f && g7 - w2 > 0.0f) {
    g1 += w1;
    g5 += w2;
    g8 += w2;
    g3 -= w1;
    g6 -= w2;
    g7 -= w2;
  }
  store(at, kept, r, nine{g0, g1, g2, g3, g4, g5, g6, g7, g8}, tag);
  return speed;
}

template <bool TURNED>
static __device__ __forceinline__ void step(float *near, word *halo, column (&kept)[COLUMNS], const obstacles (&walls)[COLUMNS],
                                            float *sums, int tag, bool driven, float omega, float w1, float w2) {
  float speed = 0.0f;
#pragma unroll
  for (int c = 0; c < COLUMNS; c++) {
    const places<TURNED> at(near, halo, blockIdx.x, threadIdx.x + c * THREADS);
    three south = at.look_south(), north = at.look_north();
    const auto take = [&](int r) {
      speed += cell(at, kept[c], r, south, north, walls[c], driven, tag + 1, omega, w1, w2);
    };
    take(1);
    take(2);
#if LEFT_OUT != WAITS
    while (!(is_of(south.straight, tag) && is_of(south.from_west, tag) && is_of(south.from_east, tag))) {
      south = at.look_south();
    }
#endif
    take(0);
#if LEFT_OUT != WAITS
    while (!(is_of(north.straight, tag) && is_of(north.from_west, tag) && is_of(north.from_east, tag))) {
      north = at.look_north();
    }
#endif
    take(ROWS - 1);
#pragma unroll
    for (int r = 3; r < ROWS - 1; r++) {
      take(r);
    }
  }
  for (int reach = 16; reach > 0; reach /= 2) {
    speed += __shfl_down_sync(0xffffffff, speed, reach);
  }
  if (threadIdx.x % 32 == 0) {
    *sums = speed;
  }
  __syncthreads();
}

// Copies the cells to the grid after the last step, from where they wrote their populations.
template <bool TURNED>
static __device__ __forceinline__ void leave(float *near, word *halo, column (&kept)[COLUMNS], float *grid) {
#pragma unroll
  for (int c = 0; c < COLUMNS; c++) {
    const places<TURNED> at(near, halo, blockIdx.x, threadIdx.x + c * THREADS);
    const three south = at.look_south(), north = at.look_north();
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const nine f = load(at, kept[c], r, south, north);
      float *to = grid + (blockIdx.x * ROWS + r) * NX + at.x;
      to[0] = f.f0;
      to[CELLS] = f.f3;
      to[2 * CELLS] = f.f4;
      to[3 * CELLS] = f.f1;
      to[4 * CELLS] = f.f2;
      to[5 * CELLS] = f.f7;
      to[6 * CELLS] = f.f8;
      to[7 * CELLS] = f.f5;
      to[8 * CELLS] = f.f6;
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    resident(float *grid, const char *map, float *sums, word *halo, int first, int steps, float omega, float w1, float w2) {
  extern __shared__ float near[];
  const int block = blockIdx.x;
  const bool driven = block == (NY - 2) / ROWS;
  column kept[COLUMNS];
  obstacles walls[COLUMNS];
#pragma unroll
  for (int c = 0; c < COLUMNS; c++) {
    const places<true> at(near, halo, block, threadIdx.x + c * THREADS);
    walls[c].own = 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++) { /* the state that the cells would have written */
      const int i = (block * ROWS + r) * NX + at.x;
      const float *from = grid + i;
      walls[c].own |= (map[i] != 0) << r;
      store(at, kept[c], r,
            nine{from[0], from[CELLS], from[2 * CELLS], from[3 * CELLS], from[4 * CELLS], from[5 * CELLS], from[6 * CELLS],
                 from[7 * CELLS], from[8 * CELLS]},
            first);
    }
    walls[c].of_warp = __reduce_or_sync(0xffffffff, walls[c].own);
  }
  __syncthreads();
#if LEFT_OUT == WAITS
  for (int c = 0; c < COLUMNS; c++) { /* the neighbours have begun: their words are of the state before the first step, or newer */
    const places<false> at(near, halo, block, threadIdx.x + c * THREADS);
    const auto has_begun = [first](const three &words) {
      return is_since(words.straight, first) && is_since(words.from_west, first) && is_since(words.from_east, first);
    };
    while (!(has_begun(at.look_south()) && has_begun(at.look_north()))) {
    }
  }
#endif
  float *slot = sums + block * (THREADS / 32) + threadIdx.x / 32;
  for (int done = 0; done < steps; done++) {
    const float a1 = done + 1 == steps ? 0.0f : w1, a2 = done + 1 == steps ? 0.0f : w2;
    step<false>(near, halo, kept, walls, slot, first + done, driven, omega, a1, a2);
    slot += BLOCKS * (THREADS / 32);
    if (++done == steps) {
      leave<false>(near, halo, kept, grid);
      return;
    }
    const float b1 = done + 1 == steps ? 0.0f : w1, b2 = done + 1 == steps ? 0.0f : w2;
    step<true>(near, halo, kept, walls, slot, first + done, driven, omega, b1, b2);
    slot += BLOCKS * (THREADS / 32);
  }
  leave<true>(near, halo, kept, grid);
}
