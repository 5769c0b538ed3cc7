// Words of dialect/subgroups.h in CUDA C++, where a subgroup is a warp: for groups of whole warps on one or two axes. Prepended
// where SUBGROUP_SUM is used.
static __device__ __forceinline__ int subgroup_place() { return threadIdx.y * blockDim.x + threadIdx.x; }
static __device__ __forceinline__ int subgroup_lane() { return subgroup_place() % 32; }
static __device__ __forceinline__ int subgroup_number() { return subgroup_place() / 32; }
static __device__ __forceinline__ int subgroup_count() { return blockDim.x * blockDim.y / 32; }
static __device__ __forceinline__ float subgroup_sum(float value) {
#pragma unroll
  for (int reach = 16; reach > 0; reach /= 2) value += __shfl_xor_sync(0xffffffff, value, reach);
  return value;
}
