"""Whether anything was touched since a build that left nothing to do: names, sizes and times of files, as `make` compares them.

To ask this takes a fraction of what it takes to hash all that the book is made from (input_hashes.py), which answers where
something was touched. What lies in _build is as it was left, or the builder makes it again.
"""

import json
import os
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..paths import LIBRARY, cache_key, write_whole
from ..spec import registry
from ..store.parquet import Store
from ..store.storage import located
from . import execute
from .input_hashes import environment, lasting
from .site import INDEX

KNOWN = Path("_build", "untouched")
PRODUCTS = (
    Path("book", "_generated"),
    Path("_build", "recorded"),
    Path("_build", "measurements"),
    Path("_build", "manifest.json"),
    INDEX,
)


class FileTimes:
    """The checkout `root` at one moment, as a build with the parameters `wanted` would find it."""

    def __init__(self, root: Path, wanted: Mapping[str, Any]) -> None:
        """UsageError for a device that is not here."""
        self.root = root
        pages = {notebook: execute.page_of(root, notebook) for notebook in execute.notebooks(root)}
        given = {notebook.stem: wanted or execute.parameters_of(root, notebook) for notebook in pages}
        devices = {lab: environment(lab, str(each.get("device") or "auto")) for lab, each in given.items()}
        made = {*(root / each for each in PRODUCTS), root / "book" / "labs", *pages.values()}
        stores = {located(root, str(each.get("results") or "results")) for each in given.values()}
        folders = {root / name for name in ("book", "experiments", "results", "_config.yml")} | {LIBRARY}
        folders |= {each for each in stores if isinstance(each, Path)}
        remote = {each: Store(each).names() for each in stores if isinstance(each, str)}
        files = dict(each for folder in {*folders, *registry.folders().values()} for each in _stamps(folder, made))
        packages = _stamp(Path(sysconfig.get_path("purelib")))  # touched where one comes or goes
        self.sources = cache_key(json.dumps([devices, packages, sorted(files.items()), remote], default=str))
        products = dict(each for path in made for each in _stamps(path, set()))
        parameters = {lab: lasting(each) for lab, each in given.items()}
        self.all = cache_key(json.dumps([self.sources, sorted(products.items()), parameters], default=str))

    def is_known(self) -> bool:
        """Whether nothing was left to do when all was as it is now."""
        try:
            return (self.root / KNOWN).read_text(encoding="utf-8") == self.all
        except OSError:
            return False

    def remember(self, before: "FileTimes") -> None:
        """Nothing is left to do now, unless something but the build's own products changed since it began."""
        if self.sources == before.sources:
            write_whole(self.root / KNOWN, self.all)


def _stamps(path: Path, but: set[Path]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Size and time of a file, or of all in a folder but hidden ones, what Python compiled, and `but`."""
    if path in but or path.name.startswith((".", "__pycache__")):
        return
    if path.is_dir():
        with os.scandir(path) as found:
            for each in found:
                if each.is_dir():
                    yield from _stamps(Path(each.path), but)
                elif not each.name.startswith(".") and Path(each.path) not in but:
                    yield each.path, _stamp(Path(each.path))
    elif path.exists():
        yield str(path), _stamp(path)


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns
