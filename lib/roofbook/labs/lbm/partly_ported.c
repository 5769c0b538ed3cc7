/* The host's part of the report's first program: rebound, collision and av_velocity in C, one thread, one loop nest each, on an
   array of structures. Called after each copy of the grid from the device. */
#include <math.h>
#include <stddef.h>

typedef struct { float f[9]; } Cell;

static void rebound(size_t n, Cell *cells, const Cell *moved, const unsigned char *blocked) {
    static const int opposite[9] = {0, 3, 4, 1, 2, 7, 8, 5, 6};
    for (size_t c = 0; c < n; c++)
        if (blocked[c])
            for (int i = 0; i < 9; i++) cells[c].f[i] = moved[c].f[opposite[i]];
}

static float velocity(const Cell *c, float *ux, float *uy) {
    const float *f = c->f;
    const float density = f[0] + f[1] + f[2] + f[3] + f[4] + f[5] + f[6] + f[7] + f[8];
    *ux = (f[1] + f[5] + f[8] - (f[3] + f[6] + f[7])) / density;
    *uy = (f[2] + f[5] + f[6] - (f[4] + f[7] + f[8])) / density;
    return density;
}

static void collision(size_t n, float omega, Cell *cells, const Cell *moved, const unsigned char *blocked) {
    for (size_t c = 0; c < n; c++) {
        if (blocked[c]) continue;
        float ux, uy;
        const float density = velocity(&moved[c], &ux, &uy), square = ux * ux + uy * uy;
        const float u[9] = {0, ux, uy, -ux, -uy, ux + uy, -ux + uy, -ux - uy, ux - uy};
        for (int i = 0; i < 9; i++) {
            const float weight = (i == 0 ? 4 / 9.f : i < 5 ? 1 / 9.f : 1 / 36.f) * density;
            const float equilibrium = weight * (1 + 3 * u[i] + 4.5f * u[i] * u[i] - 1.5f * square);
            cells[c].f[i] = moved[c].f[i] + omega * (equilibrium - moved[c].f[i]);
        }
    }
}

/* The sum is a double: a float would lose digits of the mean of a large grid. */
static double av_velocity(size_t n, const Cell *cells, const unsigned char *blocked) {
    size_t fluid = 0;
    double sum = 0;
    for (size_t c = 0; c < n; c++) {
        if (blocked[c]) continue;
        float ux, uy;
        velocity(&cells[c], &ux, &uy);
        sum += sqrtf(ux * ux + uy * uy);
        fluid++;
    }
    return sum / fluid;
}

/* Does the last three functions of a step, from `moved`, the result of propagate, to `cells`; n of each. Returns the mean |u|
   of fluid cells. */
double rest_of_step(size_t n, float omega, Cell *cells, const Cell *moved, const unsigned char *blocked) {
    rebound(n, cells, moved, blocked);
    collision(n, omega, cells, moved, blocked);
    return av_velocity(n, cells, blocked);
}
