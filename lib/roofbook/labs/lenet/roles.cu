// The whole network in one kernel of four warpgroups with roles: a block takes its images one after another, and all roles work
// at once, on different images or on different rows of one. Scores and last pooled maps leave the chip, nothing between the
// layers does.
//
//   x ---TMA--> RING --INPUT--> pixels --CONV_1--> pooled --2 x CONV_2--> last pooled --INPUT--> scores
//   fc1 -TMA->  chunks,         fp16,  layer 1,    fp16,    layer 2,      maps, fp32,   dense layers,
//               fp32            2 slots ReLU, pool 2 slots  ReLU, pool    8 slots       4 images at a time
//                   --INPUT--> fc1, fp16, stays
//
// When nothing else is left, all roles compute the dense layers of a block's last images. A barrier a chunk of 22 rows, and one
// a tile of layer 1, tells the next role that these rows are there: the layers of one image overlap as well. Barriers count
// arrivals of threads; a slot's are full_N[slot] and empty_N[slot].
//
// Operands of products: a place is 16 bytes, 8 pixels of one channel (layer 1) or 2 pixels of four channels (layer 2). A column
// of a product is a place and the one after it, so columns overlap, and nothing is unrolled. Even rows of an image come first,
// then odd rows:
//
//   byte 0            row 0:  place 0 | place 1 | ...
//   byte PITCH        row 2:  ...
//   byte REMAINDER    row 1:  ...
//
// The 64 rows of a product are filters by neighbouring outputs: 4 filters by 2 rows by 8 columns in layer 1, 16 by 2 by 2 in
// layer 2. Weights stay in registers. A tile has 88 columns: in layer 1 they are 8 pairs of output rows by 11 places, of which
// the last has no outputs; in layer 2 the image's 17 pairs of rows by 20 places, one after another, end in the fourth tile.
//
// With BUFFERS of 2, layer 1 multiplies the next tile while it stores one. With 1 it stores first.
// RING chunks are in flight. Scores are computed for DENSE_IMAGES images at a time.
#ifndef BUFFERS
#define BUFFERS 2
#endif
#ifndef RING
#define RING 4
#endif
#ifndef DENSE_IMAGES
#define DENSE_IMAGES 4
#endif
#if BUFFERS == 2
#define REGISTERS_INPUT 88
#define REGISTERS_1 152
#define REGISTERS_2 136
#else
#define REGISTERS_INPUT 96
#define REGISTERS_1 128
#define REGISTERS_2 144
#endif
#define BARRIERS RELAXED
#define WARPGROUPS 4
#include "mma.h"
#include "warpgroup_operands.h"
#define FEWER(n) FEWER_REGISTERS(n)
#define MORE(n) MORE_REGISTERS(n)
#define CONV_1 0
#define CONV_2 1
#define INPUT 3
#define COLUMNS 88
#define PLACES_1 11
#define PITCH_1 (PLACES_1 * 16)
#define REMAINDER_1 (SIZE_1 / 2 * PITCH_1)
#define PIXELS_1 (2 * REMAINDER_1 + 128)
#define TILES_1 5
#define PAIRS_1 (COLUMNS / PLACES_1)
#define CHANNELS_2 4
#define SIZE_2 40
#define STEPS_2 16
#define PLACES_2 20
#define PITCH_2 (PLACES_2 * 16)
#define REMAINDER_2 (SIZE_2 / 2 * PITCH_2)
#define PIXELS_2 (2 * REMAINDER_2 + 256)
#define PAIRS_2 17
#define FILTERS_2 16
#define POOLED_2 9
#define VALUES (FILTERS_2 * POOLED_2 * POOLED_2)
#define CHUNKS 4
#define CHUNK_ROWS 22
#define CHUNK_FLOATS (CHUNK_ROWS * SIZE_1)
#define IMAGE_FLOATS (SIZE_1 * SIZE_1)
#define HIDDEN 32
#define CLASSES 10
#define DENSE_FLOATS (HIDDEN * VALUES)
#define DENSE_CHUNKS ((DENSE_FLOATS + CHUNK_FLOATS - 1) / CHUNK_FLOATS)
#define PADDED (TAPS + 2)
#define PAIRS_OF_ROW 12
#define WORDS_OF_1 (PADDED * PAIRS_OF_ROW)
#define WORDS_OF_2 (PADDED * PADDED * (CHANNELS_2 / 2))
#define INPUT_THREADS 96
#define INPUT_WARPS (INPUT_THREADS / 32)
#define ALL_WARPS (INPUT * 4 + INPUT_WARPS)
#define IN_PAIR (SIZE_1 / 2)
#define SLOTS 2
#define MAP_SLOTS (2 * DENSE_IMAGES)
#define BEHIND 2
#define SPREAD 4
#if BEHIND + DENSE_IMAGES < SPREAD
#error "scores before all weights are there"
#endif
#if RING < CHUNKS
#error "an image in the ring before its readers are there"
#endif
#define FOURS_OF_THREAD ((CHUNK_FLOATS / 4 + INPUT_THREADS - 1) / INPUT_THREADS)
#if ALL_WARPS * DENSE_IMAGES * HIDDEN * 4 > SLOTS * PIXELS_1
#error "no room for the sums of all warps"
#endif
#define PARTIAL_FLOATS (INPUT_WARPS * DENSE_IMAGES * HIDDEN)
#define PIXELS_AT 0
#define POOLED_AT (PIXELS_AT + SLOTS * PIXELS_1)
#define MAPS_AT (POOLED_AT + SLOTS * PIXELS_2)
#define DENSE_AT (MAPS_AT + MAP_SLOTS * VALUES * 4)
#define RING_AT (DENSE_AT + DENSE_FLOATS * 2)
#define KERNELS_1_AT (RING_AT + RING * CHUNK_FLOATS * 4)
#define KERNELS_2_AT (KERNELS_1_AT + 2 * FILTERS_1 * WORDS_OF_1 * 4)
#define PARTIAL_AT (KERNELS_2_AT + FILTERS_2 * WORDS_OF_2 * 4)
#define LAST_AT (PARTIAL_AT + PARTIAL_FLOATS * 4)
#define BARRIERS_AT (LAST_AT + CLASSES * HIDDEN * 4)
#define BARRIERS_OF_INPUT (RING + SLOTS * CHUNKS + MAP_SLOTS)
#define BARRIERS_OF_1 (SLOTS * (TILES_1 + 1))
#define BARRIERS_OF_2 (SLOTS + MAP_SLOTS)
#define BARRIERS_NUMBER (RING + BARRIERS_OF_INPUT + BARRIERS_OF_1 + BARRIERS_OF_2)
#define SHARED_BYTES (BARRIERS_AT + BARRIERS_NUMBER * 8)

