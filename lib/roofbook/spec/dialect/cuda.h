// The kernel language of this project, on CUDA C++. One macro a line; dialect/opencl.h has the same names.
#define KERNEL extern "C" __global__
#define DEVICE static __device__ __forceinline__
#define GLOBAL
#define LOCAL
#define LOCAL_ARRAY(type, name, n) __shared__ type name[n]
#define RESTRICT __restrict__
#define BARRIER() __syncthreads()
#define DIMENSION_0 x
#define DIMENSION_1 y
#define DIMENSION_2 z
#define PASTE(a, b) a##b
#define DIMENSION(d) PASTE(DIMENSION_, d)
#define GLOBAL_ID(d) ((int)(blockIdx.DIMENSION(d) * blockDim.DIMENSION(d) + threadIdx.DIMENSION(d)))
#define LOCAL_ID(d) ((int)threadIdx.DIMENSION(d))
#define GROUP_ID(d) ((int)blockIdx.DIMENSION(d))
#define GLOBAL_SIZE(d) ((int)(gridDim.DIMENSION(d) * blockDim.DIMENSION(d)))
#define LOCAL_SIZE(d) ((int)blockDim.DIMENSION(d))
#define GROUPS(d) ((int)gridDim.DIMENSION(d))
#define FMA(a, b, c) fmaf(a, b, c)
#define SQRT(x) sqrtf(x)
#define SELECT(otherwise, then, condition) ((condition) ? (then) : (otherwise))
#define FLOAT4(a, b, c, d) make_float4(a, b, c, d)
#define HALF unsigned short
#define LOAD_HALF(pointer, i) half_to_float((pointer)[i])
#define STORE_HALF(pointer, i, value) ((pointer)[i] = float_to_half(value))
#define RSQRT(x) rsqrtf(x)
#define NATIVE_RSQRT(x) native_rsqrt(x)
#define NATIVE_RECIPROCAL(x) native_reciprocal(x)
#define NATIVE_SQRT(x) native_sqrt(x)
#define ANY_OF_WARP(condition) __any_sync(0xffffffff, condition)
#define MAX(a, b) fmaxf(a, b)
#define CONSTANT const
#define ALIGNED(bytes) __align__(bytes)
#define KERNEL_OF(work_items, groups) extern "C" __global__ __launch_bounds__(work_items, groups)
#define ATOMIC_MAX(pointer, value) atomicMax(pointer, value)
#define ATOMIC_ADD(pointer, value) atomicAdd(pointer, value)
#define CONSTANT_ARRAY(type, name, n) __constant__ type name[n];
#define CONSTANT_ARGUMENT(type, name)
#define IMAGE cudaTextureObject_t
#define READ_IMAGE(image, column, row) ((int)tex2D<short>(image, column, row))
#define LINE_IMAGE cudaTextureObject_t
#define READ_LINE(image, i) ((int)tex1Dfetch<short>(image, i))
#define ATOMIC_INCREMENT(pointer) atomicAdd(pointer, 1)
#define WARP_BARRIER() __syncwarp()
#define FOUR_BYTES(low, high, shift) __funnelshift_r(low, high, shift)
#define ADD_BYTE_PRODUCT(sum, word, k, value) (sum) = __dp4a((int)(word), ((value) & 255) << 8 * (k), sum)
