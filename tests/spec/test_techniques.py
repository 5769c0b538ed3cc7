"""The list of techniques, and the tags of all labs' steps."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.spec.techniques import GROUPS, TECHNIQUES, Tag, parsed, step_tags

GLOSSARY = Path(__file__).parents[2] / "book" / "glossary.md"
LABS = [pytest.param(registry.get(name), id=name) for name in registry.names()]


@pytest.mark.parametrize("lab", LABS)
def test_each_step_has_a_technique_or_a_reason(lab: Lab) -> None:
    tags, untagged = step_tags(lab), importlib.import_module(f"{lab.package}.techniques").UNTAGGED
    steps = [variant.name for variant in lab.ladder]
    assert [*steps] == [name for name in steps if bool(tags.get(name, ())) != (name in untagged)]
    assert tags.keys() | untagged.keys() == set(steps), "no tag is of a step that is gone"
    assert all(lab.variant(name).parent for name in tags), "a change needs something that it changes"
    assert all(len({tag.technique for tag in of_step}) == len(of_step) for of_step in tags.values())


def test_each_technique_is_one_of_a_step_and_has_a_name_of_its_own() -> None:
    added = {
        tag.technique.key
        for name in registry.names()
        for tags in step_tags(registry.get(name)).values()
        for tag in tags
        if not tag.taken_away
    }
    assert added == TECHNIQUES.keys()
    assert len({technique.name for technique in TECHNIQUES.values()}) == len(TECHNIQUES)
    assert {technique.group for technique in TECHNIQUES.values()} == set(GROUPS)
    assert all(re.fullmatch(r"[a-z-]+", key) and technique.about.endswith(".") for key, technique in TECHNIQUES.items())


def test_each_term_of_a_technique_is_in_the_glossary() -> None:
    terms = set(GLOSSARY.read_text(encoding="utf-8").splitlines())
    assert {technique.term for technique in TECHNIQUES.values()} - {""} <= terms


def test_a_minus_takes_a_technique_away_and_an_unknown_key_is_refused() -> None:
    staging, layout = TECHNIQUES["staging"], TECHNIQUES["layout"]
    assert parsed("a", "layout -staging") == (Tag(layout, False), Tag(staging, True))
    with pytest.raises(ValueError, match=r"^step a: fussion is no technique; there are staging, "):
        parsed("a", "fussion")


def test_a_lab_without_the_file_has_no_tags() -> None:
    assert step_tags(registry.get(registry.PEAKS)) == {}
