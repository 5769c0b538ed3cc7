// STEPS time steps in one pass over memory. A warp walks along the rows of a strip of columns, from the first row of a piece to its
// last. A lane has two neighbouring columns, a and b. Populations that move along a row come from the lane beside it by a shuffle. In
// each turn a warp reads one row, gives one row its first step, another its second step, and so on. Each step is one row behind the
// step before it, and needs three rows of that: the one computed in this turn, and those of the last two turns:
//
//   turn              n      n + 1  n + 2  n + 3
//   the grid's row    r      r + 1  r + 2  r + 3
//   step 1 of row     r - 1  r      r + 1  r + 2     4, 7, 8 come from the row above: of this turn
//   step 2 of row     r - 2  r - 1  r      r + 1     0, 1, 3 of the same row: of the last turn, in `kept`
//   ...                                              2, 5, 6 of the row below: of the turn before that, in `older`
//   step STEPS        the last step writes the grid
//
// The outermost columns of a warp lack a neighbour. So each step makes one more column at either side wrong, and strips overlap:
//
//   | LEFT columns | OWN columns, which it writes | LEFT columns |     64 columns in all; LEFT is even, and STEPS at least
//
// Pieces overlap for the same reason: a warp reads STEPS rows before its piece and STEPS rows behind it.
//
// Shared memory has slots: a place for two cells of each lane. A lane copies its cells of a row to slots DEEP - 1 turns before it needs
// them. A lane reads no slots but its own, so there is no barrier.
//
// Most turns are plain: no obstacle and no driven row is near, and all rows are in the piece. Their code has none of these cases. The
// loop's body is one turn, as short as can be: each warp fetches its own instructions, since warps are at different places of the code.
// A body of two turns was a fifth slower.
//
// A cell relaxes as knob ARITHMETIC of arithmetic.h says, here MOMENTUM by default.
//
// Knob NX, NY:      sides of the grid, NX even
// Knob STEPS:       steps of a pass
// Knob OWN:         columns that a warp writes, even, at most 64 - 2 STEPS
// Knob PIECES:      pieces of the rows
// Knob EDGE_PIECES: pieces of the rows in the first and the last strip, whose walls make each turn longer
// Knob OLDER:       REGISTERS  a lane keeps `older` in registers, six for each step
//                   SLOTS      it keeps them in slots, so that more warps fit on a multiprocessor
// Knob OMEGA:       the rate of relaxation
// Knob LAYOUT, GRID, SOLID: as in grid.h, here SOA, ONE and char
#ifndef ARITHMETIC
#define ARITHMETIC MOMENTUM
#endif
#ifndef OLDER
#define OLDER REGISTERS
#endif
#define REGISTERS 1
#define SLOTS 2
// Warps that must fit on a multiprocessor, a block each. It has four schedulers. Two warps a scheduler leave 255 registers for a lane,
// three leave 168.
#if OLDER == SLOTS
#define WARPS 12
#else
#define WARPS 8
#endif
#include "arithmetic.h"
#include "d2q9.h"
// Rows that shared memory holds: one that is read in this turn, the others on their way.
#define DEEP 4
constexpr int CELLS = NX * NY, LEFT = (64 - OWN) / 2, STRIPS = (NX + OWN - 1) / OWN;
constexpr int EDGES = STRIPS < 2 ? STRIPS : 2, ROWS = (NY + PIECES - 1) / PIECES, EDGE_ROWS = (NY + EDGE_PIECES - 1) / EDGE_PIECES;
constexpr float omega = OMEGA;
constexpr int AHEAD = 1; // number of turns by which a row's obstacles are known before its populations
constexpr int APART = OLDER == SLOTS ? 32 : 1; // distance from a lane's element of `older` to its next one
constexpr int LINE = 32 * 8, ROW = 9 * LINE; // bytes of a row in shared memory: of one population, and of all nine

// Two neighbouring cells' values of a population.
struct alignas(8) two {
  float a, b;
};
// Returns a population after it has moved one cell east, or west: each cell gets that of its neighbour.
static __device__ __forceinline__ two eastwards(two g) { return {__shfl_up_sync(0xffffffff, g.b, 1), g.a}; }
static __device__ __forceinline__ two westwards(two g) { return {g.b, __shfl_down_sync(0xffffffff, g.a, 1)}; }

// Populations that a step keeps of the row that the step before computed. They have moved along their row already.
struct rows {
  two f0, f1, f3, f2, f5, f6;
};
// All populations of a lane's two cells of a row.
struct nine {
  two f0, f1, f2, f3, f4, f5, f6, f7, f8;
};

