// Instructions of x86 CPUs with AVX-512 for which OpenCL C has no word, as assembly within the text: PoCL's compiler takes them
// whatever CPU it compiles for, if that has AVX-512. A vector is an int16, whatever it holds; lane k is its k-th word of 4 bytes.
#pragma once

typedef int16 unaligned_vector __attribute__((aligned(1)));
#define VECTOR_AT(pointer) (*(GLOBAL const unaligned_vector *)(pointer))

// sums (int32) += the products of four bytes a lane, the first without a sign and the second with one (AVX-512 VNNI)
#define ADD_DOTS_OF_BYTES(sums, bytes, signed_bytes) \
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(bytes), "v"(signed_bytes))
// sums (fp32, as a float16) += the products of two bf16 a lane (AVX-512 BF16)
#define ADD_DOTS_OF_BF16(sums, pairs, other_pairs) \
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(sums) : "v"(pairs), "v"(other_pairs))
// Takes bytes or words of 2 bytes from both vectors in turn: the low or the high 8 bytes of each 16 (AVX-512 BW).
#define INTERLEAVE(instruction, result, a, b) __asm__(instruction " %2, %1, %0" : "=v"(result) : "v"(a), "v"(b))
#define LOW_BYTES "vpunpcklbw"
#define HIGH_BYTES "vpunpckhbw"
#define LOW_PAIRS "vpunpcklwd"
#define HIGH_PAIRS "vpunpckhwd"
// mask = one bit a lane, for those that are not zero
#define NOT_ZERO(mask, lanes) __asm__("vptestmd %1, %1, %0" : "=Yk"(mask) : "v"(lanes))
// Moves the lanes of a mask to the front, in order, and sets the others to zero.
#define TO_THE_FRONT(result, mask, lanes) \
  __asm__("vpcompressd %1, %0%{%2%}%{z%}" : "=v"(result) : "v"(lanes), "Yk"(mask))
