"""Citation of the book: CITATION.cff, .zenodo.json and BibTeX, all from _config.yml and pyproject.toml.

`make citation` writes the two files of the repository; the site shows the BibTeX. A publisher sets the repository's address in
_config.yml, and nowhere else.
"""

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..paths import installed_book, project_root, write_whole

MESSAGE = "If you use this book or its measurements, please cite it by these data."
KEYWORDS = ("GPU", "OpenCL", "CUDA", "performance", "benchmark", "roofline", "reproducibility")


@dataclass(frozen=True)
class Citation:
    """Fields of a citation. repository is '' if the publisher has named none."""

    title: str
    author: str
    version: str
    licence: str
    abstract: str
    repository: str

    @staticmethod
    def of(root: Path) -> "Citation":
        """Read the settings of the checkout `root`; without pyproject.toml, those of the package."""
        import yaml

        site = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
        settings = root / "pyproject.toml"
        if not settings.exists():
            settings = installed_book() / "pyproject.toml"
        package = tomllib.loads(settings.read_text(encoding="utf-8"))["project"]
        address = site["sphinx"]["config"].get("repository_url") or ""
        return Citation(
            site["title"],
            site["author"],
            package["version"],
            package["license"],
            package["description"],
            address,
        )

    def cff(self) -> str:
        """Return the text of CITATION.cff, by version 1.2.0 of the Citation File Format."""
        fields: dict[str, Any] = {
            "cff-version": "1.2.0",
            "message": MESSAGE,
            "type": "software",
            "title": self.title,
            "abstract": self.abstract,
            "authors": [{"name": self.author}],
            "version": self.version,
            "license": self.licence,
            "keywords": list(KEYWORDS),
        }
        if self.repository:
            fields["repository-code"] = self.repository
        import yaml

        head = "# Made by `make citation` from _config.yml and pyproject.toml: change it there.\n"
        return head + str(yaml.safe_dump(fields, sort_keys=False, width=120))

    def zenodo(self) -> str:
        """Return the text of .zenodo.json, which Zenodo reads when a release is deposited."""
        fields: dict[str, Any] = {
            "upload_type": "software",
            "title": self.title,
            "description": self.abstract,
            "creators": [{"name": self.author}],
            "version": self.version,
            "access_right": "open",
            "license": self.licence,
            "keywords": list(KEYWORDS),
        }
        if self.repository:
            fields["related_identifiers"] = [{"identifier": self.repository, "relation": "isSupplementTo"}]
        return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"

    def bibtex(self) -> str:
        """Return an entry of BibTeX."""
        fields = {
            "title": f"{{{self.title}}}: {self.abstract}",
            "author": f"{{{self.author}}}",
            "version": self.version,
            "note": f"Licence: {self.licence}",
        }
        if self.repository:
            fields["url"] = self.repository
        inside = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items())
        return f"@software{{{self.title.lower()},\n{inside}}}\n"

    def bibtex_of_lab(self, name: str, title: str) -> str:
        """Return an entry of BibTeX for one lab of the book. name, title: of the lab."""
        fields = {
            "title": f"{{{title}}}",
            "booktitle": f"{{{self.title}}}: {self.abstract}",
            "author": f"{{{self.author}}}",
            "note": f"Lab {name}, version {self.version}. Licence: {self.licence}",
        }
        if self.repository:
            fields["url"] = self.repository
        inside = "".join(f"  {field} = {{{value}}},\n" for field, value in fields.items())
        return f"@incollection{{{self.title.lower()}-{name},\n{inside}}}\n"


def write_files(root: Path) -> None:
    """Write CITATION.cff and .zenodo.json of the checkout `root`."""
    citation = Citation.of(root)
    write_whole(root / "CITATION.cff", citation.cff())
    write_whole(root / ".zenodo.json", citation.zenodo())


if __name__ == "__main__":
    write_files(project_root())
