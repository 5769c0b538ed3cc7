"""Kernel text with knobs: resolved, rendered, hashed and compared is the text that a compiler gets and a reader sees."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import pytest

from roofbook import paths
from roofbook.labs import peaks
from roofbook.spec import registry
from roofbook.spec.host_code import tokens_of
from roofbook.spec.lab import Lab
from roofbook.spec.source import Source, _family, _wrap, documented, line_directives

from ..naming import naming

DIALECT = paths.LIBRARY / "spec" / "dialect"
KERNELS = [path for end in ("k", "cu", "h", "inc") for path in sorted(paths.LIBRARY.rglob(f"*.{end}"))]
KERNELS = [path for path in KERNELS if path.parent.name != "peers"]  # those are of C
MOST_KNOBS = 8

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


def test_each_line_tells_a_compiler_its_place_where_a_tool_asks_for_it(scale: Path) -> None:
    """A line from a macro has the place where the macro was used."""
    source = Source.of(scale, BY="TWICE", TYPE="float")
    plain = source.render("opencl")
    with line_directives():
        text = source.render("opencl")
    assert source.render("opencl") == plain and source.sha256 == Source.of(scale, BY="TWICE", TYPE="float").sha256
    seen, file, at = {}, "", 0
    for line in text.splitlines():
        if place := re.fullmatch(r'#line (\d+) "(.*)"', line):
            file, at = place[2], int(place[1]) - 1
        else:
            at += 1
            seen[file, at] = line.strip()
    lines_by_text = {
        line.strip(): seen[str(scale), at]
        for at, line in enumerate(SCALE_K.splitlines(), 1)
        if (str(scale), at) in seen
    }
    assert lines_by_text["out[i] = CHANGED(out[i]);"] == "out[i] = out[i] * 2;"
    assert lines_by_text["MORE"].startswith("int more = ")
    assert lines_by_text["// The only kernel."] == "// The only kernel."
    without = re.sub(r"^#line .*\n", "", text, flags=re.M)
    assert tokens_of(without) == tokens_of(plain)


@pytest.mark.parametrize(
    ("lab", "variant"), [("lbm", "tree"), ("lbm", "vectors"), ("cnn", "tiled"), ("lenet", "tensor")]
)
def test_lines_of_the_labs_kernels_change_no_token(lab: str, variant: str) -> None:
    chosen = registry.get(lab).variant(variant)
    assert chosen.source
    for dialect in chosen.backends:
        knobs = {"CHANNELS": 1, "FILTERS": 4, "SIZE": 8}
        source = chosen.source.with_knobs(**knobs) if lab == "lenet" else chosen.source
        with line_directives():
            text = source.render(dialect)
        assert tokens_of(re.sub(r"^#line .*\n", "", text, flags=re.M)) == tokens_of(source.render(dialect))
        for number, file, line in re.findall(r'^#line (\d+) "(.*)"\n(.*)', text, re.M):
            lines_of_file = Path(file).read_text().splitlines()[int(number) - 1]
            assert line.split() == lines_of_file.split() or re.search(r"\b[A-Z][A-Z0-9_]+\b", lines_of_file), (
                "only macros become another line"
            )


def test_turn_and_without_leave_the_rest(scale: Path) -> None:
    source = Source.of(scale, BY="TWICE", TYPE="float")
    turned = source.with_knobs(BY="PLUS")
    assert "out[i] + 1" in turned.resolve() and "GLOBAL float" in turned.resolve()
    assert dict(source.knobs) == {"BY": "TWICE", "TYPE": "float"}
    assert dict(turned.without("TYPE").knobs) == {"BY": "PLUS"}


def test_an_unknown_knob_or_arm_is_an_error(scale: Path) -> None:
    with pytest.raises(ValueError, match=r"^scale\.k has no knob BYE$"):
        Source.of(scale, BYE=1)
    with pytest.raises(ValueError, match=r"^scale\.k: knob BY has no choice TWIZE$"):
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
    """Return the text without comments."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def knobs(paths: Iterable[Path]) -> set[str]:
    """Return the knobs that the files document."""
    return {name for path in paths for name in documented(path.read_text())}


