/* The lattice Boltzmann problem in C: the program that a good student would write (fused, structure of arrays, OpenMP, SIMD)
   and the program that the course hands out (array of structures, one loop nest a stage, one thread).
   States outside this file are float f[9][ny][nx]; obstacles are one byte a cell, not 0 where blocked.
   Flags: the first part -O3 -march=native (the widest vectors) -ffast-math (lets sums and quotients vectorise; the
   bounds of problem.py still hold) -fopenmp; the given program -O3, as the course builds it. */
#include <math.h>
#include <stdlib.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#define LINE 16 /* floats in a cache line */
#define MAX_THREADS 256

typedef struct {
    int nx, ny, threads, fluid;
    size_t stride, plane; /* floats in a row and in a direction, with padding */
    float w1, w2, omega;
    float *block[2]; /* the allocated memory */
    float *f[2][9];  /* cell (0, 0) of each direction: x = -1 and x = nx are valid too and hold the periodic copies */
    int *blocked;    /* rows of `stride` */
    struct { double sum[LINE / 2]; } part[2][MAX_THREADS]; /* a cache line each */
} Grid;

/* Drives row ny-2, then writes the periodic copies of that row. */
static void accelerate(const Grid *g, float *const f[9]) {
    const size_t row = (size_t)(g->ny - 2) * g->stride;
    const float w1 = g->w1, w2 = g->w2;
    const int *blocked = g->blocked + row;
    float *f1 = f[1] + row, *f3 = f[3] + row, *f5 = f[5] + row, *f6 = f[6] + row, *f7 = f[7] + row, *f8 = f[8] + row;
    for (int x = -1; x <= g->nx; x++) {
        const int at = x < 0 ? g->nx - 1 : x == g->nx ? 0 : x;
        if (!blocked[at] && f3[x] - w1 > 0 && f6[x] - w2 > 0 && f7[x] - w2 > 0) {
            f1[x] += w1, f5[x] += w2, f8[x] += w2;
            f3[x] -= w1, f6[x] -= w2, f7[x] -= w2;
        }
    }
}

static void wrap(const Grid *g, float *const f[9], int y) {
    for (int i = 1; i < 9; i++) {
        float *row = f[i] + (size_t)y * g->stride;
        row[-1] = row[g->nx - 1];
        row[g->nx] = row[0];
    }
}

/* Does propagate + rebound + collision on one row; returns the sum of |u|. Collision conserves density and momentum, so
   the velocity before it is the velocity after it. */
static float fused_row(const Grid *g, float *const src[9], float *const dst[9], int y) {
    const int nx = g->nx, ny = g->ny;
    const size_t at = (size_t)y * g->stride;
    const size_t south = (size_t)(y ? y - 1 : ny - 1) * g->stride, north = (size_t)(y + 1 < ny ? y + 1 : 0) * g->stride;
    const float omega = g->omega;
    const int *restrict blocked = g->blocked + at;
    const float *restrict s0 = src[0] + at, *restrict s1 = src[1] + at - 1, *restrict s2 = src[2] + south;
    const float *restrict s3 = src[3] + at + 1, *restrict s4 = src[4] + north, *restrict s5 = src[5] + south - 1;
    const float *restrict s6 = src[6] + south + 1, *restrict s7 = src[7] + north + 1, *restrict s8 = src[8] + north - 1;
    float *restrict d0 = dst[0] + at, *restrict d1 = dst[1] + at, *restrict d2 = dst[2] + at;
    float *restrict d3 = dst[3] + at, *restrict d4 = dst[4] + at, *restrict d5 = dst[5] + at;
    float *restrict d6 = dst[6] + at, *restrict d7 = dst[7] + at, *restrict d8 = dst[8] + at;
    float speed = 0;
#pragma omp simd reduction(+ : speed)
    for (int x = 0; x < nx; x++) {
        const float t0 = s0[x], t1 = s1[x], t2 = s2[x], t3 = s3[x], t4 = s4[x];
        const float t5 = s5[x], t6 = s6[x], t7 = s7[x], t8 = s8[x];
        const float rho = t0 + ((t1 + t3) + (t2 + t4)) + ((t5 + t7) + (t6 + t8));
        const float ux = ((t1 - t3) + (t5 - t7) + (t8 - t6)) / rho;
        const float uy = ((t2 - t4) + (t5 - t7) + (t6 - t8)) / rho;
        const float uu = ux * ux + uy * uy, rest = 1 - 1.5f * uu;
        const float a = omega * rho / 9, d = a * 0.25f, keep = 1 - omega;
        const float p = ux + uy, m = uy - ux;
        /* even and odd parts in u of the four pairs of opposite directions */
        const float ex = a * (rest + 4.5f * ux * ux), ox = 3 * a * ux, ey = a * (rest + 4.5f * uy * uy), oy = 3 * a * uy;
        const float ep = d * (rest + 4.5f * p * p), op = 3 * d * p, em = d * (rest + 4.5f * m * m), om = 3 * d * m;
        const int b = blocked[x];
        speed += b ? 0 : sqrtf(uu);
        d0[x] = b ? t0 : keep * t0 + 4 * a * rest;
        d1[x] = b ? t3 : keep * t1 + (ex + ox);
        d3[x] = b ? t1 : keep * t3 + (ex - ox);
        d2[x] = b ? t4 : keep * t2 + (ey + oy);
        d4[x] = b ? t2 : keep * t4 + (ey - oy);
        d5[x] = b ? t7 : keep * t5 + (ep + op);
        d7[x] = b ? t5 : keep * t7 + (ep - op);
        d6[x] = b ? t8 : keep * t6 + (em + om);
        d8[x] = b ? t6 : keep * t8 + (em - om);
    }
    return speed;
}

