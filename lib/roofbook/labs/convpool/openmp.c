/* The layer in C, as a performance-minded user would write it in a page. The input gets a frame of zeros, and each filter a
   list of its non-zero weights; then a thread walks a filter's list with some rows of its map in registers.
   Flags: -O3 -march=native (the widest vectors) -fopenmp; it has no floating point. */
#include "vectors.h"

#define ROWS (REGISTERS / 4)
#define VECTORS 2 /* of columns: with the rows, 8 sums or 16 */

typedef struct { int offset, value; } Entry; /* a weight: offset of its first input, and its value */

/* Stores the largest sum of each 2x2 window, or 0, of the map's rows from y on and columns from `left` on. */
static void pool(const ints sum[ROWS][VECTORS], int y, int left, int size, int *out) {
    for (int r = 0; r + 1 < ROWS && y + r + 1 < size; r += 2)
        for (int j = 0; j + 1 < VECTORS * LANES && left + j + 1 < size; j += 2) {
            int largest = 0;
            for (int k = 0; k < 4; k++) {
                const int value = sum[r + k / 2][j / LANES][j % LANES + k % 2];
                largest = value > largest ? value : largest;
            }
            out[(y + r) / 2 * (size / 2) + (left + j) / 2] = largest;
        }
}

/* x (depth, size, size), weight (filters, depth, taps, taps) -> out (filters, size / 2, size / 2). Scratch memory: framed
   (depth, size + taps - 1, size + taps - 1), all zero, with 8 rows and 32 values more behind it, since vectors reach over its
   edges; entries (filters, depth * taps * taps); counts (filters). */
void layer(int depth, int filters, int size, int taps, const short *x, const short *weight, int *framed, Entry *entries,
           int *counts, int *out, int threads) {
    const int across = size + taps - 1, edge = taps / 2, terms = depth * taps * taps;
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static) nowait
        for (int c = 0; c < depth; c++)
            for (int i = 0; i < size; i++)
                for (int j = 0; j < size; j++)
                    framed[((long)c * across + i + edge) * across + j + edge] = x[((long)c * size + i) * size + j];
#pragma omp for schedule(static)
        for (int f = 0; f < filters; f++) {
            const short *next = weight + (long)f * terms;
            Entry *list = entries + (long)f * terms;
            int count = 0;
            for (int c = 0; c < depth; c++)
                for (int p = 0; p < taps; p++)
                    for (int q = 0; q < taps; q++, next++) {
                        list[count] = (Entry){(c * across + p) * across + q, *next};
                        count += *next != 0; /* the next entry overwrites a zero: cheaper than a branch that cannot be predicted */
                    }
            counts[f] = count;
        }
#pragma omp for collapse(2) schedule(dynamic, 4)
        for (int y = 0; y < size / 2 * 2; y += ROWS)
            for (int f = 0; f < filters; f++)
                for (int left = 0; left < size / 2 * 2; left += VECTORS * LANES) {
                    ints sum[ROWS][VECTORS] = {0};
                    for (int e = 0; e < counts[f]; e++) {
                        const Entry entry = entries[(long)f * terms + e];
                        const int *at = framed + entry.offset + (long)y * across + left;
#pragma GCC unroll 8
                        for (int r = 0; r < ROWS; r++)
                            for (int v = 0; v < VECTORS; v++)
                                sum[r][v] += entry.value * *(const ints *)(at + r * across + v * LANES);
                    }
                    pool(sum, y, left, size, out + (long)f * (size / 2) * (size / 2));
                }
    }
}
