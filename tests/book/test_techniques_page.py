"""Pages of techniques: written from effects, one for each, and again only if their inputs change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from roofbook.analysis.technique_effects import Effect, devices_of, technique_effects
from roofbook.book import techniques_page
from roofbook.book.input_hashes import InputHashes
from roofbook.book.manifest import Manifest
from roofbook.spec.lab import Lab
from roofbook.spec.techniques import TECHNIQUES
from roofbook.store.parquet import Store

from ..analysis.technique_effects import STEPS

EFFECTS = {step.step.name: list(step.effects) for step in STEPS}


def test_a_page_says_what_a_technique_is_what_it_does_alone_and_shows_each_step() -> None:
    text = techniques_page.page(technique_effects(STEPS)[0], devices_of(STEPS))
    assert text.startswith("# Staging in local memory\n\nThe work\\-items") or text.startswith(
        "# Staging in local memory\n\nThe"
    )
    assert "{term}" not in text, "the sentence has the term"
    assert "See {term}`fp16`." in techniques_page.page(technique_effects(STEPS)[32], [])
    assert text.count("<figure") == 2 and text.index("## How it works") < text.index("## Its effect"), (
        "an animation too"
    )
    assert "local-memory</a>" in text, "also a step without a measurement"
    assert text.index("Steps that change nothing else") < text.index("## Its effect") < text.index("## The steps")
    without = techniques_page.page(technique_effects([])[0], [])
    assert without.count("<figure") == 1 and "0 steps, not measured" in without.replace("\\", "")


def test_effects_survive_the_cache() -> None:
    for effect in STEPS[0].effects:
        assert techniques_page._effect(techniques_page._as_data(effect)) == effect


def test_pages_are_made_once_and_obsolete_ones_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []

    def effects(lab: Lab, made_from: Mapping[str, str], store: Store) -> dict[str, list[Effect]]:
        computed.append(lab.name)
        return EFFECTS if lab.name == "cnn" else {}

    monkeypatch.setattr(techniques_page, "_cached_effects", effects)
    folder = tmp_path / "book" / techniques_page.FOLDER
    folder.mkdir(parents=True)
    (folder / "alchemy.md").write_text("# Alchemy\n", encoding="utf-8")
    manifest, store = Manifest(tmp_path), Store(tmp_path / "results")
    (tmp_path / "results").mkdir()
    techniques_page.update(tmp_path, manifest, InputHashes(tmp_path), store)
    assert not computed and [*folder.iterdir()] == [folder / "alchemy.md"], (
        "a book without their index has no pages of them"
    )
    (tmp_path / "book" / "techniques.md").write_text("# Techniques\n", encoding="utf-8")
    for _ in range(2):
        techniques_page.update(tmp_path, manifest, InputHashes(tmp_path), store)
    assert len(computed) == len(set(computed)) > 1
    assert {path.stem for path in folder.glob("*.md")} == TECHNIQUES.keys()
    generated = tmp_path / "book" / "_generated"
    assert all((generated / name).read_text(encoding="utf-8") for name in techniques_page.FRAGMENTS)
    assert "<summary>A GPU, CUDA: 1 step, 1 measurement</summary>" in (generated / "techniques-slower.html").read_text(
        encoding="utf-8"
    )
