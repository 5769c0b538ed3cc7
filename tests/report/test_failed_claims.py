"""The list of claims that did not hold: its entries, the numbers with them, and their links."""

from __future__ import annotations

import re

from roofbook.analysis.evidence import Finding, NotTestable
from roofbook.analysis.store_devices import StoreDevice
from roofbook.analysis.verdicts import Judged, Verdict
from roofbook.report import failed_claims

GPU, CPU = StoreDevice("a-gpu", "cuda", "A GPU", "gpu"), StoreDevice("a-cpu", "opencl", "A CPU", "cpu")
AGAIN = {"soa": "roofbook run lbm", "tree": "", "fused": ""}


def judged(claim: str, on_gpu: str, on_cpu: str = "holds") -> Judged:
    finding = Finding(0.5, 0.4, 0.6, "in one run")
    outcomes = {GPU: Verdict(on_gpu, finding), CPU: Verdict(on_cpu, finding)}
    return Judged(claim, f"{claim} is faster", "", (1.5,), NotTestable("made up"), ("fused", "soa@group=8"), outcomes)


def test_only_claims_that_failed_somewhere_are_listed_with_the_strongest_verdict_first() -> None:
    html = failed_claims([judged("fused", "holds"), judged("soa", "no difference", "reversed")], "lbm", "A lab", AGAIN)
    assert "fused is faster" not in html and html.count("<li>") == 1
    text = " ".join(re.sub("<[^>]+>", " ", html).split())
    assert text.startswith("A lab The report: soa is faster")
    assert "reversed on A CPU, OpenCL: 0.500 [0.400, 0.600] (in one run); no difference on A GPU, CUDA:" in text
    assert "roofbook run lbm" in text


def test_links_lead_to_kernels_and_to_the_row_of_each_piece_of_evidence() -> None:
    lines = [judged("tree", "holds"), judged("tree", "a difference")]
    html = failed_claims(lines, "lbm", "A lab", AGAIN)
    assert re.findall('href="([^"]+)"', html) == [
        "labs/lbm/kernels.html#fused",
        "labs/lbm/kernels.html#soa",
        "#claim-lbm-tree-2",
    ]
    assert "To measure it again" not in html


def test_there_is_no_list_where_all_holds() -> None:
    assert failed_claims([judged("soa", "holds weaker", "undecided")], "lbm", "A lab", AGAIN) == ""
