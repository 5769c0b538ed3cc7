"""Kernel text with knobs: what is resolved, rendered, hashed and compared is what a compiler gets and a reader sees."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from roofbook.labs import peaks
from roofbook.spec import registry
from roofbook.spec.source import Source, _family, _wrap

DIALECT = Path(__file__).parents[2] / "lib" / "roofbook" / "spec" / "dialect"

SCALE_K = """// Scales an array.
//
// Knob BY:   TWICE  by two;  PLUS  adds one
// Knob TYPE: the type of an element
#include "more.k"
#define TWICE 1
#define PLUS 2
#if BY == TWICE
#define CHANGED(x) x * 2
#else
#define CHANGED(x) x + 1
#endif

// The only kernel.
KERNEL void scale(GLOBAL TYPE *RESTRICT out, int n) {
  const int i = GLOBAL_ID(0);
  MORE
  if (i < n) { // a comment stays
    out[i] = CHANGED(out[i]);
  }
}
"""
MORE_K = "#define MORE int more = LOCAL_ID(1);\n"


@pytest.fixture
def scale(tmp_path: Path) -> Path:
    (tmp_path / "more.k").write_text(MORE_K)
    path = tmp_path / "scale.k"
    path.write_text(SCALE_K)
    return path


def test_resolve_sets_knobs_and_keeps_the_dialects_words(scale: Path) -> None:
    text = Source.of(scale, BY="TWICE", TYPE="float").resolve()
    assert "out[i] = out[i] * 2;" in text and "int more = LOCAL_ID(1);" in text
    assert "KERNEL void scale(GLOBAL float *RESTRICT out, int n)" in text and "GLOBAL_ID(0)" in text
    assert "// The only kernel." in text and "// a comment stays" in text
    assert "#" not in text and "Knob" not in text and "CHANGED" not in text


def test_turn_and_without_leave_the_rest(scale: Path) -> None:
    source = Source.of(scale, BY="TWICE", TYPE="float")
    turned = source.with_knobs(BY="PLUS")
    assert "out[i] + 1" in turned.resolve() and "GLOBAL float" in turned.resolve()
    assert dict(source.knobs) == {"BY": "TWICE", "TYPE": "float"}
    assert dict(turned.without("TYPE").knobs) == {"BY": "PLUS"}
    assert "GLOBAL TYPE" in turned.without("TYPE").resolve()


def test_an_unknown_knob_or_arm_is_an_error(scale: Path) -> None:
    with pytest.raises(ValueError, match=r"^scale\.k has no knob BYE$"):
        Source.of(scale, BYE=1)
    with pytest.raises(ValueError, match=r"^scale\.k: knob BY has no arm TWIZE$"):
        Source.of(scale, BY="TWIZE")
    source = Source.of(scale, MORE="int knob;", TYPE="double2", BY=2)  # of an included file; a type; a number
    assert "double2" in source.resolve()
    with pytest.raises(ValueError, match="has no knob"):
        source.with_knobs(TYP="float")


def test_render_speaks_each_language(scale: Path) -> None:
    source = Source.of(scale, BY="TWICE", TYPE="float")
    opencl, cuda = source.render("opencl"), source.render("cuda")
    assert "__kernel void scale(__global float *restrict out, int n)" in opencl and "((int)get_global_id(0))" in opencl
    assert 'extern "C" __global__ void scale( float *__restrict__ out, int n)' in cuda
    assert "((int)(blockIdx.x * blockDim.x + threadIdx.x))" in cuda and "((int)threadIdx.y)" in cuda
    with pytest.raises(ValueError, match="no dialect 'metal'; there are cuda, opencl"):
        source.render("metal")


def test_a_cu_file_is_cuda_only(tmp_path: Path) -> None:
    path = tmp_path / "only.cu"
    path.write_text("KERNEL void only() {}\n")
    assert "__global__ void only() {}" in Source.of(path).render("cuda")
    with pytest.raises(ValueError, match=r"only\.cu is CUDA only"):
        Source.of(path).render("opencl")


def code(text: str) -> str:
    """Without comments."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def knobs(paths: Iterable[Path]) -> set[str]:
    """The knobs that the files document."""
    lines = (line for path in paths for line in re.findall(r"^// Knobs? ([A-Z_, ]+):", path.read_text(), re.MULTILINE))
    return {name for line in lines for name in re.findall(r"\w+", line)}


