// The sizes of the layer, and the index of an element of input, weights, convolution and output, in the course's layout.
//
// Knob CHANNELS: channels of the input
// Knob FILTERS:  channels of the output
// Knob HEIGHT:   rows of the convolution's output
// Knob WIDTH:    columns of the convolution's output
// Knob TAPS:     side of the filter
#pragma once
#define X_ROW (WIDTH + TAPS - 1)
#define X_AT(j, h, w) ((j) * (HEIGHT + TAPS - 1) + (h)) * X_ROW + (w)
#define WEIGHT_AT(i, j, p, q) (((i) * CHANNELS + (j)) * TAPS + (p)) * TAPS + (q)
#define C_AT(i, h, w) ((i) * HEIGHT + (h)) * WIDTH + (w)
#define OUT_AT(i, h, w) ((i) * (HEIGHT / 2) + (h)) * (WIDTH / 2) + (w)
