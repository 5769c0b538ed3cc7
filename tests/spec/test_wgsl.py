"""WGSL from the neutral dialect: the steps that it can say, the reasons for the others, and what each construct of C becomes.

The kernels that are run, and the modules that are compiled, need an adapter of WebGPU; Debian's mesa-vulkan-drivers is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofbook.devices.backends import HOST, ON_REQUEST, WEBGPU
from roofbook.devices.contract import Unsupported
from roofbook.paths import LIBRARY
from roofbook.report.webgpu_lacks import lacks, steps_by_reason
from roofbook.spec import registry, source, wgsl
from roofbook.spec.source import Source
from roofbook.spec.wgsl import NotInWgsl

TRANSLATED = {
    "stencil": """checked no-ifs compiled-sizes rsqrt native-rsqrt local-memory local-memory-tasks-2 tasks-2 tasks-4 tasks-8
        tasks-16 flat float2 float4 float8 float16 fused fused-float16""",
    "cnn": """tiled global-id global-id-divided permuted unrolled aligned fissioned zeroed zeroed-declared fused-declared
        fused-declared-aligned local-tile implicit-gemm double-buffered winograd""",
    "lbm": """partly-ported ported no-finish fused soa no-compute one-buffer device-struct no-count tree kept-partials
        chunks-1792 chunks-3584 cell-speeds-1792 cell-speeds-3584 select accelerate-fused bit-neighbours hoisted
        byte-obstacles flat-grid fours fours-momentum in-place subgroup-sums half-storage walk-down walk-paired
        walk-momentum""",
    "convpool": """row-groups filter-groups atomic-pool unrolled shared-index lists input-in-local built-lists strips
        strips-prepared both-sparse tiles whole-program""",
    "lenet": """linear linear-constant tiled-halo tiled-halo-constant unrolled unrolled-constant fused-constant linear-atomic
        tiled-halo-atomic joint baseline constant tiled tiled-constant atomic-channels tiled-atomic registers fused-pool
        halves whole""",
}
"""Lab -> its steps that WGSL can say. One that is gone from here is a regression; one that is new belongs here."""
LACKING = {
    ("stencil", "streams"): "devices that are the host's own CPU",
    ("lbm", "walk-half"): "pointers to numbers of another size than the memory holds",
    ("lbm", "graph"): "launches that are recorded and submitted as one",
    ("lbm", "c-host"): "a driver's functions in C, for a loop in C and for a process that does nothing else",
    ("cnn", "constant"): "arguments of a kernel that point to constant memory",
    ("convpool", "images"): "two-dimensional images that kernels read",
    ("convpool", "tensor-int8"): "kernels in CUDA C++",
}
"""(lab, step) -> a part of the reason why WebGPU does not run it."""


@pytest.mark.parametrize("lab", TRANSLATED)
def test_the_steps_of_a_lab_that_wgsl_can_say(lab: str) -> None:
    steps = [v for v in registry.get(lab).ladder if v.options.get("device") != "host" and v.role in ("step", "probe")]
    assert [step.name for step in steps if not step.lacking("webgpu")] == TRANSLATED[lab].split()


@pytest.mark.parametrize(("lab", "step"), LACKING)
def test_a_step_that_wgsl_cannot_say_has_its_reason(lab: str, step: str) -> None:
    variant = registry.get(lab).variant(step)
    assert LACKING[lab, step] in variant.lacking("webgpu")
    assert not variant.is_for("webgpu", "gpu")


@pytest.fixture(scope="module")
def adapter() -> Any:
    """The first adapter of WebGPU."""
    if not (present := ON_REQUEST["webgpu"].devices()):
        pytest.skip(WEBGPU.absent)
    return present[0]


@pytest.mark.parametrize("lab", TRANSLATED)
def test_a_compiler_of_wgsl_takes_each_step(adapter: Any, lab: str) -> None:
    for name in TRANSLATED[lab].split():
        program = adapter.build(registry.get(lab).variant(name).text.render("webgpu"))
        assert program.kernel(program.text.partition("// Kernel ")[2].split()[0].rstrip(",")).arguments, name


# -- constructs, by their results ------------------------------------------------------------------------------------------

N = 64
Kernel = Callable[..., np.ndarray]


def of_text(folder: Path, body: str, name: str = "made.k") -> Source:
    path = folder / name
    path.write_text(body)
    return Source.of(path)


@pytest.fixture
def run(adapter: Any, tmp_path: Path) -> Kernel:
    """Runs a kernel `made(x, out)` of N work-items in groups of 16, and returns `out`."""

    def made(body: str, x: np.ndarray, kind: str = "float", out: str = "float", before: str = "") -> np.ndarray:
        text = (
            f"{before}\nKERNEL void made(GLOBAL const {kind} *RESTRICT x, GLOBAL {out} *RESTRICT out) {{\n{body}\n}}\n"
        )
        kernel = adapter.build(of_text(tmp_path, text).render("webgpu")).kernel("made")
        dtype = {"float": np.float32, "int": np.int32, "unsigned int": np.uint32}[out]
        buffers = [adapter.upload(x), adapter.upload(np.zeros(N, dtype))]
        queue = adapter.queue()
        queue.launch(kernel, (N,), (16,), *buffers)
        return np.asarray(queue.read(buffers[1], np.empty(N, dtype)))

    return made


X = np.arange(4 * N, dtype=np.float32) + 1
POINTERS = """struct two {
  GLOBAL float *a, *b;
};
KERNEL void point(GLOBAL struct two *pair, GLOBAL float *a, GLOBAL float *b) {
  pair->a = a;
  pair->b = b;
}
KERNEL void made(GLOBAL const struct two *RESTRICT pair, GLOBAL float *RESTRICT out) {
  const int i = GLOBAL_ID(0);
  out[i] = pair->a[i] - pair->b[i];
  pair->b[i] = 7.0f;
}
"""


def test_a_structure_of_pointers_becomes_the_buffers_that_it_points_to(adapter: Any, tmp_path: Path) -> None:
    program, queue = adapter.build(of_text(tmp_path, POINTERS).render("webgpu")), adapter.queue()
    made, point = map(program.kernel, ("made", "point"))
    assert len(made.arguments) == 3
    a, b, out, pair = (adapter.upload(X[:N] * np.float32(factor)) for factor in (5, 2, 0, 0))
    for first, second, right in ((a, b, 3 * X[:N]), (b, a, 7 - 5 * X[:N])):
        queue.launch(point, (1,), (1,), pair, first, second)
        queue.launch(made, (N,), (16,), pair, out)
        np.testing.assert_array_equal(queue.read(out, np.empty(N, np.float32)), right)
    assert (queue.read(a, np.empty(N, np.float32)) == 7).all()


I = "const int i = GLOBAL_ID(0);"  # noqa: E741
AT = np.arange(N)

FLOATS = {
    "a pointer into the middle of a buffer": (
        f"{I} GLOBAL const float *p = x + i; p += 2; out[i] = p[1] + *p;", X[AT + 3] + X[AT + 2],
    ),
    "a pointer that a loop moves": (
        f"{I} float sum = 0.0f; for (GLOBAL const float *p = x + 2 * i; p[0] < 2 * i + 4; p++) sum += p[0]; out[i] = sum;",
        6 * AT + 6,
    ),
    "a cast to a vector": (f"{I} const float4 v = *(GLOBAL const float4 *)(x + 4 * i); out[i] = v.x + v.w;", X[::4] + X[3::4]),
    "a vector beside numbers": (f"{I} out[i] = (*(GLOBAL const float2 *)(x + 2 * i)).y + x[i];", X[2 * AT + 1] + X[AT]),
    "a store of a vector among numbers": (
        f"{I} out[i] = 0.0f; if (i % 2 == 0) *(GLOBAL float2 *)(out + i) = *(GLOBAL const float2 *)(x + i);",
        np.where(AT % 2 == 0, X[AT], 0) + np.where(AT % 2, X[AT] * (AT % 2), 0),
    ),
    "a choice that must not read what is not there": (
        f"{I} out[i] = i > 3 ? x[i - 4] : -1.0f;", np.where(AT > 3, X[AT - 4], -1),
    ),
    "nested choices": (f"{I} out[i] = i < 8 ? 1.0f : i < 16 ? x[i] : 3.0f;", np.where(AT < 8, 1, np.where(AT < 16, X[AT], 3))),
    "a comparison as a number": (f"{I} out[i] = (i > 5) + (i > 7 && i < 9);", (AT > 5) + 1.0 * (AT == 8)),
    "an assignment within an assignment": (f"{I} float a, b; a = b = x[i]; out[i] = a + b;", 2 * X[AT]),
    "a step within an expression": (f"{I} int n = 0; float a[4]; a[n++] = 1.0f; a[n++] = 2.0f; out[i] = a[1] + n;", 4 + 0 * AT),
    "a loop with two counters": (f"{I} int k = 0; for (int a = 0, b = 9; a < b; a++, b--) k += 1; out[i] = k;", 5 + 0 * AT),
    "do and while": (f"{I} int k = i; do {{ k /= 2; }} while (k > 3); while (k > 0) k--; out[i] = k;", 0 * AT),
    "break and continue": (
        f"{I} int k = 0; for (int a = 0; a < 9; a++) {{ if (a == 2) continue; if (a > 4) break; k += a; }} out[i] = k;",
        8 + 0 * AT,
    ),
    "a loop that is written out": (
        f'{I} float a[3][2]; _Pragma("unroll") for (int r = 0; r < 3; r++) {{ _Pragma("unroll") for (int c = 0; c < 2; c++)'
        " a[r][c] = r * 10 + c; } out[i] = a[2][1] + a[1][0];",
        31 + 0 * AT,
    ),
    "a pointer whose loop is written out": (
        f'{I} GLOBAL const float *p = x; _Pragma("unroll") for (int r = 0; r < 3; r++) p += r; out[i] = p[i];', X[AT + 3],
    ),
    "local memory, seen as numbers and as vectors": (
        "LOCAL_ARRAY(float4, tile, 4); LOCAL float *flat = (LOCAL float *)tile; const int l = LOCAL_ID(0);"
        " flat[l] = x[GLOBAL_ID(0)]; BARRIER(); const float4 v = tile[l / 4]; out[GLOBAL_ID(0)] = v.z;",
        X[AT // 4 * 4 + 2],
    ),
    "a loop that is written out downwards": (
        f'{I} float a[4]; _Pragma("unroll") for (int k = 3; k >= 0; k -= 1) a[k] = 10 * k; out[i] = a[3] + a[0];', 30 + 0 * AT,
    ),
    "a loop over a private array without a pragma": (
        f"{I} float a[3][2], sum = 0.0f; for (int r = 0; r < 3; r++) {{ for (int c = 0; c < 2; c++) a[r][c] = r * 10 + c; }}"
        " for (int r = 0; r < 3; r += 2) sum += a[r][1] * a[r + (r < 2)][0]; out[i] = sum;",
        1 * 10 + 21 * 20 + 0 * AT,
    ),
    "constants that are divided toward zero": (
        f"{I} float a[8] = {{0.0f}}; for (int k = -3; k < 4; k++) {{ if (k % 2 == -1 && (k - 4) / 2 < -2) a[k + 3] = 1.0f; }}"
        " out[i] = a[0] + 10 * a[2];",
        1.0 + 0 * AT,
    ),
    "a loop that never runs": (f"{I} float a[4] = {{0.0f}}; for (int k = 0; k > 3; k++) a[k] = 1.0f; out[i] = a[0];", 0.0 * AT),
    "an unsigned counter that wraps": (
        f"{I} float a[4]; for (unsigned k = 0; k < 4; k++) a[k] = (k - 2) / 2 > 5 ? 1.0f : 2.0f; out[i] = a[0] + 10*a[3];",
        21.0 + 0 * AT,
    ),
    "a constant that becomes unsigned": (
        f"{I} float a[4]; for (int k = 0; k < 4; k++) {{ if (k - 1 < 1u) a[k] = 1.0f; else a[k] = 2.0f; }}"
        " out[i] = a[0] + 10 * a[1];",
        12.0 + 0 * AT,
    ),
    "pragmas before a while and a declaration": (
        f'{I} int n = 0; _Pragma("unroll 1") while (n < 3) n++; _Pragma("unroll") float sum = n; out[i] = sum;', 3.0 + 0 * AT,
    ),
    "sixteen numbers as one": (
        f"{I} if (i < 4) *(GLOBAL float16 *)(out + 16 * i) = NATIVE_RSQRT(*(GLOBAL const float16 *)(x + 16 * i))"
        " + *(GLOBAL const float16 *)(x + 16 * i);",
        X[AT] + (1 / np.sqrt(X[AT])),
    ),
    "a variable with the name of the buffer that it points into": (
        f"{I} {{ GLOBAL const float *p = x; const float y = *p; GLOBAL const float *x = p + i; out[i] = x[1] + y; }}",
        X[AT + 1] + 1,
    ),
    "names that WGSL reserves": (f"{I} const float target = x[i], filter = 2.0f; out[i] = target * filter;", 2 * X[AT]),
    "the group and the range": (
        "out[GLOBAL_ID(0)] = GROUP_ID(0) * 1000 + LOCAL_ID(0) * 10 + GROUPS(0) + LOCAL_SIZE(0) + GLOBAL_SIZE(0);",
        AT // 16 * 1000 + AT % 16 * 10 + 4 + 16 + 64,
    ),
}  # fmt: skip
"""Construct -> (body of a kernel, the values of out). x is 1, 2, 3, ..."""


@pytest.mark.parametrize("construct", FLOATS)
def test_a_construct_has_its_value(run: Kernel, construct: str) -> None:
    body, right = FLOATS[construct]
    np.testing.assert_allclose(run(body, X), np.asarray(right, np.float32), rtol=3e-7)


INTEGERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "division rounds toward zero": (f"{I} out[i] = (x[i] - 7) / 4 * 100 + (x[i] - 7) % 4;", lambda x: [
        int((v - 7) / 4) * 100 + int(np.fmod(v - 7, 4)) for v in x
    ]),
    "shifts keep the sign": (f"{I} out[i] = (x[i] - 9) >> 2 | x[i] << (i % 3);", lambda x: (x - 9) >> 2 | x << AT % 3),
    "masks of comparisons": (
        f"{I} const int mask = (i == 3 ? ~0 : 0) & !(x[i] > 4) & (i > 2); out[i] = mask ? 5 : 6;",
        lambda x: np.where((AT == 3) & (x <= 4), 5, 6),
    ),
    "an index of 64 bits": (f"{I} out[i] = x[(long)i * 2 - i];", lambda x: x),
    "a function with a pointer and a changed argument": (
        f"{I} out[i] = sum(x + i, 3);", lambda x: [int(x[i : i + 3].sum()) if i + 3 <= N else v for i, v in enumerate(x)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("construct", INTEGERS)
def test_a_construct_of_integers_has_its_value(run: Kernel, construct: str) -> None:
    body, right = INTEGERS[construct]
    x: Any = np.arange(N, dtype=np.int32)
    loop = "int all = 0; while (count-- > 0) all += from[count]; return all;"
    before = f"DEVICE int sum(GLOBAL const int *from, int count) {{ {loop} }}"
    first = 60 if "function" in construct else N  # the last work-items read beyond the end
    np.testing.assert_array_equal(run(body, x, "int", "int", before)[:first], np.asarray(right(x))[:first])


@pytest.mark.parametrize(("kind", "dtype"), [("char", np.int8), ("unsigned char", np.uint8), ("short", np.int16)])
def test_narrow_integers_are_read_from_words(run: Kernel, kind: str, dtype: type) -> None:
    x: Any = np.random.default_rng(1).integers(np.iinfo(dtype).min, np.iinfo(dtype).max, N).astype(dtype)
    np.testing.assert_array_equal(run(f"{I} out[i] = x[i];", x, kind, "int"), x)


def test_words_are_read_from_bytes(run: Kernel) -> None:
    x = np.random.default_rng(4).integers(-128, 127, 4 * N).astype(np.int8)
    words = run(f"{I} out[i] = *(GLOBAL const unsigned int *)(x + 4 * i);", x, "char", "unsigned int")
    np.testing.assert_array_equal(words, x.view(np.uint32))


def test_a_structure_is_returned_and_copied(run: Kernel) -> None:
    before = (
        "struct both { float first, last; };\n"
        "DEVICE struct both taken(GLOBAL const float *from, int i) {\n"
        "  struct both b = {0};\n  b.last = from[i + 1];\n  if (i > 2) b.first = from[i];\n  return b;\n}"
    )
    body = (
        f"{I} const struct both a = taken(x, i); struct both b = a; b.first += 1.0f;"
        " out[i] = b.first * 100 + a.first + b.last;"
    )
    first = np.where(AT > 2, X[AT], 0)
    np.testing.assert_array_equal(run(body, X, before=before), (first + 1) * 100 + first + X[AT + 1])


def test_unsigned_words_are_cut_and_shifted(run: Kernel) -> None:
    x = np.random.default_rng(2).integers(0, 2**32, N, dtype=np.uint64).astype(np.uint32)
    low = run(f"{I} out[i] = FOUR_BYTES(x[i], x[(i + 1) % {N}], (i % 4) * 8);", x, "unsigned int", "unsigned int")
    wide = x.astype(np.uint64) | np.roll(x, -1).astype(np.uint64) << np.uint64(32)
    np.testing.assert_array_equal(low, (wide >> (AT % 4 * 8).astype(np.uint64)).astype(np.uint32))
    signed = run(f"{I} int sum = 1; ADD_BYTE_PRODUCT(sum, x[i], 1, 3); out[i] = sum;", x, "unsigned int", "int")
    np.testing.assert_array_equal(signed, 1 + 3 * (x >> 8).astype(np.uint8).view(np.int8).astype(int))


def test_atomic_sums_and_maxima(run: Kernel) -> None:
    x = np.arange(N, dtype=np.int32)
    assert run(f"{I} ATOMIC_MAX(out + 1, x[i]); ATOMIC_INCREMENT(out);", x, "int", "int")[:2].tolist() == [N, N - 1]
    assert run(f"{I} ATOMIC_ADD(out + 2, x[i]);", x.astype(np.float32))[2] == x.sum()


def test_fp16_is_rounded_to_the_nearest(adapter: Any, tmp_path: Path) -> None:
    if "shader-f16" not in adapter.features:
        pytest.skip("this adapter has no shader-f16")
    text = f"KERNEL void made(GLOBAL HALF *RESTRICT x) {{ {I} STORE_HALF(x, i, LOAD_HALF(x, i) * 3.0f); }}"
    kernel = adapter.build(of_text(tmp_path, text).render("webgpu")).kernel("made")
    x = np.random.default_rng(3).random(N).astype(np.float16)
    buffer, queue = adapter.upload(x), adapter.queue()
    queue.launch(kernel, (N,), (16,), buffer)
    np.testing.assert_array_equal(queue.read(buffer, np.empty_like(x)), (x.astype(np.float32) * 3).astype(np.float16))


def test_pairs_of_fp16_are_multiplied_and_added_in_fp16(adapter: Any, tmp_path: Path) -> None:
    if "shader-f16" not in adapter.features:
        pytest.skip("this adapter has no shader-f16")
    header = (LIBRARY / "labs" / "lenet" / "half_products.h").read_text(encoding="utf-8")
    body = "const unsigned int a = two_halves(x[2 * i], x[2 * i + 1]), c = half_products(a, both_halves(0.1f), a);"
    text = f"{header}KERNEL void made(GLOBAL const float *RESTRICT x, GLOBAL float *RESTRICT out) {{ {I} {body}"
    text += " out[2 * i] = first_half(c); out[2 * i + 1] = second_half(c); }"
    kernel = adapter.build(of_text(tmp_path, text).render("webgpu")).kernel("made")
    x = np.random.default_rng(3).random(2 * N).astype(np.float32)
    buffers, queue = [adapter.upload(x), adapter.upload(np.zeros_like(x))], adapter.queue()
    queue.launch(kernel, (N,), (16,), *buffers)
    a = x.astype(np.float16).astype(np.float64)
    right = (a * float(np.float16(0.1)) + a).astype(np.float16)
    np.testing.assert_allclose(queue.read(buffers[1], np.empty_like(x)), right, rtol=2.0**-10, atol=0)


def test_a_subgroup_adds_up_and_its_words_are_numbers(adapter: Any, tmp_path: Path) -> None:
    if "subgroup" not in adapter.features:
        pytest.skip("this adapter has no subgroups")
    text = """#include "subgroups.h"
    KERNEL void made(GLOBAL const float *RESTRICT x, GLOBAL float *RESTRICT out) {
      LOCAL_ARRAY(float, parts, 16);
      const float sum = SUBGROUP_SUM(x[GLOBAL_ID(0)]);
      if (SUBGROUP_LANE() == 0) parts[SUBGROUP_NUMBER()] = sum;
      BARRIER();
      float whole = 0.0f;
      for (int k = 0; k < SUBGROUP_COUNT(); k++) whole += parts[k];
      out[GLOBAL_ID(0)] = whole;
    }"""
    rendered = of_text(tmp_path, text).render("webgpu")
    assert rendered.startswith("enable subgroups;")
    kernel, queue = adapter.build(rendered).kernel("made"), adapter.queue()
    buffers = [adapter.upload(X[:N]), adapter.upload(np.zeros(N, np.float32))]
    queue.launch(kernel, (N,), (16,), *buffers)
    right = np.repeat(X[:N].reshape(-1, 16).sum(axis=1), 16)
    np.testing.assert_array_equal(queue.read(buffers[1], np.empty(N, np.float32)), right)


REFUSED = {
    "GLOBAL float *p = i > 3 ? x : x + 1; p[0] = 1.0f;": "pointers that are neither an argument nor a place in one array",
    "GLOBAL float *p = x; if (i > 3) p = y; p[0] = 1.0f;": "pointers that may point into either of two arrays",
    "const long k = i; x[0] = k;": "integers of 64 bits",
    "float8 v; x[0] = v.s0;": "components of long vectors",
    "int8 v; x[0] = 1.0f;": "vectors of eight or sixteen integers",
    "*(GLOBAL float8 *)x = *(GLOBAL float8 *)y; x[0] = 1.0f;": "vectors of eight or sixteen numbers beside others",
    "float v[2] = {1.0f}; x[0] = v;": "arrays as values",
    "struct both b = {{1.0f}}; x[0] = b.first;": "structures and vectors that begin with other values than zero",
    "x[0] = 1.0;": "constants of the type double",
    "x[0] = nowhere(i);": "the function nowhere",
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_wgsl_lacks_is_refused_with_its_reason(tmp_path: Path, body: str) -> None:
    text = f"struct both {{ float first; }}; KERNEL void made(GLOBAL float *x, GLOBAL float *y) {{ {I} {body} }}"
    with pytest.raises(Unsupported, match=REFUSED[body]):
        of_text(tmp_path, text).render("webgpu")


def test_bytes_are_not_written_side_by_side(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="a word of four has one writer"):
        of_text(tmp_path, f"KERNEL void made(GLOBAL char *x) {{ {I} x[i] = 1; }}").render("webgpu")


LOOPS = {
    "for (int k = 0; k < 4; k++) a[k] = x[k];": 0,
    "for (int r = 0; r < 2; r++) for (int k = 0; k < 2; k++) b[r][k] = x[k];": 0,
    "for (int r = 0; r < 2; r++) for (int k = 0; k < 2; k++) b[1 - r][k % 2] = x[k];": 0,
    "for (int k = 0; k < 4; k++) { for (int n = 0; n < i; n++) a[k] += x[n]; }": 4,  # each keeps the inner loop
    '_Pragma("unroll 1") for (int k = 0; k < 4; k++) a[k] = x[k];': 1,
    '_Pragma("unroll 1") for (int r = 0; r < 2; r++) for (int k = 0; k < 2; k++) b[r][k] = x[k];': 2,
    "for (int r = 0; r < i; r++) for (int k = 0; k < 2; k++) b[r][k] = x[k];": 2,
    "for (int k = 0; k < 4; k++) a[k + i] = x[k];": 1,
    "for (int k = 0; k < 4; k++) { a[k] = x[k]; if (x[k] > 0.0f) break; }": 1,
    "for (int k = 0; k < 4; k++) { a[k] = x[k]; k += 1; }": 1,
    "for (int k = 0; k < 4; k++) out[k] = x[k];": 1,
    "float large[600]; for (int k = 0; k < 600; k++) large[k] = x[k];": 1,
    "for (int k = 0; k < 2000000000; k++) { if (k < 0) a[k] = x[k]; }": 1,
    "for (unsigned int k = 0; k < 4; k++) a[k] = x[k];": 1,
    "for (int k = -1; k < 4u; k++) a[k + 1] = x[0];": 1,  # in C it never runs
    "for (float k = 0; k < 4; k++) a[(int)k] = x[0];": 1,
    "for (int k = 0; k > 4; k++) a[k] = x[k];": 1,
    "for (int k = 0; k < 4; k++) { a[k] = x[k]; if (i > 9) return; }": 1,
    "for (int k = 0; k < 4; k++) { if (k > 0 && i > 2) a[k] = a[k - 1]; }": 1,  # WGSL takes no a[-1], even behind `0 > 0`
    "for (int k = 0; k < 4; k++) { if (k > 0 && i > 2) a[k] = x[k - 1]; }": 1,
    "for (int k = 0; k < 4; k++) a[k] = k > 0 && 8 / k > 2 ? x[k] : 0.0f;": 1,
    "for (int k = 0; k < 4; k++) a[k] = (k > 0 && 1 << (k - 1) > 2) ? x[k] : 0.0f;": 1,
}
"""Text -> number of loops that it has in WGSL. `a` and `b` are private arrays, x and out buffers, i is not known."""


@pytest.mark.parametrize("text", LOOPS)
def test_a_short_loop_is_written_out_where_that_fixes_the_places_in_a_private_array(tmp_path: Path, text: str) -> None:
    body = f"{I} float a[4], b[2][2]; {text} out[i] = a[0] + b[0][0];"
    head = "KERNEL void made(GLOBAL const float *RESTRICT x, GLOBAL float *RESTRICT out)"
    written = of_text(tmp_path, f"{head} {{\n{body}\n}}\n").render("webgpu")
    assert written.count("for (") == LOOPS[text]
    if not LOOPS[text]:
        assert not re.search(r"\b[ab]\[[^\]]*[a-z]", written), "an index of an array is no constant"


def test_a_loop_that_is_too_long_to_be_written_out_keeps_its_comments(tmp_path: Path) -> None:
    text = f"KERNEL void made(GLOBAL float *x) {{\n  {I}\n  float a[600];\n  for (int k = 0; k < 600; k++) {{\n    // Kept.\n"
    written = of_text(tmp_path, text + "    a[k] = x[k];\n  }\n  x[i] = a[i];\n}\n").render("wgsl")
    assert "for (" in written
    assert "// Kept." in written


def test_comments_stay_above_their_lines(tmp_path: Path) -> None:
    text = f"// A kernel.\nKERNEL void made(GLOBAL float *x) {{\n  {I}\n  // The end.\n  x[i] = 1.0f; /* one */\n}}\n"
    lines = of_text(tmp_path, text).render("wgsl").splitlines()
    assert lines[lines.index("  // The end.") + 2] == "  x[i] = 1.0f;" and "// A kernel." in lines


@pytest.mark.parametrize(("lab", "step"), [("stencil", "float4"), ("lbm", "in-place"), ("cnn", "double-buffered")])
def test_a_translation_is_the_same_each_time(lab: str, step: str) -> None:
    from roofbook.spec.wgsl import translated

    source = registry.get(lab).variant(step).text
    with_cache = source.render("webgpu")
    assert source.render("wgsl") == with_cache and "fn " in with_cache
    assert translated("_Noreturn void a(volatile float *x) { x[0] = 1.0f; }") == translated(
        "_Noreturn void a(volatile float *x) { x[0] = 1.0f; }"
    )


@pytest.mark.site
@pytest.mark.parametrize(
    "lab", [pytest.param(lab, marks=[] if lab == "lbm" else pytest.mark.thorough) for lab in TRANSLATED]
)
def test_the_compiler_of_a_browser_takes_each_step(lab: str, browser_with_webgpu: Any, tmp_path: Path) -> None:
    """Chromium's, which is stricter: it asks for a proof that each barrier is reached by a whole group."""
    texts = {name: registry.get(lab).variant(name).text.render("wgsl") for name in TRANSLATED[lab].split()}
    (tmp_path / "page.html").write_text("<!doctype html><title>WGSL</title>")
    page = browser_with_webgpu.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    refused = page.evaluate(COMPILE, texts)
    page.close()
    extended = {name for name, text in texts.items() if text.startswith("enable ")}
    assert {name: words for name, words in refused.items() if words and name not in extended} == {}


