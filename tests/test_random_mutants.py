"""Small random changes of kernels: which ones may be drawn, and that checks refuse nearly all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from roofbook.spec import registry

from .random_mutants import Judge, RandomMutant, changes_of, drawn, mutated

CODE = "  for (int i = lane; i < WIDTH - 1; i++) sum += x[AT(i + 1)]; // i < 7"


def test_each_kind_of_change_is_made_in_code_and_none_in_comments() -> None:
    changes = {(old, new) for _, old, new in changes_of(CODE)}
    assert {
        ("<", "<="),
        ("<", ">"),
        ("1", "0"),
        ("1", "2"),
        ("-", "+"),
        ("+", "-"),
        ("+=", "="),
        ("WIDTH", "HEIGHT"),
    } <= changes
    assert all(start < CODE.index("//") for start, _, _ in changes_of(CODE)) and ("7", "8") not in changes
    for line in (
        "// a < b",
        "#ifdef A + 1",
        '#include "a 1.h"',
        "#pragma unroll 4",
        "",
        "KERNEL void f(int a, int b) {",
    ):
        assert list(changes_of(line)) == []
    assert {(old, new) for _, old, new in changes_of("#define AT(i, j) (i) * WIDTH + (j)")} >= {("*", "+"), ("+", "-")}


def test_a_change_is_made_at_its_place_alone() -> None:
    start = CODE.index("1)")
    mutant = RandomMutant("stencil", "flat", "flat.k", 1, start, "1", "2")
    assert mutant.applied_to(f"a\n{CODE}\n{CODE}") == f"a\n{CODE[:start]}2{CODE[start + 1 :]}\n{CODE}"
    with pytest.raises(AssertionError, match="has changed since the mutant was drawn"):
        mutant.applied_to("a\nb\n")


def test_a_drawn_mutant_changes_the_kernel_of_a_step_that_runs_here(tmp_path: Path) -> None:
    lab = registry.get("convpool")
    mutants = drawn("convpool", 5, seed=1)
    assert mutants == drawn("convpool", 5, seed=1) != drawn("convpool", 5, seed=2)
    for mutant in mutants:
        right = lab.variant(mutant.variant)
        wrong = mutated(lab, right, mutant, tmp_path).source
        assert right.source and wrong and wrong.sha256 != right.source.sha256


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    shared_judge = Judge("test")
    yield shared_judge
    shared_judge.close()


def place(file: str, words: str) -> tuple[int, int]:
    """Line and place in it of words of a kernel of the stencil."""
    text = (Path(registry.__file__).parents[1] / "labs" / "stencil" / file).read_text().split("\n")
    (line,) = [number for number, code_line in enumerate(text) if words in code_line]
    return line, text[line].index(words)


@pytest.mark.thorough
def test_a_mutant_is_refused_accepted_or_out_of_time(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.random_mutants.LIMIT_S", 900.0)
    wrong = RandomMutant("stencil", "flat", "flat.k", *place("flat.k", "2 * WIDTH"), "2", "1")
    assert judge.verdict(wrong).startswith("wrong result: ")
    harmless = RandomMutant("stencil", "flat", "flat.k", *place("flat.k", "1; pass < PASSES"), "1", "2")
    assert judge.verdict(harmless) == "accepted"  # of a step with one pass the loop does nothing
    monkeypatch.setattr("tests.random_mutants.LIMIT_S", 3.0)
    endless = RandomMutant("stencil", "streams", "streams.k", *place("streams.k", "k++) {"), "k++", "k += 0")
    assert judge.verdict(endless) == "out of time"


@pytest.mark.thorough
@pytest.mark.parametrize("lab", ["stencil", "convpool"])
def test_most_of_a_sample_are_refused(judge: Judge, lab: str) -> None:
    """Most accepted changes are no mistakes: a bound that is never reached, a branch that a step does not take."""
    outcomes = [judge.verdict(mutant) for mutant in drawn(lab, 30, seed=11)]
    built = [verdict for verdict in outcomes if not verdict.startswith("does not build")]
    assert len(built) >= 24 and built.count("accepted") <= 0.25 * len(built), outcomes
