"""What tells of each claim of the report, by its id in results/published/claims.csv."""

from collections.abc import Mapping

from ...evidence import Bandwidth, Best, Evidence, Intensity, Linear, NotTestable, Pair
from . import COUNTS, LAB

SMALL, MIDDLE, LARGE = GRIDS = ("128x128", "256x256", "1024x1024")
"""Of the four published grids those that the report's tables have."""
BEST = LAB.best
REPORTED = f"{BEST}@wg=32x1"
"""The best rung with the work-group of the report's figures."""


def pair(slower: str, faster: str, kind: str | None = None) -> tuple[Pair, ...]:
    """On each of the three grids."""
    return tuple(Pair(slower, faster, grid, kind=kind) for grid in GRIDS)


EVIDENCE: Mapping[str, tuple[Evidence, ...]] = {
    "port": pair("given-c", "ported"),
    "clfinish": pair("ported", "no-finish"),
    "fusion": pair("no-finish", "fused"),
    "soa": pair("fused", "soa"),
    "host-bound": (Pair("soa", "no-compute", SMALL),),
    "arguments": (
        Linear("buffers", SMALL),
        Linear("integers", SMALL),
        Pair(f"queue@buffers={COUNTS[-1]}", f"queue@integers={COUNTS[-1]}", SMALL),
    ),
    "struct-3d": pair("one-buffer", "device-struct"),
    "tree": pair("no-count", "tree"),
    "partials": pair("tree", "kept-partials"),
    "chunks": pair("kept-partials", "chunks-1792"),
    "branch-free": pair("kept-partials", "select"),
    "accelerate": pair("select", "accelerate-fused"),
    "bit-ops": pair("accelerate-fused", "bit-neighbours"),
    "hoisting": pair("accelerate-fused", "hoisted"),
    "shape": pair(f"{BEST}@wg=1x16", f"{BEST}@wg=16x1"),
    "32x1": tuple(Best("wg", ("32x1",), grid) for grid in GRIDS),
    "memory-bound": (Intensity(REPORTED, SMALL),),
    "bandwidth": tuple(Bandwidth(REPORTED, grid) for grid in GRIDS),
    "openmp": pair(BEST, "openmp", kind="cpu"),
    "consumer-card": (NotTestable("the claim compares two devices, and each verdict here is of one"),),
    "openacc": (NotTestable("the lab has no OpenACC program"),),
    "python-host": pair("c-host", BEST),
    "total": pair("given-c", BEST),
}
