// Rounds to bf16, ties to even.
#pragma once
DEVICE unsigned int bf16_of(float value) {
  const unsigned int bits = as_uint(value);
  return bits + 0x7fff + (bits >> 16 & 1) >> 16;
}
