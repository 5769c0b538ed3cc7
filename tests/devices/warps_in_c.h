// OpenCL C with PTX in it, for a C compiler: work-items are coroutines of one thread, which take turns at barriers, and a
// warp's instructions exchange their operands through `Warp`.
#include <math.h>
#include <setjmp.h>
#include <stdbool.h>
#include <string.h>
#include <ucontext.h>
#define __kernel
#define __global
#define restrict
#define CLK_LOCAL_MEM_FENCE
#define half _Float16
#define vload_half(i, pointer) ((float)(pointer)[i])
#define vstore_half_rte(value, i, pointer) ((pointer)[i] = (half)(value))
#define native_recip(x) (1.0f / (x))
#define native_sqrt(x) sqrtf(x)
#define MOST_ITEMS 512
#define STACK 32768
typedef struct { unsigned int x, y, z, w; } __attribute__((aligned(16))) uint4;
typedef struct { unsigned int x, y; } uint2;
typedef struct { float x, y; } float2;
typedef struct { float x, y, z, w; } float4;
typedef struct { unsigned int lines[32], a[16][8], b[8][8]; float values[32]; int arrived, turn; } Warp;
static Warp warp_of_items[MOST_ITEMS / 32];
static jmp_buf scheduler, places[MOST_ITEMS];
static char stacks[MOST_ITEMS][STACK];
static int item, items, group, groups, ended, arrived, turn;
static void (*kernel)(void);

static int get_local_id(int d) { return d ? 0 : item; }
static int get_group_id(int d) { return d ? 0 : group; }
static int get_global_id(int d) { return d ? 0 : group * items + item; }
static int get_num_groups(int d) { return d ? 1 : groups; }
static int get_local_size(int d) { return d ? 1 : items; }

// Goes from a place to another, by longjmp, which asks nothing of the system.
static void go(jmp_buf from, jmp_buf to) {
  if (!_setjmp(from)) _longjmp(to, 1);
}

static void wait(int *count, int *number, int all) {
  const int before = *number, self = item;
  if (++*count == all) {
    *count = 0;
    ++*number;
  } else {
    while (*number == before) go(places[self], scheduler);
  }
}
static void barrier() { wait(&arrived, &turn, items); }
static void wait_for_warp(Warp *warp) { wait(&warp->arrived, &warp->turn, 32); }

// Addresses of local memory are distances from here.
static char origin[16];
#define LOCAL_AT(address) (origin + (int)(address))

// ldmatrix: four matrices of eight lines; out: a word of each.
static void load_matrices(unsigned int **out, unsigned int address) {
  Warp *warp = &warp_of_items[item / 32];
  const int lane = item % 32;
  warp->lines[lane] = address;
  wait_for_warp(warp);
  for (int k = 0; k < 4; k++) memcpy(out[k], LOCAL_AT(warp->lines[8 * k + lane / 4]) + lane % 4 * 4, 4);
  wait_for_warp(warp);
}

// The product of two words: four bytes, two fp16, or one TF32.
static double dot(const char *name, unsigned int a, unsigned int b) {
  double sum = 0;
  if (strstr(name, ".s8.")) {
    for (int k = 0; k < 4; k++) sum += (signed char)(a >> 8 * k) * (signed char)(b >> 8 * k);
  } else if (strstr(name, ".f16.")) {
    half x[2], y[2];
    memcpy(x, &a, 4);
    memcpy(y, &b, 4);
    sum = (double)x[0] * y[0] + (double)x[1] * y[1];
  } else {
    float x, y;
    a &= 0xFFFFE000u;
    b &= 0xFFFFE000u;
    memcpy(&x, &a, 4);
    memcpy(&y, &b, 4);
    sum = (double)x * y;
  }
  return sum;
}

// mma: operands as mma.h pictures them; in: a, b, and c if the sums begin with others than `out`.
static void multiply(const char *name, void **out, const unsigned int *in, int begins_with_zero) {
  Warp *warp = &warp_of_items[item / 32];
  const int lane = item % 32, line = lane / 4, word = lane % 4;
  for (int k = 0; k < 4; k++) warp->a[line + k % 2 * 8][word + k / 2 * 4] = in[k];
  warp->b[line][word] = in[4];
  warp->b[line][word + 4] = in[5];
  wait_for_warp(warp);
  for (int k = 0; k < 4; k++) {
    double sum = 0;
    for (int n = 0; n < 8; n++) sum += dot(name, warp->a[line + k / 2 * 8][n], warp->b[2 * word + k % 2][n]);
    if (strstr(name, ".s32")) *(int *)out[k] = (begins_with_zero ? 0 : *(int *)out[k]) + (int)sum;
    else *(float *)out[k] = (begins_with_zero ? 0 : *(float *)out[k]) + (float)sum;
  }
  wait_for_warp(warp);
}

// shfl.sync.bfly: the value of another lane.
static float of_lane(float value, int apart) {
  Warp *warp = &warp_of_items[item / 32];
  warp->values[item % 32] = value;
  wait_for_warp(warp);
  const float other = warp->values[item % 32 ^ apart];
  wait_for_warp(warp);
  return other;
}

// st.relaxed and ld.relaxed of 16 bytes: three floats and a tag.
static void store_word(uint4 *word, float a, float b, float c, unsigned int tag) {
  memcpy(&word->x, &a, 4);
  memcpy(&word->y, &b, 4);
  memcpy(&word->z, &c, 4);
  word->w = tag;
}
static void load_word(float *a, float *b, float *c, unsigned int *tag, const uint4 *word) {
  memcpy(a, &word->x, 4);
  memcpy(b, &word->y, 4);
  memcpy(c, &word->z, 4);
  *tag = word->w;
}

// cvt.rn.f16x2.f32: the first number in the upper half.
static unsigned int two_in_word(float upper, float lower) {
  const half both[2] = {(half)lower, (half)upper};
  unsigned int word;
  memcpy(&word, both, 4);
  return word;
}

static void run_item(void) {
  const int self = item;
  go(places[self], scheduler);
  kernel();
  ended++;
  for (;;) go(places[self], scheduler);
}

static void launch(void (*function)(void), int count, int size) {
  kernel = function;
  groups = count;
  items = size;
  for (group = 0; group < groups; group++) {
    for (item = ended = 0; item < items; item++) {
      ucontext_t context;
      getcontext(&context);
      context.uc_stack.ss_sp = stacks[item];
      context.uc_stack.ss_size = STACK;
      makecontext(&context, run_item, 0);
      if (!_setjmp(scheduler)) setcontext(&context);
    }
    while (ended < items)
      for (item = 0; item < items; item++) go(scheduler, places[item]);
  }
}
