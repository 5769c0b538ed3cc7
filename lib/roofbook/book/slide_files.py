"""Files of the slides of lessons, among the generated files and in the site. For Sphinx, which loads no figures."""

from pathlib import Path

FILE = "slides.html"
"""Name of the slides in the folder of a lab's pages."""
FOLDER = "slides"
"""Folder in the generated files with the slides of each lab."""


def source_of(root: Path, lab: str) -> Path:
    """Return the path of a lab's generated slides."""
    return root / "book" / "_generated" / FOLDER / f"{lab}.html"


def copy_slides(source: Path, site: Path) -> None:
    """Copy the slides of all labs into the site, and remove obsolete ones. source: the folder of generated files."""
    decks = {path.stem: path.read_text(encoding="utf-8") for path in (source / FOLDER).glob("*.html")}
    for obsolete in site.glob(f"labs/*/{FILE}"):
        if obsolete.parent.name not in decks:
            obsolete.unlink()
    for lab, text in decks.items():
        target = site / "labs" / lab / FILE
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
