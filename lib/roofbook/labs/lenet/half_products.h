// Arithmetic on two numbers of fp16 in a word, for CUDA.
#pragma once
DEVICE unsigned int two_halves(float first, float second) {
  unsigned int word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
}
DEVICE unsigned int both_halves(float value) { return two_halves(value, value); }
DEVICE unsigned int half_products(unsigned int a, unsigned int b, unsigned int c) {
  unsigned int word;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(word) : "r"(a), "r"(b), "r"(c));
  return word;
}
DEVICE float first_half(unsigned int word) {
  float value;
  asm("{.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.f32.f16 %0, low;}" : "=f"(value) : "r"(word));
  return value;
}
DEVICE float second_half(unsigned int word) {
  float value;
  asm("{.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.f32.f16 %0, high;}" : "=f"(value) : "r"(word));
  return value;
}
