"""Check that nothing has changed since a build that left nothing to do, by names, sizes and times of files, like `make`.

It takes a fraction of the time that hashing all inputs does (input_hashes.py). Files in _build are either unchanged or made
again by the builder.
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

RECORD = Path("_build", "untouched")
PRODUCTS = (
    Path("book", "_generated"),
    Path("_build", "recorded"),
    Path("_build", "measurements"),
    Path("_build", "manifest.json"),
    INDEX,
)


class FileTimes:
    """File times of the checkout `root` at one moment, for a build with the given parameters."""

    def __init__(self, root: Path, parameters: Mapping[str, Any]) -> None:
        """parameters: those of all notebooks; if empty, those of each page. Raise UsageError for an absent device."""
        self.root = root
        pages = {notebook: execute.page_of(root, notebook) for notebook in execute.notebooks(root)}
        parameters_by_lab = {notebook.stem: parameters or execute.parameters_of(root, notebook) for notebook in pages}
        devices = {
            lab: environment(lab, str(chosen.get("device") or "auto")) for lab, chosen in parameters_by_lab.items()
        }
        products = {*(root / path for path in PRODUCTS), root / "book" / "labs", *pages.values()}
        stores = {located(root, str(chosen.get("results") or "results")) for chosen in parameters_by_lab.values()}
        folders = {root / name for name in ("book", "experiments", "results", "_config.yml")} | {LIBRARY}
        folders |= {store for store in stores if isinstance(store, Path)}
        remote = {store: Store(store).names() for store in stores if isinstance(store, str)}
        files = dict(
            stamp for folder in {*folders, *registry.folders().values()} for stamp in _stamps(folder, products)
        )
        packages = _stamp(Path(sysconfig.get_path("purelib")))  # changes when a package comes or goes
        self.sources = cache_key(json.dumps([devices, packages, sorted(files.items()), remote], default=str))
        product_stamps = dict(stamp for path in products for stamp in _stamps(path, set()))
        lasting_parameters = {lab: lasting(chosen) for lab, chosen in parameters_by_lab.items()}
        self.all = cache_key(
            json.dumps([self.sources, sorted(product_stamps.items()), lasting_parameters], default=str)
        )

    def is_known(self) -> bool:
        """Return whether this state was recorded as one with nothing to do."""
        try:
            return (self.root / RECORD).read_text(encoding="utf-8") == self.all
        except OSError:
            return False

    def remember(self, before: "FileTimes") -> None:
        """Record that nothing is left to do, unless a file other than the build's products has changed since `before`."""
        if self.sources == before.sources:
            write_whole(self.root / RECORD, self.all)


def _stamps(path: Path, excluded: set[Path]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield size and time of a file, or of all files in a folder except hidden ones, compiled Python, and `excluded`."""
    if path in excluded or path.name.startswith((".", "__pycache__")):
        return
    if path.is_dir():
        with os.scandir(path) as entries:
            for file in entries:
                if file.is_dir():
                    yield from _stamps(Path(file.path), excluded)
                elif not file.name.startswith(".") and Path(file.path) not in excluded:
                    yield file.path, _stamp(Path(file.path))
    elif path.exists():
        yield str(path), _stamp(path)


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns
