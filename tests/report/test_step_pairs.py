"""Steps against each other: every pair that some case has both of, on all cases, and nothing from a failed row."""

import pytest

from roofbook import report
from roofbook.errors import UsageError

from .inspection import line
from .rows import frame, row

TOLD = (
    ("Without copies", [("fused", "port"), ("fused", "soa")]),
    ("Beside others", [("fused", "library"), ("soa", "library")]),
)


def rows() -> "report.Table":
    measured = [
        row("port", 4e-4), row("fused", 2e-4, "port"), row("soa", 1e-4, status="failed", reason="out of memory"),
        row("port", 1e-4, case="small"), row("fused", 2e-4, "port", case="small"),
        row("library", 2e-4, role="peer", case="small"), row("soa", 1e-4, case="small", error=1.0),
    ]  # fmt: skip
    return report.pairs(frame(*measured), TOLD, cases=["256x256", "small", "unmeasured"])


def test_each_pair_has_a_ratio_on_every_case_that_has_both() -> None:
    table = rows()
    assert [column.text for column in table.columns] == [
        "Step",
        "Compared with",
        "256x256",
        "small",
        "unmeasured",
        "What changes",
    ]
    frame_ = table.frame.set_index(["step", "reference", "case"])
    assert frame_.ratio.to_dict() == {
        ("fused", "port", "256x256"): pytest.approx(2, rel=0.02),
        ("fused", "port", "small"): pytest.approx(0.5, rel=0.02),
        ("fused", "library", "small"): pytest.approx(1, rel=0.02),
    }
    assert (frame_.low <= frame_.ratio).all() and (frame_.ratio <= frame_.high).all()
    first, second = (line(table, "fused"), table.rows[1])
    assert "faster" in first and "slower" in first and ">port<" in first and first.count("–") == 1
    assert [cell.text for cell in second.cells] == ["fused", "library", "–", "same", "–", "Beside others"]


def test_a_pair_without_a_ratio_is_left_out_and_without_any_there_is_no_table() -> None:
    assert len(rows().rows) == 2, "soa failed on one case and is wrong on the other"
    with pytest.raises(UsageError, match="no two steps that the page compares have a time here"):
        report.pairs(frame(row("port", 4e-4)), TOLD, cases=["256x256"])
    with pytest.raises(UsageError, match="no two steps"):
        report.pairs(frame(), TOLD, cases=["256x256"])