// c (64 x 88, spread over a warpgroup) += a (64 x 16, also spread) times transposed b (88 x 16, in shared memory); = if
// `first`.
DEVICE void product(float (&c)[44], const unsigned int (&a)[4], unsigned long long b, int first) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.eq.b32 add, %49, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n88k16.f32.f16.f16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43}, {%44,%45,%46,%47}, %48, add, 1, 1, 0;\n}"
      : SUMS_16(IN_FLOATS, 0), SUMS_16(IN_FLOATS, 16), SUMS_4(IN_FLOATS, 32), SUMS_4(IN_FLOATS, 36), SUMS_4(IN_FLOATS, 40)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(first));
}

// Keeps reads of sums behind the wait for them: for the compiler they are registers like any other.
DEVICE void settle(float (&c)[44]) {
  asm volatile(""
               : SUMS_16(IN_FLOATS, 0), SUMS_16(IN_FLOATS, 16), SUMS_4(IN_FLOATS, 32), SUMS_4(IN_FLOATS, 36),
                 SUMS_4(IN_FLOATS, 40)
               :
               : "memory");
}

DEVICE void arrive(unsigned long long *barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(barrier)) : "memory");
}

// Waits for the threads of INPUT that convert, not for the one that fetches.
DEVICE void sync_input() { asm volatile("barrier.sync 8, %0;" ::"n"(INPUT_THREADS) : "memory"); }

// Waits for all threads but those of the warp that fetches.
DEVICE void sync_roles() { asm volatile("barrier.sync 9, %0;" ::"n"(ALL_WARPS * 32) : "memory"); }

// c (16 x 8, of one warp) += a b, in TF32.
DEVICE void dense_product(float (&c)[4], const float (&a)[4], unsigned int b0, unsigned int b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])), "r"(b0),
        "r"(b1));
}

DEVICE unsigned int rounded(float value) {
  unsigned int bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
}

// The barriers of a block, in shared memory: those at which copies arrive, then those at which INPUT, CONV_1 and CONV_2 arrive.
struct Barriers {
  unsigned long long fetched[RING];
  unsigned long long read[RING], full_1[SLOTS][CHUNKS], empty_3[MAP_SLOTS];
  unsigned long long full_2[SLOTS][TILES_1], empty_1[SLOTS];
  unsigned long long full_3[MAP_SLOTS], empty_2[SLOTS];
};

// Prepares the k-th barrier after `fetched`.
DEVICE void init_kth(Barriers *barriers, int k) {
  const int arrivals = k < BARRIERS_OF_INPUT ? INPUT_THREADS : k < BARRIERS_OF_INPUT + BARRIERS_OF_1 ? 128 : 256;
  init_barrier(barriers->fetched + RING + k, arrivals);
}

