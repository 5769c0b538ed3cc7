// The whole network in one kernel of four warpgroups with roles: a block takes its images one after another, and all roles work at
// once, on different images or on different rows of one. Scores and last pooled maps leave the chip, nothing between the layers does.
//
//   x ---TMA--> RING --INPUT--> pixels --CONV_1--> pooled --2 x CONV_2--> last pooled --INPUT--> scores
//   fc1 -TMA->  chunks,         fp16,  layer 1,    fp16,    layer 2,      maps, fp32,   dense layers,
//               fp32            2 slots ReLU, pool 2 slots  ReLU, pool    8 slots       4 images at a time
//                   --INPUT--> fc1, fp16, stays
//
// A barrier a chunk of 22 rows, and one a tile of layer 1, tells the next role that these rows are there: the layers of one image
// overlap as well. Barriers count arrivals of threads; a slot's are full_N[slot] and empty_N[slot].
//
// Operands of products are as in the picture of warpgroup_operands.h's users: a place is 16 bytes, 8 pixels of one channel (layer 1) or
// 2 pixels of four channels (layer 2). A column of a product is a place and the one after it, so columns overlap, and nothing is
// unrolled. Even rows of an image come first, then odd rows:
//
//   byte 0            row 0:  place 0 | place 1 | ...
//   byte PITCH        row 2:  ...
//   byte REMAINDER    row 1:  ...
//
// The 64 rows of a product are filters by neighbouring outputs: 4 filters by 2 rows by 8 columns in layer 1, 16 by 2 by 2 in layer 2.
// Weights stay in registers. A tile has 88 columns: in layer 1 they are 8 pairs of output rows by 11 places, of which the last has no
// outputs; in layer 2 the image's 17 pairs of rows by 20 places, one after another, end in the fourth tile.
#define BUFFERS 2
#define RING 4
#define DENSE_IMAGES 4
#define BARRIERS RELAXED
#define WARPGROUPS 4
#include "mma.h"
#include "warpgroup_operands.h"
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
#define KERNEL_FLOATS (FILTERS_1 * TAPS * TAPS + FILTERS_2 * CHANNELS_2 * TAPS * TAPS)
#define INPUT_THREADS 96
#define INPUT_WARPS (INPUT_THREADS / 32)
#define IN_PAIR (SIZE_1 / 2)
#define SLOTS 2
#define MAP_SLOTS (2 * DENSE_IMAGES)
#define BEHIND 2
#define SPREAD 4
#if BEHIND + DENSE_IMAGES < SPREAD
#error "scores before all weights are there"
#endif
#define PARTIAL_FLOATS (INPUT_WARPS * DENSE_IMAGES * HIDDEN)
#define LAST_FLOATS (CLASSES * HIDDEN + HIDDEN + CLASSES + 6)
#define PIXELS_AT 0
#define POOLED_AT (PIXELS_AT + SLOTS * PIXELS_1)
#define MAPS_AT (POOLED_AT + SLOTS * PIXELS_2)
#define DENSE_AT (MAPS_AT + MAP_SLOTS * VALUES * 4)
#define RING_AT (DENSE_AT + DENSE_FLOATS * 2)
#define KERNELS_AT (RING_AT + RING * CHUNK_FLOATS * 4)
#define PARTIAL_AT (KERNELS_AT + KERNEL_FLOATS * 4)
#define LAST_AT (PARTIAL_AT + PARTIAL_FLOATS * 4)
#define BARRIERS_AT (LAST_AT + LAST_FLOATS * 4)
#define BARRIERS_NUMBER (1 + 2 * RING + SLOTS * (CHUNKS + 1 + TILES_1 + 1) + 2 * MAP_SLOTS)
#define SHARED_BYTES (BARRIERS_AT + BARRIERS_NUMBER * 8)

// c (64 x 88, spread over a warpgroup) += a (64 x 16, also spread) times transposed b (88 x 16, in shared memory); = if `first`.
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
               : SUMS_16(IN_FLOATS, 0), SUMS_16(IN_FLOATS, 16), SUMS_4(IN_FLOATS, 32), SUMS_4(IN_FLOATS, 36), SUMS_4(IN_FLOATS, 40)
               :
               : "memory");
}

DEVICE void arrive(unsigned long long *barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(barrier)) : "memory");
}

