"""Tables of record: the state of every cell, and the card of a run."""

from roofbook import report
from roofbook.store.states import State

from .rows import frame, lab_rows, row


def test_states_and_card() -> None:
    cell = {"lab": "lbm", "variant": "a", "case": "c", "backend": "opencl", "device": "d"}
    table = report.states([cell | State("stale-code", "source changed")._asdict()])
    assert "state stale-code" in table.html and "source changed" in table.html and "1 stale-code" in table.notes[0]
    environment = {"device": {"device": "Some GPU", "driver": "1.2"}, "libraries": {"numpy": "2", "cupy": "13"}}
    git = {"commit": "0123456789abcdef", "dirty": True, "change": "76543210"}
    gpu = {
        "uuid": "GPU-01", "pci_bus_id": "0000:3B:00.0", "driver": "580.65", "power_limit_w": 600.0,
        "power_limit_default_w": 700.0,
        "application_clock_mhz": 1980.0, "highest_clock_mhz": 1980.0, "persistence": True, "mig": False, "ecc": None,
        "compute_mode": "default",
    }  # fmt: skip
    provenance = {
        "environment": environment,
        "cpu": "Some CPU",
        "governor": None,
        "memory_bytes": 64e9,
        "git": git,
        "gpu": gpu,
    }
    facts = report.card(provenance, {"device": "auto", "scale": "quick", "remeasure": False}).frame
    assert dict(zip(facts.fact, facts.value, strict=True)) == {
        "device": "auto", "scale": "quick", "remeasure": "no", "driver": "1.2", "libraries": "numpy 2, cupy 13",
        "cpu": "Some CPU", "memory": "64.0\u202fGB", "commit": "0123456789ab with uncommitted changes (76543210)",
        "GPU": "GPU-01, 0000:3B:00.0", "GPU driver": "580.65", "power limit": "600 W, by default 700 W",
        "application clock": "1980 MHz", "GPU modes": "persistence mode on, MIG off, compute mode default",
    }  # fmt: skip


def test_nothing_failed_says_of_which_rows_and_so_does_the_list_of_what_did() -> None:
    """A page with several devices is not read as one on which nothing failed at all."""
    place = "Some GPU by OpenCL, scale quick"
    assert report.failed(frame(row("fused", 1e-4)), origin=place).notes == [f"Nothing failed on {place}."]
    table = report.failed(lab_rows(), origin=place)
    assert table.caption == f"What failed on {place}, and why" and not table.notes and "soa" in table.html
