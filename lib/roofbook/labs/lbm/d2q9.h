// The D2Q9 lattice: 0 rest, 1 E, 2 N, 3 W, 4 S, 5 NE, 6 NW, 7 SW, 8 SE.
// A kernel on vectors sets REAL and MASK, the types of a population and of a condition, before it includes this.
//
// Knob CONSTANTS: DIVIDED  the equilibrium divides by the speed of sound squared, as the course's program does
//                 HOISTED  the quotients are constants, the kernel only multiplies
#pragma once
#ifndef CONSTANTS
#define CONSTANTS DIVIDED
#endif
#ifndef REAL
#define REAL float
#define MASK int
#endif
#define DIVIDED 1
#define HOISTED 2
#define W0 (4.0f / 9.0f)
#define W1 (1.0f / 9.0f)
#define W2 (1.0f / 36.0f)
#define WEIGHT_0 W0
#define WEIGHT_1 W1
#define WEIGHT_2 W1
#define WEIGHT_3 W1
#define WEIGHT_4 W1
#define WEIGHT_5 W2
#define WEIGHT_6 W2
#define WEIGHT_7 W2
#define WEIGHT_8 W2
#if CONSTANTS == HOISTED
#define EQUILIBRIUM(w, u) (w * density * (1.0f + (u) * 3.0f + (u) * (u) * 4.5f - u_sq * 1.5f))
#else
#define SOUND (1.0f / 3.0f)
#define EQUILIBRIUM(w, u) \
  (w * density * (1.0f + (u) / SOUND + (u) * (u) / (2.0f * SOUND * SOUND) - u_sq / (2.0f * SOUND)))
#endif
