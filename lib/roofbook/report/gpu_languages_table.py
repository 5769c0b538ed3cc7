"""Tables of one GPU's backends side by side: a line for each lab, and for each step with the ratios' intervals."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ..analysis import format as show
from ..analysis.gpu_languages import MeasuredStep, mean_ratio
from ..analysis.readings import Speedup
from ..devices.backends import OPENCL, WEBGPU, WEBGPU_UNCHECKED, label
from ..measure.stats import CONFIDENCE
from ..spec.lab import HOST_CLOCK
from .cell_format import INTERVAL_WORDS
from .columns import Column, count_column, number_column, ratio_column, table, text_column
from .html import Cell, StandingNote, Table

COMPARED = (OPENCL.name, WEBGPU.name, WEBGPU_UNCHECKED.name)
"""Backends with a column of ratios to the GPU's main one, where they were measured."""
NOTE = StandingNote(
    f"How many times as fast, with the {CONFIDENCE} interval; {INTERVAL_WORDS}. Samples of the same round are pairs. "
    "WebGPU without checks: the same WGSL, compiled without the checks of each access and without bounds of loops."
)


def overview(steps: Sequence[MeasuredStep]) -> Table:
    """Return a table with a line for each lab of a GPU: the geometric means of the ratios of its steps.

    Errors: ValueError without a step.
    """
    by_lab: dict[str, list[MeasuredStep]] = {}
    for step in steps:
        by_lab.setdefault(step.lab.title, []).append(step)
    device = steps[0].device

    def mean(backend: str, title: str) -> Cell:
        value = mean_ratio(by_lab[title], backend)
        return Cell(show.DASH if value is None else show.factor(value), "num")

    columns: list[Column[str]] = [
        text_column("Lab", "lab", str),
        count_column("Steps", "steps", lambda title: len(by_lab[title])),
    ]
    columns += [
        Column(f"{label(backend)} vs {device.backend_label}", partial(mean, backend), "num",
               {backend.replace("-", "_"): partial(_mean_of, by_lab, backend)})
        for backend in _measured(steps)
    ]  # fmt: skip
    return table(
        f"{device.name}: how many times as fast as {device.backend_label}, geometric means", columns, by_lab, sentences(steps)
    )  # fmt: skip


def _mean_of(by_lab: dict[str, list[MeasuredStep]], backend: str, title: str) -> float | None:
    return mean_ratio(by_lab[title], backend)


def _measured(steps: Sequence[MeasuredStep]) -> list[str]:
    """Return the backends of COMPARED that have a time of any step and are not the reference."""
    return [
        backend for backend in COMPARED if any(backend in step.readings and backend != step.device.backend for step in steps)
    ]  # fmt: skip


def sentences(steps: Sequence[MeasuredStep]) -> list[str]:
    """Return sentences on what the checks cost on a GPU, and on how often WebGPU is as fast as the reference."""
    device = steps[0].device
    words = [ratio.word for step in steps if (ratio := step.ratio(WEBGPU.name))]
    counts = {word: words.count(word) for word in ("faster", "same", "undecided", "slower")}
    listed = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    lines = [f"WebGPU against {device.backend_label}, of {len(words)} measurements: {listed}."]
    with_checks = [step for step in steps if step.cost_of_checks]
    before, after = (mean_ratio(with_checks, backend) for backend in (WEBGPU.name, WEBGPU_UNCHECKED.name))
    if before is not None and after is not None:
        lines.append(
            f"With its checks WebGPU has {show.factor(before)} of {device.backend_label}'s speed, without them "
            f"{show.factor(after)}: geometric means over the {len(with_checks)} measurements that have both."
        )
    return [*lines, *_cost_of_launches(steps)]


def _cost_of_launches(steps: Sequence[MeasuredStep]) -> list[str]:
    """Return a sentence for each lab whose times include the host's launches: how much longer its units take by WebGPU."""
    lines = []
    for lab in dict.fromkeys(step.lab for step in steps if step.lab.clock == HOST_CLOCK):
        seconds = [step.extra_seconds for step in steps if step.lab is lab]
        unit, size = show.time_unit(seconds)
        least, most = (show.number(extreme(seconds) / size) for extreme in (min, max))
        between = least if least == most else f"{least} to {most}"
        lines.append(
            f"{lab.title}, whose times include the host's launches: by WebGPU a {lab.unit} takes {between} {unit} longer."
        )
    return lines


def of_lab(steps: Sequence[MeasuredStep]) -> Table:
    """Return a table with a line for each step and case of one lab on a GPU. Errors: ValueError without a step."""
    device, lab = steps[0].device, steps[0].lab
    seconds = [step.reference.median for step in steps if step.reference]
    unit, size = show.time_unit(seconds)

    def time(step: MeasuredStep) -> Cell:
        reading = step.reference
        if reading is None:
            return Cell(show.DASH, "num")
        text = show.interval(reading.median / size, reading.low / size, reading.high / size)
        return Cell(text, "num", card_id=step.card)

    columns: list[Column[MeasuredStep]] = [
        text_column("Step", "variant", lambda step: step.variant),
        text_column("Case", "case", lambda step: step.case),
        Column(f"{device.backend_label} ({unit})", time, "num",
               {"seconds": lambda step: step.reference.median if step.reference else None}, f"s per {lab.unit}"),
    ]  # fmt: skip
    columns.append(
        number_column(
            f"WebGPU longer by ({unit})", "longer", lambda step: step.extra_seconds, size, f"s per {lab.unit}"
        )
    )
    for backend in _measured(steps):
        head = f"{label(backend)} vs {device.backend_label}"
        columns.append(ratio_column(backend.replace("-", "_"), head, steps, partial(_ratio, backend, "")))
    if WEBGPU_UNCHECKED.name in _measured(steps):
        of_checks = partial(_ratio, WEBGPU_UNCHECKED.name, WEBGPU.name)
        columns.append(ratio_column("without_checks", "Without checks vs with", steps, of_checks))
    return table(f"{lab.title} on {device.name}, step by step", columns, steps, [NOTE], "peers")


def _ratio(backend: str, to: str, step: MeasuredStep) -> Speedup | None:
    """Return `MeasuredStep.ratio` without the card of the measurement, which is on another lab's pages."""
    ratio = step.ratio(backend, to)
    return replace(ratio, of="") if ratio else None
