"""What pages show of the recorded devices: drawn again where code or records changed, by several processes; else kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from roofbook.book import recorded_html, recorded_page
from roofbook.book.dependencies import Dependencies
from roofbook.book.manifest import Manifest
from roofbook.spec import registry
from roofbook.store.files import Where
from roofbook.store.parquet import Store

from ..report.rows import row

LAB = "lbm"


def add(root: Path, run: str, lab: str = LAB, where: Where = "recorded") -> None:
    """One more run, of a step as it is today."""
    source = registry.get(LAB).variant("fused").source
    assert source is not None
    made = row(
        "fused", 1e-5, lab=lab, run=run, case="128x128", scale="published", cell_key="cell", env_key="environment"
    )
    Store(root / "results").append([made | {"source_sha256": source.sha256}], where)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the labs whose sections are drawn, in order, by a stand-in that tells how many runs it saw."""
    names: list[str] = []

    def sections(lab: Any, store: Store) -> str:
        names.append(lab.name)
        return f"<p>{lab.name}, {len(store.files(lab.name, where=('recorded',)))} runs</p>"

    monkeypatch.setattr(recorded_html, "sections", sections)
    return names


def test_what_failed_on_a_recorded_device_is_listed_in_its_section_and_nothing_where_nothing_did(
    tmp_path: Path,
) -> None:
    """So that `Nothing failed`, which names the machine that built the page, is not read as of all devices."""
    lab, store = registry.get(LAB), Store(tmp_path / "results")
    add(tmp_path, "20260101T000000Z-000000")
    assert "What failed" not in recorded_page.sections(lab, store)
    source = lab.variant("soa").source
    assert source is not None
    wrong = row("soa", 1e-5, lab=LAB, run="20260101T000000Z-000001", case="128x128", scale="published", status="failed")
    wrong |= {
        "source_sha256": source.sha256,
        "reason": "out of time: a run would take 80 s",
        "cell_key": "c",
        "env_key": "e",
    }
    store.append([wrong], "recorded")
    section = recorded_page.sections(lab, store)
    (table,) = re.findall(
        r"<caption>What failed on (.*?), scale published, and why</caption>(.*?)</table>", section, re.S
    )
    assert (
        table[0].endswith(" by OpenCL") and "out of time: a run would take 80 s" in table[1] and "fused" not in table[1]
    )


def test_sections_are_drawn_once_and_again_when_a_record_comes(tmp_path: Path, drawn: list[str]) -> None:
    lab, store = registry.get(LAB), Store(tmp_path / "results")
    assert (
        recorded_html.shown(lab, store, tmp_path) == recorded_html.shown(lab, store, tmp_path) == "<p>lbm, 0 runs</p>"
    )
    assert drawn == [LAB]
    add(tmp_path, "20260101T000000Z-000000")
    assert recorded_html.shown(lab, store, tmp_path) == "<p>lbm, 1 runs</p>" and drawn == [LAB] * 2
    add(tmp_path, "20260101T000000Z-000001", lab="cnn")
    assert recorded_html.shown(lab, store, tmp_path) == "<p>lbm, 1 runs</p>" and drawn == [LAB] * 2
    add(tmp_path, "20260101T000000Z-000002", lab=registry.PEAKS)
    recorded_html.shown(lab, store, tmp_path)
    assert drawn == [LAB] * 3, "bounds and roofs are of the ceilings"
    assert [path.name for path in (tmp_path / recorded_html.FOLDER).iterdir()] == ["lbm.html"]


@pytest.mark.parametrize("broken", ["", "<p>lbm, 0 ru", "<p>old</p>"])
def test_what_is_cut_short_or_of_another_hand_does_not_count(tmp_path: Path, drawn: list[str], broken: str) -> None:
    lab, store, kept = registry.get(LAB), Store(tmp_path / "results"), tmp_path / recorded_html.FOLDER / "lbm.html"
    recorded_html.shown(lab, store, tmp_path)
    kept.write_text(broken)
    assert recorded_html.shown(lab, store, tmp_path) == kept.read_text() == "<p>lbm, 0 runs</p>"
    assert Manifest(tmp_path).made_from(kept) == Dependencies(tmp_path).recorded(LAB, store)
    assert drawn == [LAB] * 2


def test_what_is_measured_here_leaves_the_sections_as_they_are(tmp_path: Path, drawn: list[str]) -> None:
    lab, store = registry.get(LAB), Store(tmp_path / "results")
    recorded_html.shown(lab, store, tmp_path)
    add(tmp_path, "20260101T000000Z-000000", where="local")
    recorded_html.shown(lab, store, tmp_path)
    assert drawn == [LAB]


def test_processes_draw_all_labs_and_a_notebook_finds_the_same(tmp_path: Path, drawn: list[str]) -> None:
    add(tmp_path, "20260101T000000Z-000000")
    recorded_html.draw(tmp_path)
    found = {path.stem: path for path in (tmp_path / recorded_html.FOLDER).iterdir()}
    assert set(found) == {*registry.names(), registry.PEAKS}
    text = recorded_html.shown(registry.get(LAB), Store(tmp_path / "results"), tmp_path)
    assert drawn == [], "the processes drew, with no stand-in"
    assert '<details class="recorded" open>' in text and "no device is recorded" not in text
    before = {name: path.stat().st_mtime_ns for name, path in found.items()}
    recorded_html.draw(tmp_path)
    assert {name: path.stat().st_mtime_ns for name, path in found.items()} == before
