// Layer 1, 4 filters of 7 x 7 taps on images of 86 x 86 pixels, by three warpgroups with roles. The last one produces operands,
// the others consume them: each multiplies and stores an image at a time, and never waits for input. Weights are in registers.
//
//   x --TMA--> RING of 4 chunks --producer--> 5 SLOTS of operands --consumers--> sums in registers --> (box --TMA-->) y
//              22 rows in fp32    1 thread     an image each, split   an image
//              CHUNKS an image    fetches, 96  into two parts of      each
//                                 convert      fp16
//
// The operands of an image are rows of PLACES = 11 places; a place is 8 pixels, 16 bytes. Even rows come first, then odd rows:
//
//   byte 0            row 0:  place 0 | place 1 | ... | place 10      PITCH = 176 bytes; 88 pixels, of which 86 exist
//   byte PITCH        row 2:  ...
//   byte REMAINDER    row 1:  ...
//
// A product multiplies weights (64 rows: 4 filters by 2 rows by 8 columns of outputs) with pixels. Each of its 88 columns is a
// place, whose 16 numbers are the 8 pixels there and the 8 behind them: columns overlap, and nothing is unrolled. A tile has
// 8 pairs of output rows by 11 places; place 10 has no outputs. A step takes one row of taps of both output rows, 8 in all.
//
// Knob STORES: THREADS  each thread writes its outputs, two side by side
//              BOXES    a warp lays a tile of its filter out in shared memory, and TMA writes it
#ifndef STORES
#define STORES THREADS
#endif
#define THREADS 1
#define BOXES 2
#include "register_product.h"
#include "tensor_map.h"
#include "tma_store.h"
#include "warpgroup_operands.h"
#if PARTS != 2 || WARPGROUPS != 3
#error "operands of two parts, and three warpgroups, whose registers are counted below"
#endif
#define CONSUMERS (WARPGROUPS - 1)
#define PLACES 11
#define PITCH (PLACES * 16)
#define REMAINDER (SIZE_1 / 2 * PITCH)
#define PIXELS (2 * REMAINDER + 128)
#define COLUMNS 88
#define PAIRS (COLUMNS / PLACES)
#define TILES (OUT_1 / 2 / PAIRS)
#define BOX_BYTES (COLUMNS * 2 * 32)
#define SLOTS 5
#define CHUNKS 4
#define CHUNK_ROWS 22
#define CHUNK_FLOATS (CHUNK_ROWS * SIZE_1)
#define RING 4
#define PRODUCERS 96
#define IN_PAIR (SIZE_1 / 2)

// Waits for all warpgroups of the block, which reach it by different instructions: it is not `.aligned`.
DEVICE void sync_roles() { asm volatile("barrier.sync 8, %0;" ::"n"(WARPGROUPS * 128) : "memory"); }

// Returns the offset of a step's pixels, input row `step` of a tile, from the tile's first pixel.
DEVICE constexpr int inputs(int step) { return step % 2 * REMAINDER + step / 2 * PITCH; }

// Loads a thread's part of a step's weights (PTX ISA 9.7.15.5.1.1, Register Fragments). With g = lane / 4 and t = lane % 4, these
// are the numbers 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of rows g and g + 8 of its warp.
DEVICE void load_fragment(unsigned int (&a)[4], const char *weights, int step, int warp, int lane) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const int place = weight_place(step, warp * 16 + lane / 4 + i % 2 * 8, lane % 4 * 2 + i / 2 * 8);
    a[i] = *(const unsigned int *)(weights + place);
  }
}