COMPILE = """async (texts) => {
  const adapter = await navigator.gpu.requestAdapter(), device = await adapter.requestDevice(), refused = {};
  for (const [name, code] of Object.entries(texts)) {
    device.pushErrorScope('validation');
    const info = await device.createShaderModule({code}).getCompilationInfo();
    await device.popErrorScope();
    refused[name] = info.messages.filter(m => m.type === 'error').map(m => `${m.lineNum}: ${m.message}`);
  }
  return refused;
}"""
"""Compiles each text, and returns the compiler's errors by its name."""


def test_each_step_has_a_text_in_wgsl_or_a_reason_in_the_table() -> None:
    labs = [registry.get(name) for name in registry.names_of_site()]
    reasons, frame = steps_by_reason(labs), lacks().frame
    for lab in labs:
        for variant in lab.ladder:
            words = [reason for reason, steps in reasons.items() if (lab.name, variant.name) in steps]
            if HOST in variant.needs or variant.is_for("webgpu", "gpu"):
                assert not words, f"{lab.name} {variant.name} runs, or is no step of a GPU"
            elif variant.kind != "cpu":
                assert words and "; ".join(words) and all(word in variant.lacking("webgpu") for word in words), (
                    variant.name
                )
    assert list(frame["reason"]) == list(reasons) and frame["count"].sum() == sum(map(len, reasons.values()))


def test_a_reason_is_words_that_a_reader_knows() -> None:
    """Names of features, of Python's classes and of the translation are none of them."""
    code = re.compile(r"_|->|\bc_ast\b|\bNode\b|[a-z][A-Z]")
    for reason in steps_by_reason(registry.get(name) for name in registry.names_of_site()):
        assert " " in reason and not code.search(re.sub("OpenCL|PyTorch", "", reason)), reason


def test_a_refusal_is_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal is cached like a translation, also for later processes."""
    texts: list[str] = []

    def refuse(text: str) -> str:
        texts.append(text)
        raise NotInWgsl("no such thing")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(wgsl, "translated", refuse)
    for _ in range(2):
        with pytest.raises(Unsupported, match="no such thing"):
            source.translate("a text", WEBGPU.translator)
        source._translation_or_reason.cache_clear()
    assert texts == ["a text"]
