/* The layer in C, as a performance-minded user would write it in a page. A thread takes two rows and some columns of the
   convolution, and keeps 4 filters of these at a time in registers while it walks channels and taps.
   Flags: -O3 -march=native (the widest vectors) -ffast-math (multiply-adds) -fopenmp. */
#include "vectors.h"

#define FILTERS 4
#define VECTORS (REGISTERS / 16) /* of columns: with two rows and 4 filters, 8 sums or 16 */

typedef struct {
    int channels, filters, height, width, taps;
    const float *x, *weight, *bias;
    float *out;
} Layer;

/* Filters from f on, rows y and y + 1, `vectors` vectors of columns from `left` on. Outputs beyond the layer's edges are
   computed from other rows or filters, and not kept. */
static inline __attribute__((always_inline)) void tile(const Layer *l, int f, int y, int left, const int vectors) {
    const int taps = l->taps, across = l->width + taps - 1, down = l->height + taps - 1, terms = l->channels * taps * taps;
    floats sum[FILTERS][2][VECTORS];
    const float *weight[FILTERS];
    for (int i = 0; i < FILTERS; i++) {
        const int filter = f + i < l->filters ? f + i : l->filters - 1;
        weight[i] = l->weight + (long)filter * terms;
        for (int r = 0; r < 2; r++)
            for (int v = 0; v < vectors; v++) sum[i][r][v] = (floats){0} + l->bias[filter];
    }
    for (int c = 0; c < l->channels; c++)
        for (int p = 0; p < taps; p++) {
            const float *row = l->x + ((long)c * down + y + p) * across + left;
            for (int q = 0; q < taps; q++, row++) {
                floats input[2][VECTORS];
                for (int r = 0; r < 2; r++)
                    for (int v = 0; v < vectors; v++) input[r][v] = FLOATS_AT(row + r * across + v * LANES);
                for (int i = 0; i < FILTERS; i++) {
                    const float w = *weight[i]++;
                    for (int r = 0; r < 2; r++)
                        for (int v = 0; v < vectors; v++) sum[i][r][v] += w * input[r][v];
                }
            }
        }
    for (int i = 0; i < FILTERS && f + i < l->filters; i++)
        for (int v = 0; v < vectors; v++) {
            float *out = l->out + ((long)(f + i) * (l->height / 2) + y / 2) * (l->width / 2) + left / 2 + v * LANES / 2;
            for (int lane = 0; lane + 1 < LANES && left + v * LANES + lane + 1 < l->width; lane += 2) {
                float largest = 0;
                for (int r = 0; r < 2; r++)
                    for (int k = 0; k < 2; k++)
                        largest = sum[i][r][v][lane + k] > largest ? sum[i][r][v][lane + k] : largest;
                out[lane / 2] = largest;
            }
        }
}

/* x (channels, height + taps - 1, width + taps - 1), weight (filters, channels, taps, taps), bias (filters) -> out
   (filters, height / 2, width / 2). Behind x there are zeros for vectors that reach over its end (with_slack of openmp.py). */
void layer(int channels, int filters, int height, int width, int taps, const float *x, const float *weight,
           const float *bias, float *out, int threads) {
    const Layer l = {channels, filters, height, width, taps, x, weight, bias, out};
#pragma omp parallel for collapse(2) num_threads(threads) schedule(dynamic)
    for (int y = 0; y < height / 2 * 2; y += 2)
        for (int left = 0; left < width / 2 * 2; left += VECTORS * LANES)
            for (int f = 0; f < filters; f += FILTERS)
                if (width - left > LANES)
                    tile(&l, f, y, left, VECTORS);
                else
                    tile(&l, f, y, left, 1);
}
