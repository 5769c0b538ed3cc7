// The sizes of the layer, and the index of an element. The input has a border of zeros, TAPS / 2 wide.
//
// Knob DEPTH:   channels of the input
// Knob FILTERS: filters
// Knob SIZE:    side of the map
// Knob TAPS:    side of a filter
#pragma once
#define X_ROW (SIZE + TAPS - 1)
#define X_AT(j, h, w) ((j) * X_ROW + (h)) * X_ROW + (w)
#define WEIGHT_AT(i, j, p, q) (((i) * DEPTH + (j)) * TAPS + (p)) * TAPS + (q)
#define CONV_AT(i, h, w) ((i) * SIZE + (h)) * SIZE + (w)
#define OUT_AT(i, h, w) ((i) * (SIZE / 2) + (h)) * (SIZE / 2) + (w)
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
