// Words of 16 bytes that the groups of one launch send each other through global memory, by PTX: CUDA C++ and NVIDIA's OpenCL C both
// take it, and architectures from 7.0 on have it. Names in brackets are those of the sections of PTX ISA 8.8.
//
//   byte   0     4     8     12
//          a     b     c     tag     three floats, and the number of the exchange; 0 before the first
//
// A word is written and read in one piece, so a reader that sees the tag has the floats: no flag, and no fence. Only groups that run
// at once may wait for each other. OpenCL does not promise that they do, so they are counted before the first exchange.
#pragma once
// Sends a word (st.relaxed, at the scope of the GPU).
DEVICE void send_word(GLOBAL uint4 *word, float a, float b, float c, unsigned int tag) {
  asm volatile("{ .reg .b64 low, high; .reg .b128 all; mov.b64 low, {%1, %2}; mov.b64 high, {%3, %4}; "
               "mov.b128 all, {low, high}; st.relaxed.gpu.global.b128 [%0], all; }" ::"l"(word), "f"(a), "f"(b), "f"(c), "r"(tag)
               : "memory");
}

// Returns the tag of a word as it is now, and the three floats that belong to it (ld.relaxed).
DEVICE unsigned int look_at_word(GLOBAL const uint4 *word, float *a, float *b, float *c) {
  unsigned int tag;
  asm volatile("{ .reg .b64 low, high; .reg .b128 all; ld.relaxed.gpu.global.b128 all, [%4]; "
               "mov.b128 {low, high}, all; mov.b64 {%0, %1}, low; mov.b64 {%2, %3}, high; }"
               : "=f"(*a), "=f"(*b), "=f"(*c), "=r"(tag) : "l"(word) : "memory");
  return tag;
}

// Returns whether all groups of a launch run at once, on which all agree. A work-item of each group calls it. `begun` counts the groups
// of all launches so far, `all` with those of this one (atom.add, ld.relaxed). A group that has waited long enough replaces it for good
// by a negative number, unless the count has changed meanwhile (atom.cas). A group that can run has begun long before.
DEVICE bool have_all_begun(GLOBAL int *begun, int all) {
  const int patience = 1 << 20, missing = -(1 << 30); /* looks, about a second; the negative number */
  int before, count;
  asm volatile("atom.relaxed.gpu.global.add.s32 %0, [%1], 1;" : "=r"(before) : "l"(begun) : "memory");
  count = before + 1;
  for (int looks = 0; count >= 0 && count < all; looks++) {
    if (looks < patience) {
      asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(count) : "l"(begun) : "memory");
    } else {
      asm volatile("atom.relaxed.gpu.global.cas.b32 %0, [%1], %2, %3;"
                   : "=r"(before) : "l"(begun), "r"(count), "r"(missing) : "memory");
      count = before == count ? missing : before;
    }
  }
  return count >= 0;
}

// Returns the sum of a float over the 32 lanes of a warp, for each of them (shfl.sync).
DEVICE float sum_of_warp(float value) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    float other;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(other) : "f"(value), "r"(apart));
    value += other;
  }
  return value;
}
