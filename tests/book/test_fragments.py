"""Fragments of the store that written pages include: written with the first record, changed with it, removed with the last."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from roofbook.analysis.publication import publication
from roofbook.book import (
    exercises_page,
    fragments,
    front_page,
    history_page,
    kernels_page,
    lesson_page,
    studies,
    techniques_page,
)
from roofbook.spec import registry
from roofbook.store.parquet import Store

from ..analysis.test_comparison import small
from ..store.test_parquet import row

NAMES = {
    *("devices-pick.html", "devices-data.js", "devices-overview.html", "devices-labs.html"),
    *("glance-ladders.html", "glance-ends.html"),
}


@pytest.mark.thorough
def test_the_fragments_come_with_the_first_record_and_go_with_the_last(unmeasured: Callable[[], Path]) -> None:
    root = unmeasured()
    folder = root / "book" / "_generated"

    def times_of_fragments() -> dict[str, int]:
        paths = [*folder.glob("devices-*"), *folder.glob("glance-*")]
        return {path.name: path.stat().st_mtime_ns for path in paths}

    fragments.update(root)
    assert not times_of_fragments()
    small(root / "results")
    fragments.update(root)
    first = times_of_fragments()
    assert set(first) == NAMES and (folder / "devices-labs.html").read_text().count("<a href=") == 2
    pages = sorted((root / "book" / "labs").glob("*/devices.md"))
    assert sum(page.read_text().count("<details>") for page in pages) == 3
    for page in pages:
        assert f"labs/{page.parent.name}/devices.html" in (folder / "devices-labs.html").read_text()
    fragments.update(root)
    assert times_of_fragments() == first, "nothing has changed"
    text = (folder / "glance-ends.html").read_text()
    (folder / "glance-ends.html").unlink()
    fragments.update(root)
    assert (folder / "glance-ends.html").read_text() == text
    assert times_of_fragments() == {**first, "glance-ends.html": times_of_fragments()["glance-ends.html"]}, (
        "only the deleted fragment is written"
    )
    for path in (root / "results" / "recorded").rglob("*.parquet"):
        path.unlink()
    fragments.update(root)
    assert not times_of_fragments() and not any(page.exists() for page in pages)


def test_only_fragments_with_new_rows_in_the_store_are_written(
    unmeasured: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = unmeasured()
    names: list[str] = []

    def fake(name: str, result: object = "") -> Callable[..., object]:
        def make(*_: object) -> object:
            names.append(name)
            return result

        return make

    monkeypatch.setattr(fragments, "_devices_compared", fake("compared", [""] * (4 + len(registry.names()))))
    monkeypatch.setattr(fragments, "_verdicts", lambda lab, store: fake(lab.name, ("", ""))())
    for page in (kernels_page, lesson_page, techniques_page, history_page):  # which write their own files
        monkeypatch.setattr(page, "update", lambda *_: None)
    monkeypatch.setattr(exercises_page, "parts", lambda *_: [""] * len(exercises_page.PARTS))
    monkeypatch.setattr(fragments, "lacks", lambda: SimpleNamespace(html=""))
    for study in studies.notebooks(root):
        study.unlink()
    monkeypatch.setattr(front_page, "ladders", fake("ladders"))
    monkeypatch.setattr(front_page, "ends", fake("ends"))

    def renewed() -> list[str]:
        names.clear()
        fragments.update(root)
        return names.copy()

    store = Store(root / "results")
    claimed = [name for name in registry.names() if publication(registry.get(name)).evidence]
    assert renewed() == ["compared", *claimed, "ladders", "ends"] and renewed() == []
    store.append([row(scale="quick")])
    assert renewed() == ["ends"] and renewed() == []
    store.append([row(scale="published", run="20260101T000000Z-0a1b2d")])
    assert renewed() == ["compared", "lbm", "ends"] and renewed() == []
    store.append([row("soa", scale="published", run="20260101T000000Z-0a1b2d")])
    assert renewed() == ["compared", "lbm", "ends"], "the same run, gone on after an interrupt"
    store.append([row(scale="large", run="20260101T000000Z-0a1b2e")], "recorded")
    assert renewed() == ["compared", "lbm", "ladders", "ends"] and renewed() == []
    store.compact()
    assert renewed() == ["ends"], "the same runs in other files"


def test_the_costs_of_a_launch_and_a_fence_have_a_line_for_each_measured_device(tmp_path: Path) -> None:
    assert fragments.costs(tmp_path) == ""
    peaks, store = registry.get(registry.PEAKS), Store(tmp_path)

    def measured(name: str, device: str, seconds: float, case: str = "costs") -> dict[str, object]:
        kernel = peaks.variant(name).source
        return row(
            lab="peaks", variant=name, case=case, device=device.lower(), device_name=device, device_kind="gpu",
            backend="cuda", scale="published", role="peak", source_sha256=kernel.sha256 if kernel else "",
            samples_s=[seconds * 7] * 9, wall_s=[seconds * 7] * 9, rounds=range(9), units=7,
            extra='{"amount": 1, "rate": ""}', provenance="{}", error=0.0, bound=0.0,
        )  # fmt: skip

    store.append(
        [measured("fence", "One", 5e-7), measured("launch", "One", 8e-6), measured("copy", "Two", 1.0, "1 MiB")]
    )
    store.append([measured("launch", "Three", 4e-6)])
    (tmp_path / "local").rename(tmp_path / "recorded")
    html = fragments.costs(tmp_path)
    assert [device in html for device in ("One, CUDA", "Two, CUDA", "Three, CUDA")] == [True, False, True]

    text = re.sub("<[^>]*>", "", html).replace("\u202f", " ")
    assert html.count("<tr") == 4 and "500 [" in text and "4 000 [" in text
    assert html.index("launch") < html.index("fence"), "in the order of the lab"
