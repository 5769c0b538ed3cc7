// accelerate_flow as a separate kernel: one work-item a cell of row ny-2.
#pragma once
#include "grid.h"
KERNEL void accelerate_flow(TO_GRID, GLOBAL const SOLID *RESTRICT obstacles, int nx, int ny, float w1, float w2) {
  BEGIN
  const int x = GLOBAL_ID(0);
  const int i = (ny - 2) * nx + x;
  GRID_SIZE
  if (x < nx && !obstacles[i] && TO(3, i) - w1 > 0.0f && TO(6, i) - w2 > 0.0f && TO(7, i) - w2 > 0.0f) {
    PUT(1, i, TO(1, i) + w1);
    PUT(5, i, TO(5, i) + w2);
    PUT(8, i, TO(8, i) + w2);
    PUT(3, i, TO(3, i) - w1);
    PUT(6, i, TO(6, i) - w2);
    PUT(7, i, TO(7, i) - w2);
  }
}
