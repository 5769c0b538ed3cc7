"""Pages of techniques: one for each, with its effect in every lab, case and recorded device, and the lists of the index page.

The pages techniques/KEY are Markdown, so that search finds them. book/techniques.md, written by hand, has the lists.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..analysis import format as show
from ..analysis.readings import Speedup
from ..analysis.store_devices import StoreDevice
from ..analysis.technique_effects import (
    Effect,
    StepEffects,
    TechniqueEffects,
    devices_of,
    effects_by_step,
    tagged_steps,
    technique_effects,
)
from ..escaping import escape, markdown, raw_html
from ..paths import cache_key, cached_text
from ..report import techniques_table as tables
from ..report.animations import animation_of_technique
from ..report.technique_forest import figures_of
from ..spec import registry
from ..spec.lab import Lab
from ..store.parquet import Store
from .input_hashes import InputHashes
from .manifest import Manifest

FOLDER = "techniques"
"""Folder of the pages, in book/ and in the site."""
FRAGMENTS = ("techniques-list.html", "techniques-never-paid.html", "techniques-slower.html")
"""Parts of the index page."""


def update(root: Path, manifest: Manifest, now: InputHashes, store: Store) -> None:
    """Make the stale pages and fragments, and remove pages of techniques that are no more in the list.

    A book without the index of techniques, such as that of a project of its own labs, has none of them.
    """
    if not (root / "book" / f"{FOLDER}.md").exists():
        return
    folder, made_from = root / "book" / FOLDER, now.ladders()
    fragments = [root / "book" / "_generated" / name for name in FRAGMENTS]
    if not any(manifest.stale(path, made_from) for path in fragments):
        return
    steps = [
        step
        for lab in map(registry.get, registry.names_of_site())
        for step in tagged_steps(lab, _cached_effects(lab, now.recorded(lab.name, store), store))
    ]
    techniques, devices = technique_effects(steps), devices_of(steps)
    library = now.library()
    for known in techniques:
        manifest.write(folder / f"{known.technique.key}.md", _cached_page(known, devices, library), made_from)
    for obsolete in folder.glob("*.md"):
        if obsolete.stem not in {known.technique.key for known in techniques}:
            obsolete.unlink()
    for path, text in zip(fragments, index_parts(techniques, steps), strict=True):
        manifest.write(path, text, made_from)


def _cached_effects(lab: Lab, made_from: Mapping[str, str], store: Store) -> dict[str, list[Effect]]:
    """Return the effects of a lab's steps, cached by their inputs: a change to one lab computes only that lab's again."""

    def computed() -> str:
        by_step = effects_by_step(lab, store)
        return json.dumps({step: [_as_data(effect) for effect in effects] for step, effects in by_step.items()})

    text = cached_text("technique-effects", cache_key(json.dumps(made_from, sort_keys=True)), computed)
    return {step: [_effect(data) for data in effects] for step, effects in json.loads(text).items()}


def _as_data(effect: Effect) -> dict[str, Any]:
    return {**effect._asdict(), "device": asdict(effect.device), "ratio": asdict(effect.ratio)}


def _effect(data: Mapping[str, Any]) -> Effect:
    return Effect(**{**data, "device": StoreDevice(**data["device"]), "ratio": Speedup(**data["ratio"])})


def _cached_page(known: TechniqueEffects, devices: Sequence[StoreDevice], library: Mapping[str, str]) -> str:
    """Return the page of a technique, cached by what it shows: its drawings take a while."""
    steps = [[step.lab.title, step.step.name, step.step.change, step.tags, step.effects] for step in known.steps]
    animation = animation_of_technique(known.technique.key)
    made_from = json.dumps([known.technique, animation, list(map(str, devices)), steps, library], default=str)
    return cached_text("technique-page", cache_key(made_from), lambda: page(known, devices))


def page(known: TechniqueEffects, devices: Sequence[StoreDevice]) -> str:
    """Return the page of a technique as Markdown."""
    technique, measured = known.technique, [step for step in known.steps if step.effects]
    about = markdown(technique.about)
    if technique.term and technique.term not in technique.about:
        about += f" See {{term}}`{technique.term}`."
    parts = [f"# {markdown(technique.name)}", about, markdown(tables.summary(known))]
    if alone := tables.effects_alone(known):
        parts.append(raw_html(alone))
    if animation := animation_of_technique(technique.key):
        parts += ["## How it works", raw_html(animation)]
    if measured:
        figures = "\n".join(figure.html for figure in figures_of(technique, measured, devices))
        parts += ["## Its effect in each lab, case and device", raw_html(figures)]
    parts += ["## The steps", raw_html(tables.steps_of_technique(technique, known.steps).html)]
    parts.append("[All techniques](../techniques.md)")
    return "\n\n".join(parts) + "\n"


def index_parts(techniques: Sequence[TechniqueEffects], steps: Sequence[StepEffects]) -> tuple[str, str, str]:
    """Return the parts of the index page, in the order of FRAGMENTS; '' for parts that need measurements, without any."""
    full_list = tables.technique_list(techniques, f"{FOLDER}/")
    if not any(step.effects for step in steps):
        return full_list, "", ""
    table = tables.techniques_table(techniques)
    full_list += f"<details><summary>{escape(table.caption)} as a table</summary>\n{table.html}</details>\n"
    slower = []
    for device in devices_of(steps):
        pairs = [(step, e) for step in steps for e in step.effects if e.device == device and e.ratio.word == "slower"]
        if pairs:
            listed = tables.slower_on(str(device), pairs)
            count = len({(step.lab.name, step.step.name) for step, _ in pairs})
            about = f"{device}: {show.several(count, 'step')}, {show.several(len(pairs), 'measurement')}"
            slower.append(f"<details><summary>{escape(about)}</summary>\n{listed.html}</details>\n")
    return full_list, tables.never_paid(steps).html, "".join(slower)
