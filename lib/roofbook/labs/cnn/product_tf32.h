// One product of Hopper's tensor cores: c (64 x 256, fp32, spread over a warpgroup) += a (64 x 8) times transposed b (256 x 8); a
// and b are numbers of 4 bytes in shared memory, of which the matrix units read 19 bits.
#pragma once
#include "hopper.h"

DEVICE void product(float (&c)[128], unsigned long long a, unsigned long long b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32{"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,"
      "%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,"
      "%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,"
      "%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, %128, %129, 1, 1, 1;"
      : SUMS_16(IN_FLOATS, 0), SUMS_16(IN_FLOATS, 16), SUMS_16(IN_FLOATS, 32), SUMS_16(IN_FLOATS, 48),
        SUMS_16(IN_FLOATS, 64), SUMS_16(IN_FLOATS, 80), SUMS_16(IN_FLOATS, 96), SUMS_16(IN_FLOATS, 112)
      : "l"(a), "l"(b));
}
