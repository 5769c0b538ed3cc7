"""Table of kernels in today's languages: how close each comes to the best step like it, and the work that it takes."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..analysis import format as show
from ..analysis.kernel_languages import Comparison
from ..analysis.sentences import effect_text, joined
from .cell_format import check_cell
from .columns import Column, ratio_column, table
from .html import Cell, StandingNote, Table
from .ladder_table import notes_of

NOTE = StandingNote(
    "Best step like it: the fastest of those steps in the kernel's precision that differ least from it in work and timing. "
    "vs step: how many times as fast as the step the kernel is, below 1 if it is slower. "
    "Step of its method: the one that does the same work in the same order of launches. "
    "Lines: of code, without imports, comments and docstrings; a step's with all that it includes. "
    "Compile: with nothing cached. First result: the import of the language, the compilation and the first run."
)


def languages(device: str, comparisons: Sequence[Comparison]) -> Table:
    """Return a table with a line for each kernel and case on a device. device: in words, for the caption."""

    def fact(head: str, name: str, unit: str = "") -> Column[Comparison]:
        def value(comparison: Comparison) -> float | None:
            return comparison.kernel.facts.get(name)

        return _number(head, name.replace(" ", "_"), value, unit)

    columns = [
        Column("Kernel", lambda of: Cell(of.kernel.variant, small=of.title), fields={"variant": lambda of: of.kernel.variant}),
        Column("Case", lambda of: of.data.case, fields={"lab": lambda of: of.lab, "case": lambda of: of.data.case}),
        Column("Precision", lambda of: str(of.kernel.row["dtype"]), fields={"dtype": lambda of: of.kernel.row["dtype"]}),
        Column("Time", _time_cell, "num", {"seconds": lambda of: of.kernel.median}, "s per unit"),
        Column("Best step like it", _step_cell, fields={"step": lambda of: of.step.variant if of.step else None}),
        ratio_column("ratio", "vs step", comparisons, Comparison.ratio),
        Column("Step of its method", lambda of: of.kernel.parent or show.DASH, fields={"parent": lambda of: of.kernel.parent}),
        ratio_column("ratio_to_parent", "vs that step", comparisons, Comparison.ratio_to_parent),
        fact("Lines", "lines"),
        _number("Step's lines", "step_lines", Comparison.step_lines),
        fact("Compile (s)", "compile s", "s"),
        fact("First result (s)", "first result s", "s"),
        Column("Error / allowed", lambda of: replace(check_cell(of.kernel), card_id=of.card), "num"),
    ]  # fmt: skip
    kernels = [comparison.kernel for comparison in comparisons]
    notes = [*summary(comparisons), *leads(comparisons), *same_launches(comparisons), *notes_of(kernels, NOTE)]
    return table(f"Kernels in today's languages on {device}", columns, comparisons, notes, "peers")


def summary(comparisons: Sequence[Comparison]) -> list[str]:
    """Return a sentence on how close the kernels come to the steps; none without a ratio."""
    ratios = [ratio.estimate for comparison in comparisons if (ratio := comparison.ratio())]
    if not ratios:
        return []
    least, median, most = (show.factor(value) for value in (min(ratios), statistics.median(ratios), max(ratios)))
    return [
        f"The kernel farthest from its step has {least} of its speed, the nearest {most}, and half of them {median} or more."
    ]


def leads(comparisons: Sequence[Comparison]) -> list[str]:
    """Return a sentence for each kernel that is faster than the step of its method on some case: by how much, and where."""
    by_pair: dict[tuple[str, str], list[str]] = {}
    for comparison in comparisons:
        ratio = comparison.ratio_to_parent()
        if ratio and comparison.parent and ratio.word == "faster":
            pair = comparison.kernel.variant, comparison.parent.variant
            by_pair.setdefault(pair, []).append(f"{show.factor(ratio.estimate)} on {comparison.data.case}")
    return [
        f"{kernel} is faster than {step}, the step of its method, by these factors: {joined(ratios)}."
        for (kernel, step), ratios in by_pair.items()
    ]


def same_launches(comparisons: Sequence[Comparison]) -> list[str]:
    """Return a sentence for each kernel on the fastest steps that launch as it does, and how they compare with it."""
    effects: dict[str, dict[str, list[str]]] = {}
    for comparison in comparisons:
        ratio = comparison.gain_of_alike()
        if ratio and comparison.alike:
            words = f"{effect_text(ratio)[0]} on {comparison.data.case}"
            effects.setdefault(comparison.kernel.variant, {}).setdefault(comparison.alike.variant, []).append(words)
    return [
        f"The fastest steps that launch as {kernel} does, compared with it: "
        f"{'; '.join(f'{step} is {joined(words)}' for step, words in by_step.items())}."
        for kernel, by_step in effects.items()
    ]


def _number(
    head: str, name: str, value: Callable[[Comparison], float | None], unit: str = ""
) -> Column[Comparison]:  # fmt: skip
    def cell(comparison: Comparison) -> Cell:
        number = value(comparison)
        if number is None:
            return Cell(show.DASH, "num")
        return Cell(show.number(number) if isinstance(number, float) else str(number), "num")

    return Column(head, cell, "num", {name: value}, unit)


def _time_cell(comparison: Comparison) -> Cell:
    kernel = comparison.kernel
    return Cell(show.duration(kernel.median), "num", small=f"per {kernel.row['unit']}", card_id=comparison.card)


def _step_cell(comparison: Comparison) -> Cell:
    if comparison.step is None:
        return Cell(show.DASH, small="(no step in this precision has a time here)")
    sides = comparison.data.unlike(comparison.kernel.variant, comparison.step.variant)
    words = [
        f"the {side} {', '.join(conditions)}"
        for side, conditions in zip(("kernel", "step"), sides, strict=True)
        if conditions
    ]
    return Cell(comparison.step.variant, small=f"({'; '.join(words)})" if words else "")
