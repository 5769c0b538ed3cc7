"""Storage of a store's files: how an address is opened, the storage in a folder, unique names, and leases for merging.

Serves parquet.py and transfer.py. The storage in a bucket is in bucket.py; both keep to storage_interface.py: a file is added
whole, and never over another.
"""

import contextlib
import glob
import json
import os
import random
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..ctrl_c import ctrl_c_waits
from ..errors import UsageError
from ..paths import expanded, read_regular, write_whole
from .file_check import MOST_BYTES
from .files import name_fault, warn_of_closed
from .identity import new_run_id
from .storage_interface import Entry, Storage, digest

SCHEMES = ("s3", "gs")
"""URL schemes of buckets; the scheme `file` names a folder."""
_STALE_S = 24 * 3600
"""Seconds after which an unfinished file counts as abandoned."""
LEASES = "leases"
"""Folder of the leases, below the root of a storage."""
LEASE_S = 600.0
"""Seconds that a lease lasts: an older one was abandoned by a process that died."""
_LONGEST_LEASE_S = 2 * LEASE_S
"""Seconds from now to the end of a lease, at most: clocks of several machines differ, but not by years."""


def storage_of(results: str | Path) -> Storage:
    """Return the storage at an address: a folder, or a URL of SCHEMES or `file`. UsageError for another URL."""
    scheme, _, path = str(results).partition("://")
    if "://" not in str(results):
        if url := re.search(rf"(?:^|/)((?:file|{'|'.join(SCHEMES)}):(?:/.*|$))", str(results)):
            raise UsageError(f"results are kept at no such URL as {url[1]}: after the colon there are two slashes")
        return Folder(Path(results))
    if scheme == "file" and path.startswith("/"):
        return Folder(Path(path))
    if scheme in SCHEMES and path.strip("/"):
        from .bucket import Bucket  # its HTTP client takes long to import

        return Bucket(str(results))
    raise UsageError(
        f"results are in a folder, or at s3://BUCKET/NAME, gs://BUCKET/NAME or file:///FOLDER, not {scheme}://"
    )


def located(root: Path, results: str | Path) -> str | Path:
    """Return the address that a user's `results` means: a URL unchanged, a folder relative to `root`; `~` is the home."""
    return str(results) if "://" in str(results) else root / expanded(str(results))


def keep(storage: Storage, folder: str, name: str, data: bytes, *, once: bool = False) -> str:
    """Add a file as NAME.parquet, or NAME.2.parquet and so on if another has that name. Return its name in the storage.

    once: if another file is named NAME.parquet, drop this one.

    A file of the same content under such a name counts as this file, so a retry after a lost answer adds no second one.
    """
    final, tries = f"{folder}/{name}.parquet", 0
    while not storage.add(final, data) and not once:
        numbers, tries = [1], tries + 1
        for entry in storage.entries(f"{folder}/{name}*.parquet"):
            with contextlib.suppress(FileNotFoundError):
                if entry.size == len(data) and storage.digest(entry) == digest(data):
                    return entry.name
            if number := re.fullmatch(rf"{re.escape(name)}\.(\d+)\.parquet", entry.name.rpartition("/")[2]):
                numbers.append(int(number[1]))
        # Only one of several competing processes gets the next number, so each picks a random one nearby.
        final = f"{folder}/{name}.{max(numbers) + random.randint(1, tries)}.parquet"
    return final


@contextlib.contextmanager
def lease(storage: Storage, folder: str) -> Iterator[bool]:
    """Yield whether this process alone may merge the files of `folder`, until the context ends or LEASE_S have passed.

    A lease is a numbered file under leases/. To take one that was given back or abandoned, a process adds the next number:
    only one process can. The newest number stays there: otherwise a slow process could add it a second time.
    """
    leases = storage.entries(f"{LEASES}/{folder}/{'[0-9]' * 9}")  # a writer that was killed leaves other names
    if leases and _end_of_lease(storage, leases[-1].name) > time.time():
        yield False
        return
    number = int(leases[-1].name.rpartition("/")[2]) + 1 if leases else 1
    name = f"{LEASES}/{folder}/{number:09d}"
    is_holder = False
    try:
        with ctrl_c_waits():  # otherwise a lease just taken would not be given back
            is_holder = storage.add(name, json.dumps({"holder": new_run_id(), "until": time.time() + LEASE_S}).encode())
        yield is_holder
    finally:
        if is_holder:
            with ctrl_c_waits():
                storage.replace(name, json.dumps({"until": 0}).encode())
                storage.remove(entry.name for entry in leases)


def _end_of_lease(storage: Storage, name: str) -> float:
    """Return when a lease ends, in seconds since 1970; 0 if its file is gone, is no lease, or is from a clock that was wrong.

    A file that is gone was replaced by the next number, so an attempt to add that number will fail.
    """
    try:
        end = float(json.loads(storage.read(name))["until"])
    except (FileNotFoundError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return 0.0
    return end if end < time.time() + _LONGEST_LEASE_S else 0.0


class Folder:
    """Storage in a folder of a file system with hard links. It need not exist: the first file that is added creates it.

    A file is written under a temporary name, flushed to the disk, then linked to its name.
    """

    is_remote = False

    def __init__(self, root: Path) -> None:
        self.root, self.address = root, os.path.realpath(root)
        fault = name_fault(self.address)
        if root.exists() and not root.is_dir():
            fault = "it is a file, not a folder"
        if any(folder.is_symlink() and not folder.exists() for folder in (root, *root.parents)):
            fault = "it is a link that leads nowhere"
        if fault:
            raise UsageError(f"results cannot be kept in {root}: {fault}")

    def entries(self, pattern: str) -> list[Entry]:
        warn_of_closed(self.root, pattern)
        entries = []
        for path in sorted(self.root.glob(pattern)):
            with contextlib.suppress(OSError):
                status = path.stat()
                entries.append(Entry(self.name(path), status.st_size, f"{status.st_mode} {status.st_mtime_ns}"))
        return entries

    def files(self, patterns: Sequence[str]) -> list[Path]:
        """Return the files that match, listed until two listings agree: one alone can miss a file that a merge just added."""
        for pattern in patterns:
            warn_of_closed(self.root, pattern)
        before: list[str] | None = None
        while (
            names := [name for pattern in patterns for name in sorted(glob.glob(pattern, root_dir=self.root))]
        ) != before:
            before = names
        return [self.root / name for name in names]

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
            with contextlib.suppress(OSError):  # the file system may be full or read-only
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
    """Create a folder and its parents, and put their names on the disk. UsageError if the system refuses."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"results cannot be kept in {folder}: {error.strerror}") from error
    for path in missing:
        sync(path.parent)


def _linked(part: Path, final: Path) -> bool:
    """Link `part` to the name `final`. Return False if another file has that name."""
    try:
        os.link(part, final)
    except FileExistsError:
        return False
    except OSError as error:
        raise UsageError(f"{final.parent} must allow hard links to hold results: {error.strerror}") from error
    return True


def sync(folder: Path) -> None:
    """Flush the list of a folder's files to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_stale(folder: Path) -> None:
    """Remove temporary files older than a day, which killed writers left; a younger one may still be in use."""
    for path in folder.glob(".*.tmp"):
        try:
            if time.time() - path.stat().st_mtime > _STALE_S:
                path.unlink()
        except FileNotFoundError:
            continue
