"""Likeness of sources: a renamed copy is found, kernels that were written apart are not, and no text stops the others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.measure.judged_kernels import DIALECT, FLAT, PASS, TWO
from tests.often import often

from roofbook.analysis import likeness
from roofbook.analysis.likeness import LikePair, like_pairs, pairs_of_class, source_traces
from roofbook.spec import registry
from roofbook.spec.class_folder import ClassSubmission
from roofbook.spec.exercise import exercises, holed, solution

ONCE = """// launch once: width, height
kernel void once(global const float *r, global const float *b, global float *g, int height, int width) {
  size_t x = get_global_id(0);
  size_t y = get_global_id(1);
  if (x >= width || y == 0 || y >= height - 1)
    return;
  float above = r[(y - 1) * width + x];
  float below = b[(y + 1) * width + x];
  float root = 1.0f / sqrt(above + below);
  g[y * width + x] = g[y * width + x] + root;
}
"""
WIDE = """// launch k: width / 4, height - 2
__kernel void k(__global const float4 *r, __global const float4 *b, __global float4 *g, int width, int height) {
  int column = get_global_id(0), line = get_global_id(1) + 1, quads = width / 4;
  if (column < quads && line < height - 1)
    g[line * quads + column] += rsqrt(r[(line - 1) * quads + column] + b[(line + 1) * quads + column]);
}
"""


def renamed(text: str, **names: str) -> str:
    """Return a text with other names."""
    for before, after in names.items():
        text = re.sub(rf"\b{before}\b", after, text)
    return text


def found(tmp_path: Path, lab: str = "stencil", exercise: str | None = None, **texts: str) -> list[LikePair]:
    """Return the like pairs of a class. texts: by name; one whose name ends in `_k` is in the dialect."""
    submissions = [
        ClassSubmission(name, name, text, ".k" if name.endswith("_k") else ".cl") for name, text in texts.items()
    ]
    return pairs_of_class(registry.get(lab), submissions, exercise, lambda submission: tmp_path / submission.key)


def test_copies_are_found_and_independent_kernels_are_not(tmp_path: Path) -> None:
    copy = renamed(ONCE, once="mine", x="spalte", y="zeile", above="oben", below="unten", root="w", width="n")
    with_comments = copy.replace("  float w", "\n  /* the root */ float   w").replace("__", "")
    by_macro = "#define ROW(a, i) a[(i) * width + x]\n" + ONCE.replace("r[(y - 1) * width + x]", "ROW(r, y - 1)")
    pairs = found(
        tmp_path, once=ONCE, renamed=with_comments, macro=by_macro, one=PASS, flat=FLAT, dialect_k=DIALECT, wide=WIDE
    )
    assert {(pair.first, pair.second) for pair in pairs} == {
        ("macro", "once"),
        ("macro", "renamed"),
        ("once", "renamed"),
    }
    assert all(pair.is_exact and pair.share == 1 for pair in pairs if pair.first == "once")


def test_a_changed_copy_is_found(tmp_path: Path) -> None:
    changed = renamed(TWO, i="row", j="column", n="k", root="roots_of").replace(
        "  if (k <", "  const int unused = 3;\n  if (k <"
    )
    (pair,) = found(tmp_path, two=TWO, changed=changed, one=PASS, once=ONCE)
    assert (pair.first, pair.second, pair.is_exact) == ("changed", "two", False) and pair.share > 0.8


@pytest.mark.thorough
def test_the_handout_does_not_count(tmp_path: Path) -> None:
    lab = registry.get("stencil")
    exercise = exercises(lab).named("stencil", "checked")
    hole, right = holed(lab, exercise), solution(lab, exercise)
    assert found(tmp_path, exercise="checked", left_k=hole.replace("YOUR CODE", "CODE"), right_k=right) == []
    copy = renamed(right, i="row", j="column").replace("if (", "if (  ")
    (pair,) = found(tmp_path, exercise="checked", copy_k=copy, right_k=right, hole_k=hole, same_hole_k=hole)
    assert pair.is_exact


def test_the_order_of_submissions_does_not_matter() -> None:
    sources = {name: (numbers, name) for name, numbers in (("a", range(30)), ("b", range(3, 30)), ("c", range(50, 90)))}
    pairs = like_pairs(sources)
    assert pairs == like_pairs(dict(reversed(sources.items()))) == [LikePair("a", "b", 1.0, False)]


def test_runs_that_most_of_the_class_has_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {str(at): ([*range(20), *range(100 * at, 100 * at + 20)], str(at)) for at in range(1, 8)}
    assert like_pairs(sources) == []
    monkeypatch.setattr(likeness, "LIKE", 0.5)
    assert len(like_pairs(dict(list(sources.items())[:3]))) == 3


BOMB = "".join(f"#define A{at} A{at + 1} A{at + 1} A{at + 1} A{at + 1}\n" for at in range(40)) + "A0"
COMPARED = {
    "a backslash": "\\",
    "a quote": '"',
    "another file": "#include </etc/passwd>\nx",
    "a bad condition": "#if A\nA",
    "a bomb": BOMB,
}
NOT_COMPARED = {"nothing": "", "an open comment": "/* no end", "comments": "/* " * 300_000, "quotes": '"\\' * 300_000}


@pytest.mark.parametrize("name", often([*COMPARED, *NOT_COMPARED], lambda name: name not in ("comments", "quotes")))
def test_a_text_that_cannot_be_preprocessed_is_compared_as_it_stands(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(likeness, "LIMIT_S", 4.0)
    text = COMPARED.get(name) or NOT_COMPARED[name]
    traces = source_traces(registry.get("stencil"), ClassSubmission("a", "a", text, ".cl"), None)
    assert bool(traces["fingerprints"]) == (name in COMPARED)
    same = {name: (traces["fingerprints"], traces["whole"]) for name in ("a", "b")}
    assert bool(like_pairs(same)) == (name in COMPARED)