// The images of a block: number blockIdx.x + n gridDim.x of the batch, for n from 0 to `images` - 1.
DEVICE int number_of_images(int count) { return (count - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x; }
DEVICE int image_number(int n) { return (int)blockIdx.x + n * (int)gridDim.x; }

// The order of chunks: those of an image, then a `share` of the dense layer's weights, and so on for the first `spread` images;
// then only images.
struct Order {
  int spread, share;
};

DEVICE Order order_of(int images) {
  const int spread = images < SPREAD ? images : SPREAD;
  return {spread, (DENSE_CHUNKS + spread - 1) / spread};
}

// Returns the number of the dense layer's chunks that follow image n.
DEVICE int dense_after(Order order, int n) {
  const int left = DENSE_CHUNKS - n * order.share;
  return n >= order.spread ? 0 : left < order.share ? left : order.share;
}

// Begins to fetch chunk number `chunk` of an array of `floats` floats, as the k-th of all, to its place in the ring.
DEVICE void fetch(int k, const float *from, int floats, int chunk, char *ring, Barriers *barriers) {
  const int r = k % RING, left = floats - chunk * CHUNK_FLOATS, bytes = (left < CHUNK_FLOATS ? left : CHUNK_FLOATS) * 4;
  if (k >= RING) wait_for(&barriers->read[r], (k / RING - 1) % 2);
  expect_bytes(&barriers->fetched[r], bytes);
  tma_load_bytes(ring + r * (CHUNK_FLOATS * 4), from + chunk * CHUNK_FLOATS, bytes, &barriers->fetched[r]);
}

// Begins to fetch image n as the k-th and following chunks.
DEVICE void fetch_image(int k, int n, char *ring, Barriers *barriers, const float *RESTRICT x) {
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; chunk++) {
    fetch(k + chunk, x + image_number(n) * IMAGE_FLOATS, IMAGE_FLOATS, chunk, ring, barriers);
  }
}

// Fetches all chunks but the first image's.
DEVICE void fetch_others(int images, char *ring, Barriers *barriers, const float *RESTRICT x, const float *RESTRICT fc1) {
  const Order order = order_of(images);
  int k = CHUNKS;
#pragma unroll 1
  for (int n = 0; n < images; n++) {
    if (n > 0) {
      fetch_image(k, n, ring, barriers, x);
      k += CHUNKS;
    }
    const int first = n * order.share, end = first + dense_after(order, n);
#pragma unroll 1
    for (int chunk = first; chunk < end; chunk++, k++) fetch(k, fc1, DENSE_FLOATS, chunk, ring, barriers);
  }
}

// Converts an image to operands of layer 1, a chunk at a time from chunk k of the ring on. 86 of the threads convert two pixels
// each: IN_PAIR threads a row, two rows at a time. All loads of a chunk come before its stores, so that they overlap.
DEVICE void convert_image(char *pixels, int k, int slot, const char *ring, Barriers *barriers, int thread) {
  char *const first = pixels + thread / IN_PAIR * REMAINDER_1 + thread % IN_PAIR * 4;
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; chunk++, k++) {
    wait_for(&barriers->fetched[k % RING], k / RING % 2);
    const float2 *from = (const float2 *)(ring + k % RING * (CHUNK_FLOATS * 4)) + thread;
    char *to = first + chunk * (CHUNK_ROWS / 2 * PITCH_1);
    if (thread < SIZE_1) {
      float2 two[CHUNK_ROWS / 2];
#pragma unroll
      for (int i = 0; i < CHUNK_ROWS / 2; i++) two[i] = from[SIZE_1 * i];
#pragma unroll
      for (int i = 0; i < CHUNK_ROWS / 2; i++) {
        if (chunk * (CHUNK_ROWS / 2) + i < SIZE_1 / 2) *(unsigned int *)(to + i * PITCH_1) = two_halves(two[i].x, two[i].y);
      }
    }
    arrive(&barriers->read[k % RING]);
    publish_writes();
    arrive(&barriers->full_1[slot][chunk]);
  }
}

