/* The lattice Boltzmann problem in C with OpenACC: the loops stay loops, and directives say what a device may do in parallel.
   Structure of arrays, propagate + rebound + collision + av_velocity in one loop nest, both grids on the device throughout.
   A separate program, since GCC offloads only from programs. It talks with Python by standard input and output:
     argv       nx ny omega w1 w2 where; `where` is `nvidia` or `host`
     at first   it writes a line: where it runs, or `error: ` and the reason; then it reads nx*ny bytes, not 0 where blocked
     s          reads f[9][ny][nx] (float) as the state; the other grid becomes NaN
     r          reads n (int), does n steps, answers with seconds (double) and n mean speeds (double)
     g          answers with f[9][ny][nx]
   It ends with its input. Compiled without -fopenacc it is plain C on one core. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _OPENACC
#include <openacc.h>
#endif

typedef unsigned char Byte;

/* Drives row ny-2. n: cells of the grid. */
static void accelerate_flow(int nx, int ny, size_t n, float w1, float w2, float *restrict f, const Byte *restrict blocked) {
    const size_t row = (size_t)(ny - 2) * nx;
#pragma acc parallel loop present(f[0 : 9 * n], blocked[0 : n])
    for (int x = 0; x < nx; x++) {
        const size_t i = row + x;
        if (!blocked[i] && f[3 * n + i] - w1 > 0 && f[6 * n + i] - w2 > 0 && f[7 * n + i] - w2 > 0) {
            f[1 * n + i] += w1, f[5 * n + i] += w2, f[8 * n + i] += w2;
            f[3 * n + i] -= w1, f[6 * n + i] -= w2, f[7 * n + i] -= w2;
        }
    }
}

/* Takes a step from `f` to `g`; returns the sum of |u| over fluid cells. Rows are added up in double: a float would lose digits
   of a large grid's sum. */
static double fused(int nx, int ny, size_t n, float omega, const float *restrict f, float *restrict g,
                    const Byte *restrict blocked) {
    double sum = 0;
#pragma acc parallel loop reduction(+ : sum) present(f[0 : 9 * n], g[0 : 9 * n], blocked[0 : n])
    for (int y = 0; y < ny; y++) {
        const size_t here = (size_t)y * nx;
        const size_t south = (size_t)(y == 0 ? ny - 1 : y - 1) * nx, north = (size_t)(y + 1 == ny ? 0 : y + 1) * nx;
        float speed = 0;
#pragma acc loop reduction(+ : speed)
        for (int x = 0; x < nx; x++) {
            const int west = x == 0 ? nx - 1 : x - 1, east = x + 1 == nx ? 0 : x + 1;
            const float t0 = f[here + x], t1 = f[1 * n + here + west], t2 = f[2 * n + south + x];
            const float t3 = f[3 * n + here + east], t4 = f[4 * n + north + x], t5 = f[5 * n + south + west];
            const float t6 = f[6 * n + south + east], t7 = f[7 * n + north + east], t8 = f[8 * n + north + west];
            const float density = t0 + t1 + t2 + t3 + t4 + t5 + t6 + t7 + t8;
            const float ux = (t1 + t5 + t8 - (t3 + t6 + t7)) / density, uy = (t2 + t5 + t6 - (t4 + t7 + t8)) / density;
            const float square = ux * ux + uy * uy, rest = 1 - 1.5f * square, p = ux + uy, m = uy - ux;
            const float a = density / 9, d = density / 36;
            const int solid = blocked[here + x];
            g[here + x] = solid ? t0 : t0 + omega * (4 * a * rest - t0);
            g[1 * n + here + x] = solid ? t3 : t1 + omega * (a * (rest + 3 * ux + 4.5f * ux * ux) - t1);
            g[2 * n + here + x] = solid ? t4 : t2 + omega * (a * (rest + 3 * uy + 4.5f * uy * uy) - t2);
            g[3 * n + here + x] = solid ? t1 : t3 + omega * (a * (rest - 3 * ux + 4.5f * ux * ux) - t3);
            g[4 * n + here + x] = solid ? t2 : t4 + omega * (a * (rest - 3 * uy + 4.5f * uy * uy) - t4);
            g[5 * n + here + x] = solid ? t7 : t5 + omega * (d * (rest + 3 * p + 4.5f * p * p) - t5);
            g[6 * n + here + x] = solid ? t8 : t6 + omega * (d * (rest + 3 * m + 4.5f * m * m) - t6);
            g[7 * n + here + x] = solid ? t5 : t7 + omega * (d * (rest - 3 * p + 4.5f * p * p) - t7);
            g[8 * n + here + x] = solid ? t6 : t8 + omega * (d * (rest - 3 * m + 4.5f * m * m) - t8);
            speed += solid ? 0 : sqrtf(square); /* collision keeps density and momentum, so this is the speed after it too */
        }
        sum += speed;
    }
    return sum;
}

