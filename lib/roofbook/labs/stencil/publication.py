"""Evidence for each claim of the lab's report, the variants that its figures belong to, and conclusions.

The report: an rsqrt stencil in OpenCL: course report, Parallel Architectures, assignment 3.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from ...analysis.evidence import NO_GAIN, AboveMost, Best, Evidence, OrElse, Pair, pair_on
from ...analysis.lab_data import Measured
from ...analysis.publication import Publication
from ...analysis.sentences import without_missing
from ...devices.contract import Device
from . import CASES, LAB
from .problem import PUBLISHED_PASSES
from .whys import WHYS

(CASE,) = CASES["published"]
STEPS = (
    ("no-ifs", "compiled-sizes"),
    ("compiled-sizes", "rsqrt"),
    ("rsqrt", "native-rsqrt"),
    ("native-rsqrt", "local-memory"),
    ("native-rsqrt", "tasks-2"),
    ("flat", "float4"),
)
"""The report's other advice, besides removing the ifs: pairs of the step before it and the step after it."""


SIZE = "the report states no size"


TIMED = "local-memory-tasks-2"
"""The kernel that the report times."""


pair = partial(pair_on, CASE)
"""Return the evidence of a claim that rests on one pair of variants, on `CASE`."""


def staged(slower: str, faster: str, remark: str, unstaged: tuple[str, str]) -> tuple[OrElse]:
    """Return the pair of kernels through local memory, as in the report, or else that of others."""
    stand_in = Pair(*unstaged, CASE)
    return (OrElse(*pair(slower, faster, remark), stand_in, "from global memory"),)


EVIDENCE: Mapping[str, tuple[Evidence, ...]] = {
    "gpu": staged(
        "sequential",
        TIMED,
        f"one core of this machine's CPU by OpenCL, and the kernels alone; {SIZE}",
        ("sequential", "tasks-2"),
    ),
    "group-128": staged(
        f"{TIMED}@staged=64x1", f"{TIMED}@staged=128x1", SIZE, ("tasks-2@wg2=64x1", "tasks-2@wg2=128x1")
    ),
    "group-128-256": (Best("wg", ("128x1", "256x1"), CASE, other_points=("32x1", "64x1", "512x1", "1024x1")),),
    "tasks-1-2": staged("local-memory", TIMED, SIZE, ("native-rsqrt", "tasks-2")),
    "tasks-8": (Pair("tasks-8", "tasks-16", CASE, below=NO_GAIN),),
    "borders": (AboveMost("checked", "no-ifs", STEPS, CASE),),
    "rows": pair("checked@walk=columns", "checked@walk=rows"),
    "warp-multiple": pair(
        "checked@lanes=100", "checked@lanes=128", "their times; the published number is also 128 lanes over 100"
    ),
    "alignment": pair(
        "native-rsqrt@misaligned=1", "native-rsqrt@misaligned=0", "their times; transactions were not counted"
    ),
    "wide-types": pair("flat", "float4"),
    "invariants": pair("float4", "fused", f"{PUBLISHED_PASSES} passes of one element, and one kernel for all of them"),
    "local-memory": pair("native-rsqrt", "local-memory"),
}

PAIRS = (
    ("The port alone", [("checked", "sequential")]),
    ("Without its ifs", [("no-ifs", "checked")]),
    ("With the cheapest root", [("native-rsqrt", "compiled-sizes")]),
    ("Through local memory", [("local-memory", "native-rsqrt")]),
    (
        "Two elements per work-item",
        [("tasks-2", "native-rsqrt"), ("local-memory-tasks-2", "local-memory"), ("float2", "flat")],
    ),
    (f"All {PUBLISHED_PASSES} passes in one kernel", [("fused", "float4"), ("fused-float16", "float16")]),
    ("Compared with PyTorch on the GPU", [("float4", "torch-compiled"), ("fused", "torch-fused")]),
    (
        "Compared with PyTorch on the host's CPU",
        [("float16", "torch-cpu-compiled"), ("fused-float16", "torch-cpu-fused"), ("streams", "torch-cpu-fused")],
    ),
)
"""Conclusions: (the change, the pairs (step, compared with) that show its effect)."""


HINTS = (
    ("no bounds check", "no-ifs", "checked"),
    ("sizes compiled in", "compiled-sizes", "no-ifs"),
    ("one instruction for the root", "rsqrt", "compiled-sizes"),
    ("a root with a larger error", "native-rsqrt", "rsqrt"),
    ("local memory", "local-memory", "native-rsqrt"),
    ("two elements per work-item", "tasks-2", "native-rsqrt"),
    ("wide types", "float4", "flat"),
)
"""Hints of the report: (in words, the step that follows it, the step without it)."""


class Assignment(Publication):
    """The lab's report."""

    evidence = EVIDENCE
    whys = WHYS
    pairs = PAIRS
    stand_ins: Mapping[str, str] = {TIMED: "tasks-2", f"{TIMED}@staged=64x1": "tasks-2@wg2=64x1"}
    cases: Mapping[str, str] = {"size not stated, 23 iterations": "8192x8192"}
    unsized = frozenset(cases)

    def finding(self, measured: Measured) -> str:
        """Return which of the report's hints are faster than the step without them, and what gains most."""
        case = measured.main_case
        hints: dict[str, list[str]] = {"faster": [], "same": [], "slower": []}
        for words, step, reference in HINTS:
            ratio = measured.ratio(step, reference, case)
            if ratio and ratio.word in hints:
                how = f" ({measured.ratio_text(step, reference, case)} `{reference}`)" if ratio.word != "same" else ""
                hints[ratio.word].append(f"{words}, `{step}`{how}")
        if not any(hints.values()):
            return ""
        sentences = [f"On {case} these hints matter: {'; '.join(hints['faster'])}."] * bool(hints["faster"])
        sentences += [f"These change nothing: {'; '.join(hints['same'])}."] * bool(hints["same"])
        sentences += [f"These are slower: {'; '.join(hints['slower'])}."] * bool(hints["slower"])
        last = without_missing([f"It is {measured.ratio_text('fused', 'float4', case)} `float4`"])
        none = "" if hints["faster"] else f"On {case} none of the hints matters. "
        more = "What matters is to move fewer bytes: `fused` computes the root once and adds it in every pass."
        return none + " ".join([*sentences, more, *[f"{last}."] * bool(last)])

    def mapping(self, device: Device) -> Mapping[Any, str | tuple[str, str]]:
        """Map the report's rows to variants. It prints the time of its sequential program, `host CPU`, with each run."""
        ours = {**super().mapping(device), "work-group 64x1, 2 tasks per work-item": f"{TIMED}@staged=64x1"}
        return {**ours, **{(name, "host CPU"): "sequential" for name in ours}}


PUBLICATION = Assignment(LAB)
