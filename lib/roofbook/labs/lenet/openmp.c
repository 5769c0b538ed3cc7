/* The network's convolutions in C, as a performance-minded user would write them in a page. Rows of an input follow each other,
   so a vector of outputs may reach from one row into the next; its values beyond the last column of the output are not
   kept. A thread keeps some vectors of 4 filters in registers while it walks channels and taps.
   Flags: -O3 -march=native (the widest vectors) -ffast-math (multiply-adds) -fopenmp. */
#include <string.h>
#include "vectors.h"

#define TAPS 7
#define FILTERS 4
#define VECTORS (REGISTERS / 8) /* with 4 filters, 8 sums or 16 */
#define WIDE (VECTORS * LANES)

/* Computes 4 filters' maps of one image. */
static void maps(int channels, int size, const float *x, const float *weight, float *y) {
    const int side = size - TAPS + 1, terms = channels * TAPS * TAPS;
    float rows[FILTERS][side * size + WIDE]; /* rows of the output with the columns that are not kept */
    for (int at = 0; at < side * size; at += WIDE) {
        floats sum[FILTERS][VECTORS] = {0};
        const float *w = weight;
        for (int c = 0; c < channels; c++)
            for (int p = 0; p < TAPS; p++) {
                const float *row = x + (c * size + p) * size + at;
                for (int q = 0; q < TAPS; q++, w++, row++) {
                    floats input[VECTORS];
                    for (int v = 0; v < VECTORS; v++) input[v] = FLOATS_AT(row + v * LANES);
                    for (int f = 0; f < FILTERS; f++)
                        for (int v = 0; v < VECTORS; v++) sum[f][v] += w[f * terms] * input[v];
                }
            }
        for (int f = 0; f < FILTERS; f++)
            for (int v = 0; v < VECTORS; v++) *(floats *)(rows[f] + at + v * LANES) = sum[f][v];
    }
    for (int f = 0; f < FILTERS; f++)
        for (int i = 0; i < side; i++) memcpy(y + (f * side + i) * side, rows[f] + i * size, side * sizeof *y);
}

/* x (images, channels, size, size), weight (filters, channels, 7, 7), filters a multiple of 4 -> y (images, filters,
   size - 6, size - 6). Behind x there are zeros for vectors that reach over its end (with_slack of openmp.py). */
void convolve(int images, int channels, int filters, int size, const float *x, const float *weight, float *y,
              int threads) {
    const long in = (long)channels * size * size, out = (long)filters * (size - TAPS + 1) * (size - TAPS + 1);
#pragma omp parallel for collapse(2) num_threads(threads) schedule(static)
    for (int n = 0; n < images; n++)
        for (int f = 0; f < filters; f += FILTERS)
            maps(channels, size, x + n * in, weight + (long)f * channels * TAPS * TAPS, y + n * out + f * (out / filters));
}
