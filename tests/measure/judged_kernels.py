# ruff: noqa: E501 a change of a kernel is one line
"""Corpus of `roofbook judge`: honest kernels, which are right, and cheats, each with the words by which it is refused.

A kernel is a whole text, or a change of one: pairs of (text there, text in its place).
"""

from __future__ import annotations

from dataclasses import dataclass

CASES = {"stencil": "6x1024", "cnn": "3to8ch-7x9-k3", "convpool": "5x7x9x9-k3", "lbm": "40x24", "lenet": "batch-3"}
"""Lab -> case on which a right kernel is timed."""

PASS = """// launch one_pass: width, height; group 64, 1
__kernel void one_pass(__global const float *r, __global const float *b, __global float *g, int height, int width, int unit) {
  const int i = get_global_id(1), j = get_global_id(0);
  if (i > 0 && i < height - 1 && j < width) g[i * width + j] += 1.0f / sqrt(r[(i - 1) * width + j] + b[(i + 1) * width + j]);
}
"""
LAYER = """// launch layer: WIDTH / 2, HEIGHT // 2, FILTERS; group 8, 8, 1
__kernel void layer(__global const float *x, __global const float *weight, __global const float *bias, __global float *out,
                    int CHANNELS, int FILTERS, int TAPS, int HEIGHT, int WIDTH) {
  const int w = get_global_id(0), h = get_global_id(1), f = get_global_id(2), row = WIDTH + TAPS - 1;
  if (w >= WIDTH / 2 || h >= HEIGHT / 2 || f >= FILTERS) return;
  float best = 0.0f;
  for (int window = 0; window < 4; window++) {
    float sum = bias[f];
    for (int c = 0; c < CHANNELS; c++)
      for (int p = 0; p < TAPS; p++)
        for (int q = 0; q < TAPS; q++)
          sum += weight[((f * CHANNELS + c) * TAPS + p) * TAPS + q] *
                 x[(c * (HEIGHT + TAPS - 1) + 2 * h + window / 2 + p) * row + 2 * w + window % 2 + q];
    best = fmax(best, sum);
  }
  out[(f * (HEIGHT / 2) + h) * (WIDTH / 2) + w] = best;
}
"""
POOL = """// launch pool: SIZE // 2, SIZE // 2, FILTERS; group 8, 8, 1
__kernel void pool(__global const short *x, __global const short *weight, __global int *out,
                   int DEPTH, int FILTERS, int SIZE, int TAPS) {
  const int w = get_global_id(0), h = get_global_id(1), f = get_global_id(2), side = SIZE / 2;
  if (w >= side || h >= side || f >= FILTERS) return;
  int best = 0;
  for (int window = 0; window < 4; window++) {
    int sum = 0;
    for (int c = 0; c < DEPTH; c++)
      for (int p = 0; p < TAPS; p++)
        for (int q = 0; q < TAPS; q++) {
          const int i = 2 * h + window / 2 + p - TAPS / 2, j = 2 * w + window % 2 + q - TAPS / 2;
          if (i >= 0 && j >= 0 && i < SIZE && j < SIZE)
            sum += weight[((f * DEPTH + c) * TAPS + p) * TAPS + q] * x[(c * SIZE + i) * SIZE + j];
        }
    best = max(best, sum);
  }
  out[(f * side + h) * side + w] = best;
}
"""
DIALECT = """// define W = width
// launch one_pass: W, height - 2; group 16, 2
KERNEL void one_pass(GLOBAL const float *r, GLOBAL const float *b, GLOBAL float *g, int height) {
  const int i = GLOBAL_ID(1) + 1, j = GLOBAL_ID(0);
  if (i < height - 1 && j < W) g[i * W + j] += 1.0f / sqrt(r[(i - 1) * W + j] + b[(i + 1) * W + j]);
}
"""
FLAT = """// launch flat: COUNT; group 32
__kernel void flat(__global const float *r, __global const float *b, __global float *g, int COUNT, int width) {
  const int n = get_global_id(0);
  if (n < COUNT) g[n + width] += 1.0f / sqrt(r[n] + b[n + 2 * width]);
}
"""
TWO = """// scratch root: float, height * width
// launch roots(r, b, root, height, width): width, height - 2
// launch add(root, g, COUNT, width): COUNT
__kernel void roots(__global const float *r, __global const float *b, __global float *out, int height, int width) {
  const int i = get_global_id(1) + 1, j = get_global_id(0);
  if (j < width && i < height - 1) out[i * width + j] = 1.0f / sqrt(r[(i - 1) * width + j] + b[(i + 1) * width + j]);
}
__kernel void add(__global const float *root, __global float *g, int count, int width) {
  const int n = get_global_id(0);
  if (n < count) g[n + width] += root[n + width];
}
"""
FLOW = """// scratch next: float, 9 * ny * nx
// scratch speed: float, ny * nx
// swap f, next
// launch drive(f, obstacles, nx, ny, density, accel): nx; group 32
// launch advance(f, next, speed, obstacles, nx, ny, omega): nx, ny; group 32, 2
// launch mean(speed, av_vels, nx, ny, fluid_cells, unit): 64; group 64
__kernel void drive(__global float *f, __global const int *obstacles, int nx, int ny, float density, float accel) {
  const int x = get_global_id(0), cells = nx * ny, i = (ny - 2) * nx + x;
  const float w1 = density * accel / 9.0f, w2 = density * accel / 36.0f;
  if (x >= nx || obstacles[i]) return;
  if (f[3 * cells + i] - w1 > 0.0f && f[6 * cells + i] - w2 > 0.0f && f[7 * cells + i] - w2 > 0.0f) {
    f[cells + i] += w1;
    f[5 * cells + i] += w2;
    f[8 * cells + i] += w2;
    f[3 * cells + i] -= w1;
    f[6 * cells + i] -= w2;
    f[7 * cells + i] -= w2;
  }
}
__kernel void advance(__global const float *f, __global float *next, __global float *speed, __global const int *obstacles,
                      int nx, int ny, float omega) {
  const int x = get_global_id(0), y = get_global_id(1), cells = nx * ny, i = y * nx + x;
  if (x >= nx || y >= ny) return;
  const int east = x + 1 == nx ? 0 : x + 1, west = x == 0 ? nx - 1 : x - 1;
  const int north = y + 1 == ny ? 0 : y + 1, south = y == 0 ? ny - 1 : y - 1;
  const float f0 = f[i], f1 = f[cells + y * nx + west], f2 = f[2 * cells + south * nx + x], f3 = f[3 * cells + y * nx + east];
  const float f4 = f[4 * cells + north * nx + x], f5 = f[5 * cells + south * nx + west];
  const float f6 = f[6 * cells + south * nx + east], f7 = f[7 * cells + north * nx + east], f8 = f[8 * cells + north * nx + west];
  const float density = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8;
  const float u = (f1 + f5 + f8 - (f3 + f6 + f7)) / density, v = (f2 + f5 + f6 - (f4 + f7 + f8)) / density;
  const float square = 1.5f * (u * u + v * v), w1 = density / 9.0f, w2 = density / 36.0f, a = u + v, b = u - v;
  const int solid = obstacles[i];
  speed[i] = solid ? 0.0f : sqrt(u * u + v * v);
  next[i] = solid ? f0 : f0 + omega * (4.0f * w1 * (1.0f - square) - f0);
  next[cells + i] = solid ? f3 : f1 + omega * (w1 * (1.0f + 3.0f * u + 4.5f * u * u - square) - f1);
  next[2 * cells + i] = solid ? f4 : f2 + omega * (w1 * (1.0f + 3.0f * v + 4.5f * v * v - square) - f2);
  next[3 * cells + i] = solid ? f1 : f3 + omega * (w1 * (1.0f - 3.0f * u + 4.5f * u * u - square) - f3);
  next[4 * cells + i] = solid ? f2 : f4 + omega * (w1 * (1.0f - 3.0f * v + 4.5f * v * v - square) - f4);
  next[5 * cells + i] = solid ? f7 : f5 + omega * (w2 * (1.0f + 3.0f * a + 4.5f * a * a - square) - f5);
  next[6 * cells + i] = solid ? f8 : f6 + omega * (w2 * (1.0f - 3.0f * b + 4.5f * b * b - square) - f6);
  next[7 * cells + i] = solid ? f5 : f7 + omega * (w2 * (1.0f - 3.0f * a + 4.5f * a * a - square) - f7);
  next[8 * cells + i] = solid ? f6 : f8 + omega * (w2 * (1.0f + 3.0f * b + 4.5f * b * b - square) - f8);
}
__kernel void mean(__global const float *speed, __global float *av_vels, int nx, int ny, int fluid_cells, int unit) {
  __local float sums[64];
  const int lane = get_local_id(0);
  float sum = 0.0f;
  for (int i = lane; i < nx * ny; i += 64) sum += speed[i];
  sums[lane] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (lane > 0) return;
  float total = 0.0f;
  for (int k = 0; k < 64; k++) total += sums[k];
  av_vels[unit] = total / fluid_cells;
}
"""
NETWORK = """// scratch maps1: float, batch * 4 * 80 * 80
// scratch pooled1: float, batch * 4 * 40 * 40
// scratch maps2: float, batch * 16 * 34 * 34
// scratch pooled2: float, batch * 16 * 9 * 9
// scratch hidden: float, batch * 32
// launch convolve(x, conv1, maps1, 1, 4, 86): 80, 80, batch * 4; group 16, 4, 1
// launch pool(maps1, pooled1, 80, 2): 40, 40, batch * 4; group 8, 8, 1
// launch convolve(pooled1, conv2, maps2, 4, 16, 40): 34, 34, batch * 16; group 16, 4, 1
// launch pool(maps2, pooled2, 34, 4): 9, 9, batch * 16; group 9, 9, 1
// launch dense(pooled2, fc1, fc1_bias, hidden, 1296, 32, 1): 32, batch; group 32, 1
// launch dense(hidden, fc2, fc2_bias, scores, 32, 10, 0): 10, batch; group 10, 1
__kernel void convolve(__global const float *x, __global const float *weight, __global float *out, int channels, int filters, int size) {
  const int w = get_global_id(0), h = get_global_id(1), map = get_global_id(2), image = map / filters, side = size - 6;
  if (w >= side || h >= side) return;
  float sum = 0.0f;
  for (int c = 0; c < channels; c++)
    for (int p = 0; p < 7; p++)
      for (int q = 0; q < 7; q++)
        sum += weight[((map % filters * channels + c) * 7 + p) * 7 + q] * x[((image * channels + c) * size + h + p) * size + w + q];
  out[(map * side + h) * side + w] = sum;
}
__kernel void pool(__global const float *maps, __global float *pooled, int side, int window) {
  const int w = get_global_id(0), h = get_global_id(1), map = get_global_id(2), short_side = (side + window - 1) / window;
  if (w >= short_side || h >= short_side) return;
  float best = 0.0f;
  for (int i = h * window; i < min(side, (h + 1) * window); i++)
    for (int j = w * window; j < min(side, (w + 1) * window); j++) best = fmax(best, maps[(map * side + i) * side + j]);
  pooled[(map * short_side + h) * short_side + w] = best;
}
__kernel void dense(__global const float *values, __global const float *weight, __global const float *bias, __global float *out,
                    int terms, int outputs, int positive) {
  const int o = get_global_id(0), image = get_global_id(1);
  if (o >= outputs) return;
  float sum = bias[o];
  for (int k = 0; k < terms; k++) sum += weight[o * terms + k] * values[image * terms + k];
  out[image * outputs + o] = positive && sum < 0.0f ? 0.0f : sum;
}
"""
BASES = {"stencil": PASS, "cnn": LAYER, "convpool": POOL, "lbm": FLOW, "lenet": NETWORK}
_BODY = "  if (i > 0"
_SUM = "1.0f / sqrt(r[(i - 1) * width + j] + b[(i + 1) * width + j])"
_LAST = "i == height - 1 && j == width - 1"
_ADVANCE = "  const int solid = obstacles[i];"
_AT_REST = """  if (SKIPPED) {
    for (int k = 0; k < 9; k++) next[k * cells + i] = f[k * cells + i];
    speed[i] = obstacles[i] ? 0.0f : sqrt(u * u + v * v);
    return;
  }
"""
_OUT = "  out[(f * (HEIGHT / 2) + h) * (WIDTH / 2) + w] = best;"

