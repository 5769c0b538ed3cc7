"""What written pages take from the store: there from the first record on, touched where it changes, gone with the last."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from roofbook import fragments

from .test_comparison import small

MADE = {"devices-pick.html", "devices-overview.html", "devices-cells.html", "glance-ladders.html", "glance-ends.html"}


def test_the_fragments_come_with_the_first_record_and_go_with_the_last(unmeasured: Callable[[], Path]) -> None:
    root = unmeasured()
    folder = root / "book" / "_generated"

    def made() -> dict[str, int]:
        found = [*folder.glob("devices-*"), *folder.glob("glance-*")]
        return {path.name: path.stat().st_mtime_ns for path in found}

    fragments.renew(root)
    assert not made()
    small(root / "results")
    fragments.renew(root)
    first = made()
    assert set(first) == MADE and (folder / "devices-cells.html").read_text().count("<details>") == 3
    fragments.renew(root)
    assert made() == first, "nothing has changed"
    for path in (root / "results" / "recorded").rglob("*.parquet"):
        path.unlink()
    fragments.renew(root)
    assert not made()
