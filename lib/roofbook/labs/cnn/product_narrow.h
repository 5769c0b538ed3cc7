// One product of Hopper's tensor cores: c (64 x 128, fp32, spread over a warpgroup) = a (64 x 16) times transposed b (128 x 16), or
// += if `added` is not 0; a and b are fp16 and lie in shared memory.
#pragma once
#include "hopper.h"

DEVICE void product(float (&c)[64], unsigned long long a, unsigned long long b, int added) {
  asm volatile(
      "{\n.reg .pred added;\nsetp.ne.b32 added, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16{"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,"
      "%61,%62,%63}, %64, %65, added, 1, 1, 0, 0;\n}"
      : SUMS_16(IN_FLOATS, 0), SUMS_16(IN_FLOATS, 16), SUMS_16(IN_FLOATS, 32), SUMS_16(IN_FLOATS, 48)
      : "l"(a), "l"(b), "r"(added));
}

// Tells the compiler that the matrix units have written c: it may not read c before this.
DEVICE void written(float (&c)[64]) {
  asm volatile("" : SUMS_16(IN_FLOATS, 0), SUMS_16(IN_FLOATS, 16), SUMS_16(IN_FLOATS, 32), SUMS_16(IN_FLOATS, 48)::"memory");
}
