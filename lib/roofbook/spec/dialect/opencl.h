// The kernel language of this project, on OpenCL C. One macro a line; dialect/cuda.h has the same names.
#define KERNEL __kernel
#define DEVICE
#define GLOBAL __global
#define LOCAL __local
#define LOCAL_ARRAY(type, name, n) __local type name[n]
#define RESTRICT restrict
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define GLOBAL_ID(d) ((int)get_global_id(d))
#define LOCAL_ID(d) ((int)get_local_id(d))
#define GROUP_ID(d) ((int)get_group_id(d))
#define GLOBAL_SIZE(d) ((int)get_global_size(d))
#define LOCAL_SIZE(d) ((int)get_local_size(d))
#define GROUPS(d) ((int)get_num_groups(d))
#define FMA(a, b, c) fma(a, b, c)
#define SQRT(x) sqrt(x)
#define SELECT(otherwise, then, condition) ((condition) ? (then) : (otherwise))
#define FLOAT4(a, b, c, d) ((float4)(a, b, c, d))
#define HALF half
#define LOAD_HALF(pointer, i) vload_half(i, pointer)
#define STORE_HALF(pointer, i, value) vstore_half_rte(value, i, pointer)
#define RSQRT(x) rsqrt(x)
#define NATIVE_RSQRT(x) native_rsqrt(x)
#define NATIVE_RECIPROCAL(x) native_recip(x)
#define NATIVE_SQRT(x) native_sqrt(x)
#define ANY_OF_WARP(condition) (condition)
#define MAX(a, b) fmax(a, b)
#define CONSTANT __constant
#define ALIGNED(bytes) __attribute__((aligned(bytes)))
#define KERNEL_OF(work_items, groups) __kernel __attribute__((reqd_work_group_size(work_items, 1, 1)))
#define ATOMIC_MAX(pointer, value) atomic_max(pointer, value)
#define ATOMIC_ADD(pointer, value) atomic_add_float(pointer, value)
#define CONSTANT_ARRAY(type, name, n)
#define CONSTANT_ARGUMENT(type, name) , __constant const type *name
#define IMAGE __read_only image2d_t
#define READ_IMAGE(image, column, row) (read_imagei(image, (int2)(column, row)).x)
#define LINE_IMAGE __read_only image1d_buffer_t
#define READ_LINE(image, i) (read_imagei(image, i).x)
#define ATOMIC_INCREMENT(pointer) atomic_inc(pointer)
#define WARP_BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define FOUR_BYTES(low, high, shift) ((unsigned int)(((ulong)(high) << 32 | (low)) >> (shift)))
#define ADD_BYTE_PRODUCT(sum, word, k, value) (sum) += ((int)((word) << 24 - 8 * (k)) >> 24) * (value)