// Rounds weights of the first dense layer, its chunks `first` to `end` - 1, from chunk k of the ring on.
DEVICE void convert_dense(char *dense, int k, int first, int end, const char *ring, Barriers *barriers, int thread) {
#pragma unroll 1
  for (int chunk = first; chunk < end; chunk++, k++) {
    wait_for(&barriers->fetched[k % RING], k / RING % 2);
    const float4 *from = (const float4 *)(ring + k % RING * (CHUNK_FLOATS * 4)) + thread;
    uint2 *to = (uint2 *)(dense + chunk * (CHUNK_FLOATS * 2)) + thread;
    const int left = (DENSE_FLOATS - chunk * CHUNK_FLOATS) / 4, fours = left < CHUNK_FLOATS / 4 ? left : CHUNK_FLOATS / 4;
    float4 four[FOURS_OF_THREAD];
#pragma unroll
    for (int i = 0; i < FOURS_OF_THREAD; i++) {
      if (thread + i * INPUT_THREADS < fours) four[i] = from[i * INPUT_THREADS];
    }
#pragma unroll
    for (int i = 0; i < FOURS_OF_THREAD; i++) {
      const uint2 halves = {two_halves(four[i].x, four[i].y), two_halves(four[i].z, four[i].w)};
      if (thread + i * INPUT_THREADS < fours) to[i * INPUT_THREADS] = halves;
    }
    arrive(&barriers->read[k % RING]);
  }
}

// Multiplies last pooled maps of DENSE_IMAGES images by the first dense layer's weights, for the values that are this warp's of
// `warps`: 16 of every 16 * warps. A row of the product is a hidden value, a column an image.
DEVICE void hidden_sums(float *partial, const float *maps, const char *dense, int warp, int warps, int lane) {
  const int g = GROUP(lane), t = MEMBER(lane), step = warps * 16;
  const float *const values = maps + g % DENSE_IMAGES * VALUES;
  const char *const rows = dense + g * VALUES * 2;
  float c[2][2][4] = {};
  // A lane has four values side by side, for two products: the order of a product's eight values is free. The next step's
  // operands are read before this step's products.
  int k = warp * 16 + t * 4;
  float4 value = *(const float4 *)(values + k);
  uint2 row[4];
#pragma unroll
  for (int m = 0; m < 4; m++) row[m] = *(const uint2 *)(rows + (m * 8 * VALUES + k) * 2);
#pragma unroll 1
  for (; k < VALUES; k += step) {
    const unsigned int b[4] = {rounded(value.x), rounded(value.y), rounded(value.z), rounded(value.w)};
    const uint2 now[4] = {row[0], row[1], row[2], row[3]};
    if (k + step < VALUES) {
      value = *(const float4 *)(values + k + step);
#pragma unroll
      for (int m = 0; m < 4; m++) row[m] = *(const uint2 *)(rows + (m * 8 * VALUES + k + step) * 2);
    }
#pragma unroll
    for (int m = 0; m < 2; m++) {
      const uint2 upper = now[2 * m], lower = now[2 * m + 1];
      const float one[4] = {first_half(upper.x), first_half(lower.x), second_half(upper.x), second_half(lower.x)};
      const float two[4] = {first_half(upper.y), first_half(lower.y), second_half(upper.y), second_half(lower.y)};
      dense_product(c[m][0], one, b[0], b[1]);
      dense_product(c[m][1], two, b[2], b[3]);
    }
  }
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const int m = i / 4, image = 2 * t + i % 2, hidden = m * 16 + i / 2 % 2 * 8 + g;
    if (image < DENSE_IMAGES) partial[(warp * DENSE_IMAGES + image) * HIDDEN + hidden] = c[m][0][i % 4] + c[m][1][i % 4];
  }
}

// Adds the sums of all warps, and writes the scores of `images` images from number `first` of this block on. Threads of INPUT:
// each has the bias of its hidden value, and that of its class.
DEVICE void write_scores(int first, int images, float *partial, int warps, const float *weights, float bias_1, float bias_2,
                         float *RESTRICT scores, int thread) {
#pragma unroll 1
  for (int k = thread; k < DENSE_IMAGES * HIDDEN; k += INPUT_THREADS) {
    float sum = bias_1;
#pragma unroll
    for (int w = 0; w < warps; w++) sum += partial[w * (DENSE_IMAGES * HIDDEN) + k];
    partial[k] = sum < 0.0f ? 0.0f : sum;
  }
  sync_input();
#pragma unroll 1
  for (int k = thread; k < images * CLASSES; k += INPUT_THREADS) {
    const int image = k / CLASSES, o = k % CLASSES;
    float score = bias_2;
#pragma unroll 8
    for (int i = 0; i < HIDDEN; i++) score += weights[o * HIDDEN + i] * partial[image * HIDDEN + i];
    scores[image_number(first + image) * CLASSES + o] = score;
  }
}

