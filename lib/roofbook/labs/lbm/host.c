/* The host in C: loops that enqueue an already built kernel, to compare a Python host with a C host. No OpenCL or CUDA
   header is needed: the calls are function pointers. Both loops return 0, or the first error code of the driver. */
#include <stddef.h>

typedef int (*Enqueue)(void *queue, void *kernel, unsigned dims, const size_t *offset, const size_t *global,
                       const size_t *local, unsigned waits, const void *wait_list, void *event);
typedef int (*SetArg)(void *kernel, unsigned index, size_t size, const void *value);
typedef int (*Finish)(void *queue);

/* kernels[0] runs the even steps, kernels[1] the odd ones; step_arg_index is the argument that takes the step's
   number, or -1. `local` may be NULL. */
int opencl_loop(void *enqueue_fn, void *setarg_fn, void *finish_fn, void *queue, void **kernels, int step_arg_index,
                int dims, const size_t *global, const size_t *local, int first_step, int steps) {
    const Enqueue enqueue = (Enqueue)enqueue_fn;
    const SetArg set_arg = (SetArg)setarg_fn;
    int error = 0;
    for (int s = first_step; s < first_step + steps && !error; s++) {
        void *kernel = kernels[s & 1];
        if (step_arg_index >= 0) error = set_arg(kernel, step_arg_index, sizeof s, &s);
        if (!error) error = enqueue(queue, kernel, dims, NULL, global, local, 0, NULL, NULL);
    }
    const int finished = ((Finish)finish_fn)(queue); /* also after an error: no command may be left running */
    return error ? error : finished;
}

typedef int (*Launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, void *stream, void **params, void **extra);
typedef int (*Synchronize)(void *stream);

/* functions[0] and params_even for even steps, the others for odd ones; the step's number is written to *step_slot
   (NULL: none), to which an entry of the params points. */
int cuda_loop(void *launch_fn, void *sync_fn, void *stream, void **functions, const unsigned grid[3],
              const unsigned block[3], unsigned shared, void **params_even, void **params_odd, int *step_slot,
              int first_step, int steps) {
    const Launch launch = (Launch)launch_fn;
    int error = 0;
    for (int s = first_step; s < first_step + steps && !error; s++) {
        if (step_slot) *step_slot = s;
        error = launch(functions[s & 1], grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, stream,
                       s & 1 ? params_odd : params_even, NULL);
    }
    const int finished = ((Synchronize)sync_fn)(stream);
    return error ? error : finished;
}
