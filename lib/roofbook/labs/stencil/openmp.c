/* The stencil in C, as a performance-minded user would write it in a page. r and b do not change, so all passes over a few
   elements are done while these are in registers: one walk over memory, one root, as many additions as passes.
   Flags: -O3 -march=native (the widest vectors) -ffast-math (the inverse root by its estimate and a Newton step; the
   bound of problem.py allows it) -fopenmp. */
#include <math.h>

#define WIDE 64 /* elements at a time */

/* g[i][j] += 1 / sqrt(r[i-1][j] + b[i+1][j]), `passes` times, for all rows but the first and last of height x width. */
void stencil(int height, int width, int passes, const float *restrict r, const float *restrict b, float *restrict g,
             int threads) {
    const long last = (long)(height - 2) * width;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (long at = 0; at < last; at += WIDE) {
        const float *above = r + at, *below = b + at + 2 * width;
        float *here = g + at + width, root[WIDE] = {0}, sum[WIDE] = {0};
        const int count = last - at < WIDE ? last - at : WIDE;
        for (int j = 0; j < count; j++) root[j] = 1 / sqrtf(above[j] + below[j]), sum[j] = here[j];
        for (int pass = 0; pass < passes; pass++)
            for (int j = 0; j < WIDE; j++) sum[j] += root[j];
        for (int j = 0; j < count; j++) here[j] = sum[j];
    }
}