// Collides a cell in place, and returns its speed. SPECIAL: the cell may be an obstacle.
template <bool SPECIAL>
static __device__ __forceinline__ float collide(float &f0, float &f1, float &f2, float &f3, float &f4, float &f5, float &f6, float &f7,
                                                float &f8, bool solid) {
  constexpr bool walled = SPECIAL;
  float speed;
  {
#include CELL
    f0 = g0, f1 = g1, f2 = g2, f3 = g3, f4 = g4, f5 = g5, f6 = g6, f7 = g7, f8 = g8;
  }
  return speed;
}

// Drives a cell, if no population becomes negative by it.
static __device__ __forceinline__ void drive(float &g1, float &g3, float &g5, float &g6, float &g7, float &g8, float a1, float a2) {
  if (g3 - a1 > 0.0f && g6 - a2 > 0.0f && g7 - a2 > 0.0f) {
    g1 += a1;
    g5 += a2;
    g8 += a2;
    g3 -= a1;
    g6 -= a2;
    g7 -= a2;
  }
}

// Returns a kept value, and keeps another in its place.
static __device__ __forceinline__ two swapped(two *kept, two next) {
  const two before = *kept;
  *kept = next;
  return before;
}

// Returns the number of a row: the grid is periodic.
static __device__ __forceinline__ int wrapped(int y) { return y < 0 ? y + NY : y >= NY ? y - NY : y; }

// Begins to copy a lane's cells of a row to its slots. slot: address of the first; i: index of cell a.
static __device__ __forceinline__ void ask(unsigned slot, const float *__restrict__ from, int i) {
#pragma unroll
  for (int k = 0; k < 9; k++) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(slot + k * LINE), "l"(from + (k * CELLS + i)) : "memory");
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits for the row that was asked for DEEP - 1 turns ago, and returns the lane's cells of it.
static __device__ __forceinline__ nine receive(unsigned slot) {
  asm volatile("cp.async.wait_group %0;" ::"n"(DEEP - 2) : "memory");
  nine f;
  two *all = &f.f0;
#pragma unroll
  for (int k = 0; k < 9; k++) {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(all[k].a), "=f"(all[k].b) : "r"(slot + k * LINE) : "memory");
  }
  return f;
}

// Takes all steps of one turn. SPECIAL: the turn may not be plain.
// row, f: the row that was read, and its populations
// walls:  the obstacles of the rows of this turn, see the kernel
// own:    whether the warp writes the lane's columns
// w1, w2: what a driven cell gains in an axial and in a diagonal direction; last1, last2: the same for the last step of the pass
template <bool SPECIAL>
static __device__ __forceinline__ void take(rows (&kept)[STEPS], two *older, nine f, float (&speeds)[STEPS], float *__restrict__ to, int x,
                                            int row, unsigned walls, bool own, int top, int bottom, float w1, float w2, float last1,
                                            float last2) {
#pragma unroll
  for (int t = 1; t <= STEPS; t++) {
    rows &before = kept[t - 1];
    nine g;
    g.f0 = before.f0, g.f1 = before.f1, g.f3 = before.f3;
    g.f2 = swapped(older, before.f2), g.f5 = swapped(older + APART, before.f5), g.f6 = swapped(older + 2 * APART, before.f6);
    g.f4 = f.f4, g.f7 = westwards(f.f7), g.f8 = eastwards(f.f8);
    older += 3 * APART;
    before.f2 = f.f2, before.f5 = eastwards(f.f5), before.f6 = westwards(f.f6);
    before.f0 = f.f0, before.f1 = eastwards(f.f1), before.f3 = westwards(f.f3);
    const int y = row - t; /* the row of step t; row -2 is row NY - 2 */
    const bool solid_a = SPECIAL && walls >> (AHEAD + t) & 1, solid_b = SPECIAL && walls >> (16 + AHEAD + t) & 1;
    const float a = collide<SPECIAL>(g.f0.a, g.f1.a, g.f2.a, g.f3.a, g.f4.a, g.f5.a, g.f6.a, g.f7.a, g.f8.a, solid_a);
    const float b = collide<SPECIAL>(g.f0.b, g.f1.b, g.f2.b, g.f3.b, g.f4.b, g.f5.b, g.f6.b, g.f7.b, g.f8.b, solid_b);
    if (SPECIAL) {
      if (y == NY - 2 || y == -2) {
        const float a1 = t == STEPS ? last1 : w1, a2 = t == STEPS ? last2 : w2;
        if (!solid_a) drive(g.f1.a, g.f3.a, g.f5.a, g.f6.a, g.f7.a, g.f8.a, a1, a2);
        if (!solid_b) drive(g.f1.b, g.f3.b, g.f5.b, g.f6.b, g.f7.b, g.f8.b, a1, a2);
      }
      if (y >= top && y < bottom) speeds[t - 1] += a + b;
    } else {
      speeds[t - 1] += a + b;
    }
    f = g;
  }
  if (own && (!SPECIAL || row - STEPS >= top && row - STEPS < bottom)) {
    const int i = (row - STEPS) * NX + x;
    const two *all = &f.f0;
#pragma unroll
    for (int k = 0; k < 9; k++) *(float2 *)(to + (k * CELLS + i)) = make_float2(all[k].a, all[k].b);
  }
}

