"""What tells of each claim of the report, by its id in results/published/claims.csv."""

from collections.abc import Mapping

from ...analysis.evidence import AboveMost, Best, Evidence, Pair
from . import CASES

(CASE,) = CASES["published"]
STEPS = (
    ("no-ifs", "compiled-sizes"),
    ("compiled-sizes", "rsqrt"),
    ("rsqrt", "native-rsqrt"),
    ("native-rsqrt", "local-memory"),
    ("native-rsqrt", "tasks-2"),
    ("flat", "float4"),
)
"""What the report advises beside the removal of the ifs: each rung after the one it starts from."""


NO_GAIN = 1.05
"""Times as fast: less than that is no gain to speak of."""


def pair(slower: str, faster: str) -> tuple[Pair]:
    return (Pair(slower, faster, CASE),)


EVIDENCE: Mapping[str, tuple[Evidence, ...]] = {
    "gpu": pair("sequential", "tasks-2"),
    "group-128": pair("tasks-2@wg2=64x1", "tasks-2@wg2=128x1"),
    "group-128-256": (Best("wg", ("128x1", "256x1"), CASE, others=("32x1", "64x1", "512x1", "1024x1")),),
    "tasks-1-2": pair("native-rsqrt", "tasks-2"),
    "tasks-8": (Pair("tasks-8", "tasks-16", CASE, below=NO_GAIN),),
    "borders": (AboveMost("checked", "no-ifs", STEPS, CASE),),
    "rows": pair("checked@walk=columns", "checked@walk=rows"),
    "warp-multiple": pair("checked@lanes=100", "checked@lanes=128"),
    "alignment": pair("native-rsqrt@misaligned=1", "native-rsqrt@misaligned=0"),
    "wide-types": pair("flat", "float4"),
    "invariants": pair("float4", "fused"),
    "local-memory": pair("native-rsqrt", "local-memory"),
}
