// The arithmetic of a cell in kernels that keep a grid on the chip: CELL is the file to include.
//
// Knob ARITHMETIC: RECIPROCAL  the same values as the kernels for one step, to the last bit
//                  MOMENTUM    fewer operations, few of which wait for each other; other roundings
//                  VELOCITY    the fewest operations, most of which wait for the reciprocal
#pragma once
#ifndef ARITHMETIC
#define ARITHMETIC RECIPROCAL
#endif
#define RECIPROCAL 1
#define MOMENTUM 2
#define VELOCITY 3
#if ARITHMETIC == MOMENTUM
#define CELL "cell_momentum.inc"
#elif ARITHMETIC == VELOCITY
#define CELL "cell_velocity.inc"
#else
#define CELL "cell_reciprocal.inc"
#endif