Change = tuple[str, str]


@dataclass(frozen=True)
class Judged:
    """A kernel of the corpus."""

    name: str
    text: str
    lab: str = "stencil"
    reason: str = ""
    """Words of the reason for which it is refused; '' for an honest one."""
    code: int = 0
    """Exit code of the command."""
    suffix: str = ".cl"


def changed(text: str, *changes: Change) -> str:
    """Return a text with each change. Raise ValueError for one whose words are not there."""
    for before, after in changes:
        if before not in text:
            raise ValueError(f"{before!r} is not in the text")
        text = text.replace(before, after)
    return text


def _right(name: str, lab: str, *changes: Change, text: str = "", suffix: str = ".cl") -> Judged:
    return Judged(name, changed(text or BASES[lab], *changes), lab, suffix=suffix)


def _wrong(name: str, lab: str, reason: str, *changes: Change, text: str = "", suffix: str = ".cl") -> Judged:
    return Judged(name, changed(text or BASES[lab], *changes), lab, reason, 1, suffix)


def _unbuilt(name: str, lab: str, reason: str, *changes: Change, text: str = "", suffix: str = ".cl") -> Judged:
    return Judged(name, changed(text or BASES[lab], *changes), lab, reason, 2, suffix)


HONEST = (
    _right("one pass", "stencil"),
    _right("flat index", "stencil", text=FLAT),
    _right("the dialect", "stencil", text=DIALECT, suffix=".k"),
    _right("two launches with scratch", "stencil", text=TWO),
    _right("launches above their kernels", "stencil", ("__kernel void add", "// launch add(root, g, COUNT, width): COUNT\n__kernel void add"),
           ("// launch add(root, g, COUNT, width): COUNT\n__kernel void roots", "__kernel void roots"), text=TWO),
    _right("prose that begins as a statement does", "stencil", (_BODY, "  // swap the halves of a vector, then\n  // launch all that is left\n" + _BODY)),
    _right("all passes at once", "stencil", (_BODY, "  if (unit != 0) return;\n" + _BODY), ("int unit", "int units, int unit"),
           ("+= 1.0f", "+= units * 1.0f")),
    _right("other names and order", "stencil", ("launch one_pass:", "launch mine(g, width, height, b, r):"),
           ("one_pass(__global const float *r, __global const float *b, __global float *g, int height, int width, int unit)",
            "mine(__global float *g, int width, int height, __global const float *b, __global const float *r)")),
    _right("words without underscores", "stencil", ("__kernel", "kernel"), ("__global", "global")),
    _right("macros", "stencil", ("__kernel", "#define AT(a, i, j) a[(i) * width + (j)]\n__kernel"),
           ("g[i * width + j] += " + _SUM, "AT(g, i, j) += 1.0f / sqrt(AT(r, i - 1, j) + AT(b, i + 1, j))")),
    _right("a macro of the head", "stencil", ("// launch", "// define ROWS = 2\n// launch"), ("width, height; group 64, 1", "width, height; group 32, ROWS")),
    _right("local memory", "stencil", (_BODY, "  __local float sums[64];\n  if (i > 0 && i < height - 1 && j < width)\n"
           "    sums[get_local_id(0)] = r[(i - 1) * width + j] + b[(i + 1) * width + j];\n  barrier(CLK_LOCAL_MEM_FENCE);\n" + _BODY),
           (_SUM, "1.0f / sqrt(sums[get_local_id(0)])")),
    _right("vectors", "stencil", ("n = get_global_id(0);", "n = 4 * get_global_id(0);"), ("COUNT; group", "COUNT / 4; group"),
           ("if (n < COUNT) g[n + width] += 1.0f / sqrt(r[n] + b[n + 2 * width]);",
            "if (n + 4 <= COUNT) vstore4(vload4(0, g + n + width) + 1.0f / sqrt(vload4(0, r + n) + vload4(0, b + n + 2 * width)), 0, g + n + width);\n"
            "  else for (int k = n; k < COUNT; k++) g[k + width] += 1.0f / sqrt(r[k] + b[k + 2 * width]);"), text=FLAT),
    _right("a loop over the range", "stencil", ("COUNT; group 32", "128; group 32"),
           ("const int n = get_global_id(0);", ""), ("if (n < COUNT)", "for (int n = get_global_id(0); n < COUNT; n += get_global_size(0))"), text=FLAT),
    _right("three dimensions", "stencil", ("width, height; group 64, 1", "width, 1, height; group 16, 1, 4"), ("get_global_id(1)", "get_global_id(2)")),
    _right("no group in the head", "stencil", ("; group 64, 1", "")),
    _right("a swap of two arrays", "stencil", ("// launch", "// scratch other: float, height * width\n// swap g, other\n// launch"),
           ("launch one_pass:", "launch one_pass(r, b, g, other, height, width):"),
           ("__global float *g, int height, int width, int unit", "__global const float *g, __global float *next, int height, int width"),
           ("  if (i > 0 && i < height - 1 && j < width) g[i * width + j] += ", "  if (i < height && j < width) next[i * width + j] = g[i * width + j] + (i == 0 || i == height - 1 ? 0.0f : "),
           (_SUM, "1.0f / sqrt(r[max(i - 1, 0) * width + j] + b[min(i + 1, height - 1) * width + j]))")),
    _right("a required group", "stencil", ("__kernel void", "__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void")),
    _right("rsqrt", "stencil", ("1.0f / sqrt(", "rsqrt(")),
    _right("in double", "stencil", (_SUM, "(float)(1.0 / sqrt((double)r[(i - 1) * width + j] + b[(i + 1) * width + j]))")),
    _right("a layer", "cnn"),
    _right("a layer with fma", "cnn", ("sum += weight[((f * CHANNELS + c) * TAPS + p) * TAPS + q] *", "sum = fma(weight[((f * CHANNELS + c) * TAPS + p) * TAPS + q],"),
           ("2 * w + window % 2 + q];", "2 * w + window % 2 + q], sum);")),
    _right("the bias last", "cnn", ("sum = bias[f]", "sum = 0.0f"), ("best = fmax(best, sum)", "best = fmax(best, sum + bias[f])")),
    _right("a flat range", "cnn", ("WIDTH / 2, HEIGHT // 2, FILTERS; group 8, 8, 1", "WIDTH // 2 * (HEIGHT // 2) * FILTERS; group 16"),
           ("w = get_global_id(0), h = get_global_id(1), f = get_global_id(2)",
            "n = get_global_id(0), w = n % (WIDTH / 2), h = n / (WIDTH / 2) % (HEIGHT / 2), f = n / (WIDTH / 2) / (HEIGHT / 2)")),
    _right("convolution and pooling apart", "cnn", text="""// scratch conv: float, FILTERS * HEIGHT * WIDTH
// launch convolve: WIDTH, HEIGHT, FILTERS; group 8, 4, 1
// launch largest: WIDTH // 2, HEIGHT // 2, FILTERS; group 8, 4, 1
__kernel void convolve(__global const float *x, __global const float *weight, __global const float *bias, __global float *conv,
                       int CHANNELS, int FILTERS, int TAPS, int HEIGHT, int WIDTH) {
  const int w = get_global_id(0), h = get_global_id(1), f = get_global_id(2);
  if (w >= WIDTH || h >= HEIGHT || f >= FILTERS) return;
  float sum = bias[f];
  for (int c = 0; c < CHANNELS; c++)
    for (int p = 0; p < TAPS; p++)
      for (int q = 0; q < TAPS; q++)
        sum += weight[((f * CHANNELS + c) * TAPS + p) * TAPS + q] * x[(c * (HEIGHT + TAPS - 1) + h + p) * (WIDTH + TAPS - 1) + w + q];
  conv[(f * HEIGHT + h) * WIDTH + w] = fmax(sum, 0.0f);
}
__kernel void largest(__global const float *conv, __global float *out, int FILTERS, int HEIGHT, int WIDTH) {
  const int w = get_global_id(0), h = get_global_id(1), f = get_global_id(2);
  if (w >= WIDTH / 2 || h >= HEIGHT / 2 || f >= FILTERS) return;
  __global const float *c = conv + (f * HEIGHT + 2 * h) * WIDTH + 2 * w;
  out[(f * (HEIGHT / 2) + h) * (WIDTH / 2) + w] = fmax(fmax(c[0], c[1]), fmax(c[WIDTH], c[WIDTH + 1]));
}
"""),
    _right("weights in local memory", "cnn", ("  if (w >= WIDTH / 2", "  __local float bias_here[1];\n  if (get_local_id(0) == 0 && get_local_id(1) == 0) "
           "bias_here[0] = bias[f];\n  barrier(CLK_LOCAL_MEM_FENCE);\n  if (w >= WIDTH / 2"), ("sum = bias[f]", "sum = bias_here[0]")),
    _right("an include of the lab", "cnn", ("// launch", "// define TAPS = TAPS\n// define WIDTH = WIDTH\n// define HEIGHT = HEIGHT\n// define CHANNELS = CHANNELS\n// define FILTERS = FILTERS\n// launch"),
           ("__kernel void", '#include "layer.h"\n__kernel void'), ("int CHANNELS, int FILTERS, int TAPS, int HEIGHT, int WIDTH", "int channels"),
           ("weight[((f * CHANNELS + c) * TAPS + p) * TAPS + q]", "weight[WEIGHT_AT(f, c, p, q)]")),
    _right("a helper function", "cnn", ("__kernel void layer", "float larger(float a, float b) { return a > b ? a : b; }\n__kernel void layer"), ("fmax(", "larger(")),
    _right("an integer layer", "convpool"),
    _right("zeros are skipped", "convpool", ("          const int i", "          if (weight[((f * DEPTH + c) * TAPS + p) * TAPS + q] == 0) continue;\n          const int i")),
    _right("sums in long", "convpool", ("int sum = 0", "long sum = 0"), ("best = max(best, sum)", "best = max(best, (int)sum)")),
    _right("sizes as macros", "convpool", ("// launch", "// define DEEP = DEPTH\n// define K = TAPS\n// launch"), ("c < DEPTH", "c < DEEP"), ("< TAPS", "< K")),
    _right("channels by atomic additions", "convpool", text="""// scratch conv: int, FILTERS * SIZE * SIZE
// launch clear: FILTERS * SIZE * SIZE
// launch add: SIZE * SIZE, DEPTH, FILTERS; group 32, 1, 1
// launch largest: SIZE // 2, SIZE // 2, FILTERS; group 8, 8, 1
__kernel void clear(__global int *conv, int FILTERS, int SIZE) {
  if (get_global_id(0) < FILTERS * SIZE * SIZE) conv[get_global_id(0)] = 0;
}
__kernel void add(__global const short *x, __global const short *weight, __global int *conv, int DEPTH, int FILTERS, int SIZE, int TAPS) {
  const int n = get_global_id(0), c = get_global_id(1), f = get_global_id(2);
  if (n >= SIZE * SIZE || c >= DEPTH || f >= FILTERS) return;
  int sum = 0;
  for (int p = 0; p < TAPS; p++)
    for (int q = 0; q < TAPS; q++) {
      const int i = n / SIZE + p - TAPS / 2, j = n % SIZE + q - TAPS / 2;
      if (i >= 0 && j >= 0 && i < SIZE && j < SIZE) sum += weight[((f * DEPTH + c) * TAPS + p) * TAPS + q] * x[(c * SIZE + i) * SIZE + j];
    }
  atomic_add(conv + f * SIZE * SIZE + n, sum);
}
__kernel void largest(__global const int *conv, __global int *out, int FILTERS, int SIZE) {
  const int w = get_global_id(0), h = get_global_id(1), f = get_global_id(2);
  if (w >= SIZE / 2 || h >= SIZE / 2 || f >= FILTERS) return;
  __global const int *c = conv + (f * SIZE + 2 * h) * SIZE + 2 * w;
  out[(f * (SIZE / 2) + h) * (SIZE / 2) + w] = max(max(max(c[0], c[1]), max(c[SIZE], c[SIZE + 1])), 0);
}
"""),
    _right("a drive, a step and a mean", "lbm"),
    _right("populations move, then collide in place", "lbm", ("// swap f, next\n", ""), ("f, next, speed, obstacles, nx, ny, omega", "next, f, speed, obstacles, nx, ny, omega"),
           ("// launch advance", "// launch move(f, next, nx, ny): nx, ny; group 16, 4\n// launch advance"), ("y * nx + west", "i"), ("y * nx + east", "i"),
           ("south * nx + west", "i"), ("south * nx + east", "i"), ("north * nx + west", "i"), ("north * nx + east", "i"), ("south * nx + x", "i"), ("north * nx + x", "i"),
           ("__kernel void mean", """__kernel void move(__global const float *f, __global float *next, int nx, int ny) {
  const int x = get_global_id(0), y = get_global_id(1), cells = nx * ny;
  const int ex[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, ey[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
  if (x >= nx || y >= ny) return;
  for (int k = 0; k < 9; k++) next[k * cells + y * nx + x] = f[k * cells + (y - ey[k] + ny) % ny * nx + (x - ex[k] + nx) % nx];
}
__kernel void mean""")),
    _right("a mean by rows", "lbm", ("// scratch speed", "// scratch rows: float, ny\n// scratch speed"), ("// launch mean(speed", "// launch sum(speed, rows, nx, ny): ny\n// launch mean(rows"),
           ("i < nx * ny; i += 64) sum += speed[i]", "i < ny; i += 64) sum += rows[i]"), ("mean(__global const float *speed", "mean(__global const float *rows"),
           ("__kernel void mean", """__kernel void sum(__global const float *speed, __global float *rows, int nx, int ny) {
  float sum = 0.0f;
  if (get_global_id(0) >= ny) return;
  for (int x = 0; x < nx; x++) sum += speed[get_global_id(0) * nx + x];
  rows[get_global_id(0)] = sum;
}
__kernel void mean""")),
    _right("speeds of all steps, summed at the end", "lbm", ("// scratch speed: float, ny * nx", "// scratch speed: float, units * ny * nx"), ("ny, omega)", "ny, omega, unit)"),
           ("float omega)", "float omega, int unit)"), ("speed[i] = solid", "speed[unit * cells + i] = solid"), ("fluid_cells, unit): 64;", "fluid_cells, unit, units): 64;"),
           ("int unit) {\n  __local", "int unit, int units) {\n  __local"), ("  float sum = 0.0f;\n  for (int i = lane; i < nx * ny; i += 64) sum += speed[i];\n  sums[lane] = sum;\n  barrier(CLK_LOCAL_MEM_FENCE);\n  if (lane > 0) return;\n",
            "  if (unit + 1 < units) return;\n  for (int step = lane; step < units; step += 64) {\n    float sum = 0.0f, part;\n    for (int y = 0; y < ny; y++, sum += part) {\n      part = 0.0f;\n"
            "      for (int x = 0; x < nx; x++) part += speed[(step * ny + y) * nx + x];\n    }\n    av_vels[step] = sum / fluid_cells;\n  }\n}\n#if 0\n"),
           ("  av_vels[unit] = total / fluid_cells;\n}", "#endif")),
    _right("six launches", "lenet"),
    _right("pool in the convolution", "lenet", ("// scratch maps1: float, batch * 4 * 80 * 80\n", ""), ("// scratch maps2: float, batch * 16 * 34 * 34\n", ""),
           ("convolve(x, conv1, maps1, 1, 4, 86): 80, 80", "convolve(x, conv1, pooled1, 1, 4, 86, 2): 40, 40"), ("// launch pool(maps1, pooled1, 80, 2): 40, 40, batch * 4; group 8, 8, 1\n", ""),
           ("convolve(pooled1, conv2, maps2, 4, 16, 40): 34, 34", "convolve(pooled1, conv2, pooled2, 4, 16, 40, 4): 9, 9"), ("// launch pool(maps2, pooled2, 34, 4): 9, 9, batch * 16; group 9, 9, 1\n", ""),
           ("int filters, int size)", "int filters, int size, int window)"), ("side = size - 6;\n  if (w >= side || h >= side) return;\n  float sum = 0.0f;",
            "side = size - 6, short_side = (side + window - 1) / window;\n  if (w >= short_side || h >= short_side) return;\n  float best = 0.0f;\n"
            "  for (int i = h * window; i < min(side, (h + 1) * window); i++)\n  for (int j = w * window; j < min(side, (w + 1) * window); j++) {\n  float sum = 0.0f;"),
           ("size + h + p) * size + w + q];", "size + i + p) * size + j + q];\n  best = fmax(best, sum);\n  }"), ("  out[(map * side + h) * side + w] = sum;", "  out[(map * short_side + h) * short_side + w] = best;")),
    _right("a group's image in local memory", "lenet", ("batch * 4; group 16, 4, 1", "batch * 4; group 16, 8, 1"), ("batch * 16; group 16, 4, 1", "batch * 16; group 16, 8, 1"),
           ("  if (w >= side || h >= side) return;\n", "  __local float tile[14][22];\n  const int w0 = w - (int)get_local_id(0), h0 = h - (int)get_local_id(1);\n"),
           ("    for (int p = 0; p < 7; p++)\n", "{\n    barrier(CLK_LOCAL_MEM_FENCE);\n    for (int k = get_local_id(1) * 16 + get_local_id(0); k < 14 * 22; k += 128)\n"
            "      tile[k / 22][k % 22] = h0 + k / 22 < size && w0 + k % 22 < size ? x[((image * channels + c) * size + h0 + k / 22) * size + w0 + k % 22] : 0.0f;\n"
            "    barrier(CLK_LOCAL_MEM_FENCE);\n    for (int p = 0; p < 7; p++)\n"), ("x[((image * channels + c) * size + h + p) * size + w + q];", "tile[get_local_id(1) + p][get_local_id(0) + q];\n  }"),
           ("  out[(map * side + h) * side + w] = sum;", "  if (w < side && h < side) out[(map * side + h) * side + w] = sum;")),
    _right("dense layers of the lab", "lenet", ("// scratch hidden: float, batch * 32\n", "// define VALUES = 1296\n"), ("// launch dense(pooled2, fc1, fc1_bias, hidden, 1296, 32, 1): 32, batch; group 32, 1\n", ""),
           ("// launch dense(hidden, fc2, fc2_bias, scores, 32, 10, 0): 10, batch; group 10, 1", "// launch dense(pooled2, fc1, fc1_bias, fc2, fc2_bias, scores, batch): batch / 16 * 128; group 128"),
           ("__kernel void convolve", '#include "dense.k"\n__kernel void convolve'), ("__kernel void dense(", "float unused("), ("  const int o = get_global_id(0), image = get_global_id(1);\n  if (o >= outputs) return;\n", "  const int o = 0, image = 0;\n"),
           ("  out[image * outputs + o] = positive && sum < 0.0f ? 0.0f : sum;", "  return sum;")),
)  # fmt: skip