def macros(paths: Iterable[Path]) -> set[str]:
    return {name for path in paths for name in re.findall(r"^\s*#\s*define\s+(\w+)", path.read_text(), re.MULTILINE)}


def sources_of(lab: Lab) -> dict[Source, str]:
    """Return each text of a lab's kernels with the name of the first variant that has it."""
    name_by_source: dict[Source, str] = {}
    for variant in lab.all_variants():
        if variant.source:
            name_by_source.setdefault(variant.source, variant.name)
    return name_by_source


def every_source() -> list[Source]:
    return [source for lab in LABS for source in sources_of(lab)]


LABS = [*map(registry.get, registry.names()), peaks.LAB]
OF_LABS = [pytest.param(lab, id=lab.name) for lab in LABS]


def languages(source: Source) -> tuple[str, ...]:
    return ("cuda",) if source.path.suffix == ".cu" else ("opencl", "cuda")


@pytest.mark.parametrize("lab", OF_LABS)
def test_render_leaves_no_word_of_ours(lab: Lab) -> None:
    for (source, name), dialect in product(sources_of(lab).items(), ("opencl", "cuda")):
        if dialect not in languages(source):
            continue
        with naming(f"{name} in {dialect}"):
            text = source.render(dialect)
            family = _family(source.path)
            ours = macros((*DIALECT.glob("*.h"), *family)) | knobs(family) | {name for name, _ in source.knobs}
            left = sorted(ours & set(re.findall(r"\w+", code(text))))
            assert not left, f"left unexpanded: {left}"
            assert not re.search(r"^\s*#(?!\s*(pragma|include <))", text, re.MULTILINE)
            assert "Knob" not in text and "<kernel>" not in text
            assert text.count("{") == text.count("}") and ("__kernel" if dialect == "opencl" else "__global__") in text


@pytest.mark.parametrize("lab", OF_LABS)
def test_resolve_leaves_only_the_dialects_words(lab: Lab) -> None:
    for source, name in sources_of(lab).items():
        with naming(name):
            words = set(re.findall(r"\w+", code(source.resolve())))
            dialect = macros(DIALECT.glob("*.h"))
            assert not (macros(_family(source.path)) - dialect) & words
            if source.path.suffix == ".k":
                assert (
                    "GLOBAL" in words
                    and {"KERNEL", "KERNEL_OF"} & words
                    and not {"__global__", "get_global_id"} & words
                )


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
    source = Source.of(scale, TYPE="int", BY=1)
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
    assert len(lines) == 3 and all(len(part) <= 116 and part.startswith("  ") for part in lines)
    assert " ".join(part.strip() for part in lines) == line.strip()
    assert all(part.startswith("        argument") for part in lines[1:])
    assert _wrap("short, line") == "short, line"
    unbroken = "x = " + "a" * 150 + ";"
    assert _wrap(unbroken) == unbroken


def test_a_comment_is_not_broken_into_code() -> None:
    comment = "// " + "one, two, " * 20
    assert _wrap(comment) == comment
    trailing = "  f(a, b); // " + "one, two, " * 20
    *code_lines, last = _wrap(trailing).split("\n")
    assert last.endswith(trailing[trailing.index("//") :]) and not any("one" in code_line for code_line in code_lines)


def test_kernels_are_rendered_in_lines_of_a_page() -> None:
    for source in every_source():
        for text in map(source.render, languages(source)):
            lines = re.sub(r'"[^"\n]*"', lambda match: "_" * len(match[0]), code(text)).split("\n")
            assert not [line for line in lines if ", " in line.rstrip()[10:116] and len(line) > 116]


