"""Where a store keeps its files: a folder, or a bucket of an object store. Both add a file whole, over no other.

Serves the store, and whoever copies one into another. What only a bucket needs is in bucket.py.
"""

import contextlib
import hashlib
import json
import os
import random
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from ..errors import UsageError, ctrl_c_waits
from ..paths import expanded, read_regular, write_whole
from .file_check import MOST_BYTES
from .files import unnamed, warn_of_closed
from .identity import new_run_id

SCHEMES = ("s3", "gs")
"""Of the URLs that name a bucket; a URL of the scheme file names a folder."""
_STALE_S = 24 * 3600
LEASES = "leases"
LEASE_S = 600.0
"""After which a lease counts as left behind by one who died."""


class Entry(NamedTuple):
    """A file of a place: its name below it, as `local/lab=lbm/device=x/RUN.parquet`, and what changes with its content."""

    name: str
    size: int
    tag: str


class Storage(Protocol):
    """Errors of all but `read`: UsageError, one line, where the place cannot be reached or refuses."""

    address: str
    """What a person names it by, and what opens it again in another process."""
    root: Path
    """The folder in which its files are read: itself, or a cache of what was fetched."""
    is_remote: bool
    """Whether what is read has to be fetched."""

    def entries(self, pattern: str) -> list[Entry]:
        """The files whose names fit, sorted. `*` and the like stay within one part of a name."""
        ...

    def files(self, patterns: Sequence[str]) -> list[Path]:
        """Where to read the files whose names fit any of these, sorted by pattern and name: themselves, or copies."""
        ...

    def name(self, path: Path) -> str:
        """The name of one of `files`."""
        ...

    def read(self, name: str) -> bytes:
        """Errors: FileNotFoundError."""
        ...

    def digest(self, entry: Entry) -> str:
        """`digest` of its content. Errors: FileNotFoundError."""
        ...

    def add(self, name: str, data: bytes) -> bool:
        """Put a file there, whole or not at all; False where another has the name."""
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Put a file there over the one of its name. Only a lease is ever replaced, by its holder."""
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Files that are gone already count as removed."""
        ...


def storage_of(results: str | Path) -> Storage:
    """The place of an address: a URL of SCHEMES, or a folder."""
    scheme, _, rest = str(results).partition("://")
    if "://" not in str(results):
        if lost := re.search(rf"(?:^|/)((?:file|{'|'.join(SCHEMES)}):(?:/.*|$))", str(results)):
            raise UsageError(f"results are kept at no such URL as {lost[1]}: after the colon there are two slashes")
        return Folder(Path(results))
    if scheme == "file" and rest.startswith("/"):
        return Folder(Path(rest))
    if scheme in SCHEMES and rest.strip("/"):
        from .bucket import Bucket

        return Bucket(str(results))
    raise UsageError(
        f"results are in a folder, or at s3://BUCKET/NAME, gs://BUCKET/NAME or file:///FOLDER, not {scheme}://"
    )


def located(root: Path, results: str | Path) -> str | Path:
    """The address that a user's `results` stands for: a URL as it is, a folder seen from the checkout `root`; `~` is home."""
    return str(results) if "://" in str(results) else root / expanded(str(results))


def digest(data: bytes) -> str:
    """What tells one content from another. An object store has the same of what was put there in one piece."""
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def keep(place: Storage, folder: str, name: str, data: bytes, *, once: bool = False) -> str:
    """Add a file as NAME.parquet, or NAME.2.parquet and so on where another has the name. Returns its name in the place.

    once: where another has the name, that one is kept and this one dropped.

    One of this content under such a name is this very file: an answer that was lost on its way makes no second one.
    """
    final, tries = f"{folder}/{name}.parquet", 0
    while not place.add(final, data) and not once:
        numbers, tries = [1], tries + 1
        for entry in place.entries(f"{folder}/{name}*.parquet"):
            with contextlib.suppress(FileNotFoundError):
                if entry.size == len(data) and place.digest(entry) == digest(data):
                    return entry.name
            if number := re.fullmatch(rf"{re.escape(name)}\.(\d+)\.parquet", entry.name.rpartition("/")[2]):
                numbers.append(int(number[1]))
        # Of several that compete for the next number one gets it, so the others spread.
        final = f"{folder}/{name}.{max(numbers) + random.randint(1, tries)}.parquet"
    return final