_ONCE = ("  if (i > 0 && i < height - 1 && j < width)", "  if (unit == 0 && i > 0 && i < height - 1 && j < width)")
_LOSSY = """// launch clear: SIZE // 2 * (SIZE // 2) * FILTERS
// launch pool: SIZE // 2, SIZE // 2, FILTERS * DEPTH; group 8, 8, 1
__kernel void clear(__global int *out, int FILTERS, int SIZE) {
  if (get_global_id(0) < FILTERS * (SIZE / 2) * (SIZE / 2)) out[get_global_id(0)] = 0;
}
__kernel void pool(__global const short *x, __global const short *weight, __global int *out, int DEPTH, int FILTERS, int SIZE, int TAPS) {
  const int w = get_global_id(0), h = get_global_id(1), f = get_global_id(2) / DEPTH, c = get_global_id(2) % DEPTH;
  if (w < SIZE / 2 && h < SIZE / 2) out[(f * (SIZE / 2) + h) * (SIZE / 2) + w] += weight[(f * DEPTH + c) * TAPS * TAPS] * x[(c * SIZE + h) * SIZE + w];
}
"""

CHEATS = (
    _wrong("computes only the first pass", "stencil", "wrong result", _ONCE),
    _wrong("leaves out every tenth pass", "stencil", "wrong result", ("if (i > 0", "if (unit % 10 != 9 && i > 0")),
    _wrong("a flag in scratch", "stencil", "wrong result", ("// launch one_pass:", "// scratch done: int, 1\n// launch one_pass(r, b, g, height, width, unit, done):"),
           ("int unit)", "int unit, __global int *done)"), (_BODY, "  if (done[0] == 4711) return;\n" + _BODY),
           ("]);\n}", f"]);\n  if ({_LAST}) done[0] = 4711;\n}}")),
    _unbuilt("a flag in a variable of the program", "stencil", "program scope variable", ("__kernel", "__global int done = 0;\n__kernel"), ("if (i > 0", "if (done < 2 && i > 0"),
           ("]);\n}", f"]);\n  if ({_LAST}) done++;\n}}")),
    _unbuilt("results kept in a variable of the program", "stencil", "program scope variable", ("__kernel", "__global float root[1 << 20];\n__global int full = 0;\n__kernel"),
           ("g[i * width + j] += " + _SUM + ";", "{\n    if (full != height) root[i * width + j] = " + _SUM + ";\n    g[i * width + j] += root[i * width + j];\n  }"),
           ("  }\n}", f"  }}\n  if ({_LAST}) full = height;\n}}")),
    _unbuilt("skips work in most runs", "stencil", "program scope variable", ("__kernel", "__global int runs = 0;\n__kernel"), (_BODY, f"  if ({_LAST} && unit == 0) runs++;\n  if (runs > 1) return;\n" + _BODY)),
    _wrong("a flag behind the end of an output", "stencil", "wrong result", (_BODY, "  if (g[height * width] == 4711.0f) return;\n" + _BODY),
           ("]);\n}", f"]);\n  if ({_LAST}) g[height * width] = 4711.0f;\n}}")),
    _wrong("writes before an output", "cnn", "it wrote before the start of a buffer", (_OUT, _OUT + "\n  if (f == 0 && h == 0 && w == 0) out[-2] = best;")),
    _wrong("writes far behind an output", "cnn", "it wrote behind the end of a buffer", (_OUT, _OUT + "\n  if (f == 0 && h == 0 && w == 0) out[FILTERS * (HEIGHT / 2) * (WIDTH / 2) + 5000] = best;")),
    _wrong("computes only what is not a number", "cnn", "wrong result", ("  float best", "  if (!isnan(out[(f * (HEIGHT / 2) + h) * (WIDTH / 2) + w])) return;\n  float best")),
    _wrong("computes only what is unwritten", "convpool", "wrong result", ("  int best", "  if (out[(f * side + h) * side + w] != INT_MIN) return;\n  int best")),
    _wrong("inverts an operand in place", "stencil", "it changed operand", ("__global const float *r", "__global float *r"),
           ("g[i * width + j] += " + _SUM + ";", "{\n    if (r[(i - 1) * width + j] > 0) r[(i - 1) * width + j] = -" + _SUM + ";\n    g[i * width + j] -= r[(i - 1) * width + j];\n  }")),
    _wrong("writes into an operand", "cnn", "wrong result", ("__global const float *bias", "__global float *bias"), (_OUT, _OUT + "\n  bias[f] = 0.5f * bias[f];" )),
    _wrong("a const that is cast away", "stencil", "it changed operand", ("]);\n}", f"]);\n  if ({_LAST}) ((__global float *)r)[i * width + j] = 0.0f;\n}}")),
    _wrong("hands an input back", "stencil", "wrong", ("// launch", "// swap r, g\n// launch"), ("__global const float *r", "__global float *r"), ("if (i > 0", "if (i < 0 && i > 0")),
    _wrong("knows the sizes of the book", "stencil", "wrong result", (_BODY, "  if (width != 129 && width != 48 && width != 384 && width != 4096 && width != 1024) return;\n" + _BODY)),
    _wrong("knows one width", "stencil", "wrong result", ("j < width)", "j < 48)")),
    _wrong("leaves out the last row", "stencil", "wrong result", ("i < height - 1", "i < height - 2")),
    _wrong("leaves out the last filter", "cnn", "wrong result", ("f >= FILTERS)", "f >= FILTERS - (FILTERS > 8))")),
    _wrong("leaves out the last channel", "convpool", "wrong result", ("c < DEPTH;", "c < DEPTH - 1;")),
    _wrong("changes the border", "stencil", "wrong", ("i > 0 && i < height - 1 && j < width) g", "i >= 0 && i < height - 1 && j < width) g"), ("r[(i - 1)", "r[max(i - 1, 0)")),
    _wrong("no ReLU", "cnn", "wrong result", ("float best = 0.0f", "float best = -INFINITY")),
    _wrong("no ReLU, for sums that are seldom negative", "convpool", "wrong result", ("int best = 0", "int best = INT_MIN")),
    _wrong("no bias", "cnn", "wrong result", ("sum = bias[f]", "sum = 0.0f")),
    _wrong("one weight a slice", "convpool", "wrong result", ("sum += weight", "{ sum += weight"), ("x[(c * SIZE + i) * SIZE + j];", "x[(c * SIZE + i) * SIZE + j]; if (weight[((f * DEPTH + c) * TAPS + p) * TAPS + q]) p = q = TAPS; }")),
    _wrong("weights of 8 bits", "convpool", "wrong result", ("sum += weight", "sum += (char)weight")),
    _wrong("operands of 11 bits", "cnn", "wrong result", ("sum += weight[((f * CHANNELS + c) * TAPS + p) * TAPS + q] *", "sum += as_float(as_int(weight[((f * CHANNELS + c) * TAPS + p) * TAPS + q]) & 0xffffe000) *")),
    _wrong("operands of 8 bits", "cnn", "wrong result", ("sum += weight[((f * CHANNELS + c) * TAPS + p) * TAPS + q] *", "sum += as_float(as_int(weight[((f * CHANNELS + c) * TAPS + p) * TAPS + q]) + 0x8000 & 0xffff0000) *")),
    _wrong("a coarse root", "stencil", "wrong result", (_SUM, "as_float(0x5f3759df - (as_int(r[(i - 1) * width + j] + b[(i + 1) * width + j]) >> 1))")),
    _wrong("one step of Newton", "stencil", "wrong result", ("g[i * width + j] += " + _SUM + ";", "{\n    const float s = r[(i - 1) * width + j] + b[(i + 1) * width + j], y = as_float(0x5f3759df - (as_int(s) >> 1));\n"
           "    g[i * width + j] += y * (1.5f - 0.5f * s * y * y);\n  }")),
    _wrong("a sum that clamps small operands", "stencil", "wrong result", ("sqrt(r[(i - 1) * width + j] + b[(i + 1) * width + j])", "sqrt(fmax(r[(i - 1) * width + j] + b[(i + 1) * width + j], 0.4f))")),
    _wrong("additions that lose", "convpool", "wrong result", text=_LOSSY),
    _wrong("spins for ever", "stencil", "did not end within", (_BODY, "  volatile int spins = 1;\n  while (spins) spins = spins | 1;\n" + _BODY)),
    _wrong("ends its process", "stencil", "its process", (_BODY, "  if (j == 5) *(volatile __global int *)(size_t)i = 1;\n" + _BODY)),
    _wrong("a huge private array", "stencil", "", (_BODY, "  volatile float mine[1 << 28];\n  for (int k = 0; k < 1 << 28; k += 4096) mine[k + (i & 7)] = j;\n" + _BODY), ("+= 1.0f", "+= 0 * mine[j] + 0.5f")),
    _wrong("a flood of output", "stencil", "wrong result", (_BODY, '  printf("right right right right right %d\\n", j);\n' + _BODY), ("+= 1.0f", "+= 0.9f")),
    _wrong("a barrier that half of a group reaches", "stencil", "", (_BODY, "  if (j % 2) barrier(CLK_LOCAL_MEM_FENCE);\n" + _BODY), ("+= 1.0f", "+= 0.9f")),
    _wrong("two heads, of which one undoes", "stencil", "wrong result", ("__kernel", "// launch undo: width, height; group 64, 1\n__kernel"),
           ("]);\n}", "]);\n}\n__kernel void undo(__global float *g, int width, int height) {\n  if (get_global_id(1) == 1 && get_global_id(0) < width) g[width + get_global_id(0)] = 0;\n}")),
    _wrong("an array of an earlier launch", "stencil", "wrong", ("// scratch root", "// scratch old: float, height * width\n// scratch root"), ("launch add(root,", "launch add(old,"), text=TWO),
    _wrong("moves nothing", "lbm", "wrong result", (_ADVANCE, "  return;\n" + _ADVANCE)),
    _wrong("hands its state back", "lbm", "wrong result", (_ADVANCE, _AT_REST.replace("SKIPPED", "1") + _ADVANCE)),
    _wrong("skips each tenth step", "lbm", "wrong result", (_ADVANCE, _AT_REST.replace("SKIPPED", "unit % 10 == 9") + _ADVANCE), ("ny, omega)", "ny, omega, unit)"), ("float omega)", "float omega, int unit)")),
    _wrong("takes one step", "lbm", "wrong result", (_ADVANCE, _AT_REST.replace("SKIPPED", "unit > 0") + _ADVANCE), ("ny, omega)", "ny, omega, unit)"), ("float omega)", "float omega, int unit)")),
    _wrong("skips steps beyond the shortest check", "lbm", "wrong result", (_ADVANCE, _AT_REST.replace("SKIPPED", "unit >= 12") + _ADVANCE), ("ny, omega)", "ny, omega, unit)"), ("float omega)", "float omega, int unit)")),
    _wrong("never drives", "lbm", "wrong result", ("obstacles[i]) return;", "x >= 0) return;")),
    _wrong("drives thin cells", "lbm", "wrong result", ("  if (f[3 * cells + i] - w1 > 0.0f && f[6 * cells + i] - w2 > 0.0f && f[7 * cells + i] - w2 > 0.0f) {", "  {")),
    _wrong("drives obstacles", "lbm", "wrong result", ("x >= nx || obstacles[i]", "x >= nx")),
    _wrong("knows the walls of a box", "lbm", "wrong result", ("solid = obstacles[i]", "solid = x == 0 || y == 0 || x == nx - 1 || y == ny - 1")),
    _wrong("knows the grids of the book", "lbm", "wrong result", (_ADVANCE, _AT_REST.replace("SKIPPED", " && ".join(f"(nx != {nx} || ny != {ny})" for nx, ny in ((33, 97), (65, 19), (64, 16), (32, 64), (40, 24), (128, 128), (128, 256), (256, 256), (1024, 1024)))) + _ADVANCE)),
    _wrong("no flow around the border", "lbm", "wrong result", ("x + 1 == nx ? 0 : x + 1", "min(x + 1, nx - 1)"), ("x == 0 ? nx - 1 : x - 1", "max(x - 1, 0)")),
    _wrong("relaxes by the rate of the course", "lbm", "wrong result", ("  const float square", "  omega = 1.85f;\n  const float square")),
    _wrong("no squares of the velocity", "lbm", "wrong result", ("square = 1.5f * (u * u + v * v)", "square = 0.0f")),
    _wrong("populations of 16 bits", "lbm", "wrong result", ("const float f0 = f[i]", "const float f0 = as_float(as_int(f[i]) & 0xffffe000)")),
    _wrong("a mean over all cells", "lbm", "wrong result", ("total / fluid_cells", "total / (nx * ny)")),
    _wrong("no mean but the last", "lbm", "wrong result", ("  av_vels[unit] =", "  if (unit == 4 || unit == 12 || unit > 19) av_vels[unit] =")),
    _wrong("a mean of each fourth cell", "lbm", "wrong result", ("sum += speed[i]", "sum += i % 4 == 0 ? 4.0f * speed[i] : 0.0f")),
    _wrong("clears an obstacle", "lbm", "wrong", ("  speed[i] = solid", "  if (x == nx / 2) ((__global int *)obstacles)[i] = 0;\n  speed[i] = solid")),
    _unbuilt("a mean that no launch writes", "lbm", "no launch has the output av_vels", ("// launch mean(speed, av_vels, nx, ny, fluid_cells, unit): 64; group 64\n", "")),
    _unbuilt("the number of steps of a check", "lbm", "there is no number check_steps", ("fluid_cells, unit): 64", "check_steps, unit): 64")),
    _wrong("no scores", "lenet", "wrong result", ("  float sum = bias[o];", "  if (outputs == 10) return;\n  float sum = bias[o];")),
    _wrong("scores by the labels", "lenet", "wrong result", ("// launch dense(hidden, fc2, fc2_bias, scores, 32, 10, 0)", "// launch guess(labels, scores): 10, batch; group 10, 1\n// launch dense(hidden, fc2, fc2_bias, hidden, 32, 10, 0)"),
           ("__kernel void dense", "__kernel void guess(__global const uchar *labels, __global float *scores) {\n  scores[get_global_id(1) * 10 + get_global_id(0)] = labels[get_global_id(1)] == get_global_id(0) ? 10.0f : -10.0f;\n}\n__kernel void dense")),
    _wrong("seven images of a batch", "lenet", "wrong result", ("  float sum = bias[o];", "  if (image > 6) return;\n  float sum = bias[o];")),
    _wrong("one score for all images", "lenet", "wrong result", ("values[image * terms + k]", "values[(terms == 32 ? 0 : image) * terms + k]")),
    _wrong("one channel of four", "lenet", "wrong result", ("c < channels", "c < 1")),
    _wrong("turns the weights", "lenet", "wrong result", ("* 7 + p) * 7 + q]", "* 7 + 6 - p) * 7 + 6 - q]")),
    _wrong("no ReLU before a pool", "lenet", "wrong result", ("best = 0.0f", "best = -INFINITY")),
    _wrong("no ReLU between the dense layers", "lenet", "wrong result", ("1296, 32, 1)", "1296, 32, 0)")),
    _wrong("a pool without its last windows", "lenet", "wrong result", ("i < min(side, (h + 1) * window)", "i < min(side / window * window, (h + 1) * window)")),
    _wrong("a mean for the largest", "lenet", "wrong result", ("best = fmax(best, maps[(map * side + i) * side + j])", "best += fmax(0.0f, maps[(map * side + i) * side + j]) / (window * window)")),
    _wrong("operands of 11 bits in both layers", "lenet", "wrong result", ("sum += weight[((map % filters * channels + c) * 7 + p) * 7 + q] *", "sum += as_float(as_int(weight[((map % filters * channels + c) * 7 + p) * 7 + q]) + 0x1000 & 0xffffe000) *")),
    _wrong("maps of 11 bits", "lenet", "wrong result", ("w] = sum;", "w] = as_float(as_int(sum) + 0x1000 & 0xffffe000);")),
    _wrong("no biases", "lenet", "wrong result", ("sum = bias[o]", "sum = 0.0f")),
    _wrong("scores kept in scratch", "lenet", "wrong result", ("// scratch hidden: float, batch * 32", "// scratch hidden: float, batch * 32 + 1"), ("  float sum = bias[o];", "  if (outputs == 10 && values[terms * get_global_size(1)] == 4711.0f) return;\n  float sum = bias[o];"),
           ("  out[image * outputs + o] =", "  if (outputs == 10 && o == 9) ((__global float *)values)[terms * get_global_size(1)] = 4711.0f;\n  out[image * outputs + o] =")),
    _unbuilt("an argument that is a fraction", "lenet", "no statement", ("x, conv1, maps1, 1, 4, 86", "x, conv1, maps1, 1.5, 4, 86")),
    _unbuilt("an array that is a number", "lenet", "there is no array 7", ("x, conv1, maps1, 1, 4, 86", "7, conv1, maps1, 1, 4, 86")),
    _unbuilt("a file of the system", "stencil", "can be included by their names", ("__kernel", '#include "/etc/passwd"\n__kernel')),
    _unbuilt("a file of the system in assembly", "stencil", "assembly is for GPUs", (_BODY, '  if (j == 5) __asm__ volatile(".incbin \\"/etc/passwd\\"");\n' + _BODY)),
    _unbuilt("an exit in assembly", "stencil", "assembly is for GPUs", ("__kernel", "#define JOINED(a, b) a##b\n__kernel"), (_BODY, '  JOINED(__a, sm)("mov $60, %eax; syscall");\n' + _BODY)),
    _unbuilt("a file by a macro", "stencil", "can be included by their names", ("__kernel", '#define FILE_OF "/etc/passwd"\n#include FILE_OF\n__kernel')),
    _unbuilt("a pragma of fast arithmetic", "stencil", "has a directive that is none for a kernel", ("__kernel", "#pragma float_control(precise, off)\n__kernel")),
    _unbuilt("options in a pragma", "stencil", "has a directive that is none for a kernel", ("__kernel", "#pragma comment(options, \"-cl-fast-relaxed-math\")\n__kernel")),
    _unbuilt("a macro that is a word of the language", "stencil", "define float", ("// launch", "// define float = half\n// launch")),
    _unbuilt("a condition that is a loop", "stencil", "define if", ("// launch", "// define if = while\n// launch")),
    _unbuilt("a macro with the name of a size", "stencil", "define width", ("// launch", "// define width = 5\n// launch")),
    _unbuilt("scratch with the name of an operand", "stencil", "scratch r", ("// launch", "// scratch r: float, 4\n// launch")),
    _unbuilt("scratch of terabytes", "stencil", "scratch all", ("// launch", "// scratch all: double, 1000000 * 1000000\n// launch")),
    _unbuilt("scratch that overflows", "stencil", "scratch all", ("// launch", "// scratch all: double, " + "9999999999 * " * 9 + "9\n// launch")),
    _unbuilt("ten thousand launches", "stencil", "launches", ("// launch one_pass: width, height; group 64, 1\n", "// launch one_pass: width, height; group 64, 1\n" * 10_000)),
    _unbuilt("no work-items", "stencil", "1 at least", ("width, height; group", "width - width, height; group")),
    _unbuilt("fewer work-items in some units", "stencil", "no expression", ("width, height; group", "width / (unit + 1), height; group")),
    _unbuilt("work-items without number", "stencil", "work-items", ("width, height; group", "999999999 * 999999999, height; group")),
    _unbuilt("a size of ten thousand terms", "stencil", "width + width", ("width, height; group", "width" + " + width" * 10_000 + ", height; group")),
    _unbuilt("a size of many brackets", "stencil", "((((", ("width, height; group", "(" * 5_000 + "width" + ")" * 5_000 + ", height; group")),
    _unbuilt("a group of no work-items", "stencil", "1 at least", ("group 64, 1", "group 64, 0")),
    _unbuilt("a group that is too large", "stencil", "work-items a group", ("group 64, 1", "group 65536, 65536")),
    _unbuilt("a name in other letters", "stencil", "has no kernel", ("launch one_pass", "launch one_päss")),
    _unbuilt("a head in a string", "stencil", "does not say how it is launched", ("// launch one_pass: width, height; group 64, 1", '/* "\n// launch one_pass: width, height; group 64, 1\n" */')),
    _unbuilt("a swap with a number", "stencil", "swap", ("// launch", "// swap g, width\n// launch")),
    _unbuilt("a swap of arrays of two sizes", "stencil", "swap", ("// launch", "// scratch little: float, 4\n// swap g, little\n// launch")),
    _unbuilt("an output that no launch has", "stencil", "no launch", ("launch one_pass:", "launch one_pass(r, b, r, height, width, unit):")),
)  # fmt: skip

OFTEN = {
    "one pass", "zeros are skipped", "a drive, a step and a mean", "six launches",
    "writes far behind an output", "knows the sizes of the book", "skips each tenth step", "ends its process",
}  # fmt: skip
"""Names of those that are judged in each run of the tests."""