def test_a_knob_that_is_added_to_a_file_is_known_at_once(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.k"
    kernel.write_text('#include "part.h"\nKERNEL void k() {}\n')
    (tmp_path / "part.h").write_text("#define WIDE 1\n")
    with pytest.raises(ValueError, match=r"kernel\.k has no knob SHAPE"):
        Source.of(kernel, SHAPE="WIDE")
    (tmp_path / "part.h").write_text("#define WIDE 1\n#if SHAPE == WIDE\n#endif\n")
    assert Source.of(kernel, SHAPE="WIDE").knobs == (("SHAPE", "WIDE"),)
    with pytest.raises(ValueError, match=r"kernel\.k: knob SHAPE has no choice TALL"):
        Source.of(kernel, SHAPE="TALL")


# -- knobs have values -------------------------------------------------------------------------------------------------


WIDE_K = """// Writes.
//
// Knob LANES: how many
// Knob KIND:  FLAT;  DEEP  needs DEPTH
// Knob DEPTH: how deep, where it is
#ifndef KIND
#define KIND FLAT
#endif
#define FLAT 1
#define DEEP 2
#if KIND == DEEP
#define VALUE DEPTH
#else
#define VALUE 0
#endif

// LANES of "DEPTH"
KERNEL void wide(GLOBAL int *out) { out[LANES] = VALUE; }
"""


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    path = tmp_path / "wide.k"
    path.write_text(WIDE_K)
    return path


def test_a_knob_that_is_not_given_has_its_default(wide: Path) -> None:
    source = Source.of(wide, LANES=4)
    assert source.settings == {"LANES": 4, "KIND": "FLAT"} and dict(source.knobs) == {"LANES": 4}
    assert "out[4] = 0;" in source.resolve() and "#" not in source.resolve() and "ifndef" not in source.resolve()
    assert source.sha256 == source.with_knobs(KIND="FLAT").sha256
    deep = source.with_knobs(KIND="DEEP", DEPTH=7)
    assert "out[4] = 7;" in deep.resolve() and deep.settings == {"LANES": 4, "KIND": "DEEP", "DEPTH": 7}


def test_a_plan_that_asks_for_a_knob_of_another_text_is_told_so(wide: Path) -> None:
    with pytest.raises(ValueError, match=r"^\w+\.k has no knob DEEP, which its plan asks for$"):
        Source.of(wide, LANES=4).settings["DEEP"]


def test_a_knob_that_is_neither_given_nor_defaulted_is_an_error_that_names_it(wide: Path) -> None:
    for render in (Source.resolve, lambda source: source.render("cuda"), lambda source: source.render("opencl")):
        with pytest.raises(ValueError, match=r"^wide\.k: neither a value nor a default for knob LANES$"):
            render(Source.of(wide))
        with pytest.raises(ValueError, match=r"^wide\.k: neither a value nor a default for knob DEPTH$"):
            render(Source.of(wide, LANES=4, KIND="DEEP"))
        with pytest.raises(ValueError, match=r"^wide\.k: neither a value nor a default for knob DEPTH, LANES$"):
            render(Source.of(wide, KIND="DEEP"))
    with pytest.raises(ValueError, match="LANES"):
        _ = Source.of(wide).sha256
    assert "out[4] = 0" in Source.of(wide, LANES=4).resolve(), "what a text does not use, it does not need"


def test_a_knob_in_a_condition_is_not_taken_for_0(wide: Path) -> None:
    wide.write_text(WIDE_K.replace("#ifndef KIND\n#define KIND FLAT\n#endif\n", ""))
    with pytest.raises(ValueError, match=r"^wide\.k: neither a value nor a default for knob KIND$"):
        Source.of(wide, LANES=4).resolve()
    assert "out[4] = 0;" in Source.of(wide, LANES=4, KIND="FLAT").resolve()
    wide.write_text(WIDE_K.replace("#if KIND", "#if KINDS"))
    with pytest.raises(ValueError, match=r"^wide\.k: a condition asks for KINDS, which nothing defines$"):
        Source.of(wide, LANES=4).resolve()


def test_a_knob_of_an_included_file_is_needed_too(wide: Path) -> None:
    (wide.parent / "part.h").write_text("// Knob PART: of what\n#pragma once\n#define SHARE (1 / PART)\n")
    wide.write_text('#include "part.h"\n#include "part.h"\n' + WIDE_K.replace("out[LANES]", "out[SHARE]"))
    with pytest.raises(ValueError, match=r"^wide\.k: neither a value nor a default for knob PART$"):
        Source.of(wide).resolve()
    assert "out[(1 / 3)]" in Source.of(wide, PART=3).resolve()


# -- files of kernels --------------------------------------------------------------------------------------------------


def included(path: Path) -> list[str]:
    """Return the names of files that a file includes, by a macro too."""
    return re.findall(r'^#(?:include|define \w+) "([\w.]+\.\w+)"', path.read_text(), re.MULTILINE)


def test_a_file_has_few_knobs_and_documents_them_at_its_head() -> None:
    """A file documents its own knobs: its headers document theirs, and a fragment has none."""
    for path in KERNELS:
        with naming(path):
            text = path.read_text()
            knobs_at_head = documented(text)
            assert len(knobs_at_head) == len(set(knobs_at_head))
            assert (
                len(documented(re.sub(r"^// Knobs? [^:]*: as in [^\n]*", "", text, flags=re.MULTILINE))) <= MOST_KNOBS
            )
            assert path.suffix != ".inc" or not knobs_at_head
            head = re.match(r"(//[^\n]*\n)*", text)
            assert head and documented(head[0]) == knobs_at_head, "all in one place"
            defaults = re.findall(r"^#ifndef (\w+)\n#define (\w+)", text, re.MULTILINE)
            assert all(name == again for name, again in defaults)
            last = max((text.index(f"#ifndef {name}\n") for name, _ in defaults if name in knobs_at_head), default=0)
            assert not re.search(r"^(KERNEL|DEVICE|#if )", text[:last], re.MULTILINE), "defaults are at the top"


def test_a_knob_is_documented_once_in_all_that_a_kernel_includes() -> None:
    for path in [path for path in KERNELS if path.suffix in (".k", ".cu")]:
        with naming(path):
            every = [name for text in _family(path).values() for name in documented(text)]
            assert sorted(every) == sorted(set(every))


def test_every_knob_is_set_by_someone() -> None:
    """A variant or the code that drives the kernel sets each knob; one that nobody sets is dead."""
    folders = {path.parent for path in KERNELS} - {DIALECT}
    knobs_set = {name for source in every_source() for name, _ in source.knobs}
    code_of = {folder: " ".join(file.read_text() for file in folder.glob("*.py")) for folder in folders}
    for path in KERNELS:
        everywhere = " ".join(code_of.values()) if path.parent == DIALECT else code_of[path.parent]
        for name in documented(path.read_text()):
            assert name in knobs_set or re.search(rf"\b{name}\b", everywhere), f"{path.name}: nobody sets {name}"


def test_a_fragment_says_in_its_first_line_what_it_uses() -> None:
    for path in [path for path in KERNELS if path.suffix == ".inc"]:
        with naming(path):
            first, _, body = path.read_text().partition("\n")
            uses = re.match(r"// Uses (.+)\.$", first)
            assert uses
            words = {word for word in re.findall(r"\w+", uses[1]) if not (path.parent / f"{word}.k").exists()}
            for begin, end in re.findall(r"\b([a-z]\d) to ([a-z]\d)\b", uses[1]):
                words |= {f"{begin[0]}{n}" for n in range(int(begin[1]), int(end[1]) + 1)}
            users = [kernel for kernel in KERNELS if kernel.parent == path.parent and path.name in included(kernel)]
            shared = {name for user in users for name in locals_of(user)}
            own = locals_of(path) | set(re.findall(r"\w+", " ".join(re.findall(r"#define \w+\((.*?)\)", body))))
            used = shared & set(re.findall(r"\b[a-z]\w*\b", code(body))) - own
            assert used <= words, f"not said: {sorted(used - words)}"


def locals_of(path: Path) -> set[str]:
    """Return the names a file declares: variables and parameters of kernels. A rough reading, enough for our own text."""
    text = code(path.read_text())
    kinds = r"(?:int|float|float4|float16|char|short|uint2|uint4|OPERAND|REAL|MASK|bool|unsigned|IMAGE|INPUT)"
    names = r"(?:^|,)\s*(?:\w+\s+)?\**\s*(?:RESTRICT\s+)?([a-z]\w*)\s*(?=[=;,\[)]|$)"
    return {name for part in re.findall(rf"\b{kinds}\b([^;{{}}]*)", text) for name in re.findall(names, part)}


def test_a_files_ending_says_how_it_is_used() -> None:
    """A kernel is never included, a header any number of times, a fragment within a kernel or header of its folder."""
    for path in KERNELS:
        with naming(path):
            users = [
                kernel
                for kernel in KERNELS
                if path.name in included(kernel) and path.parent in (kernel.parent, DIALECT)
            ]
            if path.suffix in (".k", ".cu"):
                assert not users and "#pragma once" not in path.read_text()
            elif path.suffix == ".inc":
                assert users and "#pragma once" not in path.read_text()
            elif path.parent != DIALECT or users:
                assert users and path.read_text().count("\n#pragma once\n") == 1


@pytest.mark.parametrize("dialect", ["opencl", "cuda"])
def test_a_header_stands_alone(dialect: str, tmp_path: Path) -> None:
    """Included twice and by nothing but itself, it gives its text once; it lacks nothing but knobs."""
    for number, path in enumerate(path for path in KERNELS if path.suffix == ".h" and path.parent != DIALECT):
        if dialect == "opencl" and "hopper.h" in included(path):
            continue
        with naming(path):
            folder = tmp_path / str(number)
            folder.mkdir()
            for file in path.parent.glob("*.h"):
                (folder / file.name).write_text(file.read_text())
            alone = folder / "alone.k"
            alone.write_text(f'#include "{path.name}"\n#include "{path.name}"\nKERNEL void alone() {{}}\n')
            settings = {name: 4 for name in knobs(_family(alone)) - set(Source.of(alone).settings)}
            text = Source.of(alone, **settings).render(dialect)
            shouted = set(re.findall(r"\b[A-Z][A-Z_0-9]+\b", code(re.sub(r'"[^"\n]*"', "", text))))
            assert shouted <= {"CLK_LOCAL_MEM_FENCE"}, "a macro is not expanded"
            kernels = re.findall(r"(?:__kernel|__global__) void (\w+)", text)
            assert len(kernels) == len(set(kernels))


def test_a_comment_of_an_included_file_stays_where_its_code_does(tmp_path: Path) -> None:
    """A kernel's text does not open with comments on macros that are expanded further down."""
    (tmp_path / "macros.h").write_text("// Macros for the lattice.\n#define TWICE(x) (2 * (x))\n")
    (tmp_path / "more.h").write_text('// More of them.\n#include "macros.h"\n#define FOUR(x) TWICE(TWICE(x))\n')
    (tmp_path / "helper.h").write_text("// A function.\nint one(void) { return 1; }\n// Nothing follows.\n")
    kernel = (
        '// The kernel.\n#include "more.h"\n#include "helper.h"\n\n// Of this file.\nkernel void k(global int *a) {\n'
    )
    (tmp_path / "k.k").write_text(kernel + "  // Inside.\n  a[0] = FOUR(one());\n}\n")
    text = Source.of(tmp_path / "k.k").render("opencl")
    comments = [line.strip() for line in text.split("\n") if line.strip().startswith("//")]
    assert comments == ["// The kernel.", "// A function.", "// Of this file.", "// Inside."]
    assert "\x1f" not in text and "one(void)" in text


@pytest.mark.parametrize(
    ("ending", "own_language", "other_language", "label"),
    [("cl", "opencl", "cuda", "OpenCL"), ("cu", "cuda", "opencl", "CUDA")],
)
def test_a_file_in_one_language_is_never_printed_as_another(
    tmp_path: Path, ending: str, own_language: str, other_language: str, label: str
) -> None:
    (tmp_path / f"k.{ending}").write_text("kernel void k(global int *a) { a[0] = 1; }\n")
    source = Source.of(tmp_path / f"k.{ending}")
    assert "a[0] = 1" in source.render(own_language)
    for language in (other_language, "c"):
        with pytest.raises(ValueError, match=rf"^k\.{ending} is {label} only$"):
            source.render(language)
