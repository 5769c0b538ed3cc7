/* A host in C that repeats recorded commands: launches, reads, waits, and the sum of what was read. As in the course's program, a
   launch sets all of its kernel's arguments. No header of OpenCL or CUDA is needed: the driver's calls are function pointers. */
#include <stddef.h>

enum { LAUNCH, READ, WAIT, ADD_UP };

struct command {
    int kind;
    /* LAUNCH: a kernel, the bytes and the values of its arguments, its global size (on CUDA: of groups) and its local size */
    void *kernel;
    int arguments, dimensions;
    const size_t *bytes;
    void **values;
    size_t global[3], local[3];
    /* READ: so many bytes of a buffer to the host. ADD_UP: `count` sums at `to`; and so many numbers of cells, or NULL */
    void *buffer, *to;
    size_t count;
    const int *cells;
};

struct driver {
    int is_cuda;
    void *queue;
    int (*set_argument)(void *kernel, unsigned index, size_t bytes, const void *value);
    int (*enqueue)(void *queue, void *kernel, unsigned dimensions, const size_t *offset, const size_t *global,
                   const size_t *local, unsigned waits, const void *wait_list, void *event);
    int (*enqueue_read)(void *queue, void *buffer, unsigned blocking, size_t offset, size_t bytes, void *to, unsigned waits,
                        const void *wait_list, void *event);
    int (*finish)(void *queue);
    int (*launch)(void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                  void *stream, void **values, void **extra);
    int (*copy)(void *to, void *buffer, size_t bytes, void *stream);
};

static int launch(const struct driver *d, const struct command *c) {
    if (d->is_cuda)
        return d->launch(c->kernel, c->global[0], c->global[1], c->global[2], c->local[0], c->local[1], c->local[2], 0,
                         d->queue, c->values, NULL);
    int error = 0;
    for (int i = 0; i < c->arguments && !error; i++) error = d->set_argument(c->kernel, i, c->bytes[i], c->values[i]);
    return error ? error : d->enqueue(d->queue, c->kernel, c->dimensions, NULL, c->global, c->local, 0, NULL, NULL);
}

static int read(const struct driver *d, const struct command *c) {
    if (!d->is_cuda) return d->enqueue_read(d->queue, c->buffer, 1, 0, c->count, c->to, 0, NULL, NULL);
    const int error = d->copy(c->to, c->buffer, c->count, d->queue);
    return error ? error : d->finish(d->queue);
}

/* Mean speed of a step: the sum of its partial sums over the number of cells. */
static double mean(const struct command *c, double fluid_cells) {
    const float *sums = c->to;
    double sum = 0, cells = 0;
    for (size_t i = 0; i < c->count; i++) sum += sums[i];
    if (!c->cells) return sum / fluid_cells;
    for (size_t i = 0; i < c->count; i++) cells += c->cells[i];
    return sum / cells;
}

/* Repeats the commands of even and odd steps in turn. *step is the number of the step, which launches may take as an argument.
   Returns 0 or the driver's first error. */
int replay(const struct driver *d, const struct command *const commands[2], const int counts[2], int steps, int *step,
           double fluid_cells, double *speeds) {
    int error = 0;
    for (*step = 0; *step < steps && !error; ++*step) {
        for (int i = 0; i < counts[*step & 1] && !error; i++) {
            const struct command *c = &commands[*step & 1][i];
            switch (c->kind) {
            case LAUNCH: error = launch(d, c); break;
            case READ: error = read(d, c); break;
            case WAIT: error = d->finish(d->queue); break;
            default: speeds[*step] = mean(c, fluid_cells);
            }
        }
    }
    if (error) d->finish(d->queue); /* no command may be left running */
    return error;
}
