// The kernel language of this project for the backend of the tests: kernels that NumPy runs, by their names.
#define KERNEL kernel
#define GLOBAL
#define RESTRICT
#define GLOBAL_ID(d) id[d]
#define FMA(a, b, c) ((a) * (b) + (c))
