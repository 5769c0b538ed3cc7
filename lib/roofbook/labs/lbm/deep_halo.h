// What the kernels with a deep halo share: their shape, populations in shared memory, and the words that blocks send each other.
#pragma once
constexpr int WIDE = TILE_X + 2 * DEPTH, CELLS = WIDE * (TILE_Y + 2 * DEPTH);
constexpr int THREADS = (CELLS + 31) / 32 * 32;           // that have a cell
constexpr int RING = WIDE + 1;                            // from a cell to its north-eastern neighbour
constexpr int PLANE = THREADS + 2 * RING, EIGHT = 8 * PLANE; // a population, and the eight of a step, in shared memory
constexpr int TILE = TILE_X * TILE_Y, GRID_CELLS = NX * NY, BLOCKS = GRID_CELLS / TILE;

static __device__ __forceinline__ void send(ulonglong2 *word, float a, float b, float c, unsigned tag) {
  const unsigned long long low = (unsigned long long)__float_as_uint(b) << 32 | __float_as_uint(a);
  const unsigned long long high = (unsigned long long)tag << 32 | __float_as_uint(c);
  asm volatile("{.reg .b128 word; mov.b128 word, {%1, %2}; st.relaxed.gpu.global.b128 [%0], word;}" ::"l"(word), "l"(low),
               "l"(high)
               : "memory");
}
static __device__ __forceinline__ ulonglong2 look(const ulonglong2 *word) {
  ulonglong2 seen;
  asm volatile("{.reg .b128 word; ld.relaxed.gpu.global.b128 word, [%2]; mov.b128 {%0, %1}, word;}"
               : "=l"(seen.x), "=l"(seen.y)
               : "l"(word)
               : "memory");
  return seen;
}
static __device__ __forceinline__ bool is_of(ulonglong2 word, unsigned tag) { return (unsigned)(word.y >> 32) == tag; }
static __device__ __forceinline__ void unpack(ulonglong2 word, float &a, float &b, float &c) {
  a = __uint_as_float((unsigned)word.x);
  b = __uint_as_float((unsigned)(word.x >> 32));
  c = __uint_as_float((unsigned)word.y);
}
// A population of the cell whose place in shared memory is given, or of one so many cells further.
template <int K> static __device__ __forceinline__ void put(unsigned place, float value) {
  asm volatile("st.shared.f32 [%0 + %1], %2;" ::"r"(place), "n"(4 * (K - 1) * PLANE), "f"(value) : "memory");
}
template <int K, int FURTHER> static __device__ __forceinline__ float get(unsigned place) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1 + %2];"
               : "=f"(value)
               : "r"(place), "n"(4 * ((K - 1) * PLANE + FURTHER))
               : "memory");
  return value;
}
// A barrier for so many threads, whole warps: number 1 for those that have a cell, 0 for the warp that adds up as well.
template <int NUMBER, int COUNT> static __device__ __forceinline__ void meet() {
  __syncwarp();
  asm volatile("bar.sync %0, %1;" ::"n"(NUMBER), "n"(COUNT) : "memory");
}
// The sums of a round's steps, by a warp.
static __device__ void add_up(const float (*speeds)[TILE], int round, int steps, float *sums) {
  for (int j = 0; j < DEPTH; j++) {
    float sum = 0.0f;
    for (int cell = threadIdx.x % 32; cell < TILE; cell += 32) {
      sum += speeds[round % 2 * DEPTH + j][cell];
    }
    for (int reach = 16; reach > 0; reach /= 2) {
      sum += __shfl_down_sync(0xffffffff, sum, reach);
    }
    if (threadIdx.x % 32 == 0 && round * DEPTH + j < steps) {
      sums[(round * DEPTH + j) * BLOCKS + blockIdx.x] = sum;
    }
  }
}
