// The convolution, ReLU and pool on tensor cores: operands rounded to fp16, sums in fp32. A block takes one image after another. The
// weights stay in registers, in the order of the tensor cores; an image is in shared memory once, and nothing is unrolled.
#include "layer.h"
#include "half_products.h"
#include "mma.h"
#define ITEMS 128
#define WARPS (ITEMS / 32)
#define AT_ONCE 2

DEVICE void product(float (&c)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

DEVICE float larger_of_lanes(float value, int apart) {
  return fmaxf(value, __shfl_xor_sync(0xffffffff, value, apart));
}

#if CHANNELS == 1
#include "tensor_one_channel.inc"
#else
#include "tensor_four_channels.inc"
#endif