// Writes the last pooled maps of images from number `first` of this block on, and clears them.
DEVICE void write_maps(int first, int images, float *maps, float *RESTRICT y, int thread, int threads) {
#pragma unroll 1
  for (int k = thread; k < images * (VALUES / 4); k += threads) {
    const int image = k / (VALUES / 4), at = k % (VALUES / 4) * 4;
    float4 *from = (float4 *)(maps + image * VALUES + at);
    *(float4 *)(y + image_number(first + image) * VALUES + at) = *from;
    *from = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
}

// Computes the scores of DENSE_IMAGES images from number `first` of this block on, and writes them and the maps.
DEVICE void dense_layers(int first, char *whole, Barriers *barriers, float *RESTRICT y, float *RESTRICT scores, float bias_1,
                         float bias_2, int thread) {
  const int slot = first % MAP_SLOTS;
  float *const maps = (float *)(whole + MAPS_AT) + slot * VALUES, *const partial = (float *)(whole + PARTIAL_AT);
#pragma unroll 1
  for (int i = 0; i < DENSE_IMAGES; i++) wait_for(&barriers->full_3[slot + i], first / MAP_SLOTS % 2);
  sync_input();  // for the weights that others wrote, and the sums that they read
  hidden_sums(partial, maps, whole + DENSE_AT, thread / 32, INPUT_WARPS, thread % 32);
  sync_input();
  write_maps(first, DENSE_IMAGES, maps, y, thread, INPUT_THREADS);
#pragma unroll 1
  for (int i = 0; i < DENSE_IMAGES; i++) arrive(&barriers->empty_3[slot + i]);
  write_scores(first, DENSE_IMAGES, partial, INPUT_WARPS, (const float *)(whole + LAST_AT), bias_1, bias_2, scores, thread);
}

// Returns the first of a block's last images: DENSE_IMAGES or fewer, whose dense layers all roles compute when nothing else is
// left.
DEVICE int first_of_last(int images) { return (images - 1) / DENSE_IMAGES * DENSE_IMAGES; }

// Computes a warp's part of the hidden values of the last images, once all roles are here. The sums are where pixels were.
DEVICE void last_hidden_sums(char *whole, int images, int warp, int lane) {
  sync_roles();
  const float *maps = (const float *)(whole + MAPS_AT) + first_of_last(images) % MAP_SLOTS * VALUES;
  hidden_sums((float *)(whole + PIXELS_AT), maps, whole + DENSE_AT, warp, ALL_WARPS, lane);
  sync_roles();
}

// Does a warp's part of the last images' hidden values, and writes a part of their maps. For the roles that multiply.
DEVICE void help_with_last(char *whole, int images, float *RESTRICT y, int thread) {
  const int first = first_of_last(images);
  last_hidden_sums(whole, images, thread / 32, thread % 32);
  write_maps(first, images - first, (float *)(whole + MAPS_AT) + first % MAP_SLOTS * VALUES, y, thread, INPUT * 128);
}

// Weights of products are read from tables of halves, two at a time, in which rows and columns beside a filter's are zeros:
//
//   layer 1:  [odd][filter][row -1 to 7][column -8 - odd to 15 - odd]
//   layer 2:  [filter][row -1 to 7][column -1 to 7][channel]
//
// A thread's rows m and m + 8 of a product (picture in hopper.h) are neighbouring outputs of a row of the image, so that one of
// them has its weights a column to the right: layer 1, whose pairs are of columns, has a table of each. Bit 2 of m is the row
// of the two.

// Returns a weight, or the zero beside it; `filter` has its weights of one channel.
DEVICE float weight_or_zero(const float *RESTRICT filter, int p, int q) {
  return p >= 0 && p < TAPS && q >= 0 && q < TAPS ? filter[p * TAPS + q] : 0.0f;
}

// Writes the table of layer 1: a thread has the same two neighbours of all filters.
DEVICE void write_table_1(unsigned int *table, const float *RESTRICT conv1, int thread) {
  const int p = thread / PAIRS_OF_ROW - 1, q = thread % PAIRS_OF_ROW * 2 - 8;
  if (thread >= WORDS_OF_1) return;
  float w[FILTERS_1][3];
#pragma unroll
  for (int filter = 0; filter < FILTERS_1; filter++) {
#pragma unroll
    for (int i = 0; i < 3; i++) w[filter][i] = weight_or_zero(conv1 + filter * (TAPS * TAPS), p, q - 1 + i);
  }
#pragma unroll
  for (int filter = 0; filter < FILTERS_1; filter++) {
#pragma unroll
    for (int odd = 0; odd < 2; odd++) {
      table[(odd * FILTERS_1 + filter) * WORDS_OF_1 + thread] = two_halves(w[filter][1 - odd], w[filter][2 - odd]);
    }
  }
}

// Writes the table of layer 2: a thread has two channels of one pixel of all filters.
DEVICE void write_table_2(unsigned int *table, const float *RESTRICT conv2, int thread) {
  const int channel = thread % 2 * 2, p = thread / 2 / PADDED - 1, q = thread / 2 % PADDED - 1;
  if (thread >= WORDS_OF_2) return;
  float w[FILTERS_2][2];
#pragma unroll
  for (int filter = 0; filter < FILTERS_2; filter++) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      w[filter][i] = weight_or_zero(conv2 + (filter * CHANNELS_2 + channel + i) * (TAPS * TAPS), p, q);
    }
  }
