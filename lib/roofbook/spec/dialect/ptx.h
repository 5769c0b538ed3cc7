// Instructions of NVIDIA's GPUs for which neither language of this project has a word, as PTX within the text. CUDA C++ and NVIDIA's
// OpenCL C both take it; architectures from 8.0 on have all of them. Names in brackets are those of the sections of PTX ISA 8.8.
//
// A warp's product takes operands as mma.h pictures them: A is 16 rows by eight words of 4 bytes, B eight columns by eight words.
#pragma once

// Returns the address of local memory as instructions take it: 4 bytes (cvta).
DEVICE unsigned int local_address(LOCAL const void *pointer) {
  unsigned int address;
  asm("{ .reg .u64 whole; cvta.to.shared.u64 whole, %1; cvt.u32.u64 %0, whole; }" : "=r"(address) : "l"(pointer));
  return address;
}

// Starts to copy 16 bytes to local memory, past the registers (cp.async).
#define COPY_16(address, pointer) \
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(pointer) : "memory")
// Ends a batch of copies (cp.async.commit_group).
#define END_BATCH() asm volatile("cp.async.commit_group;" ::: "memory")
// Waits until at most `count` of the last batches of this work-item are not finished (cp.async.wait_group).
#define WAIT_FOR_BATCHES(count) asm volatile("cp.async.wait_group %0;" ::"n"(count) : "memory")
// Loads four matrices of eight lines by 16 bytes: lane k gives the address of line k % 8 of matrix k / 8, and gets of each matrix
// word k % 4 of line k / 4 (ldmatrix).
#define LOAD_MATRICES(w0, w1, w2, w3, address) \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" \
               : "=r"(w0), "=r"(w1), "=r"(w2), "=r"(w3) \
               : "r"(address) \
               : "memory")
// c (16 x 8, fp32) += A B (mma, with the shape and types of MMA_TYPES)
#define ADD_PRODUCT(types, c, a, b0, b1) \
  asm("mma.sync.aligned." types " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3]) \
      : "r"((a).x), "r"((a).y), "r"((a).z), "r"((a).w), "r"(b0), "r"(b1))
// c = A B
#define PRODUCT(types, c, a, b0, b1) \
  asm("mma.sync.aligned." types " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};" \
      : "=f"((c)[0]), "=f"((c)[1]), "=f"((c)[2]), "=f"((c)[3]) \
      : "r"((a).x), "r"((a).y), "r"((a).z), "r"((a).w), "r"(b0), "r"(b1), "f"(0.0f))
// c (16 x 8, int32) += A B, of signed bytes
#define ADD_PRODUCT_OF_BYTES(c, a, b0, b1) \
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+r"((c)[0]), "+r"((c)[1]), "+r"((c)[2]), "+r"((c)[3]) \
      : "r"((a).x), "r"((a).y), "r"((a).z), "r"((a).w), "r"(b0), "r"(b1))
