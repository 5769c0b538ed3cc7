"""What the protocol of a measurement fixes: the cache before a sample, the seed, and when to stop. Serves all of measure/."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

UNTIMED = "test"
"""The scale whose cases take microseconds: its times tell nothing, so kernels may be compiled while samples are taken."""


@dataclass(frozen=True)
class Policy:
    """How samples are taken. `cache` and `seed` are part of a cell's identity; budgets only say when to stop."""

    cache: str = "cold"
    seed: int = 20
    noise: float = 0.01
    """Stop when the relative standard error of a variant's median is below this..."""
    budget_s: float = 0.5
    """...or its samples have taken this long, seconds, what empties the cache before each of them included."""
    minimum: int = 10
    """Samples at least..."""
    few: int = 6
    """...of a point of a sweep, and where they take three times `budget_s`: the fewest of which a sign test can tell a
    difference..."""
    scarce: int = 3
    """...and where one run outlasts `budget_s`."""
    maximum: int = 50
    limit_s: float = 150.0
    """A run that would take longer is not begun, seconds."""

    def identity(self) -> dict[str, Any]:
        return {"cache": self.cache, "seed": self.seed}

    def as_json(self) -> str:
        """As a row of the store has it."""
        return json.dumps(asdict(self), sort_keys=True)

    def warm(self) -> "Policy":
        """The same for peaks: caches are what is measured there, so they are not emptied. At most 0.5 s of samples."""
        return replace(self, cache="warm", budget_s=min(self.budget_s, 0.5))
