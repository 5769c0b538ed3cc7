"""Sources of a site: pages, notebooks and settings. A checkout has them; of any other project they are gathered in _build/book.

Serves the commands that make pages. Nothing is ever written into an installed package.
"""

from collections.abc import Iterator
from pathlib import Path

from ..paths import installed_book, is_book, write_whole

GATHERED = Path("_build", "book")
"""Folder of the gathered sources, below the project."""
MADE = ("labs", "_generated")
"""Folders of book/ that a build makes. It also makes the notebooks in book/ itself."""


def pages_root(root: Path) -> Path:
    """Return the folder that holds the pages of the project `root`: its gathered sources if there are some, else itself."""
    gathered = root / GATHERED
    return gathered if not is_book(root) and is_book(gathered) else root


def gather(root: Path) -> Path:
    """Return the folder from which the site of the project `root` is built, with its sources as they are now.

    Without a project it is the installed book, its recorded rows linked. What is measured goes to the results of `root`.
    """
    if is_book(root):
        return root
    gathered, book = root / GATHERED, installed_book()
    for folder in ("book", "experiments"):
        _mirror(book / folder, gathered / folder)
    for part, results in (("local", root), ("published", book), ("recorded", book)):
        _link(gathered / "results" / part, results / "results" / part)
    write_whole(gathered / "_config.yml", (book / "_config.yml").read_bytes())  # last: it makes the folder a book
    return gathered


def _mirror(source: Path, target: Path) -> None:
    """Make the source files below `target` those below `source`. Equal ones are left, so that Sphinx reads them once."""
    names = set(_sources(source))
    for name in set(_sources(target)) - names:
        (target / name).unlink()
    for name in names:
        content = (source / name).read_bytes()
        if not (target / name).is_file() or (target / name).read_bytes() != content:
            write_whole(target / name, content)


def _sources(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder that neither a build nor a tool has made, relative to it."""
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        executed = folder.name == "book" and (
            name.parts[0] in MADE or (path.parent == folder and path.suffix == ".ipynb")
        )
        if path.is_file() and not executed and not any(part.startswith((".", "__pycache__")) for part in name.parts):
            yield name


def _link(name: Path, target: Path) -> None:
    """Make `name` a link to a folder, in place of an older link."""
    name.parent.mkdir(parents=True, exist_ok=True)
    target.mkdir(parents=True, exist_ok=True)
    if not name.exists() or name.resolve() != target.resolve():
        name.unlink(missing_ok=True)
        name.symlink_to(target)
