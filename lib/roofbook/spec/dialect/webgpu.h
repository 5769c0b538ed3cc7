// The kernel language of this project, on the C that spec/wgsl translates to WGSL. Qualifiers that no kernel uses stand for words
// that C lacks: _Noreturn marks a kernel, volatile global memory, _Atomic local memory. dialect/opencl.h has the same names.
#define KERNEL _Noreturn
#define DEVICE inline
#define GLOBAL volatile
#define LOCAL _Atomic
#define LOCAL_ARRAY(type, name, n) _Atomic type name[n]
#define RESTRICT restrict
#define BARRIER() barrier()
#define GLOBAL_ID(d) global_id(d)
#define LOCAL_ID(d) local_id(d)
#define GROUP_ID(d) group_id(d)
#define GLOBAL_SIZE(d) global_size(d)
#define LOCAL_SIZE(d) local_size(d)
#define GROUPS(d) groups(d)
#define FMA(a, b, c) fma(a, b, c)
#define SQRT(x) sqrt(x)
#define SELECT(otherwise, then, condition) ((condition) ? (then) : (otherwise))
#define FLOAT4(a, b, c, d) float4_of(a, b, c, d)
#define HALF half
#define LOAD_HALF(pointer, i) load_half(pointer, i)
#define STORE_HALF(pointer, i, value) store_half(pointer, i, value)
#define RSQRT(x) rsqrt(x)
#define NATIVE_RSQRT(x) rsqrt(x)
#define NATIVE_RECIPROCAL(x) (1.0f / (x))
#define NATIVE_SQRT(x) sqrt(x)
#define ANY_OF_WARP(condition) (condition)
#define MAX(a, b) max(a, b)
#define ALIGNED(bytes)
#define KERNEL_OF(work_items, groups) _Noreturn
#define ATOMIC_MAX(pointer, value) atomic_max(pointer, value)
#define ATOMIC_ADD(pointer, value) atomic_add(pointer, value)
#define ATOMIC_INCREMENT(pointer) atomic_add(pointer, 1)
#define WARP_BARRIER() barrier()
#define CONSTANT constant_memory
#define CONSTANT_ARRAY(type, name, n)
#define CONSTANT_ARGUMENT(type, name) , volatile const type *name
#define IMAGE image_of_shorts
#define READ_IMAGE(image, column, row) read_image(image, column, row)
#define LINE_IMAGE image_of_shorts
#define READ_LINE(image, i) read_image(image, i)
#define FOUR_BYTES(low, high, shift) four_bytes(low, high, shift)
#define ADD_BYTE_PRODUCT(sum, word, k, value) (sum) += ((int)((word) << 24 - 8 * (k)) >> 24) * (value)
