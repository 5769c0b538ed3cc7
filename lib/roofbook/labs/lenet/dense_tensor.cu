// The two dense layers after the convolutions, the first on tensor cores in TF32, 32 images a block. The warps divide the values of an
// image among them, and their sums are added. The maps have the range of fp32, which TF32 keeps and fp16 would not.
//
// Knob VALUES: number of values in an image's last pooled maps
#include "mma.h"
#define HIDDEN 32
#define CLASSES 10
#define IMAGES 32
#define WARPS 9
#define ITEMS (WARPS * 32)
#define SHARE (VALUES / WARPS)

DEVICE unsigned int rounded(float value) {
  unsigned int bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
}

DEVICE void product(float (&c)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

KERNEL_OF(ITEMS, 1) void dense(const float *RESTRICT pooled, const float *RESTRICT fc1, const float *RESTRICT fc1_bias,
                               const float *RESTRICT fc2, const float *RESTRICT fc2_bias, float *RESTRICT scores, int count) {
  __shared__ float parts[WARPS][IMAGES][HIDDEN + 1];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = GROUP(lane), t = MEMBER(lane), first = blockIdx.x * IMAGES;
  float c[2][4][4] = {};
  // A lane has four values side by side, for two products: the order of a product's eight values is free.
#pragma unroll 3
  for (int k = warp * SHARE + t * 4; k < (warp + 1) * SHARE; k += 16) {
    float4 a[2][2], b[4];
#pragma unroll
    for (int n = 0; n < 4; n++) {
      const int image = first + n * 8 + g;
      a[n / 2][n % 2] = *(const float4 *)(pooled + (image < count ? image : count - 1) * VALUES + k);
      b[n] = *(const float4 *)(fc1 + (n * 8 + g) * VALUES + k);
    }
#pragma unroll
    for (int m = 0; m < 2; m++) {
      const float4 upper = a[m][0], lower = a[m][1];
      const unsigned int one[4] = {rounded(upper.x), rounded(lower.x), rounded(upper.y), rounded(lower.y)};
      const unsigned int two[4] = {rounded(upper.z), rounded(lower.z), rounded(upper.w), rounded(lower.w)};
#pragma unroll
      for (int n = 0; n < 4; n++) {
        product(c[m][n], one, rounded(b[n].x), rounded(b[n].y));
        product(c[m][n], two, rounded(b[n].z), rounded(b[n].w));
      }
    }
  }
#pragma unroll
  for (int k = 0; k < 32; k++) {
    const int m = k / 16, n = k / 4 % 4;
    parts[warp][m * 16 + k / 2 % 2 * 8 + g][n * 8 + t * 2 + k % 2] = c[m][n][k % 4];
  }
  __syncthreads();
  for (int k = threadIdx.x; k < IMAGES * HIDDEN; k += ITEMS) {
    float sum = fc1_bias[k % HIDDEN];
#pragma unroll
    for (int w = 0; w < WARPS; w++) sum += parts[w][k / HIDDEN][k % HIDDEN];
    parts[0][k / HIDDEN][k % HIDDEN] = sum < 0.0f ? 0.0f : sum;
  }
  __syncthreads();
  for (int k = threadIdx.x; k < IMAGES * CLASSES; k += ITEMS) {
    const int image = k / CLASSES, o = k % CLASSES;
    float score = fc2_bias[o];
#pragma unroll
    for (int i = 0; i < HIDDEN; i++) score += fc2[o * HIDDEN + i] * parts[0][image][i];
    if (first + image < count) scores[(first + image) * CLASSES + o] = score;
  }
}