extern "C" __global__ void __launch_bounds__(32, WARPS)
    walk_warps(const float *__restrict__ from, float *__restrict__ to, const char *__restrict__ obstacles, float *sums, int step,
               float w1, float w2, float last1, float last2) {
  __shared__ float2 rows_ahead[DEEP][9][32]; /* a slot for each row, population and lane */
  const int lane = threadIdx.x, inner = blockIdx.x - EDGES * EDGE_PIECES;
  const bool edge = inner < 0; /* the blocks of the strips at the edges come first */
  const int strip = edge ? blockIdx.x % EDGES * (STRIPS - 1) : 1 + inner % (STRIPS - EDGES);
  const int top = edge ? blockIdx.x / EDGES * EDGE_ROWS : inner / (STRIPS - EDGES) * ROWS;
  const int bottom = min(NY, top + (edge ? EDGE_ROWS : ROWS)), column = strip * OWN - LEFT + 2 * lane;
  const int x = (column + NX) % NX, end = min(NX, (strip + 1) * OWN);
  const bool own = column >= strip * OWN && column < end;
#if OLDER == SLOTS
  __shared__ two slots[3 * STEPS][32];
  two *const older = &slots[0][lane];
  for (int k = 0; k < 3 * STEPS; k++) slots[k][lane] = {};
#else
  two older[3 * STEPS] = {};
#endif
  rows kept[STEPS] = {};
  float speeds[STEPS] = {};
  unsigned walls = 0; /* obstacles, a bit a row: after `read`, bit k is of row + AHEAD - k for cell a, and bit 16 + k for cell b */
  unsigned short pair = 0; /* both cells' bytes of the map of obstacles, of the next row, on their way */
  /* Takes the next row's obstacles into `walls`, and asks for those of the row after it. */
  const auto look = [&](int row) {
    walls = (walls << 1 & 0xfffeffffu) | ((pair & 255) != 0) | ((pair >> 8 != 0) << 16);
    asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(pair) : "l"(obstacles + (wrapped(row) * NX + x)));
  };
  const unsigned first = (unsigned)__cvta_generic_to_shared(&rows_ahead[0][0][lane]);
  unsigned slot = 0;
  int row = top - STEPS;
  for (int further = 0; further <= AHEAD; further++) look(row + further);
#pragma unroll
  for (int further = 0; further < DEEP - 1; further++) {
    ask(first + further * ROW, from, wrapped(row + further) * NX + x);
  }
  /* Returns the populations of this turn's row, asks for a later row, and moves `walls` on by a row. */
  const auto read = [&]() {
    const nine now = receive(first + slot);
    ask(first + (slot + (DEEP - 1) * ROW) % (DEEP * ROW), from, wrapped(row + DEEP - 1) * NX + x);
    slot = (slot + ROW) % (DEEP * ROW);
    look(row + AHEAD + 1);
    return now;
  };
  for (; row < bottom + STEPS; row++) {
    const bool inside = row - STEPS >= top && row - 1 < bottom;
    const bool undriven = (row + AHEAD <= NY - 2 || row - STEPS > NY - 2) && (row + AHEAD <= -2 || row - STEPS > -2);
    if (inside && undriven && !__any_sync(0xffffffff, walls)) {
      const nine f = read();
      take<false>(kept, older, f, speeds, to, x, row, walls, own, top, bottom, w1, w2, last1, last2);
    } else {
      const nine f = read();
      take<true>(kept, older, f, speeds, to, x, row, walls, own, top, bottom, w1, w2, last1, last2);
    }
  }
#pragma unroll
  for (int t = 0; t < STEPS; t++) {
    float speed = own ? speeds[t] : 0.0f;
    for (int reach = 16; reach > 0; reach /= 2) speed += __shfl_down_sync(0xffffffff, speed, reach);
    if (lane == 0) sums[(step + t) * gridDim.x + blockIdx.x] = speed;
  }
}
