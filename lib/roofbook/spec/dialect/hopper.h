// What Hopper has and C++ does not: barriers in shared memory that count bytes (mbarrier), the tensor memory accelerator (TMA),
// which fetches boxes of a tensor to shared memory by itself, and the matrix products of a warpgroup (wgmma). Numbers are
// those of the sections of PTX ISA 8.8. A kernel in which one box goes to several blocks of a cluster sets MULTICAST to 1 before.
//
// Knob BARRIERS: FENCING  what a thread read and wrote comes before its arrival, for the cluster: a fence of the whole chip
//                RELAXED  no order but the barrier's own: enough where TMA writes and matrix units read
#pragma once
#ifndef BARRIERS
#define BARRIERS FENCING
#endif
#ifndef MULTICAST
#define MULTICAST 0
#endif
#define FENCING 1
#define RELAXED 2
#define STRING(x) #x
#define TEXT(x) STRING(x)
#if MULTICAST
#define TO_BLOCKS ".multicast::cluster"
#define BLOCKS_OPERAND(operand) ", %" #operand
#else
#define TO_BLOCKS ""
#define BLOCKS_OPERAND(operand) ""
#endif
#define FEWER_REGISTERS(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 " #n ";")
#define MORE_REGISTERS(n) asm volatile("setmaxnreg.inc.sync.aligned.u32 " #n ";")

DEVICE unsigned address(const void *shared) { return (unsigned)__cvta_generic_to_shared(shared); }

// Barriers in shared memory: 9.7.13.15, Parallel Synchronization and Communication Instructions: mbarrier.
DEVICE void init_barrier(unsigned long long *barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(barrier)), "r"(arrivals) : "memory");
}

// Of a ring of stages: full[s] waits for one arrival and the bytes that it announces, empty[s] for `readers` that are done.
#define INIT_RING(full, empty, stages, readers) \
  for (int stage = 0; stage < stages; stage++) { \
    init_barrier(&full[stage], 1); \
    init_barrier(&empty[stage], readers); \
  }

// For the thread that initialised them: makes barriers known to TMA and to the cluster, before the block or it is waited for.
DEVICE void publish_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

DEVICE void expect_bytes(unsigned long long *barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(barrier)), "r"(bytes) : "memory");
}

#if BARRIERS == RELAXED
// Arrives at the barrier at the same place in the shared memory of block `rank` of the cluster.
DEVICE void arrive_at(unsigned long long *barrier, int rank) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [remote];\n\t}" ::"r"(address(barrier)), "r"(rank) : "memory");
}

DEVICE void wait_for(unsigned long long *barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n\t}" ::"r"(address(barrier)), "r"(parity) : "memory");
}
#else
// Arrives at the barrier at the same place in the shared memory of block `rank` of the cluster.
DEVICE void arrive_at(unsigned long long *barrier, int rank) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n\t}" ::"r"(address(barrier)), "r"(rank) : "memory");
}

DEVICE void wait_for(unsigned long long *barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n\t}" ::"r"(address(barrier)), "r"(parity) : "memory");
}
#endif

DEVICE void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

DEVICE int rank_in_cluster() {
  int rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// TMA, by cp.async.bulk.tensor: fetches the box of the tensor `map` that begins at these coordinates, innermost first, and counts
// its bytes at the barrier; in a cluster for all its blocks that `blocks` has a bit for, to the same place in each.
DEVICE void tma_load_3d(void *to, const void *map, unsigned long long *barrier, int x, int y, int z, int blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes" TO_BLOCKS
      " [%0], [%1, {%3, %4, %5}], [%2]" BLOCKS_OPERAND(6) ";" ::"r"(address(to)),
      "l"(map), "r"(address(barrier)), "r"(x), "r"(y), "r"(z), "h"((unsigned short)blocks) : "memory");
}

DEVICE void tma_load_4d(void *to, const void *map, unsigned long long *barrier, int x, int y, int z, int w, int blocks) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes" TO_BLOCKS
      " [%0], [%1, {%3, %4, %5, %6}], [%2]" BLOCKS_OPERAND(7) ";" ::"r"(address(to)),
      "l"(map), "r"(address(barrier)), "r"(x), "r"(y), "r"(z), "r"(w), "h"((unsigned short)blocks) : "memory");
}