def macros(paths: Iterable[Path]) -> set[str]:
    return {name for path in paths for name in re.findall(r"^\s*#\s*define\s+(\w+)", path.read_text(), re.MULTILINE)}


def every_source() -> list[Any]:
    found: dict[Source, str] = {}
    for lab in (*map(registry.get, registry.names()), peaks.LAB):
        for variant in lab.all_variants():
            if variant.source:
                found.setdefault(variant.source, f"{lab.name}-{variant.name}")
    return [pytest.param(source, id=name) for source, name in found.items()]


def languages(source: Source) -> tuple[str, ...]:
    return ("cuda",) if source.path.suffix == ".cu" else ("opencl", "cuda")


@pytest.mark.parametrize("dialect", ["opencl", "cuda"])
@pytest.mark.parametrize("source", every_source())
def test_render_leaves_no_word_of_ours(source: Source, dialect: str) -> None:
    if dialect not in languages(source):
        pytest.skip("CUDA only")
    text = source.render(dialect)
    family = _family(source.path)
    ours = macros((*DIALECT.glob("*.h"), *family)) | knobs(family) | {name for name, _ in source.knobs}
    left = sorted(ours & set(re.findall(r"\w+", code(text))))
    assert not left, f"left unexpanded: {left}"
    assert not re.search(r"^\s*#(?!\s*(pragma|include <))", text, re.MULTILINE)
    assert "Knob" not in text and "<kernel>" not in text
    assert text.count("{") == text.count("}") and ("__kernel" if dialect == "opencl" else "__global__") in text


@pytest.mark.parametrize("source", every_source())
def test_resolve_leaves_only_the_dialects_words(source: Source) -> None:
    words = set(re.findall(r"\w+", code(source.resolve())))
    dialect = macros(DIALECT.glob("*.h"))
    assert not (macros(_family(source.path)) - dialect) & words
    if source.path.suffix == ".k":
        assert "GLOBAL" in words and {"KERNEL", "KERNEL_OF"} & words and not {"__global__", "get_global_id"} & words


def test_diff_names_both_and_shows_only_what_differs(scale: Path) -> None:
    twice, plus = Source.of(scale, BY="TWICE", TYPE="int"), Source.of(scale, BY="PLUS", TYPE="int")
    lines = plus.diff(twice, ("twice", "plus")).splitlines()
    assert lines[:2] == ["--- twice", "+++ plus"]
    changed = [line for line in lines[2:] if line[0] in "+-"]
    assert changed == ["-    out[i] = out[i] * 2;", "+    out[i] = out[i] + 1;"]
    assert plus.diff(plus.with_knobs(BY="PLUS")) == ""
    assert plus.diff(twice).splitlines()[:2] == ["--- parent", "+++ variant"]


def test_the_hash_follows_the_resolved_text(scale: Path) -> None:
    twice = Source.of(scale, BY="TWICE", TYPE="float")
    assert twice.sha256 != twice.with_knobs(BY="PLUS").sha256 != twice.with_knobs(TYPE="int").sha256
    assert twice.sha256 == Source.of(scale, TYPE="float", BY=1).sha256, "another spelling of the same arm"
    assert twice == Source.of(scale, TYPE="float", BY="TWICE"), "in another order"


def test_an_edit_changes_the_hash_of_those_whom_it_concerns(scale: Path) -> None:
    twice, plus = Source.of(scale, BY="TWICE", TYPE="float"), Source.of(scale, BY="PLUS", TYPE="float")
    before = twice.sha256, plus.sha256
    scale.write_text(SCALE_K.replace("x + 1", "x + 7"))
    assert twice.sha256 == before[0], "the edited arm is another variant's"
    assert plus.sha256 != before[1] and "+ 7" in plus.resolve()
    scale.write_text(SCALE_K)
    assert (twice.sha256, plus.sha256) == before
    (scale.parent / "more.k").write_text(MORE_K.replace("more", "less"))
    assert twice.sha256 != before[0] and "int less" in twice.render("opencl")
    scale.write_text(SCALE_K.replace("Knob TYPE: the type", "Knob TYPE: the kind"))
    (scale.parent / "more.k").write_text(MORE_K)
    assert (twice.sha256, plus.sha256) == before, "what documents a knob is not the kernel"


