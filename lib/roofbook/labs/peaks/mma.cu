// The peak of the tensor cores of every NVIDIA GPU since Ampere: only products of 16 x 32 bytes by 32 bytes x 8, in registers. A
// warp has eight sums, so that no product waits for another.
//
// Knob ELEMENT: F16, BF16, TF32, S8: the type of the operands; sums are fp32, for S8 int32
#ifndef ELEMENT
#define ELEMENT F16
#endif
#include "mma.h"
#define F16 1
#define BF16 2
#define TF32 3
#define S8 4
#if ELEMENT == S8
#define NAME "m16n8k32.row.col.s32.s8.s8.s32"
#define SUM int
#define KEPT(x) "+r"(x)
#elif ELEMENT == TF32
#define NAME "m16n8k8.row.col.f32.tf32.tf32.f32"
#define SUM float
#define KEPT(x) "+f"(x)
#elif ELEMENT == BF16
#define NAME "m16n8k16.row.col.f32.bf16.bf16.f32"
#define SUM float
#define KEPT(x) "+f"(x)
#else
#define NAME "m16n8k16.row.col.f32.f16.f16.f32"
#define SUM float
#define KEPT(x) "+f"(x)
#endif
#define SUMS 8

// rows (16, 8 words) and columns (8, 8 words): the operands, the same for all warps; ends (block, thread): a thread's part of all sums.
KERNEL_OF(512, 1) void tensor(const unsigned *RESTRICT rows, const unsigned *RESTRICT columns, float *RESTRICT ends,
                              int rounds) {
  const int lane = threadIdx.x % 32, row = GROUP(lane) * 8, word = MEMBER(lane);
  const unsigned a0 = rows[row + word], a1 = rows[row + 64 + word], a2 = rows[row + word + 4];
  const unsigned a3 = rows[row + 64 + word + 4], b0 = columns[row + word], b1 = columns[row + word + 4];
  SUM c[SUMS][4];
#pragma unroll
  for (int k = 0; k < SUMS; k++) {
    c[k][0] = c[k][1] = c[k][2] = c[k][3] = 0;
  }
  for (int round = 0; round < rounds; round++) {
#pragma unroll
    for (int k = 0; k < SUMS; k++) {
      asm volatile("mma.sync.aligned." NAME " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                   : KEPT(c[k][0]), KEPT(c[k][1]), KEPT(c[k][2]), KEPT(c[k][3])
                   : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
  }
  float end = 0.0f;
#pragma unroll
  for (int k = 0; k < SUMS; k++) {
    end += (float)c[k][0] + (float)c[k][1] + (float)c[k][2] + (float)c[k][3];
  }
  ends[blockIdx.x * 512 + threadIdx.x] = end;
}
