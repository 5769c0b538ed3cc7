"""Table of what WebGPU lacks: each reason with the steps that it keeps from WebGPU. It is made from the ladders alone."""

from collections.abc import Iterable

from ..devices.backends import HOST, WEBGPU
from ..spec import registry
from ..spec.lab import Lab
from .columns import count_column, table, text_column
from .html import Table


def steps_by_reason(labs: Iterable[Lab]) -> dict[str, list[tuple[str, str]]]:
    """Return reason -> (lab, step) of those that WebGPU cannot run for it, the most frequent reason first.

    A step with several reasons is with each of them. Programs of the host are no steps of a GPU and have none.
    """
    steps: dict[str, list[tuple[str, str]]] = {}
    for lab in labs:
        for variant in lab.ladder:
            for reason in filter(None, variant.lacking(WEBGPU.name).split("; ") if HOST not in variant.needs else ()):
                steps.setdefault(reason, []).append((lab.name, variant.name))
    return dict(sorted(steps.items(), key=lambda item: -len(item[1])))


def lacks() -> Table:
    """Return the table of reasons, with a last line for the steps that run."""
    labs = [registry.get(name) for name in registry.names_of_site()]
    steps = steps_by_reason(labs)
    of_gpus = [variant for lab in labs for variant in lab.ladder if HOST not in variant.needs]
    running = sum(not variant.lacking(WEBGPU.name) for variant in of_gpus)
    notes = [f"{running} of {len(of_gpus)} steps have a text in WGSL. A step that lacks two things is in two lines."]
    columns = [
        text_column("WebGPU lacks", "reason", str, "wrap"),
        count_column("Steps", "count", lambda reason: len(steps[reason])),
        text_column("Which", "steps", lambda reason: _names(steps[reason]), "wrap"),
    ]
    return table("What keeps a step from WebGPU", columns, steps, notes)


SHOWN = 4
"""Number of steps of a lab that are named; of more, the table says how many."""


def _names(steps: list[tuple[str, str]]) -> str:
    """Return the steps of each lab in words."""
    by_lab: dict[str, list[str]] = {}
    for lab, step in steps:
        by_lab.setdefault(lab, []).append(step)
    words = []
    for lab, names in by_lab.items():
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN + 1 else ""
        words.append(f"{lab}: {', '.join(names[: SHOWN if more else None])}{more}")
    return "; ".join(words)
