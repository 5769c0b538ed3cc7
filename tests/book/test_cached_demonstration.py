"""The cache of demonstrations: each is computed once for its code and device, and is equal when it is read again."""

from pathlib import Path

import pandas as pd
import pytest

from roofbook.analysis.publication import Demonstration
from roofbook.book import cached_demonstration as module
from roofbook.devices.contract import Device
from roofbook.paths import project_root
from roofbook.spec import registry

DEMONSTRATION = Demonstration(
    "Mass", ["step", "mass"], [["0", "1"]], frozenset({"mass"}), pd.DataFrame({"mass": [1.0]}), ["kept"]
)


class Publication:
    def __init__(self, demonstration: Demonstration | None) -> None:
        self.stored, self.calls = demonstration, 0

    def demonstration(self, device: Device) -> Demonstration | None:
        self.calls += 1
        return self.stored


@pytest.mark.parametrize("demonstration", [DEMONSTRATION, None])
def test_a_demonstration_is_computed_once(
    demonstration: Demonstration | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: Device
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    publication = Publication(demonstration)
    monkeypatch.setattr(module, "publication", lambda lab: publication)
    first, again = (module.cached_demonstration(registry.get("lbm"), device, project_root()) for _ in range(2))
    assert publication.calls == 1
    if demonstration is None:
        assert first is again is None
        return
    assert first and again
    for read in (first, again):
        assert (read.caption, read.heads, read.rows, read.numbers, read.notes) == (
            DEMONSTRATION.caption, DEMONSTRATION.heads, DEMONSTRATION.rows, DEMONSTRATION.numbers, DEMONSTRATION.notes
        )  # fmt: skip
        pd.testing.assert_frame_equal(read.frame, DEMONSTRATION.frame, check_dtype=False)
    monkeypatch.setattr("roofbook.devices.provenance._version", lambda name: "another")
    module.cached_demonstration(registry.get("lbm"), device, project_root())
    assert publication.calls == 2, "another driver or library has come"
