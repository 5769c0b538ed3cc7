// A convolution of the network, 7x7, valid, without bias: its sizes, the index of an element, and the memory of its weights.
//
// Knob WEIGHTS:  GLOBAL_MEMORY;  CONSTANT_MEMORY
// Knob CHANNELS: channels of the input
// Knob FILTERS:  filters
// Knob SIZE:     side of the input
#pragma once
#ifndef WEIGHTS
#define WEIGHTS GLOBAL_MEMORY
#endif
#define TAPS 7
#define OUT (SIZE - TAPS + 1)
#define PIXELS (OUT * OUT)
#define ROWS (CHANNELS * TAPS * TAPS)
#define X_AT(image, c, h, w) (((image) * CHANNELS + (c)) * SIZE + (h)) * SIZE + (w)
#define Y_AT(image, m, h, w) (((image) * FILTERS + (m)) * OUT + (h)) * OUT + (w)
#define WEIGHT_AT(m, c, p, q) (((m) * CHANNELS + (c)) * TAPS + (p)) * TAPS + (q)
#define GLOBAL_MEMORY 1
#define CONSTANT_MEMORY 2
#if WEIGHTS == CONSTANT_MEMORY
CONSTANT_ARRAY(float, weights, FILTERS * ROWS)
#define WEIGHTS_ARGUMENT CONSTANT_ARGUMENT(float, weights)
#else
#define WEIGHTS_ARGUMENT , GLOBAL const float *RESTRICT weights
#endif
