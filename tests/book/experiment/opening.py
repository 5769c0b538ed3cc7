"""Helpers of the tests of an experiment: its quick parameters, the states of its cells, changes of a lab's steps."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from roofbook.book.experiment import Experiment
from roofbook.labs.lbm.lattice import HERE
from roofbook.spec.lab import Lab
from roofbook.spec.source import Source

QUICKLY = {"scale": "test", "budget_s": 1e-6}
Open = Callable[..., Experiment]


def drawn(output: Any) -> Any:
    """Return a table, figure or note itself if `output` is its cached text."""
    return getattr(output, "drawn", output)


def states_by_variant(experiment: Experiment) -> dict[str, str]:
    return {cell.variant.name: cell.state for cell in experiment.plan()}


def change_step(lab: Lab, name: str, **fields: Any) -> None:
    """Change fields of a step of the ladder."""
    lab.ladder = tuple(replace(step, **fields) if step.name == name else step for step in lab.ladder)


def edited_source(tmp_path: Path, source: Source, old: str, new: str) -> Source:
    """Return `source` read from a copy of the lab's folder in which `old` is replaced by `new` in all kernels."""
    folder = tmp_path / "kernels"
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"), dirs_exist_ok=True)
    matching = [path for path in folder.iterdir() if path.suffix in (".k", ".inc") and old in path.read_text()]
    assert matching
    for path in matching:
        path.write_text(path.read_text().replace(old, new))
    return Source(folder / source.path.name, source.knobs)
