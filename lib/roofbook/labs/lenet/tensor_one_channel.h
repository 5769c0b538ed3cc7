// One channel, four filters. Sixteen rows of a product are 4 filters by 4 neighbouring pixels: the taps of each pixel are shifted
// against the same ten inputs of a row. A tile is 2 rows by 16 columns, so that windows of the pool lie within a warp.
#define INPUTS_ACROSS (TAPS + 3)
#define PAIRS (TAPS * INPUTS_ACROSS / 2)
#define STEPS ((PAIRS + 7) / 8)
#define PITCH 44
#define ACROSS (OUT / 16)
#define TILES (OUT / 2 * ACROSS)

KERNEL_OF(ITEMS, 4) void tensor(const float *RESTRICT x, float *RESTRICT y, int first, int count, const float *RESTRICT weights) {
  __shared__ unsigned int staged[SIZE * PITCH];
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  unsigned int a[STEPS][4];
  int from[STEPS][2];
#pragma unroll
  for (int k = 0; k < STEPS * 4; k++) {
    const int pair = k / 4 * 8 + t + k / 2 % 2 * 4, p = pair / (INPUTS_ACROSS / 2), j = pair % (INPUTS_ACROSS / 2) * 2;
    const int m = g + k % 2 * 8, q = j - m % 4;
    const float lower = pair < PAIRS && q >= 0 && q < TAPS ? weights[WEIGHT_AT(m / 4, 0, p, q)] : 0.0f;
    const float upper = pair < PAIRS && q + 1 >= 0 && q + 1 < TAPS ? weights[WEIGHT_AT(m / 4, 0, p, q + 1)] : 0.0f;
    a[k / 4][k % 4] = two_halves(lower, upper);
    if (k % 2 == 0) from[k / 4][k / 2 % 2] = pair < PAIRS ? p * PITCH + j / 2 : 0;
  }
  for (int image = first + blockIdx.x; image < first + count; image += gridDim.x) {
    __syncthreads();
#pragma unroll 8
    for (int k = threadIdx.x; k < SIZE * SIZE / 2; k += ITEMS) {
      const float2 two = *(const float2 *)(x + X_AT(image, 0, k / (SIZE / 2), k % (SIZE / 2) * 2));
      staged[k / (SIZE / 2) * PITCH + k % (SIZE / 2)] = two_halves(two.x, two.y);
    }
    __syncthreads();
    for (int tile = threadIdx.x / 32 * AT_ONCE; tile < TILES; tile += WARPS * AT_ONCE) {
      float c[AT_ONCE][4] = {};
      const unsigned int *own[AT_ONCE];
#pragma unroll
      for (int n = 0; n < AT_ONCE; n++) {
        own[n] = staged + ((tile + n) / ACROSS * 2 + g / 4) * PITCH + (tile + n) % ACROSS * 8 + g % 4 * 2;
      }
#pragma unroll
      for (int k = 0; k < STEPS; k++) {
#pragma unroll
        for (int n = 0; n < AT_ONCE; n++) product(c[n], a[k], own[n][from[k][0]], own[n][from[k][1]]);
      }
#pragma unroll
      for (int n = 0; n < AT_ONCE; n++) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
          const float largest = fmaxf(larger_of_lanes(larger_of_lanes(c[n][k], 2), 4), 0.0f);
          const int h = (tile + n) / ACROSS, w = (tile + n) % ACROSS * 8 + (t * 2 + k % 2) * 2 + g % 4 / 2;
          if (t < 2 && g % 2 == 0) y[((image * FILTERS + g / 4 + k / 2 * 2) * (OUT / 2) + h) * (OUT / 2) + w] = largest;
        }
      }
    }
  }
}
