"""Sources of a site: pages, notebooks and settings. A checkout has them; of any other project they are gathered in _build/book.

The site of a project with labs shows these labs alone; without labs it is the book that came with the library. Serves the
commands that make pages. Nothing is ever written into an installed package.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from ..errors import UsageError
from ..escaping import markdown
from ..paths import GATHERED, SETTINGS, installed_book, is_book, write_whole
from ..spec import registry
from ..spec.exercise import exercises
from .new_lab import EXERCISES, notebook_of

MADE = ("labs", "_generated")
"""Folders of book/ that a build makes. It also makes the notebooks in book/ itself."""
KEPT = ("_assets", "glossary.md", "references.bib")
"""Files of the book that the site of a project has as well: the looks of its pages, and the terms that tables use."""
CONTENTS = {
    "The labs": ["glob: labs/*"],
    "Exercises": ["glob: exercises/*"],
    "Pages": ["glob: pages/*"],
    "Devices": ["file: devices", "file: history"],
    "Reference": ["file: glossary", "file: data"],
}
"""Table of contents of a project's site: its parts with their pages."""
PAGES = {
    "index.md": """# {title}

````{{fragments}} glance-ladders.html
No device is recorded: `roofbook record OUT` measures one, and `cp -r OUT/recorded results/` adds it.
````

````{{fragments}} glance-ends.html
Nothing is measured yet: `roofbook run LAB` does it.
````
""",
    "devices.md": """# Devices side by side

````{{fragments}} devices-overview.html
There is nothing to compare yet: no two recorded devices or backends have a measurement in common.
````

````{{fragments}} devices-pick.html
Nothing is recorded at a published or a large size yet.
````

````{{fragments}} devices-labs.html
There is a page for every lab that was recorded.
````
""",
    "history.md": """# What changed, and why

````{{fragments}} history-summary.html
No device is recorded.
````

````{{fragments}} history-changed.html
````

````{{fragments}} history-here.html
This machine has measured nothing yet.
````
""",
    "data.md": """# Data

````{{fragments}} data-files.html
No recorded rows are there to download. `roofbook export` writes all rows of this machine.
````
""",
}
"""Written pages of a project's site. A file of the same name in the project's own folder book/ replaces one."""


def pages_root(root: Path, lab: str = "") -> Path:
    """Return the folder that holds the pages of the project `root`: gathered sources if there are some, else itself.

    lab: a lab whose notebook in the project is about to be executed, for which the sources are gathered.
    """
    gathered = root / GATHERED
    if is_book(root) or not (is_book(gathered) or (root / "experiments" / f"{lab}.ipynb").is_file()):
        return root
    return gather(root) if lab else gathered


def gather(root: Path) -> Path:
    """Return the folder from which the site of the project `root` is built, with its sources as they are now.

    What is measured goes to the results of `root`.
    """
    if is_book(root):
        return root
    gathered, book = root / GATHERED, installed_book()
    own = registry.names_in(root / "labs")
    settings = (book / "_config.yml").read_bytes()
    if own:
        files = _files(book / "book", KEPT) | _pages(root) | _exercises(own) | _files(root / "book")
        notebooks = _notebooks(own) | _files(root / "experiments")
        settings = _settings(settings, title(root))
    else:
        files, notebooks = _files(book / "book"), _files(book / "experiments")
    _mirror(files, gathered / "book")
    _mirror(notebooks, gathered / "experiments")
    (root / "results" / "local").mkdir(parents=True, exist_ok=True)
    for part in ("local", "published", "recorded"):
        _link(gathered / "results" / part, (root if own or part == "local" else book) / "results" / part)
    write_whole(gathered / "_config.yml", settings)  # last: it makes the folder a book
    return gathered


def title(root: Path) -> str:
    """Return the title of a project: that of its settings, else the folder's name. UsageError for settings of another form."""
    path = root / SETTINGS
    try:
        title = tomllib.loads(path.read_text(encoding="utf-8")).get("title", root.name) if path.exists() else root.name
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f'{path} is no TOML: {error}; a project has such a line as title = "My kernels"') from None
    if not (isinstance(title, str) and title.strip()):
        raise UsageError(f'{path}: title is {title!r}; it is a text, such as title = "My kernels"')
    return " ".join(title.split())


def _settings(text: bytes, title: str) -> bytes:
    """Return the book's settings as those of a project with another title."""
    import yaml

    settings = yaml.safe_load(text)
    settings |= {"title": title, "author": title}
    config = settings["sphinx"]["config"]
    config["html_theme_options"]["logo"] = {"alt_text": f"{title}, to the front page", "text": title}
    return str(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)).encode()


def _pages(root: Path) -> dict[Path, bytes]:
    """Return the written pages of a project's site, and its table of contents."""
    parts = "".join(
        f"  - caption: {caption}\n    chapters:\n" + "".join(f"      - {page}\n" for page in pages)
        for caption, pages in CONTENTS.items()
    )
    pages = {Path(name): text.format(title=markdown(title(root))).encode() for name, text in PAGES.items()}
    return pages | {Path("_toc.yml"): f"format: jb-book\nroot: index\nparts:\n{parts}".encode()}


def _notebooks(names: list[str]) -> dict[Path, bytes]:
    """Return a plain notebook for each of these labs that has no mistake. One of the project's own replaces it."""
    texts = {}
    for lab in (lab for lab in registry.usable()[0] if lab.name in names):
        prose = [f"# {markdown(lab.title)}\n\n{markdown(lab.about)}", "", "## The baseline"]
        steps = [variant.name for variant in lab.ladder]
        texts[Path(f"{lab.name}.ipynb")] = notebook_of(lab.name, prose, steps).encode()
    return texts


def _exercises(names: list[str]) -> dict[Path, bytes]:
    """Return a page of exercises for each of these labs that has a kernel to write."""
    labs = [lab for lab in registry.usable()[0] if lab.name in names and exercises(lab).write]
    return {
        Path("exercises", f"{lab.name}.md"): EXERCISES.format(name=lab.name, title=markdown(lab.title)).encode()
        for lab in labs
    }


def _files(folder: Path, within: tuple[str, ...] = ()) -> dict[Path, bytes]:
    """Return the files below a folder that neither a build nor a tool has made, by their names in it.

    within: names in the folder; if there are some, only files of these count.
    """
    files = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        made = folder.name == "book" and (name.parts[0] in MADE or (path.parent == folder and path.suffix == ".ipynb"))
        hidden = any(part.startswith((".", "__pycache__")) for part in name.parts)
        if path.is_file() and not made and not hidden and (not within or name.parts[0] in within):
            files[name] = path.read_bytes()
    return files


def _mirror(files: Mapping[Path, bytes], folder: Path) -> None:
    """Make these the source files below `folder`. Equal ones are left, so that Sphinx reads them once."""
    old = _files(folder)
    for name in old.keys() - files.keys():
        (folder / name).unlink()
    for name, content in files.items():
        if old.get(name) != content:
            write_whole(folder / name, content)


def _link(name: Path, target: Path) -> None:
    """Make `name` a link to a folder, which need not exist, in place of an older link."""
    name.parent.mkdir(parents=True, exist_ok=True)
    if not name.is_symlink() or name.readlink() != target:
        name.unlink(missing_ok=True)
        name.symlink_to(target)
