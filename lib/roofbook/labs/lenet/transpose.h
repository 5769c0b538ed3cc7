// Transposes sixteen vectors of sixteen numbers in registers: four times, the first eight vectors are interleaved with the last
// eight, number by number.
#pragma once
#define INTERLEAVE(a, b, low, high) \
  float16 low, high; \
  low.even = (a).lo; \
  low.odd = (b).lo; \
  high.even = (a).hi; \
  high.odd = (b).hi;
#define ROUND(a, b) \
  INTERLEAVE(a##0, a##8, b##0, b##1) \
  INTERLEAVE(a##1, a##9, b##2, b##3) \
  INTERLEAVE(a##2, a##10, b##4, b##5) \
  INTERLEAVE(a##3, a##11, b##6, b##7) \
  INTERLEAVE(a##4, a##12, b##8, b##9) \
  INTERLEAVE(a##5, a##13, b##10, b##11) \
  INTERLEAVE(a##6, a##14, b##12, b##13) \
  INTERLEAVE(a##7, a##15, b##14, b##15)
