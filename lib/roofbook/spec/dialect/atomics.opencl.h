// OpenCL has atomics of integers only: add to a float by comparing and exchanging. Prepended where ATOMIC_ADD is used.
static void atomic_add_float(__global float *pointer, float value) {
  int seen = as_int(*pointer), expected;
  do {
    expected = seen;
    seen = atomic_cmpxchg((volatile __global int *)pointer, expected, as_int(as_float(expected) + value));
  } while (seen != expected);
}

