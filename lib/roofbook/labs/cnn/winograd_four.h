// Winograd's transformations for tiles of 4 outputs: the points are 0, 1, -1, 1/2, -1/2, 2, -2 and infinity. A pair of opposite
// points shares its even and odd terms. Each takes names of macros: to(k) is the k-th result, the other one the k-th argument.
#pragma once
#define PAIR(to, first, second, even, odd) \
  { \
    const float both = even, apart = odd; \
    to(first) = both + apart; \
    to(second) = both - apart; \
  }
// Five coefficients g to values at the eight points, divided by the scale that the values of the inputs have.
#define FILTER_VALUES(to, g) \
  { \
    const float g0 = g(0), g1 = g(1), g2 = g(2), g3 = g(3), g4 = g(4); \
    to(0) = g0; \
    PAIR(to, 1, 2, -2.0f / 9.0f * (g0 + g2 + g4), -2.0f / 9.0f * (g1 + g3)) \
    PAIR(to, 3, 4, 1.0f / 45.0f * (16.0f * g0 + 4.0f * g2 + g4), 1.0f / 45.0f * (8.0f * g1 + 2.0f * g3)) \
    PAIR(to, 5, 6, 1.0f / 90.0f * (g0 + 4.0f * g2 + 16.0f * g4), 1.0f / 90.0f * (2.0f * g1 + 8.0f * g3)) \
    to(7) = g4; \
  }
// Eight inputs to values at the eight points, in place.
#define INPUT_VALUES(d) \
  { \
    const float d0 = d(0), d1 = d(1), d2 = d(2), d3 = d(3), d4 = d(4), d5 = d(5), d6 = d(6), d7 = d(7); \
    d(0) = d0 - d6 + 5.25f * (d4 - d2); \
    PAIR(d, 1, 2, d2 + d6 - 4.25f * d4, d1 + d5 - 4.25f * d3) \
    PAIR(d, 3, 4, 2.0f * d6 - 10.0f * d4 + 8.0f * d2, 4.0f * d1 - 5.0f * d3 + d5) \
    PAIR(d, 5, 6, d6 + 0.25f * d2 - 1.25f * d4, 0.5f * d1 - 2.5f * d3 + 2.0f * d5) \
    d(7) = d7 - d1 + 5.25f * (d3 - d5); \
  }
// Eight sums of products to four outputs.
#define OUTPUTS(to, m) \
  { \
    const float plus = m(1) + m(2), half_plus = m(3) + m(4), double_plus = m(5) + m(6); \
    const float minus = m(1) - m(2), half_minus = m(3) - m(4), double_minus = m(5) - m(6); \
    to(0) = m(0) + plus + half_plus + double_plus; \
    to(1) = minus + 0.5f * half_minus + 2.0f * double_minus; \
    to(2) = plus + 0.25f * half_plus + 4.0f * double_plus; \
    to(3) = minus + 0.125f * half_minus + 8.0f * double_minus + m(7); \
  }
