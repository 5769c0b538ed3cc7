// How the kernels that hold a grid on the chip compute a cell: CELL is the file to include for it.
//
// Knob ARITHMETIC: RECIPROCAL  the values of the kernels for one step, to the last bit
//                  MOMENTUM    fewer operations, of which few wait for each other; rounded otherwise
#pragma once
#ifndef ARITHMETIC
#define ARITHMETIC RECIPROCAL
#endif
#define RECIPROCAL 1
#define MOMENTUM 2
#if ARITHMETIC == MOMENTUM
#define CELL "cell_momentum.inc"
#else
#define CELL "cell_reciprocal.inc"
#endif