// Waits for the threads of INPUT that convert, not for the one that fetches.
DEVICE void sync_input() { asm volatile("barrier.sync 8, %0;" ::"n"(INPUT_THREADS) : "memory"); }

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

// The barriers of a block, in shared memory.
struct Barriers {
  unsigned long long kernels;
  unsigned long long fetched[RING], read[RING];
  unsigned long long full_1[SLOTS][CHUNKS], empty_1[SLOTS];
  unsigned long long full_2[SLOTS][TILES_1], empty_2[SLOTS];
  unsigned long long full_3[MAP_SLOTS], empty_3[MAP_SLOTS];
};

// The images of a block: number blockIdx.x + n gridDim.x of the batch, for n from 0 to `images` - 1.
DEVICE int number_of_images(int count) { return (count - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x; }
DEVICE int image_number(int n) { return (int)blockIdx.x + n * (int)gridDim.x; }

// The order of chunks: those of an image, then a `share` of the dense layer's weights, and so on for the first `spread` images; then
// only images.
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

// Begins to fetch the k-th chunk to its place in the ring.
DEVICE void fetch(int k, Order order, char *ring, Barriers *barriers, const float *RESTRICT x, const float *RESTRICT fc1) {
  const int mixed = k < order.spread * CHUNKS + DENSE_CHUNKS, period = CHUNKS + order.share, r = k % RING;
  const int is_dense = mixed && k % period >= CHUNKS;
  const int n = mixed ? k / period : (k - DENSE_CHUNKS) / CHUNKS;
  const int chunk = is_dense ? n * order.share + k % period - CHUNKS : mixed ? k % period : (k - DENSE_CHUNKS) % CHUNKS;
  const float *from = is_dense ? fc1 : x + image_number(n) * IMAGE_FLOATS;
  const int left = (is_dense ? DENSE_FLOATS : IMAGE_FLOATS) - chunk * CHUNK_FLOATS;
  const int bytes = (left < CHUNK_FLOATS ? left : CHUNK_FLOATS) * 4;
  expect_bytes(&barriers->fetched[r], bytes);
  tma_load_bytes(ring + r * (CHUNK_FLOATS * 4), from + chunk * CHUNK_FLOATS, bytes, &barriers->fetched[r]);
}

// Converts an image to operands of layer 1, a chunk at a time from chunk k of the ring on. 86 of the threads convert two pixels each:
// IN_PAIR threads a row, two rows at a time.
DEVICE void convert_image(char *pixels, int k, int slot, const char *ring, Barriers *barriers, int thread) {
  char *const first = pixels + thread / IN_PAIR * REMAINDER_1 + thread % IN_PAIR * 4;
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; chunk++, k++) {
    wait_for(&barriers->fetched[k % RING], k / RING % 2);
    const float2 *from = (const float2 *)(ring + k % RING * (CHUNK_FLOATS * 4)) + thread;
    char *to = first + chunk * (CHUNK_ROWS / 2 * PITCH_1);
#pragma unroll
    for (int i = 0; i < CHUNK_ROWS / 2; i++) {
      if (thread < SIZE_1 && chunk * (CHUNK_ROWS / 2) + i < SIZE_1 / 2) {
        const float2 two = from[SIZE_1 * i];
        *(unsigned int *)(to + i * PITCH_1) = two_halves(two.x, two.y);
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
    const float2 *from = (const float2 *)(ring + k % RING * (CHUNK_FLOATS * 4));
    unsigned int *to = (unsigned int *)dense + chunk * (CHUNK_FLOATS / 2);
    const int left = (DENSE_FLOATS - chunk * CHUNK_FLOATS) / 2, pairs = left < CHUNK_FLOATS / 2 ? left : CHUNK_FLOATS / 2;
#pragma unroll 5
    for (int i = thread; i < pairs; i += INPUT_THREADS) to[i] = two_halves(from[i].x, from[i].y);
    arrive(&barriers->read[k % RING]);
  }
}

// Computes the scores of images first to last of this block from their last pooled maps, writes both, and clears the maps. The three
// warps divide the values of an image among them, and their sums are added. A row of the product is a hidden value, a column an image.
DEVICE void dense_layers(int first, int last, char *whole, Barriers *barriers, float *RESTRICT y, float *RESTRICT scores,
                         int thread) {
  const int warp = thread / 32, lane = thread % 32, g = GROUP(lane), t = MEMBER(lane);
  const int slot = first % MAP_SLOTS, images = last - first + 1;
  float *const maps = (float *)(whole + MAPS_AT) + slot * VALUES, *const partial = (float *)(whole + PARTIAL_AT);
  const float *const weights = (const float *)(whole + LAST_AT), *const bias_1 = weights + CLASSES * HIDDEN;
  const float *const bias_2 = bias_1 + HIDDEN;
  for (int m = first; m <= last; m++) wait_for(&barriers->full_3[m % MAP_SLOTS], m / MAP_SLOTS % 2);
  sync_input();  // for the weights that others wrote, and the sums that they read
  float c[2][2][4] = {};
  // A lane has four values side by side, for two products: the order of a product's eight values is free.
#pragma unroll 3
  for (int k = warp * (VALUES / INPUT_WARPS) + t * 4; k < (warp + 1) * (VALUES / INPUT_WARPS); k += 16) {
    const float4 value = *(const float4 *)(maps + g % DENSE_IMAGES * VALUES + k);
    const unsigned int b[4] = {rounded(value.x), rounded(value.y), rounded(value.z), rounded(value.w)};
#pragma unroll
    for (int m = 0; m < 2; m++) {
      const char *from = whole + DENSE_AT + ((m * 16 + g) * VALUES + k) * 2;
      const uint2 upper = *(const uint2 *)from, lower = *(const uint2 *)(from + 8 * VALUES * 2);
      const float one[4] = {first_half(upper.x), first_half(lower.x), second_half(upper.x), second_half(lower.x)};
      const float two[4] = {first_half(upper.y), first_half(lower.y), second_half(upper.y), second_half(lower.y)};
      dense_product(c[m][0], one, b[0], b[1]);
      dense_product(c[m][1], two, b[2], b[3]);
    }
  }
#pragma unroll
  for (int k = 0; k < 8; k++) {
    const int m = k / 4, image = 2 * t + k % 2, hidden = m * 16 + k / 2 % 2 * 8 + g;
    if (image < DENSE_IMAGES) partial[(warp * DENSE_IMAGES + image) * HIDDEN + hidden] = c[m][0][k % 4] + c[m][1][k % 4];
  }
  sync_input();
  for (int k = thread; k < DENSE_IMAGES * HIDDEN; k += INPUT_THREADS) {
    float sum = bias_1[k % HIDDEN];
#pragma unroll
    for (int w = 0; w < INPUT_WARPS; w++) sum += partial[w * (DENSE_IMAGES * HIDDEN) + k];
    partial[k] = sum < 0.0f ? 0.0f : sum;
  }
  sync_input();
  if (thread < images * CLASSES) {
    const int image = thread / CLASSES, o = thread % CLASSES;
    float score = bias_2[o];
#pragma unroll
    for (int i = 0; i < HIDDEN; i++) score += weights[o * HIDDEN + i] * partial[image * HIDDEN + i];
    scores[image_number(first + image) * CLASSES + o] = score;
  }
  for (int k = thread; k < images * (VALUES / 4); k += INPUT_THREADS) {
    const int image = k / (VALUES / 4), at = k % (VALUES / 4) * 4;
    float4 *from = (float4 *)(maps + image * VALUES + at);
    *(float4 *)(y + image_number(first + image) * VALUES + at) = *from;
    *from = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
  for (int m = first; m <= last; m++) arrive(&barriers->empty_3[m % MAP_SLOTS]);
}

// Returns two numbers of a step's weights of layer 1, k and k + 1 of row m of the 64; `weights` is in shared memory. A thread's rows m
// and m + 8 (picture in hopper.h) are neighbouring outputs of a row of the image; bit 2 of m is the row of the two.
DEVICE unsigned int weights_1(const float *weights, int step, int m, int k) {
  float two[2];
#pragma unroll
  for (int e = 0; e < 2; e++) {
    const int filter = m / 16, p = step - m / 4 % 2, q = k + e - (m % 4 * 2 + m / 8 % 2);
    two[e] = p >= 0 && p < TAPS && q >= 0 && q < TAPS ? weights[(filter * TAPS + p) * TAPS + q] : 0.0f;
  }
  return two_halves(two[0], two[1]);
}

// The same of layer 2. A step is half a row of the input: 4 pixels with their channels.
DEVICE unsigned int weights_2(const float *weights, int step, int m, int k) {
  float two[2];
#pragma unroll
  for (int e = 0; e < 2; e++) {
    const int filter = m / 16 * 4 + m % 4, p = step / 2 - m / 4 % 2, q = step % 2 * 4 + k / 4 - m / 8 % 2;
    const int known = p >= 0 && p < TAPS && q >= 0 && q < TAPS;
    two[e] = known ? weights[((filter * CHANNELS_2 + k % 4 + e) * TAPS + p) * TAPS + q] : 0.0f;
  }
  return two_halves(two[0], two[1]);
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

// Applies ReLU and pool to a tile of layer 1, and stores it as operands of layer 2. A window's columns are in one thread, its rows 16
// lanes apart. The two lanes of a row pair have two windows; each keeps one of them. to: offset of each, or -1 of one beyond the row.
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
  wait_for(&barriers->kernels, 0);
#pragma unroll
  for (int step = 0; step < STEPS_1; step++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      a[step][i] = weights_1((const float *)(whole + KERNELS_AT), step, warp * 16 + g + i % 2 * 8, 2 * t + i / 2 * 8);
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

// Applies ReLU and pool to a tile of layer 2. Two columns of the product are the four columns of a window; two of its rows are 16 lanes
// apart, and the others in another place, so that the windows in shared memory take the largest of both. They begin with zero, and
// numbers above zero are in the order of their bits. A row has ten windows: only the left half of the ninth is on the image, and the
// tenth is dropped. Each of two lanes keeps one window of two.
DEVICE void pool_tile(const float (&c)[44], float *maps, int tile, int warp, int lane) {
  const int g = GROUP(lane), t = MEMBER(lane), lower = lane / 16;
  int *const map = (int *)maps + (warp * 4 + g % 4) * (POOLED_2 * POOLED_2);
  float best[COLUMNS / 8 + 1];
#pragma unroll
  for (int j = 0; j < COLUMNS / 8; j++) {
    const float left = fmaxf(c[4 * j], c[4 * j + 2]), right = fmaxf(c[4 * j + 1], c[4 * j + 3]);
    best[j] = (tile * (COLUMNS / 2) + 4 * j + t) % (PLACES_2 / 2) == POOLED_2 - 1 ? left : fmaxf(left, right);
  }
  best[COLUMNS / 8] = 0.0f;
#pragma unroll
  for (int j = 0; j < COLUMNS / 8; j += 2) {
    const float other = __shfl_xor_sync(0xffffffff, lower ? best[j] : best[j + 1], 16);
    const float value = fmaxf(lower ? best[j + 1] : best[j], other);
    const int n = tile * (COLUMNS / 2) + 4 * (j + lower) + t, pair = n / (PLACES_2 / 2), across = n % (PLACES_2 / 2);
    const int known = across < POOLED_2 && pair < PAIRS_2 && j + lower < COLUMNS / 8;
    if (known) ATOMIC_MAX(map + pair / 2 * POOLED_2 + across, __float_as_int(value));
  }
}

// Computes every other tile of layer 2 of all images, from tile `part` on.
DEVICE void layer_2(char *whole, Barriers *barriers, int images, int part, int thread) {
  const int warp = thread / 32, lane = thread % 32, g = GROUP(lane), t = MEMBER(lane);
  unsigned int a[STEPS_2][4];
  wait_for(&barriers->kernels, 0);
#pragma unroll
  for (int step = 0; step < STEPS_2; step++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float *weights = (const float *)(whole + KERNELS_AT) + FILTERS_1 * TAPS * TAPS;
      a[step][i] = weights_2(weights, step, warp * 16 + g + i % 2 * 8, 2 * t + i / 2 * 8);
    }
  }
#pragma unroll 1
  for (int n = 0; n < images; n++) {
    const int slot = n % SLOTS, turn = n / SLOTS;
    const char *pooled = whole + POOLED_AT + slot * PIXELS_2;
    float *maps = (float *)(whole + MAPS_AT) + n % MAP_SLOTS * VALUES;
#pragma unroll 1
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
      pool_tile(c, maps, tile, warp, lane);
    }
    arrive(&barriers->full_3[n % MAP_SLOTS]);
  }
}

// Converts all images, and computes scores, two images behind.
DEVICE void input_and_dense(char *whole, Barriers *barriers, int images, float *RESTRICT y, float *RESTRICT scores, int thread) {
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
    if (last >= 0 && (last % DENSE_IMAGES == DENSE_IMAGES - 1 || last == images - 1)) {
      dense_layers(last / DENSE_IMAGES * DENSE_IMAGES, last, whole, barriers, y, scores, thread);
    }
  }
}

KERNEL_OF(WARPGROUPS * 128, 1) void roles(const float *RESTRICT x, float *RESTRICT y, float *RESTRICT scores, int count,
                                          const float *RESTRICT conv1, const float *RESTRICT conv2, const float *RESTRICT fc1,
                                          const float *RESTRICT fc1_bias, const float *RESTRICT fc2,
                                          const float *RESTRICT fc2_bias) {
  extern __shared__ __align__(128) char whole[];
  Barriers *const barriers = (Barriers *)(whole + BARRIERS_AT);
  const int group = threadIdx.x / 128, thread = threadIdx.x % 128, fetches = group == INPUT && thread == INPUT_THREADS;
  const int images = number_of_images(count), chunks = images * CHUNKS + DENSE_CHUNKS;
  const Order order = order_of(images);
  if (fetches) {
    init_barrier(&barriers->kernels, 1);
    INIT_RING(barriers->fetched, barriers->read, RING, INPUT_THREADS);
    publish_barriers();
    publish_writes();
    for (int k = 0; k < CHUNKS; k++) fetch(k, order, whole + RING_AT, barriers, x, fc1);
    char *kernels = whole + KERNELS_AT;
    expect_bytes(&barriers->kernels, KERNEL_FLOATS * 4);
    tma_load_bytes(kernels, conv1, FILTERS_1 * TAPS * TAPS * 4, &barriers->kernels);
    tma_load_bytes(kernels + FILTERS_1 * TAPS * TAPS * 4, conv2, FILTERS_2 * CHANNELS_2 * TAPS * TAPS * 4, &barriers->kernels);
    for (int k = CHUNKS; k < RING; k++) fetch(k, order, whole + RING_AT, barriers, x, fc1);
    for (int slot = 0; slot < SLOTS; slot++) {
      for (int chunk = 0; chunk < CHUNKS; chunk++) init_barrier(&barriers->full_1[slot][chunk], INPUT_THREADS);
      for (int tile = 0; tile < TILES_1; tile++) init_barrier(&barriers->full_2[slot][tile], 128);
      init_barrier(&barriers->empty_1[slot], 128);
      init_barrier(&barriers->empty_2[slot], 256);
    }
    for (int slot = 0; slot < MAP_SLOTS; slot++) {
      init_barrier(&barriers->full_3[slot], 256);
      init_barrier(&barriers->empty_3[slot], INPUT_THREADS);
    }
    publish_barriers();
  }
  for (int k = threadIdx.x; k < DENSE_AT / 16; k += WARPGROUPS * 128) *(uint4 *)(whole + k * 16) = make_uint4(0, 0, 0, 0);
  float *last = (float *)(whole + LAST_AT);
  for (int k = threadIdx.x; k < CLASSES * HIDDEN + HIDDEN + CLASSES; k += WARPGROUPS * 128) {
    const int bias = k - CLASSES * HIDDEN;
    last[k] = bias < 0 ? fc2[k] : bias < HIDDEN ? fc1_bias[bias] : fc2_bias[bias - HIDDEN];
  }
  publish_writes();
  __syncthreads();
  if (group == INPUT) {
    FEWER_REGISTERS(72);
    if (fetches) {
      for (int k = RING; k < chunks; k++) {
        wait_for(&barriers->read[k % RING], (k / RING - 1) % 2);
        fetch(k, order, whole + RING_AT, barriers, x, fc1);
      }
    }
    if (thread < INPUT_THREADS) input_and_dense(whole, barriers, images, y, scores, thread);
  } else if (group == CONV_1) {
    MORE_REGISTERS(152);
    layer_1(whole, barriers, images, thread);
  } else {
    MORE_REGISTERS(144);
    layer_2(whole, barriers, images, group - CONV_2, thread);
  }
}