#pragma unroll
  for (int filter = 0; filter < FILTERS_2; filter++) {
    table[filter * WORDS_OF_2 + thread] = two_halves(w[filter][0], w[filter][1]);
  }
}

// Return the offset of a step's places from those of a tile's first outputs.
DEVICE constexpr int inputs_1(int step) { return step % 2 * REMAINDER_1 + step / 2 * PITCH_1; }
DEVICE constexpr int inputs_2(int step) { return step / 2 % 2 * REMAINDER_2 + step / 4 * PITCH_2 + step % 2 * 32; }

// Begins the products of a tile of layer 1.
DEVICE void begin_tile(float (&c)[44], const unsigned int (&a)[STEPS_1][4], const char *pixels) {
  const unsigned long long b = plain_descriptor(pixels, 16, 128);
  wgmma_begin();
#pragma unroll
  for (int step = 0; step < STEPS_1; step++) product(c, a[step], b + inputs_1(step) / 16, step == 0);
  wgmma_commit();
}

// Applies ReLU and pool to a tile of layer 1, and stores it as operands of layer 2. A window's columns are in one thread, its
// rows 16 lanes apart. The two lanes of a row pair have two windows; each keeps one of them. to: offset of each, or -1 of one
// beyond the row.
DEVICE void store_tile(const float (&c)[44], char *pooled, const int (&to)[COLUMNS / 8], int lower) {
#pragma unroll
  for (int j = 0; j < COLUMNS / 8; j++) {
    const float first = fmaxf(c[4 * j], c[4 * j + 2]), second = fmaxf(c[4 * j + 1], c[4 * j + 3]);
    const float other = __shfl_xor_sync(0xffffffff, lower ? first : second, 16);
    const float value = fmaxf(fmaxf(lower ? second : first, other), 0.0f);
    if (to[j] >= 0) *(unsigned short *)(pooled + to[j]) = (unsigned short)two_halves(value, 0.0f);
  }
}

// Computes layer 1 of all images.
DEVICE void layer_1(char *whole, Barriers *barriers, int images, int thread) {
  const int warp = thread / 32, lane = thread % 32, g = GROUP(lane), t = MEMBER(lane), lower = lane / 16;
  unsigned int a[STEPS_1][4];
  int to[COLUMNS / 8];
  const unsigned int *weights = (const unsigned int *)(whole + KERNELS_1_AT) + (warp * PADDED + 1 - lower) * PAIRS_OF_ROW;
#pragma unroll
  for (int step = 0; step < STEPS_1; step++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      a[step][i] = weights[(i % 2 * FILTERS_1 * PADDED + step) * PAIRS_OF_ROW + 4 + t - g % 4 + i / 2 * 4];
    }
  }
#pragma unroll
  for (int j = 0; j < COLUMNS / 8; j++) {
    const int n = 8 * j + 2 * t + lower, row = n / PLACES_1, place = n % PLACES_1;
    to[j] = place < PLACES_1 - 1
                ? row % 2 * REMAINDER_2 + row / 2 * PITCH_2 + (place * 4 + g % 4) * (CHANNELS_2 * 2) + warp * 2
                : -1;
  }
#pragma unroll 1
  for (int n = 0; n < images; n++) {
    const int slot = n % SLOTS, turn = n / SLOTS;
    const char *pixels = whole + PIXELS_AT + slot * PIXELS_1;
    char *pooled = whole + POOLED_AT + slot * PIXELS_2;
    float c[BUFFERS][44];
#pragma unroll
    for (int tile = 0; tile < TILES_1 + BUFFERS - 1; tile++) {
      if (tile < TILES_1) {
        if (tile < CHUNKS) wait_for(&barriers->full_1[slot][tile], turn % 2);
        begin_tile(c[tile % BUFFERS], a, pixels + tile * (COLUMNS * 16));
      }
      const int done = tile - (BUFFERS - 1);
      if (done < 0) continue;
      if (tile < TILES_1 && BUFFERS == 2) {
        wgmma_wait_but_one();
      } else {
        wgmma_wait_all();
      }
      settle(c[done % BUFFERS]);
      if (done == TILES_1 - 1) arrive(&barriers->empty_1[slot]);
      if (done == 0 && turn > 0) wait_for(&barriers->empty_2[slot], (turn - 1) % 2);
      store_tile(c[done % BUFFERS], pooled + done * (PAIRS_1 / 2 * PITCH_2), to, lower);
      publish_writes();
      arrive(&barriers->full_2[slot][done]);
    }
  }
}

