"""What tells of each claim of the report, by its id in results/published/claims.csv."""

from collections.abc import Mapping

from ...analysis.evidence import Best, Counterexample, Evidence, Fact, Pair, Share
from .problem import PUBLISHED_CASES

CASE = next(iter(PUBLISHED_CASES.values()))
DENSE = ("row-groups", "filter-groups", "unrolled", "shared-index", "tiles")
"""Rungs that compute the same products."""
HALF = 0.5


def pair(slower: str, faster: str) -> tuple[Pair]:
    return (Pair(slower, faster, CASE),)


EVIDENCE: Mapping[str, tuple[Evidence, ...]] = {
    "gpu": pair("sequential", "lists"),
    "grid": pair("row-groups", "filter-groups"),
    "occupancy": (Fact("occupancy", "row-groups", "filter-groups", CASE),),
    "occupancy-not-speed": (Counterexample("occupancy", DENSE, CASE),),
    "atomic-pool": pair("atomic-pool", "filter-groups"),
    "pool-kernel": (Share("lists", "pooling", ("kernels",), CASE, HALF),),
    "cached-loads": pair("uncached", "filter-groups"),
    "fast-math": pair("filter-groups", "fast-math"),
    "unroll": pair("filter-groups", "unrolled"),
    "hoist": pair("unrolled", "shared-index"),
    "sparse": pair("filter-groups", "lists"),
    "input-shared": pair("input-in-local", "lists"),
    "tiling-128": (Best("layers", ("128",), CASE),),
    "textures": pair("lists", "images"),
    "init": pair("initialisation", "lists"),
    "copies": (Share("lists", "kernels", ("kernels", "copies"), CASE, HALF),),
}
