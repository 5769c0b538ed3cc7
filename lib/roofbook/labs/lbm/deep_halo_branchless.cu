// The whole loop in one launch, with DEPTH steps, a round, between two exchanges, and without branches that divide a warp. A block keeps
// a tile of the grid and a halo of DEPTH cells around it, one cell a thread. Each step of a round computes one ring of the halo less;
// after the last one the neighbours send the halo anew, in words of three populations and the number of the exchange.
//
// The lanes of a warp do the same in every step:
//   - A solid cell reads each population from the place of its opposite, and relaxes by nothing. That reflects them.
//   - A warp computes its cells as long as any of them is needed.
//   - A cell of the halo stores its speed as well, to a word of its own that is not read.
// The planes that a step writes are known at compile time. This costs registers, for eight places and each cell's own rate of
// relaxation, and shared memory for the speeds that are not read.
//
// Polling too early delays the words, so a block may pause before it polls. That costs a barrier a round.
//
// Knob NX, NY:         sides of the grid
// Knob TILE_X, TILE_Y: sides of a block's tile
// Knob DEPTH:          steps of a round, two or more; at most the sides of a tile
// Knob PAUSE:          clock cycles between a block's last word and its first poll; 0: none, and with an even DEPTH a
//                      warp polls as soon as it has sent
// Knob LAYOUT, GRID, SOLID: as in grid.h, here SOA, ONE and char
#include "d2q9.h"
#include "deep_halo.inc"

// Two sets of planes, used by alternate steps.
#define PUT(K, VALUE) (j % 2 ? put<(K) + 8>(place, VALUE) : put<(K)>(place, VALUE))
#define GET(PLACE) (j % 2 ? get<9, 0>(PLACE) : get<1, 0>(PLACE))
// The place where a cell finds population K, FURTHER cells on; a solid cell finds the opposite population instead.
#define FROM(K, FURTHER, OPPOSITE) \
  (place + 4 * (solid ? ((OPPOSITE) - 1) * PLANE - (FURTHER) : ((K) - 1) * PLANE + (FURTHER)))
// Makes the compiler keep a value in a register instead of computing it again in each step.
#define KEEP(VALUE) asm volatile("" : "+r"(VALUE))

