"""A demonstration is computed once for its code and device, and is the same when it is read again."""

from pathlib import Path

import pandas as pd
import pytest

from roofbook.analysis.publication import Demonstration
from roofbook.book import cached_demonstration as module
from roofbook.devices.contract import Device
from roofbook.paths import project_root
from roofbook.spec import registry

MADE = Demonstration(
    "Mass", ["step", "mass"], [["0", "1"]], frozenset({"mass"}), pd.DataFrame({"mass": [1.0]}), ["kept"]
)


class Publication:
    def __init__(self, made: Demonstration | None) -> None:
        self.made, self.asked = made, 0

    def demonstration(self, device: Device) -> Demonstration | None:
        self.asked += 1
        return self.made


@pytest.mark.parametrize("made", [MADE, None])
def test_a_demonstration_is_computed_once(
    made: Demonstration | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: Device
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    publication = Publication(made)
    monkeypatch.setattr(module, "publication", lambda lab: publication)
    first, again = (module.cached_demonstration(registry.get("lbm"), device, project_root()) for _ in range(2))
    assert publication.asked == 1
    if made is None:
        assert first is again is None
        return
    assert first and again
    for each in (first, again):
        assert (each.caption, each.heads, each.rows, each.numbers, each.notes) == (
            MADE.caption, MADE.heads, MADE.rows, MADE.numbers, MADE.notes
        )  # fmt: skip
        pd.testing.assert_frame_equal(each.frame, MADE.frame, check_dtype=False)
    monkeypatch.setattr("roofbook.devices.provenance._version", lambda name: "another")
    module.cached_demonstration(registry.get("lbm"), device, project_root())
    assert publication.asked == 2, "another driver or library has come"
