// Numbers of Winograd's algorithm F(4, 7) along the rows of a layer: tiles of four outputs, and ten points.
//
// Knob POOL: side of a window of the pool
#pragma once
#include "layer.h"
#define TILE 4
#define POINTS (TILE + TAPS - 1)
#define TILES ((OUT + TILE - 1) / TILE)
#define POOLED_SIDE ((OUT + POOL - 1) / POOL)
#define FACTORS (CHANNELS * TAPS * FILTERS * POINTS)
