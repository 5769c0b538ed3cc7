// All passes in one launch, by TMA. The inner rows are one long range of COUNT elements, cut into pieces of PIECE. Blocks take turns with
// the pieces, as many blocks as the chip holds at once. Each has a ring of STAGES stages in shared memory:
//
//   stage  |r: PIECE floats|b: PIECE floats|g: PIECE floats|
//
//   1. One thread orders the three parts of a piece, STAGES pieces ahead. A barrier in shared memory counts the bytes that have come.
//   2. All threads add the roots to g in shared memory.
//   3. The thread orders the copy of g back to memory. When the copy of the piece before has left shared memory, its stage is free, and
//      the thread orders the next piece.
//
// So memory gets long runs of reads and long runs of writes. What is on its way needs no registers.
//
// Knob WIDTH:  columns of the grid, a multiple of four: TMA copies multiples of 16 bytes
// Knob COUNT:  elements of the inner rows
// Knob PASSES: iterations. r and b do not change, so the root is taken once and added PASSES times, in order
#include "hopper.h"
#define THREADS 256
#define PIECE 2048
#define STAGES 4
#define BLOCKS_AT_ONCE 2 /* blocks of a multiprocessor, which have its shared memory between them */
#define STAGE_FLOATS (3 * PIECE)
#define PIECES ((COUNT + PIECE - 1) / PIECE)

// Orders the copy of bytes that lie side by side, from shared memory to memory (PTX ISA 9.7.9.25.4.1, cp.async.bulk).
DEVICE void store_bytes(float *to, const float *from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(to)), "r"(address(from)),
               "r"(bytes) : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Orders the three parts of a piece into a stage.
DEVICE void fetch(int piece, float *stage, unsigned long long *full, const float *r, const float *b, const float *g) {
  const int k = piece * PIECE, bytes = 4 * min(PIECE, COUNT - k);
  expect_bytes(full, 3 * bytes);
  tma_load_bytes(stage, r + k, bytes, full);
  tma_load_bytes(stage + PIECE, b + k + 2 * WIDTH, bytes, full);
  tma_load_bytes(stage + 2 * PIECE, g + k + WIDTH, bytes, full);
}

DEVICE void add(float &sum, float root) {
#pragma unroll
  for (int pass = 0; pass < PASSES; pass++) sum += root;
}

KERNEL_OF(THREADS, BLOCKS_AT_ONCE) void bulk(const float *RESTRICT r, const float *RESTRICT b, float *g) {
  extern __shared__ __align__(128) float stages[];
  __shared__ unsigned long long full[STAGES];
  const int first = blockIdx.x, turns = (PIECES - first + gridDim.x - 1) / gridDim.x;
  const bool orders = threadIdx.x == 0;
  if (orders) {
    for (int stage = 0; stage < STAGES; stage++) init_barrier(&full[stage], 1);
    publish_barriers();
    for (int turn = 0; turn < min(STAGES, turns); turn++) {
      fetch(first + turn * gridDim.x, stages + turn * STAGE_FLOATS, &full[turn], r, b, g);
    }
  }
  __syncthreads();
  for (int turn = 0; turn < turns; turn++) {
    const int piece = first + turn * gridDim.x, k = piece * PIECE, count = min(PIECE, COUNT - k);
    float *stage = stages + turn % STAGES * STAGE_FLOATS;
    wait_for(&full[turn % STAGES], turn / STAGES % 2);
#pragma unroll
    for (int i = threadIdx.x; i < PIECE / 4; i += THREADS) {
      if (4 * i < count) {
        const float4 above = ((float4 *)stage)[i], below = ((float4 *)(stage + PIECE))[i];
        float4 sum = ((float4 *)(stage + 2 * PIECE))[i];
        add(sum.x, NATIVE_RSQRT(above.x + below.x));
        add(sum.y, NATIVE_RSQRT(above.y + below.y));
        add(sum.z, NATIVE_RSQRT(above.z + below.z));
        add(sum.w, NATIVE_RSQRT(above.w + below.w));
        ((float4 *)(stage + 2 * PIECE))[i] = sum;
      }
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); /* TMA reads what this thread wrote */
    __syncthreads();
    if (orders) {
      store_bytes(g + k + WIDTH, stage + 2 * PIECE, 4 * count);
      if (turn > 0 && turn - 1 + STAGES < turns) {
        asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory"); /* the store before this one has read its stage */
        const int next = turn - 1 + STAGES;
        fetch(first + next * gridDim.x, stages + next % STAGES * STAGE_FLOATS, &full[next % STAGES], r, b, g);
      }
    }
  }
  if (orders) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); /* shared memory stays until the stores have read it */
}