extern "C" __global__ void __launch_bounds__(THREADS + 32, 1)
    deep_halo_branchless(const float *from, float *to, const char *obstacles, float *sums, ulonglong2 *halo, int first, int steps,
                         float rate, float a1, float a2) {
  extern __shared__ float near[];
  float(*speeds)[THREADS] = (float(*)[THREADS])(near + 2 * EIGHT);
  const int rounds = (steps + DEPTH - 1) / DEPTH;
  if (threadIdx.x >= THREADS) {
    meet<0, THREADS + 32>();
    for (int round = 0; round < rounds; round++) {
      meet<0, THREADS + 32>();
      add_up(speeds, round, steps, sums);
    }
    return;
  }
  const int p = threadIdx.x, column = p % WIDE - DEPTH, line = p / WIDE - DEPTH, block = blockIdx.x;
  const int x = (block % (NX / TILE_X) * TILE_X + column + NX) % NX, y = (block / (NX / TILE_X) * TILE_Y + line + NY) % NY;
  const int i = y * NX + x, reach = min(p, CELLS - 1 - p);
  const bool own = column >= 0 && column < TILE_X && line >= 0 && line < TILE_Y;
  const bool told = own && (column < DEPTH || column >= TILE_X - DEPTH || line < DEPTH || line >= TILE_Y - DEPTH);
  const bool solid = obstacles[i], driven = y == NY - 2 && !solid, some_driven = __any_sync(0xffffffff, driven);
  constexpr bool walled = false; // no cell's populations need to be swapped
  const float omega = solid ? 0.0f : rate;
  bool needed[DEPTH + 1];
#pragma unroll
  for (int j = 0; j <= DEPTH; j++) {
    needed[j] = __any_sync(0xffffffff, reach >= j * RING);
  }
  const unsigned place = (unsigned)__cvta_generic_to_shared(near + RING + p);
  unsigned at1 = FROM(1, -1, 3), at2 = FROM(2, -WIDE, 4), at3 = FROM(3, 1, 1), at4 = FROM(4, WIDE, 2);
  unsigned at5 = FROM(5, -WIDE - 1, 7), at6 = FROM(6, -WIDE + 1, 8), at7 = FROM(7, WIDE + 1, 5), at8 = FROM(8, WIDE - 1, 6);
  KEEP(at1);
  KEEP(at2);
  KEEP(at3);
  KEEP(at4);
  KEEP(at5);
  KEEP(at6);
  KEEP(at7);
  KEEP(at8);
  unsigned tally = (unsigned)__cvta_generic_to_shared(&speeds[0][p]), both = 2 * tally + 4 * DEPTH * THREADS;
  KEEP(both);
  float h0 = from[i], h1 = from[GRID_CELLS + i], h2 = from[2 * GRID_CELLS + i], h3 = from[3 * GRID_CELLS + i];
  float h4 = from[4 * GRID_CELLS + i], h5 = from[5 * GRID_CELLS + i], h6 = from[6 * GRID_CELLS + i];
  float h7 = from[7 * GRID_CELLS + i], h8 = from[8 * GRID_CELLS + i];

  for (int round = 0; round < rounds; round++) {
    const int left = min(DEPTH, steps - round * DEPTH);
#pragma unroll
    for (int j = 0; j < DEPTH; j++) {
      if (j < left) {
        if (needed[j]) {
          PUT(1, h1);
          PUT(2, h2);
          PUT(3, h3);
          PUT(4, h4);
          PUT(5, h5);
          PUT(6, h6);
          PUT(7, h7);
          PUT(8, h8);
        }
        if (j == 0) {
          meet<0, THREADS + 32>();
        } else {
          meet<1, THREADS>();
        }
        if (needed[j + 1]) {
          const float f0 = h0, f1 = GET(at1), f2 = GET(at2), f3 = GET(at3), f4 = GET(at4), f5 = GET(at5), f6 = GET(at6);
          const float f7 = GET(at7), f8 = GET(at8);
          float speed;
#include "cell_momentum.inc"
          if (some_driven) {
            const bool enough = g3 - a1 > 0.0f & g6 - a2 > 0.0f & g7 - a2 > 0.0f;
            const bool pushed = driven & round * DEPTH + j + 1 < steps & enough;
            const float along = pushed ? a1 : 0.0f, across = pushed ? a2 : 0.0f;
            g1 += along;
            g5 += across;
            g8 += across;
            g3 -= along;
            g6 -= across;
            g7 -= across;
          }
          h0 = g0;
          h1 = g1;
          h2 = g2;
          h3 = g3;
          h4 = g4;
          h5 = g5;
          h6 = g6;
          h7 = g7;
          h8 = g8;
          asm volatile("st.shared.f32 [%0], %1;" ::"r"(tally + 4 * THREADS * j), "f"(solid ? 0.0f : speed) : "memory");
        }
      }
    }
    tally = both - tally;
    if (round + 1 < rounds) {
      const unsigned tag = first + round;
      ulonglong2 *words = halo + tag % 2 * 3 * GRID_CELLS + i;
      if (told) {
        send(words, h0, h1, h2, tag);
        send(words + GRID_CELLS, h3, h4, h5, tag);
        send(words + 2 * GRID_CELLS, h6, h7, h8, tag);
      }
      if (PAUSE > 0 || DEPTH % 2 == 1) { /* after a round with an odd DEPTH, the next round begins with the planes of the last step */
        meet<1, THREADS>();
      } else {
        __syncwarp();
      }
      if (!own && p < CELLS) {
        if (PAUSE > 0) {
          const unsigned since = clock();
          while ((unsigned)clock() - since < PAUSE) {
          }
        }
        ulonglong2 one, two, three;
        do {
          one = look(words);
          two = look(words + GRID_CELLS);
          three = look(words + 2 * GRID_CELLS);
        } while (!(is_of(one, tag) && is_of(two, tag) && is_of(three, tag)));
        unpack(one, h0, h1, h2);
        unpack(two, h3, h4, h5);
        unpack(three, h6, h7, h8);
      }
    }
  }
  meet<0, THREADS + 32>();
  if (own) {
    to[i] = h0;
    to[GRID_CELLS + i] = h1;
    to[2 * GRID_CELLS + i] = h2;
    to[3 * GRID_CELLS + i] = h3;
    to[4 * GRID_CELLS + i] = h4;
    to[5 * GRID_CELLS + i] = h5;
    to[6 * GRID_CELLS + i] = h6;
    to[7 * GRID_CELLS + i] = h7;
    to[8 * GRID_CELLS + i] = h8;
  }
}
