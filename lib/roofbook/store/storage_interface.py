"""The interface of the storage of a store, for a folder (storage.py) and a bucket (bucket.py)."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol


class Entry(NamedTuple):
    """A file of a storage: its path below the root (`local/lab=lbm/device=x/RUN.parquet`), its bytes, a tag of its content."""

    name: str
    size: int
    tag: str
    """Text that changes if the content changes."""


class Storage(Protocol):
    """A folder or bucket that holds files. Every method raises a UsageError of one line if it cannot be reached or refuses."""

    address: str
    """Folder or URL that names the storage to a person, and opens it again in another process."""
    root: Path
    """Folder in which the files are read: the storage itself, or a cache of fetched files."""
    is_remote: bool
    """Whether files have to be fetched before they can be read."""

    def entries(self, pattern: str) -> list[Entry]:
        """Return the files whose names match, sorted. `*` and other wildcards match within one part of a path."""
        ...

    def files(self, patterns: Sequence[str]) -> list[Path]:
        """Return local paths of the files that match any pattern, sorted by pattern and name; a bucket fetches copies first."""
        ...

    def name(self, path: Path) -> str:
        """Return the name in the storage of a path that `files` returned."""
        ...

    def read(self, name: str) -> bytes:
        """Return the content of a file. FileNotFoundError if there is none; OSError if it cannot be read."""
        ...

    def digest(self, entry: Entry) -> str:
        """Return `digest` of a file's content. FileNotFoundError if the file is gone."""
        ...

    def add(self, name: str, data: bytes) -> bool:
        """Add a file, whole or not at all. Return False if another file has this name."""
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Write a file over the one of this name. Only leases are ever replaced, and only by their holders."""
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; a file that is already gone counts as removed."""
        ...


def digest(data: bytes) -> str:
    """Return the MD5 of a file's content: object stores report the same for an object that was uploaded in one piece."""
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