// The same of bytes that lie side by side, by cp.async.bulk; nothing is swizzled.
DEVICE void tma_load_bytes(void *to, const void *from, int bytes, unsigned long long *barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(address(to)),
               "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(address(barrier)) : "memory");
}

// An operand of wgmma in shared memory, with 128-byte swizzle: lines of 128 bytes, a line a row of the matrix. Eight lines make a
// block of 1024 bytes, in which the piece p of 16 bytes of line l lies at place p ^ l % 8, so that one column of pieces is spread
// over all banks:
//
//   line 0 |0|1|2|3|4|5|6|7|
//   line 1 |1|0|3|2|5|4|7|6|   the block repeats every `stride` bytes: 1024 where tiles have no gaps
//   line 2 |2|3|0|1|6|7|4|5|
//   ...
//   line 7 |7|6|5|4|3|2|1|0|
//
// TMA writes it so, and wgmma undoes it by bits 7 to 9 of the address, wherever in a block a tile may begin.
#define SWIZZLE_BLOCK 1024
#define PIECE_BYTES 16

// Where in its line a byte lies.
DEVICE int swizzled_128b(int line, int byte) {
  return (byte / PIECE_BYTES ^ line % 8) * PIECE_BYTES + byte % PIECE_BYTES;
}

DEVICE char *aligned_for_swizzle(char *shared) {
  return (char *)(((unsigned long long)shared + SWIZZLE_BLOCK - 1) / SWIZZLE_BLOCK * SWIZZLE_BLOCK);
}

// What tells wgmma where an operand is: 9.7.15.5.1.2.2, Matrix Descriptor Format. Lengths are in units of 16 bytes.
//
//    63  62 | 61  52 | 51     49 | 48  46 | 45     32 | 31 30 | 29      16 | 15 14 | 13      0
//   swizzle |        | pattern's |        |  stride   |       |  leading   |       |  start
//    mode   |        | offset, 0 |        |           |       | (not used) |       | address
#define START_ADDRESS_BIT 0
#define LEADING_BIT 16
#define STRIDE_BIT 32
#define SWIZZLE_BIT 62
#define SWIZZLE_128B 1ull

DEVICE unsigned long long descriptor(const void *shared, int stride = SWIZZLE_BLOCK) {
  const unsigned start = (unsigned)__cvta_generic_to_shared(shared);
  return (unsigned long long)((start & 0x3FFFF) >> 4) << START_ADDRESS_BIT | 1ull << LEADING_BIT |
         (stride / 16ull) << STRIDE_BIT | SWIZZLE_128B << SWIZZLE_BIT;
}

// The descriptor of the k-th 32 bytes of each line, which is what one wgmma multiplies: 16 values of 2 bytes, or 32 of one.
DEVICE unsigned long long along_lines(unsigned long long descriptor, int k) { return descriptor + 32 / 16 * k; }

DEVICE void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_wait_all() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
DEVICE void wgmma_wait_but_one() { asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); }

// The sums c of a wgmma, 64 rows by N columns, in the registers of the 128 threads of a warpgroup, of which thread t has
// (9.7.15.5.1.1, Register Fragments), with lane = t % 32:
//
//                                column 8 j + lane % 4 * 2         the next column
//   row t / 32 * 16 + lane / 4   c[4 j]                            c[4 j + 1]
//   eight rows further down      c[4 j + 2]                        c[4 j + 3]
#define SUM_ROW(first, thread) (first + thread / 32 * 16 + thread % 32 / 4)
#define SUMS_4(kept, i) kept(c[i]), kept(c[i + 1]), kept(c[i + 2]), kept(c[i + 3])
#define SUMS_16(kept, i) SUMS_4(kept, i), SUMS_4(kept, i + 4), SUMS_4(kept, i + 8), SUMS_4(kept, i + 12)
#define IN_FLOATS(x) "+f"(x)
#define IN_INTS(x) "+r"(x)
