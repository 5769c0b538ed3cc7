// A product of a warpgroup (wgmma) whose left operand is in registers, and a thread's arrival at a barrier, for warpgroups with
// roles.
#pragma once
#include "hopper.h"

// c (64 x 88, spread over a warpgroup) += a (64 x 16, also spread) times transposed b (88 x 16, in shared memory); = if `first`.
DEVICE void product(float (&c)[44], const unsigned int (&a)[4], unsigned long long b, int first) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.eq.b32 add, %49, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n88k16.f32.f16.f16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43}, {%44,%45,%46,%47}, %48, add, 1, 1, 0;\n}"
      : SUMS_16(IN_FLOATS, 0), SUMS_16(IN_FLOATS, 16), SUMS_4(IN_FLOATS, 32), SUMS_4(IN_FLOATS, 36), SUMS_4(IN_FLOATS, 40)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(first));
}

DEVICE void arrive(unsigned long long *barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(barrier)) : "memory");
}
