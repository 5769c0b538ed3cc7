// The peak of Hopper's tensor cores: only products of 64 rows by 256 columns, both in shared memory, one after the other. A row and
// a column are 128 bytes, in the layout of TMA's 128-byte swizzle.
//
// Knob ELEMENT: F16, BF16, TF32, S8, E4M3: the type of the operands; sums are fp32, for S8 int32
#ifndef ELEMENT
#define ELEMENT F16
#endif
#include "hopper.h"
#define F16 1
#define BF16 2
#define TF32 3
#define S8 4
#define E4M3 5
#define SUM float
#define KEPT(x) "+f"(x)
#define TAIL "1, 1, 1;"
#if ELEMENT == S8
#define NAME "m64n256k32.s32.s8.s8"
#undef TAIL
#define TAIL "1;"
#undef SUM
#define SUM int
#undef KEPT
#define KEPT(x) "+r"(x)
#elif ELEMENT == E4M3
#define NAME "m64n256k32.f32.e4m3.e4m3"
#elif ELEMENT == TF32
#define NAME "m64n256k8.f32.tf32.tf32"
#elif ELEMENT == BF16
#define NAME "m64n256k16.f32.bf16.bf16"
#undef TAIL
#define TAIL "1, 1, 1, 0, 0;"
#else
#define NAME "m64n256k16.f32.f16.f16"
#undef TAIL
#define TAIL "1, 1, 1, 0, 0;"
#endif
#define ROWS 64
#define COLUMNS 256
#define WORDS 32
#define SLICES 4
#define TIMES 2

DEVICE void product(SUM (&c)[128], unsigned long long a, unsigned long long b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned." NAME " {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"
      "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,"
      "%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,"
      "%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,"
      "%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, %128, %129, " TAIL
      : SUMS_16(KEPT, 0), SUMS_16(KEPT, 16), SUMS_16(KEPT, 32), SUMS_16(KEPT, 48), SUMS_16(KEPT, 64), SUMS_16(KEPT, 80),
        SUMS_16(KEPT, 96), SUMS_16(KEPT, 112)
      : "l"(a), "l"(b));
}

// rows (64, 32 words) and columns (256, 32 words): the operands, the same for all warpgroups, already swizzled; ends (block, thread):
// a thread's part of all sums.
KERNEL_OF(256, 1) void tensor(const unsigned *RESTRICT rows, const unsigned *RESTRICT columns, float *RESTRICT ends,
                              int rounds) {
  __shared__ __align__(1024) unsigned operands[(ROWS + COLUMNS) * WORDS];
  for (int k = threadIdx.x; k < (ROWS + COLUMNS) * WORDS; k += 256) {
    operands[k] = k < ROWS * WORDS ? rows[k] : columns[k - ROWS * WORDS];
  }
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  const unsigned long long a = descriptor(operands), b = descriptor(operands + ROWS * WORDS);
  SUM c[128];
#pragma unroll
  for (int k = 0; k < 128; k++) {
    c[k] = 0;
  }
  for (int round = 0; round < rounds; round++) {
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < SLICES * TIMES; k++) {
      product(c, along_lines(a, k % SLICES), along_lines(b, k % SLICES));
    }
    wgmma_commit();
    wgmma_wait_all();
  }
  float end = 0.0f;
#pragma unroll
  for (int k = 0; k < 128; k++) {
    end += (float)c[k];
  }
  ends[blockIdx.x * 256 + threadIdx.x] = end;
}
