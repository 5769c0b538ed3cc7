// Winograd's transformations for tiles of 2 outputs: the points are 0, 1, -1, 1/2, -2 and infinity. Each takes names of macros:
// to(k) is the k-th result, the other one the k-th argument.
#pragma once
// Five coefficients g to values at the six points, divided by the scale that the values of the inputs have.
#define FILTER_VALUES(to, g) \
  { \
    const float g0 = g(0), g1 = g(1), g2 = g(2), g3 = g(3), g4 = g(4); \
    const float even = 1.0f / 6.0f * (g0 + g2 + g4), odd = 1.0f / 6.0f * (g1 + g3); \
    to(0) = g0; \
    to(1) = even + odd; \
    to(2) = even - odd; \
    to(3) = 1.0f / 15.0f * (16.0f * g0 + 8.0f * g1 + 4.0f * g2 + 2.0f * g3 + g4); \
    to(4) = 1.0f / 30.0f * (g0 - 2.0f * g1 + 4.0f * g2 - 8.0f * g3 + 16.0f * g4); \
    to(5) = g4; \
  }
// Six inputs to values at the six points, in place.
#define INPUT_VALUES(d) \
  { \
    const float d0 = d(0), d1 = d(1), d2 = d(2), d3 = d(3), d4 = d(4), d5 = d(5); \
    d(0) = d0 + d4 - 2.0f * d2 + 1.5f * (d3 - d1); \
    d(1) = d2 + 2.0f * (d4 - d1) + 5.0f * d3; \
    d(2) = 5.0f * d2 - 2.0f * (d1 + d4) - d3; \
    d(3) = 2.0f * (d1 - d3) + d2 - d4; \
    d(4) = d1 - d3 + 2.0f * (d4 - d2); \
    d(5) = d1 + d5 - 2.0f * d3 + 1.5f * (d4 - d2); \
  }
// Six sums of products to two outputs.
#define OUTPUTS(to, m) \
  { \
    const float plus = m(1) + m(2), minus = m(1) - m(2); \
    to(0) = m(0) + plus + m(3) + m(4); \
    to(1) = minus + 0.5f * m(3) - 2.0f * m(4) + m(5); \
  }