// Where a thread's windows of a tile of layer 2 are: their offsets in maps, or -1 beyond the image; bit j of `edges` says that
// window j is the ninth of a row. A row has ten windows: only the left half of the ninth is on the image, and the tenth is
// dropped.
struct Windows {
  int to[(COLUMNS / 8 + 1) / 2], edges;
};

DEVICE void find_windows(Windows &windows, int tile, int warp, int lane) {
  const int g = GROUP(lane), t = MEMBER(lane), lower = lane / 16;
  windows.edges = 0;
#pragma unroll
  for (int j = 0; j < COLUMNS / 8; j++) {
    if ((tile * (COLUMNS / 2) + 4 * j + t) % (PLACES_2 / 2) == POOLED_2 - 1) windows.edges |= 1 << j;
  }
#pragma unroll
  for (int j = 0; j < COLUMNS / 8; j += 2) {
    const int n = tile * (COLUMNS / 2) + 4 * (j + lower) + t, pair = n / (PLACES_2 / 2), across = n % (PLACES_2 / 2);
    const int known = across < POOLED_2 && pair < PAIRS_2 && j + lower < COLUMNS / 8;
    windows.to[j / 2] = known ? ((warp * 4 + g % 4) * POOLED_2 + pair / 2) * POOLED_2 + across : -1;
  }
}

// Applies ReLU and pool to a tile of layer 2. Two columns of the product are the four columns of a window; two of its rows are
// 16 lanes apart, and the others in another place, so that the windows in shared memory take the largest of both. They begin
// with zero, and numbers above zero are in the order of their bits. Each of two lanes keeps one window of two.
DEVICE void pool_tile(const float (&c)[44], int *maps, const Windows &windows, int lower) {
  float best[COLUMNS / 8 + 1];
#pragma unroll
  for (int j = 0; j < COLUMNS / 8; j++) {
    const float left = fmaxf(c[4 * j], c[4 * j + 2]), right = fmaxf(c[4 * j + 1], c[4 * j + 3]);
    best[j] = windows.edges >> j & 1 ? left : fmaxf(left, right);
  }
  best[COLUMNS / 8] = 0.0f;
#pragma unroll
  for (int j = 0; j < COLUMNS / 8; j += 2) {
    const float other = __shfl_xor_sync(0xffffffff, lower ? best[j] : best[j + 1], 16);
    const float value = fmaxf(lower ? best[j + 1] : best[j], other);
    if (windows.to[j / 2] >= 0) ATOMIC_MAX(maps + windows.to[j / 2], __float_as_int(value));
  }
}

// Computes every other tile of layer 2 of all images, from tile `part` on.
DEVICE void layer_2(char *whole, Barriers *barriers, int images, int part, int thread) {
  const int warp = thread / 32, lane = thread % 32, g = GROUP(lane), t = MEMBER(lane), lower = lane / 16;
  unsigned int a[STEPS_2][4];
  // A step is half a row of the input: 4 pixels with their channels, of which two are in a word.
  const unsigned int *weights = (const unsigned int *)(whole + KERNELS_2_AT) +
                                (((warp * 4 + g % 4) * PADDED + 1 - lower) * PADDED + 1) * (CHANNELS_2 / 2) + t;
#pragma unroll
  for (int step = 0; step < STEPS_2; step++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      a[step][i] = weights[(step / 2 * PADDED + step % 2 * 4 + i / 2 * 2 - i % 2) * (CHANNELS_2 / 2)];
    }
  }
  Windows windows[2];
#pragma unroll
  for (int half = 0; half < 2; half++) find_windows(windows[half], half * 2 + part, warp, lane);
#pragma unroll 1
  for (int n = 0; n < images; n++) {
    const int slot = n % SLOTS, turn = n / SLOTS;
    const char *pooled = whole + POOLED_AT + slot * PIXELS_2;
    int *maps = (int *)(whole + MAPS_AT) + n % MAP_SLOTS * VALUES;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int tile = half * 2 + part;
      // A tile's last row of inputs is in layer 1's tile of this number: 15, 23, 33 and 39 of 40, which come eight a tile.
      wait_for(&barriers->full_2[slot][half == 1 ? TILES_1 - 1 : part + 1], turn % 2);
      const unsigned long long b = plain_descriptor(pooled + tile * (COLUMNS * 16), 16, 128);
      float c[44];
      wgmma_begin();
#pragma unroll
      for (int step = 0; step < STEPS_2; step++) product(c, a[step], b + inputs_2(step) / 16, step == 0);
      wgmma_commit();
      wgmma_wait_all();
      settle(c);
      if (half == 1) arrive(&barriers->empty_2[slot]);
      if (half == 0 && n >= MAP_SLOTS) wait_for(&barriers->empty_3[n % MAP_SLOTS], (n / MAP_SLOTS - 1) % 2);
      pool_tile(c, maps, windows[half], lower);
    }
    arrive(&barriers->full_3[n % MAP_SLOTS]);
  }
}

