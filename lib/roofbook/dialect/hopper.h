// What Hopper has and C++ does not: barriers in shared memory, the tensor copy engine, warpgroup matrix products.
#pragma once
#ifndef BARRIERS
#define BARRIERS FENCING
#endif
#define FENCING 1
#define RELAXED 2
#define STRING(x) #x
#define TEXT(x) STRING(x)

DEVICE unsigned address(const void *shared) { return (unsigned)__cvta_generic_to_shared(shared); }

DEVICE void init_barrier(unsigned long long *barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(barrier)), "r"(arrivals) : "memory");
}

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

// Fetches a box of a tensor; in a cluster for all its blocks that `blocks` has a bit for.
DEVICE void copy_box_3d(void *to, const void *map, unsigned long long *barrier, int x, int y, int z, int blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes" MULTICAST
      " [%0], [%1, {%3, %4, %5}], [%2]" MASK(6) ";" ::"r"(address(to)),
      "l"(map), "r"(address(barrier)), "r"(x), "r"(y), "r"(z), "h"((unsigned short)blocks) : "memory");
}

DEVICE void copy_box_4d(void *to, const void *map, unsigned long long *barrier, int x, int y, int z, int w, int blocks) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes" MULTICAST
      " [%0], [%1, {%3, %4, %5, %6}], [%2]" MASK(7) ";" ::"r"(address(to)),
      "l"(map), "r"(address(barrier)), "r"(x), "r"(y), "r"(z), "r"(w), "h"((unsigned short)blocks) : "memory");
}

// A tile in shared memory: lines of 128 bytes, swizzled; eight lie one after the other, the next eight `stride` bytes further.
DEVICE unsigned long long tile_at(const void *shared, int stride = 1024) {
  return (unsigned long long)((address(shared) & 0x3FFFF) >> 4) | 1ull << 16 | (stride / 16ull) << 32 | 1ull << 62;
}

DEVICE void matrix_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void matrix_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
DEVICE void matrix_wait_all() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
DEVICE void matrix_wait_but_one() { asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); }

#define F4(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define F16(i) F4(i), F4(i + 4), F4(i + 8), F4(i + 12)

// c (64 x 256, fp32, spread over a warpgroup) += a (64 x 16) b (256 x 16) transposed; a and b lie in shared memory.
DEVICE void matrix_product(float (&c)[128], unsigned long long a, unsigned long long b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n256k16.f32." TEXT(ELEMENT) "." TEXT(ELEMENT) "{"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,"
      "%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,"
      "%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,"
      "%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, %128, %129, 1, 1, 1, 0, 0;"
      : F16(0), F16(16), F16(32), F16(48), F16(64), F16(80), F16(96), F16(112)
      : "l"(a), "l"(b));
}
