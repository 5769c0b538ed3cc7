// CUDA C++, and OpenCL C, for a host's C++ compiler: a thread of the host for each thread of all blocks, which run at once. Its
// barriers are known to ThreadSanitizer, so that it reports accesses that no barrier orders. Words between blocks are relaxed
// atomics, which order nothing.
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <algorithm>
#include <atomic>
#include <vector>
using std::max;
using std::min;
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __fmaf_rn fmaf
static float __fmul_rn(float a, float b) { return a * b; }
static float __fadd_rn(float a, float b) { return a + b; }
struct ulonglong2 {
  unsigned long long x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
typedef std::atomic<unsigned long long> Half;
#define __kernel
#define __global
#define __local
#define reqd_work_group_size(...)
#define CLK_LOCAL_MEM_FENCE 0
#define get_local_id(d) threadIdx.x
#define get_group_id(d) blockIdx.x

struct Barrier {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t all_here = PTHREAD_COND_INITIALIZER;
  int here = 0, turn = 0;
  void wait(int all) {
    pthread_mutex_lock(&mutex);
    const int before = turn;
    if (++here == all) {
      here = 0;
      turn++;
      pthread_cond_broadcast(&all_here);
    }
    while (turn == before) pthread_cond_wait(&all_here, &mutex);
    pthread_mutex_unlock(&mutex);
  }
};
struct Warp {
  Barrier barrier;
  int votes[32];
  float values[32];
};
struct Block {
  char *shared;
  Barrier barriers[16];
  std::vector<Warp> warps;
};
static thread_local struct {
  int x;
} threadIdx, blockIdx;
static Block *blocks;
static thread_local Block *block_of_thread;
static thread_local Warp *warp_of_thread;
static int threads_of_block;

static void __syncthreads() { block_of_thread->barriers[0].wait(threads_of_block); }
static void __syncwarp() { warp_of_thread->barrier.wait(32); }
static int __any_sync(unsigned, int vote) {
  warp_of_thread->votes[threadIdx.x % 32] = vote;
  __syncwarp();
  const int *votes = warp_of_thread->votes, any = std::any_of(votes, votes + 32, [](int one) { return one != 0; });
  __syncwarp();
  return any;
}
static int __all_sync(unsigned, int vote) { return !__any_sync(0, !vote); }
static float __shfl_down_sync(unsigned, float value, int apart) {
  const int lane = threadIdx.x % 32;
  warp_of_thread->values[lane] = value;
  __syncwarp();
  const float other = warp_of_thread->values[lane + apart < 32 ? lane + apart : lane];
  __syncwarp();
  return other;
}
#ifdef OPENCL
static float native_recip(float x) { return 1.0f / x; }
static float native_sqrt(float x) { return sqrtf(x); }
#endif
static void barrier(int) { __syncthreads(); }
static float of_lane(float value, int apart) {
  const int lane = threadIdx.x % 32;
  warp_of_thread->values[lane] = value;
  __syncwarp();
  const float other = warp_of_thread->values[lane ^ apart];
  __syncwarp();
  return other;
}
static unsigned __float_as_uint(float value) {
  unsigned word;
  memcpy(&word, &value, 4);
  return word;
}
static float __uint_as_float(unsigned word) {
  float value;
  memcpy(&value, &word, 4);
  return value;
}
// Words of three floats and a tag. The half with the tag is written last and read first.
static unsigned long long in_half(unsigned low, unsigned high) { return (unsigned long long)high << 32 | low; }
static void store_word(void *word, float a, float b, float c, unsigned tag) {
  ((Half *)word)[0].store(in_half(__float_as_uint(a), __float_as_uint(b)), std::memory_order_relaxed);
  ((Half *)word)[1].store(in_half(__float_as_uint(c), tag), std::memory_order_relaxed);
}
static void load_word(float &a, float &b, float &c, unsigned &tag, const void *word) {
  sched_yield();
  const unsigned long long high = ((const Half *)word)[1].load(std::memory_order_relaxed);
  const unsigned long long low = ((const Half *)word)[0].load(std::memory_order_relaxed);
  a = __uint_as_float((unsigned)low);
  b = __uint_as_float((unsigned)(low >> 32));
  c = __uint_as_float((unsigned)high);
  tag = high >> 32;
}
// A counter of all blocks.
typedef std::atomic<int> Counter;
static int load_count(int *counter) {
  sched_yield();
  return ((Counter *)counter)->load(std::memory_order_relaxed);
}
static int replace_count(int *counter, int seen, int next) {
  ((Counter *)counter)->compare_exchange_strong(seen, next, std::memory_order_relaxed);
  return seen;
}
static size_t __cvta_generic_to_shared(const void *pointer) { return (const char *)pointer - block_of_thread->shared; }
static float *shared_at(unsigned address) { return (float *)(block_of_thread->shared + address); }

// The kernel that a test runs, with its arguments.
static void run_thread();
static void *start(void *number) {
  threadIdx.x = (long)number % threads_of_block;
  blockIdx.x = (long)number / threads_of_block;
  block_of_thread = blocks + blockIdx.x;
  warp_of_thread = &block_of_thread->warps[threadIdx.x / 32];
  run_thread();
  return nullptr;
}

// Runs all threads of all blocks. Shared memory is NaN to begin with.
static void launch(int count, int threads, size_t shared_bytes) {
  threads_of_block = threads;
  blocks = new Block[count];
  for (int b = 0; b < count; b++) {
    blocks[b].shared = (char *)malloc(shared_bytes);
    memset(blocks[b].shared, 0xff, shared_bytes);
    std::vector<Warp> warps(threads / 32);
    blocks[b].warps.swap(warps);
  }
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 128 << 10);
  std::vector<pthread_t> started(count * threads);
  for (long number = 0; number < count * threads; number++) {
    if (pthread_create(&started[number], &attributes, start, (void *)number)) {
      perror("a thread");
      exit(2);
    }
  }
  for (pthread_t thread : started) pthread_join(thread, nullptr);
}
