"""Print the section of CHANGELOG.md for a release's tag: `python3 .github/release_notes.py v0.1.0`.

It ends with code 2 and one line if the tag is not that of the package's version, or if the section is missing, empty, or still
marked as unreleased. The workflow of a release uses it as the release's text. Python alone is enough for it.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def notes(tag: str, changelog: str, version: str) -> str:
    """Return the text of a version's section. Raise ValueError with the reason if it cannot be released."""
    if tag != f"v{version}":
        raise ValueError(f"the tag is {tag}, but pyproject.toml has version {version}, whose tag is v{version}")
    sections = re.split(r"^## ", changelog, flags=re.M)[1:]
    for section in sections:
        heading, _, text = section.partition("\n")
        if re.match(rf"\[?{re.escape(version)}\]?(?![\w.])", heading):
            if not re.search(r"\b\d{4}-\d{2}-\d{2}\b", heading):
                raise ValueError(
                    f"CHANGELOG.md: '## {heading}' needs the day of the release: '## {version}, YYYY-MM-DD'"
                )
            if not text.strip():
                raise ValueError(f"CHANGELOG.md: the section '## {heading}' is empty")
            return text.strip() + "\n"
    raise ValueError(f"CHANGELOG.md has no section '## {version}, YYYY-MM-DD'")


if __name__ == "__main__":
    try:
        (given,) = sys.argv[1:]
        package = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
        print(notes(given, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), package), end="")
    except ValueError as error:
        print(f"error: {error}" if len(sys.argv) == 2 else "error: name one tag, such as v0.1.0", file=sys.stderr)
        sys.exit(2)
