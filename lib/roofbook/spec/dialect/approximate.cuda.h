// Reciprocals and roots by the hardware's tables alone, as OpenCL's native functions. Prepended where one is used.
static __device__ __forceinline__ float native_reciprocal(float x) {
  float reciprocal;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(x));
  return reciprocal;
}
static __device__ __forceinline__ float native_sqrt(float x) {
  float root;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(x));
  return root;
}