// Converts all images, and computes scores, two images behind.
DEVICE void input_and_dense(char *whole, Barriers *barriers, int images, float *RESTRICT y, float *RESTRICT scores,
                            const float *RESTRICT fc1_bias, const float *RESTRICT fc2_bias, int thread) {
  const float bias_1 = fc1_bias[thread % HIDDEN], bias_2 = fc2_bias[thread % CLASSES];
  const char *ring = whole + RING_AT;
  const Order order = order_of(images);
  int k = 0;
#pragma unroll 1
  for (int n = 0; n < images + BEHIND; n++) {
    const int slot = n % SLOTS, turn = n / SLOTS, dense = dense_after(order, n), last = n - BEHIND;
    if (n < images) {
      if (turn > 0) wait_for(&barriers->empty_1[slot], (turn - 1) % 2);
      convert_image(whole + PIXELS_AT + slot * PIXELS_1, k, slot, ring, barriers, thread);
      convert_dense(whole + DENSE_AT, k + CHUNKS, n * order.share, n * order.share + dense, ring, barriers, thread);
      k += CHUNKS + dense;
    }
    if (last >= 0 && last % DENSE_IMAGES == DENSE_IMAGES - 1 && last < images - 1) {
      dense_layers(last - (DENSE_IMAGES - 1), whole, barriers, y, scores, bias_1, bias_2, thread);
    }
  }
  const int first = first_of_last(images);
  last_hidden_sums(whole, images, INPUT * 4 + thread / 32, thread % 32);
  write_scores(first, images - first, (float *)(whole + PIXELS_AT), ALL_WARPS, (const float *)(whole + LAST_AT), bias_1, bias_2,
               scores, thread);
}

KERNEL_OF(WARPGROUPS * 128, 1) void roles(const float *RESTRICT x, float *RESTRICT y, float *RESTRICT scores, int count,
                                          const float *RESTRICT conv1, const float *RESTRICT conv2, const float *RESTRICT fc1,
                                          const float *RESTRICT fc1_bias, const float *RESTRICT fc2,
                                          const float *RESTRICT fc2_bias) {
  extern __shared__ __align__(128) char whole[];
  Barriers *const barriers = (Barriers *)(whole + BARRIERS_AT);
  const int group = threadIdx.x / 128, thread = threadIdx.x % 128, fetches = group == INPUT && thread == INPUT_THREADS;
  const int images = number_of_images(count);
  char *const ring = whole + RING_AT;
  if (fetches) {
    for (int r = 0; r < RING; r++) init_barrier(&barriers->fetched[r], 1);
    publish_barriers();
    publish_writes();
    fetch_image(0, 0, ring, barriers, x);
  }
#pragma unroll 4
  for (int k = threadIdx.x; k < DENSE_AT / 16; k += WARPGROUPS * 128) *(uint4 *)(whole + k * 16) = make_uint4(0, 0, 0, 0);
  if (group == INPUT) {
    if (thread < BARRIERS_NUMBER - RING) init_kth(barriers, thread);
    publish_barriers();
    if (thread < CLASSES * HIDDEN / 4) *(float4 *)(whole + LAST_AT + thread * 16) = ((const float4 *)fc2)[thread];
  } else if (group == CONV_1) {
    write_table_1((unsigned int *)(whole + KERNELS_1_AT), conv1, thread);
  } else {
    write_table_2((unsigned int *)(whole + KERNELS_2_AT), conv2, (int)threadIdx.x - CONV_2 * 128);
  }
  publish_writes();
  __syncthreads();
  if (group == INPUT) {
    FEWER(REGISTERS_INPUT);
    if (fetches) fetch_others(images, ring, barriers, x, fc1);
    if (thread < INPUT_THREADS) input_and_dense(whole, barriers, images, y, scores, fc1_bias, fc2_bias, thread);
  } else if (group == CONV_1) {
    MORE(REGISTERS_1);
    layer_1(whole, barriers, images, thread);
    help_with_last(whole, images, y, threadIdx.x);
  } else {
    MORE(REGISTERS_2);
    layer_2(whole, barriers, images, group - CONV_2, thread);
    help_with_last(whole, images, y, threadIdx.x);
  }
}
