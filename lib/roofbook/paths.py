"""Where things lie: the library, the checkout, the folder of what can be made again; and how a file is written whole."""

import contextlib
import errno
import hashlib
import os
import stat
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from .errors import UsageError, ctrl_c_waits

LIBRARY = Path(__file__).resolve().parent
"""This package."""


def project_root(start: Path | None = None) -> Path:
    """The checkout: the nearest folder with experiments/, from `start` or here upwards, else this library's own."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents, LIBRARY.parents[1]):
        if (folder / "experiments").is_dir() and (folder / "_config.yml").is_file():
            return folder
    raise UsageError(f"{here} is not in a checkout of Roofbook: no folder with experiments/ and _config.yml above it")


def read_regular(path: str | Path, most: int | None = None, *, follow: bool = True) -> bytes:
    """Return the content of a regular file. It waits for no pipe and asks no device.

    most: bytes that it may have. follow: whether a link may lead to it. Errors: OSError, whose `strerror` says what it is.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if most is not None and found.st_size > most:
            raise OSError(errno.EFBIG, f"it has {found.st_size} bytes, {most} at most", str(path))
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read() if most is None else file.read(most)
    finally:
        os.close(handle)


def write_whole(path: Path, content: str | bytes | Iterable[bytes], *, durable: bool = False) -> None:
    """Write a file so that whoever reads it, now or after a process died, finds the old content or the new one, never a part.

    Folders that are missing are made. The content is aside until it is complete, then takes the name in one step. Text is
    UTF-8, and what is large may come in pieces. durable: it is on the disk before it takes the name, so that this holds after
    a crash of the machine too; it takes some milliseconds. What a link leads to is written, and the link stays; what is no
    regular file, such as /dev/null, takes the content as it comes.
    """
    final = Path(os.path.realpath(path))
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path.parent)) from None
    aside = os.path.isfile(path) or not os.path.exists(path)
    part = final.with_name(f".{final.name}.{os.getpid()}.{threading.get_ident()}.tmp") if aside else path
    try:
        with part.open("wb") as file:
            whole = content.encode() if isinstance(content, str) else content
            file.writelines([whole] if isinstance(whole, bytes) else whole)
            if durable and aside:
                file.flush()
                os.fsync(file.fileno())
        if aside:
            os.replace(part, final)
    except OSError as error:
        error.filename = str(path)  # a write does not say of which file it is
        raise
    finally:
        if aside:
            part.unlink(missing_ok=True)


def open_lock(path: Path, *, private: bool = False) -> IO[bytes]:
    """Open a file that is there to be locked, and make it if it is missing. No link is followed, and nothing is truncated.

    private: the folder must be this user's own and closed to others, as where strangers can make folders too.
    Errors: UsageError for a link or whatever else is no file, and for a folder or a file of another user.
    """
    no_link = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        folder = os.open(path.parent, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | (no_link if private else 0))
        try:
            if private and (why := not_private(os.fstat(folder))):
                raise UsageError(
                    f"{path.parent} {why}; it must be a folder of yours that nobody else can write: remove it"
                )
            flags = os.O_RDWR | os.O_CREAT | no_link | getattr(os, "O_NONBLOCK", 0)
            file = os.fdopen(os.open(path.name, flags, 0o600, dir_fd=folder), "r+b", buffering=0)
        finally:
            os.close(folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EISDIR):
            raise UsageError(f"{path} is a link or no file; it must be a file of yours: remove it") from None
        error.filename = str(path)
        raise
    found = os.fstat(file.fileno())
    if not stat.S_ISREG(found.st_mode) or (private and found.st_uid != os.getuid()):
        file.close()
        raise UsageError(f"{path} is no file of yours; it must be one that you can lock: remove it")
    return file


def not_private(found: os.stat_result) -> str:
    """Return why what was found is no folder of this user alone; '' if it is one."""
    if not stat.S_ISDIR(found.st_mode):
        return "is no folder"
    if found.st_uid != os.getuid():
        return f"belongs to the user {found.st_uid}, not to you"
    return "can be written by others" if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else ""


@contextlib.contextmanager
def scratch_folder(within: str | Path | None = None) -> Iterator[Path]:
    """A folder of the block alone, `within` that for temporary files or another. Ctrl-C while it is removed leaves nothing."""
    folder = tempfile.TemporaryDirectory(prefix="roofbook-", dir=within, ignore_cleanup_errors=True)
    try:
        yield Path(folder.name)
    finally:
        with ctrl_c_waits():
            folder.cleanup()


def expanded(text: str) -> str:
    """Return what a user calls a file or a folder, with `~` and `~NAME` as home folders, which no shell expands in --out=~/x.

    Errors: UsageError where there is no such home folder: a folder that is named `~NAME` would be made where one stands.
    """
    whole = os.path.expanduser(text)
    if whole.startswith("~") and not os.path.lexists(whole.partition("/")[0]):
        whose = whole.partition("/")[0].removeprefix("~")
        missing = f"there is no user {whose}" if whose else "the home folder is not known"
        raise UsageError(f"{text}: {missing}; ./{text} is a folder of that name")
    return whole


def cache_dir() -> Path:
    """$XDG_CACHE_HOME/roofbook, or ~/.cache/roofbook; one that cannot be written for a user without a home."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "roofbook"


def cached_text(kind: str, key: str, make: Callable[[], str]) -> str:
    """The text that `make` makes, or what it made for the same key before: as `cached` keeps bytes."""
    return cached(kind, key, lambda: make().encode()).decode()


def cached(kind: str, key: str, make: Callable[[], bytes]) -> bytes:
    """The bytes that `make` makes, or what it made for the same key before. A file that is not whole is made again.

    key: letters and digits, the name of the file. Where the folder cannot be written or read, nothing is kept.
    """
    if (kept := read_cached(kind, key)) is not None:
        return kept
    made = make()
    write_cached(kind, key, made)
    return made


def read_cached(kind: str, key: str) -> bytes | None:
    """What was kept last under this name; None where there is nothing, or nothing whole."""
    with contextlib.suppress(OSError):
        found, _, kept = (cache_dir() / kind / key).read_bytes().partition(b"\n")
        if found == _digest(kept):
            return kept
    return None


def write_cached(kind: str, key: str, content: bytes) -> None:
    """Keep `content` under this name in the place of what was there; nothing where the folder cannot be written."""
    with contextlib.suppress(OSError):
        write_whole(cache_dir() / kind / key, _digest(content) + b"\n" + content)


def cache_key(*parts: str) -> str:
    """A key that other parts do not have."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _digest(kept: bytes) -> bytes:
    return hashlib.sha256(kept).hexdigest().encode()
