// The kernel language of this project, on C for one thread: the words of a kernel of one work-item. dialect/opencl.h has all.
#define KERNEL
#define DEVICE static inline
#define GLOBAL
#define RESTRICT restrict
#define SQRT(x) sqrtf(x)
#define MAX(a, b) ((a) > (b) ? (a) : (b))