def test_a_file_that_comes_to_be_included_is_watched_too(scale: Path) -> None:
    source = Source.of(scale, TYPE="int")
    source.resolve()
    late = scale.parent / "late.k"
    late.write_text("int late = 1;\n")
    (scale.parent / "more.k").write_text('#include "late.k"\n#define MORE\n')
    assert "int late = 1;" in source.resolve()
    late.write_text("int late = 2;\n")
    assert "int late = 2;" in source.resolve()


def test_an_include_goes_by_a_macro_or_is_missed(scale: Path) -> None:
    choice = '#if BY == 1\n#define BODY "one.k"\n#else\n#define BODY "two.k"\n#endif\n'
    scale.write_text(f"{choice}KERNEL void k() {{\n#include BODY\n}}\n")
    (scale.parent / "one.k").write_text("  ONE_LINE\n")
    (scale.parent / "two.k").write_text("  two();\n")
    assert Source.of(scale, BY=2).resolve() == "KERNEL void k() {\n  two();\n}\n"
    one = Source.of(scale, BY=1, ONE_LINE="one();")
    assert "  one();" in one.resolve()
    (scale.parent / "two.k").unlink()
    assert "  one();" in one.resolve()
    with pytest.raises(ValueError, match=r"scale\.k includes two\.k, which is not there"):
        Source.of(scale, BY=2).resolve()


def test_an_error_of_the_text_is_said(scale: Path) -> None:
    scale.write_text("#if BY == 1\nKERNEL void k() {}\n")
    with pytest.raises(ValueError, match=r"scale\.k:\d+: Unterminated #if"):
        Source.of(scale, BY=1).resolve()


def test_long_lines_are_broken_after_commas() -> None:
    line = "  launch(" + ", ".join(f"argument_{i:02}" for i in range(20)) + ");"
    lines = _wrap(line).split("\n")
    assert len(lines) == 3 and all(len(each) <= 116 and each.startswith("  ") for each in lines)
    assert " ".join(each.strip() for each in lines) == line.strip()
    assert all(each.startswith("        argument") for each in lines[1:])
    assert _wrap("short, line") == "short, line"
    whole = "x = " + "a" * 150 + ";"
    assert _wrap(whole) == whole


def test_a_comment_is_not_broken_into_code() -> None:
    comment = "// " + "one, two, " * 20
    assert _wrap(comment) == comment
    trailing = "  f(a, b); // " + "one, two, " * 20
    *code_lines, last = _wrap(trailing).split("\n")
    assert last.endswith(trailing[trailing.index("//") :]) and not any("one" in each for each in code_lines)


def test_kernels_are_rendered_in_lines_of_a_page() -> None:
    for param in every_source():
        source = param.values[0]
        for text in map(source.render, languages(source)):
            lines = re.sub(r'"[^"\n]*"', lambda found: "_" * len(found[0]), code(text)).split("\n")
            assert not [line for line in lines if ", " in line.rstrip()[10:116] and len(line) > 116]


def test_a_knob_that_is_added_to_a_file_is_known_at_once(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.k"
    kernel.write_text('#include "part.h"\nKERNEL void k() {}\n')
    (tmp_path / "part.h").write_text("#define WIDE 1\n")
    with pytest.raises(ValueError, match=r"kernel\.k has no knob SHAPE"):
        Source.of(kernel, SHAPE="WIDE")
    (tmp_path / "part.h").write_text("#define WIDE 1\n#if SHAPE == WIDE\n#endif\n")
    assert Source.of(kernel, SHAPE="WIDE").knobs == (("SHAPE", "WIDE"),)
    with pytest.raises(ValueError, match=r"kernel\.k: knob SHAPE has no arm TALL"):
        Source.of(kernel, SHAPE="TALL")
