"""The sentences of the lab's page: what was not measured is left out of them."""

from __future__ import annotations

from typing import cast

from roofbook.lab import Measured
from roofbook.labs.lbm import LAB
from roofbook.report.prose import NOT_MEASURED


class Known:
    """Cells of which some are measured."""

    def __init__(self, *measured: str) -> None:
        self.measured = measured
        self.cases = LAB.cases("test")

    def value(self, variant: str, case: str | None = None) -> str:
        return f"the time of {variant}" if variant in self.measured else NOT_MEASURED

    def times(self, variant: str, reference: str, case: str | None = None) -> str:
        return "so much over" if {variant, reference} <= set(self.measured) else f"{NOT_MEASURED} against"

    def fastest(self, case: str) -> str:
        return self.measured[0] if self.measured else LAB.best


def said(*measured: str) -> list[str]:
    return LAB.summary(cast(Measured, Known(*measured))).split("\n\n")


def test_the_summary_tells_all_that_was_measured() -> None:
    told = said("vectors", *(variant.name for variant in (*LAB.ladder, *LAB.peers)))
    assert len(told) == len(LAB.cases("test"))
    assert told[0].endswith(
        "The fastest rung here is `vectors`: the time of vectors a step, which is so much over `sequential` and so much over"
        " C + OpenMP on the host's cores. The host alone (`no-compute`) takes the time of no-compute a step, `soa` takes"
        f" the time of soa. One grid instead of two (`in-place`) is so much over `{LAB.best}`, fp16 storage (`half-storage`)"
        " is so much over `in-place`."
    )


def test_the_summary_leaves_out_what_was_not_measured() -> None:
    assert said("vectors", "sequential", "soa")[0].endswith(
        "`vectors`: the time of vectors a step, which is so much over `sequential`. `soa` takes the time of soa."
    )
    assert said("vectors")[0].endswith("`vectors`: the time of vectors a step.")
