// The nine populations of a grid: their layout in memory, and the kernels' arguments for them.
//
// Knob LAYOUT: AOS     the nine of a cell side by side
//              SOA     one array a direction
// Knob GRID:   ONE     one buffer for all
//              NINE    nine buffers, nine arguments (SOA)
//              STRUCT  nine pointers in a structure in device memory (SOA)
//              SIXTEEN one buffer of fp16: the difference of a population from its weight at rest, scaled (SOA)
// Knob SOLID:  the type of the obstacle map: `int`, the course's, or `char`
// Knob REST:   the density at rest, for SIXTEEN
// Knob PROBE:  1  the kernels return at once, so that only the host's costs are left
#pragma once
#ifndef LAYOUT
#define LAYOUT AOS
#endif
#ifndef GRID
#define GRID ONE
#endif
#ifndef SOLID
#define SOLID int
#endif
#ifndef PROBE
#define PROBE 0
#endif
#if PROBE
#define BEGIN return;
#else
#define BEGIN
#endif
#define AOS 1
#define SOA 2
#define ONE 1
#define NINE 2
#define STRUCT 3
#define SIXTEEN 4
#if GRID == ONE
#define FROM_GRID GLOBAL const float *RESTRICT from
#define TO_GRID GLOBAL float *RESTRICT to
#if LAYOUT == AOS
#define GRID_SIZE
#define FROM(k, i) from[(i) * 9 + k]
#define TO(k, i) to[(i) * 9 + k]
#define PUT(k, i, value) to[(i) * 9 + k] = value
#else
#define GRID_SIZE const int cells = nx * ny;
#define FROM(k, i) from[k * cells + (i)]
#define TO(k, i) to[k * cells + (i)]
#define PUT(k, i, value) to[k * cells + (i)] = value
#endif
#elif GRID == SIXTEEN
#define FROM_GRID GLOBAL const HALF *RESTRICT from
#define TO_GRID GLOBAL HALF *RESTRICT to
#define GRID_SIZE const int cells = nx * ny;
#define AT_REST(k) REST * WEIGHT_##k
#define FROM(k, i) (LOAD_HALF(from, k * cells + (i)) / 1024.0f + AT_REST(k))
#define TO(k, i) (LOAD_HALF(to, k * cells + (i)) / 1024.0f + AT_REST(k))
#define PUT(k, i, value) STORE_HALF(to, k * cells + (i), (value - AT_REST(k)) * 1024.0f)
#elif GRID == NINE
#define FROM_GRID                                                                                              \
  GLOBAL const float *RESTRICT from0, GLOBAL const float *RESTRICT from1, GLOBAL const float *RESTRICT from2,  \
      GLOBAL const float *RESTRICT from3, GLOBAL const float *RESTRICT from4,                                  \
      GLOBAL const float *RESTRICT from5, GLOBAL const float *RESTRICT from6,                                  \
      GLOBAL const float *RESTRICT from7, GLOBAL const float *RESTRICT from8
#define TO_GRID                                                                                                \
  GLOBAL float *RESTRICT to0, GLOBAL float *RESTRICT to1, GLOBAL float *RESTRICT to2, GLOBAL float *RESTRICT to3, \
      GLOBAL float *RESTRICT to4, GLOBAL float *RESTRICT to5, GLOBAL float *RESTRICT to6,                      \
      GLOBAL float *RESTRICT to7, GLOBAL float *RESTRICT to8
#define GRID_SIZE
#define FROM(k, i) from##k[i]
#define TO(k, i) to##k[i]
#define PUT(k, i, value) to##k[i] = value
#else
struct nine {
  GLOBAL float *f0, *f1, *f2, *f3, *f4, *f5, *f6, *f7, *f8;
};
KERNEL void point(GLOBAL struct nine *grid, GLOBAL float *f0, GLOBAL float *f1, GLOBAL float *f2, GLOBAL float *f3,
                  GLOBAL float *f4, GLOBAL float *f5, GLOBAL float *f6, GLOBAL float *f7, GLOBAL float *f8) {
  grid->f0 = f0;
  grid->f1 = f1;
  grid->f2 = f2;
  grid->f3 = f3;
  grid->f4 = f4;
  grid->f5 = f5;
  grid->f6 = f6;
  grid->f7 = f7;
  grid->f8 = f8;
}
#define FROM_GRID GLOBAL const struct nine *RESTRICT from
#define TO_GRID GLOBAL const struct nine *RESTRICT to
#define GRID_SIZE
#define FROM(k, i) from->f##k[i]
#define TO(k, i) to->f##k[i]
#define PUT(k, i, value) to->f##k[i] = value
#endif
