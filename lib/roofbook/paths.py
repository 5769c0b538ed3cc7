"""Paths of the library, the project and the cache; and files that are written whole, locked, or cached."""

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

from .ctrl_c import ctrl_c_waits
from .errors import UsageError

LIBRARY = Path(__file__).resolve().parent
"""This package."""


SETTINGS = "roofbook.toml"
"""File that makes a folder a project."""
GATHERED = Path("_build", "book")
"""Folder below a project in which the sources of its site are gathered."""


def is_book(folder: Path) -> bool:
    """Return whether a folder holds the book's notebooks and settings, as a checkout does."""
    return (folder / "experiments").is_dir() and (folder / "_config.yml").is_file()


def installed_book() -> Path:
    """Return the folder with the book of this library: its checkout, else the copy that came with the package."""
    checkout = LIBRARY.parents[1]
    return checkout if is_book(checkout) else LIBRARY / "shipped"


def installing(extra: str) -> str:
    """Return a clause with the command that installs an extra of this library: by make in a checkout, by pip elsewhere."""
    is_package = installed_book().is_relative_to(LIBRARY)
    command = f"pip install 'roofbook[{extra}]'" if is_package else f"make book WITH={extra}"
    return f"`{command}` installs it"


def project_root(start: Path | None = None) -> Path:
    """Return the project around a folder, by default around this one: a checkout, or the nearest folder upwards with SETTINGS
    or with labs.

    Without one it is this library's checkout, or for an installed library the folder itself. GATHERED is part of a project.
    """
    start_folder = (start or Path.cwd()).resolve()
    if start_folder.parts[-2:] == GATHERED.parts:
        start_folder = start_folder.parents[1]
    for folder in (start_folder, *start_folder.parents):
        if not folder.is_relative_to(LIBRARY) and (is_book(folder) or _is_project(folder, start_folder)):
            return folder
    book = installed_book()
    return start_folder if book.is_relative_to(LIBRARY) else book


def _is_project(folder: Path, start: Path) -> bool:
    """Return whether a folder has SETTINGS or labs, which this user or the owner of `start` made: a lab's code is executed."""
    markers = (folder / SETTINGS, *(folder / "labs").glob("*/__init__.py"))
    with contextlib.suppress(OSError):
        user = os.getuid() if hasattr(os, "getuid") else 0  # on Windows all files have owner 0
        owners = {user, 0, start.stat().st_uid}
        return any(marker.is_file() and marker.stat().st_uid in owners for marker in markers)
    return False


def read_regular(path: str | Path, most: int | None = None, *, follow: bool = True) -> bytes:
    """Return the content of a regular file. It waits for no pipe and asks no device.

    most: bytes that it may have. follow: whether it may be a link. Raise OSError for another kind of file, or a larger one.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if most is not None and status.st_size > most:
            raise OSError(errno.EFBIG, f"it has {status.st_size} bytes, {most} at most", str(path))
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read() if most is None else file.read(most)
    finally:
        os.close(handle)


def write_whole(path: Path, content: str | bytes | Iterable[bytes], *, durable: bool = False) -> None:
    """Write a file in one step: a reader finds the old content or the new one, never a part, also if this process dies.

    Missing folders are made. The content goes to a temporary file, which is then renamed. Text is written in UTF-8, and large
    content may come in pieces. durable: wait until it is on the disk, some milliseconds, so that the promise holds after a
    crash of the machine too. A link stays, and its target is written. A file that is not regular, such as /dev/null, is
    written directly.
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
            data = content.encode() if isinstance(content, str) else content
            file.writelines([data] if isinstance(data, bytes) else data)
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
            if private and (reason := not_private(os.fstat(folder))):
                raise UsageError(
                    f"{path.parent} {reason}; it must be a folder of yours that nobody else can write: remove it"
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
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode) or (private and status.st_uid != os.getuid()):
        file.close()
        raise UsageError(f"{path} is no file of yours; it must be one that you can lock: remove it")
    return file


def not_private(status: os.stat_result) -> str:
    """Return why a file's status is not that of a folder of this user alone; '' if it is."""
    if not stat.S_ISDIR(status.st_mode):
        return "is no folder"
    if status.st_uid != os.getuid():
        return f"belongs to the user {status.st_uid}, not to you"
    return "can be written by others" if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else ""


@contextlib.contextmanager
def scratch_folder(within: str | Path | None = None) -> Iterator[Path]:
    """Yield a temporary folder, which is removed after the block, also on Ctrl-C. within: by default the system's folder."""
    folder = tempfile.TemporaryDirectory(prefix="roofbook-", dir=within, ignore_cleanup_errors=True)
    try:
        yield Path(folder.name)
    finally:
        with ctrl_c_waits():
            folder.cleanup()


def expanded(text: str) -> str:
    """Expand `~` and `~NAME` in a user's name of a file or folder, since no shell expands them in --out=~/x.

    Errors: UsageError where there is no such home folder: a folder that is named `~NAME` would be made where one stands.
    """
    path = os.path.expanduser(text)
    if path.startswith("~") and not os.path.lexists(path.partition("/")[0]):
        whose = path.partition("/")[0].removeprefix("~")
        missing = f"there is no user {whose}" if whose else "the home folder is not known"
        raise UsageError(f"{text}: {missing}; ./{text} is a folder of that name")
    return path


def cache_dir() -> Path:
    """Return $XDG_CACHE_HOME/roofbook, or ~/.cache/roofbook; for a user without a home it cannot be written."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "roofbook"


def cached_text(kind: str, key: str, make: Callable[[], str]) -> str:
    """Return the text that `make` returns, or returned before for the same key. See `cached`."""
    return cached(kind, key, lambda: make().encode()).decode()


def cached(kind: str, key: str, make: Callable[[], bytes]) -> bytes:
    """Return the bytes that `make` returns, or returned before for the same key. An incomplete file is made again.

    kind: name of a folder in `cache_dir`. key: name of a file in it, of letters and digits. If the folder cannot be written or
    read, nothing is cached.
    """
    if (content := read_cached(kind, key)) is not None:
        return content
    content = make()
    write_cached(kind, key, content)
    return content


def read_cached(kind: str, key: str) -> bytes | None:
    """Return the bytes that were cached last for a key; None if there are none, or if the file is incomplete."""
    with contextlib.suppress(OSError):
        digest, _, content = (cache_dir() / kind / key).read_bytes().partition(b"\n")
        if digest == _digest(content):
            return content
    return None


def write_cached(kind: str, key: str, content: bytes) -> None:
    """Cache `content` for a key, in place of earlier content. Does nothing if the folder cannot be written."""
    with contextlib.suppress(OSError):
        write_whole(cache_dir() / kind / key, _digest(content) + b"\n" + content)


def cache_key(*parts: str) -> str:
    """Return a key for `cached`: different parts have different keys."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
