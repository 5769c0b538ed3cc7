// The whole loop in one launch, with DEPTH steps, a round, between two exchanges. A block keeps a tile of the grid and a halo of DEPTH
// cells around it, one cell a thread; populations pass between threads through shared memory:
//
//   +-----------------+
//   | halo, DEPTH     |     step 1 of a round computes the tile and all but the outermost ring of the halo,
//   |   +---------+   |     step 2 all but two rings, ...,
//   |   |  tile   |   |     step DEPTH the tile alone; then the neighbours send the halo anew
//   |   +---------+   |
//   +-----------------+
//
// Three populations and the number of the exchange travel in one word of 16 bytes, written and read in one piece: a reader that sees
// the number has the populations. Words alternate between two places. A neighbour has read a word before this block can write to
// its place again, since this block first needs the neighbour's next word.
//
// A warp without cells adds up the speeds of a round during the next one.
//
// Knob NX, NY:         sides of the grid
// Knob TILE_X, TILE_Y: sides of a block's tile
// Knob DEPTH:          steps of a round, two or more; at most the sides of a tile
// Knob LAYOUT, GRID, SOLID: as in grid.h, here SOA, ONE and char
#include "d2q9.h"
#include "arithmetic.h"
#include "deep_halo.inc"

extern "C" __global__ void __launch_bounds__(THREADS + 32, 1)
    deep_halo(const float *from, float *to, const char *obstacles, float *sums, ulonglong2 *halo, int first, int steps,
              float omega, float a1, float a2) {
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
  const int solid = obstacles[i];
  const bool driven = y == NY - 2 && !solid, some_driven = __any_sync(0xffffffff, driven);
  const bool walled = __any_sync(0xffffffff, solid);
  const unsigned places[2] = {(unsigned)__cvta_generic_to_shared(near + RING + p),
                              (unsigned)__cvta_generic_to_shared(near + EIGHT + RING + p)};
  const unsigned tallies[2] = {(unsigned)__cvta_generic_to_shared(&speeds[0][p]), (unsigned)__cvta_generic_to_shared(&speeds[DEPTH][p])};
  unsigned place = places[0], tally = tallies[0];
  float h0 = from[i], h1 = from[GRID_CELLS + i], h2 = from[2 * GRID_CELLS + i], h3 = from[3 * GRID_CELLS + i];
  float h4 = from[4 * GRID_CELLS + i], h5 = from[5 * GRID_CELLS + i], h6 = from[6 * GRID_CELLS + i];
  float h7 = from[7 * GRID_CELLS + i], h8 = from[8 * GRID_CELLS + i];

  for (int round = 0; round < rounds; round++) {
    const int left = min(DEPTH, steps - round * DEPTH);
#pragma unroll
    for (int j = 0; j < DEPTH; j++) {
      if (j < left) {
        if (reach >= j * RING) {
          put<1>(place, h1);
          put<2>(place, h2);
          put<3>(place, h3);
          put<4>(place, h4);
          put<5>(place, h5);
          put<6>(place, h6);
          put<7>(place, h7);
          put<8>(place, h8);
        }
        if (j == 0) {
          meet<0, THREADS + 32>();
        } else {
          meet<1, THREADS>();
        }
        if (reach >= (j + 1) * RING) {
          const float f0 = h0, f1 = get<1, -1>(place), f2 = get<2, -WIDE>(place), f3 = get<3, 1>(place), f4 = get<4, WIDE>(place);
          const float f5 = get<5, -WIDE - 1>(place), f6 = get<6, -WIDE + 1>(place), f7 = get<7, WIDE + 1>(place), f8 = get<8, WIDE - 1>(place);
          float speed;
#include CELL
          if (some_driven) {
            if (driven && round * DEPTH + j + 1 < steps && g3 - a1 > 0.0f && g6 - a2 > 0.0f && g7 - a2 > 0.0f) {
              g1 += a1;
              g5 += a2;
              g8 += a2;
              g3 -= a1;
              g6 -= a2;
              g7 -= a2;
            }
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
          if (own) {
            asm volatile("st.shared.f32 [%0], %1;" ::"r"(tally + 4 * THREADS * j), "f"(speed) : "memory");
          }
        }
        place = places[0] + places[1] - place;
      }
    }
    tally = tallies[0] + tallies[1] - tally;
    if (round + 1 < rounds) {
      const unsigned tag = first + round;
      ulonglong2 *words = halo + tag % 2 * 3 * GRID_CELLS + i;
      if (told) {
        send(words, h0, h1, h2, tag);
        send(words + GRID_CELLS, h3, h4, h5, tag);
        send(words + 2 * GRID_CELLS, h6, h7, h8, tag);
      }
      __syncwarp(); /* no lane waits before the other lanes of its warp have sent */
      if (!own && p < CELLS) {
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
