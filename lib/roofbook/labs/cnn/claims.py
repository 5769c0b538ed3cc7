"""What tells of each claim of the report, by its id in results/published/claims.csv."""

from collections.abc import Mapping

from ...analysis.evidence import Best, Crowded, Evidence, Extremes, Pair
from . import CASES

(CASE,) = CASES["published"]


def without(optimisation: str) -> tuple[Pair]:
    """What it is worth in the best rung of the report."""
    return (Pair(f"fissioned@without={optimisation}", "fissioned", CASE),)


EVIDENCE: Mapping[str, tuple[Evidence, ...]] = {
    "parallel": (Pair("sequential", "fissioned", CASE),),
    "local-maximum": (Best("split", ("1792x64",), CASE),),
    "first-dimension": (Extremes("split", CASE),),
    "more-than-cores": (Crowded("space", CASE),),
    "global-id": without("global number"),
    "permutation": without("permutation"),
    "unrolling": without("unrolling"),
    "fission": without("fission"),
    "zero-init": without("bias as start value"),
    "alignment-fused": (Pair("unrolled", "aligned", CASE),),
    "alignment-fissioned": without("alignment"),
}
