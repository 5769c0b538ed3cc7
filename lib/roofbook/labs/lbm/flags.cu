// The whole loop in one kernel: every block keeps its rows in registers from the first step to the last. Neighbours on the
// chip are read through shared memory, rows of the block above and below through L2, and a flag a block says how far it is.
// No launch and no barrier over the grid is left: a step costs one exchange of flags. All blocks must run at once.
//
// Knob NX:    columns, a multiple of 32;  ROWS: rows of a block, NX * ROWS threads, one a cell
#include "d2q9.k"
#define ROW_UP(k, x) (halo + (((half * blocks + below) * 6 + k) * NX))[x]
#define ROW_DOWN(k, x) (halo + (((half * blocks + above) * 6 + k) * NX))[x]

static __device__ __forceinline__ void publish(int *flag, int step) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(flag), "r"(step) : "memory");
}
static __device__ __forceinline__ void wait_for(const int *flag, int step) {
  int seen;
  do {
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
  } while (seen < step);
}

extern "C" __global__ void __launch_bounds__(NX * ROWS, 1)
    persistent(float *grid, const char *obstacles, float *sums, float *halo, int *flags, int ny, int steps, float omega,
               float w1, float w2) {
  __shared__ float cells[2][9][ROWS][NX];
  const int x = threadIdx.x, row = threadIdx.y, block = blockIdx.x, blocks = gridDim.x;
  const int y = block * ROWS + row, i = y * NX + x, lane = row * NX + x;
  const int east = x + 1 == NX ? 0 : x + 1, west = x == 0 ? NX - 1 : x - 1;
  const int above = block + 1 == blocks ? 0 : block + 1, below = block == 0 ? blocks - 1 : block - 1;
  const int solid = obstacles[i];
  const float a1 = w1, a2 = w2;
  float h0 = grid[i], h1 = grid[NX * ny + i], h2 = grid[2 * NX * ny + i], h3 = grid[3 * NX * ny + i];
  float h4 = grid[4 * NX * ny + i], h5 = grid[5 * NX * ny + i], h6 = grid[6 * NX * ny + i];
  float h7 = grid[7 * NX * ny + i], h8 = grid[8 * NX * ny + i];

  for (int step = 0; step < steps; step++) {
    const int half = step & 1;
    if (row == ROWS - 1) {
      float *up = halo + (half * blocks + block) * 6 * NX + x;
      __stcg(up, h2);
      __stcg(up + NX, h5);
      __stcg(up + 2 * NX, h6);
    }
    if (row == 0) {
      float *down = halo + (half * blocks + block) * 6 * NX + 3 * NX + x;
      __stcg(down, h4);
      __stcg(down + NX, h7);
      __stcg(down + 2 * NX, h8);
    }
    cells[half][1][row][x] = h1;
    cells[half][3][row][x] = h3;
    if (ROWS > 1) {
      cells[half][2][row][x] = h2;
      cells[half][4][row][x] = h4;
      cells[half][5][row][x] = h5;
      cells[half][6][row][x] = h6;
      cells[half][7][row][x] = h7;
      cells[half][8][row][x] = h8;
    }
    __syncthreads();
    if (lane == 0) {
      publish(flags + block, step + 1);
      wait_for(flags + below, step + 1);
    }
    if (lane == NX * ROWS - 1) {
      wait_for(flags + above, step + 1);
    }
    __syncthreads();
    const float f0 = h0, f1 = cells[half][1][row][west], f3 = cells[half][3][row][east];
    float f2, f4, f5, f6, f7, f8;
    if (row == 0) {
      f2 = __ldcg(&ROW_UP(0, x));
      f5 = __ldcg(&ROW_UP(1, west));
      f6 = __ldcg(&ROW_UP(2, east));
    } else {
      f2 = cells[half][2][row - 1][x];
      f5 = cells[half][5][row - 1][west];
      f6 = cells[half][6][row - 1][east];
    }
    if (row == ROWS - 1) {
      f4 = __ldcg(&ROW_DOWN(3, x));
      f7 = __ldcg(&ROW_DOWN(4, east));
      f8 = __ldcg(&ROW_DOWN(5, west));
    } else {
      f4 = cells[half][4][row + 1][x];
      f7 = cells[half][7][row + 1][east];
      f8 = cells[half][8][row + 1][west];
    }
    float speed;
    w1 = step + 1 == steps ? 0.0f : a1;
    w2 = step + 1 == steps ? 0.0f : a2;
    {
#include "cell_select.k"
#include "accelerate_cell.k"
      h0 = g0;
      h1 = g1;
      h2 = g2;
      h3 = g3;
      h4 = g4;
      h5 = g5;
      h6 = g6;
      h7 = g7;
      h8 = g8;
    }
    for (int reach = 16; reach > 0; reach /= 2) {
      speed += __shfl_down_sync(0xffffffff, speed, reach);
    }
    if (lane % 32 == 0) {
      sums[(step * blocks + block) * (NX * ROWS / 32) + lane / 32] = speed;
    }
  }
  grid[i] = h0;
  grid[NX * ny + i] = h1;
  grid[2 * NX * ny + i] = h2;
  grid[3 * NX * ny + i] = h3;
  grid[4 * NX * ny + i] = h4;
  grid[5 * NX * ny + i] = h5;
  grid[6 * NX * ny + i] = h6;
  grid[7 * NX * ny + i] = h7;
  grid[8 * NX * ny + i] = h8;
}