void lbm_free(Grid *g) {
    if (!g) return;
    free(g->block[0]), free(g->block[1]), free(g->blocked), free(g);
}

/* Allocates two grids; NULL if memory runs out. `threads` is cut to the number that the build and the arrays allow, which
   lbm_threads returns. */
Grid *lbm_create(int nx, int ny, float density, float accel, float omega, const unsigned char *obstacles, int threads) {
    Grid *g = calloc(1, sizeof *g);
    if (!g) return NULL;
#ifndef _OPENMP
    threads = 1;
#endif
    g->nx = nx, g->ny = ny, g->omega = omega;
    g->threads = threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
    g->w1 = density * accel / 9, g->w2 = density * accel / 36;
    g->stride = (size_t)(nx + LINE - 1) / LINE * LINE + 2 * LINE;
    g->plane = g->stride * ny + 3 * LINE; /* 3 lines: without them, 18 streams share few cache sets if nx is a power of 2 */
    for (int k = 0; k < 2; k++) {
        g->block[k] = aligned_alloc(64, 9 * g->plane * sizeof(float));
        for (int i = 0; g->block[k] && i < 9; i++) g->f[k][i] = g->block[k] + i * g->plane + LINE;
    }
    g->blocked = aligned_alloc(64, g->stride * ny * sizeof(int));
    if (!g->block[0] || !g->block[1] || !g->blocked) return lbm_free(g), NULL;
    int fluid = 0;
    /* first touch: each thread zeroes the rows it will compute, so that they lie in its own memory */
#pragma omp parallel for schedule(static) num_threads(g->threads) reduction(+ : fluid)
    for (int y = 0; y < ny; y++) {
        for (size_t x = 0; x < g->stride; x++) {
            const int b = x < (size_t)nx ? obstacles[(size_t)y * nx + x] != 0 : 1;
            g->blocked[y * g->stride + x] = b;
            fluid += !b;
            for (int k = 0; k < 2; k++)
                for (int i = 0; i < 9; i++) g->block[k][i * g->plane + y * g->stride + x] = 0;
        }
    }
    g->fluid = fluid;
    return g;
}

int lbm_threads(const Grid *g) { return g->threads; }

void lbm_set(Grid *g, const float *f) {
    for (int i = 0; i < 9; i++)
        for (int y = 0; y < g->ny; y++)
            for (int x = 0; x < g->nx; x++)
                g->f[0][i][y * g->stride + x] = f[((size_t)i * g->ny + y) * g->nx + x];
    for (int y = 0; y < g->ny; y++) wrap(g, g->f[0], y);
}

void lbm_get(const Grid *g, float *f) {
    for (int i = 0; i < 9; i++)
        for (int y = 0; y < g->ny; y++)
            for (int x = 0; x < g->nx; x++)
                f[((size_t)i * g->ny + y) * g->nx + x] = g->f[0][i][y * g->stride + x];
}

/* Takes `steps` steps; av_vels[steps] is the mean of |u| over fluid cells. There is one barrier a step: the thread that has just
   computed the driven row accelerates it for the next step. */
void lbm_run(Grid *g, int steps, float *av_vels) {
    if (steps < 1) return;
    accelerate(g, g->f[0]);
#pragma omp parallel num_threads(g->threads)
    {
#ifdef _OPENMP
        const int me = omp_get_thread_num(), team = omp_get_num_threads();
#else
        const int me = 0, team = 1;
#endif
        const int first = (int)((long long)g->ny * me / team), last = (int)((long long)g->ny * (me + 1) / team);
        for (int t = 0; t < steps; t++) {
            float *const *src = g->f[t & 1], *const *dst = g->f[(t + 1) & 1];
            double sum = 0;
            for (int y = first; y < last; y++) {
                sum += fused_row(g, src, dst, y);
                wrap(g, dst, y);
                if (y == g->ny - 2 && t + 1 < steps) accelerate(g, dst);
            }
            g->part[t & 1][me].sum[0] = sum;
#pragma omp barrier
            if (me == 0) { /* the others may be one step ahead, in the other half of `part` */
                for (int k = 1; k < team; k++) sum += g->part[t & 1][k].sum[0];
                av_vels[t] = (float)(sum / g->fluid);
            }
        }
    }
    if (steps & 1)
        for (int i = 0; i < 9; i++) {
            float *kept = g->f[0][i];
            g->f[0][i] = g->f[1][i], g->f[1][i] = kept;
        }
}

