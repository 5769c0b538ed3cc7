// OpenCL's vector types, sums and roots, for CUDA: loads and stores of 8 or 16 bytes each. Prepended where one is used.
struct __align__(16) float8 { float4 lo, hi; };
struct __align__(16) float16 { float8 lo, hi; };
static __device__ __forceinline__ float native_rsqrt(float x) {
  float root;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(x));
  return root;
}
static __device__ __forceinline__ float2 operator+(float2 a, float2 b) { return {a.x + b.x, a.y + b.y}; }
static __device__ __forceinline__ float4 operator+(float4 a, float4 b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}
static __device__ __forceinline__ float8 operator+(float8 a, float8 b) { return {a.lo + b.lo, a.hi + b.hi}; }
static __device__ __forceinline__ float16 operator+(float16 a, float16 b) { return {a.lo + b.lo, a.hi + b.hi}; }
static __device__ __forceinline__ float2 native_rsqrt(float2 a) { return {native_rsqrt(a.x), native_rsqrt(a.y)}; }
static __device__ __forceinline__ float4 native_rsqrt(float4 a) {
  return {native_rsqrt(a.x), native_rsqrt(a.y), native_rsqrt(a.z), native_rsqrt(a.w)};
}
static __device__ __forceinline__ float8 native_rsqrt(float8 a) { return {native_rsqrt(a.lo), native_rsqrt(a.hi)}; }
static __device__ __forceinline__ float16 native_rsqrt(float16 a) {
  return {native_rsqrt(a.lo), native_rsqrt(a.hi)};
}

