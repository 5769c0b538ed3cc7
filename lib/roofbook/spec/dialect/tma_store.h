// What leaves shared memory by TMA: boxes of a tensor, which it writes to memory by itself while threads go on. Numbers are those of
// the sections of PTX ISA 8.8. What is written to shared memory before is published to TMA (fence.proxy.async) by who wrote it.
#pragma once
#include "hopper.h"

// Writes the box at `from`, whose rows lie side by side there, to the tensor `map` from these coordinates on, innermost first; what
// lies outside of the tensor is dropped (9.7.9.25.5.2, cp.async.bulk.tensor). Counts as one store of the thread that asks.
DEVICE void tma_store_4d(const void *map, const void *from, int x, int y, int z, int w) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::"l"(map), "r"(x), "r"(y),
               "r"(z), "r"(w), "r"(address(from)) : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Until the stores that this thread asked for have read shared memory, which may then be written again.
DEVICE void wait_for_stores() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