/* -- the given program -------------------------------------------------------------------------------------------- */

typedef struct { float f[9]; } Cell;

static void given_accelerate(int nx, int ny, float density, float accel, Cell *cells, const unsigned char *obstacles) {
    const float w1 = density * accel / 9, w2 = density * accel / 36;
    for (int x = 0; x < nx; x++) {
        Cell *c = &cells[(size_t)(ny - 2) * nx + x];
        if (!obstacles[(size_t)(ny - 2) * nx + x] && c->f[3] - w1 > 0 && c->f[6] - w2 > 0 && c->f[7] - w2 > 0) {
            c->f[1] += w1, c->f[5] += w2, c->f[8] += w2;
            c->f[3] -= w1, c->f[6] -= w2, c->f[7] -= w2;
        }
    }
}

static void given_propagate(int nx, int ny, const Cell *cells, Cell *moved) {
    for (int y = 0; y < ny; y++)
        for (int x = 0; x < nx; x++) {
            const int north = (y + 1) % ny, south = y == 0 ? ny - 1 : y - 1;
            const int east = (x + 1) % nx, west = x == 0 ? nx - 1 : x - 1;
            Cell *c = &moved[(size_t)y * nx + x];
            c->f[0] = cells[(size_t)y * nx + x].f[0];
            c->f[1] = cells[(size_t)y * nx + west].f[1];
            c->f[2] = cells[(size_t)south * nx + x].f[2];
            c->f[3] = cells[(size_t)y * nx + east].f[3];
            c->f[4] = cells[(size_t)north * nx + x].f[4];
            c->f[5] = cells[(size_t)south * nx + west].f[5];
            c->f[6] = cells[(size_t)south * nx + east].f[6];
            c->f[7] = cells[(size_t)north * nx + east].f[7];
            c->f[8] = cells[(size_t)north * nx + west].f[8];
        }
}

static void given_rebound(int nx, int ny, Cell *cells, const Cell *moved, const unsigned char *obstacles) {
    static const int opposite[9] = {0, 3, 4, 1, 2, 7, 8, 5, 6};
    for (size_t c = 0; c < (size_t)nx * ny; c++)
        if (obstacles[c]) {
            cells[c].f[0] = moved[c].f[0];
            for (int i = 1; i < 9; i++) cells[c].f[i] = moved[c].f[opposite[i]];
        }
}

static void velocity(const Cell *c, float *rho, float *ux, float *uy) {
    *rho = 0;
    for (int i = 0; i < 9; i++) *rho += c->f[i];
    *ux = (c->f[1] + c->f[5] + c->f[8] - (c->f[3] + c->f[6] + c->f[7])) / *rho;
    *uy = (c->f[2] + c->f[5] + c->f[6] - (c->f[4] + c->f[7] + c->f[8])) / *rho;
}

static void given_collision(int nx, int ny, float omega, Cell *cells, const Cell *moved, const unsigned char *obstacles) {
    const float w0 = 4.f / 9, w1 = 1.f / 9, w2 = 1.f / 36;
    for (size_t c = 0; c < (size_t)nx * ny; c++) {
        if (obstacles[c]) continue;
        float rho, ux, uy;
        velocity(&moved[c], &rho, &ux, &uy);
        const float square = ux * ux + uy * uy;
        const float u[9] = {0, ux, uy, -ux, -uy, ux + uy, -ux + uy, -ux - uy, ux - uy};
        for (int i = 0; i < 9; i++) {
            const float w = i == 0 ? w0 : i < 5 ? w1 : w2;
            const float equilibrium = w * rho * (1 + 3 * u[i] + 4.5f * u[i] * u[i] - 1.5f * square);
            cells[c].f[i] = moved[c].f[i] + omega * (equilibrium - moved[c].f[i]);
        }
    }
}

static float given_av_velocity(int nx, int ny, const Cell *cells, const unsigned char *obstacles) {
    int count = 0;
    float total = 0;
    for (size_t c = 0; c < (size_t)nx * ny; c++)
        if (!obstacles[c]) {
            float rho, ux, uy;
            velocity(&cells[c], &rho, &ux, &uy);
            total += sqrtf(ux * ux + uy * uy);
            count++;
        }
    return total / count;
}

/* Takes `steps` steps on cells[ny*nx] in place, with a second grid of the same size as scratch. */
void lbm_given(int nx, int ny, float density, float accel, float omega, const unsigned char *obstacles, Cell *cells,
               Cell *moved, int steps, float *av_vels) {
    for (int t = 0; t < steps; t++) {
        given_accelerate(nx, ny, density, accel, cells, obstacles);
        given_propagate(nx, ny, cells, moved);
        given_rebound(nx, ny, cells, moved, obstacles);
        given_collision(nx, ny, omega, cells, moved, obstacles);
        av_vels[t] = given_av_velocity(nx, ny, cells, obstacles);
    }
}
