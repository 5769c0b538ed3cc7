// The map of a tensor, by which TMA knows where its boxes are. The host copies it to global memory. TMA reads it there through a proxy of
// its own, for which the start of a kernel is no synchronization: it "is not acquired from generic-proxy at CUDA Kernel start and
// must therefore be acquired explicitly using fence.proxy.tensormap::generic.acquire when needed" (PTX ISA, Memory Consistency Model).
#pragma once

// Makes a map known to TMA, for boxes that this thread asks for afterwards. The scope is the system, whose host wrote the map.
DEVICE void acquire_map(const void *map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.sys [%0], 128;" ::"l"(map) : "memory");
}
