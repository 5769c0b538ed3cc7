"""References of a lab as text: its report and the files of its course, from book/references.bib."""

import re
from pathlib import Path

KINDS = ("report", "course")
"""Beginnings of a lab's keys in the file: `report-lbm` is its report, `course-lbm` the files of its course."""
_COMMAND = re.compile(r"[{}]|\\.")


def references_of_lab(path: Path, lab: str) -> list[str]:
    """Return 'author: title, year, note, address' for each reference of a lab; none without the file. path: of the file."""
    if not path.exists():
        return []
    from pybtex.database import parse_file

    entries = parse_file(path).entries
    lines = []
    for entry in (entries[key] for kind in KINDS if (key := f"{kind}-{lab}") in entries):
        authors = " and ".join(_plain(str(person)) for person in entry.persons.get("author", ()))
        facts = [_plain(entry.fields[name]) for name in ("title", "year", "note", "url") if name in entry.fields]
        lines.append(f"{authors}: {', '.join(facts)}")
    return lines


def _plain(text: str) -> str:
    """Return the text of a field without braces and commands of LaTeX."""
    return " ".join(_COMMAND.sub("", text).split())
