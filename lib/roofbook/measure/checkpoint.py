"""Samples of a case that was interrupted, kept until the same cells are measured again, which then goes on with them.

One JSON file a case under results/unfinished. They are no rows of the store: a cell becomes one when its samples are all
taken. Samples of a cell are found again only by the keys that say that code and machine are the same.
"""

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

Samples = Mapping[str, Any]
"""What was taken of a cell: its run, times, parts, rounds, clocks, and when it began; as JSON has it."""


def key_of(cell_key: str, env_key: str, role: str) -> str:
    """What a cell is found again by."""
    return f"{cell_key} {env_key} {role}"


class Unfinished:
    """The samples of one case of a lab, by what `key_of` makes of its cells, in a file under `folder`."""

    def __init__(self, folder: Path, lab: str, case: str) -> None:
        self.path = folder / f"{lab}.{case}.json"
        try:
            self.cells: dict[str, Samples] = dict(json.loads(self.path.read_text()))
        except (OSError, ValueError, TypeError):  # there are none, or none that could be read
            self.cells = {}

    def runs(self) -> set[str]:
        """Those that the samples are of."""
        return {str(taken["run"]) for taken in self.cells.values() if isinstance(taken, dict) and "run" in taken}

    def keep(self, begun: Mapping[str, Samples], done: Collection[str]) -> None:
        """Keep the samples of the cells `begun` and drop those of the cells `done`. No file is left of nothing."""
        self.cells = {key: taken for key, taken in {**self.cells, **begun}.items() if key not in done}
        if not self.cells:
            self.path.unlink(missing_ok=True)
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        part.write_text(json.dumps(self.cells, default=float))
        os.replace(part, self.path)