static void get(void *data, size_t size, size_t count) {
    if (fread(data, size, count, stdin) != count) exit(EXIT_SUCCESS); /* the other side is gone */
}

static void put(const void *data, size_t size, size_t count) {
    if (fwrite(data, size, count, stdout) != count) exit(EXIT_FAILURE);
}

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + 1e-9 * at.tv_nsec;
}

static void *room(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory) printf("error: no memory for %zu bytes\n", bytes), exit(EXIT_FAILURE);
    return memory;
}

/* Returns the reason why the loops cannot run there, or NULL. */
static const char *choose(const char *where) {
#ifdef _OPENACC
    const acc_device_t kind = strcmp(where, "nvidia") ? acc_device_host : acc_device_nvidia;
    if (kind == acc_device_nvidia && acc_get_num_devices(kind) < 1) return "OpenACC's runtime finds no NVIDIA GPU";
    acc_set_device_type(kind);
    return NULL;
#else
    return strcmp(where, "host") ? "compiled without OpenACC" : NULL;
#endif
}

int main(int argc, char **argv) {
    if (argc != 7) return printf("error: six arguments are nx ny omega w1 w2 where\n"), EXIT_FAILURE;
    const int nx = atoi(argv[1]), ny = atoi(argv[2]);
    const float omega = strtof(argv[3], NULL), w1 = strtof(argv[4], NULL), w2 = strtof(argv[5], NULL);
    const size_t n = (size_t)nx * ny;
    const char *why = choose(argv[6]);
    if (why) return printf("error: %s\n", why), EXIT_FAILURE;
    Byte *blocked = room(n);
    float *f = room(9 * n * sizeof *f), *g = room(9 * n * sizeof *g);
    printf("%s\n", argv[6]);
    fflush(stdout);
    get(blocked, 1, n);
    size_t fluid = 0;
    for (size_t i = 0; i < n; i++) fluid += !blocked[i];
#pragma acc enter data copyin(blocked[0 : n]) create(f[0 : 9 * n], g[0 : 9 * n])
    for (int asked; (asked = getchar()) != EOF; fflush(stdout)) {
        if (asked == 's') {
            get(f, sizeof *f, 9 * n);
            for (size_t i = 0; i < 9 * n; i++) g[i] = NAN;
#pragma acc update device(f[0 : 9 * n], g[0 : 9 * n])
        } else if (asked == 'r') {
            int steps;
            get(&steps, sizeof steps, 1);
            double *speeds = room((steps + 1) * sizeof *speeds);
            const double start = now();
            for (int t = 0; t < steps; t++) {
                accelerate_flow(nx, ny, n, w1, w2, f, blocked);
                speeds[1 + t] = fused(nx, ny, n, omega, f, g, blocked) / fluid;
                float *kept = f;
                f = g, g = kept;
            }
            speeds[0] = now() - start;
            put(speeds, sizeof *speeds, steps + 1);
            free(speeds);
        } else if (asked == 'g') {
#pragma acc update self(f[0 : 9 * n])
            put(f, sizeof *f, 9 * n);
        }
    }
    return EXIT_SUCCESS;
}
