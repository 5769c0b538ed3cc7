"""A lab's ladder as one text."""

from __future__ import annotations

import pytest

from roofbook.report.ladder_source import EMPTY_MARK, GONE, NEW, ladder_source
from roofbook.spec import registry


def blocks(text: str) -> dict[str, list[str]]:
    """Return the lines of each step by its name, without headings."""
    steps: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("=== ") and line[4:].partition(",")[0] in names_of_steps:
            steps[name := line[4:].partition(",")[0]] = []
        elif not line.startswith("==="):
            steps[name].append(line)
    return steps


names_of_steps = {variant.name for lab in registry.names() for variant in registry.get(lab).ladder}


@pytest.mark.parametrize("lab_name", registry.names())
@pytest.mark.parametrize("language", ["opencl", "cuda"])
def test_each_kernel_stands_whole_and_the_parents_lines_can_be_told(lab_name: str, language: str) -> None:
    lab = registry.get(lab_name)
    steps = blocks(ladder_source(lab, language))
    assert list(steps) == [variant.name for variant in lab.ladder]
    for variant in lab.ladder:
        lines = steps[variant.name]
        if variant.source is None or language not in variant.languages:
            assert lines == [], variant.name
            continue
        text = variant.source.render(language).splitlines()
        parent = lab.variant(variant.parent) if variant.parent else None
        before = (
            parent.source.render(language).splitlines()
            if parent and parent.source and language in parent.languages
            else None
        )
        if before == text:
            assert lines == [], variant.name
            continue
        assert [line[1:] for line in lines if line[0] != GONE] == text, variant.name
        if before is None or parent is variant:
            assert {line[0] for line in lines} == {EMPTY_MARK}, variant.name
        else:
            assert [line[1:] for line in lines if line[0] != NEW] == before, variant.name
            assert any(line[0] != EMPTY_MARK for line in lines), variant.name


def test_by_default_each_step_is_in_a_language_that_it_has() -> None:
    lab = registry.get("stencil")
    steps = blocks(ladder_source(lab))
    fused = lab.variant("fused")
    assert fused.source and "__kernel void flat" in "\n".join(steps["fused"])
    assert any(line.startswith(NEW) and "pass < 23" in line for line in steps["fused"])
    assert any(line.startswith(GONE) and "pass < 1" in line for line in steps["fused"])
