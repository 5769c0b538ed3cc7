"""Tables of record: the state of every cell, and the card of a run."""

import json

from roofbook import report
from roofbook.store.states import State


def test_states_and_card() -> None:
    cell = {"lab": "lbm", "variant": "a", "case": "c", "backend": "opencl", "device": "d"}
    table = report.states([cell | State("stale-code", "source changed")._asdict()])
    assert "state stale-code" in table.html and "source changed" in table.html and "1 stale-code" in table.notes[0]
    environment = {"device": {"device": "Some GPU", "driver": "1.2"}, "libraries": {"numpy": "2", "cupy": "13"}}
    git = {"commit": "0123456789abcdef", "dirty": True}
    provenance = {"environment": environment, "cpu": "Some CPU", "governor": None, "memory_bytes": 64e9, "git": git}
    facts = report.card(json.dumps(provenance), {"device": "auto", "scale": "quick", "remeasure": False}).frame
    assert dict(zip(facts.fact, facts.value, strict=True)) == {
        "device": "auto", "scale": "quick", "remeasure": "no", "driver": "1.2", "libraries": "numpy 2, cupy 13",
        "cpu": "Some CPU", "memory": "64.0\u202fGB", "commit": "0123456789ab with uncommitted changes",
    }  # fmt: skip
