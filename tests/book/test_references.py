"""References of the book: each has an author or an institution, a title, a year and an address, or says that it is unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from pybtex.database import BibliographyData, parse_file, parse_string

from roofbook.book.references import references_of_lab

BOOK = Path(__file__).parents[2] / "book"
NO_DATE, NO_ADDRESS = "no date", "no address known"


def faults(references: BibliographyData) -> Mapping[str, list[str]]:
    """Return the fields that references lack, by key; references without a fault are left out."""
    lacking = {}
    for key, entry in references.entries.items():
        fields = entry.fields
        address = fields.get("url", "").startswith("https://") or re.match(r"10\.\d{4,}/", fields.get("doi", ""))
        found = {
            "author": bool(entry.persons.get("author") or fields.get("institution")),
            "title": bool(fields.get("title")),
            "year": bool(re.fullmatch(rf"(?:19|20)\d\d|{NO_DATE}", fields.get("year", ""))),
            "address": bool(address) != (NO_ADDRESS in fields.get("note", "")),
        }
        if missing := [name for name, is_there in found.items() if not is_there]:
            lacking[key] = missing
    return lacking


def test_every_reference_has_author_title_year_and_address() -> None:
    references = parse_file(BOOK / "references.bib")
    assert len(references.entries) > 10 and not faults(references)


@pytest.mark.parametrize(
    ("entry", "missing"),
    [
        ("title = {T}, year = {2020}, url = {https://a.b}", ["author"]),
        ("author = {A}, year = {2020}, url = {https://a.b}", ["title"]),
        ("author = {A}, title = {T}, url = {https://a.b}", ["year"]),
        ("author = {A}, title = {T}, year = {soon}, url = {https://a.b}", ["year"]),
        ("author = {A}, title = {T}, year = {no date}", ["address"]),
        ("author = {A}, title = {T}, year = {2020}, url = {https://a.b}, note = {no address known}", ["address"]),
    ],
)
def test_a_lacking_field_is_found(entry: str, missing: list[str]) -> None:
    assert faults(parse_string(f"@misc{{key, {entry}}}", "bibtex")) == {"key": missing}


def test_the_references_of_a_lab_are_text(tmp_path: Path) -> None:
    report, course = references_of_lab(BOOK / "references.bib", "lbm")
    assert report.startswith("Student of Advanced") and report.endswith(f"{NO_DATE}, no name stated, {NO_ADDRESS}")
    assert "Advanced HPC: base coursework, d2q9-bgk, no date, https://github.com/" in course
    assert not references_of_lab(BOOK / "references.bib", "none") and not references_of_lab(tmp_path / "no.bib", "lbm")


def test_every_reference_is_cited() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in BOOK.glob("*.md"))
    cited = set(re.findall(r"\{cite\}`([\w-]+)`", pages))
    assert cited == set(parse_file(BOOK / "references.bib").entries)
