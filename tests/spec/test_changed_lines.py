"""The excerpt of a step's changed lines: all of a few, the innermost loop of many, and the host's code."""

from __future__ import annotations

import pytest

from roofbook.spec import changed_lines, registry
from roofbook.spec.changed_lines import GAP, MOST, excerpt

HEAD = "--- a\n+++ b\n@@ -1,9 +1,9 @@\n"


def test_of_a_few_changed_lines_all_are_shown_without_comments_and_common_blanks() -> None:
    diff = f"{HEAD} kernel\n-    sum += a;\n+    // faster\n+    sum = fma(a, b, sum);\n   }}\n+      last();"
    few = excerpt(diff)
    assert few.lines == ["-sum += a;", "+sum = fma(a, b, sum);", GAP, "+  last();"]
    assert (few.line_count, few.changed) == (3, 3)


def test_of_many_changed_lines_those_of_the_innermost_loop_are_shown() -> None:
    settings = [f"+#define SIZE{n} {n}" for n in range(40)]
    loop = ["+  for (;;) {", *(f"+        work({n});" for n in range(10)), "+  }"]
    cut = excerpt(HEAD + "\n".join([*settings, *loop, *(f"-old({n});" for n in range(20))]))
    assert cut.line_count <= MOST and cut.changed == 72
    assert sum("work" in line for line in cut.lines) == 10


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("+x = a[((16 + 5 - 1) * (8 + 5 - 1) * 128)];", "+x = a[30720];"),
        ("+stage = step % ((2 < 3 ? 7 : 9));", "+stage = step % 7;"),
        ("+g(3) + (2.0f / 4.0f) + (n / 2);", "+g(3) + (2.0f / 4.0f) + (n / 2);"),
        ("+a = (1 / 0);", "+a = (1 / 0);"),
    ],
)
def test_expressions_of_sizes_are_worked_out_and_no_others(line: str, shown: str) -> None:
    assert excerpt(HEAD + line).lines == [shown]


def test_a_line_that_macros_made_long_is_cut() -> None:
    (line,) = excerpt(f"{HEAD}+{'x' * 999}").lines
    assert len(line) == changed_lines.LONGEST and line.endswith("\u2026")


@pytest.mark.parametrize("lab", registry.names())
def test_each_step_that_only_its_host_code_changes_has_lines_of_it(lab: str) -> None:
    described = registry.get(lab)
    for variant in described.ladder:
        if variant.parent and "source" not in variant.differs:
            host = changed_lines.of_host(described.variant(variant.parent), variant)
            assert host.of_host and 0 < host.line_count <= MOST, variant.name