@contextlib.contextmanager
def lease(place: Storage, folder: str) -> Iterator[bool]:
    """Whether this process alone may merge what `folder` holds, until it leaves the context or LEASE_S have passed.

    A lease is a numbered file under leases/. Whoever takes one that is left behind, or was given back, adds the next number:
    one of several can. The newest stays, or else a slow process could add a number that was there before.
    """
    found = place.entries(f"{LEASES}/{folder}/{'[0-9]' * 9}")  # a writer that was killed leaves other names
    if found and _until(place, found[-1].name) > time.time():
        yield False
        return
    number = int(found[-1].name.rpartition("/")[2]) + 1 if found else 1
    name = f"{LEASES}/{folder}/{number:09d}"
    mine = False
    try:
        with ctrl_c_waits():  # else nobody would give back what was just taken
            mine = place.add(name, json.dumps({"holder": new_run_id(), "until": time.time() + LEASE_S}).encode())
        yield mine
    finally:
        if mine:
            with ctrl_c_waits():
                place.replace(name, json.dumps({"until": 0}).encode())
                place.remove(entry.name for entry in found)


def _until(place: Storage, name: str) -> float:
    """When a lease ends. One that is gone was replaced by the next, whose number is taken then."""
    try:
        return float(json.loads(place.read(name))["until"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return 0.0


class Folder:
    """A folder of a file system with hard links. It need not exist: what is added first makes it.

    A file is written aside, put on the disk, then linked to its name.
    """

    is_remote = False

    def __init__(self, root: Path) -> None:
        self.root, self.address = root, os.path.realpath(root)
        why = unnamed(self.address)
        if root.exists() and not root.is_dir():
            why = "it is a file, not a folder"
        if any(each.is_symlink() and not each.exists() for each in (root, *root.parents)):
            why = "it is a link that leads nowhere"
        if why:
            raise UsageError(f"results cannot be kept in {root}: {why}")

    def entries(self, pattern: str) -> list[Entry]:
        warn_of_closed(self.root, pattern)
        found = []
        for path in sorted(self.root.glob(pattern)):
            with contextlib.suppress(OSError):
                at = path.stat()
                found.append(Entry(self.name(path), at.st_size, f"{at.st_mode} {at.st_mtime_ns}"))
        return found

    def files(self, patterns: Sequence[str]) -> list[Path]:
        """Listed until two listings agree: a single one can miss what a merge just moved."""
        for each in patterns:
            warn_of_closed(self.root, each)
        before: list[Path] | None = None
        while (found := [path for each in patterns for path in sorted(self.root.glob(each))]) != before:
            before = found
        return found

    def name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def read(self, name: str) -> bytes:
        return read_regular(self.root / name, MOST_BYTES, follow=False)

    def digest(self, entry: Entry) -> str:
        return digest(self.read(entry.name))

    def add(self, name: str, data: bytes) -> bool:
        final = self.root / name
        folder = final.parent
        if os.path.lexists(final):
            return False
        _make(folder)
        remove_stale(folder)
        part = folder / f".{secrets.token_hex(8)}.tmp"
        try:
            with part.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            linked = _linked(part, final)
            sync(folder)
        except OSError as error:
            raise UsageError(f"results cannot be kept in {folder}: {error.strerror}") from error
        finally:
            with contextlib.suppress(OSError):  # of a file system that takes no more
                part.unlink(missing_ok=True)
        return linked

    def replace(self, name: str, data: bytes) -> None:
        write_whole(self.root / name, data)

    def remove(self, names: Iterable[str]) -> None:
        folders = set()
        for name in names:
            (self.root / name).unlink(missing_ok=True)
            folders.add((self.root / name).parent)
        for folder in folders:
            sync(folder)


def _make(folder: Path) -> None:
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"results cannot be kept in {folder}: {error.strerror}") from error
    for path in missing:
        sync(path.parent)


def _linked(part: Path, final: Path) -> bool:
    """Give the file its name; False where another has it."""
    try:
        os.link(part, final)
    except FileExistsError:
        return False
    except OSError as error:
        raise UsageError(f"{final.parent} must allow hard links to hold results: {error.strerror}") from error
    return True


def sync(folder: Path) -> None:
    """Put the folder's names on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_stale(folder: Path) -> None:
    """Remove what writers that were killed more than a day ago left; a younger dot-file may still be written."""
    for path in folder.glob(".*.tmp"):
        try:
            if time.time() - path.stat().st_mtime > _STALE_S:
                path.unlink()
        except FileNotFoundError:
            continue
