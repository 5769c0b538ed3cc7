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
    "Ratios: how many times as fast as the step below the number the kernel is, less than 1 if it is slower. "
    "Best step like it: the fastest of those steps in the kernel's precision that differ least from it in work and timing. "
    "Step of its method: the one that does the same work in the same order of launches. "
    "Lines: of code, without imports, comments and docstrings; those of the best step with all that it includes. "
    "Compile: with nothing cached. First result: the import of the language, the compilation and the first run."
)


def languages(device: str, comparisons: Sequence[Comparison]) -> Table:
    """Return a table with a line for each kernel and case on a device. device: in words, for the caption."""

    def fact(head: str, name: str, unit: str = "", on_demand: bool = True) -> Column[Comparison]:
        def value(comparison: Comparison) -> float | None:
            return comparison.kernel.facts.get(name)

        return replace(_number(head, name.replace(" ", "_"), value, unit), on_demand=on_demand)

    columns = [
        Column("Kernel", lambda of: Cell(of.kernel.variant, small=of.title), fields={"variant": lambda of: of.kernel.variant}),
        Column(
            "Case and precision", lambda of: Cell(of.data.case, small=str(of.kernel.row["dtype"])),
            fields={
                "lab": lambda of: of.lab, "case": lambda of: of.data.case, "dtype": lambda of: of.kernel.row["dtype"]
            },
        ),
        Column("Time", _time_cell, "num", {"seconds": lambda of: of.kernel.median}, "s per unit"),
        _beside_step(ratio_column("ratio", "vs best step like it", comparisons, Comparison.ratio), "step", _step_words),
        _beside_step(
            ratio_column("ratio_to_parent", "vs step of its method", comparisons, Comparison.ratio_to_parent),
            "parent", lambda of: of.kernel.parent or "",
        ),
        fact("Lines", "lines", on_demand=False),
        replace(_number("Best step's lines", "step_lines", Comparison.step_lines), on_demand=True),
        fact("Compile (s)", "compile s", "s"),
        fact("First result (s)", "first result s", "s"),
        Column("Error / allowed", lambda of: replace(check_cell(of.kernel), card_id=of.card), "num", on_demand=True),
    ]  # fmt: skip
    kernels = [comparison.kernel for comparison in comparisons]
    notes = [*summary(comparisons), *same_launches(comparisons), *notes_of(kernels, NOTE)]
    return table(f"Kernels in today's languages on {device}", columns, comparisons, notes, "languages")


def summary(comparisons: Sequence[Comparison]) -> list[str]:
    """Return a sentence on how close the kernels come to the steps; none without a ratio."""
    ratios = [ratio.estimate for comparison in comparisons if (ratio := comparison.ratio())]
    if not ratios:
        return []
    least, median, most = (show.factor(value) for value in (min(ratios), statistics.median(ratios), max(ratios)))
    return [
        f"In {show.several(len(ratios), 'row')}, the kernel farthest from the best step like it has {least} of that step's "
        f"speed, and the nearest {most}. Half of the rows have {median} or more."
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


def _beside_step(ratios: Column[Comparison], field: str, step: Callable[[Comparison], str]) -> Column[Comparison]:
    """Return a column of ratios whose small print names the step that each is over. field: of the frame, for its name."""

    def cell(comparison: Comparison) -> Cell:
        ratio = ratios.cell_of(comparison)
        return replace(ratio, small=f"{ratio.small} {step(comparison)}".strip())

    def name(comparison: Comparison) -> str | None:
        of_field = comparison.step if field == "step" else comparison.parent
        return of_field.variant if of_field else None

    return replace(ratios, cell=cell, fields={field: name, **ratios.fields})


def _step_words(comparison: Comparison) -> str:
    """Return the name of the best step like a kernel, and how the two differ."""
    if comparison.step is None:
        return "(no step in this precision has a time here)"
    sides = comparison.data.unlike(comparison.kernel.variant, comparison.step.variant)
    words = [
        f"the {side} {', '.join(conditions)}"
        for side, conditions in zip(("kernel", "step"), sides, strict=True)
        if conditions
    ]
    differences = f" ({'; '.join(words)})" * bool(words)
    return f"{comparison.step.variant}{differences}"
