"""What tells of each claim of the report, by its id in results/published/claims.csv."""

from collections.abc import Mapping

from ...analysis.evidence import Counted, Even, Evidence, Fact, Pair, Parts, Share
from . import streams

CASE = "batch-10000"
"""The largest published batch: effects are those of its times."""
API = ("copy", "allocate", "free")
CONVOLUTIONS = (1, 2)


def pair(slower: str, faster: str) -> tuple[Pair]:
    return (Pair(slower, faster, CASE),)


def layer_time(slower: str, faster: str) -> tuple[Pair]:
    """Both layers with their copies and memory."""
    return (Pair(Parts(slower, ("layer",)), Parts(faster, ("layer",)), CASE),)


def op_times(slower: str, faster: str) -> tuple[Pair, ...]:
    """The kernels of each layer."""
    return tuple(
        Pair(Parts(slower, (f"op {number}",)), Parts(faster, (f"op {number}",)), CASE) for number in CONVOLUTIONS
    )


def even(number: int) -> Even:
    """How evenly the queues share the device's time in a layer."""
    layer = f"layer {number}"
    shares = tuple(f"share of stream {queue + 1}, {layer}" for queue in range(streams.QUEUES))
    return Even("streams", shares, CASE, f"share of {layer}")


EVIDENCE: Mapping[str, tuple[Evidence, ...]] = {
    "constant": pair("baseline", "constant"),
    "constant-theory": (Pair("baseline", "constant", CASE, below=2.0),),
    "api-time": (Pair(Parts("baseline", API), Parts("constant", (*API, "copy to constant memory")), CASE),),
    "tiled": pair("baseline", "tiled"),
    "tiled-layers": op_times("baseline", "tiled"),
    "tiled-constant": pair("tiled", "tiled-constant"),
    "unroll-matmul": pair("baseline", "unrolled-constant"),
    "unroll-share": (Share("unrolled-constant", "unroll", ("op",), CASE),),
    "fused-unroll": pair("unrolled-constant", "fused-constant"),
    "atomics-layers": op_times("constant", "atomic-channels"),
    "atomics-throughput": (Counted("memory", "baseline", "atomic-channels", CASE, kernel="direct", number=2),),
    "joint": pair("fused-constant", "joint"),
    "joint-resources": (
        Fact("registers", "fused-constant", "joint", CASE),
        Fact("local_bytes", "joint", "fused-constant", CASE),
    ),
    "streams": layer_time("baseline", "streams"),
    "streams-even": tuple(even(number) for number in CONVOLUTIONS),
    "streams-9": layer_time("tiled-atomic", "streams-tiled"),
    "streams-12": layer_time("joint", "streams-joint"),
    "op-time-streams": (
        Pair(
            Parts("streams", ("op",)),
            Parts("streams", tuple(f"op {number} as published" for number in CONVOLUTIONS)),
            CASE,
        ),
    ),
}
