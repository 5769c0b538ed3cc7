"""The report of a gate: a table with failures first, JSON that every program reads, annotations of GitHub."""

from __future__ import annotations

import json
import math

import pytest

from roofbook.analysis.gate import Findings, Gated
from roofbook.measure.side_by_side import Rule, Verdict
from roofbook.measure.stats import RatioEstimate
from roofbook.report import gate_report

RULE = Rule()


def gated(variant: str, verdict: Verdict, low: float = 0.999, high: float = 1.02, reason: str = "") -> Gated:
    ratio = RatioEstimate(
        math.sqrt(low * high) if math.isfinite(high) else 1.0, low, high, 5, low <= 1 <= high, "over runs"
    )
    return Gated(
        "lbm",
        variant,
        "128x128",
        "step",
        verdict,
        "some-gpu",
        "cuda",
        ratio,
        (1e-4, 1.03e-4),
        2,
        (1.0, 1.01),
        reason,
        "a/b,c.k",
        7,
    )


@pytest.fixture
def findings() -> Findings:
    failed = Gated(
        "lbm", "wrong", "128x128", "step", "broken", reason="now: wrong result:\n100% of it", file="d.k", line=3
    )
    some = [
        gated("same", "unchanged"),
        gated("slow", "slower", 1.0249, 1.035),
        gated("loud", "undecided", 0.0, math.inf),
    ]
    return Findings(
        "v1.0 (abcdef0123)", "abcdef0123" * 4, [*some, failed], 12, ["lbm new"], [f"lbm old-{n}" for n in range(10)]
    )


def test_what_fails_comes_first_and_thousandths_are_shown(findings: Findings) -> None:
    table = gate_report.gate_table(findings, RULE)
    assert [row.cells[0].text for row in table.rows] == ["lbm wrong", "lbm slow", "lbm loud", "lbm same"]
    assert [cell.text for cell in table.rows[1].cells[2:6]] == ["slower", "1.030 [1.025, 1.035]", "100", "103"]
    assert "12 variants have not changed; --unchanged measures these too." in table.notes
    assert any(note.endswith("lbm old-7 and 2 more.") for note in table.notes)
    assert not any(gate_report.WEAKER_NOTE in note for note in table.notes)
    assert gate_report.summary(findings) == "Against v1.0 (abcdef0123): 1 broken, 1 slower, 1 undecided, 1 unchanged."


def test_the_column_of_reasons_is_there_where_there_are_any(findings: Findings) -> None:
    assert gate_report.gate_table(findings, RULE).columns[-1].text == "Why"
    findings.outcomes.pop()
    assert gate_report.gate_table(findings, RULE).columns[-1].text == "Runs"


def test_rows_in_place_of_a_commit_are_called_the_weaker_comparison(findings: Findings) -> None:
    findings.commit = None
    assert any(note.startswith(gate_report.WEAKER_NOTE) for note in gate_report.notes(findings, RULE))
    assert json.loads(gate_report.as_json(findings, RULE))["comparison"] == "with stored rows, across runs"


def test_json_has_no_number_that_json_lacks(findings: Findings) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    document = json.loads(gate_report.as_json(findings, RULE), parse_constant=refuse)
    loud = next(result for result in document["results"] if result["variant"] == "loud")
    assert loud["high"] is None and loud["low"] == 0 and loud["ratios"] == [1.0, 1.01]
    assert document["failed"] and document["rule"] == {"tolerance": 1.03, "runs": 5, "least": 1.01}


def test_annotations_are_as_github_reads_them(findings: Findings) -> None:
    slow, loud, wrong = gate_report.annotations(findings)
    assert slow == (
        "::error file=a/b%2Cc.k,line=7,title=lbm slow%3A slower::slow on 128x128 on some-gpu by cuda: slower;"
        " 1.030 [1.025, 1.035] times as long as in v1.0 (abcdef0123)"
    )
    assert loud.startswith("::warning file=") and wrong.startswith("::error file=d.k,line=3,")
    assert wrong.endswith("now: wrong result:%0A100%25 of it") and "\n" not in wrong


def test_what_was_compared_is_said_and_that_nothing_was() -> None:
    same = Findings("v1.0", "abc", [], same=3, elsewhere=["lbm tensor"])
    assert gate_report.summary(same) == "The code of 3 variants is the same as in v1.0, so nothing was measured."
    assert any(note.endswith("does not run them: lbm tensor.") for note in gate_report.notes(same, RULE))
    for nothing in (Findings("v1.0", "abc", new=["lbm a"]), Findings("the rows of x", lack="there is no row of lbm")):
        assert gate_report.summary(nothing).startswith(f"nothing was compared with {nothing.against}: ")
        assert json.loads(gate_report.as_json(nothing, RULE))["compared"] == 0
    lacking = Findings("v1.0", "abc", [gated("old", "not compared")])
    assert lacking.compared == 0 and same.compared == 3