// c = the outputs of the tile whose operands begin at `pixels`: low x high, high x low, then high x high. Matrix units cut off
// digits at each addition, so the high products go into two shorter sums, which threads add up in fp32.
DEVICE void multiply(float (&c)[44], const unsigned int (&high)[STEPS_1][4], const unsigned int (&low)[STEPS_1][4],
                     const char *pixels) {
  const unsigned long long b = plain_descriptor(pixels, 16, 128);
  float sum[44];
  wgmma_begin();
#pragma unroll
  for (int step = 0; step < STEPS_1; step++) {
    product(c, low[step], b + inputs(step) / 16, step == 0);
    product(c, high[step], b + (PIXELS + inputs(step)) / 16, 0);
  }
#pragma unroll
  for (int half = 0; half < 2; half++) {
    if (half == 1) wgmma_begin();
#pragma unroll
    for (int step = half * (STEPS_1 / 2); step < (half + 1) * (STEPS_1 / 2); step++) {
      product(sum, high[step], b + inputs(step) / 16, step % (STEPS_1 / 2) == 0);
    }
    wgmma_commit();
    wgmma_wait_all();
#pragma unroll
    for (int k = 0; k < 44; k++) c[k] = half == 0 ? fmaf(c[k], 1.0f / SPLIT_SCALE, sum[k]) : c[k] + sum[k];
  }
}

// Stops the compiler from hoisting index arithmetic to a point where all registers hold sums.
DEVICE int not_before(int lane) {
  asm volatile("" : "+r"(lane));
  return lane;
}

#if STORES == THREADS
// Writes a tile of this warp's filter. y: the tile's first row in the output map.
DEVICE void store(const float (&c)[44], float *RESTRICT y, int lane) {
  const int g = not_before(lane) / 4, t = not_before(lane) % 4;
#pragma unroll
  for (int j = 0; j < 22; j++) {
    const int n = j / 2 * 8 + 2 * t + j % 2, down = n / PLACES * 2 + g / 4, across = n % PLACES;
    const float2 two = {c[j / 2 * 4 + j % 2], c[j / 2 * 4 + j % 2 + 2]};
    if (across < OUT_1 / 8) *(float2 *)(y + down * OUT_1 + across * 8 + g % 4 * 2) = two;
  }
}
#else
// Lays a tile out as a box in shared memory, [row of a pair][column of the product][8 floats], and has TMA write it. pair: the
// tile's first pair of rows. A thread has two neighbouring columns; those with t >= 2 write the odd one first, so that half a
// warp writes to all banks.
DEVICE void store(const float (&c)[44], const void *map, char *box, int pair, int plane, int lane) {
  const int g = not_before(lane) / 4, t = not_before(lane) % 4, odd = t / 2;
  if (lane == 0) wait_for_stores();
  __syncwarp();
  float *first = (float *)box + (g / 4 * COLUMNS + 2 * t + odd) * 8 + g % 4 * 2, *second = first + (odd ? -8 : 8);
#pragma unroll
  for (int j = 0; j < 11; j++) {
    const float2 left = {c[4 * j], c[4 * j + 2]}, right = {c[4 * j + 1], c[4 * j + 3]};
    *(float2 *)(first + 64 * j) = odd ? right : left;
    *(float2 *)(second + 64 * j) = odd ? left : right;
  }
  publish_writes();
  __syncwarp();
  if (lane == 0) tma_store_4d(map, box, 0, pair, 0, plane);
}
#endif

