"""A lab's ladder as one text: the kernel of each step in order, with the lines marked in which it differs from its parent's."""

import difflib
from collections.abc import Iterator

from ..devices.backends import languages
from ..spec.lab import Lab
from ..spec.plan import Variant

EMPTY_MARK, NEW, GONE = " ", "+", "-"
"""First letter of a line: it stands in both kernels, in the step's alone, or in its parent's alone."""


def ladder_source(lab: Lab, language: str | None = None) -> str:
    """Return the kernels of a lab's steps, in the ladder's order, as text with a heading a step.

    language: one of `backends.languages()`; by default each step's first, which is the lab's own where a step has it. A step
    without a kernel in that language has its heading alone.
    """
    order = [lab.preferred_backend, *languages()]
    return "\n".join("\n".join(_step(lab, variant, [language] if language else order)) for variant in lab.ladder)


def _step(lab: Lab, variant: Variant, order: list[str]) -> Iterator[str]:
    """Yield the lines of a step: its name, its change, and its kernel."""
    parent = lab.variant(variant.parent) if variant.parent and variant.parent != variant.name else None
    yield f"=== {variant.name}" + (f", after {parent.name}" if parent else "")
    yield from (f"=== {line}" for line in variant.change.splitlines())
    language = next((name for name in order if name in variant.languages), None)
    if variant.source is None or language is None:
        yield f"=== No kernel in {order[0]}." if len(order) == 1 and variant.source else "=== A program of the host."
        return
    text = variant.source.render(language).splitlines()
    if parent is None or parent.source is None or language not in parent.languages:
        yield from (EMPTY_MARK + line for line in text)
        return
    before = parent.source.render(language).splitlines()
    if before == text:
        yield f"=== The kernel is the same; different: {', '.join(variant.differs)}."
        return
    yield from _marked(before, text)


def _marked(before: list[str], after: list[str]) -> Iterator[str]:
    """Yield all lines of `after` with their marks, and each line that is gone where it stood in `before`."""
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind == "equal":
            yield from (EMPTY_MARK + line for line in after[new_start:new_end])
        else:
            yield from (GONE + line for line in before[start:end])
            yield from (NEW + line for line in after[new_start:new_end])
