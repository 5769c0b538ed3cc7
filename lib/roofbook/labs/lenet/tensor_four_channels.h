// Four channels, sixteen filters. A pixel's channels lie side by side: a product takes four neighbouring taps of all channels, the
// eighth of a row being zero. A tile is 2 rows by 4 columns, two of them a window of the pool.
#define PITCH 40
#define ROOM ((OUT + 2 + TAPS - 1) * PITCH + 8)
#define SIDE ((OUT + 3) / 4)
#define STEPS (TAPS * 2)

KERNEL_OF(ITEMS, 4) void tensor(const float *RESTRICT x, float *RESTRICT y, int first, int count, const float *RESTRICT weights) {
  __shared__ uint2 staged[ROOM];
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  unsigned int a[STEPS][4];
#pragma unroll
  for (int k = 0; k < STEPS * 4; k++) {
    const int p = k / 8, q = k / 4 % 2 * 4 + t, m = g + k % 2 * 8, c = k / 2 % 2 * 2;
    a[k / 4][k % 4] = q < TAPS ? two_halves(weights[WEIGHT_AT(m, c, p, q)], weights[WEIGHT_AT(m, c + 1, p, q)]) : 0;
  }
  for (int k = SIZE * PITCH + threadIdx.x; k < ROOM; k += ITEMS) staged[k] = {0, 0};
  for (int image = first + blockIdx.x; image < first + count; image += gridDim.x) {
    __syncthreads();
#pragma unroll 4
    for (int k = threadIdx.x; k < SIZE * SIZE; k += ITEMS) {
      const float *own = x + X_AT(image, 0, 0, k);
      staged[k] = {two_halves(own[0], own[SIZE * SIZE]), two_halves(own[2 * SIZE * SIZE], own[3 * SIZE * SIZE])};
    }
    __syncthreads();
    for (int window = threadIdx.x / 32; window < SIDE * SIDE; window += WARPS) {
      const int h = window / SIDE, w = window % SIDE;
      float c[2][4] = {};
      const uint2 *own = staged + (h * 4 + g / 4) * PITCH + w * 4 + g % 4 + t;
#pragma unroll
      for (int k = 0; k < STEPS; k++) {
#pragma unroll
        for (int n = 0; n < 2; n++) {
          const uint2 b = own[(n * 2 + k / 2) * PITCH + k % 2 * 4];
          product(c[n], a[k], b.x, b.y);
        }
      }
      float largest[2] = {0.0f, 0.0f};
#pragma unroll
      for (int k = 0; k < 8; k++) {
        const int row = h * 4 + k / 4 * 2 + t / 2, column = w * 4 + t % 2 * 2 + k % 2;
        if (row < OUT && column < OUT) largest[k / 2 % 2] = fmaxf(largest[k / 2 % 2], c[k / 4][k % 4]);
      }
#pragma unroll
      for (int k = 0; k < 2; k++) {
        const float value = larger_of_lanes(larger_of_lanes(largest[k], 1), 2);
        if (t == 0) y[((image * FILTERS + g + k * 8) * SIDE + h) * SIDE + w] = value;
      }
    }
  }
}
