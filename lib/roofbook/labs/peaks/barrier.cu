// Blocks that wait for each other, `rounds` times. In the first rounds each block also leaves a word for its neighbour and counts
// the words that it finds, which shows a barrier that lets a block through early.
//
// Knob OVER: GRID     all blocks of the device, by a counter in global memory
//            CLUSTER  the 8 blocks of a cluster, by Hopper's own barrier
//            RELAXED  the barrier of a cluster without ordering memory; the verified rounds have a separate fence
#ifndef OVER
#define OVER GRID
#endif
#define GRID 1
#define CLUSTER 2
#define RELAXED 3
#define WATCHED 64
#if OVER == CLUSTER
#define SHAPE __cluster_dims__(8, 1, 1)
#define MEET(arrivals, target) \
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
#elif OVER == RELAXED
#define SHAPE __cluster_dims__(8, 1, 1)
#define MEET(arrivals, target) \
  if (round < WATCHED) __threadfence(); \
  asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;" ::: "memory");
#else
#define SHAPE
#define MEET(arrivals, target) meet(arrivals, target);
DEVICE void meet(int *arrivals, int target) {
  __syncthreads();
  if (threadIdx.x == 0) {
    int seen;
    asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(arrivals) : "memory");
    do {
      asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(arrivals) : "memory");
    } while (seen < target);
  }
  __syncthreads();
}
#endif

// arrivals: 0 at first; words (2, block); right (block): number of words that were the neighbour's of the same round.
KERNEL_OF(256, 1) SHAPE void barrier(int *arrivals, int *words, int *right, int rounds) {
  const int block = blockIdx.x, blocks = gridDim.x;
  int found = 0;
  for (int round = 0; round < rounds; round++) {
    int *row = words + round % 2 * blocks;
    if (threadIdx.x == 0 && round < WATCHED) {
      __stcg(row + block, round + 1);
    }
    MEET(arrivals, (round + 1) * blocks)
    if (threadIdx.x == 0 && round < WATCHED) {
      found += __ldcg(row + (block + 1) % blocks) == round + 1;
    }
  }
  if (threadIdx.x == 0) {
    right[block] = found;
  }
}
