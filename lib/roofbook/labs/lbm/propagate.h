// propagate as a separate kernel, one work-item a cell: each cell takes the populations that move towards it from its neighbours.
#pragma once
#include "grid.h"
KERNEL void propagate(FROM_GRID, TO_GRID, int nx, int ny) {
  const int x = GLOBAL_ID(0), y = GLOBAL_ID(1), i = y * nx + x;
  GRID_SIZE
  if (x < nx && y < ny) {
    const int north = (y + 1) % ny, east = (x + 1) % nx;
    const int south = y == 0 ? ny - 1 : y - 1, west = x == 0 ? nx - 1 : x - 1;
    PUT(0, i, FROM(0, i));
    PUT(1, i, FROM(1, y * nx + west));
    PUT(2, i, FROM(2, south * nx + x));
    PUT(3, i, FROM(3, y * nx + east));
    PUT(4, i, FROM(4, north * nx + x));
    PUT(5, i, FROM(5, south * nx + west));
    PUT(6, i, FROM(6, south * nx + east));
    PUT(7, i, FROM(7, north * nx + east));
    PUT(8, i, FROM(8, north * nx + west));
  }
}