// Computes layer 1 of `count` images, from image `first` of the batch on. map: the description of y for TMA, used by BOXES.
//
// A block's n-th image is number first + blockIdx.x + n gridDim.x of the batch. It is in slot n % SLOTS, which was full
// n / SLOTS times before. The block's k-th chunk is in place k % RING of the ring.
KERNEL_OF(WARPGROUPS * 128, 1) void producer(const float *RESTRICT x, float *RESTRICT y, int first, int count,
                                         const float *RESTRICT weights, const void *RESTRICT map) {
  extern __shared__ __align__(128) char whole[];
  char *boxes = whole, *slots = boxes + CONSUMERS * 4 * BOX_BYTES;
  float *ring = (float *)(slots + SLOTS * PARTS * PIXELS);
  unsigned long long *fetched = (unsigned long long *)(ring + RING * CHUNK_FLOATS), *read = fetched + RING;
  unsigned long long *full = read + RING, *empty = full + SLOTS;
  const int group = threadIdx.x / 128, thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
  const int images = (count - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;
  load_weights_1(slots, weights);  // consumers have them in registers at sync_roles, and the slots are free for images
  if (threadIdx.x == 0) {
    INIT_RING(fetched, read, RING, PRODUCERS);
    for (int s = 0; s < SLOTS; s++) {
      init_barrier(&full[s], PRODUCERS);
      init_barrier(&empty[s], 128);
    }
    publish_barriers();
  }
  __syncthreads();
  if (group == CONSUMERS) {
    FEWER_REGISTERS(64);
    sync_roles();
    for (int k = thread * 4; k < SLOTS * PARTS * PIXELS; k += 512) *(unsigned int *)(slots + k) = 0;
    sync_group(group);
    if (thread == PRODUCERS) {
      for (int k = 0; k < images * CHUNKS; k++) {
        const int r = k % RING, floats = k % CHUNKS == CHUNKS - 1 ? SIZE_1 * SIZE_1 - (CHUNKS - 1) * CHUNK_FLOATS : CHUNK_FLOATS;
        const float *from = x + (first + blockIdx.x + k / CHUNKS * gridDim.x) * (SIZE_1 * SIZE_1) + k % CHUNKS * CHUNK_FLOATS;
        if (k >= RING) wait_for(&read[r], (k / RING - 1) % 2);
        expect_bytes(&fetched[r], floats * 4);
        tma_load_bytes(ring + r * CHUNK_FLOATS, from, floats * 4, &fetched[r]);
      }
    }
    if (thread < PRODUCERS) {
      // 86 of the 96 threads convert two pixels each: 43 = IN_PAIR threads a row, two rows at a time.
      const int odd = thread / IN_PAIR, pair = thread % IN_PAIR;
      for (int k = 0; k < images * CHUNKS; k++) {
        const int r = k % RING, chunk = k % CHUNKS, n = k / CHUNKS, slot = n % SLOTS;
        if (chunk == 0 && n >= SLOTS) wait_for(&empty[slot], (n / SLOTS - 1) % 2);
        wait_for(&fetched[r], k / RING % 2);
        const float2 *from = (const float2 *)(ring + r * CHUNK_FLOATS) + thread;
        char *to = slots + slot * (PARTS * PIXELS) + odd * REMAINDER + chunk * (CHUNK_ROWS / 2 * PITCH) + pair * 4;
#pragma unroll
        for (int i = 0; i < CHUNK_ROWS / 2; i++) {
          if (thread < SIZE_1 && chunk * (CHUNK_ROWS / 2) + i < SIZE_1 / 2) {
            const float2 two = from[SIZE_1 * i];
            const unsigned int high = two_halves(two.x, two.y);
            *(unsigned int *)(to + i * PITCH) = high;
            *(unsigned int *)(to + PIXELS + i * PITCH) = two_remainders(two.x, two.y, high);
          }
        }
        publish_writes();
        arrive(&read[r]);
        if (chunk == CHUNKS - 1) arrive(&full[slot]);
      }
    }
  } else {
    MORE_REGISTERS(216);
    unsigned int high[STEPS_1][4], low[STEPS_1][4];
#pragma unroll
    for (int step = 0; step < STEPS_1; step++) {
      load_fragment(high[step], slots, step, warp, lane);
      load_fragment(low[step], slots + STEPS_1 * STEP_BYTES, step, warp, lane);
    }
    sync_roles();
#if STORES == BOXES
    if (lane == 0) acquire_map(map);
#endif
    for (int n = group; n < images; n += CONSUMERS) {
      const int slot = n % SLOTS, plane = (first + blockIdx.x + n * gridDim.x) * FILTERS_1 + warp;
      wait_for(&full[slot], n / SLOTS % 2);
#pragma unroll 1
      for (int tile = 0; tile < TILES; tile++) {
        float c[44];
        multiply(c, high, low, slots + slot * (PARTS * PIXELS) + tile * (COLUMNS * 16));
        if (tile == TILES - 1) arrive(&empty[slot]);
#if STORES == THREADS
        store(c, y + (plane * OUT_1 + tile * (PAIRS * 2)) * OUT_1, lane);
#else
        store(c, map, boxes + (group * 4 + warp) * BOX_BYTES, tile * PAIRS, plane, lane);
#endif
      }
    }
#if STORES == BOXES
    if (lane == 0) wait_for_stores();
#endif
  }
}
