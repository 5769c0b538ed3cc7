"""The page of history: each change once, with its time and reason, linked to its card; noise is no change."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

from roofbook.book import card_links, history_page, measurements
from roofbook.book.device_choices import HERE
from roofbook.book.input_hashes import InputHashes
from roofbook.book.manifest import Manifest
from roofbook.report import history_tables as tables
from roofbook.store.parquet import Store

from .test_measurements import data_of_three_runs


def words(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def draw_cards(root: Path, *names: str) -> None:
    """Draw the cards of a step that changed once, on these devices."""
    data = data_of_three_runs(root)
    for name in names:
        measurements.draw_recorded(root, data, name, f"Device {name}", Store(root / "results"))


def test_a_change_says_when_by_how_much_and_why(tmp_path: Path) -> None:
    draw_cards(tmp_path, "gpu", HERE.name)
    recorded_cards, local_cards = ([card_links.read_cards(tmp_path, "lbm", name)] for name in ("gpu", HERE.name))
    fragments = history_page.recorded(recorded_cards) | history_page.local(local_cards)
    changed = words(fragments["changed"])
    for text in (
        "fused on 128x128",
        "2026-01-02 10:00",
        "2.0",
        "code: the kernel's source changed",
        "these runs",
        "cccccccccc",
    ):
        assert text in changed
    assert 'data-of="lbm/gpu#fused~128x128"' in fragments["changed"] and "1 change beyond the noise" in words(
        fragments["here"]
    )
    assert 'data-of="lbm/here#fused~128x128"' in fragments["here"]
    assert all("code 1 1 0 0 0 0" in words(fragments[part]) for part in ("summary", "here")), (
        "one version, which is faster"
    )
    assert re.search(
        r"Some GPU, OpenCL 1 .*fused on 128x128", words(fragments["runs"])
    ) and "cccccccccc 2026-01-01 10:00 3 3 1" in words(fragments["commits"])


def test_a_measurement_of_the_host_counts_once_although_several_pages_show_it(tmp_path: Path) -> None:
    draw_cards(tmp_path, "gpu", "cpu")
    cards = [card_links.read_cards(tmp_path, "lbm", name) for name in ("gpu", "cpu")]
    assert len(tables.read_cards(cards)) == 1 and len(tables.changes(tables.read_cards(cards), "x").rows) == 1


def test_without_measurements_the_page_is_empty_and_without_changes_it_says_so(tmp_path: Path) -> None:
    assert {*history_page.recorded([]).values(), *history_page.local([]).values()} == {
        ""
    } and history_page.measurements_page([]) == ""
    empty = [{"lab": "lbm", "title": "T", "name": "gpu", "on": "G", "cards": []}]
    assert tables.NO_CHANGE in tables.changes(tables.read_cards(empty), "x").html
    assert tables.ONCE in tables.summary([]).html


def test_the_page_is_written_again_if_a_card_changed_and_a_lab_lists_its_devices(tmp_path: Path) -> None:
    (tmp_path / "book" / "_generated").mkdir(parents=True)
    (tmp_path / "results").mkdir()
    draw_cards(tmp_path, "gpu", HERE.name)
    manifest = Manifest(tmp_path)

    def stamps() -> dict[str, int]:
        history_page.update(tmp_path, manifest, InputHashes(tmp_path))
        paths = [*tmp_path.glob("book/_generated/*"), tmp_path / "book" / "labs" / "lbm" / "measurements.md"]
        return {path.name: path.stat().st_mtime_ns for path in paths}

    before = stamps()
    assert {"history-changed.html", "history-here.html", "measurements.md"} <= set(before) and stamps() == before
    page = (tmp_path / "book" / "labs" / "lbm" / "measurements.md").read_text()
    assert page.index('href="measurements/gpu.html">Device gpu</a>: 1 measurement<') < page.index(
        'href="measurements/here.html"'
    )
    card_links.keep_only(tmp_path, "lbm", [])
    assert stamps() != before and "gpu" not in (tmp_path / "book" / "labs" / "lbm" / "measurements.md").read_text()
    assert not (tmp_path / "book" / "labs" / "cnn" / "measurements.md").exists()
