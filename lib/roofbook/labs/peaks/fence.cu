// Threads that order their accesses to memory for all threads of the device, `rounds` times. In the first rounds a thread of each block
// writes a word, and after the fence a second one: a reader that finds the second must find the first.
#define WATCHED 64
#define FENCE asm volatile("fence.acq_rel.gpu;" ::: "memory");

// words (2, block); right (block): number of rounds in which the neighbour's first word was as new as its second. arrivals: not used.
KERNEL_OF(256, 1) void fence(int *arrivals, int *words, int *right, int rounds) {
  const int block = blockIdx.x, blocks = gridDim.x, neighbour = (block + 1) % blocks;
  int found = 0;
  for (int round = 0; round < rounds; round++) {
    const bool watched = threadIdx.x == 0 && round < WATCHED;
    if (watched) {
      __stcg(words + block, round + 1);
    }
    FENCE
    if (watched) {
      __stcg(words + blocks + block, round + 1);
      const int second = __ldcg(words + blocks + neighbour);
      FENCE
      found += __ldcg(words + neighbour) >= second;
    }
  }
  if (threadIdx.x == 0) {
    right[block] = found;
  }
}
