"""Peers beside the ladder: each is compared with the best step of its dtype and of all, also where there is none."""

import pandas as pd
import pytest

from roofbook import report
from roofbook.analysis.case_data import CaseData
from roofbook.errors import UsageError

from .inspection import line
from .rows import frame, row


def peer_rows() -> pd.DataFrame:
    return frame(
        row("port", 4e-4), row("fused", 2e-4, "port"), row("tensor", 5e-5, "fused", dtype="float16"),
        row("fused", 2e-4, "port", role="again"), row("fused@wg=1", 1e-6, "fused", role="sweep"),
        row("probe", 1e-6, role="probe"), row("wrong", 1e-6, "fused", error=2e-6),
        row("library", 1e-4, role="peer"), row("half", 1e-4, role="peer", dtype="float16"),
        row("even", 2e-4, role="peer"), row("tf32", 1e-4, role="peer", dtype="tfloat32"),
        row("c", 8e-4, role="peer", device="some-cpu", device_name="Some CPU", device_kind="cpu"),
        row("broken", 1e-4, role="peer", status="failed", reason="out of memory"),
    )  # fmt: skip


PEERS = ["library", "half", "even", "tf32", "c", "broken", "absent"]


def test_each_peer_is_held_against_the_best_rung_of_its_dtype_and_of_all() -> None:
    table = report.peers(
        CaseData(peer_rows(), [], "256x256", peers=PEERS, skip_reasons={"absent": "PyTorch is not installed"})
    )
    frame_ = table.frame.set_index("variant")
    assert frame_.step[:5].fillna("").tolist() == ["fused", "tensor", "fused", "", "fused"]
    assert frame_.fastest[:5].tolist() == ["tensor"] * 5, "sweeps, probes and what is wrong are no steps"
    assert frame_.ratio[["library", "half", "even", "c"]].tolist() == pytest.approx([0.5, 2, 1, 4], rel=0.02)
    assert frame_.ratio_of_fastest[:5].tolist() == pytest.approx([2, 2, 4, 2, 16], rel=0.02)
    assert frame_.seconds["library"] == pytest.approx(1e-4, rel=0.06) and frame_.dtype["half"] == "float16"
    assert "slower" in line(table, "library") and "faster" in line(table, "library")
    assert ">same" in line(table, "even") and line(table, "half").count("faster") == 2
    assert "no step in this precision has a time here" in line(table, "tf32") and ">tensor<" in line(table, "tf32")
    assert "(on the host)" in line(table, "c") and line(table, "c").count("(across devices in these runs)") == 2
    assert "failed: out of memory" in line(table, "broken") and "PyTorch is not installed" in line(table, "absent")
    assert frame_.status.tolist() == ["ok"] * 5 + ["failed", "missing"]


def test_the_step_beside_a_peer_is_as_like_it_as_there_is_and_what_differs_is_said() -> None:
    rows = frame(
        row("converts", 2e-4, dtype="float16"), row("prepared", 5e-5, dtype="float16"),
        row("library", 1e-4, role="peer", dtype="float16"), row("laid out", 1e-4, role="peer", dtype="float16"),
        row("plain", 1e-3),
    )  # fmt: skip
    laid_out, last = "starts from operands that are already laid out", "leaves results channels-last"
    conditions = {"prepared": [laid_out], "laid out": [laid_out, last]}
    data = CaseData(rows, [], "256x256", peers=["library", "laid out"], conditions=conditions)
    table = report.peers(data)
    frame_of = table.frame.set_index("variant")
    assert frame_of.step.tolist() == ["converts", "prepared"], "the time of converting is in both, or in neither"
    assert frame_of.ratio.tolist() == pytest.approx([0.5, 2], rel=0.02)
    assert frame_of.fastest.tolist() == ["prepared"] * 2
    cells = {line.cells[0].text: line.cells for line in table.rows}
    assert cells["laid out"][5].small == f"(the peer {last})" and not cells["library"][5].small
    assert f"(the step {laid_out})" in line(table, "library"), "of the fastest step"
    alone = CaseData(rows[rows["variant"] != "converts"], [], "256x256", peers=["library"], conditions=conditions)
    only = report.peers(alone)
    assert only.frame.step.tolist() == ["prepared"] and only.rows[0].cells[5].small == f"(the step {laid_out})"


def test_a_peer_of_the_host_is_marked_also_where_most_peers_are_its() -> None:
    rows = peer_rows()
    on_host = rows["variant"] == "c"
    all_rows = pd.concat([rows, rows[on_host].assign(variant="c too"), rows[on_host].assign(variant="c again")])
    table = report.peers(CaseData(all_rows, [], "256x256", peers=["library", "c", "c too", "c again"]))
    assert all("(on the host)" in line(table, name) for name in ("c", "c too", "c again"))
    assert "(on " not in line(table, "library") and table.notes[-1] == "The host: Some CPU."
    assert not any(
        note.startswith("The host") for note in report.peers(CaseData(rows, [], "256x256", peers=["library"])).notes
    )


def test_peers_stand_without_a_rung_and_without_rows() -> None:
    alone = report.peers(CaseData(frame(row("library", 1e-4, role="peer")), [], "256x256", peers=["library"]))
    assert line(alone, "library").count("has a time here") == 2
    assert "not measured" in line(report.peers(CaseData(frame(), [], "256x256", peers=["library"])), "library")
    peers = report.peers(
        CaseData(
            frame(row("library", 1e-4, role="peer")),
            [],
            "256x256",
            peers=["library"],
            changes={"library": "It does less."},
        )
    )
    assert peers.columns[-3].text == "What it is" and "It does less." in line(peers, "library")
    with pytest.raises(UsageError, match="unknown case '8x8'; valid: 256x256"):
        report.peers(CaseData(peer_rows(), [], "8x8", peers=PEERS))
