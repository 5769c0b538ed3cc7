"""Provenance of rows: code without a commit is marked in tables, machines of one name on the pages of recorded devices."""

from __future__ import annotations

import json
from typing import Any

import pytest

from roofbook import report
from roofbook.analysis import provenance_check
from roofbook.analysis.case_data import CaseData
from roofbook.analysis.store_devices import rows_by_device
from roofbook.devices import checkout
from roofbook.spec import registry

from ..report.rows import frame, row

KNOWN, LOST = "1" * 40, "2" * 40


@pytest.fixture(autouse=True)
def history(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the project lack the commit LOST."""
    monkeypatch.setattr(checkout, "absent", lambda commit: commit == LOST)


def of(git: dict[str, Any] | None, **facts: Any) -> str:
    return json.dumps({"git": git, **facts})


@pytest.mark.parametrize(
    ("provenance", "reason"),
    [
        (of({"commit": KNOWN, "dirty": False}), ""),
        (of({"commit": KNOWN, "dirty": None}), ""),  # an archive of a commit
        (of({"commit": KNOWN, "dirty": True}), "changed checkout"),
        (of({"commit": LOST, "dirty": False}), "commit not in the history"),
        (of({"commit": None, "dirty": False}), "unknown commit"),
        (of(None), "unknown commit"),
        ("{}", ""),
        (None, ""),
    ],
)
def test_why_a_row_is_not_traced(provenance: str | None, reason: str) -> None:
    assert provenance_check.untraced({"provenance": provenance}) == reason


def test_a_table_names_the_lines_that_no_commit_stands_for() -> None:
    states = {"a": {"commit": KNOWN, "dirty": False}, "b": {"commit": KNOWN, "dirty": True}, "c": None}
    rows = frame(*(row(name, 1e-3, provenance=of(git)) for name, git in states.items()))
    table = report.ladder(CaseData(rows, list(states), "256x256", bases=("a",)))
    assert table.notes[-1] == "Not traced to their code: changed checkout: b; unknown commit: c."
    clean = report.ladder(CaseData(rows[:1], list(states), "256x256", bases=("a",)))
    assert not [note for note in clean.notes if "traced" in note]
    many = [f"v{at}" for at in range(9)]
    rows = frame(*(row(name, 1e-3, provenance=of(None)) for name in many))
    assert "unknown commit: 9 of 9 lines." in report.ladder(CaseData(rows, many, "256x256", bases=("v0",))).notes[-1]


def test_rows_are_counted_by_their_fault() -> None:
    rows = frame(
        *(row(name, 1e-3, provenance=of(git)) for name, git in (("a", None), ("b", None), ("c", {"commit": KNOWN})))
    )
    assert provenance_check.counts(rows.to_dict("records")) == {"unknown commit": 2}


def machine(name: str, uuid: str | None = None, **facts: Any) -> str:
    card = {"uuid": uuid, "power_limit_w": 700.0} if uuid else None
    return json.dumps({"machine": name, "cpu": "A processor", "threads_usable": 8, "gpu": card, **facts})


def test_machines_of_one_name_are_told_apart_by_what_differs() -> None:
    cards = frame(row("a", 1e-3, provenance=machine("m1", "GPU-1")), row("b", 1e-3, provenance=machine("m1", "GPU-2")))
    assert provenance_check.machines(cards) == ["m1, GPU-1", "m1, GPU-2"]
    hosts = [machine("m1", cpu_id="model 143"), machine("m2", cpu_id="model 207"), "{}"]
    assert provenance_check.machines(frame(*(row("a", 1e-3, provenance=text) for text in hosts))) == [
        "m1, model 143", "m2, model 207",
    ]  # fmt: skip
    with_host = frame(row("a", 1e-3, provenance=machine("m1", "GPU-1")), row("b", 1e-3, provenance=machine("m1")))
    assert provenance_check.machines(with_host) == [], "one machine: its card and its own processor"


def test_the_host_of_a_device_is_the_machine_itself_and_not_another_of_its_name() -> None:
    """As far as both tell: rows from before machines had an identifier count by the name of their processor."""
    lab = registry.get("lbm")
    host = next(variant.name for variant in lab.ladder if variant.options.get("device") == "host")
    places = {"own": machine("m1"), "other": machine("m2"), "old": machine("m1").replace('"machine"', '"was"')}
    rows = frame(
        row("fused", 1e-5, provenance=machine("m1", "GPU-1")),
        *(row(host, 1e-3, device=name, device_kind="cpu", provenance=text) for name, text in places.items()),
    )
    ((_, device_rows),) = rows_by_device(lab, rows)
    assert set(device_rows["device"]) == {"some-gpu", "own", "old"}
