"""Protocol of a measurement: the cache before a sample, the seed of the inputs, and when to stop sampling."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

UNTIMED = "test"
"""Scale whose cases take microseconds. Its times mean nothing, so kernels may be compiled while samples are taken."""


@dataclass(frozen=True)
class Policy:
    """Settings of sampling. `cache` and `seed` are part of a measurement's identity; the others only decide when to stop."""

    cache: str = "cold"
    seed: int = 20
    noise: float = 0.01
    """Relative standard error of a variant's median below which sampling stops."""
    budget_s: float = 0.5
    """Seconds of a variant's samples, emptying of the cache included, after which sampling stops."""
    minimum: int = 10
    """Least number of samples."""
    few: int = 6
    """Least number of samples of a point of a sweep, and of a variant whose samples take three times `budget_s`. It is the
    fewest with which a sign test can find a difference."""
    scarce: int = 3
    """Least number of samples if one run takes longer than `budget_s`."""
    maximum: int = 50
    limit_s: float = 150.0
    """Seconds of a run above which it is not begun."""

    def identity(self) -> dict[str, Any]:
        return {"cache": self.cache, "seed": self.seed}

    def as_json(self) -> str:
        """Return the policy as rows of the store have it."""
        return json.dumps(asdict(self), sort_keys=True)

    def warm(self) -> "Policy":
        """Return this policy for peaks: caches are measured there, so they are not emptied. At most 0.5 s of samples."""
        return replace(self, cache="warm", budget_s=min(self.budget_s, 0.5))
