"""Files that PoCL and PyOpenCL keep between processes: those that are not whole are removed, so that they are made again.

A machine that loses power, or a full disk, can leave them cut. PoCL ends the process that loads such a file, each time anew.
"""

import contextlib
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from ..paths import write_whole
from .library_folder import HEAD, is_whole_elf

_SLACK_S = 10.0
"""Seconds by which clocks of file systems may differ from the system's."""
YOUNG_S = 30.0
"""Seconds since its last change in which a file may be one that another process is writing."""
_SQLITE = b"SQLite format 3\0"
_CHECKED = 16 << 20
"""Bytes up to which all pages of a database are looked at."""


def remove_cut_kernels(folder: Path, stamp: Path | None = None) -> list[Path]:
    """Remove programs with an incomplete file from PoCL's cache, and return these files. PoCL compiles the programs again.

    A file that another process may be writing is left for a later call: without its folder, PoCL would end that process.
    stamp: a file that notes when that was done, so that only files that have changed since, or all after the system has
    started anew, are looked at.
    """
    since, now = _noted(stamp), time.time()
    cut = [
        path
        for path in _files(folder, (".so", ".bc"), since)
        if not _is_whole_kernel(path) and not _may_be_written(path, now)
    ]
    for path in cut:
        program = folder.joinpath(*path.relative_to(folder).parts[:2])  # its text stands two folders down
        with contextlib.suppress(OSError):
            shutil.rmtree(program) if program.is_dir() else program.unlink()
    if stamp:
        with contextlib.suppress(OSError):
            write_whole(stamp, json.dumps({"boot": _boot(), "time": now - YOUNG_S, "folder": str(folder)}))
    return cut


def remove_cut_databases(folder: Path) -> list[Path]:
    """Remove damaged databases of PyOpenCL, and return them. PyOpenCL makes their contents again."""
    cut = [path for path in _files(folder, (".sqlite", ".db")) if not is_whole_database(path)]
    for path in cut:
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm", f"{path.name}-journal"):
            path.with_name(name).unlink(missing_ok=True)
    return cut


def is_whole_database(path: Path) -> bool:
    """Whether a file is an SQLite database without damage; True where another process holds it."""
    try:
        with path.open("rb") as file:
            head, size = file.read(32), os.fstat(file.fileno()).st_size
        if not size:
            return True  # new
        if head[:16] != _SQLITE or size < 512:
            return False
        if size > _CHECKED:
            return True
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=0.2)) as database:
            return bool(database.execute("pragma quick_check(1)").fetchone() == ("ok",))
    except sqlite3.OperationalError:  # locked
        return True
    except sqlite3.DatabaseError:
        return False
    except OSError:
        return True


def is_whole_bitcode(content: bytes) -> bool:
    """Whether LLVM bitcode ends where its last block does.

    >>> is_whole_bitcode(b""), is_whole_bitcode(b"BC\\xc0\\xde")
    (False, False)
    """
    if content[:4] != b"BC\xc0\xde" or len(content) % 4:
        return False
    at = 4
    while at + 8 <= len(content):
        at += 8 + 4 * int.from_bytes(content[at + 4 : at + 8], "little")
    return at == len(content) > 4


def _is_whole_kernel(path: Path) -> bool:
    try:
        if path.suffix == ".bc":
            return is_whole_bitcode(path.read_bytes())
        if path.suffix != ".so":
            return True
        with path.open("rb") as file:
            return is_whole_elf(file.read(HEAD), os.fstat(file.fileno()).st_size)
    except OSError:  # another process removes or replaces it
        return True


def _may_be_written(path: Path, now: float) -> bool:
    """Return whether a file changed a moment ago, or a process of this user has it open, which may be stopped."""
    try:
        state = path.stat()
    except OSError:
        return True
    return state.st_mtime > now - YOUNG_S or any(_opens(fd, state) for fd in Path("/proc").glob("[0-9]*/fd/*"))


def _opens(fd: Path, state: os.stat_result) -> bool:
    """Return whether an entry of /proc/NUMBER/fd is the file of this state."""
    try:
        opened = fd.stat()
    except OSError:
        return False
    return (opened.st_dev, opened.st_ino) == (state.st_dev, state.st_ino)


def _files(folder: Path, endings: tuple[str, ...], since: float = 0.0) -> Iterator[Path]:
    """Yield files with these endings below a folder that have changed since a time.

    Every process that opens a device looks at all folders of the cache, which may be tens of thousands: so by scandir, which
    asks the system half as often as os.walk.
    """
    left = [os.fspath(folder)]
    while left:
        try:
            with os.scandir(left.pop()) as listed:
                entries = list(listed)
        except OSError:
            continue
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
                elif entry.name.endswith(endings):
                    state = entry.stat()
                    if max(state.st_mtime, state.st_ctime) > since - _SLACK_S:
                        yield Path(entry.path)


def _noted(stamp: Path | None) -> float:
    """Return when a stamp was written; 0 where there is none, or none since the system started."""
    try:
        note = json.loads(stamp.read_text(encoding="utf-8")) if stamp else {}
        return float(note["time"]) if note["boot"] == _boot() else 0.0
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0


def _boot() -> str:
    """Return the identifier of this start of the system; '' if it has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
